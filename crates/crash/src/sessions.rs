//! Power cuts of sessions of writers, on whatever [`CutDisk`] is below.
//!
//! A session mounts what the last cut left. Each writer overwrites pages of a file of its own, and makes them durable
//! now and then. Of the states in which a cut may leave the disk some are chosen. Each is judged: it is checked,
//! mounted, compared with what was promised by then, changed, and unmounted. The next session begins in one of them.
//!
//! A crowd ([`SessionHost::Crowd`]) has several writers on some cores, and often a disk that holds requests up.
//!
//! Everything is in virtual time, so a seed repeats it.

use crate::files::{FileWriter, Pages, Work, compare_all, mount};
use crate::hosts::{Directory, Inside};
use crate::migrating::Moving;
use crate::rng::Rng;
use crate::seeds::{LIMIT, SeedsOutcome, each_seed, in_time, without_panic};
use crate::zones::Zones;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::{Error, Fs, MountOptions};
use steadyfs_device::Device;
use steadyfs_rt::sim::SimConfig;
use steadyfs_rt::{JoinHandle, sleep, spawn};

/// Threads of a volume that nobody has any more end when they look next; in virtual time that costs nothing.
pub(crate) const ENOUGH_TO_END: Duration = Duration::from_secs(15);
/// One session in this many begins with what a killed process has left, where the disk outlives the process.
const KILLED: u64 = 3;

/// The kinds of volumes that are cut, by their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutKind {
    /// D2FS, on a device that moves blocks by itself.
    D2fs,
    /// F2FS, on a zoned device.
    Zoned,
    /// The host of an IPLFS volume in chunks.
    IplfsDir,
    /// The host of a D2FS volume, and of the device that collects for it.
    D2fsDir,
}

impl CutKind {
    /// All of them.
    pub const ALL: [CutKind; 4] = [CutKind::IplfsDir, CutKind::D2fs, CutKind::D2fsDir, CutKind::Zoned];

    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            CutKind::D2fs => "d2fs",
            CutKind::Zoned => "zoned",
            CutKind::IplfsDir => "iplfs-dir",
            CutKind::D2fsDir => "d2fs-dir",
        }
    }
}

/// Whom a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionHost {
    /// One writer on two cores, and a device that ends requests at once.
    Alone,
    /// Two to four writers on one to eight cores; two of three devices hold requests up.
    Crowd,
}

impl SessionHost {
    fn writers(self, random: &mut Rng) -> u64 {
        if self == SessionHost::Alone { 1 } else { 2 + random.below(3) }
    }

    fn cores(self, random: &mut Rng) -> usize {
        if self == SessionHost::Alone { 2 } else { 1 + random.below(8) as usize }
    }

    fn is_late(self, random: &mut Rng) -> bool {
        self == SessionHost::Crowd && random.below(3) > 0
    }
}

/// Sessions of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPlan {
    /// Volume and device.
    pub kind: CutKind,
    /// Whom they have.
    pub host: SessionHost,
    /// How many.
    pub sessions: u64,
    /// Cuts of each: at least one.
    pub cuts: u64,
    /// Mount options.
    pub mount: String,
    /// With the fault that builds for tests have in chunk directories.
    pub planted: bool,
}

/// Figures of sessions. One that does not fit the kind is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// States that were judged.
    pub states: u64,
    /// Sessions.
    pub sessions: u64,
    /// Of those, ended by the death of the process alone.
    pub killed: u64,
    /// States with records outstanding at the device.
    pub outstanding: u64,
    /// States with a record that the host had applied, and that the checkpoint lacks.
    pub between: u64,
    /// Blocks that the device moved and the volume followed.
    pub moved: u64,
    /// Records that were applied before the cut.
    pub again: u64,
    /// Zones that sessions reset.
    pub resets: u64,
    /// Zones that sessions and mounts after cuts finished before they were full.
    pub finishes: u64,
    /// The most zones that were partly written at one time.
    pub most_active: u32,
}

impl CutCounts {
    /// Adds those of other sessions.
    pub fn add(&mut self, other: Self) {
        self.states += other.states;
        self.sessions += other.sessions;
        self.killed += other.killed;
        self.outstanding += other.outstanding;
        self.between += other.between;
        self.moved += other.moved;
        self.again += other.again;
        self.resets += other.resets;
        self.finishes += other.finishes;
        self.most_active = self.most_active.max(other.most_active);
    }
}

impl CutPlan {
    /// Three sessions with eight cuts of each.
    pub fn new(kind: CutKind, host: SessionHost) -> Self {
        CutPlan { kind, host, sessions: 3, cuts: 8, mount: String::new(), planted: false }
    }

    /// The sessions of one seed.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn cut(&self, seed: u64) -> Result<CutCounts, String> {
        let explore = || match self.kind {
            CutKind::D2fs => self.explore(seed, Moving::make),
            CutKind::Zoned => self.explore(seed, Zones::make),
            CutKind::IplfsDir => self.explore(seed, |random| Directory::make(Inside::Chunks, random)),
            CutKind::D2fsDir => self.explore(seed, |random| Directory::make(Inside::Migrating, random)),
        };
        without_panic(explore, |panic| panic)
    }

    /// One seed after the other, on several threads, until enough states were judged, or a promise was broken. `tell`
    /// hears how many there were so far; once it returns false no seed begins any more.
    ///
    /// # Errors
    /// The options make no sense, or a thread panicked.
    pub fn cut_many(
        self,
        seeds: Range<u64>,
        states: u64,
        jobs: usize,
        tell: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> Result<SeedsOutcome, String> {
        MountOptions::parse(&self.mount).map_err(|e| e.to_string())?;
        each_seed(seeds, states, jobs, tell, move |seed| SeedsOutcome::of(seed, self.cut(seed)))
    }

    fn explore<D: CutDisk>(
        &self,
        seed: u64,
        make: impl FnOnce(&mut Rng) -> Result<D, String>,
    ) -> Result<CutCounts, String> {
        let mut random = Rng::new(seed);
        let disk = make(&mut random).map_err(|e| format!("making the volume: {e}"))?;
        let promised = vec![Pages::new(); self.host.writers(&mut random) as usize];
        let (mut left, mut sum) = (CutState { disk, promised }, CutCounts::default());
        for session in 0..self.sessions {
            let next = self.session(left, &mut random, &mut sum);
            left = next.map_err(|what| format!("session {session}: {what}"))?;
        }
        Ok(sum)
    }

    /// A session, and the judgement of its cuts; what the next one begins with.
    fn session<D: CutDisk>(
        &self,
        left: CutState<D>,
        random: &mut Rng,
        sum: &mut CutCounts,
    ) -> Result<CutState<D>, String> {
        let seed = random.next();
        let config = SimConfig { cores: self.host.cores(random), seed, ..SimConfig::default() };
        let late = self.host.is_late(random).then_some(seed);
        let CutState { disk, promised } = left;
        disk.begin(late, &promised, self.planted);
        let disk = Arc::new(disk);
        let (below, plan) = (Arc::clone(&disk), self.clone());
        let mut lived = in_time(config, LIMIT, move || live(&below, &promised, seed, &plan))?;
        sum.add(disk.end()?);
        sum.add(CutCounts { sessions: 1, moved: lived.moved, ..CutCounts::default() });
        let (cuts, chosen) = disk.choose(&lived, self.cuts, random);
        let mut next = None;
        for number in 0..cuts {
            let Cut { left: CutState { disk: judged, promised }, again, when } =
                disk.cut(&mut lived, number, number == chosen, random);
            next = again.map(|disk| CutState { disk, promised: promised.clone() }).or(next);
            sum.add(judged.judge(promised, random.next()).map_err(|what| format!("{when}: {what}"))?);
            sum.states += 1;
        }
        if let Some(disk) = disk.outlives_the_process()
            && random.below(KILLED) == 0
        {
            sum.killed += 1;
            return Ok(CutState { disk, promised: lived.promised_by(u64::MAX) });
        }
        next.ok_or_else(|| "a session has no cut".to_owned())
    }
}

/// A disk, and what was promised of each file on it.
pub(crate) struct CutState<D> {
    pub(crate) disk: D,
    pub(crate) promised: Vec<Pages>,
}

/// A state in which a cut leaves a disk.
pub(crate) struct Cut<D> {
    pub(crate) left: CutState<D>,
    /// The same once more, if the next session begins with it.
    pub(crate) again: Option<D>,
    /// For messages.
    pub(crate) when: String,
}

/// The log of one writer.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The promised contents, and from which tick on.
    promises: Vec<(u64, Pages)>,
    /// A tick, and the number of the last record of the device that had been applied by then.
    pub(crate) applied: Vec<(u64, u64)>,
}

/// A session that has ended.
pub(crate) struct Lived<D> {
    /// The tick at which it began.
    pub(crate) began: u64,
    /// By writer.
    ledgers: Vec<Ledger>,
    /// What cuts would have left meanwhile, if a watcher looked.
    pub(crate) seen: Vec<CutState<D>>,
    /// Blocks that the device moved.
    moved: u64,
}

impl<D> Lived<D> {
    /// The contents promised of all files by a tick.
    pub(crate) fn promised_by(&self, at: u64) -> Vec<Pages> {
        let last = |ledger: &Ledger| ledger.promises.iter().rev().find(|(tick, _)| *tick <= at).cloned();
        self.ledgers.iter().map(|ledger| last(ledger).map_or_else(Pages::new, |(_, pages)| pages)).collect()
    }

    /// The last record of the device that was applied by a tick.
    pub(crate) fn applied_by(&self, at: u64) -> u64 {
        let applied = self.ledgers.iter().flat_map(|ledger| &ledger.applied);
        applied.filter(|(tick, _)| *tick <= at).map(|(_, number)| *number).max().unwrap_or(0)
    }
}

/// A disk below sessions: what a kind of device has of its own.
pub(crate) trait CutDisk: Sized + Send + Sync + 'static {
    /// The work of its writers.
    fn work(&self) -> Work;

    /// Before a session: holds requests up by numbers of this seed, or none. The writers know what was promised.
    fn begin(&self, late: Option<u64>, promised: &[Pages], planted: bool);

    /// After a session.
    ///
    /// # Errors
    /// The volume broke a rule of the device.
    fn end(&self) -> Result<CutCounts, String> {
        Ok(CutCounts::default())
    }

    /// The device to mount.
    fn open(&self) -> Result<Arc<dyn Device>, String>;

    /// The options of a session.
    fn options(mount: &str) -> Result<MountOptions, Error> {
        let mut options = MountOptions::parse(&format!("cache=1M,{mount}"))?;
        (options.background_gc, options.commit_seconds) = (false, Some(0));
        Ok(options)
    }

    /// The present, where cuts at moments of the past can be made.
    fn tick(&self) -> u64;

    /// Looks at the disk beside the writers until the session is over, where that cannot be done afterwards.
    fn watch(
        self: &Arc<Self>,
        _seed: u64,
        _cuts: u64,
        _over: Arc<AtomicBool>,
    ) -> Option<JoinHandle<Vec<CutState<Self>>>> {
        None
    }

    /// A page is about to change: nothing is known of it after the last promise.
    fn forget(&self, _writer: usize, page: u64, ledger: &mut Ledger) {
        if let Some((_, last)) = ledger.promises.last_mut() {
            last.remove(&page);
        }
    }

    /// A page has changed.
    fn wrote(&self, _fs: &Fs, _ledger: &mut Ledger) {}

    /// All that a writer knows is durable.
    fn promise(&self, _writer: usize, known: &Pages, ledger: &mut Ledger) {
        ledger.promises.push((self.tick(), known.clone()));
    }

    /// The disk once the process alone was killed, if it is in another one.
    fn outlives_the_process(&self) -> Option<Self> {
        None
    }

    /// How many cuts are judged, and with which of them the next session begins.
    fn choose(&self, _lived: &Lived<Self>, cuts: u64, _random: &mut Rng) -> (u64, u64) {
        (cuts, cuts.saturating_sub(1))
    }

    /// A state in which a cut leaves it, and the same `again`.
    fn cut(&self, lived: &mut Lived<Self>, number: u64, again: bool, random: &mut Rng) -> Cut<Self>;

    /// Judges a state, of which nobody has used anything.
    ///
    /// # Errors
    /// The broken promise.
    fn judge(self, files: Vec<Pages>, seed: u64) -> Result<CutCounts, String>;
}

/// Mounts, works, and leaves the volume as if somebody had pulled the plug.
fn live<D: CutDisk>(disk: &Arc<D>, before: &[Pages], seed: u64, plan: &CutPlan) -> Result<Lived<D>, String> {
    let began = disk.tick();
    let device = disk.open()?;
    let fs = mount::<D>(&device, &plan.mount)?;
    compare_all(&fs, before)?;
    let over = Arc::new(AtomicBool::new(false));
    let watcher = disk.watch(seed, plan.cuts, Arc::clone(&over));
    let tasks: Vec<_> = (before.iter().cloned().enumerate())
        .map(|(number, known)| {
            let (fs, disk, device) = (Arc::clone(&fs), Arc::clone(disk), Arc::clone(&device));
            let ledger = Ledger { promises: vec![(began, known.clone())], applied: Vec::new() };
            let writer = FileWriter { fs, disk, device, number, known, ledger };
            let random = Rng::new(seed.wrapping_add(number as u64));
            spawn("writer", move || writer.work(random).map_err(|e| e.to_string()))
        })
        .collect();
    let ends = tasks.into_iter().map(|task| task.join().map_err(|panic| panic.to_string())?);
    let ledgers = ends.collect::<Result<Vec<Ledger>, String>>()?;
    over.store(true, SeqCst);
    let seen = watcher.map_or(Ok(Vec::new()), |watcher| watcher.join().map_err(|panic| panic.to_string()))?;
    let moved = fs.migration_stats().map_or(0, |stats| stats.moved);
    drop(fs);
    sleep(ENOUGH_TO_END);
    drop(device);
    Ok(Lived { began, ledgers, seen, moved })
}
