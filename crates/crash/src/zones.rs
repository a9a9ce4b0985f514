//! Sessions on a zoned device, which notes each request that breaks a rule of zones: there may be none.
//!
//! The device has no log of the past. So somebody looks meanwhile what a cut at that moment would leave, beside what
//! had been promised by then.

use crate::files::{Pages, Work, go_on_in_time, inspect};
use crate::held_up::HeldUp;
use crate::rng::Rng;
use crate::sessions::{Cut, CutCounts, CutDisk, CutState, Ledger, Lived};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Error, MountOptions};
use steadyfs_device::{Device, ZoneGeometry, ZonedDevice};
use steadyfs_rt::{JoinHandle, LockClass, Mutex, sleep, spawn};

/// Zones, of which the first are conventional. So few that they are reset and written again in each session.
const ZONES: u64 = 34;
const CONVENTIONAL: u64 = 10;
/// How long it takes at most until somebody looks again.
const LOOK_NS: u64 = 4_000_000;

/// Held while the device says what a cut would leave.
static PROMISES: LockClass = LockClass::new("crash.zones_promises", u16::MAX - 40);

/// The device, and what is promised of each file now.
pub(crate) struct Zones {
    device: Arc<HeldUp<ZonedDevice>>,
    promised: Mutex<Vec<Pages>>,
}

impl Zones {
    pub(crate) fn make(random: &mut Rng) -> Result<Self, String> {
        let size = 512;
        let max_active = [0, 6, 7, 10][random.below(4) as usize];
        let max_open = if max_active == 0 { 0 } else { 1 + random.below(u64::from(max_active)) as u32 };
        let geometry =
            ZoneGeometry { size, capacity: size, zones: ZONES, conventional: CONVENTIONAL, max_open, max_active };
        let device = ZonedDevice::new(geometry);
        let options = MkfsOptions { zoned: true, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) };
        mkfs::format(&device, &options).map_err(|e| e.to_string())?;
        Ok(Zones::of(device))
    }

    fn of(device: ZonedDevice) -> Self {
        let device = Arc::new(HeldUp::new(&Arc::new(device)));
        Zones { device, promised: Mutex::new(&PROMISES, Vec::new()) }
    }

    /// What a cut now would leave.
    fn left(&self, seed: u64) -> Self {
        Zones::of(self.device.inner().after_power_cut(seed))
    }

    /// What cuts would leave, of all moments with the same chance.
    fn look(&self, over: &AtomicBool, cuts: u64, mut random: Rng) -> Vec<CutState<Self>> {
        let (mut found, mut looks) = (Vec::new(), 0);
        loop {
            let is_last = over.load(SeqCst);
            looks += 1;
            let place = if looks <= cuts { looks - 1 } else { random.below(looks) };
            if place < cuts {
                // Nobody begins to change what was promised, and nobody is promised more, while the lock is held.
                let promises = self.promised.lock();
                let left = CutState { disk: self.left(random.next()), promised: promises.clone() };
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
}

impl CutDisk for Zones {
    fn work(&self) -> Work {
        Work { least: 10, more: 150, extra_every: 3, extras: 5, extra_pages: 90, presses: false }
    }

    fn begin(&self, late: Option<u64>, promised: &[Pages], _planted: bool) {
        self.device.hold_up(late);
        *self.promised.lock() = promised.to_vec();
    }

    /// Zones that were reset and finished. No rule of theirs was broken.
    fn end(&self) -> Result<CutCounts, String> {
        if let Some(breach) = self.device.inner().breaches().first() {
            return Err(format!("the host broke a rule of zones: {breach}"));
        }
        let counts = self.device.inner().counts();
        let (resets, finishes, most_active) = (counts.resets, counts.finishes, counts.most_active);
        Ok(CutCounts { resets, finishes, most_active, ..CutCounts::default() })
    }

    fn open(&self) -> Result<Arc<dyn Device>, String> {
        Ok(Arc::clone(&self.device) as Arc<dyn Device>)
    }

    /// A session may ask for what the others do without.
    fn options(mount: &str) -> Result<MountOptions, Error> {
        MountOptions::parse(&format!("cache=1M,background_gc=off,commit=0,{mount}"))
    }

    fn tick(&self) -> u64 {
        0
    }

    fn watch(self: &Arc<Self>, seed: u64, cuts: u64, over: Arc<AtomicBool>) -> Option<JoinHandle<Vec<CutState<Self>>>> {
        let (zones, random) = (Arc::clone(self), Rng::new(seed ^ 0x100C));
        Some(spawn("looker", move || zones.look(&over, cuts, random)))
    }

    fn forget(&self, writer: usize, page: u64, _ledger: &mut Ledger) {
        self.promised.lock()[writer].remove(&page);
    }

    fn promise(&self, writer: usize, known: &Pages, _ledger: &mut Ledger) {
        self.promised.lock()[writer].clone_from(known);
    }

    fn choose(&self, lived: &Lived<Self>, _cuts: u64, random: &mut Rng) -> (u64, u64) {
        let found = lived.seen.len() as u64;
        (found, random.below(found))
    }

    fn cut(&self, lived: &mut Lived<Self>, number: u64, again: bool, _random: &mut Rng) -> Cut<Self> {
        let left = lived.seen.remove(0);
        let again = again.then(|| left.disk.left(0));
        Cut { left, again, when: format!("cut {number}") }
    }

    fn judge(self, files: Vec<Pages>, seed: u64) -> Result<CutCounts, String> {
        let device = Arc::clone(self.device.inner()) as Arc<dyn Device>;
        inspect(&device, "after the cut")?;
        go_on_in_time::<Self, _>(Arc::clone(&device), files, seed, |_| ())?;
        let counts = self.end()?;
        inspect(&device, "after the unmount")?;
        Ok(counts)
    }
}
