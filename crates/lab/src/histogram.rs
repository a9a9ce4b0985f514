//! Times as a histogram: 32 buckets to each doubling, so a quantile is right to 3 %.

use std::time::Duration;

const SUB: u32 = 5;

/// Counts of times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    /// Counts one time.
    pub(crate) fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = bucket(ns);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of times.
    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// The mean in microseconds.
    pub(crate) fn mean_us(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum_ns as f64 / self.total as f64 / 1e3 }
    }

    /// The longest, in microseconds.
    pub(crate) fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    /// What a share `q` of all times did not exceed, in microseconds.
    pub(crate) fn quantile_us(&self, q: f64) -> f64 {
        let wanted = (self.total as f64 * q).ceil() as u64;
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted.max(1) {
                return end_of(at).min(self.max_ns) as f64 / 1e3;
            }
        }
        0.0
    }
}

/// Small times have a bucket each, larger ones share one with what has the same leading bits.
fn bucket(ns: u64) -> usize {
    let high = (ns | 1).ilog2();
    if high < SUB {
        return ns as usize;
    }
    let shift = high - SUB;
    ((shift as usize + 1) << SUB) + ((ns >> shift) as usize & ((1 << SUB) - 1))
}

/// The longest time in a bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket < 1 << SUB {
        return bucket as u64;
    }
    let (shift, rest) = ((bucket >> SUB) as u32 - 1, bucket as u64 & ((1 << SUB) - 1));
    (((1 << SUB) + rest + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_three_per_cent() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|us| histogram.record(Duration::from_micros(us)));
        for q in [0.5, 0.95, 0.99, 0.999] {
            let (ours, exact) = (histogram.quantile_us(q), q * 100_000.0);
            assert!(ours >= exact && ours < exact * 1.032, "{q}: {ours}");
        }
        assert_eq!((histogram.count(), histogram.max_us()), (100_000, 100_000.0));
        assert!((histogram.mean_us() - 50_000.5).abs() < 1e-6);
    }

    #[test]
    fn every_time_lies_in_its_bucket_and_buckets_rise() {
        let mut last = 0;
        for ns in (0..62).flat_map(|bit| [1u64 << bit, (1 << bit) + (1 << bit) / 3, (2 << bit) - 1]).chain([u64::MAX]) {
            let at = bucket(ns);
            assert!(at >= last && end_of(at) >= ns && (at == 0 || end_of(at - 1) < ns), "{ns}");
            last = at;
        }
    }
}
