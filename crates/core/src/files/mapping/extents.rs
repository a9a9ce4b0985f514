//! Ranges of pages as runs of like slots.

use super::LeafOrGap;
use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::volume::Volume;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use crate::volume::placement::places::Home;
use std::ops::Range;
use steadyfs_format::{Lba, PageIndex, Slot};

/// Neighbouring pages whose slots are alike: all holes, all reserved, all marked compressed, or consecutive blocks of
/// one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) pages: Range<PageIndex>,
    /// The first page's slot.
    pub(crate) slot: Slot,
    /// Of addresses: their home when the slots were read. A block read from the device is the page's only if both slot
    /// and home are still the same afterwards.
    pub(crate) home: Option<Home>,
}

impl Extent {
    /// Number of pages.
    pub(crate) fn count(&self) -> u64 {
        self.pages.end - self.pages.start
    }

    /// What the slot of one of its pages held.
    pub(crate) fn slot_at(&self, page: PageIndex) -> Slot {
        assert!(self.pages.contains(&page), "page {page:?} is not in {self:?}");
        match self.slot {
            Slot::At(lba) => Slot::At(lba + (page - self.pages.start)),
            other => other,
        }
    }

    /// Takes the next page in if it is alike.
    fn absorb(&mut self, next: &Extent) -> bool {
        let alike = self.pages.end == next.pages.start && self.home == next.home;
        let follows = match (self.slot, next.slot) {
            (Slot::At(a), Slot::At(b)) => a + self.count() == b,
            (a, b) => a == b,
        };
        if alike && follows {
            self.pages.end = next.pages.end;
        }
        alike && follows
    }
}

impl Volume {
    /// The pages of a range as extents, in order and without gaps. Pages beyond what the tree can reach are holes.
    pub(crate) fn extents(&self, inode: &Inode, range: Range<PageIndex>) -> Result<Vec<Extent>> {
        let mut out: Vec<Extent> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let part = match self.leaf(inode, at) {
                Ok(LeafOrGap::Leaf(leaf)) => match self.extents_in(&leaf, at..range.end)? {
                    Some(part) => part,
                    None => continue,
                },
                Ok(LeafOrGap::Gap { until, .. }) => vec![hole(at..until.min(range.end))],
                Err(Error::TooBig) => vec![hole(at..range.end)],
                Err(e) => return Err(e),
            };
            for extent in part {
                assert!(extent.pages.start == at && extent.pages.end > at, "{extent:?} does not begin at page {at:?}");
                at = extent.pages.end;
                if !out.last_mut().is_some_and(|last| last.absorb(&extent)) {
                    out.push(extent);
                }
            }
        }
        Ok(out)
    }

    /// The part of a range that lies in one node; `None` if the node was freed meanwhile.
    pub(crate) fn extents_in(&self, leaf: &Leaf, range: Range<PageIndex>) -> Result<Option<Vec<Extent>>> {
        let guard = leaf.node.read();
        if guard.is_dead() {
            return Ok(None);
        }
        let area = Area::of(guard.bytes(), self.sb.features())?;
        let part = leaf.part(&range);
        let mut out: Vec<Extent> = Vec::new();
        for page in (part.start.get()..part.end.get()).map(PageIndex) {
            let slot = area.get(guard.bytes(), leaf.slot_of(page));
            let home = slot.lba().map(|lba| self.home_of(lba)).transpose()?;
            let one = Extent { pages: page..page + 1, slot, home };
            if !out.last_mut().is_some_and(|last| last.absorb(&one)) {
                out.push(one);
            }
        }
        Ok(Some(out))
    }

    /// An address outside the main area is damage.
    fn home_of(&self, lba: Lba) -> Result<Home> {
        let outside = || Error::corrupt(format!("a file's block {lba} lies outside the main area"));
        self.placement.home(lba).ok_or_else(outside)
    }
}

fn hole(pages: Range<PageIndex>) -> Extent {
    Extent { pages, slot: Slot::Hole, home: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(from: u64, to: u64, slot: Slot, seg: Option<u32>) -> Extent {
        Extent {
            pages: PageIndex(from)..PageIndex(to),
            slot,
            home: seg.map(|s| Home::Segment { seg: steadyfs_format::SegNo(s), generation: 0 }),
        }
    }

    #[test]
    fn only_alike_neighbours_merge() {
        let at = |n| Slot::At(Lba(n));
        let mut run = extent(0, 2, at(100), Some(1));
        assert!(run.absorb(&extent(2, 3, at(102), Some(1))));
        assert!(!run.absorb(&extent(3, 4, at(104), Some(1))), "a block is missing between");
        assert!(!run.absorb(&extent(3, 4, at(103), Some(2))), "another segment");
        assert!(!run.absorb(&extent(4, 5, at(104), Some(1))), "a page is missing between");
        assert!(!run.absorb(&extent(3, 4, Slot::Hole, None)));
        assert_eq!((run.count(), run.slot_at(PageIndex(2))), (3, at(102)));
        let mut holes = extent(0, 1, Slot::Hole, None);
        assert!(holes.absorb(&extent(1, 9, Slot::Hole, None)) && !holes.absorb(&extent(9, 10, Slot::New, None)));
    }
}
