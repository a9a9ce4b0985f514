//! What was lost of an inode's contents: bytes that the kernel wrote back, and that were refused.
//!
//! The kernel tells of such an error once, and takes its pages for clean from then on. It sends them never again, so
//! only the server can know later that they are missing.
//!
//! Kept true: ranges neither overlap nor touch, and are few; where they are too many, gaps between them count as lost,
//! too.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most ranges that are kept apart for one inode.
const MOST: usize = 256;

/// Lost bytes of one inode.
#[derive(Debug)]
pub(super) struct Lost {
    /// Where each begins and ends.
    ranges: BTreeMap<u64, u64>,
    /// Why the last one was refused.
    why: Errno,
    /// Some lay behind the end, and are no longer awaited ([`Lost::end_at`]); no fsync has told of them.
    cut: bool,
}

impl Lost {
    pub(super) fn new(range: Range<u64>, why: Errno) -> Self {
        Lost { ranges: BTreeMap::from([(range.start, range.end)]), why, cut: false }
    }

    /// Why the last one was refused; `None` if none is left, and all was told.
    pub(super) fn why(&self) -> Option<Errno> {
        (self.cut || !self.ranges.is_empty()).then_some(self.why)
    }

    /// What lies behind `end` is no longer awaited: the file ends there. One fsync is still to tell of it.
    pub(super) fn end_at(&mut self, end: u64) {
        let (before, last) = (self.ranges.len(), self.last_until(u64::MAX));
        self.remove(end..u64::MAX);
        self.cut |= self.ranges.len() < before || self.last_until(u64::MAX) != last;
    }

    /// An fsync tells of it.
    pub(super) fn told(&mut self) {
        self.cut = false;
    }

    /// Adds a range that was refused.
    pub(super) fn add(&mut self, mut range: Range<u64>, why: Errno) {
        self.why = why;
        while let Some((start, end)) = self.last_until(range.end).filter(|(_, end)| *end >= range.start) {
            self.ranges.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        if self.ranges.len() >= MOST
            && let Some((start, end)) = self.last_until(range.start).or_else(|| self.ranges.pop_first())
        {
            self.ranges.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.ranges.insert(range.start, range.end);
    }

    /// Takes out what the file system holds now as the program wanted it.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((start, end)) = self.last_until(range.end - 1).filter(|(_, end)| *end > range.start) {
            self.ranges.remove(&start);
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
        }
    }

    /// The last range that begins at or before `at`.
    fn last_until(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges.range(..=at).next_back().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(lost: &Lost) -> Vec<(u64, u64)> {
        lost.ranges.iter().map(|(start, end)| (*start, *end)).collect()
    }

    #[test]
    fn ranges_grow_together_and_are_cut() {
        let mut lost = Lost::new(10..20, Errno::IO);
        lost.add(30..40, Errno::NOSPC);
        assert_eq!((ranges(&lost), lost.why()), (vec![(10, 20), (30, 40)], Some(Errno::NOSPC)));
        lost.add(20..25, Errno::IO);
        lost.add(5..8, Errno::IO);
        assert_eq!(ranges(&lost), [(5, 8), (10, 25), (30, 40)]);
        lost.add(7..31, Errno::IO);
        assert_eq!(ranges(&lost), [(5, 40)]);
        lost.remove(10..20);
        lost.remove(0..6);
        lost.remove(35..u64::MAX);
        lost.remove(12..12);
        assert_eq!(ranges(&lost), [(6, 10), (20, 35)]);
        lost.remove(8..25);
        assert_eq!(ranges(&lost), [(6, 8), (25, 35)]);
        lost.remove(0..u64::MAX);
        assert_eq!(lost.why(), None);
    }

    #[test]
    fn what_lay_behind_the_end_is_told_once() {
        let mut lost = Lost::new(10..20, Errno::NOSPC);
        lost.end_at(20);
        assert!(!lost.cut, "all of it is before the end");
        lost.end_at(15);
        assert_eq!((ranges(&lost), lost.cut), (vec![(10, 15)], true));
        lost.told();
        assert_eq!(lost.why(), Some(Errno::NOSPC), "some are missing within the file");
        lost.end_at(5);
        assert_eq!((ranges(&lost), lost.why()), (vec![], Some(Errno::NOSPC)));
        lost.told();
        assert_eq!(lost.why(), None);
    }

    #[test]
    fn too_many_ranges_become_fewer_and_miss_nothing() {
        let mut lost = Lost::new(0..1, Errno::IO);
        let all: Vec<u64> = (1..2000).map(|n| n * 7919 % 2000 * 10).collect();
        for at in &all {
            lost.add(*at..*at + 1, Errno::IO);
            assert!(lost.ranges.len() <= MOST);
        }
        let kept = ranges(&lost);
        assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].0), "{kept:?}");
        assert!(all.iter().all(|at| kept.iter().any(|(start, end)| start <= at && at < end)));
    }
}
