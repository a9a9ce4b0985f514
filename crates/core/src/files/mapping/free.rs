//! Giving slots back: holes instead of blocks, and no node without a slot in use.
//!
//! All of these run under a change, with the file's `i_rwsem` held exclusively, and do one node's worth of work, so
//! that a checkpoint never waits for a file of terabytes to go. Dirty pages of the range have left the cache before;
//! clean ones leave it here, under the node's lock. A collector with `gc.buffer=cache` may have put one there since.

use super::{LeafOrGap, addressing, place_of};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Inode as RawInode, inline};
use steadyfs_format::node::{IndirectNode, NodeOfs, NodePath};
use steadyfs_format::{Nid, PageIndex, Slot};

impl Volume {
    /// Unlinks and frees the empty node at `ofs`, and every node above it that becomes empty thereby; returns how many
    /// went.
    fn prune(&self, inode: &Inode, ofs: NodeOfs) -> Result<u64> {
        let Some(path) = NodePath::of_node(ofs) else {
            return Err(Error::corrupt("an empty node that is not in the tree"));
        };
        // The nodes on the way, the inode first.
        let mut way = vec![Arc::clone(&inode.node)];
        for level in 0..path.depth() {
            let guard = way[level].read();
            let child = match level {
                0 => RawInode::view(guard.bytes()).child(path.slot(0)),
                _ => IndirectNode::view(guard.bytes()).child(path.slot(level)),
            };
            drop(guard);
            way.push(self.node(child)?);
        }
        let mut gone = 0;
        for level in (0..path.depth()).rev() {
            // Unlinked first: a walk meanwhile finds a gap, or a dead node and looks again.
            self.change_link(inode, &way[level], path.slot(level), Nid(0))?;
            self.free_node(way[level + 1].write(&self.nodes))?;
            gone += 1;
            let still_used =
                level == 0 || IndirectNode::view(way[level].read().bytes()).children().any(|nid| !nid.is_null());
            if still_used {
                break;
            }
        }
        Ok(gone)
    }

    /// Pages that the file's node tree can reach.
    pub(crate) fn tree_pages(&self, inode: &Inode) -> Result<PageIndex> {
        let guard = inode.node.read();
        let addressing = addressing(RawInode::view(guard.bytes()), self.sb.features())?;
        Ok(PageIndex(addressing.max_pages()))
    }
}

impl Files {
    /// Frees the first part of a range: the slots that lie in one node, and that node if nothing is left in it. Returns
    /// where to go on; `range.end` when all is done.
    pub(crate) fn free_piece(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        range: Range<PageIndex>,
    ) -> Result<PageIndex> {
        let mut at = range.start;
        let mut worked = false;
        while at < range.end {
            match self.vol.leaf(inode, at) {
                Ok(LeafOrGap::Leaf(_)) if worked => return Ok(at),
                Ok(LeafOrGap::Leaf(leaf)) => at = self.free_leaf(change, inode, &leaf, &(at..range.end))?,
                Ok(LeafOrGap::Gap { until, .. }) => {
                    at = until;
                    continue;
                }
                Err(Error::TooBig) => return Ok(range.end),
                Err(e) => return Err(e),
            }
            worked = true;
        }
        Ok(range.end)
    }

    fn free_leaf(
        &self,
        _change: &Change<'_>,
        inode: &Arc<Inode>,
        leaf: &Leaf,
        range: &Range<PageIndex>,
    ) -> Result<PageIndex> {
        let part = leaf.part(range);
        assert!(part.start == range.start && part.end > part.start, "page {:?} has no slot here", range.start);
        let (freed, empty) = self.free_slots(inode, leaf, &part)?;
        let mut nodes = 0;
        if empty && leaf.node.nid != inode.node.nid {
            let ofs = place_of(leaf.node.read().bytes()).1;
            nodes = self.vol.prune(inode, ofs)?;
        }
        self.vol.add_blocks(inode, -((freed + nodes) as i64))?;
        Ok(part.end)
    }

    /// Turns the slots of a range into holes; returns how many blocks that gave back, and whether the node has no slot
    /// in use any more.
    fn free_slots(&self, inode: &Arc<Inode>, leaf: &Leaf, part: &Range<PageIndex>) -> Result<(u64, bool)> {
        let released = {
            let guard = inode.node.read();
            RawInode::view(guard.bytes()).has_inline(inline::COMPRESS_RELEASED)
        };
        let mut guard = leaf.node.write(&self.vol.nodes);
        assert!(!guard.is_dead(), "a node was freed under the exclusive inode lock");
        let area = Area::of(guard.bytes(), self.vol.sb.features())?;
        let mut freed = 0;
        for index in (part.start.get()..part.end.get()).map(|p| leaf.slot_of(PageIndex(p))) {
            let slot = area.get(guard.bytes(), index);
            if slot == Slot::Hole {
                continue;
            }
            self.vol.invalidate(slot)?;
            area.set(guard.edit(), index, Slot::Hole);
            // A cluster whose saved blocks were given back does not count its mark either.
            freed += u64::from(!(released && slot == Slot::Compress));
        }
        assert!(freed <= part.end - part.start, "{freed} blocks are freed of {part:?}");
        self.budget.cache(inode).remove(part.clone());
        let empty = (0..leaf.slots).all(|index| area.get(guard.bytes(), index) == Slot::Hole);
        drop(guard);
        self.vol.space.release_blocks(freed);
        Ok((freed, empty))
    }

    /// Makes every page of the first part of a range reserved and unwritten: blocks are given up for `New`, holes are
    /// reserved. Returns where to go on.
    pub(crate) fn renew_piece(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        range: Range<PageIndex>,
    ) -> Result<PageIndex> {
        assert!(range.start < range.end);
        let leaf = match self.vol.leaf(inode, range.start)? {
            LeafOrGap::Leaf(leaf) => leaf,
            LeafOrGap::Gap { .. } => return self.vol.reserve(change, inode, range.start..range.start + 1),
        };
        let part = leaf.part(&range);
        let end = self.vol.reserve(change, inode, part.clone())?;
        assert!(part.start < end && end <= part.end, "pages {part:?} are reserved up to {end:?}");
        let mut guard = leaf.node.write(&self.vol.nodes);
        let area = Area::of(guard.bytes(), self.vol.sb.features())?;
        for index in (part.start.get()..end.get()).map(|p| leaf.slot_of(PageIndex(p))) {
            let slot = area.get(guard.bytes(), index);
            if matches!(slot, Slot::At(_)) {
                self.vol.invalidate(slot)?;
                area.set(guard.edit(), index, Slot::New);
            }
        }
        self.budget.cache(inode).remove(part.start..end);
        Ok(end)
    }
}
