//! Reclaiming space: the gate that decides who waits and when it is enough, and the seam behind which collectors work.
//!
//! A change passes the gate (`Fs::make_room`) before it takes the checkpoint lock. While free sections exceed what the next
//! checkpoint may need plus the reserve, the gate is two loads and a comparison. Below that, callers collect one after the
//! other under `gc_mutex`, and each re-tests first, so of many blocked writers only as many collect as are needed.
//!
//! Kept true: a round that gains nothing is counted, and after a few such rounds the caller gets through if a checkpoint can
//! still be written, and "no space" otherwise; nothing here spins. Arithmetic: F2FS' own, section 1.2 of the collection notes.

mod cleaner;
mod victim;

pub(crate) use cleaner::move_blocks;

use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::locks;
use crate::volume::Volume;
use std::time::Duration;
use steadyfs_format::Log;
use steadyfs_rt::Mutex;

/// How urgent a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Writers wait: take what is cheapest to move (greedy).
    Foreground,
    /// The volume is idle: weigh age against cost (cost-benefit).
    Background,
}

/// What a round of collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Sections looked at.
    pub victims: u64,
    /// Sections that became free, at once or with the next checkpoint.
    pub sections_freed: u64,
    /// Data blocks moved.
    pub data_moved: u64,
    /// Node blocks moved.
    pub nodes_moved: u64,
    /// Blocks that had moved or gone by the time their turn came.
    pub skipped: u64,
    /// Time spent waiting for data blocks to be read.
    pub reading: Duration,
}

impl GcReport {
    fn add(&mut self, other: GcReport) {
        self.victims += other.victims;
        self.sections_freed += other.sections_freed;
        self.data_moved += other.data_moved;
        self.nodes_moved += other.nodes_moved;
        self.skipped += other.skipped;
        self.reading += other.reading;
    }
}

/// How much collection has cost those who waited for it, since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcTimes {
    /// Times that a change found too few free sections, and collected.
    pub rounds: u64,
    /// Time during which somebody collected for that, checkpoints included.
    pub busy: Duration,
    /// Time of those checkpoints.
    pub checkpointing: Duration,
}

/// Sections by what can be done with them now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionCounts {
    /// Ready to be written.
    pub free: u64,
    /// Empty, and free with the next checkpoint.
    pub prefree: u64,
    /// Changes wait for collection while no more than so many are free.
    pub needed: u64,
}

/// A way to collect. Implementations differ in how many threads work and what they share; the gate and the checks are the same.
pub(crate) trait Reclaimer: Send + Sync {
    /// Cleans one victim; `None` if there is nothing worth cleaning. Called with `gc_mutex` held and no checkpoint lock.
    fn collect_one(&self, fs: &Fs, urgency: Urgency) -> Result<Option<GcReport>>;
}

/// Collection state of a mounted volume.
pub(crate) struct Reclaim {
    serial: Mutex<()>,
    reclaimer: Box<dyn Reclaimer>,
    /// Sections kept for collection and checkpoints.
    reserved_sections: u64,
    totals: Mutex<GcReport>,
    times: Mutex<GcTimes>,
}

/// Rounds without gain before the gate stops trying.
const HOPELESS_ROUNDS: u32 = 8;
/// Sections beyond the bare need that a foreground round frees, so that the next writers pass without collecting.
const HYSTERESIS: u64 = 2;

impl Reclaim {
    /// Collection with one collector, as F2FS in `mode=lfs`; `reserved_segments` is the checkpoint's own number.
    pub(crate) fn new(vol: &Volume, reserved_segments: u32) -> Self {
        let per_section = vol.layout().segs_per_sec;
        Reclaim {
            serial: Mutex::new(&locks::GC, ()),
            reclaimer: Box::new(cleaner::SingleCollector::new()),
            reserved_sections: u64::from(reserved_segments.div_ceil(per_section)),
            totals: Mutex::new(&locks::STATE, GcReport::default()),
            times: Mutex::new(&locks::STATE, GcTimes::default()),
        }
    }

    /// What collection did since the mount.
    pub(crate) fn totals(&self) -> GcReport {
        *self.totals.lock()
    }
}

impl Fs {
    /// Free sections below which writers wait: what a checkpoint would write now, plus the reserve.
    fn sections_needed(&self) -> u64 {
        let per_section = self.vol.layout().blocks_per_sec();
        let dents = self.dirty_dir_pages();
        let nodes = self.vol.nodes.dirty_count() as u64 + dents;
        nodes.div_ceil(per_section) + dents.div_ceil(per_section) + self.reclaim.reserved_sections
    }

    fn free_sections_suffice(&self, extra: u64) -> bool {
        self.vol.segs.free_sections() > self.sections_needed() + extra
    }

    /// Waits until there is room for a change, collecting if need be.
    pub(crate) fn make_room(&self) -> Result<()> {
        if self.free_sections_suffice(0) {
            return Ok(());
        }
        let _serial = self.reclaim.serial.lock();
        if self.free_sections_suffice(0) {
            return Ok(());
        }
        let began = steadyfs_rt::now();
        let outcome = self.collect_until_enough();
        let mut times = self.reclaim.times.lock();
        times.rounds += 1;
        times.busy += began.elapsed();
        outcome
    }

    /// What collection has cost since the mount, in time.
    pub fn gc_times(&self) -> GcTimes {
        *self.reclaim.times.lock()
    }

    /// Sections by what can be done with them now.
    pub fn sections(&self) -> SectionCounts {
        let free = self.vol.segs.free_sections();
        SectionCounts { free, prefree: self.prefree_sections(), needed: self.sections_needed() }
    }

    /// The foreground round: collects until the free sections suffice, or nothing more can be gained.
    fn collect_until_enough(&self) -> Result<()> {
        let mut hopeless = 0;
        while !self.free_sections_suffice(HYSTERESIS) {
            let before = self.vol.segs.free_sections() + self.prefree_sections();
            if self.checkpoint_frees_enough() || self.room_is_critical() {
                self.gc_checkpoint()?;
                if self.free_sections_suffice(HYSTERESIS) {
                    return Ok(());
                }
            }
            let round = self.reclaim.reclaimer.collect_one(self, Urgency::Foreground)?;
            let found = round.is_some();
            if let Some(report) = round {
                self.reclaim.totals.lock().add(report);
            }
            let after = self.vol.segs.free_sections() + self.prefree_sections();
            if after > before {
                hopeless = 0;
                continue;
            }
            hopeless += 1;
            if !found || hopeless >= HOPELESS_ROUNDS {
                self.gc_checkpoint()?;
                return self.settle_for_less();
            }
        }
        Ok(())
    }

    /// Nothing more can be gained: go on if the logs and a checkpoint still fit, else say that the volume is full.
    fn settle_for_less(&self) -> Result<()> {
        let bare = self.sections_needed() - self.reclaim.reserved_sections + Log::COUNT as u64;
        if self.vol.segs.free_sections() > bare { Ok(()) } else { Err(Error::NoSpace) }
    }

    fn prefree_sections(&self) -> u64 {
        self.vol.segs.prefree.count() as u64 / u64::from(self.vol.layout().segs_per_sec)
    }

    /// Whether a checkpoint alone would free enough.
    fn checkpoint_frees_enough(&self) -> bool {
        let free = self.vol.segs.free_sections() + self.prefree_sections();
        self.prefree_sections() > 0 && free > self.sections_needed() + HYSTERESIS
    }

    /// Whether so few sections are free that the next checkpoint must come now, before collection takes the last ones.
    fn room_is_critical(&self) -> bool {
        let waiting = self.prefree_sections() > 0 || self.vol.nodes.dirty_count() > 0;
        waiting && self.vol.segs.free_sections() <= self.sections_needed() - self.reclaim.reserved_sections / 2
    }

    /// Cleans up to `sections` victims now, whatever the free space is, and commits a checkpoint.
    pub fn gc(&self, sections: u64, urgency: Urgency) -> Result<GcReport> {
        self.vol.check_writable()?;
        let mut sum = GcReport::default();
        {
            let _serial = self.reclaim.serial.lock();
            for _ in 0..sections {
                if self.vol.segs.free_sections() <= self.sections_needed() {
                    self.gc_checkpoint()?;
                }
                let Some(report) = self.reclaim.reclaimer.collect_one(self, urgency)? else { break };
                sum.add(report);
            }
            self.reclaim.totals.lock().add(sum);
        }
        self.sync_checkpoint()?;
        Ok(sum)
    }

    fn gc_checkpoint(&self) -> Result<()> {
        let began = steadyfs_rt::now();
        let outcome = self.sync_checkpoint();
        self.reclaim.times.lock().checkpointing += began.elapsed();
        outcome
    }
}
