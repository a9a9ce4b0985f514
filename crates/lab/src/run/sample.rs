//! The series of the measured phase: a task that looks at all counters at fixed intervals of virtual time.

use super::course::Course;
use crate::record::Row;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_flash::Stats;
use steadyfs_rt::{EventCount, Instant, JoinHandle, now, spawn};

const BLOCK: f64 = 4096.0;

/// Counters at one moment: bytes of the application, blocks of the device.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) device_written: u64,
    pub(super) device_read: u64,
    /// Busy time of all cores.
    pub(super) cpu: Duration,
    /// Messages of a device that moves blocks since the mount.
    pub(super) upcalls: u64,
    /// All 0 where there is no flash.
    pub(super) flash: FlashNow,
}

/// Counters of the flash at one moment, in pages, and the memory of its map.
#[derive(Clone, Copy, Default)]
pub(super) struct FlashNow {
    pub(super) host_programmed: u64,
    /// By the host, the collector and the device itself.
    pub(super) programmed: u64,
    pub(super) map_bytes: u64,
}

impl From<&Stats> for FlashNow {
    fn from(stats: &Stats) -> Self {
        FlashNow {
            host_programmed: stats.host_programmed,
            programmed: stats.host_programmed + stats.gc_programmed + stats.meta_programmed + stats.padding,
            map_bytes: stats.map.bytes,
        }
    }
}

/// What is sampled.
pub(super) trait Source: Send + Sync + 'static {
    /// The counters now.
    fn snapshot(&self) -> Snapshot;

    /// Fills in what is not a rate, and tells whoever watches.
    fn state(&self, row: &mut Row);
}

/// The task, while it runs.
pub(super) struct Sampler {
    stop: Arc<(AtomicBool, EventCount)>,
    task: JoinHandle<(Vec<Row>, Vec<Snapshot>)>,
}

impl Sampler {
    /// Starts sampling.
    pub(super) fn start(source: Arc<dyn Source>, interval: f64) -> Self {
        let stop = Arc::new((AtomicBool::new(false), EventCount::new()));
        let signal = Arc::clone(&stop);
        let began = now();
        let interval = Duration::from_secs_f64(interval);
        let task = spawn("sampler", move || {
            let mut rows = Vec::new();
            let mut before = source.snapshot();
            let mut course = vec![before];
            loop {
                let key = signal.1.listen();
                if !signal.0.load(SeqCst) {
                    signal.1.wait_timeout(key, until_next(began.elapsed(), interval));
                }
                let ended = signal.0.load(SeqCst);
                let after = source.snapshot();
                course.push(after);
                // A last interval that is very short says nothing.
                if !ended
                    || rows.is_empty()
                    || after.at.as_nanos() - before.at.as_nanos() > interval.as_nanos() as u64 / 4
                {
                    let mut row = row(began, &before, &after);
                    source.state(&mut row);
                    rows.push(row.rounded());
                }
                before = after;
                if ended {
                    return (rows, course);
                }
            }
        });
        Sampler { stop, task }
    }

    /// Ends the series.
    pub(super) fn finish(self) -> (Vec<Row>, Course) {
        self.stop.0.store(true, SeqCst);
        self.stop.1.notify_all();
        let (rows, course) = self.task.join().unwrap_or_default();
        (rows, Course(course))
    }
}

/// Time from `elapsed` to the next sample, which comes at a multiple of `interval`. A late sample leaves out the
/// multiples that have passed, and one that is near: over a short time rates say nothing.
fn until_next(elapsed: Duration, interval: Duration) -> Duration {
    let interval = interval.as_nanos().max(1);
    let left = interval - elapsed.as_nanos() % interval;
    let near = if left * 2 < interval { interval } else { 0 };
    Duration::from_nanos(u64::try_from(left + near).unwrap_or(u64::MAX))
}

fn row(began: Instant, before: &Snapshot, after: &Snapshot) -> Row {
    let seconds = (after.at.as_nanos() - before.at.as_nanos()).max(1) as f64 / 1e9;
    let mb_s = |bytes: f64| bytes / seconds / 1e6;
    let written = (after.written - before.written) as f64;
    let device = (after.device_written - before.device_written) as f64 * BLOCK;
    Row {
        seconds: (after.at.as_nanos() - began.as_nanos()) as f64 / 1e9,
        app_write_mb_s: mb_s(written),
        app_read_mb_s: mb_s((after.read - before.read) as f64),
        device_write_mb_s: mb_s(device),
        device_read_mb_s: mb_s((after.device_read - before.device_read) as f64 * BLOCK),
        cpu: (after.cpu - before.cpu).as_secs_f64() / seconds / steadyfs_rt::cpus() as f64,
        waf: if written > 0.0 { device / written } else { 0.0 },
        flash_waf: match after.flash.host_programmed - before.flash.host_programmed {
            0 => 0.0,
            host => (after.flash.programmed - before.flash.programmed) as f64 / host as f64,
        },
        map_mib: after.flash.map_bytes as f64 / f64::from(1 << 20),
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_rt::sim::{SimConfig, compute, cpu_time, run};

    /// Has written a megabyte for each virtual millisecond.
    struct Steady;

    impl Source for Steady {
        fn snapshot(&self) -> Snapshot {
            let written = now().as_nanos();
            let (read, device_written, device_read) = (0, 0, 0);
            let flash = FlashNow::default();
            Snapshot { at: now(), written, read, device_written, device_read, cpu: cpu_time(), upcalls: 0, flash }
        }

        fn state(&self, _: &mut Row) {}
    }

    #[test]
    fn a_late_sample_is_followed_by_one_at_the_next_multiple() {
        let ms = Duration::from_millis;
        assert_eq!(until_next(ms(0), ms(100)), ms(100));
        assert_eq!(until_next(ms(100), ms(100)), ms(100));
        assert_eq!(until_next(ms(110), ms(100)), ms(90));
        // Three samples late: the next comes at 500, not three at once.
        assert_eq!(until_next(ms(420), ms(100)), ms(80));
        assert_eq!(until_next(ms(450), ms(100)), ms(50));
        assert_eq!(until_next(ms(451), ms(100)), ms(149), "a sample at 500 would follow too soon");
        assert_eq!(until_next(ms(7), Duration::ZERO), Duration::from_nanos(1));
    }

    /// One core, which somebody else has for seven intervals: the sampler gets it late.
    #[test]
    fn no_row_is_of_a_short_rest() {
        let config = SimConfig { cores: 1, slice: Duration::from_secs(1), ..SimConfig::default() };
        let report = run(config, || {
            let sampler = Sampler::start(Arc::new(Steady), 0.001);
            for _ in 0..20 {
                steadyfs_rt::sleep(Duration::from_micros(1300));
                compute(Duration::from_micros(6950));
            }
            sampler.finish().0
        });
        let rows = report.unwrap().value;
        let lengths: Vec<f64> = std::iter::once(0.0)
            .chain(rows.iter().map(|row| row.seconds))
            .collect::<Vec<_>>()
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        let (_last, whole) = lengths.split_last().unwrap();
        assert!(whole.iter().any(|length| *length > 0.006), "it was never late: {lengths:?}");
        assert!(whole.iter().all(|length| *length > 0.00045), "{lengths:?}");
    }
}
