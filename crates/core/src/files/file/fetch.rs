//! Reading pages from the device, safely beside write-back and collection, which move blocks without the file's lock.
//!
//! A reader learns addresses under the node's lock, reads without it, and then looks again: only if the slot and the
//! generation of the segment are what they were does the block belong to the page. Otherwise the block was moved, and
//! its old place perhaps written again, and the reader starts over with the new address. Clean pages go into the cache
//! under that second look's lock.

use super::PAGE;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::files::mapping::{Extent, LeafOrGap};
use crate::volume::Volume;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::{PageIndex, Slot};
use steadyfs_rt::{Cost, charge_n};

/// Whether pages that were read stay in the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Yes,
    No,
}

impl Volume {
    /// Pages of one node; false if they moved while they were read.
    fn fetch_in_to(&self, leaf: &Leaf, part: Range<PageIndex>, target: &mut [u8]) -> Result<bool> {
        let Some(extents) = self.extents_in(leaf, part)? else { return Ok(false) };
        let (mut runs, mut rest) = (Vec::with_capacity(extents.len()), target);
        for extent in &extents {
            let (bytes, behind) = rest.split_at_mut((extent.count() * PAGE) as usize);
            match extent.slot.lba() {
                Some(lba) => runs.push((lba, bytes)),
                None => clear(bytes),
            }
            rest = behind;
        }
        let copied = runs.iter().map(|(_, bytes)| bytes.len() as u64 / PAGE).sum();
        let read = self.io.read_runs_to(runs);
        charge_n(Cost::PageCopy, copied);
        let guard = leaf.node.read();
        if guard.is_dead() || !self.still_there(leaf, guard.bytes(), &extents)? {
            return Ok(false);
        }
        if extents.iter().any(|extent| extent.slot == Slot::Compress) {
            return Err(Error::corrupt("a compressed cluster in a file without compression"));
        }
        // A failure counts only now that the blocks are known to have been the right ones.
        read.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(true)
    }

    /// Whether the slots, and the segments they point into, are what the extents say.
    fn still_there(&self, leaf: &Leaf, block: &steadyfs_format::Block, extents: &[Extent]) -> Result<bool> {
        let area = Area::of(block, self.sb.features())?;
        Ok(extents.iter().all(|extent| {
            let same_home = extent.home.is_none_or(|home| self.placement.is_home(home));
            let mut pages = (extent.pages.start.get()..extent.pages.end.get()).map(PageIndex);
            same_home && pages.all(|page| area.get(block, leaf.slot_of(page)) == extent.slot_at(page))
        }))
    }
}

impl Files {
    /// The contents of pages that are not cached: `None` for a hole, a zero page for what was reserved and never
    /// written. The file's `i_rwsem` is held, at least shared.
    pub(super) fn fetch(
        &self,
        inode: &Arc<Inode>,
        range: Range<PageIndex>,
        keep: Keep,
    ) -> Result<Vec<Option<PageBuf>>> {
        self.gate.note_request();
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            match self.vol.leaf(inode, at) {
                Ok(LeafOrGap::Leaf(leaf)) => {
                    let part = leaf.part(&(at..range.end));
                    assert!(part.start == at && part.end > at, "page {at:?} has no slot here");
                    if let Some(pages) = self.fetch_in(inode, &leaf, part.clone(), keep)? {
                        out.extend(pages);
                        at = part.end;
                    }
                }
                Ok(LeafOrGap::Gap { until, .. }) => {
                    let until = until.min(range.end);
                    out.resize(out.len() + (until - at) as usize, None);
                    at = until;
                }
                Err(Error::TooBig) => {
                    out.resize(out.len() + (range.end - at) as usize, None);
                    at = range.end;
                }
                Err(e) => return Err(e),
            }
        }
        assert_eq!(out.len() as u64, range.end - range.start, "a page for each");
        Ok(out)
    }

    /// Pages of one node; `None` if they moved while they were read.
    fn fetch_in(
        &self,
        inode: &Arc<Inode>,
        leaf: &Leaf,
        part: Range<PageIndex>,
        keep: Keep,
    ) -> Result<Option<Vec<Option<PageBuf>>>> {
        let Some(extents) = self.vol.extents_in(leaf, part)? else { return Ok(None) };
        let runs: Vec<_> = extents.iter().filter_map(|e| e.slot.lba().map(|lba| (lba, e.count() as u32))).collect();
        let mut blocks = self.vol.io.read_runs(&runs).into_iter();
        let guard = leaf.node.read();
        if guard.is_dead() || !self.vol.still_there(leaf, guard.bytes(), &extents)? {
            return Ok(None);
        }
        let mut out = Vec::new();
        let mut read = Vec::new();
        for extent in &extents {
            match extent.slot {
                Slot::Hole => out.resize(out.len() + extent.count() as usize, None),
                Slot::New => out.resize(out.len() + extent.count() as usize, Some(PageBuf::zeroed())),
                Slot::Compress => return Err(Error::corrupt("a compressed cluster in a file without compression")),
                Slot::At(_) => {
                    // A failure counts only now that the block is known to have been the right one.
                    let pages = blocks.next().ok_or_else(|| Error::corrupt("a run of blocks was not read"))??;
                    let numbers = (extent.pages.start.get()..extent.pages.end.get()).map(PageIndex);
                    read.extend(numbers.zip(pages.iter().cloned()));
                    out.extend(pages.into_iter().map(Some));
                }
            }
        }
        assert_eq!(out.len() as u64, extents.iter().map(Extent::count).sum::<u64>(), "a page for each");
        if keep == Keep::Yes && !read.is_empty() {
            self.budget.cache(inode).put_clean(&read);
        }
        Ok(Some(out))
    }

    /// As [`Files::fetch`], into memory of the caller's, of which it fills a page for each: zeros for a hole. Nothing
    /// stays in the cache.
    pub(super) fn fetch_to(&self, inode: &Arc<Inode>, range: Range<PageIndex>, target: &mut [u8]) -> Result<()> {
        assert_eq!(target.len() as u64, (range.end - range.start) * PAGE, "a page for each");
        self.gate.note_request();
        let (mut at, mut rest) = (range.start, target);
        while at < range.end {
            let until = match self.vol.leaf(inode, at) {
                Ok(LeafOrGap::Leaf(leaf)) => {
                    let part = leaf.part(&(at..range.end));
                    assert!(part.start == at && part.end > at, "page {at:?} has no slot here");
                    let bytes = ((part.end - at) * PAGE) as usize;
                    if !self.vol.fetch_in_to(&leaf, part.clone(), &mut rest[..bytes])? {
                        continue;
                    }
                    rest = &mut rest[bytes..];
                    at = part.end;
                    continue;
                }
                Ok(LeafOrGap::Gap { until, .. }) => until.min(range.end),
                Err(Error::TooBig) => range.end,
                Err(e) => return Err(e),
            };
            let (hole, behind) = rest.split_at_mut(((until - at) * PAGE) as usize);
            clear(hole);
            (at, rest) = (until, behind);
        }
        Ok(())
    }
}

/// Fills pages of the caller's with zeros.
fn clear(pages: &mut [u8]) {
    charge_n(Cost::PageZero, pages.len() as u64 / PAGE);
    pages.fill(0);
}
