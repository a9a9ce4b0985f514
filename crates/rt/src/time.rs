//! Clocks: monotonic [`Instant`], [`wall_clock`], and [`sleep`].
//!
//! An instant is a count of nanoseconds since a start that is fixed per process (or per simulation). So instants of one
//! run can be compared, stored in a word and printed. Instants of different runs mean nothing to each other.

use crate::sim;
use rustix::time::{ClockId, clock_gettime};
use std::ops::{Add, Sub};
use std::sync::OnceLock;
use std::time::Duration;

/// A point on the monotonic clock: nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The point `ns` nanoseconds after the start of the run.
    pub const fn from_nanos(ns: u64) -> Self {
        Instant(ns)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from this point to now.
    pub fn elapsed(self) -> Duration {
        now().saturating_since(self)
    }

    /// Time from `earlier` to this point; zero if `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the end of the clock (584 years).
    fn add(self, duration: Duration) -> Instant {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(ns))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the start of the run.
    fn sub(self, duration: Duration) -> Instant {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(ns))
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Zero if `earlier` is not earlier.
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

/// The monotonic clock now.
pub fn now() -> Instant {
    if sim::is_active() {
        return sim::now();
    }
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    Instant(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// A time of day as file systems store it: seconds since 1970 (negative before) and nanoseconds, always below 10^9,
/// after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timespec {
    /// Whole seconds since 1970-01-01 00:00 UTC, rounded down.
    pub sec: i64,
    /// Nanoseconds after `sec`, below 1,000,000,000.
    pub nsec: u32,
}

/// Seconds of the day when every simulation begins: 2024-01-01 00:00 UTC.
const SIMULATED_START: i64 = 1_704_067_200;

/// The time of day, as of the system's last clock tick (1 to 10 ms); in a simulation it is exact and begins at the same
/// moment every time.
///
/// Linux stamps its files with this clock, and those of a mount that it writes back later. A finer one would make a
/// file that was changed before look newer than one that was written after.
pub fn wall_clock() -> Timespec {
    if sim::is_active() {
        let since = Duration::from_nanos(sim::now().as_nanos());
        return Timespec { sec: SIMULATED_START + since.as_secs() as i64, nsec: since.subsec_nanos() };
    }
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Timespec { sec: now.tv_sec, nsec: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

/// Suspends the calling thread for at least `duration`.
pub fn sleep(duration: Duration) {
    if sim::is_active() {
        return sim::sleep(duration);
    }
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let a = Instant::from_nanos(100);
        assert_eq!(a + Duration::from_nanos(5), Instant::from_nanos(105));
        assert_eq!(a - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(a + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(Instant::from_nanos(130) - a, Duration::from_nanos(30));
        assert_eq!(a - Instant::from_nanos(130), Duration::ZERO);
    }

    #[test]
    fn clocks_advance() {
        let start = now();
        sleep(Duration::from_millis(3));
        assert!(start.elapsed() >= Duration::from_millis(3));
        assert!(wall_clock().sec > 1_600_000_000);
    }
}
