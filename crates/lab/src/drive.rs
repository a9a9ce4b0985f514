//! An emulated drive alone, without a file system on it: random reads and writes of one size, side by side, at each
//! share of writes that is asked for. What comes out can be held against a datasheet, a measurement of the drive, or
//! another simulator.

use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::rng::Rng;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, StreamHint};
use steadyfs_flash::{EmulatedSsd, Parameters, Preset};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{JoinHandle, Pending, now, sleep, spawn};

/// Pages of the requests that fill the drive before the measurement.
const FILL: u64 = 256;
/// Requests that fill it at a time.
const FILL_DEPTH: u64 = 32;
const PAGE_BYTES: u64 = 4096;

/// What is asked of the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Bytes that hosts see.
    pub capacity: u64,
    /// Bytes from the start on that are filled first, and then read and overwritten at random.
    pub region: u64,
    /// Bytes of a request: whole pages of 4 KiB.
    pub request: u64,
    /// Requests at a time.
    pub depth: u32,
    /// Requests that are measured. As many as a tenth of them go before.
    pub requests: u64,
    /// Of each place and each choice.
    pub seed: u64,
}

/// What a drive does at one share of writes. Times in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Writes among 100 requests.
    pub writes_percent: u32,
    /// Requests of both kinds a second.
    pub iops: f64,
    /// Reads; `None` if there were none.
    pub read: Option<Times>,
    /// Writes, until the drive has said that they are done: in its buffer.
    pub write: Option<Times>,
    /// Pages programmed over pages that the host wrote; 1 if it wrote none.
    pub amplification: f64,
}

/// How long requests of a kind took, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Times {
    fn of(histogram: &Histogram) -> Option<Self> {
        (histogram.count() > 0).then(|| Times {
            mean: histogram.mean_us(),
            p50: histogram.quantile_us(0.5),
            p99: histogram.quantile_us(0.99),
            max: histogram.max_us(),
        })
    }
}

/// The preset of this name with these of its numbers changed.
///
/// # Errors
/// [`Error::Spec`]: there is no such preset or number, or the numbers do not go together.
pub fn drive(preset: &str, numbers: &[(String, String)]) -> Result<Parameters> {
    let known = || Preset::ALL.map(Preset::name).join(", ");
    let preset: Preset =
        preset.parse().map_err(|_| Error::spec("preset", format!("there is no '{preset}'; there are {}", known())))?;
    let mut parameters = preset.parameters();
    for (name, value) in numbers {
        parameters.set(name, value).map_err(|e| Error::spec("set", e.to_string()))?;
    }
    parameters.check().map_err(|e| Error::spec("set", e.to_string()))?;
    Ok(parameters)
}

/// Measures a new drive at this share of writes, in a simulation in which nothing but the drive takes time.
///
/// # Errors
/// [`Error::Spec`]: the mix makes no sense on this drive. [`Error::Check`]: it is not what it must be afterwards.
pub fn measure(parameters: &Parameters, mix: Mix, writes_percent: u32) -> Result<Point> {
    check(mix, writes_percent)?;
    let parameters = parameters.clone();
    run(SimConfig::timeless(), move || point(parameters, mix, writes_percent))?.value
}

fn check(mix: Mix, writes_percent: u32) -> Result<()> {
    let wrong = |why: &str| Err(Error::spec("mix", why.to_owned()));
    if mix.request == 0 || !mix.request.is_multiple_of(PAGE_BYTES) || mix.request > 1 << 20 {
        return wrong("a request has whole pages of 4096 bytes, at most 1 MiB");
    }
    if mix.region < mix.request || mix.region > mix.capacity {
        return wrong("the region has room for a request, and lies within the capacity");
    }
    if mix.depth == 0 || mix.requests < u64::from(mix.depth) || writes_percent > 100 {
        return wrong("there are requests for each of those at a time, and up to 100 of 100 are writes");
    }
    Ok(())
}

fn point(parameters: Parameters, mix: Mix, writes_percent: u32) -> Result<Point> {
    let ssd = EmulatedSsd::new(parameters, mix.capacity).map_err(|e| Error::spec("capacity", e.to_string()))?;
    fill(&ssd, mix.region / PAGE_BYTES)?;
    at_depth(&ssd, Mix { requests: mix.requests / 10 + u64::from(mix.depth), seed: !mix.seed, ..mix }, writes_percent)?;
    let (began, before) = (now(), ssd.stats());
    let [read, write] = at_depth(&ssd, mix, writes_percent)?;
    let (taken, after) = (began.elapsed(), ssd.stats());
    let report = ssd.check();
    if !report.is_clean() {
        return Err(Error::Check(format!("the drive: {report}")));
    }
    Ok(Point {
        writes_percent,
        iops: (read.count() + write.count()) as f64 / taken.as_secs_f64().max(1e-9),
        read: Times::of(&read),
        write: Times::of(&write),
        amplification: after.waf_since(&before),
    })
}

fn page(number: u64) -> PageBuf {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    PageBuf::synthetic(seed)
}

fn write_of(block: u64, count: u64) -> Op {
    Op::Write { block, pages: (block..block + count).map(page).collect(), hint: StreamHint::DataWarm, fua: false }
}

/// Writes the first pages in order, and waits until the chips are idle.
fn fill(ssd: &Arc<EmulatedSsd>, pages: u64) -> Result<()> {
    let mut at = 0;
    while at < pages {
        let pending = Arc::new(Pending::new());
        let mut batch = Vec::new();
        while at < pages && (batch.len() as u64) < FILL_DEPTH {
            let count = FILL.min(pages - at);
            let done = Arc::clone(&pending);
            done.add(1);
            batch.push(steadyfs_device::Request::new(write_of(at, count), move |_| done.done(1)));
            at += count;
        }
        ssd.submit(batch);
        pending.wait_zero();
    }
    ssd.flush().map_err(|e| Error::Check(format!("filling the drive: {e}")))?;
    sleep(Duration::from_millis(100));
    Ok(())
}

/// Tasks that each make one request after the other. How long reads and writes took.
fn at_depth(ssd: &Arc<EmulatedSsd>, mix: Mix, writes_percent: u32) -> Result<[Histogram; 2]> {
    let places = mix.region / mix.request;
    let count = mix.request / PAGE_BYTES;
    let task = |number: u64| {
        let ssd = Arc::clone(ssd);
        let rounds = mix.requests / u64::from(mix.depth) + u64::from(number < mix.requests % u64::from(mix.depth));
        spawn("mix", move || {
            let mut rng = Rng::new(mix.seed, number);
            let mut times = [Histogram::default(), Histogram::default()];
            for _ in 0..rounds {
                let (block, writes) = (rng.below(places) * count, rng.below(100) < u64::from(writes_percent));
                let op = if writes { write_of(block, count) } else { Op::Read { block, count } };
                let began = now();
                ssd.run(op)?;
                times[usize::from(writes)].record(began.elapsed());
            }
            Ok::<_, steadyfs_device::IoError>(times)
        })
    };
    let tasks: Vec<JoinHandle<_>> = (0..u64::from(mix.depth)).map(task).collect();
    let mut all = [Histogram::default(), Histogram::default()];
    for task in tasks {
        let times = task.join().map_err(|e| Error::Check(e.to_string()))?;
        let times = times.map_err(|e| Error::Check(format!("the drive: {e}")))?;
        all.iter_mut().zip(&times).for_each(|(sum, part)| sum.merge(part));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        Mix { capacity: 256 << 20, region: 64 << 20, request: 4096, depth: 8, requests: 2000, seed: 1 }
    }

    #[test]
    fn reads_wait_behind_programs_unless_they_suspend_them() {
        let plain = drive("pm9a3", &[]).unwrap();
        let suspends = drive("pm9a3", &[("suspend".into(), "both".into())]).unwrap();
        let alone = measure(&plain, mix(), 0).unwrap();
        let beside = measure(&plain, mix(), 50).unwrap();
        let suspending = measure(&suspends, mix(), 50).unwrap();
        assert!(alone.write.is_none() && measure(&plain, mix(), 100).unwrap().read.is_none());
        let mean = |point: &Point| point.read.unwrap().mean;
        assert!(mean(&beside) > 1.5 * mean(&alone), "{alone:?} {beside:?}");
        assert!(mean(&suspending) < mean(&beside), "{suspending:?} {beside:?}");
        assert_eq!(measure(&plain, mix(), 50).unwrap(), beside, "runs repeat");
    }

    /// Two chips and a full buffer, so that programs are told behind each other.
    #[test]
    fn reads_that_go_first_wait_for_the_program_at_work_only() {
        let mean = |settings: &[(&str, &str)]| {
            let few = [("channels", "1"), ("chips_per_channel", "2"), ("buffer_bytes", "1048576")];
            let all = few.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let drive = drive("pm9a3", &all.collect::<Vec<_>>()).unwrap();
            measure(&drive, mix(), 90).unwrap().read.unwrap().mean
        };
        let (fifo, first, suspending) = (mean(&[]), mean(&[("order", "read-first")]), mean(&[("suspend", "program")]));
        assert!(first < 0.5 * fifo && suspending < 0.5 * first, "{fifo} {first} {suspending}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let why = |result: Result<Parameters>| result.unwrap_err().to_string();
        assert!(why(drive("pm9", &[])).contains("970pro, pm9a3, slow-emmc"));
        assert!(why(drive("pm9a3", &[("channles".into(), "4".into())])).contains("channles"));
        let plain = drive("pm9a3", &[]).unwrap();
        for wrong in [Mix { request: 1000, ..mix() }, Mix { depth: 0, ..mix() }, Mix { region: 1 << 40, ..mix() }] {
            assert!(measure(&plain, wrong, 0).unwrap_err().is_usage());
        }
    }
}
