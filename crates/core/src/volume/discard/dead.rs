//! Dead blocks of segments in use that have not been discarded: a map for each segment.
//!
//! A block gets here with the commit of the first checkpoint without it, and leaves when it is sent, when it is found
//! in use again, or when its whole section is discarded. Runs that are too short stay, and are joined by those that die
//! beside them. Runs end with their segment.

use crate::bits::AtomicBitmap;
use crate::volume::segments::pinned::{self, Map};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use steadyfs_format::SegNo;

/// Words of a segment's map.
const WORDS: usize = 8;

/// The dead blocks of all segments.
pub(crate) struct Dead {
    maps: Box<[AtomicU64]>,
    /// Segments to be looked at: something has died there since the last look.
    pub(crate) segments: AtomicBitmap,
    /// Where the next look begins.
    pub(crate) cursor: AtomicUsize,
    /// Blocks in the shortest run that is sent.
    smallest: u32,
    blocks: AtomicI64,
}

/// The runs taken out of a segment's map.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// First block and number of blocks of each run.
    pub(crate) runs: Vec<(u32, u32)>,
    /// Blocks that are in use again.
    pub(crate) reused: u32,
    /// There are more runs that are long enough.
    pub(crate) more: bool,
}

impl Dead {
    /// Nothing has died in `segments` segments. Runs of fewer than `smallest` blocks are kept.
    pub(crate) fn new(segments: usize, smallest: u32) -> Self {
        Dead {
            maps: (0..segments * WORDS).map(|_| AtomicU64::new(0)).collect(),
            segments: AtomicBitmap::new(segments),
            cursor: AtomicUsize::new(0),
            smallest,
            blocks: AtomicI64::new(0),
        }
    }

    /// Blocks in the maps.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.blocks.load(SeqCst)).unwrap_or(0)
    }

    /// These blocks of a segment have died, and a checkpoint without them has committed.
    pub(crate) fn add(&self, seg: SegNo, map: &Map) {
        for (word, bits) in self.words(seg).iter().zip(map) {
            let old = word.fetch_or(*bits, SeqCst);
            self.blocks.fetch_add(i64::from((bits & !old).count_ones()), SeqCst);
        }
        self.segments.set(seg.index());
    }

    /// Takes the runs of a segment that are long enough, at most `most`, and drops blocks that are in use again. Nobody
    /// takes blocks of the segment meanwhile.
    pub(crate) fn take(&self, seg: SegNo, held: &Map, most: usize) -> Taken {
        let dead: Map = std::array::from_fn(|w| self.words(seg)[w].load(SeqCst));
        let reused: Map = std::array::from_fn(|w| dead[w] & held[w]);
        self.remove(seg, &reused);
        // The complement: runs of dead blocks are its holes.
        let rest: Map = std::array::from_fn(|w| !(dead[w] & !held[w]));
        let mut taken = Taken { reused: pinned::count(&reused), ..Taken::default() };
        let mut from = 0;
        while let Some((first, count)) = pinned::hole(&rest, from) {
            from = first + count;
            if count < self.smallest {
                continue;
            }
            if taken.runs.len() == most {
                taken.more = true;
                break;
            }
            self.remove(seg, &run(first, count));
            taken.runs.push((first, count));
        }
        taken
    }

    /// The whole segment is being discarded.
    pub(crate) fn forget(&self, seg: SegNo) {
        self.segments.clear(seg.index());
        self.remove(seg, &[u64::MAX; WORDS]);
    }

    /// Nothing is to be discarded any more.
    pub(crate) fn clear(&self) {
        (0..self.maps.len() / WORDS).for_each(|seg| self.forget(SegNo::new(seg as u32)));
    }

    fn remove(&self, seg: SegNo, map: &Map) {
        for (word, bits) in self.words(seg).iter().zip(map).filter(|(_, bits)| **bits != 0) {
            let old = word.fetch_and(!bits, SeqCst);
            self.blocks.fetch_sub(i64::from((old & bits).count_ones()), SeqCst);
        }
    }

    fn words(&self, seg: SegNo) -> &[AtomicU64] {
        &self.maps[seg.index() * WORDS..][..WORDS]
    }
}

/// The map of a run of blocks.
fn run(first: u32, count: u32) -> Map {
    assert!(count > 0 && first + count <= WORDS as u32 * 64, "{count} blocks of a segment from {first} on");
    let from = |block: u32, word: usize| match block.saturating_sub(word as u32 * 64) {
        0 => u64::MAX,
        at => u64::MAX.checked_shr(at).unwrap_or(0),
    };
    std::array::from_fn(|word| from(first, word) & !from(first + count, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEG: SegNo = SegNo::new(1);
    const NOTHING: Map = [0; WORDS];

    fn dead(smallest: u32, runs: &[(u32, u32)]) -> Dead {
        let dead = Dead::new(2, smallest);
        runs.iter().for_each(|(first, count)| dead.add(SEG, &run(*first, *count)));
        dead
    }

    #[test]
    fn maps_of_runs_have_their_blocks() {
        for (first, count) in [(0, 1), (0, 64), (0, 512), (63, 2), (64, 64), (100, 300), (511, 1)] {
            let map = run(first, count);
            assert_eq!(pinned::count(&map), count, "{first}+{count}");
            assert_eq!(pinned::hole(&map.map(|word| !word), 0), Some((first, count)));
        }
    }

    #[test]
    fn runs_are_taken_from_their_smallest_size_on_and_short_ones_grow() {
        let dead = dead(16, &[(3, 16), (60, 15), (200, 312)]);
        assert_eq!(dead.count(), 343);
        let taken = dead.take(SEG, &NOTHING, 8);
        assert_eq!(taken, Taken { runs: vec![(3, 16), (200, 312)], reused: 0, more: false });
        assert_eq!(dead.count(), 15);
        dead.add(SEG, &run(75, 1));
        assert_eq!(dead.take(SEG, &NOTHING, 8).runs, [(60, 16)]);
        assert_eq!((dead.count(), dead.take(SEG, &NOTHING, 8)), (0, Taken::default()));
    }

    #[test]
    fn no_more_are_taken_than_asked_for() {
        let dead = dead(1, &[(0, 1), (2, 1), (4, 1)]);
        assert_eq!(dead.take(SEG, &NOTHING, 2), Taken { runs: vec![(0, 1), (2, 1)], reused: 0, more: true });
        assert_eq!(dead.take(SEG, &NOTHING, 2), Taken { runs: vec![(4, 1)], reused: 0, more: false });
    }

    #[test]
    fn a_block_in_use_again_is_not_discarded() {
        let dead = dead(1, &[(10, 5)]);
        let taken = dead.take(SEG, &run(12, 1), 8);
        assert_eq!(taken, Taken { runs: vec![(10, 2), (13, 2)], reused: 1, more: false });
        assert_eq!(dead.count(), 0);
        dead.add(SEG, &run(12, 1));
        dead.forget(SEG);
        assert_eq!((dead.count(), dead.segments.count()), (0, 0));
    }
}
