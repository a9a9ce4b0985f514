//! A bitmap of atomic words: segment sets that many threads change without a lock.
//!
//! Only the returned old bit decides who made a change, and each change is counted once, so the count is right when
//! nobody changes the set. Beside changes it may be off by as many as are being made, and is never outside of what the
//! set can have.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use zerocopy::{FromZeros, KnownLayout};

/// A table of `len` zeros. Of a large one the system gives the memory where it is first written.
///
/// # Panics
/// If there is no memory, as elsewhere.
pub(crate) fn zeros<T: FromZeros>(len: usize) -> Box<[T]>
where
    [T]: KnownLayout<PointerMetadata = usize> + FromZeros,
{
    <[T]>::new_box_zeroed_with_elems(len).unwrap_or_else(|_| panic!("no memory for a table of {len}"))
}

/// A fixed-size set of small integers with a count; all operations are atomic per bit.
pub(crate) struct AtomicBitmap {
    words: Box<[AtomicU64]>,
    len: usize,
    /// Signed: a member may be counted out before the thread that added it has counted it in.
    ones: AtomicI64,
}

impl AtomicBitmap {
    /// An empty set over `0..len`.
    pub(crate) fn new(len: usize) -> Self {
        AtomicBitmap { words: zeros(len.div_ceil(64)), len, ones: AtomicI64::new(0) }
    }

    /// The set of all of `0..len`.
    pub(crate) fn full(len: usize) -> Self {
        let of = |word: usize| u64::MAX >> (64 - (len - word * 64).min(64));
        let words = (0..len.div_ceil(64)).map(|word| AtomicU64::new(of(word))).collect();
        AtomicBitmap { words, len, ones: AtomicI64::new(i64::try_from(len).unwrap_or(i64::MAX)) }
    }

    /// Number of members.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.ones.load(SeqCst)).unwrap_or(0).min(self.len)
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_count_stays_within_the_set_beside_changes() {
        let (bits, stop) = (Arc::new(AtomicBitmap::new(64)), Arc::new(AtomicBool::new(false)));
        let change = |own: usize| {
            let (bits, stop) = (Arc::clone(&bits), Arc::clone(&stop));
            steadyfs_rt::spawn("changer", move || {
                // One bit that all change, and one of its own.
                while !stop.load(SeqCst) {
                    bits.set(7);
                    bits.clear(7);
                    bits.set(own);
                    bits.clear(own);
                }
            })
        };
        let changers: Vec<_> = (10..14).map(change).collect();
        let most = (0..2_000_000).map(|_| bits.count()).max();
        stop.store(true, SeqCst);
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        assert!(most <= Some(64), "{most:?} of 64");
        assert_eq!(bits.count(), 0);
    }

    #[test]
    fn a_member_that_is_counted_out_first_does_not_make_the_count_wrap() {
        let bits = AtomicBitmap::new(64);
        // As between the two steps of `set`, with a `clear` in between.
        bits.words[0].fetch_or(1, SeqCst);
        assert!(bits.clear(0));
        assert_eq!(bits.count(), 0);
        bits.ones.fetch_add(1, SeqCst);
        assert!(bits.set(1));
        assert_eq!(bits.count(), 1);
    }

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
