//! The series of the measured phase: a task that looks at all counters at fixed intervals of virtual time.

use super::Row;
use crate::workload::Stage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{EventCount, Instant, JoinHandle, now, spawn};

const BLOCK: f64 = 4096.0;

/// Counters at one moment.
#[derive(Clone, Copy)]
struct Snapshot {
    at: Instant,
    written: u64,
    read: u64,
    device_written: u64,
    device_read: u64,
}

/// The task, while it runs.
pub(super) struct Sampler {
    stop: Arc<(AtomicBool, EventCount)>,
    task: JoinHandle<Vec<Row>>,
}

impl Sampler {
    /// Starts sampling.
    pub(super) fn start(stage: &Arc<Stage>, interval: f64) -> Self {
        let stop = Arc::new((AtomicBool::new(false), EventCount::new()));
        let stage = Arc::clone(stage);
        let signal = Arc::clone(&stop);
        let began = now();
        let interval = Duration::from_secs_f64(interval);
        let task = spawn("sampler", move || {
            let mut rows = Vec::new();
            let mut before = Snapshot::take(&stage);
            loop {
                let key = signal.1.listen();
                let due = interval.saturating_mul(rows.len() as u32 + 1);
                if !signal.0.load(SeqCst) {
                    signal.1.wait_timeout(key, due.saturating_sub(began.elapsed()));
                }
                let ended = signal.0.load(SeqCst);
                let after = Snapshot::take(&stage);
                // A last interval that is very short says nothing.
                if !ended
                    || rows.is_empty()
                    || after.at.as_nanos() - before.at.as_nanos() > interval.as_nanos() as u64 / 4
                {
                    let row = row(began, &before, &after, &stage).rounded();
                    stage.progress.note(&row);
                    rows.push(row);
                }
                before = after;
                if ended {
                    return rows;
                }
            }
        });
        Sampler { stop, task }
    }

    /// Ends the series.
    pub(super) fn finish(self) -> Vec<Row> {
        self.stop.0.store(true, SeqCst);
        self.stop.1.notify_all();
        self.task.join().unwrap_or_default()
    }
}

impl Snapshot {
    fn take(stage: &Stage) -> Self {
        let io = stage.fs.io_stats();
        Snapshot {
            at: now(),
            written: stage.traffic.written(),
            read: stage.traffic.read(),
            device_written: io.written_blocks(),
            device_read: io.read,
        }
    }
}

fn row(began: Instant, before: &Snapshot, after: &Snapshot, stage: &Stage) -> Row {
    let seconds = (after.at.as_nanos() - before.at.as_nanos()).max(1) as f64 / 1e9;
    let mb_s = |bytes: f64| bytes / seconds / 1e6;
    let written = (after.written - before.written) as f64;
    let device = (after.device_written - before.device_written) as f64 * BLOCK;
    let sections = stage.fs.sections();
    Row {
        seconds: (after.at.as_nanos() - began.as_nanos()) as f64 / 1e9,
        app_write_mb_s: mb_s(written),
        app_read_mb_s: mb_s((after.read - before.read) as f64),
        device_write_mb_s: mb_s(device),
        device_read_mb_s: mb_s((after.device_read - before.device_read) as f64 * BLOCK),
        waf: if written > 0.0 { device / written } else { 0.0 },
        free_sections: sections.free as f64,
        prefree_sections: sections.prefree as f64,
        victims: stage.fs.gc_totals().victims as f64,
        dirty_pages: stage.fs.cache_stats().dirty as f64,
    }
}
