//! Reserving slots: a hole becomes `New` when a page is going to be written there, so that "no space" is told to the
//! caller that asks for space, and write-back never needs any.
//!
//! All of these run under a change, with the file's `i_rwsem` held exclusively. A failed reservation leaves no trace.

use super::{LeafOrGap, addressing, is_at};
use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::volume::nodes::cache::Node;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::{IndirectNode, NodePath};
use steadyfs_format::{Nid, PageIndex, Slot};

/// A node on the way down, with the slot that leads on from it.
struct Step {
    node: Arc<Node>,
    slot: u16,
}

impl Volume {
    /// Reserves the holes of a range in order, creating nodes where they are missing. Returns the end of what is
    /// reserved now: the end of the range, or less if space ran out on the way.
    ///
    /// # Errors
    /// `NoSpace` if not even the first page could be reserved.
    pub(crate) fn reserve(&self, change: &Change<'_>, inode: &Inode, range: Range<PageIndex>) -> Result<PageIndex> {
        let mut at = range.start;
        while at < range.end {
            let reached = match self.leaf(inode, at)? {
                LeafOrGap::Leaf(leaf) => self.reserve_in(inode, &leaf, at..range.end),
                LeafOrGap::Gap { .. } => self.plant(change, inode, at).map(|()| at + 1),
            };
            assert!(reached.as_ref().is_ok_and(|reached| *reached <= range.end) || reached.is_err());
            match reached {
                Ok(reached) if reached > at => at = reached,
                Ok(_) | Err(Error::NoSpace) if at > range.start => return Ok(at),
                Ok(_) => return Err(Error::NoSpace),
                Err(e) => return Err(e),
            }
        }
        Ok(at)
    }

    /// Reserves what it can of the part of a range that lies in one node; returns the first page that is not reserved.
    fn reserve_in(&self, inode: &Inode, leaf: &Leaf, range: Range<PageIndex>) -> Result<PageIndex> {
        let features = self.sb.features();
        let part = leaf.part(&range);
        assert!(part.start == range.start && part.end > part.start, "page {:?} has no slot here", range.start);
        {
            let guard = leaf.node.read();
            let area = Area::of(guard.bytes(), features)?;
            let mut slots =
                (part.start.get()..part.end.get()).map(|p| area.get(guard.bytes(), leaf.slot_of(PageIndex(p))));
            if slots.all(Slot::is_counted) {
                return Ok(part.end);
            }
        }
        let mut guard = leaf.node.write(&self.nodes);
        assert!(!guard.is_dead(), "a node was freed under the exclusive inode lock");
        let area = Area::of(guard.bytes(), features)?;
        let holes: Vec<u16> = (part.start.get()..part.end.get())
            .map(|p| leaf.slot_of(PageIndex(p)))
            .filter(|slot| !area.get(guard.bytes(), *slot).is_counted())
            .collect();
        let got = self.reserve_up_to(holes.len() as u64) as usize;
        assert!(got <= holes.len(), "{got} blocks are reserved for {} holes", holes.len());
        let block = guard.edit();
        for slot in &holes[..got] {
            area.set(block, *slot, Slot::New);
        }
        drop(guard);
        self.add_blocks(inode, got as i64)?;
        Ok(holes.get(got).map_or(part.end, |slot| leaf.first + u64::from(*slot)))
    }

    /// Reserves as many of `n` data blocks as there are.
    fn reserve_up_to(&self, n: u64) -> u64 {
        if self.space.reserve_blocks(n).is_ok() {
            return n;
        }
        (0..n).take_while(|_| self.space.reserve_blocks(1).is_ok()).count() as u64
    }

    /// Reserves a page whose node is missing: creates the nodes on the way to it.
    fn plant(&self, _change: &Change<'_>, inode: &Inode, page: PageIndex) -> Result<()> {
        self.space.reserve_blocks(1)?;
        let mut made = Vec::new();
        let planted = self.plant_nodes(inode, page, &mut made);
        let Err(e) = planted else {
            return self.add_blocks(inode, made.len() as i64 + 1);
        };
        self.space.release_blocks(1);
        while let Some((parent, node)) = made.pop() {
            // A node that was just made and linked can be unlinked and freed; if not, the volume is in no state to go
            // on.
            self.set_link(inode, &parent, Nid(0))
                .and_then(|()| self.free_node(node.write(&self.nodes)))
                .inspect_err(|e| self.stop(e))?;
        }
        Err(e)
    }

    /// Creates the missing nodes on the way to a page, each linked from its parent, and marks the page's slot `New`.
    fn plant_nodes(&self, inode: &Inode, page: PageIndex, made: &mut Vec<(Step, Arc<Node>)>) -> Result<()> {
        let features = self.sb.features();
        let path = {
            let guard = inode.node.read();
            let addressing = addressing(RawInode::view(guard.bytes()), features)?;
            NodePath::of_page(page, addressing).ok_or(Error::TooBig)?
        };
        let cold = inode.kind != steadyfs_format::dir::FileType::Dir;
        let mut node = Arc::clone(&inode.node);
        for level in 0..path.depth() {
            let step = Step { node, slot: path.slot(level) };
            let child = self.child_at(inode, &step);
            node = if child.is_null() {
                let fresh = self.new_node(inode.ino, path.ofs(level + 1), cold)?;
                made.push((Step { node: Arc::clone(&step.node), slot: step.slot }, Arc::clone(&fresh)));
                self.set_link(inode, &step, fresh.nid)?;
                fresh
            } else {
                self.node(child)?
            };
            if !is_at(&node.read(), inode, path.ofs(level + 1)) {
                return Err(Error::corrupt(format!("inode {}: node {} is not part of the file", inode.ino, node.nid)));
            }
        }
        let mut guard = node.write(&self.nodes);
        let area = Area::of(guard.bytes(), features)?;
        assert!(!made.is_empty() && area.get(guard.bytes(), path.leaf_slot()) == Slot::Hole, "a new node is not empty");
        area.set(guard.edit(), path.leaf_slot(), Slot::New);
        Ok(())
    }

    /// The id that a step's slot holds.
    fn child_at(&self, inode: &Inode, step: &Step) -> Nid {
        let guard = step.node.read();
        if Arc::ptr_eq(&step.node, &inode.node) {
            RawInode::view(guard.bytes()).child(step.slot)
        } else {
            IndirectNode::view(guard.bytes()).child(step.slot)
        }
    }

    fn set_link(&self, inode: &Inode, step: &Step, child: Nid) -> Result<()> {
        self.change_link(inode, &step.node, step.slot, child)
    }

    /// Points a slot of the inode or of an indirect node at a child.
    pub(super) fn change_link(&self, inode: &Inode, parent: &Arc<Node>, slot: u16, child: Nid) -> Result<()> {
        let mut guard = parent.write(&self.nodes);
        if guard.is_dead() {
            return Err(Error::corrupt(format!("node {} was freed while its file was locked", parent.nid)));
        }
        let old = if Arc::ptr_eq(parent, &inode.node) {
            let raw = RawInode::view_mut(guard.edit());
            let old = raw.child(slot);
            raw.set_child(slot, child);
            old
        } else {
            let raw = IndirectNode::view_mut(guard.edit());
            let old = raw.child(slot);
            raw.set_child(slot, child);
            old
        };
        // A node is never lost by another one that is linked over it, nor unlinked twice.
        assert!(old.is_null() != child.is_null(), "slot {slot} of node {} led to {old}, now to {child}", parent.nid);
        Ok(())
    }

    /// Adds to `i_blocks`, or takes from it.
    pub(crate) fn add_blocks(&self, inode: &Inode, by: i64) -> Result<()> {
        if by == 0 {
            return Ok(());
        }
        let mut guard = inode.node.write(&self.nodes);
        let blocks = RawInode::view(guard.bytes()).blocks();
        let Some(now) = blocks.checked_add_signed(by).filter(|now| *now >= 1) else {
            let e = Error::corrupt(format!("inode {} counts {blocks} blocks and loses {}", inode.ino, -by));
            self.stop(&e);
            return Err(e);
        };
        RawInode::view_mut(guard.edit()).set_blocks(now);
        Ok(())
    }
}
