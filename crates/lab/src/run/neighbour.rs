//! A compute-bound neighbour: tasks that share the cores with the workload and the file system, and do nothing but
//! compute.
//!
//! It works alone for a while, for comparison, and then through the whole measured phase. An operation is one slice of
//! work; a task that has its core for itself does one after the other. Kept true: it takes no lock and waits for
//! nothing, so what slows it down is that others have the cores.

use super::phases::named;
use crate::spec::Neighbour;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::sim::compute;
use steadyfs_rt::{Instant, JoinHandle, now, sleep, spawn};

/// The tasks, while they work.
pub(super) struct AtWork {
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<u64>>,
    began: Instant,
}

impl AtWork {
    /// Starts them.
    pub(super) fn start(neighbour: &Neighbour) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let slice = Duration::from_micros(neighbour.slice_us);
        let tasks = (0..neighbour.threads)
            .map(|_| {
                let over = Arc::clone(&over);
                spawn("neighbour", move || {
                    let mut operations = 0;
                    while !over.load(SeqCst) {
                        compute(slice);
                        operations += 1;
                    }
                    operations
                })
            })
            .collect();
        AtWork { over, tasks, began: now() }
    }

    /// Ends them; operations per second of all together.
    pub(super) fn finish(self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        self.over.store(true, SeqCst);
        let operations: u64 = self.tasks.into_iter().map(|task| task.join().unwrap_or(0)).sum();
        operations as f64 / seconds
    }
}

/// What the neighbour does in a second when it is alone.
pub(super) fn alone(neighbour: &Neighbour) -> f64 {
    let work = AtWork::start(neighbour);
    sleep(Duration::from_millis(neighbour.alone_ms));
    work.finish()
}

/// Figures: operations per second alone and beside the workload, and how much longer an operation takes beside it.
pub(super) fn figures(alone: f64, beside: f64) -> impl Iterator<Item = (String, f64)> {
    let slowdown = alone / beside.max(1e-9);
    named([("neighbour_alone_ops_s", alone), ("neighbour_ops_s", beside), ("neighbour_slowdown", slowdown)])
}
