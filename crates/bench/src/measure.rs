//! Taking time: wall clock, and processor time of this process and of the one that serves a mount.
//!
//! Wall time is what users wait; processor time hardly moves when other work shares the machine, so it tells more
//! there. Threads of the kernel (write-back, loop devices) are in neither process and are not counted.

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    /// Operations done.
    pub(crate) operations: u64,
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// Wall time.
    pub(crate) seconds: f64,
    /// Processor time of user and kernel, here and in the server.
    pub(crate) cpu_seconds: f64,
}

/// Set when a signal asks the program to end.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to Ctrl-C, SIGTERM and SIGHUP.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Stop::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0)).context("cannot handle signals")?;
        }
        Ok(stop)
    }

    /// An error once a signal has come, so that everything that was set up is taken down on the way out.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// A running measurement.
pub(crate) struct Watch {
    server: Option<u32>,
    began: Instant,
    cpu: Duration,
}

impl Watch {
    /// Starts; `server` is the process that serves the mount, if one does.
    pub(crate) fn start(server: Option<u32>) -> Result<Self> {
        let cpu = cpu_time(server)?;
        Ok(Watch { server, began: Instant::now(), cpu })
    }

    /// Ends.
    pub(crate) fn stop(self, operations: u64, bytes: u64) -> Result<Sample> {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_seconds = (cpu_time(self.server)? - self.cpu).as_secs_f64();
        assert!(operations > 0 && seconds > 0.0, "nothing was measured");
        Ok(Sample { operations, bytes, seconds, cpu_seconds })
    }
}

/// Processor time so far: of this process, and of the one that serves a mount.
pub(crate) fn cpu_time(server: Option<u32>) -> Result<Duration> {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own = Duration::new(u64::try_from(own.tv_sec)?, u32::try_from(own.tv_nsec)?);
    Ok(own + server.map_or(Ok(Duration::ZERO), cpu_time_of)?)
}

/// Processor time of all threads of a process, in steps of 10 ms.
fn cpu_time_of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the server of the mount is gone")?;
    let ticks = cpu_ticks(&stat).with_context(|| format!("cannot understand /proc/{pid}/stat"))?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// Fields 14 and 15 of `/proc/PID/stat`: user and kernel time. Field 2, the name, may hold spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The most memory that a process has had so far, in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_odd_names() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 100";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("12 (a"), None);
    }

    #[test]
    fn work_is_seen() {
        let watch = Watch::start(Some(std::process::id())).unwrap();
        let mut random = crate::data::Random::new(3);
        while watch.began.elapsed() < Duration::from_millis(5) {
            std::hint::black_box(random.next());
        }
        let sample = watch.stop(1, 0).unwrap();
        assert!(sample.seconds >= 0.005 && sample.cpu_seconds > 0.0);
    }
}
