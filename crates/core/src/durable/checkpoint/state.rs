//! What a mounted volume knows of its checkpoints: the committed one, how far the next one is, and what fsync must know
//! of both.

use super::snapshot::Snapshot;
use crate::counters::CheckpointTimes;
use crate::gate::freezes::Freezes;
use crate::locks;
use crate::volume::Volume;
use crate::waits::{Histogram, WaitStats, micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_format::Pack;
use steadyfs_format::checkpoint::Checkpoint;
use steadyfs_rt::{Mutex, MutexGuard, WaitCause, waiting_for};

/// Blocks in the roll-forward chain above which the next checkpoint should not wait: a mount after a crash reads them
/// one by one.
const CHAIN_LIMIT: u64 = 16 * 1024;

/// Checkpoint state of a mounted volume.
pub(crate) struct Checkpoints {
    /// The last committed checkpoint; locked for as long as the next one is made.
    pub(super) committed: Mutex<Committed>,
    pub(super) freezes: Arc<Freezes>,
    /// How often the chain broke.
    breaks: AtomicU64,
    /// Version word that node footers carry: version | checksum << 32.
    pub(super) stamp: AtomicU64,
    /// The key that it is XORed with: not 0 on a volume with a journal.
    key: AtomicU64,
    pub(super) freeze_max_ns: AtomicU64,
    commit_waits: Histogram,
    pub(crate) times: CheckpointTimes,
    /// Serial of the last block of the warm-node log at the last freeze.
    pub(super) chain_began: AtomicU64,
    /// `Volume::changes` at the last freeze.
    pub(super) changes_at_freeze: AtomicU64,
    /// [`Committed::undecided`] holds one.
    pub(super) undecided: AtomicBool,
}

/// A committed checkpoint.
pub(crate) struct Committed {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) pack: Pack,
    /// The next one, if the device refused the block that commits it. That block may be there nevertheless, so until it
    /// has been written, both count: nothing that either refers to may change, and there cannot be another.
    pub(super) undecided: Option<Box<Snapshot>>,
}

impl Committed {
    /// What a checkpoint pack says.
    pub(crate) fn new(checkpoint: Checkpoint, pack: Pack) -> Self {
        Committed { checkpoint, pack, undecided: None }
    }
}

/// Counters about checkpoints since the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStats {
    /// Checkpoints committed.
    pub committed: u64,
    /// Of those, how many for each cause: the names of [`Cause`](crate::stats::Cause).
    pub causes: BTreeMap<String, u64>,
    /// Time that they took, from the beginning to the commit.
    #[serde(rename = "time_us", with = "micros")]
    pub time: Duration,
    /// Time that the last one took.
    #[serde(rename = "last_us", with = "micros")]
    pub last: Duration,
    /// Longest freeze: while it lasts no change begins.
    #[serde(rename = "longest_freeze_us", with = "micros")]
    pub longest_freeze: Duration,
    /// How long changes waited for a freeze.
    pub freeze_waits: WaitStats,
    /// How long fsyncs waited for the commit of a checkpoint that was under way.
    pub commit_waits: WaitStats,
}

impl Checkpoints {
    /// The state after loading a checkpoint.
    pub(crate) fn new(committed: Committed, freezes: Arc<Freezes>) -> Self {
        let stamp = committed.checkpoint.header().footer_version();
        Checkpoints {
            committed: Mutex::new(&locks::CHECKPOINT, committed),
            freezes,
            breaks: AtomicU64::new(0),
            stamp: AtomicU64::new(stamp),
            key: AtomicU64::new(0),
            freeze_max_ns: AtomicU64::new(0),
            commit_waits: Histogram::new(),
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

    /// See [`Freezes::progress`].
    pub(crate) fn progress(&self) -> (u64, u64) {
        self.freezes.progress()
    }

    /// Nodes of the chain may be missing: no fsync extends it before a checkpoint has committed. As if one had frozen
    /// and failed.
    ///
    /// Comes before threads that wait for those nodes can find them done, or gone: they compare
    /// [`Checkpoints::breaks`].
    pub(crate) fn break_chain(&self) {
        // In this order: who reads the new number of breaks, and then the progress, finds that no node may be written.
        self.freezes.frozen.fetch_add(1, SeqCst);
        let earlier = self.breaks.fetch_add(1, SeqCst);
        let (frozen, _) = self.progress();
        assert!(frozen > earlier, "the chain broke {earlier} times before, and only {frozen} freezes are counted");
    }

    /// How often the chain broke so far. An fsync that finds the number changed since before it looked at the progress
    /// is not done by the chain.
    pub(crate) fn breaks(&self) -> u64 {
        self.breaks.load(SeqCst)
    }

    /// Version word for the footers of nodes written now.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(SeqCst) ^ self.key.load(SeqCst)
    }

    /// From here on footers carry version words with this key.
    pub(crate) fn set_key(&self, key: u64) {
        let earlier = self.key.swap(key, SeqCst);
        assert_eq!(earlier, 0, "nodes of one mount would carry version words with two keys");
    }

    /// Waits for the checkpoint in progress, if there is one; none begins while the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Committed> {
        let _waiting = waiting_for(WaitCause::Commit);
        self.committed.lock()
    }

    /// Waits for the checkpoint in progress, if there is one. False if the last one failed, or a chain broke since:
    /// then nodes can be made durable by another checkpoint only.
    pub(crate) fn wait(&self) -> bool {
        let began = steadyfs_rt::now();
        let _waiting = waiting_for(WaitCause::Commit);
        let _none_in_progress = self.committed.lock();
        self.commit_waits.note(began.elapsed());
        let (frozen, done) = self.progress();
        assert!(done <= frozen, "checkpoint {done} committed, and only {frozen} froze");
        frozen == done
    }

    /// Whether anything changed that the committed checkpoint does not have.
    pub(crate) fn has_changes(&self, vol: &Volume) -> bool {
        vol.changes() != self.changes_at_freeze.load(SeqCst)
            || vol.placement.has_uncommitted()
            || !vol.nodes.dirt.behind().is_empty()
    }

    /// Whether the log of the chain has taken a block since the last freeze.
    pub(crate) fn has_chain(&self, vol: &Volume) -> bool {
        vol.placement.chain_position() != self.chain_began.load(SeqCst)
    }

    /// Whether so much has gathered since the last checkpoint that the next should not wait for the timer.
    pub(crate) fn is_pressing(&self, vol: &Volume) -> bool {
        let chain = vol.placement.chain_position().saturating_sub(self.chain_began.load(SeqCst));
        chain >= CHAIN_LIMIT
            || vol.placement.checkpoint_is_pressing()
            || vol.nodes.dirty_count() >= vol.nodes.limit() / 2
    }

    /// Counters of checkpoints since the mount.
    pub(crate) fn stats(&self, vol: &Volume) -> CheckpointStats {
        let (time, last, causes) = self.times.read();
        CheckpointStats {
            committed: self.freezes.done.load(SeqCst),
            causes,
            time,
            last,
            longest_freeze: Duration::from_nanos(self.freeze_max_ns.load(SeqCst)),
            freeze_waits: vol.freeze_waits.waits(),
            commit_waits: self.commit_waits.waits(),
        }
    }
}
