//! How long operations waited, as a histogram without locks: four buckets to each doubling, so a quantile is right to a
//! fifth.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const BUCKETS: usize = 64 * 4;

/// A histogram of waits.
pub(crate) struct Waits {
    buckets: Box<[AtomicU64]>,
    longest_ns: AtomicU64,
}

/// Waits since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStats {
    /// Operations that had to wait.
    #[serde(rename = "count")]
    pub waits: u64,
    /// The longest wait.
    #[serde(rename = "longest_us", with = "micros")]
    pub longest: Duration,
    /// What 99 of 100 waits did not exceed.
    #[serde(rename = "p99_us", with = "micros")]
    pub p99: Duration,
}

impl Waits {
    /// Nobody has waited.
    pub(crate) fn new() -> Self {
        Waits { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), longest_ns: AtomicU64::new(0) }
    }

    /// Somebody has waited.
    pub(crate) fn note(&self, wait: Duration) {
        let ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)].fetch_add(1, Relaxed);
        self.longest_ns.fetch_max(ns, Relaxed);
    }

    /// The figures.
    pub(crate) fn stats(&self) -> WaitStats {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Relaxed)).collect();
        let waits: u64 = counts.iter().sum();
        let longest = self.longest_ns.load(Relaxed);
        let mut below = 0;
        let p99 = counts.iter().position(|count| {
            below += count;
            below >= waits - waits / 100
        });
        let p99 = p99.filter(|_| waits > 0).map_or(0, |at| end_of(at).min(longest));
        WaitStats { waits, longest: Duration::from_nanos(longest), p99: Duration::from_nanos(p99) }
    }
}

/// The bucket of a wait: by the position of its highest bit, and the two bits behind it.
fn bucket(ns: u64) -> usize {
    let high = ns.max(4).ilog2();
    let next = (ns.max(4) >> (high - 2)) & 3;
    high as usize * 4 + next as usize
}

/// The longest wait in a bucket.
fn end_of(bucket: usize) -> u64 {
    let (high, next) = (bucket as u32 / 4, bucket as u64 % 4);
    let width = 1_u64.checked_shl(high.saturating_sub(2)).unwrap_or(1);
    (4 + next).saturating_mul(width).saturating_add(width - 1)
}

/// Times as statistics tell them: in whole microseconds.
pub(crate) mod micros {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    /// A time in microseconds.
    pub(crate) fn of(time: Duration) -> u64 {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(of(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_everything_in_order() {
        let samples = (0..63).flat_map(|bit| [(1_u64 << bit), (1 << bit) + (1 << bit) / 3, (1 << bit) * 2 - 1]);
        let mut last = 0;
        for ns in samples.filter(|ns| *ns >= 4).chain([u64::MAX]) {
            let at = bucket(ns);
            assert!(at >= last && at < BUCKETS && end_of(at) >= ns && end_of(at) / 5 * 4 <= ns, "{ns}: {at}");
            last = at;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_waits() {
        let waits = Waits::new();
        assert_eq!(waits.stats(), WaitStats::default());
        for n in 1..=1000u64 {
            waits.note(Duration::from_micros(n));
        }
        let stats = waits.stats();
        assert_eq!((stats.waits, stats.longest), (1000, Duration::from_millis(1)));
        let p99 = stats.p99.as_micros();
        assert!((990..=1000).contains(&p99), "{p99}");
    }
}
