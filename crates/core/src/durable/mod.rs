//! What survives a power cut: checkpoints, fsync's roll-forward chain, and recovery from both.
//!
//! [`checkpoint`] makes the whole volume durable, [`sync`] single files between checkpoints; [`recovery`] is what a
//! mount does with what they left. [`capacity`] changes how much a volume may hold.

pub(crate) mod capacity;
pub(crate) mod checkpoint;
pub(crate) mod journal;
pub(crate) mod recovery;
pub(crate) mod sync;
#[cfg(test)]
mod tests;

use crate::files::{Files, KeepOrder};
use crate::volume::Volume;
use checkpoint::state::{Checkpoints, Committed};
use std::sync::Arc;
use sync::counters::SyncCounters;

/// What makes the files of a mounted volume durable.
pub(crate) struct Durable {
    pub(crate) vol: Arc<Volume>,
    pub(crate) files: Arc<Files>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) syncs: SyncCounters,
}

impl Durable {
    /// Of files whose last checkpoint is this one; from here on operations on names rely on it.
    pub(crate) fn new(files: &Arc<Files>, committed: Committed) -> Arc<Self> {
        let durable = Arc::new(Durable {
            vol: Arc::clone(&files.vol),
            files: Arc::clone(files),
            checkpoints: Checkpoints::new(committed, Arc::clone(files.gate.freezes())),
            syncs: SyncCounters::default(),
        });
        let order: Arc<dyn KeepOrder> = Arc::clone(&durable) as Arc<dyn KeepOrder>;
        let first = files.order.set(Arc::downgrade(&order)).is_ok();
        assert!(first, "two make the same files durable");
        durable
    }
}
