//! The host collects: when room is made and when it is enough, and those who make it.
//!
//! While free sections exceed what the next checkpoint may need plus the reserve, the gate is a few loads and
//! comparisons. Below that, either callers collect one after the other under `gc_mutex`, and each re-tests first, so of
//! many blocked writers only as many collect as are needed (F2FS); or they wait for collectors with threads of their
//! own (`pool`, ScaleLFS). `options` says which, `victim` chooses what to clean, `cleaner` moves what is valid there,
//! `crew` with several threads at one victim (P-GC). This file has the state of it, `room` says how much is free and
//! wanted, `rounds` collects in the thread of a caller.
//!
//! Kept true: a round that gains nothing is counted, and after a few such rounds the caller gets through if a
//! checkpoint can still be written, and "no space" otherwise; nothing here spins. How much is kept free is F2FS' own
//! arithmetic: docs/internals/collection.md.

pub(crate) mod buffer;
pub(super) mod cleaner;
mod collector;
mod crew;
mod gaps;
mod moving;
mod numbers;
pub(crate) mod plan;
mod pool;
mod room;
mod rounds;
pub(crate) mod stand;
pub(crate) mod victim;

use super::report::{GcReport, GcTimes};
use crate::files::pages::Budget;
use crate::gate::Headroom;
use crate::gate::admission::{Admission, Admissions};
use crate::locks;
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::reclaim::activity::Activity;
use crate::volume::Volume;
use crate::volume::segments::streams::Streams;
use buffer::Buffer;
use collector::{Collector, Sink};
use crew::Crew;
use pool::Pool;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use steadyfs_format::Layout;
use steadyfs_rt::Mutex;
use victim::Reach;

/// Collection by this host: the state of a mounted volume.
pub(crate) struct HostReclaim {
    vol: Arc<Volume>,
    /// Its dirty pages of directories are written by the next checkpoint.
    budget: Budget,
    admissions: Arc<Admissions>,
    serial: Mutex<()>,
    /// For those who collect themselves, one at a time: F2FS' way, one victim after the other into the cold data log.
    single: Collector,
    pool: Option<Pool>,
    /// Sections kept for collection and checkpoints.
    reserved_sections: u64,
    /// How many of those writers may take while collectors are at work, before they wait for them. Collectors begin
    /// when half of them are gone, and see to it that a checkpoint frees as much when three quarters are.
    grace: u64,
    /// Sections beyond the bare need that a round of a writer frees.
    hysteresis: u64,
    totals: Mutex<GcReport>,
    times: Mutex<GcTimes>,
    /// The state of threads that collect beside the collectors (writers, housekeeper, commands), and how many wait to.
    alone: Activity,
    /// Of all collectors, for pages of their own.
    memory: Arc<buffer::Memory>,
    waiting: AtomicU64,
}

impl HostReclaim {
    /// Collection of a volume whose checkpoint reserves `reserved_segments` segments, by `collectors` threads of its
    /// own.
    pub(super) fn new(
        vol: &Arc<Volume>,
        budget: &Budget,
        options: &MountOptions,
        reserved_segments: u32,
        collectors: usize,
    ) -> Self {
        let reserved_sections = u64::from(reserved_segments.div_ceil(vol.layout().segs_per_sec));
        let reach = Reach::of(vol.layout().sections as usize).urgently(options.gc.search);
        let grace = if options.background_gc && collectors > 0 { reserved_sections / 4 } else { 0 };
        let bounded = pool::bounded(collectors, options.gc.generations, reserved_sections);
        assert_eq!(bounded, collectors, "a reserve of {reserved_sections} sections cannot bear so many collectors");
        let memory = Arc::default();
        let pool = (collectors > 0).then(|| Pool::new(vol, &options.gc, collectors, &memory));
        HostReclaim {
            vol: Arc::clone(vol),
            budget: budget.clone(),
            admissions: Arc::new(Admissions::new(pool.as_ref().map(Pool::announcer))),
            serial: Mutex::new(&locks::GC, ()),
            single: Collector {
                select: Box::new(victim::OneVictim::new(reach, options.gc.victims_by)),
                sink: Sink::cold_log(Buffer::new(&options.gc, 1, &memory)),
                crew: options.gc.crew().map(Crew::new),
            },
            pool,
            reserved_sections,
            grace,
            hysteresis: options.gc.hysteresis.into(),
            totals: Mutex::new(&locks::STATE, GcReport::default()),
            times: Mutex::new(&locks::STATE, GcTimes::default()),
            alone: Activity::default(),
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
    /// can bear beside `collectors` collectors.
    pub(super) fn data_logs(options: &GcOptions, layout: &Layout, reserved_segments: u32, collectors: usize) -> usize {
        let reserved_sections = u64::from(reserved_segments.div_ceil(layout.segs_per_sec));
        let left =
            pool::most_streams(reserved_sections).saturating_sub(Streams::count(collectors, options.generations));
        options.extra_logs(steadyfs_rt::cpus()).min(left)
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

    /// Changes that have passed the gate.
    pub(super) fn admissions(&self) -> &Arc<Admissions> {
        &self.admissions
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
}

impl Headroom for HostReclaim {
    fn has_room(&self) -> bool {
        self.free_sections_suffice(0)
    }

    fn try_pass<'a>(&self, admissions: &'a Admissions, blocks: u64) -> Option<Admission<'a>> {
        self.note_request();
        let admission = Admission::if_room(admissions, blocks, || self.writers_have_room())?;
        if let Some(pool) = &self.pool {
            pool.work_ahead(self);
        }
        Some(admission)
    }

    fn note_request(&self) {
        if let Some(pool) = &self.pool {
            pool.note_request();
        }
    }

    fn announce(&self) {
        if let Some(pool) = &self.pool {
            pool.announce_room();
        }
    }
}
