//! Addresses of a file, node by node: each slot of the chain's node is compared with the file's slot now.

use super::Recovery;
use crate::error::{Error, Result};
use crate::files::inode::{Inode, InodeRef};
use crate::files::mapping::{LeafOrGap, addressing};
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Inode as RawInode, advise};
use steadyfs_format::node::{NodeBlock, NodeOfs};
use steadyfs_format::summary::Summary;
use steadyfs_format::{Block, PageIndex, Slot};

impl Recovery<'_> {
    /// Makes the slots of the file's node at the same place those of this block, an inode or a direct node.
    pub(super) fn apply_slots(&mut self, inode: &InodeRef, block: &Block) -> Result<()> {
        let features = self.files.vol.sb.features();
        let ofs = NodeBlock::view(block).footer.ofs();
        let area = Area::of(block, features)?;
        let Some(leaf) = self.leaf_at(&inode.inode, ofs, block, area)? else { return Ok(()) };
        if area.len() != leaf.slots {
            return Err(Error::corrupt(format!("inode {}: its fsynced node {ofs} has another shape", inode.ino())));
        }
        for index in 0..leaf.slots {
            let wanted = area.get(block, index);
            if self.slot(&leaf, index)? != wanted {
                self.apply_slot(&inode.inode, &leaf, index, wanted)?;
            }
        }
        Ok(())
    }

    /// The file's node at this place; made if it is missing and the chain's has any slot in use.
    fn leaf_at(&self, inode: &Inode, ofs: NodeOfs, block: &Block, area: Area) -> Result<Option<Leaf>> {
        let features = self.files.vol.sb.features();
        let nowhere = || Error::corrupt(format!("inode {}: no node can be at {ofs}", inode.ino));
        let first = inode.read(|raw| addressing(raw, features))??.first_page(ofs).ok_or_else(nowhere)?;
        if let LeafOrGap::Leaf(leaf) = self.files.vol.leaf(inode, first)? {
            return Ok(Some(leaf));
        }
        let Some(used) = (0..area.len()).find(|&index| area.get(block, index).is_counted()) else { return Ok(None) };
        let page = first + u64::from(used);
        self.files.vol.reserve(self.change, inode, page..page + 1)?;
        match self.files.vol.leaf(inode, first)? {
            LeafOrGap::Leaf(leaf) => Ok(Some(leaf)),
            LeafOrGap::Gap { .. } => Err(nowhere()),
        }
    }

    fn slot(&self, leaf: &Leaf, index: u16) -> Result<Slot> {
        let guard = leaf.node.read();
        let area = Area::of(guard.bytes(), self.files.vol.sb.features())?;
        Ok(area.get(guard.bytes(), index))
    }

    /// Changes a slot to something else.
    fn apply_slot(&mut self, inode: &Inode, leaf: &Leaf, index: u16, wanted: Slot) -> Result<()> {
        if wanted == Slot::Compress {
            return Err(Error::corrupt(format!("inode {} is not compressed, but a node of it is", inode.ino)));
        }
        if wanted.is_counted() {
            self.cover(inode, leaf.first + u64::from(index))?;
        }
        if let Slot::At(lba) = wanted {
            let nid = leaf.node.nid;
            let version = self.files.vol.nat.get(&self.files.vol.io, nid)?.version;
            self.adoption.adopt(lba, Summary { nid, version, ofs_in_node: index })?;
        }
        // Read again: adoption may have emptied this very slot's neighbours, though never this one.
        let old = self.slot(leaf, index)?;
        assert!(old != wanted, "slot {index} of node {} is as it should be", leaf.node.nid);
        let by = i64::from(wanted.is_counted()) - i64::from(old.is_counted());
        if by > 0 {
            self.files.vol.space.reserve_blocks(1)?;
        }
        {
            let mut guard = leaf.node.write(&self.files.vol.nodes);
            let area = Area::of(guard.bytes(), self.files.vol.sb.features())?;
            area.set(guard.edit(), index, wanted);
        }
        self.files.vol.invalidate(old)?;
        if by < 0 {
            self.files.vol.space.release_blocks(1);
        }
        self.files.vol.add_blocks(inode, by)
    }

    /// Makes the file long enough for a page, unless it may have pages beyond its end.
    fn cover(&self, inode: &Inode, page: PageIndex) -> Result<()> {
        let beyond = |raw: &RawInode| raw.size() <= page.byte_offset() && raw.advise() & advise::KEEP_SIZE == 0;
        if inode.read(beyond)? {
            self.files.vol.edit_inode(self.change, inode, |raw| raw.set_size((page + 1).byte_offset()))?;
        }
        Ok(())
    }

    /// Frees what hangs below the file's inode where the chain's inode has nothing: it was gone when that block was
    /// written.
    pub(super) fn drop_missing_subtrees(&self, inode: &InodeRef, raw: &RawInode) -> Result<()> {
        let features = self.files.vol.sb.features();
        let ours = inode.inode.read(|raw| Ok::<_, Error>((raw.children(), addressing(raw, features)?)))??;
        let places =
            [NodeOfs::new(1), NodeOfs::new(2), NodeOfs::INDIRECT_1, NodeOfs::INDIRECT_2, NodeOfs::DOUBLE_INDIRECT];
        for ((there, here), ofs) in raw.children().into_iter().zip(ours.0).zip(places) {
            if there.is_null() && !here.is_null() {
                let first = ours.1.first_page(ofs).unwrap_or_default();
                self.free_pages(&inode.inode, first, first + ours.1.pages_under(ofs))?;
            }
        }
        Ok(())
    }

    /// Frees the pages from `from` to `end`, and the nodes that map nothing else.
    pub(super) fn free_pages(&self, inode: &Arc<Inode>, from: PageIndex, end: PageIndex) -> Result<()> {
        let mut at = from;
        while at < end {
            at = self.files.free_piece(self.change, inode, at..end)?;
        }
        Ok(())
    }
}
