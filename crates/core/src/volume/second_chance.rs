//! A part of a table in memory whose unused entries leave, a few at a time (CLOCK, or second chance).
//!
//! A hand goes around the entries and goes on where it stopped. So a thread that adds one looks at a few, however many
//! there are, and nobody holds the part's lock for long.
//!
//! Kept true: each entry has one seat in the ring, and knows which; on its way from the first seat to the last the hand
//! comes once by every entry that is there all the time.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use steadyfs_format::numbers::NumberMap;
use steadyfs_rt::{Cost, Mutex, charge_n};

/// Parts of a table.
pub(crate) const SHARDS: usize = 256;

/// The least limit that a table has.
pub(crate) const LEAST: usize = 64;

/// Entries that a thread looks at when it adds one, where there are too many: two to have one leave, for each has a
/// second chance, and as many to catch up.
pub(crate) const LOOKS: usize = 4;

/// Entries that a look at all of them takes at once.
const PIECE: usize = 64;

/// Where an entry sits in the ring of its part; changed under the part's lock.
#[derive(Debug, Default)]
pub(crate) struct Seat(AtomicU32);

impl Seat {
    fn get(&self) -> usize {
        self.0.load(Relaxed) as usize
    }

    fn set(&self, at: usize) {
        self.0.store(u32::try_from(at).expect("there are no more entries than numbers for them"), Relaxed);
    }
}

/// An entry that can be found in a ring.
pub(crate) trait Seated {
    /// Its seat.
    fn seat(&self) -> &Seat;
}

/// A part of a table.
pub(crate) struct SecondChance<K, V> {
    entries: NumberMap<K, Arc<V>>,
    ring: Vec<K>,
    hand: usize,
}

impl<K, V> Default for SecondChance<K, V> {
    fn default() -> Self {
        SecondChance { entries: NumberMap::default(), ring: Vec::new(), hand: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Seated> SecondChance<K, V> {
    /// The entry with this key.
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&Arc<V>> {
        self.entries.get(&key)
    }

    /// Every entry.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.entries.values()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Adds an entry. One with its key gives its seat up, and is returned.
    pub(crate) fn insert(&mut self, key: K, value: Arc<V>) -> Option<Arc<V>> {
        let old = self.entries.insert(key, Arc::clone(&value));
        match &old {
            Some(old) => value.seat().set(old.seat().get()),
            None => {
                value.seat().set(self.ring.len());
                self.ring.push(key);
            }
        }
        assert_eq!(self.entries.len(), self.ring.len(), "an entry has no seat, or a seat no entry");
        old
    }

    /// Takes an entry out. One that the hand has passed gets its seat, and the last one a seat before the hand.
    pub(crate) fn remove(&mut self, key: K) -> Option<Arc<V>> {
        let gone = self.entries.remove(&key)?;
        let mut at = gone.seat().get();
        if at < self.hand {
            self.hand -= 1;
            self.ring.swap(at, self.hand);
            if at != self.hand {
                self.entries[&self.ring[at]].seat().set(at);
            }
            at = self.hand;
        }
        self.ring.swap_remove(at);
        if let Some(moved) = self.ring.get(at) {
            self.entries[moved].seat().set(at);
        }
        assert_eq!(self.entries.len(), self.ring.len(), "an entry has no seat, or a seat no entry");
        Some(gone)
    }

    /// The hand goes on by no more than `most` entries, and takes out those that do not stay.
    pub(crate) fn go_on(&mut self, most: usize, mut stays: impl FnMut(&Arc<V>) -> bool) -> Vec<Arc<V>> {
        let (looks, mut gone) = (most.min(self.ring.len()), Vec::new());
        // Each is on a cache line that another core may have written.
        charge_n(Cost::RadixLookup, looks as u64);
        for _ in 0..looks {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let key = self.ring[self.hand];
            match stays(&self.entries[&key]) {
                true => self.hand += 1,
                false => gone.extend(self.remove(key)),
            }
        }
        gone
    }
}

/// Looks at each entry of a table twice, a few at a time, while there are too many. `drop_some` takes
/// those out that may leave, among the next entries of a part; it is told how many to look at.
pub(crate) fn sweep<K: Copy + Eq + Hash, V: Seated>(
    shards: &[Mutex<SecondChance<K, V>>],
    too_many: impl Fn() -> bool,
    drop_some: impl Fn(&mut SecondChance<K, V>, usize) -> Vec<Arc<V>>,
) {
    for shard in shards.iter().chain(shards) {
        let mut left = shard.lock().len();
        while left > 0 && too_many() {
            let gone = drop_some(&mut shard.lock(), PIECE);
            // Their memory goes when others can have the part.
            drop(gone);
            left = left.saturating_sub(PIECE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use steadyfs_format::Ino;

    #[derive(Default)]
    struct Entry(u32, Seat);

    impl Seated for Entry {
        fn seat(&self) -> &Seat {
            &self.1
        }
    }

    type Part = SecondChance<Ino, Entry>;

    fn add(part: &mut Part, n: u32) -> Option<u32> {
        part.insert(Ino(n), Arc::new(Entry(n, Seat::default()))).map(|old| old.0)
    }

    #[test]
    fn the_hand_comes_by_everybody_whatever_leaves_meanwhile() {
        let mut part = Part::default();
        (0..100).for_each(|n| assert_eq!(add(&mut part, n), None));
        let (mut seen, mut removed) = (Vec::new(), BTreeSet::new());
        while part.hand < part.len() {
            let looks = seen.len();
            let most = 3.min(part.len() - part.hand);
            let out = part.go_on(most, |entry| {
                seen.push(entry.0);
                !entry.0.is_multiple_of(5)
            });
            assert_eq!(seen.len() - looks, most, "the hand goes on by as many as it may");
            assert!(out.iter().all(|gone| gone.0.is_multiple_of(5)));
            // Others leave, whom the hand has passed and whom it has not.
            let others = [seen[looks], 99 - seen[looks]];
            removed.extend(others.into_iter().filter(|n| part.remove(Ino(*n)).is_some()));
        }
        let once: BTreeSet<u32> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "the hand came by one twice");
        assert!((0..100).all(|n| once.contains(&n) || removed.contains(&n)), "the hand passed one over: {once:?}");
        assert!(removed.len() > 20 && part.values().all(|entry| !entry.0.is_multiple_of(5)));
    }

    #[test]
    fn entries_are_where_they_say_after_any_changes() {
        let (mut part, mut model, mut random) = (Part::default(), BTreeSet::new(), 1u64);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (n, what) = ((random >> 40) as u32 % 64, random >> 60);
            match what {
                0..8 => assert_eq!(add(&mut part, n).is_none(), model.insert(n)),
                8..14 => assert_eq!(part.remove(Ino(n)).is_some(), model.remove(&n)),
                _ => part.go_on(4, |entry| entry.0 % 3 != n % 3).iter().for_each(|gone| assert!(model.remove(&gone.0))),
            }
            assert_eq!(part.len(), model.len());
            let sits = |entry: &Arc<Entry>| part.ring[entry.seat().get()] == Ino(entry.0);
            assert!(part.values().all(sits) && model.iter().all(|n| part.get(Ino(*n)).is_some()));
        }
        assert!(part.go_on(4, |_| true).is_empty());
        Part::default().go_on(4, |_| panic!("there is nobody"));
    }
}
