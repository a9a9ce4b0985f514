//! Room for a change of a file's shape, counted before anything changes: data blocks, and the nodes that map them.
//!
//! Others may take what was counted before it is reserved. An allocation then gives back what it got; a move stops,
//! each page old or new.

use super::{Facts, PIECE_PAGES};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::gate::Want;
use crate::volume::Volume;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{PageIndex, Slot};

/// Pages that are reserved under one change.
const RESERVE_PAGES: u64 = 4 * PIECE_PAGES;

/// What a change would take.
#[derive(Default)]
struct Need {
    blocks: u64,
    nodes: HashSet<NodeOfs>,
}

impl Volume {
    /// Says `NoSpace` before anything moves if the copies could not be placed: `pieces` of the file, in this order,
    /// each to where `to` moves its first page.
    pub(super) fn expect_move(
        &self,
        inode: &Inode,
        facts: &Facts,
        pieces: impl Iterator<Item = Range<PageIndex>>,
        to: impl Fn(PageIndex) -> PageIndex,
    ) -> Result<()> {
        let mut need = Need::default();
        // What the moves so far have taken less what they have given back. Inline contents take a block first.
        let mut taken = i64::from(facts.inline);
        for from in pieces {
            let target = to(from.start)..to(from.start) + (from.end - from.start);
            let (sources, targets) = (self.used(inode, facts, from)?, self.used(inode, facts, target.clone())?);
            for (page, (source, used)) in (target.start.get()..).map(PageIndex).zip(sources.into_iter().zip(targets)) {
                taken += i64::from(source) - i64::from(used);
                need.blocks = need.blocks.max(taken.max(0) as u64);
                if source && !used {
                    self.missing_nodes(inode, page..page + 1, &mut need.nodes)?;
                }
            }
        }
        self.expect(&need)
    }

    fn expect(&self, need: &Need) -> Result<()> {
        let nodes = need.nodes.len() as u64;
        self.space.has_room(need.blocks + nodes, nodes).then_some(()).ok_or(Error::NoSpace)
    }

    /// The holes of a range of a file without inline contents.
    fn holes(&self, inode: &Inode, range: Range<PageIndex>) -> Result<Vec<Range<PageIndex>>> {
        let extents = self.extents(inode, range)?;
        Ok(extents.into_iter().filter(|e| e.slot == Slot::Hole).map(|e| e.pages).collect())
    }

    /// Of each page of a range, whether it has a block; inline contents count as page 0.
    fn used(&self, inode: &Inode, facts: &Facts, range: Range<PageIndex>) -> Result<Vec<bool>> {
        if facts.inline {
            return Ok((range.start.get()..range.end.get()).map(|page| page == 0).collect());
        }
        let extents = self.extents(inode, range)?;
        Ok(extents.iter().flat_map(|e| (0..e.count()).map(|_| e.slot != Slot::Hole)).collect())
    }
}

impl Files {
    /// Reserves the holes of a range, all or none. Inline contents move to a page first.
    pub(super) fn reserve_all(&self, inode: &Arc<Inode>, facts: &mut Facts, range: Range<PageIndex>) -> Result<()> {
        // Inline contents become page 0.
        let holes = if facts.inline { vec![range.clone()] } else { self.vol.holes(inode, range.clone())? };
        let beside = u64::from(facts.inline && facts.size > 0 && range.start > PageIndex(0));
        let blocks = beside + holes.iter().map(|hole| hole.end - hole.start).sum::<u64>();
        let mut need = Need { blocks, ..Need::default() };
        self.vol.expect(&need)?; // so that no more nodes are counted than the volume could hold
        self.vol.missing_nodes(inode, range.clone(), &mut need.nodes)?;
        self.vol.expect(&need)?;
        let holes = if facts.inline { self.without_inline(inode, facts, range)? } else { holes };
        for hole in &holes {
            let mut at = hole.start;
            while at < hole.end {
                let piece = at..hole.end.min(at + RESERVE_PAGES);
                match self.gate.begin(Want::default()).and_then(|change| self.vol.reserve(&change, inode, piece)) {
                    Ok(reached) => at = reached,
                    Err(error) => {
                        self.give_back(inode, &holes, at)?;
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes holes of what was reserved before `end`.
    fn give_back(&self, inode: &Arc<Inode>, holes: &[Range<PageIndex>], end: PageIndex) -> Result<()> {
        for hole in holes.iter().filter(|hole| hole.start < end) {
            let mut at = hole.start;
            while at < hole.end.min(end) {
                // Not by way of the gate: it refuses who comes to a full volume.
                let change = self.vol.begin_change()?;
                at = self.free_piece(&change, inode, at..hole.end.min(end))?;
            }
        }
        Ok(())
    }

    /// Moves inline contents to a page; the holes of a range then.
    fn without_inline(
        &self,
        inode: &Arc<Inode>,
        facts: &mut Facts,
        range: Range<PageIndex>,
    ) -> Result<Vec<Range<PageIndex>>> {
        self.leave_inline(inode, facts)?;
        self.vol.holes(inode, range)
    }

    /// Moves inline contents to a page.
    pub(super) fn leave_inline(&self, inode: &Arc<Inode>, facts: &mut Facts) -> Result<()> {
        if facts.inline {
            let change = self.gate.begin(Want::default())?;
            self.convert_inline(&change, inode, facts)?;
        }
        Ok(())
    }
}
