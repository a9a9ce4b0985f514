//! A bitmap of atomic words: segment sets that many threads change without a lock.
//!
//! Only the returned old bit decides who made a change, so counters derived from it never drift.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// A fixed-size set of small integers with a count; all operations are atomic per bit.
pub(crate) struct AtomicBitmap {
    words: Box<[AtomicU64]>,
    len: usize,
    ones: AtomicUsize,
}

impl AtomicBitmap {
    /// An empty set over `0..len`.
    pub(crate) fn new(len: usize) -> Self {
        let words = (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        AtomicBitmap { words, len, ones: AtomicUsize::new(0) }
    }

    /// The set of all of `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let all = AtomicBitmap::new(len);
        for i in 0..len {
            all.set(i);
        }
        all
    }

    /// Number of members.
    pub(crate) fn count(&self) -> usize {
        self.ones.load(SeqCst)
    }

    /// Whether `i` is a member.
    pub(crate) fn test(&self, i: usize) -> bool {
        assert!(i < self.len);
        self.words[i / 64].load(SeqCst) >> (i % 64) & 1 == 1
    }

    /// Adds `i`; true if it was not a member before.
    pub(crate) fn set(&self, i: usize) -> bool {
        assert!(i < self.len);
        let mask = 1u64 << (i % 64);
        let added = self.words[i / 64].fetch_or(mask, SeqCst) & mask == 0;
        if added {
            self.ones.fetch_add(1, SeqCst);
        }
        added
    }

    /// Removes `i`; true if it was a member before.
    pub(crate) fn clear(&self, i: usize) -> bool {
        assert!(i < self.len);
        let mask = 1u64 << (i % 64);
        let removed = self.words[i / 64].fetch_and(!mask, SeqCst) & mask != 0;
        if removed {
            self.ones.fetch_sub(1, SeqCst);
        }
        removed
    }

    /// The first member at or after `from`, if any.
    pub(crate) fn next_set(&self, from: usize) -> Option<usize> {
        if from >= self.len {
            return None;
        }
        let mut w = from / 64;
        let mut bits = self.words[w].load(SeqCst) & (!0u64 << (from % 64));
        loop {
            if bits != 0 {
                return Some(w * 64 + bits.trailing_zeros() as usize);
            }
            w += 1;
            if w == self.words.len() {
                return None;
            }
            bits = self.words[w].load(SeqCst);
        }
    }

    /// All members in rising order, each as it is at the moment of the visit.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.iter_from(0)
    }

    /// The members at or after `from` in rising order, each as it is at the moment of the visit.
    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let mut next = from;
        std::iter::from_fn(move || {
            let i = self.next_set(next)?;
            next = i + 1;
            Some(i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_clear_and_count_agree() {
        let b = AtomicBitmap::new(200);
        assert!(b.set(0) && b.set(63) && b.set(64) && b.set(199));
        assert!(!b.set(64), "a second set reports no change");
        assert_eq!(b.iter().collect::<Vec<_>>(), [0, 63, 64, 199]);
        assert_eq!(b.count(), 4);
        assert!(b.clear(63) && !b.clear(63));
        assert_eq!(b.next_set(1), Some(64));
        assert_eq!(b.next_set(65), Some(199));
        assert_eq!(b.count(), 3);
        assert!(!b.test(63) && b.test(199));
    }
}
