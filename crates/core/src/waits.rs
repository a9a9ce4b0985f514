//! How long operations waited or took, as a histogram without locks: four buckets to each doubling, so a quantile is
//! right to a fifth.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const BUCKETS: usize = 64 * 4;

/// The limits by which [`Latency::within`] counts, in microseconds: each about twice the one before.
pub const LATENCY_LIMITS_US: [u64; 19] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// A histogram of times. Any number of threads add to it at once.
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
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

/// How long requests of one kind took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests that have ended.
    pub count: u64,
    /// Their times added up.
    #[serde(rename = "sum_us", with = "micros")]
    pub sum: Duration,
    /// What half of them did not exceed.
    #[serde(rename = "p50_us", with = "micros")]
    pub p50: Duration,
    /// What 99 of 100 did not exceed.
    #[serde(rename = "p99_us", with = "micros")]
    pub p99: Duration,
    /// What 999 of 1000 did not exceed.
    #[serde(rename = "p999_us", with = "micros")]
    pub p999: Duration,
    /// The longest.
    #[serde(rename = "longest_us", with = "micros")]
    pub longest: Duration,
    /// How many took no longer than each of [`LATENCY_LIMITS_US`], and longer than the limit before; the last number is
    /// of those that took longer than all. A time counts as the end of its bucket: at most a fifth more than it was.
    pub within: [u64; LATENCY_LIMITS_US.len() + 1],
}

impl Latency {
    /// The requests that have ended since an earlier look. Quantiles are then estimates between two limits. The longest
    /// is the limit that no request exceeded, unless it is the longest of all.
    pub fn since(&self, before: &Latency) -> Latency {
        let within = std::array::from_fn(|i| self.within[i].saturating_sub(before.within[i]));
        let last = within.iter().rposition(|count| *count > 0);
        let limit = last.and_then(|at| LATENCY_LIMITS_US.get(at)).map_or(self.longest, |us| Duration::from_micros(*us));
        let longest = if self.longest > before.longest { self.longest } else { limit.min(self.longest) };
        let longest = if last.is_some() { longest } else { Duration::ZERO };
        let quantile = |one_of| between_limits(&within, one_of).min(longest);
        Latency {
            count: within.iter().sum(),
            sum: self.sum.saturating_sub(before.sum),
            p50: quantile(2),
            p99: quantile(100),
            p999: quantile(1000),
            longest,
            within,
        }
    }
}

/// The time that all but one of `one_of` did not exceed, as if times between two limits were spread evenly.
fn between_limits(within: &[u64], one_of: u64) -> Duration {
    let count: u64 = within.iter().sum();
    let wanted = count - count / one_of;
    let mut below = 0;
    for (at, here) in within.iter().enumerate().filter(|(_, here)| **here > 0) {
        if below + here >= wanted {
            let limit = |at: usize| LATENCY_LIMITS_US.get(at).map_or(u64::MAX, |us| us * 1000);
            let from = at.checked_sub(1).map_or(0, limit);
            let part = (wanted - below) as f64 / *here as f64;
            return Duration::from_nanos(from + ((limit(at) - from) as f64 * part) as u64);
        }
        below += here;
    }
    Duration::ZERO
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Nothing has been noted.
    pub fn new() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, sum_ns: AtomicU64::new(0), longest_ns: AtomicU64::new(0) }
    }

    /// Something took so long.
    pub fn note(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
        // Nearly always it is not, and reading does not take the line from other cores.
        if ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.fetch_max(ns, Relaxed);
        }
    }

    /// The figures of waits.
    pub(crate) fn waits(&self) -> WaitStats {
        let counts = self.counts();
        let longest = self.longest_ns.load(Relaxed);
        WaitStats {
            waits: counts.iter().sum(),
            longest: Duration::from_nanos(longest),
            p99: quantile(&counts, 100, longest),
        }
    }

    /// The figures of requests.
    pub fn latency(&self) -> Latency {
        let counts = self.counts();
        let longest = self.longest_ns.load(Relaxed);
        let mut within = [0; LATENCY_LIMITS_US.len() + 1];
        for (at, count) in counts.iter().enumerate() {
            within[LATENCY_LIMITS_US.partition_point(|us| us * 1000 < end_of(at))] += count;
        }
        Latency {
            count: counts.iter().sum(),
            sum: Duration::from_nanos(self.sum_ns.load(Relaxed)),
            p50: quantile(&counts, 2, longest),
            p99: quantile(&counts, 100, longest),
            p999: quantile(&counts, 1000, longest),
            longest: Duration::from_nanos(longest),
            within,
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|count| count.load(Relaxed)).collect()
    }
}

/// The time that all but one of `one_of` did not exceed; no more than the longest.
fn quantile(counts: &[u64], one_of: u64, longest: u64) -> Duration {
    let all: u64 = counts.iter().sum();
    let mut below = 0;
    let at = counts.iter().position(|count| {
        below += count;
        below >= all - all / one_of
    });
    Duration::from_nanos(at.filter(|_| all > 0).map_or(0, |at| end_of(at).min(longest)))
}

/// The bucket of a time: by the position of its highest bit, and the two bits behind it.
fn bucket(ns: u64) -> usize {
    let high = ns.max(4).ilog2();
    let next = (ns.max(4) >> (high - 2)) & 3;
    high as usize * 4 + next as usize
}

/// The longest time in a bucket.
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

    /// A histogram of 1 to so many microseconds.
    fn up_to(us: u64) -> Histogram {
        let histogram = Histogram::new();
        (1..=us).for_each(|n| histogram.note(Duration::from_micros(n)));
        histogram
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        assert_eq!(Histogram::new().waits(), WaitStats::default());
        assert_eq!(Histogram::new().latency(), Latency::default());
        let histogram = up_to(1000);
        let stats = histogram.waits();
        assert_eq!((stats.waits, stats.longest), (1000, Duration::from_millis(1)));
        let p99 = stats.p99.as_micros();
        assert!((990..=1000).contains(&p99), "{p99}");
        let latency = histogram.latency();
        assert_eq!((latency.count, latency.sum.as_micros(), latency.p99), (1000, 500_500, stats.p99));
        let near = |time: Duration, us: u128| (us..=us + us / 4).contains(&time.as_micros());
        assert!(near(latency.p50, 500) && near(latency.p999, 999), "{latency:?}");
    }

    #[test]
    fn limits_count_each_time_once_and_at_most_a_fifth_too_high() {
        let latency = up_to(1000).latency();
        assert_eq!(latency.within.iter().sum::<u64>(), 1000);
        let mut below = 0;
        for (limit, count) in LATENCY_LIMITS_US.iter().zip(latency.within) {
            below += count;
            let (limit, all) = (*limit.min(&1000), below);
            assert!(all <= limit && all >= limit * 4 / 5, "{all} took no longer than {limit} us");
        }
        let slow = Histogram::new();
        slow.note(Duration::from_secs(11));
        assert_eq!(slow.latency().within[LATENCY_LIMITS_US.len()], 1);
    }

    #[test]
    fn what_has_ended_since_leaves_out_what_was_before() {
        let histogram = Histogram::new();
        histogram.note(Duration::from_secs(20));
        let before = histogram.latency();
        assert_eq!(before.since(&before), Latency::default());
        (0..98).for_each(|_| histogram.note(Duration::from_micros(15)));
        (0..2).for_each(|_| histogram.note(Duration::from_millis(3)));
        let lately = histogram.latency().since(&before);
        assert_eq!((lately.count, lately.sum.as_micros()), (100, 98 * 15 + 2 * 3000));
        let between = |time: Duration, least: u128, most: u128| (least..=most).contains(&time.as_micros());
        assert!(between(lately.p50, 10, 20) && between(lately.p99, 2000, 5000), "{lately:?}");
        assert_eq!(lately.longest, Duration::from_millis(5), "what is known of it");
        histogram.note(Duration::from_secs(21));
        assert_eq!(histogram.latency().since(&before).longest, Duration::from_secs(21));
    }
}
