//! The redo log: a circle of bytes, written and synced by whoever commits first, for all who wait then.
//!
//! Kept true: a commit returns only when the log is synced up to it. Between the checkpoint and the end of the log
//! there are never more bytes than the circle has, since a task that changes pages first waits for room
//! ([`Redo::age`]).

use super::files::EngineFiles;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_rt::{Condvar, LockClass, Mutex};

static LOG: LockClass = LockClass::new("lab.engine.log", 8);
/// A block of the log.
const BLOCK: u64 = 512;
/// The log is padded to this when it is written where it has not been written before (`innodb_log_write_ahead_size`).
const AHEAD: u64 = 8 << 10;

#[derive(Debug)]
struct State {
    /// The end of the log.
    lsn: u64,
    /// What has been handed to the file.
    written: u64,
    /// What is synced.
    synced: u64,
    /// How far the file has been written, padding included.
    ahead: u64,
    /// Somebody writes or syncs.
    busy: bool,
    /// Where recovery would begin.
    checkpoint: u64,
    checkpointing: bool,
}

/// When commits are synced (`innodb_flush_log_at_trx_commit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Each commit waits for a sync.
    Synced,
    /// Each commit is written; syncs come once a second.
    Written,
    /// Writes and syncs come once a second.
    Lazy,
}

/// See the head of the module.
pub(super) struct Redo {
    files: Arc<EngineFiles>,
    state: Mutex<State>,
    done: Condvar,
    durability: Durability,
    /// Syncs of the log, and commits.
    pub(super) syncs: AtomicU64,
}

impl Redo {
    pub(super) fn new(files: &Arc<EngineFiles>, durability: Durability) -> Self {
        let state = State { lsn: 0, written: 0, synced: 0, ahead: 0, busy: false, checkpoint: 0, checkpointing: false };
        let files = Arc::clone(files);
        Redo { files, state: Mutex::new(&LOG, state), done: Condvar::new(), durability, syncs: AtomicU64::new(0) }
    }

    /// Appends a record of so many bytes in memory; where it begins and ends.
    pub(super) fn append(&self, bytes: u64) -> (u64, u64) {
        let mut state = self.state.lock();
        let start = state.lsn;
        state.lsn += bytes;
        (start, state.lsn)
    }

    /// The end of the log.
    pub(super) fn end(&self) -> u64 {
        self.state.lock().lsn
    }

    /// How much of the circle is in use, as a share.
    pub(super) fn age(&self) -> f64 {
        let state = self.state.lock();
        (state.lsn - state.checkpoint) as f64 / self.files.log_capacity() as f64
    }

    /// A commit, as the durability has it.
    pub(super) fn commit(&self, lsn: u64) -> Result<()> {
        match self.durability {
            Durability::Synced => self.sync(lsn),
            Durability::Written => self.flush(lsn, false),
            Durability::Lazy => Ok(()),
        }
    }

    /// Returns when the log is synced up to here.
    pub(super) fn sync(&self, lsn: u64) -> Result<()> {
        self.flush(lsn, true)
    }

    fn flush(&self, lsn: u64, sync: bool) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if (if sync { state.synced } else { state.written }) >= lsn {
                return Ok(());
            }
            if !state.busy {
                break;
            }
            self.done.wait(&mut state);
        }
        state.busy = true;
        let (from, to, synced) = (state.written, state.lsn, state.synced);
        let mut end = to.next_multiple_of(BLOCK);
        if end > state.ahead {
            end = end.next_multiple_of(AHEAD);
        }
        drop(state);
        let mut outcome = if to > from { self.files.write_log(from / BLOCK * BLOCK, end) } else { Ok(()) };
        if sync && outcome.is_ok() {
            self.syncs.fetch_add(1, Relaxed);
            outcome = self.files.sync_log(synced, to);
        }
        let mut state = self.state.lock();
        state.busy = false;
        if outcome.is_ok() {
            state.written = to;
            state.ahead = state.ahead.max(end);
            state.synced = if sync { to } else { state.synced };
        }
        drop(state);
        self.done.notify_all();
        outcome
    }

    /// Notes that recovery need not look before `lsn`, if that gains enough or is `needed`; whether it was noted.
    pub(super) fn checkpoint(&self, lsn: u64, needed: bool) -> Result<bool> {
        let mut state = self.state.lock();
        let gain = lsn.saturating_sub(state.checkpoint);
        if state.checkpointing || gain == 0 || (!needed && gain < self.files.log_capacity() / 16) {
            return Ok(false);
        }
        state.checkpointing = true;
        drop(state);
        // What the pages hold that are in their places must be in the log before the log says so.
        let outcome = self.sync(lsn).and_then(|()| self.files.checkpoint(lsn));
        let mut state = self.state.lock();
        state.checkpointing = false;
        if outcome.is_ok() {
            state.checkpoint = lsn;
        }
        outcome.map(|()| true)
    }
}
