//! What a crash has left: the device, and on a volume whose addresses are never used twice the history of writes, which
//! no crash makes undone.
//!
//! Kept true: a mount after the crash works on a device that panics on a second write of a block, and on reads of
//! blocks that are not there (`WriteOnceDevice`). The volume needs each block that the device holds, or knows it to be
//! dead.

use crate::judge::{Fault, Rule};
use crate::lang::{VolumeKind, Workload};
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, MemDevice, Op, WriteOnceDevice};
use steadyfs_format::Log;
use steadyfs_format::infinite::Stretch;

/// Most leaked blocks that a message names.
const NAMED: usize = 4;

/// Which blocks of a device were ever written; `None` where blocks may be written over.
#[derive(Clone, Default)]
pub(crate) struct WriteHistory(Option<Arc<WriteOnceDevice>>);

impl WriteHistory {
    /// That of a new volume.
    pub(crate) fn of_new(workload: &Workload, device: &MemDevice) -> Self {
        if workload.kind != VolumeKind::Iplfs {
            return WriteHistory::default();
        }
        let length = 1u64 << steadyfs_core::mkfs::DEFAULT_LOG_SHIFT;
        // Recovery looks how far the chain goes.
        let chain = length * (1 + Stretch::Of(Log::WarmNode).index() as u64);
        let strict = WriteOnceDevice::new(Arc::new(device.fork()), length, chain..chain + length);
        WriteHistory(Some(Arc::new(strict.holding(device.written_blocks()))))
    }

    /// What to mount: the device, watched, and the history that grows with what is written.
    pub(crate) fn watch(&self, device: Arc<dyn Device>) -> (Arc<dyn Device>, WriteHistory) {
        match &self.0 {
            None => (device, WriteHistory(None)),
            Some(strict) => {
                let watched = Arc::new(strict.continue_on(device));
                (Arc::clone(&watched) as Arc<dyn Device>, WriteHistory(Some(watched)))
            }
        }
    }

    /// As it is now, whatever comes.
    pub(crate) fn now(&self) -> WriteHistory {
        let nothing = || Arc::new(MemDevice::new(0));
        WriteHistory(self.0.as_ref().map(|strict| Arc::new(strict.continue_on(nothing()))))
    }

    /// With what was asked since: of each operation whether it survived.
    pub(crate) fn after<'a>(&self, since: impl Iterator<Item = (&'a Op, bool)>) -> WriteHistory {
        let nothing = Arc::new(MemDevice::new(0));
        WriteHistory(self.0.as_ref().map(|strict| Arc::new(strict.continue_after(nothing, since))))
    }

    /// Looks at a device that nobody has mounted: whether it holds what nobody needs and nobody knows to be dead.
    pub(crate) fn check_leaks(&self, device: &MemDevice, when: &str) -> Result<(), Fault> {
        if self.0.is_none() {
            return Ok(());
        }
        let cannot = |e: steadyfs_core::Error| Fault::new(Rule::Consistent, format!("{when}, looking for leaks: {e}"));
        let image = Image::open(Arc::new(device.fork())).map_err(cannot)?;
        let leaked = image.leaks(device.written_blocks().into_iter()).map_err(cannot)?;
        if leaked.is_empty() {
            return Ok(());
        }
        let named: Vec<String> = leaked.iter().take(NAMED).map(ToString::to_string).collect();
        let what =
            format!("{when}, the device holds {} blocks that nobody knows of: {}", leaked.len(), named.join(" "));
        Err(Fault::new(Rule::Leaks, what))
    }
}

/// A device as a crash has left it.
pub(crate) struct Left {
    pub(crate) device: MemDevice,
    pub(crate) history: WriteHistory,
}

impl Left {
    /// A copy of its own.
    pub(crate) fn fork(&self) -> Self {
        Left { device: self.device.fork(), history: self.history.clone() }
    }
}
