//! What collection tells of itself.

use super::buffer::GcMemory;
use super::pool::Pool;
use crate::fs::Fs;
use crate::reclaim::report::{GcTimes, SectionCounts};
use crate::stats::activity::CollectorsNow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Fs {
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
        let free = self.vol.placement.segments().map_or(0, |segments| segments.table.free_sections());
        let Some(host) = self.reclaim.host() else {
            // What makes sections free elsewhere has no needs of its own here.
            return SectionCounts { total, free, ..SectionCounts::default() };
        };
        SectionCounts {
            total,
            free,
            prefree: self.vol.prefree_sections(),
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
}
