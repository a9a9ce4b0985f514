//! What each collector does, and has done.
//!
//! Kept true: as in `counters`.

use crate::reclaim::report::GcReport;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_format::SecNo;

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
    pub(crate) const ALL: [Doing; 5] = [Doing::Idle, Doing::Choosing, Doing::Reading, Doing::Moving, Doing::Checkpoint];

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
    /// Its work now.
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

/// Who collects, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorsNow {
    /// Collectors with a thread of their own.
    pub number: u64,
    /// Of those, how many work.
    pub working: u64,
    /// Writers that wait for room.
    pub writers_waiting: u64,
    /// The collectors, in a snapshot of a volume the first [`MOST_LISTED`](crate::stats::MOST_LISTED) of them.
    pub each: Vec<CollectorStats>,
    /// Whoever collects without a thread for it: a writer, the housekeeper, a command.
    pub alone: CollectorStats,
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
}
