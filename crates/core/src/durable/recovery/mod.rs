//! Roll-forward: bringing back what fsync made durable after the last checkpoint (format section 12.3).
//!
//! Three steps, of which only the last writes to the device:
//!
//! 1. [`plan`] reads the chain of nodes and decides which blocks of it count: for every file those up to its last one
//!    with the fsync mark;
//! 2. the nodes are applied in the chain's order to the volume in memory: attributes and inline contents ([`inode`]),
//!    addresses ([`slots`]), names ([`names`]). Nodes are matched by inode and place in the file, never by node id. A
//!    data block stays where it is, and becomes valid there ([`adopt`]);
//! 3. the warm-node log and the data logs move to fresh segments, summaries of adopted blocks go to the SSA, and a
//!    checkpoint commits.
//!
//! A volume with a journal (`docs/JOURNAL-FORMAT.md`) has batches of records between the nodes: each is applied at the
//! place of its last block ([`records`]). The inodes that they give birth to are made before anything is applied.
//!
//! Kept true: until that checkpoint has committed, nothing is written to a segment in which a node of the chain or a
//! block that it names lies, nor to the place where the chain ends. So a crash at any moment leaves the same chain, and
//! the next mount recovers the same files. The chain is read more than once. One that changes between two readings is
//! refused before anything of it is committed. Whatever a chain holds, recovery ends, and either restores a volume
//! without contradictions or fails with a reason.
//!
//! Relies on the mount: nothing else changes the volume meanwhile.
//!
//! Three things differ from Linux, which shows contents that were gone at the fsync, or leaves an inode that nobody can
//! reach:
//! - Nodes and attributes that the last inode block does not have any more are freed.
//! - Blocks behind the end of a file that was cut go when the file is next changed.
//! - A directory that still has entries is not dropped when a file takes its name, but keeps a name of its own.

mod adopt;
mod inode;
mod names;
mod plan;
mod records;
pub(crate) mod recovered;
mod slots;

pub use recovered::Recovered;

use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::InodeRef;
use crate::raw::{ChainNode, Image};
use crate::volume::Change;
use adopt::Adoption;
use names::Name;
use plan::ChainPlan;
use records::JournalReplay;
use std::collections::hash_map::{Entry, HashMap};
use std::time::Duration;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::NodeKind;
use steadyfs_format::{Block, Ino};

/// What recovery has learnt about a file so far.
struct File {
    inode: InodeRef,
    /// Whether the latest word of the chain is that the file has an xattr node.
    has_xattr_node: bool,
}

/// A recovery in progress.
struct Recovery<'a> {
    files: &'a Files,
    change: &'a Change<'a>,
    adoption: Adoption<'a>,
    recovered: HashMap<Ino, File>,
}

impl Durable {
    /// Recovers what the chain holds, in memory; the caller commits a checkpoint. Returns how much that was.
    ///
    /// # Errors
    /// Damage, and no space: the device is as it was as far as its last checkpoint is concerned, and the mount must
    /// end.
    pub(crate) fn roll_forward(&self, image: &Image) -> Result<Recovered> {
        let plan = ChainPlan::read(&self.files, image)?;
        if plan.is_empty() {
            return Ok(Recovered::default());
        }
        if !steadyfs_rt::mutated("a-replay-leaves-a-tree") {
            plan.after.check(image)?;
        }
        if !steadyfs_rt::mutated("recovery-keeps-the-chain") {
            plan.pin(&self.files);
        }
        let blocks = {
            let change = self.vol.begin_change()?;
            let adoption = Adoption::new(&self.files);
            let mut recovery = Recovery { files: &self.files, change: &change, adoption, recovered: HashMap::new() };
            let mut replay = JournalReplay::new(image.batches());
            replay.make_births(&recovery, &plan.births)?;
            recovery.make_new_inodes(image, &plan)?;
            plan.read_again(image, |at, node| match node.is_batch {
                true => replay.take(&recovery, node),
                false => recovery.apply(&plan, at, node),
            })?;
            replay.finish(&recovery)?;
            if !steadyfs_rt::mutated("recovery-keeps-named-contents") {
                plan.pin_contents(&self.files);
            }
            self.vol.begin_writing()?;
            self.vol.placement.leave_chain()?;
            recovery.adoption.write_summaries();
            recovery.adoption.blocks()
        };
        let (files, nodes) = (plan.files.len() as u64, plan.nodes());
        let ChainPlan { batches, records, .. } = plan;
        Ok(Recovered { files, nodes, batches, records, blocks, elapsed: Duration::ZERO })
    }
}

impl Recovery<'_> {
    /// Makes the inodes that the checkpoint does not have, before their numbers can be given to anything else.
    fn make_new_inodes(&mut self, image: &Image, plan: &ChainPlan) -> Result<()> {
        for (&ino, file) in &plan.files {
            if let Some(at) = file.born {
                let node = plan.links[at].read_again(image)?;
                let inode = node.page.with(|block| self.make_inode(ino, RawInode::view(block)))?;
                let earlier = self.recovered.insert(ino, File { inode, has_xattr_node: false });
                assert!(earlier.is_none(), "inode {ino} was made twice");
            }
        }
        Ok(())
    }

    /// Applies the node at `at`, if it counts.
    fn apply(&mut self, plan: &ChainPlan, at: usize, node: &ChainNode) -> Result<()> {
        let ino = node.footer.ino();
        let Some(wanted) = plan.files.get(&ino).filter(|wanted| at <= wanted.last) else { return Ok(()) };
        assert!(
            wanted.born.is_none() || self.recovered.contains_key(&ino),
            "node {at} of the chain is applied before its inode {ino} was made"
        );
        if let Entry::Vacant(place) = self.recovered.entry(ino) {
            let inode = self.files.inode(ino)?;
            let has_xattr_node = inode.inode.read(|raw| !raw.xattr_nid().is_null())?;
            place.insert(File { inode, has_xattr_node });
        }
        let name = (wanted.name == Some(at)).then_some(if wanted.born.is_some() { Name::New } else { Name::Known });
        node.page.with(|block| self.apply_node(node, block, name))?;
        if at == wanted.last {
            self.finish(ino)?;
        }
        Ok(())
    }

    fn apply_node(&mut self, node: &ChainNode, block: &Block, name: Option<Name>) -> Result<()> {
        let Some(file) = self.recovered.get_mut(&node.footer.ino()) else { return Ok(()) };
        let inode = file.inode.clone();
        match node.footer.ofs().kind() {
            NodeKind::Inode => {
                let raw = RawInode::view(block);
                file.has_xattr_node = !raw.xattr_nid().is_null();
                self.apply_inode(&inode, raw)?;
                if let Some(name) = name {
                    self.recover_name(&inode, raw, name)?;
                }
                if self.apply_inline_data(&inode, raw)? {
                    return Ok(());
                }
                self.drop_missing_subtrees(&inode, raw)?;
                self.apply_slots(&inode, block)
            }
            NodeKind::Direct => {
                self.leave_inline_data(&inode)?;
                self.apply_slots(&inode, block)
            }
            NodeKind::Xattr => {
                file.has_xattr_node = true;
                self.apply_xattr_node(&inode, block)
            }
            _ => Err(Error::corrupt(format!("block {} is a node that fsync never writes", node.lba))),
        }
    }

    /// All nodes of a file have been applied.
    fn finish(&mut self, ino: Ino) -> Result<()> {
        let Some(file) = self.recovered.get(&ino) else { return Ok(()) };
        let inode = file.inode.clone();
        if !file.has_xattr_node {
            self.drop_xattr_node(&inode)?;
        }
        self.files.trim_xattrs(self.change, &inode.inode)?;
        self.mark_for_cut(&inode)
    }
}
