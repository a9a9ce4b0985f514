//! Sessions on a device that moves blocks by itself (D2FS): a cut may leave it with any part of what was not durable,
//! and with records outstanding.
//!
//! After an unmount nothing may be outstanding, and the device holds no more than the volume needs.

use crate::files::{Pages, Work, go_on_in_time, holds_what_is_needed, inspect};
use crate::held_up::HeldUp;
use crate::rng::Rng;
use crate::sessions::{Cut, CutCounts, CutDisk, CutState, Ledger, Lived};
use std::sync::Arc;
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs};
use steadyfs_device::{Adversary, AdversaryDevice, CrashImage, Device, MemDevice};

/// Segments that the device can hold.
const SEGMENTS: u64 = 16;

/// A device, and what it held before it was one.
pub(crate) struct Moving {
    base: MemDevice,
    below: Arc<MemDevice>,
    device: Arc<AdversaryDevice<Arc<HeldUp<MemDevice>>>>,
    contents: Arc<HeldUp<MemDevice>>,
    /// The last record that had been applied at the cut that left it.
    applied: u64,
}

/// How a D2FS volume for sessions is made.
pub(crate) fn volume(random: &mut Rng, options: MkfsOptions) -> (Migrating, MkfsOptions) {
    let ratio = [1.1, 1.4, 2.0][random.below(3) as usize];
    let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(SEGMENTS * 512) };
    (chosen, MkfsOptions { migrating: Some(chosen), ..options })
}

fn rules(random: &mut Rng) -> Adversary {
    Adversary {
        moves: 300 + random.below(650),
        late: 1 + random.below(12),
        records: 1 + random.below(16) as usize,
        ..Adversary::new(random.next())
    }
}

impl Moving {
    pub(crate) fn make(random: &mut Rng) -> Result<Self, String> {
        Moving::formatted(random).map_err(|e| e.to_string())
    }

    fn formatted(random: &mut Rng) -> Result<Self, Error> {
        let (chosen, options) = volume(random, MkfsOptions::new([0xd2; 16], 1_700_000_000));
        let geometry = chosen.geometry(&options)?;
        let below = Arc::new(MemDevice::new(geometry.gc.end));
        let base = below.fork();
        let contents = Arc::new(HeldUp::new(&below));
        let device = Arc::new(AdversaryDevice::new(Arc::clone(&contents), geometry, rules(random)));
        mkfs::format(&*device, &options)?;
        Ok(Moving { base, below, device, contents, applied: 0 })
    }

    /// The device after a cut at this moment, which has left these contents.
    fn after(&self, at: u64, left: MemDevice, applied: u64, random: &mut Rng) -> Self {
        let below = Arc::new(left);
        let contents = Arc::new(HeldUp::new(&below));
        let device = Arc::new(self.device.after_cut(at, Arc::clone(&contents), rules(random)));
        Moving { base: below.fork(), below, device, contents, applied }
    }
}

impl CutDisk for Moving {
    fn work(&self) -> Work {
        Work { least: 10, more: 50, extra_every: 4, extras: 7, extra_pages: 5, presses: false }
    }

    fn begin(&self, late: Option<u64>, _promised: &[Pages], _planted: bool) {
        self.contents.hold_up(late);
    }

    fn open(&self) -> Result<Arc<dyn Device>, String> {
        Ok(Arc::clone(&self.device) as Arc<dyn Device>)
    }

    fn tick(&self) -> u64 {
        self.device.recorder().tick()
    }

    fn wrote(&self, fs: &Fs, ledger: &mut Ledger) {
        let tick = self.tick();
        ledger.applied.extend(fs.migration_stats().map(|stats| (tick, stats.applied)));
    }

    fn cut(&self, lived: &mut Lived<Self>, _number: u64, again: bool, random: &mut Rng) -> Cut<Self> {
        let recorder = self.device.recorder();
        let at = lived.began + random.below(recorder.tick() - lived.began + 1);
        let log = recorder.log();
        let mut image = CrashImage::new(&self.base, &log).at(at);
        for index in image.volatile() {
            image = if random.below(2) == 0 { image } else { image.keep(index) };
        }
        let disk = self.after(at, image.build(), lived.applied_by(at), random);
        let again = again.then(|| disk.after(0, disk.base.fork(), 0, random));
        Cut { left: CutState { disk, promised: lived.promised_by(at) }, again, when: format!("cut at {at}") }
    }

    fn judge(self, files: Vec<Pages>, seed: u64) -> Result<CutCounts, String> {
        let device = self.open()?;
        let contained = Image::open(Arc::clone(&device)).map_err(|e| e.to_string())?.checkpoint().served();
        let contained = contained.ok_or("the checkpoint does not say which records it contains")?;
        let outstanding = u64::from(self.device.outstanding() > 0);
        inspect(&device, "after the cut")?;
        let look = |fs: &Fs| fs.migration_stats().map_or(0, |stats| stats.again);
        let again = go_on_in_time::<Self, _>(device, files, seed, look)?;
        let below = Arc::new(self.below.fork()) as Arc<dyn Device>;
        inspect(&below, "after the unmount")?;
        let image = Image::open(below).map_err(|e| e.to_string())?;
        holds_what_is_needed(self.device.outstanding(), &self.device.held(), &image)?;
        Ok(CutCounts { outstanding, again, between: u64::from(self.applied > contained), ..CutCounts::default() })
    }
}
