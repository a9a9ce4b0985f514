//! Each statistic that a mount exports, once: its name, kind, unit, words, and where it stands in a snapshot.
//!
//! `steadyfs mount --metrics` prints the rows, and docs/METRICS.md has them: a test prints what the page lacks.
//! The snapshot itself is what `info`, `top` and the laboratory read. Kept true: each number of a snapshot moves a row,
//! but those that a test names with a reason; counters never fall; names are in the base units of Prometheus, seconds
//! and bytes.

use super::sample::{Sample, distribution};
use super::{Doing, Latency, SegmentMap, VALIDITY_CLASSES, VolumeStats};
use Part::{Checkpoints, Collection, Locks, Memory, Mount, Space, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::WaitCause;

/// What a statistic is about: a section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The mount as a whole.
    Mount,
    /// Bytes that came in and went out.
    Traffic,
    /// Checkpoints and fsyncs.
    Checkpoints,
    /// Collection.
    Collection,
    /// Sections, segments, blocks and inodes.
    Space,
    /// Memory of the process.
    Memory,
    /// Waits for locks.
    Locks,
}

impl Part {
    /// All of them, in the order of the page.
    pub const ALL: [Part; 7] = [Mount, Traffic, Checkpoints, Collection, Space, Memory, Locks];
}

/// How a statistic moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the mount ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times, counted by limits that they did not exceed, and added up.
    Histogram,
}

/// How a statistic is had from a snapshot and the map of segments.
#[derive(Clone, Copy)]
pub enum Read {
    /// One number.
    One(fn(&VolumeStats) -> f64),
    /// One number, or none yet.
    Maybe(fn(&VolumeStats) -> Option<f64>),
    /// Numbers for each value of this label.
    Each(&'static str, fn(&VolumeStats) -> Vec<(String, f64)>),
    /// As [`Read::Each`], from the map.
    Mapped(&'static str, fn(&SegmentMap) -> Vec<(String, f64)>),
    /// Times for each value of this label.
    Timed(&'static str, fn(&VolumeStats) -> &BTreeMap<String, Latency>),
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Statistic {
    /// The part of a volume that it is about.
    pub part: Part,
    /// Its name, without what all names begin with, and without the end that counters have.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// The unit, in a word.
    pub unit: &'static str,
    /// Its meaning, in a sentence.
    pub help: &'static str,
    /// Where it stands.
    pub read: Read,
}

impl Statistic {
    /// The name that is exported.
    pub fn full_name(&self) -> String {
        format!("steadyfs_{}{}", self.name, if self.kind == Kind::Counter { "_total" } else { "" })
    }

    /// The label; empty where there is one number only.
    pub fn label(&self) -> &'static str {
        match self.read {
            Read::One(_) | Read::Maybe(_) => "",
            Read::Each(label, _) | Read::Mapped(label, _) | Read::Timed(label, _) => label,
        }
    }

    /// The numbers.
    pub fn samples(&self, stats: &VolumeStats, map: &SegmentMap) -> Vec<Sample> {
        let one = |number| Sample { end: "", labels: Vec::new(), number };
        let each = |label: &'static str, numbers: Vec<(String, f64)>| {
            let sample = |(value, number)| Sample { end: "", labels: vec![(label, value)], number };
            numbers.into_iter().map(sample).collect()
        };
        match self.read {
            Read::One(read) => vec![one(read(stats))],
            Read::Maybe(read) => read(stats).map(one).into_iter().collect(),
            Read::Each(label, read) => each(label, read(stats)),
            Read::Mapped(label, read) => each(label, read(map)),
            Read::Timed(label, read) => {
                read(stats).iter().flat_map(|(value, latency)| distribution(label, value, latency)).collect()
            }
        }
    }
}

const fn counter(part: Part, name: &'static str, unit: &'static str, help: &'static str, read: Read) -> Statistic {
    Statistic { part, name, kind: Kind::Counter, unit, help, read }
}

const fn gauge(part: Part, name: &'static str, unit: &'static str, help: &'static str, read: Read) -> Statistic {
    Statistic { part, name, kind: Kind::Gauge, unit, help, read }
}

const fn histogram(part: Part, name: &'static str, unit: &'static str, help: &'static str, read: Read) -> Statistic {
    Statistic { part, name, kind: Kind::Histogram, unit, help, read }
}

const BYTES: &str = "bytes";
const SECONDS: &str = "seconds";
const NUMBER: &str = "number";
const SECTIONS: &str = "sections";

/// A number of blocks, in bytes.
fn bytes(blocks: u64) -> f64 {
    blocks as f64 * BLOCK_SIZE as f64
}

/// A time in seconds, to the microsecond.
fn seconds(time: Duration) -> f64 {
    micros(crate::waits::micros::of(time))
}

/// Microseconds, in seconds.
fn micros(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Numbers with names.
fn named<const N: usize>(numbers: [(&str, f64); N]) -> Vec<(String, f64)> {
    numbers.map(|(name, number)| (name.to_owned(), number)).into()
}

/// Numbers by name.
fn counts(numbers: &BTreeMap<String, u64>) -> Vec<(String, f64)> {
    numbers.iter().map(|(name, number)| (name.clone(), *number as f64)).collect()
}

/// A number of each collector, and of those without a thread.
fn collectors(stats: &VolumeStats, of: fn(&super::CollectorStats) -> f64) -> Vec<(String, f64)> {
    let each = stats.collectors.each.iter().enumerate().map(|(i, collector)| (i.to_string(), of(collector)));
    each.chain([("alone".to_owned(), of(&stats.collectors.alone))]).collect()
}

/// A number of each lock.
fn locks(stats: &VolumeStats, of: fn(&super::LockNumbers) -> f64) -> Vec<(String, f64)> {
    stats.locks.iter().map(|lock| (lock.name.clone(), of(lock))).collect()
}

/// Every statistic.
pub const STATISTICS: [Statistic; 93] = [
    gauge(
        Mount,
        "build_info",
        "1",
        "Version that serves the mount.",
        Read::Each("version", |_| named([(env!("CARGO_PKG_VERSION"), 1.0)])),
    ),
    gauge(
        Mount,
        "volume_info",
        "1",
        "Label of the volume that is mounted.",
        Read::Each("volume", |s| vec![(s.volume.label.clone(), 1.0)]),
    ),
    gauge(
        Mount,
        "volume_bytes",
        BYTES,
        "Size of the volume, with what the file system keeps for itself.",
        Read::One(|s| s.volume.size_bytes as f64),
    ),
    gauge(Mount, "mounted_seconds", SECONDS, "Time since the mount.", Read::One(|s| micros(s.mounted_us))),
    gauge(
        Mount,
        "read_only",
        "1",
        "1 if the volume takes no changes.",
        Read::One(|s| f64::from(u8::from(s.read_only))),
    ),
    gauge(
        Mount,
        "transport_info",
        "1",
        "Way that requests of the kernel take.",
        Read::Each("transport", |s| match s.serving.transport.as_str() {
            "" => Vec::new(),
            transport => named([(transport, 1.0)]),
        }),
    ),
    counter(
        Mount,
        "requests",
        NUMBER,
        "Requests of the kernel, by operation.",
        Read::Each("operation", |s| counts(&s.serving.requests)),
    ),
    histogram(
        Mount,
        "request_seconds",
        SECONDS,
        "Time of requests from their arrival to their reply.",
        Read::Timed("operation", |s| &s.serving.latency),
    ),
    gauge(
        Mount,
        "request_longest_seconds",
        SECONDS,
        "The longest of `request_seconds`.",
        Read::Each("operation", |s| {
            s.serving.latency.iter().map(|(name, latency)| (name.clone(), seconds(latency.longest))).collect()
        }),
    ),
    gauge(
        Mount,
        "requests_in_service",
        NUMBER,
        "Requests that have no reply yet, by operation.",
        Read::Each("operation", |s| {
            let now = |name: &String| s.serving.in_service.get(name).copied().unwrap_or_default();
            s.serving.requests.keys().map(|name| (name.clone(), now(name) as f64)).collect()
        }),
    ),
    gauge(
        Mount,
        "requests_waiting",
        NUMBER,
        "Of these, those that wait for something known, by what it is.",
        Read::Each("for", |s| {
            let now = |cause: WaitCause| s.serving.waiting.get(cause.name()).copied().unwrap_or_default();
            WaitCause::ALL.map(|cause| (cause.name().to_owned(), now(cause) as f64)).into()
        }),
    ),
    gauge(
        Mount,
        "request_oldest_seconds",
        SECONDS,
        "How long the oldest of these has been in service.",
        Read::One(|s| micros(s.serving.oldest_us)),
    ),
    gauge(
        Mount,
        "users_hold",
        NUMBER,
        "What users make the mount remember, by what it is.",
        Read::Each("what", |s| {
            let of = &s.serving;
            named([
                ("inodes", of.known_inodes as f64),
                ("nameless", of.held_inodes as f64),
                ("open_files", of.open_files as f64),
            ])
        }),
    ),
    counter(
        Traffic,
        "app_written_bytes",
        BYTES,
        "Bytes of file contents that users wrote.",
        Read::One(|s| s.app.written_bytes as f64),
    ),
    counter(
        Traffic,
        "app_read_bytes",
        BYTES,
        "Bytes of file contents that users read.",
        Read::One(|s| s.app.read_bytes as f64),
    ),
    counter(
        Traffic,
        "device_written_bytes",
        BYTES,
        "Bytes written to the device, by what they hold.",
        Read::Each("kind", |s| {
            named([
                ("data", bytes(s.io.data_written)),
                ("node", bytes(s.io.node_written)),
                ("meta", bytes(s.io.meta_written)),
            ])
        }),
    ),
    counter(Traffic, "device_read_bytes", BYTES, "Bytes read from the device.", Read::One(|s| bytes(s.io.read))),
    counter(
        Traffic,
        "device_discarded_bytes",
        BYTES,
        "Bytes that the device was told hold nothing.",
        Read::One(|s| bytes(s.io.discarded)),
    ),
    counter(
        Traffic,
        "discard_requests",
        NUMBER,
        "Discards that the device has done.",
        Read::One(|s| s.discards.requests as f64),
    ),
    counter(
        Traffic,
        "discard_failed_requests",
        NUMBER,
        "Discards that the device refused.",
        Read::One(|s| s.discards.failed as f64),
    ),
    counter(
        Traffic,
        "discard_reused_bytes",
        BYTES,
        "Bytes in use again before their turn to be discarded came.",
        Read::One(|s| bytes(s.discards.reused_blocks)),
    ),
    gauge(
        Traffic,
        "discard_waiting_bytes",
        BYTES,
        "Bytes that wait to be discarded.",
        Read::One(|s| bytes(s.discards.waiting_blocks)),
    ),
    counter(Traffic, "device_flushes", NUMBER, "Flushes of the device.", Read::One(|s| s.io.flushes as f64)),
    counter(
        Traffic,
        "device_through",
        NUMBER,
        "Requests that were durable when they ended, and needed no flush.",
        Read::One(|s| s.io.through as f64),
    ),
    counter(
        Traffic,
        "device_failed_requests",
        NUMBER,
        "Requests that the device failed.",
        Read::One(|s| s.io.failed as f64),
    ),
    gauge(
        Traffic,
        "write_amplification_ratio",
        "ratio",
        "Bytes written to the device for each byte that users wrote, since the mount.",
        Read::Maybe(VolumeStats::waf),
    ),
    counter(
        Checkpoints,
        "checkpoints",
        NUMBER,
        "Checkpoints committed, by why they were made.",
        Read::Each("cause", |s| counts(&s.checkpoints.causes)),
    ),
    counter(
        Checkpoints,
        "checkpoint_seconds",
        SECONDS,
        "Time of all checkpoints.",
        Read::One(|s| seconds(s.checkpoints.time)),
    ),
    gauge(
        Checkpoints,
        "checkpoint_last_seconds",
        SECONDS,
        "Time of the last checkpoint.",
        Read::One(|s| seconds(s.checkpoints.last)),
    ),
    gauge(
        Checkpoints,
        "checkpoint_longest_freeze_seconds",
        SECONDS,
        "Longest time that no change could begin.",
        Read::One(|s| seconds(s.checkpoints.longest_freeze)),
    ),
    counter(
        Checkpoints,
        "checkpoint_waits",
        NUMBER,
        "Changes that waited for a freeze, fsyncs that waited for a commit.",
        Read::Each("for", |s| {
            named([
                ("freeze", s.checkpoints.freeze_waits.waits as f64),
                ("commit", s.checkpoints.commit_waits.waits as f64),
            ])
        }),
    ),
    gauge(
        Checkpoints,
        "checkpoint_wait_p99_seconds",
        SECONDS,
        "What 99 of 100 of `checkpoint_waits_total` did not exceed.",
        Read::Each("for", |s| {
            named([
                ("freeze", seconds(s.checkpoints.freeze_waits.p99)),
                ("commit", seconds(s.checkpoints.commit_waits.p99)),
            ])
        }),
    ),
    gauge(
        Checkpoints,
        "checkpoint_longest_wait_seconds",
        SECONDS,
        "The longest of `checkpoint_waits_total`.",
        Read::Each("for", |s| {
            named([
                ("freeze", seconds(s.checkpoints.freeze_waits.longest)),
                ("commit", seconds(s.checkpoints.commit_waits.longest)),
            ])
        }),
    ),
    counter(
        Checkpoints,
        "fsyncs",
        NUMBER,
        "fsyncs by how they were served.",
        Read::Each("by", |s| {
            let own: u64 = s.fsyncs.checkpoints.values().sum();
            named([
                ("chain", s.fsyncs.chained as f64),
                ("journal", s.fsyncs.journaled as f64),
                ("covered", s.fsyncs.covered as f64),
                ("checkpoint", own as f64),
            ])
        }),
    ),
    counter(
        Checkpoints,
        "fsync_checkpoints",
        NUMBER,
        "fsyncs that needed a checkpoint, by why.",
        Read::Each("reason", |s| counts(&s.fsyncs.checkpoints)),
    ),
    counter(
        Checkpoints,
        "fsync_avoided_checkpoints",
        NUMBER,
        "fsyncs that would have needed a checkpoint without the metadata journal.",
        Read::One(|s| s.fsyncs.avoided as f64),
    ),
    counter(
        Checkpoints,
        "journal_batches",
        NUMBER,
        "Batches of the metadata journal.",
        Read::One(|s| s.journal.batches as f64),
    ),
    counter(
        Checkpoints,
        "journal_timed_batches",
        NUMBER,
        "Of these batches, those by time (`journal.commit=`), and not by an fsync.",
        Read::One(|s| s.journal.timed as f64),
    ),
    counter(
        Checkpoints,
        "journal_written_bytes",
        BYTES,
        "Bytes of these batches.",
        Read::One(|s| bytes(s.journal.blocks)),
    ),
    counter(
        Checkpoints,
        "journal_records",
        NUMBER,
        "Records in these batches.",
        Read::One(|s| s.journal.records as f64),
    ),
    counter(
        Checkpoints,
        "journal_absorbed_inodes",
        NUMBER,
        "Inodes whose records a checkpoint made needless.",
        Read::One(|s| s.journal.absorbed as f64),
    ),
    counter(
        Collection,
        "device_records",
        NUMBER,
        "Records of a device that moves blocks by itself (D2FS), by what they came to.",
        Read::Each("as", |s| {
            let records = &s.records;
            named([("moved", records.moved as f64), ("again", records.again as f64), ("stale", records.stale as f64)])
        }),
    ),
    counter(
        Collection,
        "device_upcalls",
        NUMBER,
        "Upcalls that brought them.",
        Read::One(|s| s.records.upcalls as f64),
    ),
    counter(
        Collection,
        "device_records_applied",
        NUMBER,
        "Number of the last of these records that was applied, since the volume was made.",
        Read::One(|s| s.records.applied as f64),
    ),
    gauge(
        Collection,
        "device_records_outstanding",
        NUMBER,
        "Records heard and not completed.",
        Read::One(|s| s.records.outstanding as f64),
    ),
    gauge(
        Collection,
        "device_records_most",
        NUMBER,
        "The most of them at one time.",
        Read::One(|s| s.records.most_outstanding as f64),
    ),
    counter(
        Collection,
        "device_zones",
        NUMBER,
        "Zones of a zoned device, by what became of them.",
        Read::Each("as", |s| {
            let zones = &s.zones;
            named([
                ("reset", zones.resets as f64),
                ("finished", zones.finished as f64),
                ("refused", zones.refused as f64),
                ("retired", zones.retired as f64),
            ])
        }),
    ),
    gauge(
        Collection,
        "device_zones_most_active",
        NUMBER,
        "Most zones that were partly written at one time.",
        Read::One(|s| f64::from(s.zones.most_active)),
    ),
    gauge(
        Collection,
        "device_regular_sections",
        SECTIONS,
        "Sections that the host writes, where the device has an area of its own.",
        Read::One(|s| s.records.regular_sections as f64),
    ),
    counter(Collection, "gc_victims", SECTIONS, "Sections cleaned.", Read::One(|s| s.gc.done.victims as f64)),
    counter(
        Collection,
        "gc_sections_freed",
        SECTIONS,
        "Sections that cleaning made free, at once or with a checkpoint.",
        Read::One(|s| s.gc.done.sections_freed as f64),
    ),
    counter(
        Collection,
        "gc_moved_bytes",
        BYTES,
        "Bytes that collection moved, by what they hold.",
        Read::Each("kind", |s| named([("data", bytes(s.gc.done.data_moved)), ("node", bytes(s.gc.done.nodes_moved))])),
    ),
    counter(
        Collection,
        "gc_skipped_blocks",
        "blocks",
        "Blocks of victims that were not moved, by why.",
        Read::Each("cause", |s| {
            let skipped = &s.gc.done.skipped;
            named([
                ("gone", skipped.gone as f64),
                ("moved", skipped.moved as f64),
                ("late", skipped.late as f64),
                ("held", skipped.held as f64),
            ])
        }),
    ),
    counter(
        Collection,
        "gc_stale_victims",
        SECTIONS,
        "Sections that had changed between being found and being cleaned.",
        Read::One(|s| s.gc.done.stale_victims as f64),
    ),
    counter(Collection, "gc_rounds", NUMBER, "Times that room was short.", Read::One(|s| s.gc.times.rounds as f64)),
    counter(
        Collection,
        "gc_busy_seconds",
        SECONDS,
        "Time during which somebody collected because room was short.",
        Read::One(|s| seconds(s.gc.times.busy)),
    ),
    counter(
        Collection,
        "gc_checkpoint_seconds",
        SECONDS,
        "Of `gc_busy_seconds_total`, checkpoints.",
        Read::One(|s| seconds(s.gc.times.checkpointing)),
    ),
    counter(
        Collection,
        "gc_read_seconds",
        SECONDS,
        "Time that collectors waited for blocks to be read, added up.",
        Read::One(|s| seconds(s.gc.done.reading)),
    ),
    gauge(
        Collection,
        "gc_memory_bytes",
        BYTES,
        "Memory that collectors hold for pages of their own.",
        Read::One(|s| s.gc.memory.held as f64),
    ),
    gauge(
        Collection,
        "gc_memory_peak_bytes",
        BYTES,
        "The most that `gc_memory_bytes` was.",
        Read::One(|s| s.gc.memory.peak as f64),
    ),
    gauge(
        Collection,
        "gc_collectors",
        NUMBER,
        "Collectors with a thread of their own.",
        Read::One(|s| s.collectors.number as f64),
    ),
    gauge(
        Collection,
        "gc_collectors_working",
        NUMBER,
        "Of `gc_collectors`, those at work.",
        Read::One(|s| s.collectors.working as f64),
    ),
    gauge(
        Collection,
        "gc_writers_waiting",
        NUMBER,
        "Writers that wait for room.",
        Read::One(|s| s.collectors.writers_waiting as f64),
    ),
    gauge(
        Collection,
        "gc_collectors_doing",
        NUMBER,
        "Collectors by what they do.",
        Read::Each("state", |s| {
            let count = |doing| s.collectors.each.iter().filter(|c| c.doing == doing).count() as f64;
            Doing::ALL.map(|doing| (doing.name().to_owned(), count(doing))).into()
        }),
    ),
    counter(
        Collection,
        "gc_collector_victims",
        SECTIONS,
        "Sections that each collector cleaned; `alone`: whoever has no thread for it.",
        Read::Each("collector", |s| collectors(s, |c| c.victims as f64)),
    ),
    counter(
        Collection,
        "gc_collector_moved_bytes",
        BYTES,
        "Bytes that each collector moved.",
        Read::Each("collector", |s| collectors(s, |c| bytes(c.data_moved + c.nodes_moved))),
    ),
    gauge(Space, "sections", SECTIONS, "Sections in all.", Read::One(|s| s.sections.total as f64)),
    gauge(Space, "sections_free", SECTIONS, "Sections ready to be written.", Read::One(|s| s.sections.free as f64)),
    gauge(
        Space,
        "sections_prefree",
        SECTIONS,
        "Emptied sections that wait for a checkpoint.",
        Read::One(|s| s.sections.prefree as f64),
    ),
    gauge(
        Space,
        "sections_needed",
        SECTIONS,
        "Writers wait for collection while no more sections than these are free.",
        Read::One(|s| s.sections.needed as f64),
    ),
    gauge(
        Space,
        "sections_reserved",
        SECTIONS,
        "Sections kept for collection.",
        Read::One(|s| s.sections.reserved as f64),
    ),
    gauge(
        Space,
        "sections_by_validity",
        SECTIONS,
        "Sections that hold something, by the share that is valid, rounded down.",
        Read::Mapped("validity", |map| {
            (0..VALIDITY_CLASSES)
                .map(|i| {
                    let share = if i + 1 == VALIDITY_CLASSES { "1".to_owned() } else { format!("0.{i}") };
                    (share, map.sections_by_validity[i] as f64)
                })
                .collect()
        }),
    ),
    gauge(
        Space,
        "segments",
        "segments",
        "Segments by what can be done with them.",
        Read::Each("state", |s| {
            named([
                ("free", s.segments.free as f64),
                ("prefree", s.segments.prefree as f64),
                ("dirty", s.segments.dirty as f64),
                ("used", s.segments.used as f64),
            ])
        }),
    ),
    gauge(
        Space,
        "log_capacity_bytes",
        BYTES,
        "What an IPLFS volume may hold at one time.",
        Read::One(|s| bytes(s.logs.capacity)),
    ),
    gauge(
        Space,
        "log_dead_bytes",
        BYTES,
        "What is dead on an IPLFS volume and perhaps still held.",
        Read::One(|s| bytes(s.logs.dead)),
    ),
    gauge(
        Space,
        "log_before_checkpoint_bytes",
        BYTES,
        "What a log of an IPLFS volume can take before the next checkpoint, of the one that has least.",
        Read::One(|s| bytes(s.logs.before_checkpoint)),
    ),
    gauge(
        Space,
        "log_before_end_bytes",
        BYTES,
        "What a log of an IPLFS volume can take at all, of the one that has least.",
        Read::One(|s| bytes(s.logs.before_end)),
    ),
    gauge(Space, "size_bytes", BYTES, "What files and nodes may use.", Read::One(|s| bytes(s.space.blocks))),
    gauge(Space, "free_bytes", BYTES, "What is free of `size_bytes`.", Read::One(|s| bytes(s.space.blocks_free))),
    gauge(Space, "valid_bytes", BYTES, "What is in use of `size_bytes`.", Read::One(|s| bytes(s.space.blocks_valid))),
    gauge(Space, "nodes", NUMBER, "Nodes, inodes among them.", Read::One(|s| s.space.nodes as f64)),
    gauge(Space, "inodes", NUMBER, "Inodes that could exist.", Read::One(|s| s.space.files as f64)),
    gauge(
        Space,
        "inodes_free",
        NUMBER,
        "Inodes that could still be created.",
        Read::One(|s| s.space.files_free as f64),
    ),
    gauge(
        Space,
        "orphan_inodes",
        NUMBER,
        "Inodes without a name.",
        Read::Each("state", |s| named([("listed", s.orphans.listed as f64), ("kept", s.orphans.kept as f64)])),
    ),
    gauge(
        Memory,
        "cache_limit_bytes",
        BYTES,
        "Most that the page cache may hold.",
        Read::One(|s| bytes(s.cache.limit)),
    ),
    gauge(Memory, "cache_bytes", BYTES, "What the page cache holds.", Read::One(|s| bytes(s.cache.cached))),
    gauge(
        Memory,
        "cache_dirty_bytes",
        BYTES,
        "Pages of the cache that are changed and not yet being written.",
        Read::One(|s| bytes(s.cache.dirty)),
    ),
    gauge(
        Memory,
        "cache_writing_bytes",
        BYTES,
        "Pages of the cache on their way to the device.",
        Read::One(|s| bytes(s.cache.flying)),
    ),
    gauge(
        Memory,
        "page_memory_bytes",
        BYTES,
        "Memory that this process has for pages.",
        Read::One(|s| s.memory.held_bytes as f64),
    ),
    gauge(
        Memory,
        "page_memory_spare_bytes",
        BYTES,
        "Memory of those that is free for the next pages.",
        Read::One(|s| s.memory.spare_bytes as f64),
    ),
    counter(
        Locks,
        "lock_waits",
        NUMBER,
        "Acquisitions that found the lock taken, since the process began.",
        Read::Each("lock", |s| locks(s, |lock| lock.waits as f64)),
    ),
    counter(
        Locks,
        "lock_wait_seconds",
        SECONDS,
        "Time waited for the lock, added up.",
        Read::Each("lock", |s| locks(s, |lock| micros(lock.wait_us))),
    ),
    gauge(
        Locks,
        "lock_longest_wait_seconds",
        SECONDS,
        "Longest wait for the lock.",
        Read::Each("lock", |s| locks(s, |lock| micros(lock.longest_us))),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{CollectorStats, LockNumbers, SlowRequest};
    use serde_json::Value;

    /// A section of the page as a table in Markdown.
    fn rows(part: Part) -> String {
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let row =
            |s: &Statistic| format!("| {} | {} | {} | {} |\n", code(&s.full_name()), code(s.label()), s.unit, s.help);
        let rows: String = STATISTICS.iter().filter(|s| s.part == part).map(row).collect();
        format!("| name | label | unit | meaning |\n|---|---|---|---|\n{rows}")
    }

    #[test]
    fn the_page_of_metrics_has_each_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METRICS.md");
        let page = std::fs::read_to_string(page).unwrap();
        let tables = Part::ALL.map(rows);
        let missing: Vec<_> = tables.iter().filter(|table| !page.contains(table.as_str())).cloned().collect();
        assert!(missing.is_empty(), "docs/METRICS.md lacks these tables:\n\n{}", missing.join("\n"));
        let lines = |text: &str| text.lines().filter(|line| line.starts_with("| `steadyfs_")).count();
        assert_eq!(lines(&page), STATISTICS.len(), "a metric that is in no table");
    }

    /// What is shipped for Prometheus and Grafana asks for nothing that no mount says, and leads to headings.
    #[test]
    fn rules_and_dashboard_use_numbers_that_exist() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let read = |name: &str| std::fs::read_to_string(format!("{root}{name}")).unwrap();
        let (rules, dashboard) = (read("service/alerts.yml"), read("service/grafana.json"));
        let names: Vec<_> = STATISTICS.iter().map(Statistic::full_name).collect();
        let histograms = STATISTICS.iter().filter(|s| s.kind == Kind::Histogram).map(Statistic::full_name);
        let histograms: Vec<_> = histograms.collect();
        for text in [&rules, &dashboard] {
            let words: Vec<&str> = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| word.starts_with("steadyfs_"))
                .collect();
            let is_known = |word: &str| {
                let ends = ["_bucket", "_sum", "_count"].iter().filter_map(|end| word.strip_suffix(end));
                names.iter().any(|name| name == word)
                    || ends.into_iter().any(|word| histograms.iter().any(|h| h == word))
            };
            let unknown: Vec<_> = words.iter().filter(|word| !is_known(word)).collect();
            assert!(words.len() > 10 && unknown.is_empty(), "{} names; unknown: {unknown:?}", words.len());
        }
        let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let asks = |panel: &&Value| panel["targets"].as_array().is_some_and(|targets| !targets.is_empty());
        assert!(panels.iter().filter(asks).count() > 10, "{} panels", panels.len());
        let alerts = rules.matches("- alert: ").count();
        let pages: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("page: ")).collect();
        assert!(alerts > 5 && pages.len() == alerts, "{alerts} alerts, {} pages", pages.len());
        for page in pages {
            let (file, heading) = page.trim_matches('"').split_once('#').unwrap();
            let anchor = |line: &str| {
                let kept = line.trim_start_matches('#').trim().to_lowercase();
                kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
            };
            let text = read(file);
            assert!(text.lines().any(|line| line.starts_with('#') && anchor(line) == heading), "{page}");
        }
    }

    #[test]
    fn names_are_distinct_and_in_base_units() {
        let mut names: Vec<_> = STATISTICS.iter().map(Statistic::full_name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), STATISTICS.len());
        for s in &STATISTICS {
            assert_eq!(s.name.ends_with("_seconds"), s.unit == SECONDS, "{}", s.name);
            assert_eq!(s.name.ends_with("_bytes"), s.unit == BYTES, "{}", s.name);
            assert!(s.help.ends_with('.') && !s.help.contains('\\'), "{}", s.help);
        }
    }

    /// A snapshot with something in each list.
    fn snapshot() -> VolumeStats {
        let mut stats = VolumeStats::default();
        stats.app.written_bytes = 1 << 20;
        stats.serving.requests.insert("lookup".into(), 1);
        stats.serving.latency.insert("lookup".into(), Latency::default());
        stats.serving.in_service.insert("lookup".into(), 1);
        stats.serving.waiting.insert("room".into(), 1);
        stats.serving.slow.push(SlowRequest::default());
        stats.checkpoints.causes.insert("sync".into(), 1);
        stats.fsyncs.checkpoints.insert("space".into(), 1);
        stats.collectors.each.push(CollectorStats::default());
        stats.locks.push(LockNumbers { name: "state".into(), ..LockNumbers::default() });
        stats
    }

    fn printed(stats: &VolumeStats) -> Vec<Vec<Sample>> {
        STATISTICS.iter().map(|s| s.samples(stats, &SegmentMap::default())).collect()
    }

    /// The ways to all numbers below a value.
    fn numbers(value: &Value, way: &str, ways: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(key, below)| numbers(below, &format!("{way}/{key}"), ways))
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, below)| numbers(below, &format!("{way}/{i}"), ways));
            }
            Value::Number(_) => ways.push(way.to_owned()),
            _ => {}
        }
    }

    #[test]
    fn each_number_of_a_snapshot_moves_a_metric() {
        let stats = snapshot();
        let (json, before) = (serde_json::to_value(&stats).unwrap(), printed(&stats));
        let mut ways = Vec::new();
        numbers(&json, "", &mut ways);
        assert!(ways.len() > 60, "{ways:?}");
        let moves = |way: &String| {
            let mut json = json.clone();
            let number = json.pointer_mut(way).unwrap();
            *number = (number.as_u64().unwrap() + 1_000_000_000).into();
            printed(&serde_json::from_value(json).unwrap()) != before
        };
        let silent: Vec<_> = ways.iter().filter(|way| !moves(way)).map(String::as_str).collect();
        let told_otherwise = [
            "/checkpoints/committed",            // the sum of the causes
            "/collectors/alone/sections_freed",  // with those of all collectors
            "/collectors/each/0/sections_freed", // the same
            "/discards/sections",                // part of the requests
            "/segments/total",                   // the sum of the states
            "/serving/latency/lookup/p50_us",    // had from the buckets
            "/serving/latency/lookup/p999_us",   // the same
            "/serving/latency/lookup/p99_us",    // the same
            "/serving/slow/0/inode",             // who waits is no number
            "/serving/slow/0/lasted_us",         // of the oldest it is one
            "/serving/slow/0/process",           // as above
            "/serving/slow/0/user",              // the same
        ];
        let mut silent = silent;
        silent.sort_unstable();
        assert_eq!(silent, told_otherwise);
    }

    #[test]
    fn a_snapshot_survives_its_serialised_form() {
        let mut stats = snapshot();
        stats.gc.times.busy = Duration::from_micros(7);
        stats.checkpoints.freeze_waits.p99 = Duration::from_micros(9);
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<VolumeStats>(&text).unwrap(), stats);
        // Names that scripts read.
        for name in ["\"busy_us\":7", "\"p99_us\":9", "\"memory_peak_bytes\":0", "\"writers_waiting\":0", "\"sync\":1"]
        {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
}
