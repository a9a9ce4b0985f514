//! The host collects: when room is made and when it is enough, and those who make it.
//!
//! While free sections exceed what the next checkpoint may need plus the reserve, the gate is a few loads and
//! comparisons. Below that, either callers collect one after the other under `gc_mutex`, and each re-tests first, so of
//! many blocked writers only as many collect as are needed (F2FS); or they wait for collectors with threads of their
//! own (`pool`, ScaleLFS). `options` says which, `victim` chooses what to clean, `cleaner` moves what is valid there,
//! `crew` with several threads at one victim (P-GC).
//!
//! Kept true: a round that gains nothing is counted, and after a few such rounds the caller gets through if a
//! checkpoint can still be written, and "no space" otherwise; nothing here spins. How much is kept free is F2FS' own
//! arithmetic: docs/internals/collection.md.

pub(crate) mod buffer;
mod cleaner;
mod crew;
mod gaps;
mod moving;
pub(crate) mod plan;
mod pool;
pub(crate) mod stand;
pub(crate) mod victim;

use super::admission::{Admission, Admissions};
use super::live::Asking;
use super::report::{GcReport, GcTimes, SectionCounts, Urgency};
use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::locks;
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::stats::activity::{Activity, CollectorsNow};
use crate::stats::counters::Cause;
use crate::volume::Volume;
use crate::volume::segments::streams::Streams;
use buffer::{Buffer, GcMemory};
use cleaner::Collector;
use crew::Crew;
use moving::Sink;
use pool::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use steadyfs_format::{Layout, Lba, Log};
use steadyfs_rt::Mutex;
use victim::Reach;

/// Collection by this host: the state of a mounted volume.
pub(crate) struct HostReclaim {
    serial: Mutex<()>,
    /// For those who collect themselves, one at a time: F2FS' way, one victim after the other into the cold data log.
    single: Collector,
    pool: Option<Pool>,
    /// Sections kept for collection and checkpoints.
    reserved_sections: u64,
    /// How many of those writers may take while collectors are at work, before they wait for them. Collectors begin
    /// when half of them are gone, and see to it that a checkpoint frees as much when three quarters are.
    grace: u64,
    totals: Mutex<GcReport>,
    times: Mutex<GcTimes>,
    /// What whoever collects without a thread of its own does now, and how many wait to do so.
    alone: Activity,
    /// Writers who have passed the gate and may take blocks.
    pub(super) admissions: Admissions,
    /// Of all collectors, for pages of their own.
    memory: Arc<buffer::Memory>,
    waiting: AtomicU64,
}

/// Rounds without gain before the gate stops trying.
const HOPELESS_ROUNDS: u32 = 8;
/// Sections beyond the bare need that a foreground round frees, so that the next writers pass without collecting.
const HYSTERESIS: u64 = 2;

impl HostReclaim {
    /// Collection of a volume whose checkpoint reserves so many segments, by `collectors` threads of its own.
    pub(super) fn new(vol: &Volume, options: &MountOptions, reserved_segments: u32, collectors: usize) -> Self {
        let reserved_sections = u64::from(reserved_segments.div_ceil(vol.layout().segs_per_sec));
        let reach = Reach::of(vol.layout().sections as usize);
        let grace = if options.background_gc && collectors > 0 { reserved_sections / 4 } else { 0 };
        let bounded = pool::bounded(collectors, options.gc.generations, reserved_sections);
        assert_eq!(bounded, collectors, "a reserve of {reserved_sections} sections cannot bear so many collectors");
        let memory = Arc::default();
        HostReclaim {
            serial: Mutex::new(&locks::GC, ()),
            single: Collector {
                select: Box::new(victim::OneVictim::new(reach)),
                sink: Sink::cold_log(Buffer::new(&options.gc, 1, &memory)),
                crew: options.gc.crew().map(Crew::new),
            },
            pool: (collectors > 0).then(|| Pool::new(vol, &options.gc, collectors, &memory)),
            reserved_sections,
            grace,
            totals: Mutex::new(&locks::STATE, GcReport::default()),
            times: Mutex::new(&locks::STATE, GcTimes::default()),
            alone: Activity::default(),
            admissions: Admissions::default(),
            memory,
            waiting: AtomicU64::new(0),
        }
    }

    /// How many collectors a volume has: as many as were asked for, but no more than its reserve can bear.
    pub(super) fn collectors(options: &GcOptions, layout: &Layout, reserved_segments: u32) -> usize {
        let reserved_sections = u64::from(reserved_segments.div_ceil(layout.segs_per_sec));
        pool::bounded(options.threads(steadyfs_rt::cpus()), options.generations, reserved_sections)
    }

    /// How many logs beside the format's six take users' data: as many as were asked for, but no more than its reserve
    /// can bear beside so many collectors.
    pub(super) fn data_logs(options: &GcOptions, layout: &Layout, reserved_segments: u32, collectors: usize) -> usize {
        let reserved_sections = u64::from(reserved_segments.div_ceil(layout.segs_per_sec));
        let left =
            pool::most_streams(reserved_sections).saturating_sub(Streams::count(collectors, options.generations));
        options.extra_logs(steadyfs_rt::cpus()).min(left)
    }

    /// Starts the collectors of a writable volume.
    pub(super) fn start(&self, fs: &Arc<Fs>) {
        if let Some(pool) = &self.pool {
            pool.start(fs);
        }
        if let Some(crew) = &self.single.crew {
            let weak = Arc::downgrade(fs);
            crew.start(move |seg, summary, offsets, asking| match weak.upgrade() {
                Some(fs) => cleaner::clean_part(&fs, seg, summary, offsets, asking),
                None => Ok(GcReport::default()),
            });
        }
    }

    /// Ends the collectors and waits for them; from then on writers collect.
    pub(super) fn stop(&self) {
        if let Some(pool) = &self.pool {
            pool.stop();
        }
        if let Some(crew) = &self.single.crew {
            crew.stop();
        }
    }

    /// Something is asked of the volume that collection should not be in the way of.
    pub(super) fn note_request(&self) {
        if let Some(pool) = &self.pool {
            pool.note_request();
        }
    }

    /// Sections have become free.
    pub(super) fn announce_room(&self) {
        if let Some(pool) = &self.pool {
            pool.announce_room();
        }
    }

    /// Room was short, and collectors or a writer worked on that for so long.
    fn note_round(&self, busy: Duration) {
        let mut times = self.times.lock();
        times.rounds += 1;
        times.busy += busy;
    }

    /// What collection did since the mount.
    pub(super) fn totals(&self) -> GcReport {
        *self.totals.lock()
    }

    /// Waits until there is room for so many blocks, collecting if need be. No node lock is held.
    ///
    /// # Errors
    /// `NoSpace`, or why collection failed.
    pub(super) fn admit<'a>(&self, fs: &'a Fs, blocks: u64) -> Result<Admission<'a>> {
        self.note_request();
        if let Some(admission) = Admission::if_room(&fs.reclaim, blocks, || fs.writers_have_room()) {
            if let Some(pool) = &self.pool {
                pool.work_ahead(fs);
            }
            return Ok(admission);
        }
        if let Some(pool) = &self.pool
            && let Some(admission) = pool.wait_for_room(fs, blocks)?
        {
            return Ok(admission);
        }
        fs.collect_alone()?;
        Ok(Admission::new(&fs.reclaim, blocks))
    }

    /// Whether a change finds room without a collection now or soon.
    pub(super) fn has_room(&self, fs: &Fs) -> bool {
        fs.vol.segments().table.free_sections() > fs.sections_needed()
    }

    /// Moves what these blocks hold, wherever they are.
    pub(super) fn move_blocks(&self, fs: &Fs, lbas: &[Lba]) -> Result<()> {
        cleaner::move_blocks(fs, lbas)
    }
}

impl Fs {
    /// Free sections below which room is made: what a checkpoint would write now, what writers may take who have
    /// passed, and the reserve.
    fn sections_needed(&self) -> u64 {
        let per_section = self.vol.layout().blocks_per_sec();
        let dents = self.dirty_dir_pages();
        let nodes = self.vol.nodes.dirty_count() as u64 + dents;
        let placing = self.reclaim.by_host().admissions.blocks() / per_section;
        nodes.div_ceil(per_section) + dents.div_ceil(per_section) + placing + self.reclaim.by_host().reserved_sections
    }

    /// Whether writers need not wait.
    fn writers_have_room(&self) -> bool {
        self.vol.segments().table.free_sections() + self.reclaim.by_host().grace > self.sections_needed()
    }

    pub(crate) fn free_sections_suffice(&self, extra: u64) -> bool {
        self.vol.segments().table.free_sections() > self.sections_needed() + extra
    }

    /// Collects in the caller's thread until there is room; one caller at a time.
    fn collect_alone(&self) -> Result<()> {
        self.reclaim.by_host().waiting.fetch_add(1, Relaxed);
        let _serial = self.reclaim.by_host().serial.lock();
        let waited = self.reclaim.by_host().waiting.fetch_sub(1, Relaxed);
        assert!(waited > 0, "more have stopped waiting to collect than waited");
        if self.writers_have_room() && !self.vol.io.planted.is(Canary::Herd) {
            return Ok(());
        }
        let began = steadyfs_rt::now();
        // Collectors could not do it: what is free in the segments that they have open is all the more needed.
        self.vol.segments().close_streams(&self.vol.begin_change()?);
        let outcome = self.collect_patiently();
        self.reclaim.by_host().note_round(began.elapsed());
        outcome
    }

    /// Sections that are free, or will be with the next checkpoint.
    fn sections_to_come(&self) -> u64 {
        self.vol.segments().table.free_sections() + self.sections_awaiting()
    }

    /// What collectors keep free or free to come: fewer than [`Fs::sections_needed`] by half of what writers may take
    /// of the reserve. Each section more would be one less in which blocks become invalid before they have to be moved.
    fn sections_aimed_at(&self) -> u64 {
        self.sections_needed() - self.reclaim.by_host().grace / 2
    }

    /// Whether collectors have nothing to do: enough is free, or will be, and no checkpoint is needed for it yet.
    /// Checkpoints write every node that has changed, so they are made late: when three quarters of what writers may
    /// take of the reserve are gone.
    fn collectors_may_rest(&self, extra: u64) -> bool {
        let wanted = self.sections_aimed_at() + extra;
        self.vol.segments().table.free_sections() > wanted
            || (self.sections_missing(wanted) == 0 && !self.checkpoint_is_due())
    }

    fn checkpoint_is_due(&self) -> bool {
        self.vol.segments().table.free_sections() + self.reclaim.by_host().grace * 3 / 4 <= self.sections_needed()
    }

    /// How many sections have to be emptied for more than so many.
    fn sections_missing(&self, wanted: u64) -> u64 {
        (wanted + 1).saturating_sub(self.sections_to_come())
    }

    /// What collection has cost since the mount, in time; what goes on now included.
    pub fn gc_times(&self) -> GcTimes {
        let Some(host) = self.reclaim.host() else { return GcTimes::default() };
        let mut times = *host.times.lock();
        times.busy += host.pool.as_ref().map_or(Duration::ZERO, Pool::busy_now);
        times
    }

    /// What collectors hold of pages of their own.
    pub fn gc_memory(&self) -> GcMemory {
        self.reclaim.host().map_or_else(GcMemory::default, |host| host.memory.stats())
    }

    /// Who collects now, and what.
    pub(crate) fn collectors_now(&self) -> CollectorsNow {
        let Some(host) = self.reclaim.host() else { return CollectorsNow::default() };
        let mut now = host.pool.as_ref().map_or_else(CollectorsNow::default, Pool::now);
        now.writers_waiting += host.waiting.load(Relaxed);
        now.alone = host.alone.stats();
        now
    }

    /// Sections by what can be done with them now.
    pub fn sections(&self) -> SectionCounts {
        let total = u64::from(self.vol.layout().sections);
        let Some(host) = self.reclaim.host() else { return SectionCounts { total, ..SectionCounts::default() } };
        let free = self.vol.segments().table.free_sections();
        SectionCounts {
            total,
            free,
            prefree: self.prefree_sections(),
            needed: self.sections_needed() - host.grace,
            reserved: host.reserved_sections,
        }
    }

    /// Collectors' streams that have a segment open now.
    pub fn open_streams(&self) -> usize {
        self.vol.placement.segments().map_or(0, |segments| segments.streams.open())
    }

    /// Logs beside the format's six that have a segment open for users' data now.
    pub fn open_data_logs(&self) -> usize {
        self.vol.placement.segments().map_or(0, |segments| segments.streams.open_data_logs())
    }

    /// Collects, and says that there is no room only if nobody else makes some: collectors whom others have called have
    /// victims of theirs in hand, which are not to be found then, and may empty sections beside the last checkpoint of
    /// this round; and writers who have passed may take less than they may.
    fn collect_patiently(&self) -> Result<()> {
        for _ in 0..HOPELESS_ROUNDS {
            let outcome = self.collect_until_enough();
            if !matches!(outcome, Err(Error::NoSpace)) {
                return outcome;
            }
            let others_placed = self.reclaim.by_host().admissions.wait_for_some();
            let others_worked = self.reclaim.by_host().pool.as_ref().is_some_and(Pool::wait_for_pause);
            if !others_placed && !others_worked && self.sections_awaiting() == 0 {
                return outcome;
            }
        }
        self.collect_until_enough()
    }

    /// The foreground round: collects until the free sections suffice, or nothing more can be gained.
    fn collect_until_enough(&self) -> Result<()> {
        let (mut hopeless, mut logs_open) = (0, true);
        while !self.free_sections_suffice(HYSTERESIS) {
            let before = self.sections_to_come();
            let enough_to_come = self.checkpoint_frees_enough(HYSTERESIS);
            if enough_to_come || self.room_is_critical() {
                self.gc_checkpoint(if enough_to_come { Cause::Needed } else { Cause::Critical })?;
                if self.free_sections_suffice(HYSTERESIS) {
                    return Ok(());
                }
            }
            // The caller may hold what would have to move.
            let asking = if hopeless == 0 { Asking::Yes } else { Asking::No };
            let single = &self.reclaim.by_host().single;
            let round = single.collect_one(self, Urgency::Foreground, asking, &self.reclaim.by_host().alone)?;
            let found = round.is_some();
            if let Some(report) = round {
                self.reclaim.by_host().totals.lock().add(report);
            }
            let after = self.sections_to_come();
            if after > before {
                hopeless = 0;
                continue;
            }
            hopeless += 1;
            // What is free in segments that logs have open can be collected once they are closed.
            if !found
                && std::mem::take(&mut logs_open)
                && self.vol.segments().close_data_logs(&self.vol.begin_change()?) > 0
            {
                continue;
            }
            if !found || hopeless >= HOPELESS_ROUNDS {
                self.gc_checkpoint(Cause::Needed)?;
                return self.settle_for_less();
            }
        }
        Ok(())
    }

    /// Nothing more can be gained: go on if the logs and a checkpoint still fit, else say that the volume is full.
    fn settle_for_less(&self) -> Result<()> {
        let bare = self.sections_needed() - self.reclaim.by_host().reserved_sections + Log::COUNT as u64;
        if self.vol.segments().table.free_sections() > bare { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Sections that the next checkpoint frees: empty ones, and those whose nodes it writes elsewhere.
    fn sections_awaiting(&self) -> u64 {
        let segs = &self.vol.segments().table;
        (segs.prefree.count() + segs.awaiting.count()) as u64 / u64::from(self.vol.layout().segs_per_sec)
    }

    fn prefree_sections(&self) -> u64 {
        self.vol.segments().table.prefree.count() as u64 / u64::from(self.vol.layout().segs_per_sec)
    }

    /// Whether a checkpoint alone would free enough for so many sections above what writers need.
    fn checkpoint_frees_enough(&self, extra: u64) -> bool {
        self.sections_awaiting() > 0 && self.sections_missing(self.sections_needed() + extra) == 0
    }

    /// Whether so few sections are free that the next checkpoint must come now, before collection takes the last ones.
    fn room_is_critical(&self) -> bool {
        let waiting = self.prefree_sections() > 0 || self.vol.nodes.dirty_count() > 0;
        waiting
            && self.vol.segments().table.free_sections()
                <= self.sections_needed() - self.reclaim.by_host().reserved_sections / 2
    }

    /// Cleans up to `sections` victims now, whatever the free space is, and commits a checkpoint.
    pub fn gc(&self, sections: u64, urgency: Urgency) -> Result<GcReport> {
        self.gc_each(sections, urgency, &mut |_| ())
    }

    /// As [`Fs::gc`]; tells `cleaned` after each victim what was done with it.
    pub fn gc_each(&self, sections: u64, urgency: Urgency, cleaned: &mut dyn FnMut(&GcReport)) -> Result<GcReport> {
        self.vol.check_writable()?;
        let mut sum = GcReport::default();
        if self.reclaim.host().is_none() {
            return Ok(sum);
        }
        {
            let _serial = self.reclaim.by_host().serial.lock();
            {
                let change = self.vol.begin_change()?;
                self.vol.segments().close_streams(&change);
                self.vol.segments().close_data_logs(&change);
            }
            for _ in 0..sections {
                if self.vol.segments().table.free_sections() <= self.sections_needed() {
                    self.gc_checkpoint(Cause::Critical)?;
                }
                let single = &self.reclaim.by_host().single;
                let Some(report) = single.collect_one(self, urgency, Asking::Yes, &self.reclaim.by_host().alone)?
                else {
                    break;
                };
                cleaned(&report);
                sum.add(report);
            }
            self.reclaim.by_host().totals.lock().add(sum);
        }
        self.checkpoint(Cause::Collected)?;
        Ok(sum)
    }

    fn gc_checkpoint(&self, cause: Cause) -> Result<()> {
        let began = steadyfs_rt::now();
        let outcome = self.checkpoint(cause);
        self.reclaim.by_host().times.lock().checkpointing += began.elapsed();
        outcome
    }
}
