//! Sessions on devices in directories of files, whose host is cut: a chunk directory with an IPLFS volume, and the
//! device of a D2FS volume.
//!
//! Writes and syncs of the host take their time. A cut leaves a part of what the host had not made durable: pages,
//! holes, lengths and names of its files ([`HostModel`]). Or the process alone is killed, and the cut comes later.
//! After an unmount the device may hold no more than the volume needs.

use crate::files::{Pages, Work, go_on, holds_what_is_needed, inspect, judging};
use crate::migrating;
use crate::rng::Rng;
use crate::seeds::{LIMIT, in_time};
use crate::sessions::{Cut, CutCounts, CutDisk, CutState, ENOUGH_TO_END, Lived};
use std::sync::Arc;
use steadyfs_core::Error;
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_device::{ChunkDevice, Device, HostModel, MigratingDevice, OpenError};
use steadyfs_rt::sleep;

/// Blocks of log space of an IPLFS volume.
const CAPACITY: u64 = 1 << 14;
/// How far its logs run between two checkpoints.
const LEAP: u64 = 512;

/// What lies in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// An IPLFS volume in chunks.
    Chunks,
    /// A D2FS volume, and the device that collects for it.
    Migrating,
}

/// A device, and once more if it collects.
type Opened = (Arc<dyn Device>, Option<Arc<MigratingDevice>>);

/// A directory of a host.
#[derive(Clone)]
pub(crate) struct Directory {
    inside: Inside,
    host: HostModel,
}

impl Directory {
    pub(crate) fn make(inside: Inside, random: &mut Rng) -> Result<Self, String> {
        let host = HostModel::new();
        let options = MkfsOptions::new([0x5f; 16], 1_700_000_000);
        let told = |e: OpenError| e.to_string();
        let failed = |e: Error| e.to_string();
        match inside {
            Inside::Chunks => {
                let chosen = Infinite { leap: LEAP, ..Infinite::new(CAPACITY) };
                let chunk = [64, 256, 1024][random.below(3) as usize];
                ChunkDevice::create_on(&host, chosen.device_blocks(), chunk).map_err(told)?;
                let device = ChunkDevice::open_on(&host).map_err(told)?;
                mkfs::format(&device, &MkfsOptions { infinite: Some(chosen), ..options }).map_err(failed)?;
            }
            Inside::Migrating => {
                let (chosen, options) = migrating::volume(random, options);
                MigratingDevice::create_on(&host, &chosen.geometry(&options).map_err(failed)?).map_err(told)?;
                let device = MigratingDevice::open_on(&host).map_err(told)?;
                mkfs::format(&device, &options).map_err(failed)?;
            }
        }
        Ok(Directory { inside, host })
    }

    fn opened(&self) -> Result<Opened, String> {
        let told = |e: OpenError| format!("it does not open: {e}");
        Ok(match self.inside {
            Inside::Chunks => (Arc::new(ChunkDevice::open_on(&self.host).map_err(told)?), None),
            Inside::Migrating => {
                let device = Arc::new(MigratingDevice::open_on(&self.host).map_err(told)?);
                (Arc::clone(&device) as Arc<dyn Device>, Some(device))
            }
        })
    }

    fn judge_in_time(&self, files: &[Pages]) -> Result<CutCounts, String> {
        let (device, migrating) = self.opened()?;
        let outstanding = migrating.as_ref().map_or(0, |migrating| u64::from(migrating.outstanding() > 0));
        inspect(&device, "after the cut")?;
        go_on::<Self, _>(&device, files, |_| ())?;
        sleep(ENOUGH_TO_END);
        inspect(&device, "after the unmount")?;
        let image = Image::open(device).map_err(|e| e.to_string())?;
        match migrating {
            Some(migrating) => holds_what_is_needed(migrating.outstanding(), &migrating.held(), &image)?,
            None => {
                let leaked = image.leaked_runs().map_err(|e| e.to_string())?;
                if let Some(run) = leaked.first() {
                    let blocks = run.end - run.start;
                    return Err(format!("the device holds {blocks} blocks from {} on that nobody knows of", run.start));
                }
            }
        }
        Ok(CutCounts { outstanding, ..CutCounts::default() })
    }
}

impl CutDisk for Directory {
    fn work(&self) -> Work {
        // One that collects has nothing to collect before zones are full.
        let more = if self.inside == Inside::Migrating { 200 } else { 40 };
        Work { least: 5, more, extra_every: 3, extras: 7, extra_pages: 40, presses: true }
    }

    fn begin(&self, late: Option<u64>, _promised: &[Pages], planted: bool) {
        self.host.take_time(late);
        self.host.plant(planted);
    }

    fn end(&self) -> Result<CutCounts, String> {
        self.host.take_time(None);
        self.host.plant(false);
        Ok(CutCounts::default())
    }

    fn open(&self) -> Result<Arc<dyn Device>, String> {
        self.opened().map(|(device, _)| device)
    }

    fn tick(&self) -> u64 {
        self.host.tick()
    }

    fn outlives_the_process(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn cut(&self, lived: &mut Lived<Self>, _number: u64, again: bool, random: &mut Rng) -> Cut<Self> {
        let (began, last) = (lived.began, self.host.tick());
        let (at, luck) = (began + random.below(last - began + 1), random.next());
        let after = || Directory { inside: self.inside, host: self.host.after_cut(at, luck) };
        let left = CutState { disk: after(), promised: lived.promised_by(at) };
        Cut { left, again: again.then(after), when: format!("cut at {at} of {began} to {last}, luck {luck}") }
    }

    fn judge(self, files: Vec<Pages>, seed: u64) -> Result<CutCounts, String> {
        in_time(judging(seed), LIMIT, move || self.judge_in_time(&files))
    }
}
