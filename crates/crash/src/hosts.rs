//! Power cuts of the host below devices in directories of files: a chunk directory with an IPLFS volume, and the device
//! of a D2FS volume.
//!
//! A session mounts what the last one left, and writers overwrite pages of files and make them durable now and then,
//! while writes and syncs of the host take their time. Some of its moments are chosen, each with a part of what the
//! host had not made durable: pages, holes, lengths and names of its files ([`HostModel`]). Each such state is opened,
//! checked, mounted, compared with what was promised by then, and unmounted: then the device may hold no more than the
//! volume needs. The next session begins in one of these states; or the process alone was killed, and the cut comes
//! later.
//!
//! Everything is in virtual time, so a seed repeats it.

use crate::rng::Rng;
use crate::seeds::{Judged, LIMIT, SeedsOutcome, in_time, try_seeds, without_panic};
use crate::sessions::{
    CUTS, ENOUGH_TO_END, PAGE, PAGES, Pages, SESSIONS, SessionHost, come_and_go, compare_all, file, goes_on, inspect,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_core::mkfs::{self, Infinite, Migrating, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, MountOptions};
use steadyfs_device::{ChunkDevice, CoupledDevice, Device, HostModel, Migrations};
use steadyfs_rt::sim::SimConfig;
use steadyfs_rt::{sleep, spawn};

/// Blocks of log space of an IPLFS volume.
const CAPACITY: u64 = 1 << 14;
/// How far its logs run between two checkpoints.
const LEAP: u64 = 512;
/// Segments that the device of a D2FS volume can hold.
const SEGMENTS: u64 = 16;
/// One session in this many begins with what a killed process has left.
const KILLED: u64 = 3;

/// What lies in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// An IPLFS volume in chunks.
    Chunks,
    /// A D2FS volume, and the device that collects for it.
    Coupled,
}

/// The states that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStates {
    /// States that were judged.
    pub states: u64,
    /// Sessions.
    pub sessions: u64,
    /// Of those, begun after the process alone was killed.
    pub killed: u64,
    /// Of the states, those in which a device had records outstanding.
    pub outstanding: u64,
    /// Blocks that a device moved and its volume followed.
    pub moved: u64,
}

impl Judged for HostStates {
    fn add(&mut self, other: Self) {
        self.states += other.states;
        self.sessions += other.sessions;
        self.killed += other.killed;
        self.outstanding += other.outstanding;
        self.moved += other.moved;
    }

    fn states(&self) -> u64 {
        self.states
    }
}

/// One seed after the other, on several threads, until enough states were judged, or a promise was broken. `tell` hears
/// how many there were so far; once it returns false no seed begins any more.
///
/// # Errors
/// The options make no sense, or a thread panicked.
pub fn cut_many_hosts(
    kind: HostKind,
    host: SessionHost,
    seeds: Range<u64>,
    states: u64,
    mount: &str,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Result<SeedsOutcome<HostStates>, String> {
    MountOptions::parse(mount).map_err(|e| e.to_string())?;
    let mount = mount.to_owned();
    try_seeds(seeds, states, jobs, tell, move |seed| cut_host(kind, host, seed, SESSIONS, CUTS, &mount, false))
}

/// Sessions of one seed, with `cuts` cuts of each, mounted with these options. `planted`: with the fault that builds
/// for tests have in chunk directories.
///
/// # Errors
/// The first promise that was broken.
pub fn cut_host(
    kind: HostKind,
    host: SessionHost,
    seed: u64,
    sessions: u64,
    cuts: u64,
    mount: &str,
    planted: bool,
) -> Result<HostStates, String> {
    without_panic(|| explore(kind, host, seed, sessions, cuts, &Ways { mount: mount.to_owned(), planted }))
}

/// How sessions mount.
#[derive(Clone)]
struct Ways {
    mount: String,
    planted: bool,
}

/// A device in a directory.
struct Opened {
    device: Arc<dyn Device>,
    coupled: Option<Arc<CoupledDevice>>,
}

impl HostKind {
    fn make(self, random: &mut Rng) -> Result<HostModel, String> {
        let host = HostModel::new();
        let options = MkfsOptions::new([0x5f; 16], 1_700_000_000);
        let told = |e: steadyfs_device::OpenError| e.to_string();
        let failed = |e: Error| e.to_string();
        match self {
            HostKind::Chunks => {
                let chosen = Infinite { leap: LEAP, ..Infinite::new(CAPACITY) };
                let chunk = [64, 256, 1024][random.below(3) as usize];
                ChunkDevice::create_on(&host, chosen.device_blocks(), chunk).map_err(told)?;
                let device = ChunkDevice::open_on(&host).map_err(told)?;
                mkfs::format(&device, &MkfsOptions { infinite: Some(chosen), ..options }).map_err(failed)?;
            }
            HostKind::Coupled => {
                let ratio = [1.1, 1.4, 2.0][random.below(3) as usize];
                let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(SEGMENTS * 512) };
                let options = MkfsOptions { migrating: Some(chosen), ..options };
                CoupledDevice::create_on(&host, &chosen.geometry(&options).map_err(failed)?).map_err(told)?;
                let device = CoupledDevice::open_on(&host).map_err(told)?;
                mkfs::format(&device, &options).map_err(failed)?;
            }
        }
        Ok(host)
    }

    fn open(self, host: &HostModel) -> Result<Opened, String> {
        let told = |e: steadyfs_device::OpenError| format!("it does not open: {e}");
        Ok(match self {
            HostKind::Chunks => Opened { device: Arc::new(ChunkDevice::open_on(host).map_err(told)?), coupled: None },
            HostKind::Coupled => {
                let device = Arc::new(CoupledDevice::open_on(host).map_err(told)?);
                Opened { device: Arc::clone(&device) as Arc<dyn Device>, coupled: Some(device) }
            }
        })
    }
}

fn mount(device: &Arc<dyn Device>, options: &str) -> Result<Arc<Fs>, String> {
    let mut options = MountOptions::parse(&format!("cache=1M,{options}")).map_err(|e| e.to_string())?;
    (options.background_gc, options.commit_seconds) = (false, Some(0));
    Fs::mount(Arc::clone(device), options).map_err(|e| format!("it does not mount: {e}"))
}

fn explore(
    kind: HostKind,
    writers: SessionHost,
    seed: u64,
    sessions: u64,
    cuts: u64,
    ways: &Ways,
) -> Result<HostStates, String> {
    let mut random = Rng::new(seed);
    let mut host = kind.make(&mut random).map_err(|e| format!("making the volume: {e}"))?;
    let mut promised = vec![Pages::new(); writers.writers(&mut random) as usize];
    let mut sum = HostStates::default();
    for session in 0..sessions {
        let within = |what: String| format!("session {session}: {what}");
        let (below, before, ways, session_seed) = (host.clone(), promised.clone(), ways.clone(), random.next());
        let config = SimConfig { cores: writers.cores(&mut random), seed: session_seed, ..SimConfig::default() };
        host.take_time(writers.is_late(&mut random).then_some(session_seed));
        host.plant(ways.planted);
        let began = host.tick();
        let lived = in_time(config, LIMIT, move || live(kind, &below, &before, session_seed, &ways));
        let (lived, moved) = lived.map_err(within)?;
        sum.moved += moved;
        host.take_time(None);
        host.plant(false);
        sum.sessions += 1;
        let last = host.tick();
        let mut next = None;
        for number in 0..cuts {
            let (at, luck) = (began + random.below(last - began + 1), random.next());
            let pages = by(&lived, at);
            let at_cut = |what| within(format!("cut at {at} of {began} to {last}, luck {luck}: {what}"));
            if number + 1 == cuts {
                next = Some((host.after_cut(at, luck), pages.clone()));
            }
            sum.add(judge(kind, host.after_cut(at, luck), pages, random.next()).map_err(at_cut)?);
        }
        if random.below(KILLED) == 0 {
            promised = by(&lived, last);
            sum.killed += 1;
        } else if let Some(left) = next {
            (host, promised) = left;
        }
    }
    Ok(sum)
}

/// The contents promised of a file, and from which tick on.
type Promises = Vec<(u64, Pages)>;

/// What a session promised, and how many blocks it followed.
type Lived = (Vec<Promises>, u64);

/// The contents promised of all files by a tick.
fn by(lived: &[Promises], at: u64) -> Vec<Pages> {
    let last = |file: &Promises| file.iter().rev().find(|(tick, _)| *tick <= at).map(|(_, pages)| pages.clone());
    lived.iter().map(|file| last(file).unwrap_or_default()).collect()
}

/// Mounts, works, and leaves the volume as if somebody had pulled the plug.
fn live(kind: HostKind, host: &HostModel, before: &[Pages], seed: u64, ways: &Ways) -> Result<Lived, String> {
    let began = host.tick();
    let Opened { device, .. } = kind.open(host)?;
    let fs = mount(&device, &ways.mount)?;
    compare_all(&fs, before)?;
    let tasks: Vec<_> = (before.iter().cloned().enumerate())
        .map(|(writer, known)| {
            let (fs, host) = (Arc::clone(&fs), host.clone());
            let promises = vec![(began, known.clone())];
            let device = Arc::clone(&device);
            let writer = FileWriter { fs, device, host, writer, known, promises };
            let random = Rng::new(seed.wrapping_add(writer.writer as u64));
            spawn("writer", move || writer.work(random).map_err(|e| e.to_string()))
        })
        .collect();
    let ends: Vec<Result<Promises, String>> =
        tasks.into_iter().map(|task| task.join().map_err(|panic| panic.to_string())?).collect();
    let moved = fs.migration_stats().map_or(0, |stats| stats.moved);
    drop(fs);
    sleep(ENOUGH_TO_END);
    drop(device);
    ends.into_iter().collect::<Result<_, _>>().map(|promises| (promises, moved))
}

/// A writer of a file.
struct FileWriter {
    fs: Arc<Fs>,
    device: Arc<dyn Device>,
    host: HostModel,
    writer: usize,
    known: Pages,
    promises: Promises,
}

impl FileWriter {
    fn work(mut self, mut random: Rng) -> Result<Promises, Error> {
        let data = file(&self.fs, self.writer)?;
        // One that collects has nothing to collect before zones are full.
        let most = if self.device.migrations().is_some() { 200 } else { 40 };
        for round in 0..6 + random.below(8) {
            for _ in 0..5 + random.below(most) {
                let (page, byte) = (random.below(PAGES), 1 + random.below(255) as u8);
                // Of a page that changes after the promise nothing is known.
                if let Some((_, last)) = self.promises.last_mut() {
                    last.remove(&page);
                }
                self.fs.write(&data, page * PAGE, &[byte; PAGE as usize])?;
                self.known.insert(page, byte);
            }
            if random.below(3) == 0 {
                come_and_go(&self.fs, &format!("extra{}-{}", self.writer, (random.below(7) + round) % 7), 40)?;
            }
            if random.below(3) == 0 {
                self.device.migrations().into_iter().for_each(Migrations::press);
            }
            match random.below(3) {
                0 => self.fs.sync()?,
                _ => self.fs.fsync(&data, random.below(2) == 0)?,
            }
            self.promises.push((self.host.tick(), self.known.clone()));
        }
        Ok(self.promises)
    }
}

/// Judges a state.
fn judge(kind: HostKind, host: HostModel, files: Vec<Pages>, seed: u64) -> Result<HostStates, String> {
    let config = SimConfig { cores: 2, seed, ..SimConfig::default() };
    in_time(config, LIMIT, move || {
        let Opened { device, coupled } = kind.open(&host)?;
        let outstanding = coupled.as_ref().map_or(0, |coupled| u64::from(coupled.outstanding() > 0));
        inspect(&device, "after the cut")?;
        let fs = mount(&device, "")?;
        goes_on(&fs, &files)?;
        fs.unmount().map_err(|e| format!("it does not unmount: {e}"))?;
        drop(fs);
        sleep(ENOUGH_TO_END);
        inspect(&device, "after the unmount")?;
        let image = Image::open(Arc::clone(&device)).map_err(|e| e.to_string())?;
        match coupled {
            Some(coupled) => holds_what_is_needed(&coupled, &image)?,
            None => {
                let leaked = image.leaked_runs().map_err(|e| e.to_string())?;
                if let Some(run) = leaked.first() {
                    let blocks = run.end - run.start;
                    return Err(format!("the device holds {blocks} blocks from {} on that nobody knows of", run.start));
                }
            }
        }
        Ok(HostStates { states: 1, outstanding, ..HostStates::default() })
    })
}

fn holds_what_is_needed(device: &CoupledDevice, image: &Image) -> Result<(), String> {
    if device.outstanding() > 0 {
        return Err(format!("{} records are outstanding after an unmount", device.outstanding()));
    }
    let (held, mut needed) = (device.held(), BTreeSet::new());
    image.blocks_in_use(&mut |lba| _ = needed.insert(lba.get())).map_err(|e| e.to_string())?;
    if !held.iter().eq(&needed) {
        return Err(format!("the device holds {} blocks and the volume needs {}", held.len(), needed.len()));
    }
    Ok(())
}
