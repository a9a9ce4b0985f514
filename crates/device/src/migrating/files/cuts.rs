//! Kills and power cuts of a [`MigratingDevice`], for tests: moments at which either may come, which are all changes of
//! its files, and what a crash of the machine may take back of these.

use super::MigratingDevice;
use crate::device::IoResult;
use crate::{IoError, Ledger, Op, OpKind, PageBuf};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use steadyfs_rt::{LockClass, Mutex};

static CUTS: LockClass = LockClass::new("device.migrating.cuts", u16::MAX - 12);

/// The state that is not durable at a moment.
#[derive(Default)]
pub(crate) struct Volatile {
    /// Blocks that changed since the last flush of their file, and what each held before; the last change comes last.
    pub(crate) undo: Vec<(u64, PageBuf)>,
    /// Bytes of the journal that are durable.
    pub(crate) journal: u64,
    /// Flushes of the device that have ended.
    pub(crate) flushes: u64,
}

type Hears = Box<dyn FnMut(&Volatile) + Send>;

/// Keeps what a power cut may take back.
pub(super) struct Cuts(Mutex<(Volatile, Option<Hears>)>);

impl Cuts {
    /// Of a device whose journal has `journal` bytes.
    pub(super) fn new(journal: u64) -> Self {
        Cuts(Mutex::new(&CUTS, (Volatile { journal, ..Volatile::default() }, None)))
    }

    /// Calls the function that wants to know of moments for a cut.
    pub(super) fn moment(&self) {
        let mut state = self.0.lock();
        let (volatile, hears) = &mut *state;
        hears.iter_mut().for_each(|hears| hears(volatile));
    }

    /// The file of the blocks is durable.
    pub(super) fn synced(&self) {
        self.0.lock().0.undo.clear();
    }

    /// The journal is durable up to this byte.
    pub(super) fn journaled(&self, end: u64) {
        self.0.lock().0.journal = end;
    }

    pub(super) fn flushed(&self) {
        self.0.lock().0.flushes += 1;
    }
}

/// Errors of the host's file system that are due.
#[derive(Default)]
pub(super) struct Faults {
    /// Of each write of blocks until it is 0 again.
    pub(super) write: AtomicI32,
    /// Of the next append to the journal.
    pub(super) append: AtomicI32,
}

impl Faults {
    pub(super) fn take_change(&self, op: &Op) -> Result<(), IoError> {
        match self.write.load(SeqCst) {
            errno if errno != 0 && op.kind() == OpKind::Write => Err(op.error(errno)),
            _ => Ok(()),
        }
    }

    pub(super) fn take_append(&self) -> std::io::Result<()> {
        match self.append.swap(0, SeqCst) {
            0 => Ok(()),
            errno => Err(std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl MigratingDevice {
    /// Notes what blocks hold before they change.
    pub(super) fn note(&self, op: &Op) -> IoResult {
        let (block, count) = op.range();
        let before = self.blocks.perform(Op::Read { block, count })?;
        self.cuts.0.lock().0.undo.extend((block..).zip(before));
        Ok(Vec::new())
    }

    /// From now on this is called after each change of the blocks, and before, within and at the end of each flush.
    pub(crate) fn at_moments(&self, hears: impl FnMut(&Volatile) + Send + 'static) {
        self.cuts.0.lock().1 = Some(Box::new(hears));
    }

    /// What the device remembers.
    pub(crate) fn ledger(&self) -> Ledger {
        self.state.lock().ledger.clone()
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.cuts.0.lock().0.flushes
    }
}
