//! Which record comes next: YCSB's distributions.
//!
//! - `zipfian`: ranks by Zipf's law (0.99) over 10^10 items. A hash spreads them over the records, so records that are
//!   added do not change which are popular.
//! - `latest`: ranks of the same law over the records that there are, counted from the newest.
//! - `uniform`.

use crate::rng::{Rng, mix};
use serde::{Deserialize, Serialize};

/// YCSB's constant for how skewed popularity is.
pub(super) const THETA: f64 = 0.99;
/// Items of the law behind `zipfian`, and the sum of rank^-0.99 over them, which YCSB has as a constant.
const ITEMS: f64 = 1e10;
const ZETA: f64 = 26.469_028_201_783_02;

/// A distribution, by YCSB's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distribution {
    Zipfian,
    Latest,
    Uniform,
}

/// Draws numbers of records.
#[derive(Debug)]
pub(super) struct Chooser {
    rng: Rng,
    distribution: Distribution,
    /// Records that there may be in the end.
    spread: u64,
    /// The sum of rank^-0.99 over so many ranks, for `latest`.
    zeta: (u64, f64),
}

impl Chooser {
    /// For a volume that has at most `spread` records in the end.
    pub(super) fn new(rng: Rng, distribution: Distribution, spread: u64) -> Self {
        Chooser { rng, distribution, spread, zeta: (0, 0.0) }
    }

    /// A record of those that there are: 0 to `count`, without `count`.
    pub(super) fn next(&mut self, count: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => self.rng.below(count),
            Distribution::Latest => {
                self.extend(count);
                count - 1 - (rank(self.rng.unit(), count as f64, self.zeta.1) as u64).min(count - 1)
            }
            Distribution::Zipfian => loop {
                let rank = rank(self.rng.unit(), ITEMS, ZETA) as u64;
                let record = mix(rank ^ 0x5953_4342) % self.spread;
                if record < count {
                    return record;
                }
            },
        }
    }

    /// A uniform number from 1 to `most`.
    pub(super) fn length(&mut self, most: u64) -> u64 {
        1 + self.rng.below(most)
    }

    /// A number in 0..1.
    pub(super) fn unit(&mut self) -> f64 {
        self.rng.unit()
    }

    fn extend(&mut self, count: u64) {
        let (from, sum) = self.zeta;
        if count > from {
            let more: f64 = (from + 1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
            self.zeta = (count, sum + more);
        }
    }
}

/// A rank from 0, by the method of Gray et al. (SIGMOD 1994).
fn rank(u: f64, items: f64, zeta: f64) -> f64 {
    let zeta2 = 1.0 + 0.5f64.powf(THETA);
    let uz = u * zeta;
    if uz < 1.0 {
        return 0.0;
    }
    if uz < zeta2 {
        return 1.0;
    }
    let alpha = 1.0 / (1.0 - THETA);
    let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta2 / zeta);
    (items * (eta * u - eta + 1.0).powf(alpha)).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, records: u64, draws: u32) -> Vec<u64> {
        let mut chooser = Chooser::new(Rng::new(1, 1), distribution, records);
        let mut counts = vec![0u64; records as usize];
        (0..draws).for_each(|_| counts[chooser.next(records) as usize] += 1);
        counts
    }

    #[test]
    fn popularity_follows_zipfs_law_wherever_the_popular_ones_lie() {
        let draws = 200_000;
        let mut sorted = counts(Distribution::Zipfian, 10_000, draws);
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let share = |rank: usize| sorted[rank] as f64 / f64::from(draws);
        // The first has 1 / 26.469, the second 2^-0.99 of that; every record has a little of the long tail besides.
        assert!((share(0) * ZETA - 1.0).abs() < 0.05, "{}", share(0));
        assert!((share(1) * ZETA * 2f64.powf(THETA) - 1.0).abs() < 0.05, "{}", share(1));
        let head: f64 = (0..100).map(share).sum();
        assert!((0.15..0.25).contains(&head), "100 of 10,000 records have {head}");
        assert!(sorted.iter().filter(|count| **count == 0).count() < 100, "every record is met");
    }

    #[test]
    fn the_newest_are_the_most_popular_and_uniform_ones_are_alike() {
        let latest = counts(Distribution::Latest, 1000, 100_000);
        assert!(latest[999] > latest[998] && latest[998] > latest[900] && latest[999] > 50 * latest[500]);
        let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-THETA)).sum();
        assert!((latest[999] as f64 / 100_000.0 * zeta - 1.0).abs() < 0.03, "{}", latest[999]);
        let uniform = counts(Distribution::Uniform, 1000, 100_000);
        assert!(uniform.iter().all(|count| (50..160).contains(count)));
    }

    #[test]
    fn records_that_are_not_there_yet_are_not_drawn() {
        let mut chooser = Chooser::new(Rng::new(1, 1), Distribution::Zipfian, 2000);
        assert!((0..10_000).all(|_| chooser.next(1000) < 1000));
        let mut chooser = Chooser::new(Rng::new(1, 1), Distribution::Latest, 0);
        for count in [1, 2, 10, 1000] {
            assert!((0..100).all(|_| chooser.next(count) < count));
        }
    }
}
