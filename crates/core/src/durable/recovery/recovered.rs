//! What a mount tells of what it recovered.

use std::time::Duration;

/// What a mount recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were fsynced after the last checkpoint.
    pub files: u64,
    /// Node blocks that said so.
    pub nodes: u64,
    /// Batches of the metadata journal.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Data blocks that were taken over where they lay.
    pub blocks: u64,
    /// How long it took, the checkpoint at the end included.
    pub elapsed: Duration,
}

impl Recovered {
    /// Whether there was nothing to recover.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.batches == 0
    }
}
