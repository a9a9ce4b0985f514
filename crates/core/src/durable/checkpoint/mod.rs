//! Checkpoints: what becomes durable when.
//!
//! A checkpoint has four steps (format section 11.1):
//!
//! 1. *settle*: without stopping anybody, write the dirty directory pages and nodes there are now, so that little is
//!    left;
//! 2. *freeze*: hold the checkpoint lock exclusively, write what is still dirty, take a snapshot of NAT, SIT, logs,
//!    orphans and counters, let go. Nothing waits for the device here beyond submitting;
//! 3. *commit*: write the snapshot to the shadow copies and to the pack not in use, wait for every write so far, flush,
//!    and write the pack's last block with FUA. Changes go on meanwhile: they never touch a block that either
//!    checkpoint refers to;
//! 4. *release*: only now segments that were empty at the freeze, and node ids freed before it, may be used again.
//!
//! Kept true:
//! - Between freeze and commit no node is written, so every node block carries the version of the checkpoint in force.
//! - A failure anywhere leaves the last good checkpoint intact. Everything that the failed one was to make durable
//!   stays in memory. The mount's options say whether another is tried (`Volume::checkpoint_failed`).
//! - After a failed write of the last block, a crash may lead to either checkpoint. So step 3 is not over: both stay
//!   intact, and the next attempt begins with writing the same block again.
//! - Many callers share one checkpoint: a caller returns when one has frozen after its call, and committed.

mod mend;
mod snapshot;
pub(crate) mod state;

pub use state::CheckpointStats;
pub(crate) use state::Committed;

use crate::counters::Cause;
use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::volume::nodes::dirt::Forgotten;
use crate::volume::{Change, Volume};
use snapshot::Snapshot;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::checkpoint::Checkpoint;

/// Dirty nodes above which step 1 is worth its while.
const SETTLE_NODES: usize = 256;
/// Rounds of step 1: each leaves only what changed during the one before.
const SETTLE_ROUNDS: usize = 3;

impl Volume {
    /// Step 3 up to the block that commits.
    fn write_pack(&self, snapshot: &Snapshot) -> Result<()> {
        let io = &self.io;
        snapshot.submit(io);
        io.wait_chain()?;
        if steadyfs_rt::mutated("commit-waits-for-writes") { Ok(()) } else { io.drain() }
    }
}

impl Durable {
    /// Makes every change so far durable, by a checkpoint that freezes after this call.
    pub(crate) fn sync_checkpoint(&self) -> Result<()> {
        self.checkpoint(Cause::Sync)
    }

    /// As [`Durable::sync_checkpoint`]; [`Cause::Unmount`] marks the volume as cleanly unmounted, the others are only
    /// counted.
    pub(crate) fn checkpoint(&self, cause: Cause) -> Result<()> {
        let unmount = cause == Cause::Unmount;
        self.vol.check_writable()?;
        let seen = self.checkpoints.freezes.frozen.load(SeqCst);
        let mut committed = self.checkpoints.hold();
        if self.checkpoints.freezes.done.load(SeqCst) > seen && !unmount {
            return Ok(()); // one that froze after our call has committed while we waited for the lock
        }
        if !unmount && !self.checkpoints.has_changes(&self.vol) {
            return Ok(()); // nothing began since the last freeze, and what froze then has committed
        }
        self.vol.check_writable()?;
        let began = steadyfs_rt::now();
        self.checkpoint_locked(&mut committed, unmount).inspect_err(|e| self.vol.checkpoint_failed(e))?;
        assert!(
            self.checkpoints.freezes.done.load(SeqCst) > seen,
            "a checkpoint has committed that froze before the call for it"
        );
        self.checkpoints.times.note(cause, began.elapsed());
        Ok(())
    }

    fn checkpoint_locked(&self, committed: &mut Committed, unmount: bool) -> Result<()> {
        if let Some(snapshot) = committed.undecided.take().filter(|_| !steadyfs_rt::mutated("undecided-commits-first"))
        {
            self.commit(committed, snapshot)?;
        }
        if !steadyfs_rt::mutated("refused-writes-are-mended") {
            self.mend_failed_writes()?;
        }
        self.settle()?;
        let snapshot = Box::new(self.freeze(committed, unmount)?);
        self.vol.write_pack(&snapshot).inspect_err(|_| self.take_back(&snapshot))?;
        self.commit(committed, snapshot)
    }

    /// Step 1.
    fn settle(&self) -> Result<()> {
        for _ in 0..SETTLE_ROUNDS {
            if self.vol.nodes.dirty_count() < SETTLE_NODES {
                return Ok(());
            }
            self.files.flush_dirty_dirs(|| self.vol.begin_change())?;
            let change = self.vol.begin_change()?;
            self.vol.write_dirty_nodes(&change, self.checkpoints.stamp())?;
        }
        Ok(())
    }

    /// Step 2.
    fn freeze(&self, committed: &Committed, unmount: bool) -> Result<Snapshot> {
        assert!(committed.undecided.is_none(), "a checkpoint freezes before it is known what became of the last one");
        let frozen = self.vol.freeze()?;
        let began = steadyfs_rt::now();
        let before = self.checkpoints.freezes.frozen.fetch_add(1, SeqCst);
        assert!(before >= self.checkpoints.freezes.done.load(SeqCst), "a checkpoint committed that never froze");
        let forgotten = self.write_everything_dirty(&frozen)?;
        self.drop_failed_garbage(&frozen);
        // What breaks of the chain up to here is in the snapshot.
        let number = self.checkpoints.freezes.frozen.load(SeqCst);
        let snapshot = Snapshot::take(&self.vol, &self.files.orphans, committed, unmount, number)?;
        let (chain, changes) = (self.vol.placement.chain_position(), self.vol.changes());
        let earlier = self.checkpoints.chain_began.swap(chain, SeqCst);
        assert!(earlier <= chain, "the chain went back from block {earlier} to {chain}");
        let earlier = self.checkpoints.changes_at_freeze.swap(changes, SeqCst);
        assert!(earlier == u64::MAX || earlier <= changes, "changes were counted back from {earlier} to {changes}");
        drop(frozen);
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.checkpoints.freeze_max_ns.fetch_max(ns, SeqCst);
        drop(forgotten);
        self.files.journal.drop_absorbed();
        Ok(snapshot)
    }

    /// Submits dirty directory pages and nodes until none is left; with the volume frozen nobody makes new ones.
    fn write_everything_dirty(&self, frozen: &Change<'_>) -> Result<Forgotten> {
        assert!(frozen.is_frozen(), "what is dirty is written while others change the volume");
        let failures = self.files.budget.failures();
        self.files.flush_dirty_dirs_frozen(frozen)?;
        self.vol.write_dirty_nodes(frozen, self.checkpoints.stamp())?;
        self.vol.placement.nodes_written();
        // What fsync remembers is about the chain that ends here; none can go on before the commit.
        self.files.since.forget(frozen);
        self.files.journal.absorb(frozen, &self.vol.io.planted);
        self.vol.space.begin_epoch();
        let forgotten = self.vol.nodes.dirt.forget();
        // A page that the device refused is dirty again, to be written elsewhere; what the checkpoint refers to is kept
        // and tried once more. In this order: a write that ends now is noted as refused before its pages are dirty, and
        // one that ended just before we began may make them so after.
        let clean = self.files.dirty_dir_pages() == 0;
        let refused = self.files.budget.failures() != failures || self.vol.io.failed.count() > 0;
        match forgotten {
            Some(forgotten) if clean || refused => Ok(forgotten),
            _ => Err(Error::corrupt("something stayed dirty under the exclusive checkpoint lock")),
        }
    }

    /// The end of step 3, and step 4.
    fn commit(&self, committed: &mut Committed, snapshot: Box<Snapshot>) -> Result<()> {
        assert!(snapshot.pack != committed.pack, "the pack of the checkpoint in force would be written over");
        let (version, last) = (snapshot.checkpoint.header().version(), committed.checkpoint.header().version());
        assert_eq!(version, last.wrapping_add(1), "a checkpoint does not follow the one in force");
        let written = self.vol.io.write_commit(snapshot.commit_lba, &snapshot.commit_page);
        self.checkpoints.undecided.store(written.is_err(), SeqCst);
        if written.is_err() {
            self.checkpoints.changes_at_freeze.store(u64::MAX, SeqCst);
            committed.undecided = Some(snapshot);
            return written;
        }
        self.vol.nat.commit(&snapshot.nat_blocks);
        let stamp = snapshot.checkpoint.header().footer_version();
        let earlier = self.checkpoints.stamp.swap(stamp, SeqCst);
        assert!(earlier != stamp, "nodes of two checkpoints carry one stamp");
        let earlier = self.checkpoints.freezes.done.swap(snapshot.number, SeqCst);
        assert!(earlier < snapshot.number, "checkpoint {} commits after {earlier}", snapshot.number);
        *committed = Committed::new(snapshot.checkpoint.clone(), snapshot.pack);
        self.vol.nids.release(&snapshot.held_nids);
        self.vol.placement.committed(&snapshot.placement);
        self.files.gate.announce_room();
        Ok(())
    }

    /// After a failed step 3: what the snapshot took is to be written by the next checkpoint.
    fn take_back(&self, snapshot: &Snapshot) {
        assert!(!self.checkpoints.has_undecided(), "what may be on the device is taken back");
        self.vol.nat.not_written(&snapshot.nat_blocks);
        self.vol.placement.failed(&snapshot.placement);
        self.checkpoints.changes_at_freeze.store(u64::MAX, SeqCst);
    }

    /// See `Fs::committed_checkpoint`.
    pub(crate) fn committed_checkpoint(&self) -> Checkpoint {
        self.checkpoints.committed.lock().checkpoint.clone()
    }

    /// See `Fs::checkpoint_stats`.
    pub(crate) fn checkpoint_stats(&self) -> CheckpointStats {
        self.checkpoints.stats(&self.vol)
    }
}
