//! Contents of a file that were written in place: they leave no dirty node by which anybody could see that the device
//! may not have them yet.
//!
//! Kept true: what was noted counts as unsynced until an fsync that began after it has succeeded, or a checkpoint that
//! froze after it has committed.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Writes in place to the contents of one file.
#[derive(Default)]
pub(crate) struct Overwrites {
    /// How many there were.
    count: AtomicU64,
    /// How many of them an fsync made durable.
    synced: AtomicU64,
    /// Freezes before the last of them.
    frozen: AtomicU64,
}

impl Overwrites {
    /// Notes that pages may be written in place: before they leave the cache, or once they have arrived. `frozen` is
    /// the number of freezes so far.
    pub(crate) fn note(&self, frozen: u64) {
        self.frozen.fetch_max(frozen, SeqCst);
        self.count.fetch_add(1, SeqCst);
    }

    /// How many there were, for an fsync that begins.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// An fsync has made as many durable.
    pub(crate) fn synced(&self, count: u64) {
        assert!(count <= self.count(), "{count} writes in place are durable, and there were {}", self.count());
        self.synced.fetch_max(count, SeqCst);
    }

    /// Whether the device may not have one of them for good, if `done` checkpoints have committed.
    pub(crate) fn is_unsynced(&self, done: u64) -> bool {
        self.count() > self.synced.load(SeqCst) && done <= self.frozen.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_are_unsynced_until_an_fsync_or_a_checkpoint_behind_them() {
        let overwrites = Overwrites::default();
        assert!(!overwrites.is_unsynced(0), "nothing was written");
        overwrites.note(3);
        let begun = overwrites.count();
        assert!(overwrites.is_unsynced(3), "checkpoint 3 froze before it");
        assert!(!overwrites.is_unsynced(4), "checkpoint 4 has it");
        overwrites.note(3);
        overwrites.synced(begun);
        assert!(overwrites.is_unsynced(3), "the second came after the fsync had begun");
        overwrites.synced(overwrites.count());
        assert!(!overwrites.is_unsynced(3));
    }
}
