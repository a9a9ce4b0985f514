//! Units: points in time, and bandwidths that say how long a number of bytes takes.
//!
//! All arithmetic is in whole nanoseconds; durations of transfers are rounded to the nearest one.

/// A point in time: nanoseconds since the start of the run, as [`steadyfs_rt::Instant`] counts them.
pub(crate) type Time = u64;

/// Bytes of a logical page: the block of the device trait, and the unit of mapping.
pub(crate) const PAGE: u64 = steadyfs_device::BLOCK_SIZE as u64;

/// How many bytes pass in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth {
    bytes_per_second: u64,
}

impl Bandwidth {
    /// `bytes` bytes per second.
    ///
    /// # Panics
    /// If that is none.
    pub const fn bytes_per_second(bytes: u64) -> Self {
        assert!(bytes > 0, "a bandwidth of nothing");
        Bandwidth { bytes_per_second: bytes }
    }

    /// `mib` times 2^20 bytes per second.
    pub const fn mib_per_second(mib: u64) -> Self {
        Self::bytes_per_second(mib << 20)
    }

    /// `mb` times 10^6 bytes per second.
    pub const fn mb_per_second(mb: u64) -> Self {
        Self::bytes_per_second(mb * 1_000_000)
    }

    /// Bytes per second.
    pub const fn get(self) -> u64 {
        self.bytes_per_second
    }

    /// Nanoseconds that `bytes` take.
    pub const fn nanos(self, bytes: u64) -> u64 {
        ((bytes as u128 * 1_000_000_000 + self.bytes_per_second as u128 / 2) / self.bytes_per_second as u128) as u64
    }
}

/// A duration as a number.
pub(crate) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_time() {
        // As in the 970 Pro's profile (`parameters`): 32 KiB at 800 MiB/s, 4 KiB at 3360 MiB/s.
        assert_eq!(Bandwidth::mib_per_second(800).nanos(32 << 10), 39_063);
        assert_eq!(Bandwidth::mib_per_second(3360).nanos(4 << 10), 1_163);
        assert_eq!(Bandwidth::mb_per_second(1).nanos(1), 1000);
        assert_eq!(Bandwidth::bytes_per_second(3).nanos(1), 333_333_333);
        assert_eq!(Bandwidth::bytes_per_second(u64::MAX).nanos(u64::MAX), 1_000_000_000);
    }
}
