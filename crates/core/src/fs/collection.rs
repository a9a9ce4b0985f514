//! Collection of garbage, and what it tells.

use super::Fs;
use crate::error::Result;
use crate::reclaim::host::buffer::GcMemory;
use crate::reclaim::host::plan::GcPlan;
use crate::reclaim::report::{GcReport, GcTimes, SectionCounts, Urgency};
use crate::volume::segments::migrating::MigrationStats;
use std::ops::Range;

impl Fs {
    /// Cleans up to `sections` victims now, whatever the free space is, and commits a checkpoint.
    pub fn gc(&self, sections: u64, urgency: Urgency) -> Result<GcReport> {
        self.reclaim.gc(sections, urgency)
    }

    /// As [`Fs::gc`]; tells `cleaned` after each victim what was done with it.
    pub fn gc_each(&self, sections: u64, urgency: Urgency, cleaned: &mut dyn FnMut(&GcReport)) -> Result<GcReport> {
        self.reclaim.gc_each(sections, urgency, cleaned)
    }

    /// The collection that [`Fs::gc`] would do with `sections` sections. Writes nothing; also for volumes that are
    /// mounted for reading.
    ///
    /// # Errors
    /// Damaged or unreadable summaries of the victims.
    pub fn gc_plan(&self, sections: u64, urgency: Urgency) -> Result<GcPlan> {
        self.reclaim.gc_plan(sections, urgency)
    }

    /// Discards what is free in `range` (bytes of the device) where at least `minimum` bytes lie side by side; bytes
    /// discarded. A checkpoint comes first, so that what was deleted counts. Whole free sections count; what is free
    /// beside used blocks of a section does not, nor what writers may need meanwhile on a volume that is nearly full.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a range that is shorter than a block or begins behind the volume,
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the device takes no discards,
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), and what the device says.
    pub fn trim(&self, range: Range<u64>, minimum: u64) -> Result<u64> {
        self.reclaim.trim(range, minimum)
    }

    /// Sections by what can be done with them now.
    pub fn sections(&self) -> SectionCounts {
        self.reclaim.sections()
    }

    /// What collection has cost since the mount, in time; what goes on now included.
    pub fn gc_times(&self) -> GcTimes {
        self.reclaim.gc_times()
    }

    /// What collectors hold of pages of their own.
    pub fn gc_memory(&self) -> GcMemory {
        self.reclaim.gc_memory()
    }

    /// Collectors' streams that have a segment open now.
    pub fn open_streams(&self) -> usize {
        self.reclaim.open_streams()
    }

    /// Logs beside the format's six that have a segment open for users' data now.
    pub fn open_data_logs(&self) -> usize {
        self.reclaim.open_data_logs()
    }

    /// What became of the device's records, on a D2FS volume.
    pub fn migration_stats(&self) -> Option<MigrationStats> {
        self.reclaim.migration_stats()
    }
}
