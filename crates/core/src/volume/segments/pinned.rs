//! Blocks that must not be written, valid or not: what logs that fill holes (SSR, `mode=adaptive`) have to know beside
//! the validity maps.
//!
//! A block is pinned from the moment it is taken until a checkpoint whose snapshot lacks it has committed. Until then
//! three may refer to it: the checkpoint in force, the one being made, and the chain that recovery follows (format
//! section 11.2).
//!
//! Kept true: what is valid is pinned; nothing of a free segment is. Only pinned blocks are unpinned, and no log takes
//! a pinned one. So a thread that unpins a block never meets one that takes it.

use crate::bits::{AtomicBitmap, zeros};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_format::SegNo;

/// Words of a segment's map.
const WORDS: usize = 8;

/// A segment's map: block 0 is the top bit of the first word.
pub(crate) type Map = [u64; WORDS];

/// The pinned blocks of all segments.
pub(crate) struct PinnedBlocks {
    maps: Box<[AtomicU64]>,
    /// Segments that may have pinned blocks that are not valid.
    loose: AtomicBitmap,
}

/// The blocks to unpin when the checkpoint commits whose snapshot saw them invalid.
pub(crate) type Loose = Vec<(SegNo, Map)>;

impl PinnedBlocks {
    /// Nothing is pinned in `segments` segments.
    pub(crate) fn new(segments: usize) -> Self {
        PinnedBlocks { maps: zeros(segments * WORDS), loose: AtomicBitmap::new(segments) }
    }

    /// Pins blocks: bits of a word of the validity maps, which has the same place here.
    pub(crate) fn pin(&self, word: usize, bits: u64) {
        self.maps[word].fetch_or(bits, SeqCst);
    }

    /// A block of the segment is not valid any more.
    pub(crate) fn note_loss(&self, seg: usize) {
        self.loose.set(seg);
    }

    /// The pinned blocks of a segment.
    pub(crate) fn map(&self, seg: SegNo) -> Map {
        std::array::from_fn(|w| self.maps[seg.index() * WORDS + w].load(SeqCst))
    }

    /// What the next commit unpins: every pinned block that is not valid. Call under the exclusive checkpoint lock.
    pub(crate) fn take_loose(&self, valid: impl Fn(SegNo) -> Map) -> Loose {
        let mut out = Vec::new();
        for i in self.loose.iter().collect::<Vec<_>>() {
            self.loose.clear(i);
            let seg = SegNo::new(i as u32);
            let (pinned, valid) = (self.map(seg), valid(seg));
            let loose: Map = std::array::from_fn(|w| pinned[w] & !valid[w]);
            if loose != [0; WORDS] {
                out.push((seg, loose));
            }
        }
        out
    }

    /// The checkpoint has failed: the next one decides.
    pub(crate) fn put_back(&self, loose: &Loose) {
        for (seg, _) in loose {
            self.loose.set(seg.index());
        }
    }

    /// The checkpoint has committed.
    pub(crate) fn unpin(&self, seg: SegNo, map: &Map) {
        for (w, bits) in map.iter().enumerate() {
            let old = self.maps[seg.index() * WORDS + w].fetch_and(!bits, SeqCst);
            assert!(old & bits == *bits, "segment {seg} unpinned a block that was not pinned");
        }
    }
}

/// The first hole at or after `from`, and how many there are side by side.
pub(crate) fn hole(map: &Map, from: u32) -> Option<(u32, u32)> {
    let holes = map.map(|word| !word);
    let first = next_set(&holes, from)?;
    Some((first, next_set(map, first).unwrap_or(ALL) - first))
}

/// Blocks of a segment.
const ALL: u32 = WORDS as u32 * 64;

/// The first bit that is set, at or after `from`.
fn next_set(map: &Map, from: u32) -> Option<u32> {
    if from >= ALL {
        return None;
    }
    let first = from as usize / 64;
    let part = map[first] & (u64::MAX >> (from % 64));
    let mut words = std::iter::once(part).chain(map[first + 1..].iter().copied()).zip(first as u32..);
    words.find(|(word, _)| *word != 0).map(|(word, at)| at * 64 + word.leading_zeros())
}

/// How many blocks of a segment are pinned.
pub(crate) fn count(map: &Map) -> u32 {
    map.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_found_in_the_order_of_blocks() {
        let mut map = [u64::MAX; WORDS];
        assert_eq!((hole(&map, 0), count(&map)), (None, 512));
        map[0] &= !(0b111 << 60);
        map[7] &= !1;
        assert_eq!(hole(&map, 0), Some((1, 3)));
        assert_eq!(hole(&map, 2), Some((2, 2)));
        assert_eq!(hole(&map, 4), Some((511, 1)));
        assert_eq!(hole(&map, 512), None);
        assert_eq!(hole(&[0; WORDS], 5), Some((5, 507)));
        assert_eq!(count(&map), 508);
    }

    #[test]
    fn a_block_is_pinned_until_a_checkpoint_without_it_commits() {
        let pinned = PinnedBlocks::new(2);
        let seg = SegNo::new(1);
        pinned.pin(8, 0b11);
        assert!(pinned.take_loose(|_| [0; WORDS]).is_empty(), "nothing was lost");
        pinned.note_loss(1);
        let valid: Map = [0b01, 0, 0, 0, 0, 0, 0, 0];
        let taken = pinned.take_loose(|_| valid);
        assert_eq!(taken, [(seg, [0b10, 0, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(pinned.map(seg)[0], 0b11, "until the commit");
        pinned.put_back(&taken);
        let taken = pinned.take_loose(|_| valid);
        taken.iter().for_each(|(seg, map)| pinned.unpin(*seg, map));
        assert_eq!(pinned.map(seg)[0], 0b01);
        assert!(pinned.take_loose(|_| valid).is_empty());
    }
}
