//! The load in virtual time: a seed decides the schedule, the cores, how the volume collects and what its device does,
//! and gives the same run again.

use super::{Contents, Figures, FillPlan, Library, Until, prepare, run, verify};
use crate::late::LateDevice;
use crate::rng::Rng;
use crate::seeds::{Sum, each_seed};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, GcReport, MountOptions};
use steadyfs_device::{Device, MemDevice};
use steadyfs_rt::sim::{self, SimConfig};
use thiserror::Error;

/// Most of a small volume is kept for collection and logs: nearly full for files, it is half full for those who
/// collect.
const SHAPES: [Shape; 5] = [
    Shape { mib: 76, segs_per_sec: 1, writers: 6, full: 800 },
    Shape { mib: 88, segs_per_sec: 1, writers: 12, full: 850 },
    Shape { mib: 76, segs_per_sec: 1, writers: 2, full: 900 },
    Shape { mib: 128, segs_per_sec: 2, writers: 4, full: 700 },
    Shape { mib: 88, segs_per_sec: 1, writers: 8, full: 950 },
];
/// Operations of all writers together between two comparisons of all contents, and how often that is done: enough for
/// nearly every volume to come to the point where its collectors have to work.
const OPERATIONS: u64 = 300;
const ROUNDS: u64 = 2;

/// A kind of volume, and who works on it.
struct Shape {
    mib: u64,
    segs_per_sec: u32,
    writers: u64,
    /// Of 1000 blocks this many are in use.
    full: u64,
}

/// A volume that is nearly full, with what it holds.
pub struct Prepared {
    device: MemDevice,
    contents: Contents,
}

/// What a seed decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    seed: u64,
    /// Number of the volume's shape.
    shape: usize,
    cores: usize,
    mount: String,
    /// Seed of the order in which the device ends requests.
    late: Option<u64>,
}

/// What the run of a seed came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// What the writers did.
    pub figures: Figures,
    /// What collection did.
    pub collected: GcReport,
    /// Collectors that the volume had, and how many cleaned at least one victim.
    pub collectors: u64,
    /// See `collectors`.
    pub worked: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Hash of all events in virtual time.
    pub trace: u64,
}

impl Ended {
    /// Adds what another run came to. Traces are summed: the order does not matter.
    pub fn add(&mut self, other: &Ended) {
        self.figures.add(&other.figures);
        self.collected.add(other.collected);
        self.collectors += other.collectors;
        self.worked += other.worked;
        self.checkpoints += other.checkpoints;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}

/// What some seeds came to.
#[derive(Default)]
struct Tried {
    seeds: u64,
    /// Of the sound ones.
    sum: Ended,
    wrong: Vec<Wrong>,
}

impl Sum for Tried {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.sum.add(&other.sum);
        self.wrong.extend(other.wrong);
        self.wrong.sort_by_key(Wrong::seed);
    }

    fn done(&self) -> u64 {
        self.seeds
    }
}

/// The fault under a seed.
#[derive(Debug, Error)]
#[error("seed {}: {what} ({case})", case.seed)]
pub struct Wrong {
    case: Case,
    what: String,
}

impl Wrong {
    /// The seed.
    pub fn seed(&self) -> u64 {
        self.case.seed
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { mib, segs_per_sec: segments, writers, full } = SHAPES[self.shape];
        write!(
            f,
            "{mib} MiB with sections of {segments} segments, {}.{} % full, {writers} writers, {} cores, mounted with {}, a device that ends requests {}",
            full / 10,
            full % 10,
            self.cores,
            self.mount,
            if self.late.is_some() { "late" } else { "at once" }
        )
    }
}

impl Case {
    /// What this seed decides; `mount` is added to the options.
    pub fn new(seed: u64, mount: &str) -> Self {
        let mut rng = Rng::new(seed ^ 0x10ad_10ad);
        let shape = rng.below(SHAPES.len() as u64) as usize;
        let cores = 1 + rng.below(48) as usize;
        let late = (rng.below(2) == 0).then_some(seed);
        let collectors = 1 + rng.below(6);
        let gc = match rng.below(8) {
            0 => format!("gc.collectors={collectors},gc.stream=shared,gc.select=locked"),
            1 => format!("gc.collectors={collectors},gc.select=locked"),
            2 => "gc=f2fs-lfs".to_owned(),
            3 => format!("gc=scalelfs,gc.collectors={collectors},gc.meta=locked"),
            _ => format!("gc=scalelfs,gc.collectors={collectors}"),
        };
        let cache = rng.pick(&["cache=1M", "cache=4M", "cache=64M"]);
        let ahead = rng.pick(&["background_gc=on", "background_gc=off"]);
        let more = if mount.is_empty() { String::new() } else { format!(",{mount}") };
        Case { seed, shape, cores, mount: format!("{gc},{cache},{ahead},commit=1{more}"), late }
    }
}

/// Runs the cases of these seeds on several threads, and tells how many have ended each time one has; once `tell`
/// returns false no case begins any more. Returns their sum, and the faults.
///
/// # Errors
/// The volumes could not be made.
pub fn run_seeds(
    seeds: Range<u64>,
    mount: &str,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Result<(Ended, Vec<Wrong>), super::Failure> {
    let (volumes, mount) = (Arc::new(volumes()?), mount.to_owned());
    let one = move |seed| match run_case(&Case::new(seed, &mount), &volumes) {
        Ok(sum) => Tried { seeds: 1, sum, wrong: Vec::new() },
        Err(wrong) => Tried { seeds: 1, wrong: vec![wrong], ..Tried::default() },
    };
    let Tried { sum, wrong, .. } = each_seed(seeds, u64::MAX, jobs, tell, one)?;
    Ok((sum, wrong))
}

/// The nearly full volumes of all cases.
///
/// # Errors
/// They could not be made.
pub fn volumes() -> Result<Vec<Prepared>, super::Failure> {
    let mut made = Vec::new();
    for Shape { mib, segs_per_sec, writers, full } in SHAPES {
        let device = Arc::new(MemDevice::new(mib << 8));
        mkfs::format(&*device, &MkfsOptions { segs_per_sec, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) })?;
        let dev = Arc::clone(&device) as Arc<dyn Device>;
        let simulated = sim::run(SimConfig::default(), move || -> Result<Contents, String> {
            let fs = Fs::mount(dev, MountOptions::default()).map_err(|e| e.to_string())?;
            let plan = FillPlan { writers, files: 3, full };
            let contents = prepare(&Arc::new(Library(Arc::clone(&fs))), &plan).map_err(|e| e.to_string())?;
            fs.unmount().map_err(|e| e.to_string()).map(|()| contents)
        })?;
        made.push(Prepared { device: device.fork(), contents: simulated.value? });
    }
    Ok(made)
}

/// Runs a case, verifies the contents before and after another mount, and has our checker look.
///
/// # Errors
/// The fault.
///
/// # Panics
/// If the volumes are not those of [`volumes`].
pub fn run_case(case: &Case, volumes: &[Prepared]) -> Result<Ended, Wrong> {
    let wrong = |what: String| Wrong { case: case.clone(), what };
    let base = &volumes[case.shape];
    let (image, contents) = (base.device.fork(), base.contents.clone());
    let in_there = case.clone();
    let config = SimConfig { cores: case.cores, seed: case.seed | 1 << 63, ..SimConfig::default() };
    let report = sim::run(config, move || simulated(&in_there, image, contents)).map_err(|e| wrong(e.to_string()))?;
    let (mut ended, contents, image) = report.value.map_err(wrong)?;
    if !report.unfinished.is_empty() {
        return Err(wrong(format!("threads that have not ended: {:?}", report.unfinished)));
    }
    ended.trace = report.trace;
    let image = Arc::new(image);
    let found = check(Arc::clone(&image) as _, &CheckOptions { threads: 1, force: true, ..CheckOptions::default() })
        .map_err(|e| wrong(format!("the checker: {e}")))?;
    if !found.is_clean() {
        return Err(wrong(format!("the checker finds {:?}", found.issues)));
    }
    let again = Fs::mount(image, MountOptions { read_only: true, ..MountOptions::default() });
    let again = again.map_err(|e| wrong(format!("the second mount: {e}")))?;
    let verified = verify(&Arc::new(Library(again)), &contents);
    ended.figures.verified += verified.map_err(|e| wrong(format!("after another mount: {e}")))?;
    Ok(ended)
}

fn simulated(case: &Case, image: MemDevice, contents: Contents) -> Result<(Ended, Contents, MemDevice), String> {
    let text = |e: steadyfs_core::Error| e.to_string();
    let device = Arc::new(LateDevice::new(image, case.late));
    let options = MountOptions::parse(&case.mount).map_err(text)?;
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).map_err(text)?;
    let target = Arc::new(Library(Arc::clone(&fs)));
    let operations = Until::Operations(OPERATIONS / SHAPES[case.shape].writers);
    let (mut contents, mut figures) = (contents, Figures::default());
    for round in 0..ROUNDS {
        let done;
        (contents, done) = run(&target, contents, case.seed << 1 | round, operations).map_err(|e| e.to_string())?;
        figures.add(&done);
        figures.verified += verify(&target, &contents).map_err(|e| e.to_string())?;
    }
    drop(target);
    let collectors = fs.stats().collectors;
    let (collected, checkpoints) = (fs.gc_totals(), fs.checkpoint_stats().committed);
    fs.unmount().map_err(text)?;
    drop(fs);
    let worked = collectors.each.iter().filter(|each| each.victims > 0).count() as u64;
    let ended = Ended { figures, collected, collectors: collectors.number, worked, checkpoints, trace: 0 };
    Ok((ended, contents, device.settled()))
}
