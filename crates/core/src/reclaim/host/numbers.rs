//! What collection tells of itself.

use super::buffer::GcMemory;
use super::pool::Pool;
use crate::reclaim::Reclaim;
use crate::reclaim::activity::CollectorsNow;
use crate::reclaim::report::{GcTimes, SectionCounts};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Reclaim {
    /// See `Fs::gc_times`.
    pub(crate) fn gc_times(&self) -> GcTimes {
        let Some(host) = self.by_host() else { return GcTimes::default() };
        let mut times = *host.times.lock();
        times.busy += host.pool.as_ref().map_or(Duration::ZERO, Pool::busy_now);
        times
    }

    /// See `Fs::gc_memory`.
    pub(crate) fn gc_memory(&self) -> GcMemory {
        self.by_host().map_or_else(GcMemory::default, |host| host.memory.stats())
    }

    /// Who collects now, and what.
    pub(crate) fn collectors_now(&self) -> CollectorsNow {
        let Some(host) = self.by_host() else { return CollectorsNow::default() };
        let mut now = host.pool.as_ref().map_or_else(CollectorsNow::default, Pool::now);
        now.writers_waiting += host.waiting.load(Relaxed);
        now.alone = host.alone.stats();
        now
    }

    /// See `Fs::sections`.
    pub(crate) fn sections(&self) -> SectionCounts {
        let total = u64::from(self.vol.layout().sections);
        let free = self.vol.placement.segments().map_or(0, |segments| segments.table.free_sections());
        let Some(host) = self.by_host() else {
            // What makes sections free elsewhere has no needs of its own here.
            return SectionCounts { total, free, ..SectionCounts::default() };
        };
        SectionCounts {
            total,
            free,
            prefree: self.vol.prefree_sections(),
            needed: host.sections_needed() - host.grace,
            reserved: host.reserved_sections,
        }
    }

    /// See `Fs::open_streams`.
    pub(crate) fn open_streams(&self) -> usize {
        self.vol.placement.segments().map_or(0, |segments| segments.streams.open())
    }

    /// See `Fs::open_data_logs`.
    pub(crate) fn open_data_logs(&self) -> usize {
        self.vol.placement.segments().map_or(0, |segments| segments.streams.open_data_logs())
    }
}
