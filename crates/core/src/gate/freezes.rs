//! How far checkpoints are, as changes and fsyncs have to know.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Checkpoints that froze the volume since the mount, and the last one of them that committed.
#[derive(Default)]
pub(crate) struct Freezes {
    /// Snapshots taken.
    pub(crate) frozen: AtomicU64,
    /// The number of the last one that committed.
    pub(crate) done: AtomicU64,
}

impl Freezes {
    /// Snapshots taken, and the number of the last one that committed. With the checkpoint lock held shared the first
    /// stands still; while they differ no fsync may write a node.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.frozen.load(SeqCst), self.done.load(SeqCst))
    }
}
