//! Power cuts of a [`CoupledDevice`], for tests: what a crash of the machine may take back of its files.

use super::CoupledDevice;
use crate::device::IoResult;
use crate::{Op, PageBuf};
use steadyfs_rt::{LockClass, Mutex};

static CUTS: LockClass = LockClass::new("device.coupled.cuts", u16::MAX - 12);

/// What is not durable at a moment.
#[derive(Default)]
pub(crate) struct Volatile {
    /// Blocks that changed since the last flush of their file, and what each held before; the last change comes last.
    pub(crate) undo: Vec<(u64, PageBuf)>,
    /// Flushes of the device that have ended.
    pub(crate) flushes: u64,
}

type Hears = Box<dyn FnMut(&Volatile) + Send>;

/// Keeps what a power cut may take back.
pub(super) struct Cuts(Mutex<(Volatile, Option<Hears>)>);

impl Cuts {
    pub(super) fn new() -> Self {
        Cuts(Mutex::new(&CUTS, (Volatile::default(), None)))
    }

    /// Calls whoever wants to know of moments for a power cut.
    pub(super) fn moment(&self) {
        let mut state = self.0.lock();
        let (volatile, hears) = &mut *state;
        hears.iter_mut().for_each(|hears| hears(volatile));
    }

    /// The file of the blocks is durable.
    pub(super) fn synced(&self) {
        self.0.lock().0.undo.clear();
    }

    pub(super) fn flushed(&self) {
        self.0.lock().0.flushes += 1;
    }
}

impl CoupledDevice {
    /// Notes what blocks hold before they change.
    pub(super) fn note(&self, op: &Op) -> IoResult {
        let (block, count) = op.range();
        let before = self.blocks.perform(Op::Read { block, count })?;
        self.cuts.0.lock().0.undo.extend((block..).zip(before));
        Ok(Vec::new())
    }

    /// From now on this is called before, within and at the end of each flush.
    pub(crate) fn at_moments(&self, hears: impl FnMut(&Volatile) + Send + 'static) {
        self.cuts.0.lock().1 = Some(Box::new(hears));
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.cuts.0.lock().0.flushes
    }
}
