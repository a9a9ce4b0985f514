//! Counters that a running volume keeps only to tell of itself: what users wrote and read, checkpoints by cause, what each collector does.
//!
//! Kept true: all of them are relaxed atomics, written without a lock, and nothing decides by them. Their numbers are each right; two of them
//! read one after the other may belong to different moments.

use crate::error::Result;
use crate::reclaim::GcReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steadyfs_format::SecNo;

/// Why a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So long after the one before (`commit=SECONDS`), or to try again what the device refused.
    Timer,
    /// Much has gathered: a long roll-forward chain, many emptied segments, many dirty nodes.
    Backlog,
    /// An fsync that the roll-forward chain could not serve.
    Fsync,
    /// Collection had so little room that it could not go on without.
    Critical,
    /// Free node ids ran out, and this gives back those that were freed.
    NodeIds,
    /// Collection had emptied enough, and this makes it free.
    Needed,
    /// The end of a collection that was asked for, or of one while idle.
    Collected,
    /// sync, syncfs, or a call of the library.
    Sync,
    /// The mount itself, after a recovery.
    Mount,
    /// The unmount.
    Unmount,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 10] = [
        Cause::Timer,
        Cause::Backlog,
        Cause::Fsync,
        Cause::Critical,
        Cause::NodeIds,
        Cause::Needed,
        Cause::Collected,
        Cause::Sync,
        Cause::Mount,
        Cause::Unmount,
    ];

    /// A short name, for statistics.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Timer => "timer",
            Cause::Backlog => "backlog",
            Cause::Fsync => "fsync",
            Cause::Critical => "gc_room_critical",
            Cause::NodeIds => "node_ids",
            Cause::Needed => "gc_freed_needed",
            Cause::Collected => "gc_done",
            Cause::Sync => "sync",
            Cause::Mount => "mount",
            Cause::Unmount => "unmount",
        }
    }
}

/// Checkpoints that committed: how many for each cause, and how long they took.
#[derive(Default)]
pub(crate) struct CheckpointTimes {
    causes: [AtomicU64; Cause::ALL.len()],
    total_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl CheckpointTimes {
    /// One has committed.
    pub(crate) fn note(&self, cause: Cause, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.causes[cause as usize].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.last_ns.store(ns, Relaxed);
    }

    /// Time of all, time of the last, both in microseconds; number for each cause.
    pub(super) fn read(&self) -> (u64, u64, BTreeMap<String, u64>) {
        let named = |cause: Cause| (cause.name().to_owned(), self.causes[cause as usize].load(Relaxed));
        let causes = Cause::ALL.into_iter().map(named).collect();
        (self.total_ns.load(Relaxed) / 1000, self.last_ns.load(Relaxed) / 1000, causes)
    }
}

/// A counter that shares its cache line with nothing.
#[derive(Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

/// What users wrote and read, in bytes.
#[derive(Default)]
pub(crate) struct Traffic {
    written: Alone,
    read: Alone,
}

impl Traffic {
    /// Counts what a write came to, and passes it on.
    pub(crate) fn note_write(&self, written: Result<usize>) -> Result<usize> {
        if let Ok(bytes) = written {
            self.written.0.fetch_add(bytes as u64, Relaxed);
        }
        written
    }

    /// Counts bytes that somebody read.
    pub(crate) fn note_read(&self, bytes: usize) {
        self.read.0.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes written and read.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.written.0.load(Relaxed), self.read.0.load(Relaxed))
    }
}

/// What a collector does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// Nothing.
    #[default]
    Idle,
    /// Looks for a victim.
    Choosing,
    /// Finds out what is valid in a victim, and reads it.
    Reading,
    /// Writes a victim's blocks elsewhere.
    Moving,
    /// Makes a checkpoint, or waits for that of another.
    Checkpoint,
}

impl Doing {
    /// All of them, in the order of their numbers.
    const ALL: [Doing; 5] = [Doing::Idle, Doing::Choosing, Doing::Reading, Doing::Moving, Doing::Checkpoint];

    /// Its name, also in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Idle => "idle",
            Doing::Choosing => "choosing",
            Doing::Reading => "reading",
            Doing::Moving => "moving",
            Doing::Checkpoint => "checkpoint",
        }
    }
}

/// A collector as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorStats {
    /// What it does now.
    pub doing: Doing,
    /// The section it reads or moves.
    pub victim: Option<u32>,
    /// Sections that it has cleaned.
    pub victims: u64,
    /// Of those, the ones that became free.
    pub sections_freed: u64,
    /// Data blocks that it has moved.
    pub data_moved: u64,
    /// Node blocks that it has moved.
    pub nodes_moved: u64,
}

/// Those who collect, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CollectorsNow {
    pub(crate) number: u64,
    pub(crate) working: u64,
    pub(crate) waiting: u64,
    pub(crate) each: Vec<CollectorStats>,
    pub(crate) alone: CollectorStats,
}

/// What a collector does, and has done.
#[derive(Default)]
pub(crate) struct Activity {
    /// The number of a section, and above it a place in [`Doing::ALL`].
    now: AtomicU64,
    victims: AtomicU64,
    sections_freed: AtomicU64,
    data_moved: AtomicU64,
    nodes_moved: AtomicU64,
}

/// Says that a collector is idle again, when it goes.
pub(crate) struct IdleAfter<'a>(&'a Activity);

impl Drop for IdleAfter<'_> {
    fn drop(&mut self) {
        self.0.put(Doing::Idle, 0);
    }
}

impl Activity {
    /// A collector looks for a victim. It is idle when what this returns goes.
    pub(crate) fn begin(&self) -> IdleAfter<'_> {
        self.put(Doing::Choosing, 0);
        IdleAfter(self)
    }

    /// As [`Activity::begin`], for a checkpoint.
    pub(crate) fn begin_checkpoint(&self) -> IdleAfter<'_> {
        self.put(Doing::Checkpoint, 0);
        IdleAfter(self)
    }

    /// A collector reads or moves this section.
    pub(crate) fn set(&self, doing: Doing, sec: SecNo) {
        self.put(doing, sec.get());
    }

    fn put(&self, doing: Doing, section: u32) {
        self.now.store((doing as u64) << 32 | u64::from(section), Relaxed);
    }

    /// A victim has been cleaned.
    pub(crate) fn note(&self, report: &GcReport) {
        self.victims.fetch_add(report.victims, Relaxed);
        self.sections_freed.fetch_add(report.sections_freed, Relaxed);
        self.data_moved.fetch_add(report.data_moved, Relaxed);
        self.nodes_moved.fetch_add(report.nodes_moved, Relaxed);
    }

    /// For whoever asks.
    pub(crate) fn stats(&self) -> CollectorStats {
        let now = self.now.load(Relaxed);
        let doing = Doing::ALL[(now >> 32) as usize];
        let victim = matches!(doing, Doing::Reading | Doing::Moving).then_some(now as u32);
        CollectorStats {
            doing,
            victim,
            victims: self.victims.load(Relaxed),
            sections_freed: self.sections_freed.load(Relaxed),
            data_moved: self.data_moved.load(Relaxed),
            nodes_moved: self.nodes_moved.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_tells_what_it_does_and_is_idle_after() {
        let activity = Activity::default();
        let seen = |activity: &Activity| (activity.stats().doing, activity.stats().victim);
        assert_eq!(seen(&activity), (Doing::Idle, None));
        {
            let _idle_after = activity.begin();
            assert_eq!(seen(&activity), (Doing::Choosing, None));
            activity.set(Doing::Reading, SecNo::new(0));
            assert_eq!(seen(&activity), (Doing::Reading, Some(0)));
            activity.set(Doing::Moving, SecNo::new(u32::MAX));
            assert_eq!(seen(&activity), (Doing::Moving, Some(u32::MAX)));
        }
        assert_eq!(seen(&activity), (Doing::Idle, None));
        let _idle_after = activity.begin_checkpoint();
        assert_eq!(seen(&activity), (Doing::Checkpoint, None));
    }

    #[test]
    fn checkpoints_are_counted_by_cause() {
        let times = CheckpointTimes::default();
        times.note(Cause::Timer, Duration::from_micros(30));
        times.note(Cause::Unmount, Duration::from_micros(5));
        times.note(Cause::Timer, Duration::from_micros(7));
        let (total, last, causes) = times.read();
        assert_eq!((total, last, causes["timer"], causes["unmount"], causes["sync"]), (42, 7, 2, 1, 0));
        assert_eq!(causes.len(), Cause::ALL.len(), "two causes have one name");
    }
}
