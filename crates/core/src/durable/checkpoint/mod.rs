//! Checkpoints: what becomes durable when.
//!
//! A checkpoint has four steps (format section 11.1):
//!
//! 1. *settle*: without stopping anybody, write the dirty directory pages and nodes there are now, so that little is left;
//! 2. *freeze*: hold the checkpoint lock exclusively, write what is still dirty, take a snapshot of NAT, SIT, logs, orphans and
//!    counters, let go. Nothing waits for the device here beyond submitting;
//! 3. *commit*: write the snapshot to the shadow copies and to the pack not in use, wait for every write so far, flush, and write
//!    the pack's last block with FUA. Changes go on meanwhile: they never touch a block that either checkpoint refers to;
//! 4. *release*: only now segments that were empty at the freeze, and node ids freed before it, may be used again.
//!
//! Kept true: between freeze and commit no node is written, so every node block carries the version of the checkpoint in
//! force; a failure anywhere leaves the last good checkpoint intact, and in memory everything that the failed one was to make durable: the
//! mount's options say whether another is tried (`Volume::checkpoint_failed`). After a failed write of the last block nobody knows which checkpoint a crash
//! would lead to: step 3 is not over then, both stay intact, and the next attempt begins with writing the same block again. Many callers share one checkpoint: whoever finds that
//! one has frozen after their call, and committed, returns.

mod mend;
mod snapshot;

use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::locks;
use crate::stats::{Cause, CheckpointTimes};
use crate::volume::Change;
use crate::volume::nodes::dirt::Forgotten;
use crate::waits::{WaitStats, Waits};
use snapshot::Snapshot;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_format::Pack;
use steadyfs_format::checkpoint::Checkpoint;
use steadyfs_rt::{Mutex, MutexGuard};

/// Dirty nodes above which step 1 is worth its while.
const SETTLE_NODES: usize = 256;
/// Blocks in the roll-forward chain above which the next checkpoint should not wait: a mount after a crash reads them one by one.
const CHAIN_LIMIT: u64 = 16 * 1024;
/// Rounds of step 1: each leaves only what changed during the one before.
const SETTLE_ROUNDS: usize = 3;

/// Checkpoint state of a mounted volume.
pub(crate) struct Checkpoints {
    /// The last committed checkpoint; locked for as long as the next one is made.
    committed: Mutex<Committed>,
    /// Snapshots taken, and the number of the last one that committed.
    frozen: AtomicU64,
    done: AtomicU64,
    /// How often the chain broke.
    breaks: AtomicU64,
    /// Version word that node footers carry: version | checksum << 32.
    stamp: AtomicU64,
    freeze_max_ns: AtomicU64,
    commit_waits: Waits,
    pub(crate) times: CheckpointTimes,
    /// Serial of the last block of the warm-node log at the last freeze.
    chain_began: AtomicU64,
    /// `Volume::changes` at the last freeze.
    changes_at_freeze: AtomicU64,
    /// [`Committed::undecided`] holds one.
    undecided: AtomicBool,
}

/// A committed checkpoint.
pub(crate) struct Committed {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) pack: Pack,
    /// The next one, if the device refused the block that commits it. That block may be there nevertheless, so until it has been written, both count: nothing
    /// that either refers to may change, and there cannot be another.
    undecided: Option<Box<Snapshot>>,
}

impl Committed {
    /// What a checkpoint pack says.
    pub(crate) fn new(checkpoint: Checkpoint, pack: Pack) -> Self {
        Committed { checkpoint, pack, undecided: None }
    }
}

/// Counters about checkpoints, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Checkpoints committed since the mount.
    pub committed: u64,
    /// Longest freeze: while it lasts no change begins.
    pub longest_freeze: Duration,
    /// How long changes waited for a freeze.
    pub freeze_waits: WaitStats,
    /// How long fsyncs waited for the commit of a checkpoint that was under way.
    pub commit_waits: WaitStats,
}

impl Checkpoints {
    /// The state after loading a checkpoint.
    pub(crate) fn new(committed: Committed) -> Self {
        let stamp = committed.checkpoint.header().footer_version();
        Checkpoints {
            committed: Mutex::new(&locks::CHECKPOINT, committed),
            frozen: AtomicU64::new(0),
            done: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
            stamp: AtomicU64::new(stamp),
            freeze_max_ns: AtomicU64::new(0),
            commit_waits: Waits::new(),
            times: CheckpointTimes::default(),
            chain_began: AtomicU64::new(0),
            changes_at_freeze: AtomicU64::new(u64::MAX),
            undecided: AtomicBool::new(false),
        }
    }

    /// Whether there is a checkpoint that lacks but the block that commits it.
    pub(crate) fn has_undecided(&self) -> bool {
        self.undecided.load(SeqCst)
    }

    /// Snapshots taken, and the number of the last one that committed. With the checkpoint lock held shared the first stands still;
    /// while they differ no fsync may write a node.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.frozen.load(SeqCst), self.done.load(SeqCst))
    }

    /// Nodes of the chain may be missing: no fsync extends it before a checkpoint has committed. As if one had frozen and failed.
    ///
    /// Comes before whoever waits for those nodes can find them done, or gone: they compare [`Checkpoints::breaks`].
    pub(crate) fn break_chain(&self) {
        // In this order: who reads the new number of breaks, and then the progress, finds that no node may be written.
        self.frozen.fetch_add(1, SeqCst);
        self.breaks.fetch_add(1, SeqCst);
    }

    /// How often the chain broke so far. An fsync that finds the number changed since before it looked at the progress is not done by the chain.
    pub(crate) fn breaks(&self) -> u64 {
        self.breaks.load(SeqCst)
    }

    /// Version word for the footers of nodes written now.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(SeqCst)
    }
}

impl Fs {
    /// Makes every change so far durable, by a checkpoint that freezes after this call.
    pub(crate) fn sync_checkpoint(&self) -> Result<()> {
        self.checkpoint(Cause::Sync)
    }

    /// As [`Fs::sync_checkpoint`]; [`Cause::Unmount`] marks the volume as cleanly unmounted, the others are only counted.
    pub(crate) fn checkpoint(&self, cause: Cause) -> Result<()> {
        let unmount = cause == Cause::Unmount;
        self.vol.check_writable()?;
        let seen = self.checkpoints.frozen.load(SeqCst);
        let mut committed = self.checkpoints.committed.lock();
        if self.checkpoints.done.load(SeqCst) > seen && !unmount {
            return Ok(()); // one that froze after our call has committed while we waited for the lock
        }
        if !unmount && !self.has_changes() {
            return Ok(()); // nothing began since the last freeze, and what froze then has committed
        }
        self.vol.check_writable()?;
        let began = steadyfs_rt::now();
        self.checkpoint_locked(&mut committed, unmount).inspect_err(|e| self.vol.checkpoint_failed(e))?;
        self.checkpoints.times.note(cause, began.elapsed());
        Ok(())
    }

    fn checkpoint_locked(&self, committed: &mut Committed, unmount: bool) -> Result<()> {
        if let Some(snapshot) = committed.undecided.take() {
            self.commit(committed, snapshot)?;
        }
        self.mend_unwritten()?;
        self.settle()?;
        let snapshot = Box::new(self.freeze(committed, unmount)?);
        self.write_pack(&snapshot).inspect_err(|_| self.take_back(&snapshot))?;
        self.commit(committed, snapshot)
    }

    /// Step 1.
    fn settle(&self) -> Result<()> {
        for _ in 0..SETTLE_ROUNDS {
            if self.vol.nodes.dirty_count() < SETTLE_NODES {
                return Ok(());
            }
            self.flush_dirty_dirs(|| self.vol.begin_change())?;
            let change = self.vol.begin_change()?;
            self.vol.write_dirty_nodes(&change, self.checkpoints.stamp())?;
        }
        Ok(())
    }

    /// Step 2.
    fn freeze(&self, committed: &Committed, unmount: bool) -> Result<Snapshot> {
        let frozen = self.vol.freeze()?;
        let began = steadyfs_rt::now();
        self.checkpoints.frozen.fetch_add(1, SeqCst);
        let forgotten = self.write_everything_dirty(&frozen)?;
        self.drop_unwritten_garbage(&frozen);
        // What breaks of the chain up to here is in the snapshot.
        let number = self.checkpoints.frozen.load(SeqCst);
        let snapshot = Snapshot::take(self, committed, unmount, number)?;
        self.checkpoints.chain_began.store(self.vol.placement.chain_position(), SeqCst);
        self.checkpoints.changes_at_freeze.store(self.vol.changes(), SeqCst);
        drop(frozen);
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.checkpoints.freeze_max_ns.fetch_max(ns, SeqCst);
        drop(forgotten);
        Ok(snapshot)
    }

    /// Submits dirty directory pages and nodes until none is left; with the volume frozen nobody makes new ones.
    fn write_everything_dirty(&self, frozen: &Change<'_>) -> Result<Forgotten> {
        let failures = self.budget.failures();
        self.flush_dirty_dirs_frozen(frozen)?;
        self.vol.write_dirty_nodes(frozen, self.checkpoints.stamp())?;
        self.vol.placement.nodes_written();
        // What fsync remembers is about the chain that ends here; none can go on before the commit.
        self.since.forget();
        self.vol.space.begin_epoch();
        let forgotten = self.vol.nodes.dirt.forget();
        // A page that the device refused is dirty again, to be written elsewhere; what the checkpoint refers to is kept and tried once more. In this order: a
        // write that ends now is noted as refused before its pages are dirty, and one that ended just before we began may make them so after.
        let clean = self.dirty_dir_pages() == 0;
        let refused = self.budget.failures() != failures || self.vol.io.unwritten.count() > 0;
        match forgotten {
            Some(forgotten) if clean || refused => Ok(forgotten),
            _ => Err(Error::corrupt("something stayed dirty under the exclusive checkpoint lock")),
        }
    }

    /// Step 3 up to the block that commits.
    fn write_pack(&self, snapshot: &Snapshot) -> Result<()> {
        let io = &self.vol.io;
        snapshot.submit(io);
        io.wait_chain()?;
        io.drain()
    }

    /// The end of step 3, and step 4.
    fn commit(&self, committed: &mut Committed, snapshot: Box<Snapshot>) -> Result<()> {
        let written = self.vol.io.write_commit(snapshot.commit_lba, &snapshot.commit_page);
        self.checkpoints.undecided.store(written.is_err(), SeqCst);
        if written.is_err() {
            self.checkpoints.changes_at_freeze.store(u64::MAX, SeqCst);
            committed.undecided = Some(snapshot);
            return written;
        }
        self.vol.nat.commit(&snapshot.nat_blocks);
        self.checkpoints.stamp.store(snapshot.checkpoint.header().footer_version(), SeqCst);
        self.checkpoints.done.store(snapshot.number, SeqCst);
        *committed = Committed::new(snapshot.checkpoint.clone(), snapshot.pack);
        self.vol.nids.release(&snapshot.held_nids);
        self.vol.placement.committed(&snapshot.placement, self.options.discard);
        self.reclaim.announce_room();
        Ok(())
    }

    /// After a failed step 3: what the snapshot took is to be written by the next checkpoint.
    fn take_back(&self, snapshot: &Snapshot) {
        self.vol.nat.not_written(&snapshot.nat_blocks);
        self.vol.placement.failed(&snapshot.placement);
        self.checkpoints.changes_at_freeze.store(u64::MAX, SeqCst);
    }

    /// Waits for the checkpoint in progress, if there is one; none begins while the guard lives.
    pub(crate) fn hold_checkpoints(&self) -> MutexGuard<'_, Committed> {
        self.checkpoints.committed.lock()
    }

    /// Waits for the checkpoint in progress, if there is one. False if the last one failed, or a chain broke since: then nodes can be made durable by
    /// another checkpoint only.
    pub(crate) fn wait_for_checkpoint(&self) -> bool {
        let began = steadyfs_rt::now();
        let _none_in_progress = self.checkpoints.committed.lock();
        self.checkpoints.commit_waits.note(began.elapsed());
        let (frozen, done) = self.checkpoints.progress();
        frozen == done
    }

    /// Counters of checkpoints since the mount.
    pub fn checkpoint_stats(&self) -> CheckpointStats {
        CheckpointStats {
            committed: self.checkpoints.done.load(SeqCst),
            longest_freeze: Duration::from_nanos(self.checkpoints.freeze_max_ns.load(SeqCst)),
            freeze_waits: self.vol.freeze_waits.stats(),
            commit_waits: self.checkpoints.commit_waits.stats(),
        }
    }

    /// Whether anything changed that the committed checkpoint does not have.
    pub(crate) fn has_changes(&self) -> bool {
        self.vol.changes() != self.checkpoints.changes_at_freeze.load(SeqCst)
            || self.vol.placement.has_uncommitted()
            || !self.vol.nodes.dirt.behind().is_empty()
    }

    /// Whether so much has gathered since the last checkpoint that the next should not wait for the timer.
    pub(crate) fn checkpoint_is_pressing(&self) -> bool {
        let chain = self.vol.placement.chain_position().saturating_sub(self.checkpoints.chain_began.load(SeqCst));
        chain >= CHAIN_LIMIT
            || self.vol.placement.checkpoint_is_pressing()
            || self.vol.nodes.dirty_count() >= self.vol.nodes.limit() / 2
    }

    /// The last committed checkpoint's header (waits for one in progress).
    pub fn committed_checkpoint(&self) -> Checkpoint {
        self.checkpoints.committed.lock().checkpoint.clone()
    }
}
