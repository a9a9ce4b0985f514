//! The lower half of a mounted volume: device, space, segments, logs and nodes, without files.
//!
//! Everything here runs under the checkpoint lock (`cp_rwsem`): a thread that changes the volume holds it shared,
//! through a [`Change`], and a checkpoint holds it exclusively while it takes its snapshot.

pub(crate) mod clock;
pub(crate) mod cp_lock;
pub(crate) mod discard;
pub(crate) mod infinite;
pub(crate) mod io;
pub(crate) mod nodes;
pub(crate) mod placement;
pub(crate) mod second_chance;
pub(crate) mod segments;
pub(crate) mod space;

use crate::error::{Error, Result};
use crate::locks;
use crate::options::{MountOptions, OnError};
use crate::volume::clock::Clock;
use crate::volume::cp_lock::{Alone, CpLock, Shared};
use crate::volume::io::depth::Depth;
use crate::volume::io::gather::Gathered;
use crate::volume::io::{BlockIo, Written};
use crate::volume::nodes::cache::NodeCache;
use crate::volume::nodes::nat::Nat;
use crate::volume::nodes::nids::FreeNids;
use crate::volume::placement::Placement;
use crate::volume::segments::Segments;
use crate::volume::space::Space;
use crate::waits::Histogram;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_device::{PageBuf, Request, StreamHint};
use steadyfs_format::{Layout, Lba, Slot, SuperBlock};
use steadyfs_rt::{Mutex, SplitCount, WaitCause, waiting_for};

/// The lower half of a mounted volume.
pub(crate) struct Volume {
    pub(crate) sb: SuperBlock,
    pub(crate) io: Arc<BlockIo>,
    pub(crate) placement: Placement,
    pub(crate) nat: Nat,
    pub(crate) nids: FreeNids,
    pub(crate) nodes: Arc<NodeCache>,
    pub(crate) space: Space,
    pub(crate) cp: CpLock,
    /// Waits of changes for a freeze.
    pub(crate) freeze_waits: Histogram,
    pub(crate) clock: Clock,
    pub(crate) read_only: bool,
    /// Changes begun since the mount.
    changes: SplitCount,
    stopped: AtomicBool,
    end: Mutex<Option<End>>,
    on_error: OnError,
}

/// Why a volume takes no more changes.
#[derive(Clone)]
enum End {
    /// It was told to.
    Closed(&'static str),
    /// It was told to be as after a power cut (`Fs::shut_down`).
    ShutDown,
    /// An error.
    Fault(String),
}

/// Exit code of a process that `errors=panic` ends (EIO).
const PANIC_EXIT: i32 = 5;

/// Proof that the checkpoint lock is held: the volume may be changed while it lives.
///
/// A thread that panics in the middle of a change leaves it half made. No checkpoint may commit that, so the volume
/// stops before the lock is free.
pub(crate) struct Change<'a> {
    vol: &'a Volume,
    own: Cell<Own>,
    /// Where the data that is placed counts while it is at the device.
    depth: OnceCell<Arc<Depth>>,
    _lock: CheckpointLock<'a>,
}

/// A write that the thread which makes the change will do itself.
enum Own {
    /// None: writes are submitted when they are made.
    Not,
    /// The next one.
    Next,
    /// This one, which is in flight for everybody else.
    Write(Request),
    /// Those, too; they are submitted when there are many, or the change ends.
    Gathered(Gathered),
}

enum CheckpointLock<'a> {
    /// By one of many changers.
    Shared(#[expect(dead_code, reason = "held, not read")] Shared<'a>),
    /// By a checkpoint that writes what is dirty.
    Alone(#[expect(dead_code, reason = "held, not read")] Alone<'a>),
}

impl Change<'_> {
    /// Whether nobody else changes the volume while this lives.
    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self._lock, CheckpointLock::Alone(_))
    }

    /// Keeps the next data that is placed for [`Change::end`] to write; what is placed after it is submitted as ever.
    /// Until then the caller must wait for nothing: others may be waiting for this write. False, and nothing is kept,
    /// if the device writes in the call that submits, as well as it can be done.
    pub(crate) fn keep_next(&self) -> bool {
        let keeps = !self.vol.io.is_synchronous();
        if keeps {
            self.begin_owing(Own::Next);
        }
        keeps
    }

    /// Has data that is placed from now on submitted together, as far as it lies side by side; by way of
    /// `Files::gather`, which says where that may be. Nothing changes if the device writes in the call that submits.
    pub(crate) fn gather(&self) {
        if !self.vol.io.is_synchronous() {
            self.begin_owing(Own::Gathered(Gathered::default()));
        }
    }

    /// Counts the requests of data that is placed from now on.
    pub(crate) fn watch(&self, depth: &Arc<Depth>) {
        let first = self.depth.set(Arc::clone(depth)).is_ok();
        assert!(first, "a change is watched twice");
    }

    fn submit(&self, requests: Vec<Request>) {
        let io = &self.vol.io;
        match self.depth.get() {
            None => io.submit(requests),
            Some(depth) => io.submit(requests.into_iter().map(|request| depth.watch(request)).collect()),
        }
    }

    /// Writes data over what is there; see [`BlockIo::write_over`](io::BlockIo::write_over).
    pub(crate) fn write_over(&self, lba: Lba, pages: Vec<PageBuf>, hint: StreamHint, done: impl Written) {
        let at_device = self.depth.get().map(Depth::begin);
        self.vol.io.write_over(lba, pages, hint, move |result| {
            drop(at_device);
            done(result);
        });
    }

    fn begin_owing(&self, what: Own) {
        let earlier = self.own.replace(what);
        assert!(matches!(earlier, Own::Not), "a change owes writes already");
    }

    /// Writes data that was just placed.
    pub(crate) fn write(&self, lba: Lba, pages: Vec<PageBuf>, hint: StreamHint, done: impl Written) {
        let request = self.vol.io.prepare(lba, pages, hint, done);
        match self.own.replace(Own::Not) {
            Own::Next => self.own.set(Own::Write(request)),
            Own::Gathered(mut gathered) => {
                let due = gathered.add(request);
                self.own.set(Own::Gathered(gathered));
                self.submit(due);
            }
            earlier => {
                self.own.set(earlier);
                self.submit(vec![request]);
            }
        }
    }

    /// Ends the change, and does the write that was kept, if there was one.
    pub(crate) fn end(self) {
        let io = &self.vol.io;
        match self.own.replace(Own::Not) {
            Own::Write(request) => {
                drop(self);
                io.perform(request);
            }
            own => self.own.set(own),
        }
    }

    /// The writes gathered so far: the caller owes it to the device, and must wait for nobody before.
    pub(crate) fn take_gathered(&self) -> Vec<Request> {
        match self.own.replace(Own::Not) {
            Own::Gathered(mut gathered) => {
                let owed = gathered.take();
                self.own.set(Own::Gathered(gathered));
                owed
            }
            own => {
                self.own.set(own);
                Vec::new()
            }
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        match self.own.replace(Own::Not) {
            // An error came in between.
            Own::Write(request) => self.vol.io.submit(vec![request]),
            Own::Gathered(mut gathered) => self.submit(gathered.take()),
            Own::Not | Own::Next => {}
        }
        if steadyfs_rt::panicking() {
            self.vol.stop(&Error::Defect("a thread panicked in the middle of a change".into()));
        }
    }
}

impl Volume {
    /// Puts the parts together.
    #[expect(clippy::too_many_arguments, reason = "called once, by the mount, with each part it has just loaded")]
    pub(crate) fn new(
        sb: SuperBlock,
        io: Arc<BlockIo>,
        placement: Placement,
        nat: Nat,
        nids: FreeNids,
        nodes: Arc<NodeCache>,
        space: Space,
        clock: Clock,
        read_only: bool,
        options: &MountOptions,
    ) -> Self {
        Volume {
            sb,
            io,
            placement,
            nat,
            nids,
            nodes,
            space,
            cp: CpLock::new(options.gc.cp_lock),
            freeze_waits: Histogram::new(),
            clock,
            read_only,
            // Nobody wants an estimate.
            changes: SplitCount::new(u32::MAX),
            stopped: AtomicBool::new(false),
            end: Mutex::new(&locks::STATE, None),
            on_error: options.on_error,
        }
    }

    /// Where the areas are.
    pub(crate) fn layout(&self) -> &Layout {
        self.sb.layout()
    }

    /// Takes the checkpoint lock shared. Make room first (`Gate::begin` does both).
    pub(crate) fn begin_change(&self) -> Result<Change<'_>> {
        self.check_writable()?;
        let guard = self.cp.try_share().unwrap_or_else(|| {
            let began = steadyfs_rt::now();
            let _waiting = waiting_for(WaitCause::Freeze);
            let guard = self.cp.share();
            self.freeze_waits.note(began.elapsed());
            guard
        });
        // Counted under the lock, so that a freeze sees exactly the changes that its checkpoint contains.
        self.changes.add(1);
        let change = Change {
            vol: self,
            own: Cell::new(Own::Not),
            depth: OnceCell::new(),
            _lock: CheckpointLock::Shared(guard),
        };
        // The last holder of the lock may have stopped the volume.
        self.check_writable().map(|()| change)
    }

    /// Takes the checkpoint lock exclusively: no change is in progress while the guard lives.
    pub(crate) fn freeze(&self) -> Result<Change<'_>> {
        self.check_writable()?;
        let frozen = Change {
            vol: self,
            own: Cell::new(Own::Not),
            depth: OnceCell::new(),
            _lock: CheckpointLock::Alone(self.cp.close()),
        };
        self.check_writable().map(|()| frozen)
    }

    /// Changes begun since the mount: exactly, if the volume is frozen; else no fewer than when the call began.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.total()
    }

    /// An error if the volume takes no changes, and why.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly("the volume is mounted read-only".into()));
        }
        if !self.stopped.load(SeqCst) {
            return Ok(());
        }
        match self.end.lock().clone() {
            Some(End::Fault(reason)) => Err(Error::ReadOnly(format!("the volume stopped after an error: {reason}"))),
            Some(End::Closed(reason)) => Err(Error::ReadOnly(reason.to_owned())),
            Some(End::ShutDown) => Err(Error::ShutDown),
            None => Err(Error::ReadOnly(String::new())),
        }
    }

    /// An error if no change can begin now, whatever is free.
    pub(crate) fn check_room_for_changes(&self) -> Result<()> {
        self.check_writable()?;
        self.io.failed.check_room()
    }

    /// An error if the volume stopped after a fault, or was shut down, so that nothing can be made durable. A volume
    /// that was never writable, or was unmounted, has nothing that would have to be.
    pub(crate) fn check_running(&self) -> Result<()> {
        match &*self.end.lock() {
            Some(End::Fault(reason)) => Err(Error::Stopped(reason.clone())),
            Some(End::ShutDown) => Err(Error::ShutDown),
            Some(End::Closed(_)) | None => Ok(()),
        }
    }

    /// Stops accepting changes: the last good checkpoint stays what the volume is.
    pub(crate) fn stop(&self, reason: &Error) {
        tracing::error!(%reason, "the volume stops taking changes");
        if self.on_error == OnError::Panic {
            end_process(reason);
        }
        self.end.lock().get_or_insert_with(|| End::Fault(reason.to_string()));
        self.stopped.store(true, SeqCst);
    }

    /// A checkpoint has failed, and nothing of it counts. Goes on if the next one can be tried and the mount's options
    /// say so: after a write that the device refused. What a failed flush has lost is not known, and damage is not
    /// repaired by trying again.
    pub(crate) fn checkpoint_failed(&self, reason: &Error) {
        let repeatable = matches!(reason, Error::Io(_)) && self.io.lost().is_ok();
        match self.on_error {
            OnError::Continue if repeatable => {
                tracing::error!(%reason, "a checkpoint failed; the next one tries again");
            }
            _ => self.stop(reason),
        }
    }

    /// Accepts no changes from here on, for a reason that is no fault; of several reasons the first counts.
    pub(crate) fn close(&self, reason: &'static str) {
        self.end.lock().get_or_insert(End::Closed(reason));
        self.stopped.store(true, SeqCst);
    }

    /// From here on nothing is made durable, as after a power cut, whatever came before.
    pub(crate) fn shut_down(&self) {
        *self.end.lock() = Some(End::ShutDown);
        self.stopped.store(true, SeqCst);
    }

    /// Whether [`Volume::shut_down`] was called.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.stopped.load(SeqCst) && matches!(*self.end.lock(), Some(End::ShutDown))
    }

    /// Seconds the volume has been mounted, over all mounts; those before this one are what the image says.
    pub(crate) fn elapsed(&self) -> u64 {
        self.clock.elapsed()
    }

    /// The segments of the main area: for collectors, which exist where a volume has them.
    pub(crate) fn segments(&self) -> &Segments {
        match self.placement.segments() {
            Some(segments) => segments,
            None => unreachable!("nobody collects a volume without segments"),
        }
    }

    /// The block in this slot is no longer used.
    pub(crate) fn invalidate(&self, slot: Slot) -> Result<()> {
        let Slot::At(lba) = slot else { return Ok(()) };
        // The caller is in the middle of a change and cannot take it back.
        self.placement.give_up(lba).inspect_err(|damage| self.stop(damage))
    }
}

/// `errors=panic`: its user wants a process that is gone rather than one that does not do its work.
fn end_process(reason: &Error) -> ! {
    let line = format!("{reason}; ending, as errors=panic asks; the volume is as of its last checkpoint");
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{line}");
    } else {
        // Nobody takes messages. The process ends in any case.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("steadyfs: {line}\n").as_bytes());
    }
    std::process::exit(PANIC_EXIT)
}
