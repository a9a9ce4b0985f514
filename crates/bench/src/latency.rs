//! How long operations took: a histogram whose buckets are at most 1/32 wide, from 1 ns to hours.
//!
//! Small and mergeable, since every writer has one of its own; the same code counts in the guest.

/// Buckets per doubling.
const PARTS: u64 = 32;
/// Doublings: 2^44 ns are almost five hours.
const DOUBLINGS: u64 = 44;

/// A count per bucket.
#[derive(Clone)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    longest: u64,
}

/// The bucket of a time in nanoseconds: the number itself below [`PARTS`], then 32 for each doubling.
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << DOUBLINGS) - 1);
    if ns < PARTS {
        return ns as usize;
    }
    let shift = u64::from(ns.ilog2() - PARTS.ilog2());
    (shift * PARTS + (ns >> shift)) as usize
}

/// The largest time in a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((PARTS + bucket % PARTS + 1) << shift) - 1
}

impl Latencies {
    /// Nothing counted.
    pub(crate) fn new() -> Self {
        Latencies { counts: vec![0; bucket(u64::MAX) + 1], longest: 0 }
    }

    /// Counts one operation of `ns` nanoseconds.
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.longest = self.longest.max(ns);
    }

    /// Counts what another one counted.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self.longest = self.longest.max(other.longest);
    }

    /// The time in nanoseconds, rounded up to the end of its bucket, within which this part of the operations ended; 0
    /// if there were none.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((all as f64 * part).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(i).min(self.longest);
            }
        }
        0
    }

    /// The longest, in nanoseconds.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_ends_at_most_a_32nd_above_it() {
        let times = (0..5000).chain((0..44).flat_map(|i| [(1u64 << i) - 1, 1 << i, (1 << i) + 1, 3 << i >> 1]));
        for ns in times.filter(|ns| *ns < 1 << DOUBLINGS) {
            let end = upper(bucket(ns));
            assert!(end >= ns && end - ns <= ns / PARTS, "{ns} ns in a bucket up to {end}");
            assert!(ns == 0 || upper(bucket(ns) - 1) < ns || bucket(ns) == bucket(ns - 1), "{ns}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let (mut one, mut two) = (Latencies::new(), Latencies::new());
        (1..=500).for_each(|ns| one.add(ns * 1000));
        (501..=1000).for_each(|ns| two.add(ns * 1000));
        one.merge(&two);
        for (part, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let said = one.quantile(part);
            assert!((exact..=exact + exact / PARTS).contains(&said), "{part}: {said}, not {exact}");
        }
        assert_eq!((one.longest(), Latencies::new().quantile(0.5)), (1_000_000, 0));
    }
}
