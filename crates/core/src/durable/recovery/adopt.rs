//! Data blocks that were written after the checkpoint and stay where they are: the volume's placement makes them valid,
//! and notes their new owner.
//!
//! Kept true: a block has one owner, so a slot that had the block before becomes a hole.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::volume::nodes::slots;
use crate::volume::placement::Adopted;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::node::NodeBlock;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Lba, Slot};

/// The blocks that were adopted.
pub(super) struct Adoption<'a> {
    files: &'a Files,
    adopted: Adopted,
    blocks: u64,
}

impl<'a> Adoption<'a> {
    pub(super) fn new(files: &'a Files) -> Self {
        Adoption { files, adopted: Adopted::default(), blocks: 0 }
    }

    /// Makes a block valid, and its owner the given one. Takes it from the slot that has it now, if any.
    ///
    /// # Errors
    /// Damage: the block is outside the main area, in a segment that holds nodes, or belongs to what is no file.
    pub(super) fn adopt(&mut self, lba: Lba, owner: Summary) -> Result<()> {
        let placement = &self.files.vol.placement;
        if let Some(owner) = placement.owner(&mut self.adopted, lba)?
            && !steadyfs_rt::mutated("a-block-has-one-owner")
        {
            self.take_from(owner, lba)?;
        }
        placement.adopt(&mut self.adopted, lba, owner)?;
        assert_eq!(placement.is_valid(lba), Some(true), "block {lba} was adopted, and others may get its place");
        self.blocks += 1;
        Ok(())
    }

    /// Makes the slot that a valid block belongs to a hole.
    fn take_from(&self, owner: Summary, lba: Lba) -> Result<()> {
        let vol = &self.files.vol;
        let stray = || Error::corrupt(format!("block {lba} is in use, but not by node {}", owner.nid));
        let info = vol.nat.get(&vol.io, owner.nid)?;
        if info.addr == Slot::Hole || info.version != owner.version {
            return Err(stray());
        }
        let inode = self.files.inode(info.ino)?;
        if inode.kind() != FileType::Regular {
            return Err(Error::corrupt(format!("block {lba} belongs to inode {}, which is no regular file", info.ino)));
        }
        let node = vol.node(owner.nid)?;
        {
            let features = vol.sb.features();
            let mut guard = node.write(&vol.nodes);
            let in_inode = NodeBlock::view(guard.bytes()).footer.nid() == inode.ino().nid();
            let inline = in_inode && super::inode::is_inline(guard.bytes());
            if inline || slots::get(guard.bytes(), features, owner.ofs_in_node)? != Some(Slot::At(lba)) {
                return Err(stray());
            }
            slots::set(guard.edit(), features, owner.ofs_in_node, Slot::Hole)?;
        }
        vol.invalidate(Slot::At(lba))?;
        vol.space.release_blocks(1);
        self.files.vol.add_blocks(&inode.inode, -1)
    }

    /// Blocks that were made valid so far.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Starts writing the summaries; the next checkpoint waits for them.
    pub(super) fn write_summaries(&self) {
        self.files.vol.placement.write_adopted(&self.adopted);
    }
}
