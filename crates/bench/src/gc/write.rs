//! The writer: the same code for every peer, in this process or in the guest.
//!
//! A phase overwrites random pages of one file, from one thread or several, for some time or a number of writes. All
//! peers take the same sequence of pages from its beginning; who is faster gets further. The final `fdatasync` is in
//! the time.

use crate::data::{Buffer, MIB, PAGE, Random};
use crate::latency::Latencies;
use crate::tree::{Handle, Open, Tree};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Windows in which writes are counted, to see how steady they are.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);
/// The name of the file that is written.
pub(crate) const FILE: &str = "file";

/// Counters of a file system or its device by name: `written`, blocks of 4 KiB that the device was given; `cpu_us`,
/// processor time of writer and server, where both are processes of the host; the others are for explanation.
pub(crate) type Counters = BTreeMap<String, u64>;

/// The writes of one phase to the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// For people.
    pub(crate) name: String,
    /// Past the cache (`O_DIRECT`).
    pub(crate) direct: bool,
    /// `fdatasync` after this many writes of a writer; 0 for never.
    pub(crate) fsync_every: u64,
    /// Threads that write at the same time, each with pages of its own choice.
    pub(crate) writers: u64,
    /// It ends after this many writes
    pub(crate) writes: u64,
    /// or after so much time.
    pub(crate) seconds: f64,
    /// Of the sequence of pages.
    pub(crate) seed: u64,
}

/// What a phase came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Pages written.
    pub(crate) writes: u64,
    /// From the first write to the end of the last `fdatasync`.
    pub(crate) seconds: f64,
    /// Time of a write, with its `fdatasync` if it has one, in microseconds: median, 99 %, 99.9 %, longest.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) longest_us: f64,
    /// Writes that ended in each whole window before the first writer stopped.
    pub(crate) windows: Vec<u64>,
    /// What the counters have grown by, a sync at both ends included.
    pub(crate) counters: Counters,
}

/// A file system that holds the file.
pub(crate) trait Peer {
    /// Its tree.
    fn tree(&self) -> &dyn Tree;
    /// Bytes that statfs says are free.
    fn free_bytes(&self) -> Result<u64>;
    /// The counters now.
    fn counters(&self) -> Result<Counters>;
}

/// Makes the file, of this part (per mille) of what is free on the empty file system, from start to end. Returns its
/// size.
pub(crate) fn fill(peer: &dyn Peer, per_mille: u64) -> Result<u64> {
    let size = peer.free_bytes()? / 1000 * per_mille / PAGE as u64 * PAGE as u64;
    ensure!(size > 0, "nothing is free there");
    let file = peer.tree().open(FILE, Open::New)?;
    let data = Buffer::random(MIB, 11);
    for off in (0..size).step_by(MIB) {
        let len = (size - off).min(MIB as u64) as usize;
        file.write_at(off, &data.bytes()[..len]).with_context(|| format!("writing the file's first {off} bytes"))?;
    }
    file.datasync()?;
    Ok(size)
}

/// The work of all writers of a phase so far.
struct Progress {
    began: Instant,
    taken: AtomicU64,
    failed: AtomicBool,
}

/// What a writer counted.
struct Share {
    latencies: Latencies,
    windows: Vec<u64>,
    ended: Duration,
}

/// Does a phase. `stop` is asked now and then whether to go on; its error ends the phase.
pub(crate) fn run(peer: &dyn Peer, phase: &Phase, stop: &(dyn Fn() -> Result<()> + Sync)) -> Result<Outcome> {
    let how = if phase.direct { Open::Direct } else { Open::Cached };
    let (file, pages) = (peer.tree().open(FILE, how)?, peer.tree().stat(FILE)? / PAGE as u64);
    peer.tree().sync()?;
    let before = peer.counters()?;
    let all = Progress { began: Instant::now(), taken: AtomicU64::new(0), failed: AtomicBool::new(false) };
    let shares: Vec<Result<Share>> = std::thread::scope(|scope| {
        let writer = |number| {
            let (file, all) = (&*file, &all);
            scope.spawn(move || {
                let share = write(file, pages, phase, number, all, stop);
                all.failed.fetch_or(share.is_err(), Relaxed);
                share
            })
        };
        let writers: Vec<_> = (0..phase.writers.max(1)).map(writer).collect();
        writers.into_iter().map(|w| w.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked"))).collect()
    });
    let shares = shares.into_iter().collect::<Result<Vec<Share>>>()?;
    file.datasync().context("the last fdatasync")?;
    let seconds = all.began.elapsed().as_secs_f64();
    peer.tree().sync()?;
    let after = peer.counters()?;
    Ok(sum(shares, seconds, &before, &after))
}

/// What one writer does.
fn write(
    file: &dyn Handle,
    pages: u64,
    phase: &Phase,
    number: u64,
    all: &Progress,
    stop: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Share> {
    let mut random = Random::new(phase.seed << 16 | number);
    let data = Buffer::random(MIB, 12 + number);
    let limit = Duration::from_secs_f64(phase.seconds);
    let mut share = Share { latencies: Latencies::new(), windows: Vec::new(), ended: Duration::ZERO };
    for i in 1u64.. {
        if all.taken.fetch_add(1, Relaxed) >= phase.writes || share.ended >= limit || all.failed.load(Relaxed) {
            break;
        }
        if i % 256 == 0 {
            stop()?;
        }
        let start = Instant::now();
        file.write_at(random.below(pages) * PAGE as u64, data.page(i)).with_context(|| format!("write {i}"))?;
        if phase.fsync_every > 0 && i % phase.fsync_every == 0 {
            file.datasync().with_context(|| format!("fdatasync after write {i}"))?;
        }
        let end = Instant::now();
        share.latencies.add(u64::try_from((end - start).as_nanos())?);
        share.ended = end - all.began;
        let window = (share.ended.as_nanos() / WINDOW.as_nanos()) as usize;
        if share.windows.len() <= window {
            share.windows.resize(window + 1, 0);
        }
        share.windows[window] += 1;
    }
    Ok(share)
}

fn sum(shares: Vec<Share>, seconds: f64, before: &Counters, after: &Counters) -> Outcome {
    let mut latencies = Latencies::new();
    let mut windows: Vec<u64> = Vec::new();
    let ended = shares.iter().map(|share| share.ended).min().unwrap_or_default();
    for share in &shares {
        latencies.merge(&share.latencies);
        if windows.len() < share.windows.len() {
            windows.resize(share.windows.len(), 0);
        }
        windows.iter_mut().zip(&share.windows).for_each(|(all, own)| *all += own);
    }
    let writes = windows.iter().sum();
    windows.truncate((ended.as_nanos() / WINDOW.as_nanos()) as usize);
    let us = |part| latencies.quantile(part) as f64 / 1e3;
    let grown = |(name, now): (&String, &u64)| {
        (name.clone(), now.saturating_sub(before.get(name).copied().unwrap_or_default()))
    };
    Outcome {
        writes,
        seconds,
        p50_us: us(0.5),
        p99_us: us(0.99),
        p999_us: us(0.999),
        longest_us: latencies.longest() as f64 / 1e3,
        windows,
        counters: after.iter().map(grown).collect(),
    }
}

impl Outcome {
    /// Writes a second.
    pub(crate) fn rate(&self) -> f64 {
        self.writes as f64 / self.seconds.max(1e-9)
    }

    /// Write amplification: blocks that the device was given for each page written; `None` if the device does not
    /// count.
    pub(crate) fn amplification(&self) -> Option<f64> {
        Some(*self.counters.get("written")? as f64 / self.writes.max(1) as f64)
    }

    /// Microseconds of processor time for each write, where it is known.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        Some(*self.counters.get("cpu_us")? as f64 / self.writes.max(1) as f64)
    }

    /// MB a second in the slowest and in the middle window, if there are three or more.
    pub(crate) fn steadiness(&self) -> Option<(f64, f64)> {
        let mut sorted = self.windows.clone();
        sorted.sort_unstable();
        (sorted.len() >= 3).then(|| (rate(sorted[0]), rate(sorted[sorted.len() / 2])))
    }

    /// Seconds and MB a second in the middle of each window.
    pub(crate) fn course(&self) -> Vec<(f64, f64)> {
        let at = |number: usize| (number as f64 + 0.5) * WINDOW.as_secs_f64();
        self.windows.iter().enumerate().map(|(number, writes)| (at(number), rate(*writes))).collect()
    }
}

/// MB a second of `writes` writes in a window.
fn rate(writes: u64) -> f64 {
    (writes * PAGE as u64) as f64 / WINDOW.as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Remembers what was done, and takes a millisecond for each write.
    #[derive(Default)]
    struct Remembering(Mutex<Vec<Option<u64>>>);

    impl Peer for Remembering {
        fn tree(&self) -> &dyn Tree {
            self
        }
        fn free_bytes(&self) -> Result<u64> {
            Ok(10 << 20)
        }
        fn counters(&self) -> Result<Counters> {
            let written = 3 * self.0.lock().unwrap().iter().flatten().count() as u64;
            Ok(Counters::from([("written".to_owned(), 1000 + written)]))
        }
    }

    impl Tree for Remembering {
        fn mkdir(&self, _path: &str) -> Result<()> {
            anyhow::bail!("there are no directories")
        }
        fn open(&self, _path: &str, _how: Open) -> Result<Box<dyn Handle + '_>> {
            Ok(Box::new(self))
        }
        fn stat(&self, _path: &str) -> Result<u64> {
            Ok(10 << 20)
        }
        fn unlink(&self, _path: &str) -> Result<()> {
            anyhow::bail!("the file stays")
        }
        fn sync(&self) -> Result<()> {
            Ok(())
        }
    }

    impl Handle for &Remembering {
        fn read_at(&self, _off: u64, _buf: &mut [u8]) -> Result<()> {
            anyhow::bail!("nobody reads")
        }
        fn set_mode_and_time(&self, _mode: u32, _seconds: i64) -> Result<()> {
            anyhow::bail!("nobody sets that")
        }
        fn write_at(&self, off: u64, bytes: &[u8]) -> Result<()> {
            std::thread::sleep(Duration::from_millis(1));
            ensure!(off + bytes.len() as u64 <= 10 << 20, "behind the end");
            self.0.lock().unwrap().push(Some(off));
            Ok(())
        }
        fn datasync(&self) -> Result<()> {
            self.0.lock().unwrap().push(None);
            Ok(())
        }
    }

    fn phase(writes: u64, seconds: f64, writers: u64) -> Phase {
        Phase { name: "p".to_owned(), direct: false, fsync_every: 4, writers, writes, seconds, seed: 5 }
    }

    #[test]
    fn a_phase_ends_by_its_count_or_by_its_time() {
        let peer = Remembering::default();
        assert_eq!(fill(&peer, 930).unwrap(), (10u64 << 20) / 1000 * 930 / 4096 * 4096);
        peer.0.lock().unwrap().clear();
        let outcome = run(&peer, &phase(10, 100.0, 1), &|| Ok(())).unwrap();
        assert_eq!((outcome.writes, outcome.amplification()), (10, Some(3.0)));
        let done = std::mem::take(&mut *peer.0.lock().unwrap());
        // After the fourth, the eighth and the last.
        let syncs: Vec<usize> = done.iter().enumerate().filter(|(_, op)| op.is_none()).map(|(i, _)| i).collect();
        assert_eq!(syncs, [4, 9, 12]);
        assert!(done.iter().flatten().all(|off| off % 4096 == 0 && *off < 10 << 20));
        assert!(outcome.p50_us >= 1000.0 && outcome.seconds >= 0.01, "{outcome:?}");

        let outcome = run(&peer, &phase(u64::MAX, 0.35, 2), &|| Ok(())).unwrap();
        assert!(outcome.seconds >= 0.35 && outcome.seconds < 20.0, "{outcome:?}");
        let (least, middle) = outcome.steadiness().unwrap();
        assert!(least <= middle && middle <= 2.0 * 4.1, "{outcome:?}");
        // Each writer's own sequence; the first one's is the same as before.
        let again = std::mem::take(&mut *peer.0.lock().unwrap());
        let first: Vec<u64> = done.iter().flatten().copied().collect();
        let mut rest = again.iter().flatten();
        assert!(first.iter().all(|off| rest.any(|other| other == off)), "{first:?} is not in {again:?}");
    }

    #[test]
    fn errors_end_all_writers() {
        let peer = Remembering::default();
        let failed = run(&peer, &phase(u64::MAX, 60.0, 3), &|| anyhow::bail!("interrupted")).unwrap_err();
        assert!(failed.to_string().contains("interrupted"));
    }
}
