//! Maps and sets keyed by the numbers of the format: node ids, inodes, blocks, pages.
//!
//! Such keys are hashed by one multiplication instead of the many steps that names from outside need. Kept true: the
//! multiplier's partner is drawn for each map, so no image can choose numbers that all fall into one place.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

/// A map by numbers.
pub type NumberMap<K, V> = HashMap<K, V, NumberState>;

/// A set of numbers.
pub type NumberSet<K> = HashSet<K, NumberState>;

/// Makes the hashers of one map.
#[derive(Clone, Copy, Debug)]
pub struct NumberState(u64);

impl Default for NumberState {
    fn default() -> Self {
        NumberState(RandomState::new().hash_one(0u64))
    }
}

impl BuildHasher for NumberState {
    type Hasher = NumberHasher;

    #[inline]
    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

/// Hashes numbers.
#[derive(Clone, Copy, Debug)]
pub struct NumberHasher(u64);

/// An odd number whose bits look random: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for NumberHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// Both halves of the product: tables go by the low bits, which the product alone takes from those of the key.
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(MULTIPLIER);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ino, Lba};

    /// How many of 1024 places are taken when as many keys fall into them by these bits of their hashes.
    fn places(keys: impl Iterator<Item = u64>, shift: u32) -> usize {
        let state = NumberState::default();
        keys.take(1024).map(|key| state.hash_one(key) >> shift & 1023).collect::<HashSet<_>>().len()
    }

    #[test]
    fn numbers_that_have_their_low_bits_in_common_spread() {
        // 1024 balls in 1024 places leave 647 of them taken, in the mean.
        for step in [1, 64, 512, 4096, 1 << 20, 1 << 40] {
            for shift in [0, 54] {
                let taken = places((0..).map(|n| n * step), shift);
                assert!(taken > 450, "{taken} places, step {step}, shift {shift}");
            }
        }
    }

    #[test]
    fn maps_differ_in_where_they_put_a_key() {
        let hash = || NumberState::default().hash_one(Ino(7));
        let first = hash();
        assert!((0..8).any(|_| hash() != first));
    }

    #[test]
    fn maps_find_what_they_were_given() {
        let mut map = NumberMap::default();
        (0..10_000).for_each(|n| assert_eq!(map.insert(Lba(n * 64), n), None));
        assert!((0..10_000).all(|n| map.get(&Lba(n * 64)) == Some(&n) && !map.contains_key(&Lba(n * 64 + 1))));
        let set: NumberSet<Ino> = (1..100).map(Ino).collect();
        assert!(set.contains(&Ino(99)) && !set.contains(&Ino(100)));
    }
}
