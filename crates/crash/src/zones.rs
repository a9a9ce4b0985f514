//! Power cuts under a zoned device: sessions of writers, states in which a cut may leave the device, and a judgement of
//! each.
//!
//! A session mounts what a cut left, and writers overwrite pages of files and make them durable now and then. Meanwhile
//! somebody looks what a cut at that moment would leave, beside what had been promised by then. Some of these states
//! are checked, mounted, compared and unmounted, and the next session begins from one of them. The device notes each
//! request that breaks a rule of zones: there may be none.
//!
//! Everything is in virtual time, so a seed repeats it.

use crate::rng::Rng;
use crate::seeds::{Judged, LIMIT, SeedsOutcome, in_time, try_seeds, without_panic};
use crate::sessions::{
    CUTS, ENOUGH_TO_END, HeldUp, PAGE, PAGES, Pages, SESSIONS, SessionHost, come_and_go, compare_all, file, goes_on,
    inspect,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Error, Fs, MountOptions};
use steadyfs_device::{Device, ZoneGeometry, ZonedDevice};
use steadyfs_rt::sim::SimConfig;
use steadyfs_rt::{LockClass, Mutex, sleep, spawn};

/// Zones, of which the first are conventional. So few that they are reset and written again in each session.
const ZONES: u64 = 34;
const CONVENTIONAL: u64 = 10;
/// How long it takes at most until somebody looks again.
const LOOK_NS: u64 = 4_000_000;

/// Held while the device says what a cut would leave.
static PROMISES: LockClass = LockClass::new("crash.zones_promises", u16::MAX - 40);

/// The states that were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonedStates {
    /// States that were judged.
    pub states: u64,
    /// Zones that sessions reset.
    pub resets: u64,
    /// Zones that sessions and mounts after cuts finished before they were full.
    pub finishes: u64,
    /// The most zones that were partly written at one time.
    pub most_active: u32,
}

impl Judged for ZonedStates {
    fn add(&mut self, other: Self) {
        self.states += other.states;
        self.resets += other.resets;
        self.finishes += other.finishes;
        self.most_active = self.most_active.max(other.most_active);
    }

    fn states(&self) -> u64 {
        self.states
    }
}

/// One seed after the other, on several threads, until enough states were judged, or a promise was broken. `tell`
/// hears how many there were so far; once it returns false no seed begins any more.
///
/// # Errors
/// The options make no sense, or a thread panicked.
pub fn cut_many_zones(
    host: SessionHost,
    seeds: Range<u64>,
    states: u64,
    mount: &str,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
) -> Result<SeedsOutcome<ZonedStates>, String> {
    MountOptions::parse(mount).map_err(|e| e.to_string())?;
    let mount = mount.to_owned();
    try_seeds(seeds, states, jobs, tell, move |seed| cut_zones(host, seed, SESSIONS, CUTS, &mount))
}

/// Sessions of one seed, with `cuts` cuts of each, mounted with these options.
///
/// # Errors
/// The first promise that was broken.
pub fn cut_zones(host: SessionHost, seed: u64, sessions: u64, cuts: u64, mount: &str) -> Result<ZonedStates, String> {
    without_panic(|| explore(host, seed, sessions, cuts, mount))
}

/// What a cut would leave, and what had been promised by then of each file.
struct Left {
    device: ZonedDevice,
    promised: Vec<Pages>,
}

fn made(random: &mut Rng) -> Result<ZonedDevice, Error> {
    let size = 512;
    let max_active = [0, 6, 7, 10][random.below(4) as usize];
    let max_open = if max_active == 0 { 0 } else { 1 + random.below(u64::from(max_active)) as u32 };
    let geometry =
        ZoneGeometry { size, capacity: size, zones: ZONES, conventional: CONVENTIONAL, max_open, max_active };
    let device = ZonedDevice::new(geometry);
    mkfs::format(&device, &MkfsOptions { zoned: true, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) })?;
    Ok(device)
}

fn explore(host: SessionHost, seed: u64, sessions: u64, cuts: u64, mount: &str) -> Result<ZonedStates, String> {
    let mut random = Rng::new(seed);
    let device = made(&mut random).map_err(|e| format!("making the volume: {e}"))?;
    let promised = vec![Pages::new(); host.writers(&mut random) as usize];
    let (mut left, mut sum) = (Left { device, promised }, ZonedStates::default());
    for session in 0..sessions {
        let within = |what: String| format!("session {session}: {what}");
        let (seed, cores, late) = (random.next(), host.cores(&mut random), host.is_late(&mut random));
        let config = SimConfig { cores, seed, ..SimConfig::default() };
        let options = format!("cache=1M,background_gc=off,commit=0,{mount}");
        let Left { device, promised } = left;
        let device = Arc::new(device);
        let slow = Arc::new(HeldUp::new(&device));
        slow.hold_up(late.then(|| Rng::new(seed)));
        let found = in_time(config, LIMIT, move || live(&slow, promised, seed, cuts, &options)).map_err(within)?;
        sum.add(counted(&device));
        rules(&device).map_err(within)?;
        let next = random.below(found.len() as u64) as usize;
        left = same(&found[next]);
        for (number, state) in found.into_iter().enumerate() {
            let judged = judge(state, random.next()).map_err(|what| within(format!("cut {number}: {what}")))?;
            sum.add(judged);
        }
    }
    Ok(sum)
}

/// Once more what nobody has used yet.
fn same(left: &Left) -> Left {
    Left { device: left.device.after_power_cut(0), promised: left.promised.clone() }
}

fn counted(device: &ZonedDevice) -> ZonedStates {
    let counts = device.counts();
    ZonedStates { states: 0, resets: counts.resets, finishes: counts.finishes, most_active: counts.most_active }
}

fn rules(device: &ZonedDevice) -> Result<(), String> {
    device
        .breaches()
        .into_iter()
        .next()
        .map_or(Ok(()), |breach| Err(format!("the host broke a rule of zones: {breach}")))
}

/// Mounts, works, and leaves the volume as if somebody had pulled the plug; what cuts would have left meanwhile, at
/// least one, and no more than `cuts`.
fn live(
    device: &Arc<HeldUp<ZonedDevice>>,
    before: Vec<Pages>,
    seed: u64,
    cuts: u64,
    options: &str,
) -> Result<Vec<Left>, String> {
    let options = MountOptions::parse(options).map_err(|e| e.to_string())?;
    let fs =
        Fs::mount(Arc::clone(device) as Arc<dyn Device>, options).map_err(|e| format!("it does not mount: {e}"))?;
    compare_all(&fs, &before)?;
    let promised = Arc::new(Mutex::new(&PROMISES, before.clone()));
    let over = Arc::new(AtomicBool::new(false));
    let looker = {
        let (zones, promised, over) = (Arc::clone(device.inner()), Arc::clone(&promised), Arc::clone(&over));
        spawn("looker", move || look(&zones, &promised, &over, cuts, Rng::new(seed ^ 0x100C)))
    };
    let writers: Vec<_> = (before.into_iter().enumerate())
        .map(|(writer, known)| {
            let (fs, promised) = (Arc::clone(&fs), Arc::clone(&promised));
            let random = Rng::new(seed.wrapping_add(writer as u64));
            spawn("writer", move || write(&fs, writer, known, &promised, random).map_err(|e| e.to_string()))
        })
        .collect();
    let ends: Vec<Result<(), String>> =
        writers.into_iter().map(|writer| writer.join().map_err(|panic| panic.to_string())?).collect();
    over.store(true, SeqCst);
    let found = looker.join().map_err(|panic| panic.to_string())?;
    drop(fs);
    sleep(ENOUGH_TO_END);
    ends.into_iter().collect::<Result<(), String>>().map(|()| found)
}

/// What cuts would leave, of all moments with the same chance.
fn look(
    device: &ZonedDevice,
    promised: &Mutex<Vec<Pages>>,
    over: &AtomicBool,
    cuts: u64,
    mut random: Rng,
) -> Vec<Left> {
    let (mut found, mut looks) = (Vec::new(), 0);
    loop {
        let is_last = over.load(SeqCst);
        looks += 1;
        let place = if looks <= cuts { looks - 1 } else { random.below(looks) };
        if place < cuts {
            // Nobody begins to change what was promised, and nobody is promised more, while the lock is held.
            let promises = promised.lock();
            let left = Left { device: device.after_power_cut(random.next()), promised: promises.clone() };
            drop(promises);
            match found.get_mut(place as usize) {
                Some(earlier) => *earlier = left,
                None => found.push(left),
            }
        }
        if is_last {
            return found;
        }
        sleep(Duration::from_nanos(1 + random.below(LOOK_NS)));
    }
}

fn write(fs: &Fs, writer: usize, mut known: Pages, promised: &Mutex<Vec<Pages>>, mut random: Rng) -> Result<(), Error> {
    let data = file(fs, writer)?;
    for round in 0..6 + random.below(8) {
        for _ in 0..10 + random.below(150) {
            let (page, byte) = (random.below(PAGES), 1 + random.below(255) as u8);
            // Of a page that changes after the promise nothing is known.
            promised.lock()[writer].remove(&page);
            fs.write(&data, page * PAGE, &[byte; PAGE as usize])?;
            known.insert(page, byte);
        }
        if random.below(3) == 0 {
            come_and_go(fs, &format!("extra{writer}-{}", (random.below(5) + round) % 5), 90)?;
        }
        match random.below(3) {
            0 => fs.sync()?,
            _ => fs.fsync(&data, random.below(2) == 0)?,
        }
        promised.lock()[writer] = known.clone();
    }
    Ok(())
}

/// Judges a state.
fn judge(left: Left, seed: u64) -> Result<ZonedStates, String> {
    let Left { device, promised } = left;
    let device = Arc::new(device);
    let checked = Arc::clone(&device) as Arc<dyn Device>;
    inspect(&checked, "after the cut")?;
    let below = Arc::clone(&device);
    let mounted = in_time(SimConfig { cores: 2, seed, ..SimConfig::default() }, LIMIT, move || {
        let options = MountOptions::parse("cache=1M,background_gc=off,commit=0").map_err(|e| e.to_string())?;
        let fs = Fs::mount(below as Arc<dyn Device>, options).map_err(|e| format!("it does not mount: {e}"))?;
        goes_on(&fs, &promised)?;
        fs.unmount().map_err(|e| format!("it does not unmount: {e}"))
    });
    mounted.map_err(|e| format!("while it is mounted, {e}"))?;
    rules(&device)?;
    inspect(&checked, "after the unmount")?;
    Ok(ZonedStates { states: 1, ..counted(&device) })
}
