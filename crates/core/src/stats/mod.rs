//! What a mounted volume tells of itself: its counters ([`Fs::stats`]) and a map of its segments ([`Fs::segment_map`]).
//!
//! The one place from which `steadyfs info`, `top` and `mount --metrics` have their numbers. Serialised, the names of
//! the fields are what those print as JSON. Kept true: a snapshot waits for no checkpoint and no collection, only for
//! locks that are held for moments. Its serialised form stays below 64 KiB, the most that the value of an extended
//! attribute can be. So does that of a map of [`MAP_CELLS`] cells.

mod map;
mod sample;
mod statfs;
mod table;
#[cfg(test)]
mod tests;

pub use crate::counters::Cause;
pub use crate::fs::serving::{MOST_SLOW, SLOW, Serving, ServingStats, SlowRequest};
pub use crate::reclaim::activity::{CollectorStats, CollectorsNow, Doing};
pub use map::{Cell, SegmentMap, VALIDITY_CLASSES};
pub use sample::Sample;
pub use table::{Kind, Part, Read, STATISTICS, Statistic};

use crate::durable::checkpoint::CheckpointStats;
use crate::durable::sync::SyncStats;
use crate::files::noted::journal::JournalStats;
use crate::files::orphans::OrphanStats;
use crate::files::pages::CacheStats;
use crate::fs::Fs;
use crate::reclaim::host::buffer::GcMemory;
pub use crate::reclaim::report::Skipped;
use crate::reclaim::report::{GcReport, GcTimes, SectionCounts};
use crate::volume::Volume;
use crate::volume::discard::DiscardStats;
use crate::volume::io::IoStats;
use crate::volume::segments::migrating::MigrationStats;
use crate::volume::segments::zoned::{ZoneStats, Zones};
use crate::waits::micros;
pub use crate::waits::{Histogram, LATENCY_LIMITS_US, Latency};
use serde::{Deserialize, Serialize};
use steadyfs_format::BLOCK_SIZE;

/// Cells of a map that still fits into the value of an extended attribute, however large the volume.
pub const MAP_CELLS: usize = 1024;

/// Collectors that are listed one by one; of more only these, beside the sums of all.
pub const MOST_LISTED: usize = 160;

/// The counters of a mounted volume, since the mount unless said otherwise. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// How long it has been mounted.
    pub mounted_us: u64,
    /// Whether it takes no changes.
    pub read_only: bool,
    /// What the volume is.
    #[serde(default)]
    pub volume: VolumeIdentity,
    /// What serves it.
    #[serde(default)]
    pub serving: ServingStats,
    /// What users wrote and read.
    pub app: AppStats,
    /// What went to the device and came from it.
    pub io: IoStats,
    /// What became of discards; blocks discarded are counted in `io`.
    #[serde(default)]
    pub discards: DiscardStats,
    /// Checkpoints.
    pub checkpoints: CheckpointStats,
    /// How fsyncs were served.
    pub fsyncs: SyncStats,
    /// What the metadata journal did.
    #[serde(default)]
    pub journal: JournalStats,
    /// What collection did.
    pub gc: GcStats,
    /// Who collects, now.
    pub collectors: CollectorsNow,
    /// Sections by what can be done with them, now.
    pub sections: SectionCounts,
    /// Segments by what can be done with them, now.
    pub segments: SegmentNumbers,
    /// The logs of an IPLFS volume, now; all zero on others.
    #[serde(default)]
    pub logs: LogNumbers,
    /// What became of the records of the device below a D2FS volume; all zero on others.
    #[serde(default)]
    pub records: MigrationStats,
    /// What became of the zones of a zoned device; all zero on others.
    #[serde(default)]
    pub zones: ZoneStats,
    /// Blocks and inodes, now.
    pub space: SpaceNumbers,
    /// Inodes without a name, now.
    pub orphans: OrphanStats,
    /// The page cache, now, in pages.
    pub cache: CacheStats,
    /// Memory for pages, of all that this process has: cached ones, nodes, and those on their way.
    #[serde(default)]
    pub memory: MemoryNumbers,
    /// Waits by the lock that was waited for, the longest sum first: of all volumes that this process has mounted,
    /// since its start. A lock that nobody waited for is not listed.
    pub locks: Vec<LockNumbers>,
}

/// What a volume is: what its superblock says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeIdentity {
    /// `f2fs`, `d2fs` or `iplfs`.
    pub kind: String,
    /// Its name.
    pub label: String,
    /// As RFC 9562 writes it.
    pub uuid: String,
    /// The features that it was made with.
    pub features: Vec<String>,
    /// Bytes of all of it, with what the file system keeps for itself.
    pub size_bytes: u64,
}

/// Memory for pages, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNumbers {
    /// Taken from the system.
    pub held_bytes: u64,
    /// Part of it: kept for the next pages, in pieces that no page uses.
    pub spare_bytes: u64,
}

impl MemoryNumbers {
    fn now() -> Self {
        let steadyfs_device::PageMemory { held, kept_free } = steadyfs_device::page_memory();
        MemoryNumbers { held_bytes: held, spare_bytes: kept_free }
    }
}

/// What users wrote and read, in bytes: what came in through the library's calls, the mount's among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStats {
    /// Bytes of file contents written.
    pub written_bytes: u64,
    /// Bytes of file contents read.
    pub read_bytes: u64,
}

/// What collection did, what it cost, and the memory of collectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcStats {
    /// Victims, sections and blocks.
    #[serde(flatten)]
    pub done: GcReport,
    /// What writers waited for.
    #[serde(flatten)]
    pub times: GcTimes,
    /// Pages of collectors' own.
    #[serde(flatten)]
    pub memory: GcMemory,
}

/// Segments by what can be done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentNumbers {
    /// All.
    pub total: u64,
    /// Ready to be written.
    pub free: u64,
    /// Empty, and free with the next checkpoint.
    pub prefree: u64,
    /// Written, with valid blocks and with garbage: what collection can choose from.
    pub dirty: u64,
    /// All others: full ones, and those that a log writes to.
    pub used: u64,
}

/// The infinite logs of an IPLFS volume, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogNumbers {
    /// What may be held at one time.
    pub capacity: u64,
    /// Dead, and perhaps still held.
    pub dead: u64,
    /// What a log can take before the next checkpoint, of the one that has least.
    pub before_checkpoint: u64,
    /// What a log can take at all, of the one that has least.
    pub before_end: u64,
}

/// Blocks and inodes. Blocks are of 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceNumbers {
    /// Blocks that files and nodes may use.
    pub blocks: u64,
    /// Blocks that are free.
    pub blocks_free: u64,
    /// Blocks in use.
    pub blocks_valid: u64,
    /// Of those, nodes.
    pub nodes: u64,
    /// Inodes that could exist.
    pub files: u64,
    /// Inodes that could still be created.
    pub files_free: u64,
}

/// Waits for the locks of one purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockNumbers {
    /// The name of the lock.
    pub name: String,
    /// Acquisitions that found it taken.
    pub waits: u64,
    /// Time waited, added up.
    pub wait_us: u64,
    /// The longest wait.
    pub longest_us: u64,
}

impl VolumeStats {
    /// Bytes written to the device.
    pub fn device_written_bytes(&self) -> u64 {
        self.io.written_blocks() * BLOCK_SIZE as u64
    }

    /// Bytes read from the device.
    pub fn device_read_bytes(&self) -> u64 {
        self.io.read * BLOCK_SIZE as u64
    }

    /// Write amplification: bytes written to the device for each byte that users wrote; `None` while they wrote none.
    pub fn waf(&self) -> Option<f64> {
        self.waf_since(&VolumeStats::default())
    }

    /// As [`VolumeStats::waf`], since an earlier snapshot.
    pub fn waf_since(&self, before: &VolumeStats) -> Option<f64> {
        let app = self.app.written_bytes.saturating_sub(before.app.written_bytes);
        let device = self.device_written_bytes().saturating_sub(before.device_written_bytes());
        (app > 0).then(|| device as f64 / app as f64)
    }
}

impl Fs {
    /// The counters now.
    pub fn stats(&self) -> VolumeStats {
        let space = self.statfs();
        let counts = self.vol.space.counts();
        let (written_bytes, read_bytes) = self.files.traffic.bytes();
        let mut collectors = self.reclaim.collectors_now();
        collectors.each.truncate(MOST_LISTED);
        VolumeStats {
            mounted_us: micros::of(self.vol.clock.mounted().elapsed()),
            read_only: self.is_read_only(),
            volume: self.vol.identity(),
            serving: self.serving.get().map(|serving| serving()).unwrap_or_default(),
            app: AppStats { written_bytes, read_bytes },
            io: self.io_stats(),
            discards: self.vol.placement.discard_stats(),
            checkpoints: self.checkpoint_stats(),
            fsyncs: self.sync_stats(),
            journal: self.journal_stats(),
            gc: GcStats { done: self.gc_totals(), times: self.gc_times(), memory: self.gc_memory() },
            collectors,
            sections: self.sections(),
            segments: self.vol.segment_numbers(),
            logs: self.vol.log_numbers(),
            records: self.migration_stats().unwrap_or_default(),
            zones: self.zone_stats().unwrap_or_default(),
            space: SpaceNumbers {
                blocks: space.blocks,
                blocks_free: space.blocks_free,
                blocks_valid: counts.blocks,
                nodes: counts.nodes,
                files: space.files,
                files_free: space.files_free,
            },
            orphans: self.orphan_stats(),
            cache: self.cache_stats(),
            memory: MemoryNumbers::now(),
            locks: lock_numbers(),
        }
    }

    /// What became of zones since the mount, if the volume is written to a zoned device.
    pub fn zone_stats(&self) -> Option<ZoneStats> {
        let segments = self.vol.placement.segments()?;
        segments.medium.zones().map(Zones::stats)
    }

    /// From now on snapshots hold what `serving` tells. Once only: a second one is dropped.
    pub fn set_serving(&self, serving: Serving) {
        let _ = self.serving.set(serving);
    }
}

impl Volume {
    fn identity(&self) -> VolumeIdentity {
        let superblock = &self.sb;
        VolumeIdentity {
            kind: superblock.kind().to_owned(),
            label: superblock.label(),
            uuid: steadyfs_format::quote::uuid(&superblock.uuid()),
            features: superblock.features().names().map(str::to_owned).collect(),
            size_bytes: self.layout().block_count.saturating_mul(BLOCK_SIZE as u64),
        }
    }

    fn log_numbers(&self) -> LogNumbers {
        self.placement.room().map_or_else(LogNumbers::default, |room| LogNumbers {
            capacity: room.capacity,
            dead: room.dead,
            before_checkpoint: room.before_limit,
            before_end: room.before_end,
        })
    }

    fn segment_numbers(&self) -> SegmentNumbers {
        let Some(segs) = self.placement.segments().map(|segments| &segments.table) else {
            return SegmentNumbers::default();
        };
        let (total, free) = (u64::from(segs.len()), segs.free_segments());
        let (prefree, dirty) = (segs.prefree.count() as u64, segs.dirty.count() as u64);
        SegmentNumbers { total, free, prefree, dirty, used: total.saturating_sub(free + prefree + dirty) }
    }
}

fn lock_numbers() -> Vec<LockNumbers> {
    let stats = steadyfs_rt::lock_stats();
    let numbers = |stat: steadyfs_rt::LockStat| LockNumbers {
        name: stat.name.to_owned(),
        waits: stat.waits,
        wait_us: stat.wait_ns / 1000,
        longest_us: stat.max_wait_ns / 1000,
    };
    stats.into_iter().map(numbers).collect()
}
