//! Which block comes next: sequential, or at random in one of fio's ways.
//!
//! - sequential: reads and writes each have a place of their own, as in fio;
//! - a random map: every block once, in random order, before any comes again (fio's default);
//! - `lfsr`: the same without a map, from a linear feedback shift register, in the same order in every pass;
//! - without a map (`norandommap`), uniform or by Zipf's law: there are no passes.
//!
//! A pass ends when a block is asked for and none is left; [`Offsets::rewind`] begins the next, from the same seed if
//! the job says so.

use crate::rng::Rng;

/// Numbers of blocks, one after the other.
pub(crate) enum Offsets {
    /// The next block to be read, and to be written.
    Sequential {
        next: [u64; 2],
        blocks: u64,
    },
    Mapped(Map),
    Lfsr(Lfsr),
    Uniform {
        rng: Rng,
        blocks: u64,
    },
    Zipf(Box<Zipf>),
}

impl Offsets {
    /// The next block to be read (`lane` 0) or written (1); `None` at the end of a pass.
    pub(crate) fn next(&mut self, lane: usize) -> Option<u64> {
        match self {
            Offsets::Sequential { next, blocks } => {
                let at = next[lane];
                next[lane] = (at + 1).min(*blocks);
                (at < *blocks).then_some(at)
            }
            Offsets::Mapped(map) => map.next(),
            Offsets::Lfsr(lfsr) => lfsr.next(),
            Offsets::Uniform { rng, blocks } => Some(rng.below(*blocks)),
            Offsets::Zipf(zipf) => Some(zipf.next()),
        }
    }

    /// Begins a pass; in the order of the first one if `repeat`.
    pub(crate) fn rewind(&mut self, repeat: bool) {
        match self {
            Offsets::Sequential { next, .. } => *next = [0; 2],
            Offsets::Mapped(map) => map.rewind(repeat),
            Offsets::Lfsr(lfsr) => lfsr.rewind(),
            Offsets::Uniform { .. } | Offsets::Zipf(_) => {}
        }
    }

    /// One lane goes back to the beginning of the file, as in a sequential job that time ends.
    pub(crate) fn wrap(&mut self, lane: usize) {
        match self {
            Offsets::Sequential { next, .. } => next[lane] = 0,
            _ => self.rewind(false),
        }
    }
}

/// Every block once per pass: a block at random, or the next one behind it that this pass has not had.
pub(crate) struct Map {
    /// As it was in the beginning.
    first: Rng,
    rng: Rng,
    blocks: u64,
    left: u64,
    taken: Vec<u64>,
}

impl Map {
    pub(crate) fn new(rng: Rng, blocks: u64) -> Self {
        let mut map = Map { first: rng.clone(), rng, blocks, left: 0, taken: Vec::new() };
        map.rewind(true);
        map
    }

    fn rewind(&mut self, repeat: bool) {
        if repeat {
            self.rng = self.first.clone();
        }
        self.left = self.blocks;
        self.taken = vec![0; self.blocks.div_ceil(64) as usize];
        if !self.blocks.is_multiple_of(64)
            && let Some(last) = self.taken.last_mut()
        {
            *last = !0 << (self.blocks % 64); // blocks behind the end are nobody's
        }
    }

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let wanted = self.rng.below(self.blocks);
        let words = self.taken.len();
        let first = (wanted / 64) as usize;
        let behind = !0u64 << (wanted % 64);
        for step in 0..=words {
            let at = (first + step) % words;
            // The first word counts from the block on, and once more as a whole after all the others.
            let mask = if step == 0 { behind } else { !0 };
            let free = !self.taken[at] & mask;
            if free != 0 {
                let bit = free.trailing_zeros();
                self.taken[at] |= 1 << bit;
                return Some(at as u64 * 64 + u64::from(bit));
            }
        }
        unreachable!("{} blocks are left and none is found", self.left + 1)
    }
}

/// Taps of registers with the longest period, by their number of bits from 2 on.
const TAPS: [&[u32]; 31] = [
    &[2, 1],
    &[3, 2],
    &[4, 3],
    &[5, 3],
    &[6, 5],
    &[7, 6],
    &[8, 6, 5, 4],
    &[9, 5],
    &[10, 7],
    &[11, 9],
    &[12, 6, 4, 1],
    &[13, 4, 3, 1],
    &[14, 5, 3, 1],
    &[15, 14],
    &[16, 15, 13, 4],
    &[17, 14],
    &[18, 11],
    &[19, 6, 2, 1],
    &[20, 17],
    &[21, 19],
    &[22, 21],
    &[23, 18],
    &[24, 23, 22, 17],
    &[25, 22],
    &[26, 6, 2, 1],
    &[27, 5, 2, 1],
    &[28, 25],
    &[29, 27],
    &[30, 6, 4, 1],
    &[31, 28],
    &[32, 22, 2, 1],
];

/// A shift register whose states are the blocks.
pub(crate) struct Lfsr {
    blocks: u64,
    left: u64,
    /// Where each pass begins.
    first: u64,
    state: u64,
    taps: u64,
}

impl Lfsr {
    pub(crate) fn new(mut rng: Rng, blocks: u64) -> Self {
        assert!(blocks > 0 && blocks < 1 << 32, "{blocks} blocks");
        let bits = (blocks + 1).next_power_of_two().ilog2().max(2);
        let taps = TAPS[bits as usize - 2].iter().fold(0, |mask, tap| mask | 1u64 << (tap - 1));
        let first = 1 + rng.below((1 << bits) - 1);
        Lfsr { blocks, left: blocks, first, state: first, taps }
    }

    fn rewind(&mut self) {
        (self.left, self.state) = (self.blocks, self.first);
    }

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let low = self.state & 1;
            self.state >>= 1;
            if low == 1 {
                self.state ^= self.taps;
            }
            if self.state <= self.blocks {
                return Some(self.state - 1);
            }
        }
    }
}

/// Zipf's law by the method of Gray et al. (SIGMOD 1994), as fio has it: ranks are spread over the file, each to a
/// block of its own.
pub(crate) struct Zipf {
    rng: Rng,
    blocks: u64,
    theta: f64,
    zeta: f64,
    zeta2: f64,
    /// Where in the file the first rank lies; a job's own.
    turn: u64,
    /// How far from one rank to the next: near the golden ratio of the file, which keeps any few ranks far apart, and
    /// without a common divisor.
    stride: u64,
}

impl Zipf {
    pub(crate) fn new(mut rng: Rng, blocks: u64, theta: f64) -> Self {
        let zeta = (1..=blocks).map(|rank| (rank as f64).powf(-theta)).sum();
        let turn = rng.below(blocks);
        let golden = (blocks as f64 * 0.618_033_988_749_895) as u64;
        let stride = (golden.max(1)..).find(|stride| coprime(*stride, blocks)).unwrap_or(1);
        Zipf { rng, blocks, theta, zeta, zeta2: 1.0 + 0.5f64.powf(theta), turn, stride }
    }

    /// A rank from 0; 0 is the most frequent.
    fn rank(&mut self) -> u64 {
        let blocks = self.blocks as f64;
        let alpha = 1.0 / (1.0 - self.theta);
        let eta = (1.0 - (2.0 / blocks).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zeta);
        let u = self.rng.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            0
        } else if uz < self.zeta2 {
            1
        } else {
            ((blocks * (eta * u - eta + 1.0).powf(alpha)) as u64).min(self.blocks - 1)
        }
    }

    fn next(&mut self) -> u64 {
        let rank = self.rank();
        self.block(rank)
    }

    /// Where a rank lies.
    fn block(&self, rank: u64) -> u64 {
        ((u128::from(rank) * u128::from(self.stride) + u128::from(self.turn)) % u128::from(self.blocks)) as u64
    }
}

fn coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { coprime(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pass(offsets: &mut Offsets, blocks: u64) -> Vec<u64> {
        (0..blocks).map(|_| offsets.next(0).unwrap()).collect()
    }

    #[test]
    fn registers_have_their_full_period() {
        for bits in 2..=20u32 {
            let blocks = (1u64 << bits) - 1;
            let mut lfsr = Offsets::Lfsr(Lfsr::new(Rng::new(1, 2), blocks));
            let seen: HashSet<u64> = pass(&mut lfsr, blocks).into_iter().collect();
            assert_eq!(seen.len() as u64, blocks, "{bits} bits");
        }
    }

    #[test]
    fn maps_and_registers_give_every_block_once_per_pass() {
        for blocks in [1, 2, 63, 64, 65, 1000, 4096, 9999] {
            let map = Offsets::Mapped(Map::new(Rng::new(7, 1), blocks));
            let lfsr = Offsets::Lfsr(Lfsr::new(Rng::new(7, 1), blocks));
            for (alike, mut offsets) in [(false, map), (true, lfsr)] {
                let passes = [None, Some(false), Some(true)].map(|repeat| {
                    repeat.inspect(|repeat| offsets.rewind(*repeat));
                    let pass = pass(&mut offsets, blocks);
                    assert_eq!(offsets.next(1), None, "{blocks} blocks");
                    let mut sorted = pass.clone();
                    sorted.sort_unstable();
                    assert!(sorted.into_iter().eq(0..blocks), "{blocks} blocks");
                    pass
                });
                assert!(blocks < 60 || (passes[0] == passes[1]) == alike, "{blocks} blocks");
                assert_eq!(passes[0], passes[2], "{blocks} blocks: repeated");
            }
        }
    }

    #[test]
    fn a_random_map_is_random() {
        let mut map = Offsets::Mapped(Map::new(Rng::new(3, 1), 10_000));
        let order = pass(&mut map, 10_000);
        let neighbours = order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        let first_half = order[..5000].iter().filter(|block| **block < 5000).count();
        assert!(neighbours < 60 && (2350..2650).contains(&first_half), "{neighbours}, {first_half}");
    }

    #[test]
    fn every_rank_of_zipf_has_a_block_of_its_own() {
        for blocks in [1, 2, 3, 10, 100, 4096, 5040, 9999] {
            let zipf = Zipf::new(Rng::new(5, 1), blocks, 1.1);
            let distinct: HashSet<u64> = (0..blocks).map(|rank| zipf.block(rank)).collect();
            assert!(distinct.len() as u64 == blocks && distinct.iter().all(|block| *block < blocks), "{blocks}");
        }
    }

    #[test]
    fn zipf_follows_its_law() {
        let (blocks, theta, draws) = (1000, 1.2, 200_000);
        let mut zipf = Zipf::new(Rng::new(5, 1), blocks, theta);
        let mut counts = vec![0u64; blocks as usize];
        (0..draws).for_each(|_| counts[zipf.rank() as usize] += 1);
        for rank in [0usize, 1] {
            let share = counts[rank] as f64 / f64::from(draws);
            let law = ((rank + 1) as f64).powf(-theta) / zipf.zeta;
            assert!((share / law - 1.0).abs() < 0.03, "rank {rank}: {share} and {law}");
        }
        let head: u64 = counts[..100].iter().sum();
        let law: f64 = (1..=100).map(|rank| f64::from(rank).powf(-theta)).sum::<f64>() / zipf.zeta;
        assert!((head as f64 / f64::from(draws) / law - 1.0).abs() < 0.05, "{head}");
    }

    #[test]
    fn uniform_blocks_come_again_and_sequential_ones_have_two_places() {
        let mut uniform = Offsets::Uniform { rng: Rng::new(1, 1), blocks: 1000 };
        let distinct = pass(&mut uniform, 1000).into_iter().collect::<HashSet<_>>().len();
        assert!((600..665).contains(&distinct), "{distinct} of 1000, 632 expected");
        let mut both = Offsets::Sequential { next: [0; 2], blocks: 3 };
        let lanes = [0, 1, 0, 0, 0, 1].map(|lane| both.next(lane));
        assert_eq!(lanes, [Some(0), Some(0), Some(1), Some(2), None, Some(1)]);
        both.wrap(0);
        assert_eq!((both.next(0), both.next(1)), (Some(0), Some(2)));
    }
}
