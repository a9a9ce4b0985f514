//! The SIT in memory, and beside it which blocks the walk has reached.
//!
//! Memory: 138 bytes per main segment (74 for the entry, 64 for the reached map).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_format::bitmap;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::{BLOCKS_PER_SEG, Layout, Lba, SegNo};

const WORDS: usize = BLOCKS_PER_SEG as usize / 64;

/// Every segment of the main area.
pub(super) struct CheckedSegments {
    layout: Layout,
    sit: Vec<SitEntry>,
    reached: Vec<AtomicU64>,
}

/// The facts about a block that was just reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) segment: SegNo,
    pub(super) offset: u16,
    /// Something else reached it before.
    pub(super) again: bool,
    /// The SIT knows that it is in use.
    pub(super) valid: bool,
    /// Type of its segment.
    pub(super) kind: u8,
}

impl CheckedSegments {
    /// Takes the SIT over: one entry per main segment.
    pub(super) fn new(layout: Layout, sit: Vec<SitEntry>) -> Self {
        assert_eq!(sit.len(), layout.main_segments as usize);
        let reached = (0..sit.len() * WORDS).map(|_| AtomicU64::new(0)).collect();
        CheckedSegments { layout, sit, reached }
    }

    /// Notes that a block is in use; `None` if it lies outside the main area.
    pub(super) fn reach(&self, lba: Lba) -> Option<Reached> {
        let (segment, offset) = self.layout.seg_of(lba)?;
        let entry = &self.sit[segment.index()];
        // Bits lie as in the valid map: most significant first.
        let mask = 1 << (63 - offset % 64);
        let before = self.reached[segment.index() * WORDS + usize::from(offset) / 64].fetch_or(mask, Relaxed);
        let again = before & mask != 0;
        Some(Reached { segment, offset, again, valid: entry.is_valid(offset), kind: entry.raw_type() })
    }

    /// The entry of a segment.
    pub(super) fn entry(&self, segment: SegNo) -> &SitEntry {
        &self.sit[segment.index()]
    }

    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = (SegNo, &SitEntry)> + '_ {
        (0..).map(SegNo).zip(&self.sit)
    }

    /// Blocks of a segment that are valid in the SIT but were not reached: the first one and their number.
    pub(super) fn leaked(&self, segment: SegNo) -> Option<(Lba, u32)> {
        let map = self.sit[segment.index()].valid_map();
        let (mut first, mut count) = (None, 0);
        for (word, bytes) in map.as_chunks::<8>().0.iter().enumerate() {
            let reached = self.reached[segment.index() * WORDS + word].load(Relaxed);
            let leaked = u64::from_be_bytes(*bytes) & !reached;
            if leaked != 0 && first.is_none() {
                first = Some((word * 64) as u16 + leaked.leading_zeros() as u16);
            }
            count += leaked.count_ones();
        }
        first.map(|offset| (self.layout.lba_of(segment, offset), count))
    }

    /// Segments without a valid block, `current` ones not counted.
    pub(super) fn free(&self, current: &[SegNo]) -> u64 {
        let empty = self
            .entries()
            .filter(|(segment, entry)| bitmap::count_ones(entry.valid_map()) == 0 && !current.contains(segment));
        empty.count() as u64
    }
}
