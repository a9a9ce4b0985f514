//! What a workload at work has around it: the volume, counters of what it moves, tasks that end together when one
//! fails. Contents of files, and times of operations, are for all workloads the same (`pattern`, `content`, `tally`).

mod content;
mod pattern;
mod tally;

use crate::error::{Error, Result};
use crate::progress::Progress;
pub(crate) use content::Content;
pub(crate) use pattern::Pattern;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_rt::{Instant, JoinHandle, now, spawn};
pub(crate) use tally::Tally;

/// Bytes that a workload has moved in the measured phase.
#[derive(Default)]
pub(crate) struct Traffic {
    written: AtomicU64,
    read: AtomicU64,
}

impl Traffic {
    /// Bytes written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Bytes read.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Relaxed)
    }
}

/// See the head of the module. One per run.
pub(crate) struct Stage {
    pub(crate) fs: Arc<Fs>,
    /// The seed of the run, from which every choice comes.
    pub(crate) seed: u64,
    pub(crate) traffic: Traffic,
    pub(crate) progress: Arc<Progress>,
    /// Somebody failed; the others need not go on.
    failed: AtomicBool,
}

impl Stage {
    /// A stage on this volume.
    pub(crate) fn new(fs: &Arc<Fs>, seed: u64, progress: &Arc<Progress>) -> Arc<Self> {
        Arc::new(Stage {
            fs: Arc::clone(fs),
            seed,
            traffic: Traffic::default(),
            progress: Arc::clone(progress),
            failed: AtomicBool::new(false),
        })
    }

    /// Counts bytes that the workload wrote.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.traffic.written.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that the workload read.
    pub(crate) fn read(&self, bytes: u64) {
        self.traffic.read.fetch_add(bytes, Relaxed);
    }

    /// The moment so many seconds from now.
    pub(crate) fn deadline(&self, seconds: f64) -> Instant {
        let time = Duration::from_secs_f64(seconds).as_nanos() as u64;
        Instant::from_nanos(now().as_nanos().saturating_add(time))
    }

    /// Whether a task should do more: nobody has failed, and it is before the deadline, if there is one.
    pub(crate) fn goes_on(&self, deadline: Option<Instant>) -> bool {
        !self.failed.load(Relaxed) && deadline.is_none_or(|end| now() < end)
    }

    /// Starts a task of the workload; if it fails, [`Stage::goes_on`] says no to all others.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: &str,
        task: impl FnOnce() -> Result<Tally> + Send + 'static,
    ) -> JoinHandle<Result<Tally>> {
        let stage = Arc::clone(self);
        spawn(name, move || {
            let outcome = task();
            if outcome.is_err() {
                stage.failed.store(true, Relaxed);
            }
            outcome
        })
    }
}

/// Waits for tasks; what they counted, or the error of the first that failed.
pub(crate) fn join(tasks: Vec<JoinHandle<Result<Tally>>>) -> Result<Tally> {
    let mut sum = Tally::default();
    let mut first = Ok(());
    for task in tasks {
        match task.join() {
            Ok(Ok(mine)) => sum.merge(&mine),
            Ok(Err(e)) => first = first.and(Err(e)),
            Err(panicked) => first = first.and(Err(Error::Check(panicked.to_string()))),
        }
    }
    first.map(|()| sum)
}
