//! Counters that a running volume keeps only to tell of itself: what users wrote and read, checkpoints by cause.
//!
//! Kept true: all of them are relaxed atomics, written without a lock, and nothing decides by them. Their numbers are
//! each right; two of them read one after the other may belong to different moments.

use crate::error::Result;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Why a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So long after the one before (`commit=SECONDS`), or to try again what the device refused.
    Timer,
    /// Much has gathered: a long roll-forward chain, many emptied segments, many dirty nodes.
    Backlog,
    /// An fsync that the roll-forward chain could not serve.
    Fsync,
    /// The journal's time (`journal.commit=SECONDS`), where a batch could not make names durable.
    Journal,
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
    pub const ALL: [Cause; 11] = [
        Cause::Timer,
        Cause::Backlog,
        Cause::Fsync,
        Cause::Journal,
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
            Cause::Journal => "journal",
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

    /// Time of all, time of the last; number for each cause.
    pub(crate) fn read(&self) -> (Duration, Duration, BTreeMap<String, u64>) {
        let named = |cause: Cause| (cause.name().to_owned(), self.causes[cause as usize].load(Relaxed));
        let causes = Cause::ALL.into_iter().map(named).collect();
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Relaxed));
        (time(&self.total_ns), time(&self.last_ns), causes)
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
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.written.0.load(Relaxed), self.read.0.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_counted_by_cause() {
        let times = CheckpointTimes::default();
        times.note(Cause::Timer, Duration::from_micros(30));
        times.note(Cause::Unmount, Duration::from_micros(5));
        times.note(Cause::Timer, Duration::from_micros(7));
        let (total, last, causes) = times.read();
        assert_eq!((total, last), (Duration::from_micros(42), Duration::from_micros(7)));
        assert_eq!((causes["timer"], causes["unmount"], causes["sync"]), (2, 1, 0));
        assert_eq!(causes.len(), Cause::ALL.len(), "two causes have one name");
    }
}
