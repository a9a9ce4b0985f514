//! The volume's own clock.

use steadyfs_rt::Instant;

/// Seconds the volume has been mounted, over all mounts (format section 3.1, elapsed_time).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Elapsed seconds when this mount began.
    base: u64,
    mounted: Instant,
}

impl Clock {
    /// Goes on from what the checkpoint says.
    pub(crate) fn starting_at(base: u64) -> Self {
        Clock { base, mounted: steadyfs_rt::now() }
    }

    /// Seconds that this mount has lasted, behind those before it.
    pub(crate) fn elapsed(&self) -> u64 {
        self.base.saturating_add(self.mounted.elapsed().as_secs())
    }

    /// When this mount began.
    pub(crate) fn mounted(&self) -> Instant {
        self.mounted
    }
}
