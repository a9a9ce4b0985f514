//! Power cuts under a device that moves blocks by itself (D2FS): sessions of a small host of files, states in which a
//! cut may leave the device and its records, and a judgement of each.
//!
//! A session mounts what the last cut left, overwrites pages of a file and makes them durable now and then. Of its log
//! some moments are chosen, each with a part of what was not durable. Each such state is checked, mounted, compared
//! with what was promised by then, and unmounted: then nothing may be outstanding, and the device holds no more than
//! the volume needs. One of the states is where the next session begins.
//!
//! A crowd ([`SessionHost::Crowd`]) has several writers, each with a file, on some cores, and often a device that holds
//! requests up.
//!
//! Everything is in virtual time, so a seed repeats it.

use crate::rng::Rng;
use crate::seeds::{Judged, LIMIT, SeedsOutcome, in_time, try_seeds, without_panic};
use crate::sessions::{
    CUTS, ENOUGH_TO_END, HeldUp, PAGE, PAGES, Pages, SESSIONS, SessionHost, come_and_go, compare_all, file, goes_on,
    inspect,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, MountOptions};
use steadyfs_device::{Adversary, AdversaryDevice, CrashImage, Device, MemDevice};
use steadyfs_rt::sim::SimConfig;
use steadyfs_rt::{sleep, spawn};

/// Segments that the device can hold.
const SEGMENTS: u64 = 16;

/// The contents promised of a file, and from which tick on.
type Promises = Vec<(u64, Pages)>;

/// The states that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovingStates {
    /// States that were judged.
    pub states: u64,
    /// Of those, with records outstanding at the device.
    pub outstanding: u64,
    /// Of those, with a record that the host had applied, and that the checkpoint lacks.
    pub between: u64,
    /// Blocks that the device moved and the host followed.
    pub moved: u64,
    /// Records that were applied before the cut.
    pub again: u64,
}

impl Judged for MovingStates {
    fn states(&self) -> u64 {
        self.states
    }

    fn add(&mut self, other: Self) {
        self.states += other.states;
        self.outstanding += other.outstanding;
        self.between += other.between;
        self.moved += other.moved;
        self.again += other.again;
    }
}

/// One seed after the other, on several threads, until enough states were judged, or a promise was broken. `tell`
/// hears how many there were so far; once it returns false no seed begins any more.
///
/// # Errors
/// The options make no sense, or a thread panicked.
pub fn cut_many_while_moving(
    host: SessionHost,
    seeds: Range<u64>,
    states: u64,
    mount: &str,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Result<SeedsOutcome<MovingStates>, String> {
    MountOptions::parse(mount).map_err(|e| e.to_string())?;
    let mount = mount.to_owned();
    try_seeds(seeds, states, jobs, tell, move |seed| cut_while_moving(host, seed, SESSIONS, CUTS, &mount))
}

/// A device, and what it held before it was one.
struct Disk {
    base: MemDevice,
    below: Arc<MemDevice>,
    device: Arc<Moving>,
    contents: Arc<HeldUp<MemDevice>>,
}

type Moving = AdversaryDevice<Arc<HeldUp<MemDevice>>>;

impl Disk {
    fn new(random: &mut Rng) -> Result<Self, Error> {
        let ratio = [1.1, 1.4, 2.0][random.below(3) as usize];
        let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(SEGMENTS * 512) };
        let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
        let geometry = chosen.geometry(&options)?;
        let below = Arc::new(MemDevice::new(geometry.gc.end));
        let base = below.fork();
        let contents = Arc::new(HeldUp::new(&below));
        let device = Arc::new(AdversaryDevice::new(Arc::clone(&contents), geometry, rules(random)));
        mkfs::format(&*device, &options)?;
        Ok(Disk { base, below, device, contents })
    }

    fn mount(device: &Arc<Moving>, options: &str) -> Result<Arc<Fs>, Error> {
        let mut options = MountOptions::parse(&format!("cache=1M,{options}"))?;
        (options.background_gc, options.commit_seconds) = (false, Some(0));
        Fs::mount(Arc::clone(device) as Arc<dyn Device>, options)
    }

    /// The device after a cut at some moment from `first` on, and that moment.
    fn cut(&self, first: u64, random: &mut Rng) -> (Disk, u64) {
        let recorder = self.device.recorder();
        let at = first + random.below(recorder.tick() - first + 1);
        let log = recorder.log();
        let mut image = CrashImage::new(&self.base, &log).at(at);
        for index in image.volatile() {
            image = if random.below(2) == 0 { image } else { image.keep(index) };
        }
        (self.after(at, image.build(), random), at)
    }

    /// Once more what nobody has used yet.
    fn same(&self, random: &mut Rng) -> Disk {
        self.after(0, self.base.fork(), random)
    }

    fn after(&self, at: u64, left: MemDevice, random: &mut Rng) -> Disk {
        let below = Arc::new(left);
        let contents = Arc::new(HeldUp::new(&below));
        let device = Arc::new(self.device.after_cut(at, Arc::clone(&contents), rules(random)));
        Disk { base: below.fork(), below, device, contents }
    }
}

fn rules(random: &mut Rng) -> Adversary {
    Adversary {
        moves: 300 + random.below(650),
        late: 1 + random.below(12),
        records: 1 + random.below(16) as usize,
        ..Adversary::new(random.next())
    }
}

/// Sessions of one seed, with `cuts` cuts of each, mounted with these options.
///
/// # Errors
/// The first promise that was broken.
pub fn cut_while_moving(
    host: SessionHost,
    seed: u64,
    sessions: u64,
    cuts: u64,
    mount: &str,
) -> Result<MovingStates, String> {
    without_panic(|| explore(host, seed, sessions, cuts, mount))
}

fn explore(host: SessionHost, seed: u64, sessions: u64, cuts: u64, mount: &str) -> Result<MovingStates, String> {
    let mut random = Rng::new(seed);
    let mut disk = Disk::new(&mut random).map_err(|e| format!("making the volume: {e}"))?;
    let (mut promised, mut sum) = (vec![Pages::new(); host.writers(&mut random) as usize], MovingStates::default());
    for session in 0..sessions {
        let within = |what: String| format!("session {session}: {what}");
        let (device, before, options) = (Arc::clone(&disk.device), promised.clone(), mount.to_owned());
        let session_seed = random.next();
        let config = SimConfig { cores: host.cores(&mut random), seed: session_seed, ..SimConfig::default() };
        disk.contents.hold_up(host.is_late(&mut random).then(|| Rng::new(session_seed)));
        let ran = in_time(config, LIMIT, move || live(&device, &before, session_seed, &options));
        let Lived { began, promises, applied, moved } = ran.map_err(within)?;
        sum.moved += moved;
        for number in 0..cuts {
            let (left, at) = disk.cut(began, &mut random);
            let last =
                |file: &Promises| file.iter().rev().find(|(tick, _)| *tick <= at).map(|(_, pages)| pages.clone());
            let pages: Vec<Pages> = promises.iter().map(|file| last(file).unwrap_or_default()).collect();
            let next = (number + 1 == cuts).then(|| (left.same(&mut random), pages.clone()));
            let before = applied.iter().filter(|(tick, _)| *tick <= at).map(|(_, number)| *number).max().unwrap_or(0);
            let at_cut = |what| within(format!("cut at {at}: {what}"));
            let contained = served(&left).map_err(at_cut)?;
            let found = judge(left, pages, random.next()).map_err(at_cut)?;
            sum.add(found);
            sum.between += u64::from(before > contained);
            if let Some((left, pages)) = next {
                (disk, promised) = (left, pages);
            }
        }
    }
    Ok(sum)
}

/// A session.
struct Lived {
    began: u64,
    /// By file.
    promises: Vec<Promises>,
    /// A tick, and the number of the last record that had been applied by then.
    applied: Vec<(u64, u64)>,
    /// Blocks that were moved.
    moved: u64,
}

/// Number of the last record that the checkpoint contains.
fn served(left: &Disk) -> Result<u64, String> {
    let device = Arc::clone(&left.device) as Arc<dyn Device>;
    let image = Image::open(device).map_err(|e| e.to_string())?;
    image.checkpoint().served().ok_or_else(|| "the checkpoint does not say which records it contains".to_owned())
}

/// Mounts, works, and leaves the volume as if somebody had pulled the plug.
fn live(device: &Arc<Moving>, before: &[Pages], seed: u64, options: &str) -> Result<Lived, String> {
    let began = device.recorder().tick();
    let fs = Disk::mount(device, options).map_err(|e| format!("it does not mount: {e}"))?;
    compare_all(&fs, before)?;
    let writers: Vec<_> = (before.iter().cloned().enumerate())
        .map(|(writer, known)| FileWriter {
            fs: Arc::clone(&fs),
            device: Arc::clone(device),
            writer,
            promises: vec![(began, known.clone())],
            known,
            applied: Vec::new(),
        })
        .collect();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|writer| {
            let random = Rng::new(seed.wrapping_add(writer.writer as u64));
            spawn("writer", move || writer.work(random))
        })
        .collect();
    let (mut promises, mut applied) = (Vec::new(), Vec::new());
    for task in tasks {
        let writer = task.join().map_err(|panic| panic.to_string())??;
        promises.push(writer.promises);
        applied.extend(writer.applied);
    }
    let moved = fs.migration_stats().map_or(0, |stats| stats.moved);
    drop(fs);
    sleep(ENOUGH_TO_END);
    Ok(Lived { began, promises, applied, moved })
}

/// A writer of a file.
struct FileWriter {
    fs: Arc<Fs>,
    device: Arc<Moving>,
    writer: usize,
    known: Pages,
    promises: Promises,
    applied: Vec<(u64, u64)>,
}

impl FileWriter {
    fn work(mut self, mut random: Rng) -> Result<Self, String> {
        let told = |e: Error| e.to_string();
        let data = file(&self.fs, self.writer).map_err(told)?;
        for round in 0..6 + random.below(8) {
            for _ in 0..10 + random.below(50) {
                let (page, byte) = (random.below(PAGES), 1 + random.below(255) as u8);
                // Of a page that changes after the promise nothing is known.
                if let Some((_, last)) = self.promises.last_mut() {
                    last.remove(&page);
                }
                self.fs.write(&data, page * PAGE, &[byte; PAGE as usize]).map_err(told)?;
                self.known.insert(page, byte);
                let tick = self.device.recorder().tick();
                self.applied.extend(self.fs.migration_stats().map(|stats| (tick, stats.applied)));
            }
            if random.below(4) == 0 {
                let name = format!("extra{}-{}", self.writer, (random.below(7) + round) % 7);
                come_and_go(&self.fs, &name, 5).map_err(told)?;
            }
            match random.below(3) {
                0 => self.fs.sync().map_err(told)?,
                _ => self.fs.fsync(&data, random.below(2) == 0).map_err(told)?,
            }
            self.promises.push((self.device.recorder().tick(), self.known.clone()));
        }
        Ok(self)
    }
}

/// Judges a state.
fn judge(left: Disk, files: Vec<Pages>, seed: u64) -> Result<MovingStates, String> {
    let outstanding = u64::from(left.device.outstanding() > 0);
    inspect(&(Arc::clone(&left.device) as Arc<dyn Device>), "after the cut")?;
    let device = Arc::clone(&left.device);
    let mounted = in_time(SimConfig { cores: 2, seed, ..SimConfig::default() }, LIMIT, move || {
        let fs = Disk::mount(&device, "").map_err(|e| format!("it does not mount: {e}"))?;
        goes_on(&fs, &files)?;
        let again = fs.migration_stats().map_or(0, |stats| stats.again);
        fs.unmount().map_err(|e| format!("it does not unmount: {e}"))?;
        Ok::<u64, String>(again)
    });
    let again = mounted.map_err(|e| format!("while it is mounted, {e}"))?;
    if left.device.outstanding() > 0 {
        return Err(format!("{} records are outstanding after an unmount", left.device.outstanding()));
    }
    let below = Arc::new(left.below.fork()) as Arc<dyn Device>;
    inspect(&below, "after the unmount")?;
    let image = Image::open(below).map_err(|e| e.to_string())?;
    let (held, mut needed) = (left.device.held(), BTreeSet::new());
    image.blocks_in_use(&mut |lba| _ = needed.insert(lba.get())).map_err(|e| e.to_string())?;
    if !held.iter().eq(&needed) {
        return Err(format!("the device holds {} blocks and the volume needs {}", held.len(), needed.len()));
    }
    Ok(MovingStates { states: 1, outstanding, again, ..MovingStates::default() })
}
