//! Reading the chain: which of its nodes count, and for which files.
//!
//! Keeps 32 bytes per node; the blocks themselves are read again when their turn comes, and must then form the chain
//! that was planned for, from its first node to its end. Nothing is changed here but segments being pinned, which lasts
//! until the next checkpoint.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::raw::{AfterReplay, ChainNode, Image};
use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use steadyfs_format::node::{NodeFooter, NodeKind};
use steadyfs_format::records::{InodeRecord, Record};
use steadyfs_format::{Ino, Lba, Log, SegNo, Slot};

/// A node of the chain, as it was when the plan was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) lba: Lba,
    footer: NodeFooter,
    is_batch: bool,
}

impl Link {
    /// The node, read again on its own.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is another one by now; read errors.
    pub(super) fn read_again(&self, image: &Image) -> Result<ChainNode> {
        self.same(image.chain_node(self.lba)?)
    }

    /// Refuses what is not this node. The contents may differ: whatever they say is checked where it is used.
    fn same(&self, node: Option<ChainNode>) -> Result<ChainNode> {
        let ours = (self.lba, self.footer, self.is_batch);
        node.filter(|node| (node.lba, node.footer, node.is_batch) == ours).ok_or_else(|| changed(self.lba))
    }
}

/// The chain is not the one that the plan is for.
fn changed(lba: Lba) -> Error {
    Error::corrupt(format!("the chain of fsynced nodes changes while it is read, at block {lba}"))
}

/// The links to recover of one file. Numbers are indices of links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The last node that counts: the last one with the fsync mark.
    pub(super) last: usize,
    /// The inode block whose name has to be in its directory: the last one with both marks.
    pub(super) name: Option<usize>,
    /// The inode block from which the inode is made, if the checkpoint does not have it: the first one with both marks.
    pub(super) born: Option<usize>,
}

impl Wanted {
    /// What [`ChainPlan::note`] keeps true of a chain of `links` links.
    fn check(&self, ino: Ino, links: usize) {
        let Wanted { last, name, born } = *self;
        assert!(last < links, "the last node of inode {ino} is number {last} of {links}");
        assert!(name.is_none_or(|name| name <= last), "the name of inode {ino} comes after its last node");
        assert!(born.is_none_or(|born| Some(born) <= name), "inode {ino} is made by a node after that of its name");
    }
}

/// The chain.
#[derive(Debug, Default)]
pub(super) struct ChainPlan {
    pub(super) links: Vec<Link>,
    pub(super) files: BTreeMap<Ino, Wanted>,
    /// Inodes that batches of the journal give birth to, as the first record of each has them.
    pub(super) births: BTreeMap<Ino, Box<InodeRecord>>,
    /// Inodes that some batch says have a name.
    named: HashSet<Ino>,
    /// What the batches leave.
    pub(super) after: AfterReplay,
    /// Whole batches, and records in them.
    pub(super) batches: u64,
    pub(super) records: u64,
    /// Contents that batches name, whichever file has them: one block of each segment.
    contents: BTreeMap<Option<SegNo>, Lba>,
    /// The block behind the last link.
    end: Option<Lba>,
}

impl ChainPlan {
    /// Reads the chain of a volume whose orphans have been taken over.
    ///
    /// # Errors
    /// Damage: a chain that comes back to itself, nodes that contradict the volume; read errors.
    pub(super) fn read(files: &Files, image: &Image) -> Result<Self> {
        let mut plan = ChainPlan::default();
        let mut seen = HashSet::new();
        let (mut chain, mut batches) = (image.fsync_chain(), image.batches());
        for node in chain.by_ref() {
            let node = node?;
            if !seen.insert(node.lba) {
                return Err(Error::corrupt(format!("the chain comes back to block {}", node.lba)));
            }
            plan.links.push(Link { lba: node.lba, footer: node.footer, is_batch: node.is_batch });
            let contents = image.named_contents(&node).into_iter();
            plan.contents.extend(contents.map(|lba| (image.layout().seg_of(lba).map(|(seg, _)| seg), lba)));
            if node.is_batch
                && let Some(records) = node.page.with(|block| batches.take(block))?
            {
                plan.note_batch(files, records)?;
            }
        }
        // Which files count depends on batches that come behind their nodes.
        for at in 0..plan.links.len() {
            let Link { footer, is_batch, .. } = plan.links[at];
            if footer.is_fsync() && !is_batch {
                plan.note(files, &footer, at)?;
            }
        }
        if let Some(lba) = chain.loop_at() {
            return Err(Error::corrupt(format!("the chain comes back to block {lba}")));
        }
        plan.end = chain.end();
        plan.files.iter().for_each(|(ino, wanted)| wanted.check(*ino, plan.links.len()));
        Ok(plan)
    }

    /// Takes a batch into account.
    fn note_batch(&mut self, files: &Files, records: Vec<Record>) -> Result<()> {
        self.batches += 1;
        self.records += records.len() as u64;
        self.after.take(&records)?;
        for record in records {
            let Record::Inode(ino, inode) = record else { continue };
            if inode.attributes.links > 0 {
                self.named.insert(ino);
            }
            if inode.birth.is_none() || self.births.contains_key(&ino) {
                continue;
            }
            if is_known(files, ino)? {
                return Err(Error::corrupt(format!("the journal makes inode {ino}, which the checkpoint has")));
            }
            self.births.insert(ino, inode);
        }
        Ok(())
    }

    /// Nodes in the chain.
    pub(super) fn nodes(&self) -> u64 {
        self.links.iter().filter(|link| !link.is_batch).count() as u64
    }

    /// Whether there is nothing to recover.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.batches == 0
    }

    /// Takes a node with the fsync mark into account.
    fn note(&mut self, files: &Files, footer: &NodeFooter, at: usize) -> Result<()> {
        let ino = footer.ino();
        let is_inode = footer.nid() == ino.nid();
        if is_inode != (footer.ofs().kind() == NodeKind::Inode) {
            let (nid, ofs) = (footer.nid(), footer.ofs());
            return Err(Error::corrupt(format!("node {nid} of inode {ino} says that its place in the file is {ofs}")));
        }
        let named = is_inode && footer.is_dentry();
        let file = match self.files.entry(ino) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(place) => {
                let known = self.births.contains_key(&ino) || is_known(files, ino)?;
                let nameless = files.orphans.get(ino).is_some() && !self.named.contains(&ino);
                // Nodes of a file that was made after the checkpoint and whose inode block is not there (yet), or of
                // one without a name.
                if (!known && !named) || nameless {
                    return Ok(());
                }
                place.insert(Wanted { last: at, name: None, born: (!known).then_some(at) })
            }
        };
        file.last = at;
        file.name = if named { Some(at) } else { file.name };
        Ok(())
    }

    /// Reads the chain again and hands its nodes out, with their indices.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a chain that is another one by now: a node that differs, an earlier end, a later one.
    /// Those of `apply`; read errors.
    pub(super) fn read_again(
        &self,
        image: &Image,
        mut apply: impl FnMut(usize, &ChainNode) -> Result<()>,
    ) -> Result<()> {
        let mut chain = image.fsync_chain();
        for (at, link) in self.links.iter().enumerate() {
            let node = link.same(chain.next().transpose()?)?;
            apply(at, &node)?;
        }
        match chain.next().transpose()? {
            None if chain.end() == self.end => Ok(()),
            _ => Err(changed(self.end.unwrap_or_default())),
        }
    }

    /// Keeps the segments of the chain, and the one in which it ends, as they are until the next checkpoint.
    pub(super) fn pin(&self, files: &Files) {
        let blocks = self.links.iter().map(|link| link.lba).chain(self.end);
        blocks.for_each(|lba| files.vol.placement.pin(lba, Log::WarmNode));
    }

    /// Keeps the segments of all contents that batches name, too: the chain ends before a batch whose contents are
    /// gone, whether a file has them or not. Comes behind the adoption of what files have, and before the first write.
    pub(super) fn pin_contents(&self, files: &Files) {
        self.contents.values().for_each(|lba| files.vol.placement.pin(*lba, Log::WarmData));
    }
}

/// Whether the checkpoint has an inode with this number.
fn is_known(files: &Files, ino: Ino) -> Result<bool> {
    let info = files.vol.nat.get(&files.vol.io, ino.nid())?;
    if info.addr == Slot::Hole {
        return Ok(false);
    }
    if info.ino != ino {
        return Err(Error::corrupt(format!("number {ino} is not an inode's but that of a node of inode {}", info.ino)));
    }
    Ok(true)
}
