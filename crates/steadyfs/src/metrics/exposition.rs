//! A snapshot as Prometheus' text exposition format, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! Kept true: every name begins with `steadyfs_` and has a HELP and a TYPE line before its samples; counters end in
//! `_total`, and only they; units are seconds and bytes; label values are known words and numbers, which need no
//! escapes.

use std::fmt::Write;

use steadyfs_core::stats::{Doing, SegmentMap, VALIDITY_CLASSES, VolumeStats};
use steadyfs_format::BLOCK_SIZE;

const BLOCK: f64 = BLOCK_SIZE as f64;
/// Kinds of families.
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// The text of an exposition, family after family.
struct Text(String);

impl Text {
    /// A family: its samples are pairs of a label's value and a number.
    fn family<L: std::fmt::Display>(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let full = format!("steadyfs_{name}{}", if kind == COUNTER { "_total" } else { "" });
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {full} {help}\n# TYPE {full} {kind}");
        for (value, number) in samples {
            let _ = match label {
                "" => writeln!(self.0, "{full} {number}"),
                label => writeln!(self.0, "{full}{{{label}=\"{value}\"}} {number}"),
            };
        }
    }

    fn counter(&mut self, name: &str, help: &str, number: f64) {
        self.family(COUNTER, name, help, "", [("", number)]);
    }

    fn gauge(&mut self, name: &str, help: &str, number: f64) {
        self.family(GAUGE, name, help, "", [("", number)]);
    }
}

/// A number of blocks, in bytes.
fn bytes(blocks: u64) -> f64 {
    blocks as f64 * BLOCK
}

/// Microseconds, in seconds.
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The exposition of a snapshot.
pub(super) fn render(stats: &VolumeStats, map: &SegmentMap) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    text.family(GAUGE, "build_info", "Version that serves the mount.", "version", [(env!("CARGO_PKG_VERSION"), 1.0)]);
    text.gauge("mounted_seconds", "Time since the mount.", seconds(stats.mounted_us));
    text.gauge("read_only", "1 if the volume takes no changes.", f64::from(u8::from(stats.read_only)));
    traffic(&mut text, stats);
    checkpoints(&mut text, stats);
    collection(&mut text, stats);
    collectors(&mut text, stats);
    space(&mut text, stats, map);
    let locks = || stats.locks.iter();
    text.family(
        COUNTER,
        "lock_waits",
        "Acquisitions that found the lock taken, since the process began.",
        "lock",
        locks().map(|l| (&l.name, l.waits as f64)),
    );
    text.family(
        COUNTER,
        "lock_wait_seconds",
        "Time waited for the lock, added up.",
        "lock",
        locks().map(|l| (&l.name, seconds(l.wait_us))),
    );
    text.family(
        GAUGE,
        "lock_longest_wait_seconds",
        "Longest wait for the lock.",
        "lock",
        locks().map(|l| (&l.name, seconds(l.longest_us))),
    );
    text.0
}

fn traffic(text: &mut Text, stats: &VolumeStats) {
    let (app, io) = (&stats.app, &stats.io);
    text.counter("app_written_bytes", "Bytes of file contents that users wrote.", app.written_bytes as f64);
    text.counter("app_read_bytes", "Bytes of file contents that users read.", app.read_bytes as f64);
    let written = [("data", io.data_written), ("node", io.node_written), ("meta", io.meta_written)];
    text.family(
        COUNTER,
        "device_written_bytes",
        "Bytes written to the device, by what they hold.",
        "kind",
        written.map(|(kind, blocks)| (kind, bytes(blocks))),
    );
    text.counter("device_read_bytes", "Bytes read from the device.", bytes(io.read));
    text.counter("device_discarded_bytes", "Bytes that the device was told hold nothing.", bytes(io.discarded));
    let discards = &stats.discards;
    text.counter("discard_requests", "Discards that the device has done.", discards.requests as f64);
    text.counter("discard_failed_requests", "Discards that the device refused.", discards.failed as f64);
    text.counter(
        "discard_reused_bytes",
        "Bytes in use again before their turn to be discarded came.",
        bytes(discards.reused_blocks),
    );
    text.gauge("discard_waiting_bytes", "Bytes that wait to be discarded.", bytes(discards.waiting_blocks));
    text.counter("device_flushes", "Flushes of the device.", io.flushes as f64);
    text.counter("device_failed_requests", "Requests that the device failed.", io.failed as f64);
    text.family(
        GAUGE,
        "write_amplification_ratio",
        "Bytes written to the device for each byte that users wrote, since the mount.",
        "",
        stats.waf().map(|waf| ("", waf)),
    );
}

fn checkpoints(text: &mut Text, stats: &VolumeStats) {
    let checkpoints = &stats.checkpoints;
    let named = |numbers: &std::collections::BTreeMap<String, u64>| -> Vec<(String, f64)> {
        numbers.iter().map(|(name, number)| (name.clone(), *number as f64)).collect()
    };
    text.family(
        COUNTER,
        "checkpoints",
        "Checkpoints committed, by why they were made.",
        "cause",
        named(&checkpoints.causes),
    );
    text.counter("checkpoint_seconds", "Time of all checkpoints.", seconds(checkpoints.time_us));
    text.gauge("checkpoint_last_seconds", "Time of the last checkpoint.", seconds(checkpoints.last_us));
    text.gauge(
        "checkpoint_longest_freeze_seconds",
        "Longest time that no change could begin.",
        seconds(checkpoints.longest_freeze_us),
    );
    let waits = [("freeze", checkpoints.freeze_waits), ("commit", checkpoints.commit_waits)];
    text.family(
        COUNTER,
        "checkpoint_waits",
        "Changes that waited for a freeze, fsyncs that waited for a commit.",
        "for",
        waits.map(|(what, waits)| (what, waits.count as f64)),
    );
    text.family(
        GAUGE,
        "checkpoint_wait_p99_seconds",
        "What 99 of 100 of those waits did not exceed.",
        "for",
        waits.map(|(what, waits)| (what, seconds(waits.p99_us))),
    );
    text.family(
        GAUGE,
        "checkpoint_longest_wait_seconds",
        "The longest of those waits.",
        "for",
        waits.map(|(what, waits)| (what, seconds(waits.longest_us))),
    );
    let own: u64 = stats.fsyncs.checkpoints.values().sum();
    let served = [("chain", stats.fsyncs.chained), ("covered", stats.fsyncs.covered), ("checkpoint", own)];
    text.family(COUNTER, "fsyncs", "fsyncs by how they were served.", "by", served.map(|(by, n)| (by, n as f64)));
    text.family(
        COUNTER,
        "fsync_checkpoints",
        "fsyncs that needed a checkpoint, by why.",
        "reason",
        named(&stats.fsyncs.checkpoints),
    );
}

fn collection(text: &mut Text, stats: &VolumeStats) {
    let gc = &stats.gc;
    text.counter("gc_victims", "Sections cleaned.", gc.victims as f64);
    text.counter(
        "gc_sections_freed",
        "Sections that cleaning made free, at once or with a checkpoint.",
        gc.sections_freed as f64,
    );
    text.family(
        COUNTER,
        "gc_moved_bytes",
        "Bytes that collection moved, by what they hold.",
        "kind",
        [("data", bytes(gc.data_moved)), ("node", bytes(gc.nodes_moved))],
    );
    let skipped =
        [("gone", gc.skipped.gone), ("moved", gc.skipped.moved), ("late", gc.skipped.late), ("held", gc.skipped.held)];
    text.family(
        COUNTER,
        "gc_skipped_blocks",
        "Blocks of victims that were not moved, by why.",
        "cause",
        skipped.map(|(cause, blocks)| (cause, blocks as f64)),
    );
    text.counter(
        "gc_stale_victims",
        "Sections that had changed between being found and being cleaned.",
        gc.stale_victims as f64,
    );
    text.counter("gc_rounds", "Times that room was short.", gc.rounds as f64);
    text.counter(
        "gc_busy_seconds",
        "Time during which somebody collected because room was short.",
        seconds(gc.busy_us),
    );
    text.counter("gc_checkpoint_seconds", "Of that, checkpoints.", seconds(gc.checkpointing_us));
    text.counter(
        "gc_read_seconds",
        "Time that collectors waited for blocks to be read, added up.",
        seconds(gc.reading_us),
    );
    text.gauge("gc_memory_bytes", "Memory that collectors hold for pages of their own.", gc.memory_bytes as f64);
    text.gauge("gc_memory_peak_bytes", "The most of that at a time.", gc.memory_peak_bytes as f64);
}

fn collectors(text: &mut Text, stats: &VolumeStats) {
    let now = &stats.collectors;
    text.gauge("gc_collectors", "Collectors with a thread of their own.", now.number as f64);
    text.gauge("gc_collectors_working", "Of those, the ones that work.", now.working as f64);
    text.gauge("gc_writers_waiting", "Writers that wait for room.", now.writers_waiting as f64);
    let doing = [Doing::Idle, Doing::Choosing, Doing::Reading, Doing::Moving, Doing::Checkpoint];
    let count = |doing: Doing| now.each.iter().filter(|c| c.doing == doing).count() as f64;
    text.family(
        GAUGE,
        "gc_collectors_doing",
        "Collectors by what they do.",
        "state",
        doing.map(|d| (d.name(), count(d))),
    );
    let alone = [("alone".to_owned(), &now.alone)];
    let each = || now.each.iter().enumerate().map(|(i, c)| (i.to_string(), c)).chain(alone.clone());
    text.family(
        COUNTER,
        "gc_collector_victims",
        "Sections that each collector cleaned; `alone`: whoever has no thread for it.",
        "collector",
        each().map(|(name, c)| (name, c.victims as f64)),
    );
    text.family(
        COUNTER,
        "gc_collector_moved_bytes",
        "Bytes that each collector moved.",
        "collector",
        each().map(|(name, c)| (name, bytes(c.data_moved + c.nodes_moved))),
    );
}

fn space(text: &mut Text, stats: &VolumeStats, map: &SegmentMap) {
    let (sections, segments, space) = (&stats.sections, &stats.segments, &stats.space);
    text.gauge("sections", "Sections in all.", sections.total as f64);
    text.gauge("sections_free", "Sections ready to be written.", sections.free as f64);
    text.gauge("sections_prefree", "Emptied sections that wait for a checkpoint.", sections.prefree as f64);
    text.gauge(
        "sections_needed",
        "Writers wait for collection while no more sections than these are free.",
        sections.needed as f64,
    );
    text.gauge("sections_reserved", "Sections kept for collection.", sections.reserved as f64);
    let classes = (0..VALIDITY_CLASSES).map(|i| match i {
        i if i + 1 == VALIDITY_CLASSES => ("1".to_owned(), map.sections_by_validity[i] as f64),
        i => (format!("0.{i}"), map.sections_by_validity[i] as f64),
    });
    text.family(
        GAUGE,
        "sections_by_validity",
        "Sections that hold something, by the share that is valid, rounded down.",
        "validity",
        classes,
    );
    let states =
        [("free", segments.free), ("prefree", segments.prefree), ("dirty", segments.dirty), ("used", segments.used)];
    text.family(
        GAUGE,
        "segments",
        "Segments by what can be done with them.",
        "state",
        states.map(|(s, n)| (s, n as f64)),
    );
    text.gauge("size_bytes", "What files and nodes may use.", bytes(space.blocks));
    text.gauge("free_bytes", "What of that is free.", bytes(space.blocks_free));
    text.gauge("valid_bytes", "What is in use.", bytes(space.blocks_valid));
    text.gauge("nodes", "Nodes, inodes among them.", space.nodes as f64);
    text.gauge("inodes", "Inodes that could exist.", space.files as f64);
    text.gauge("inodes_free", "Inodes that could still be created.", space.files_free as f64);
    text.family(
        GAUGE,
        "orphan_inodes",
        "Inodes without a name.",
        "state",
        [("listed", stats.orphans.listed as f64), ("kept", stats.orphans.kept as f64)],
    );
    let cache = &stats.cache;
    text.gauge("cache_limit_bytes", "Most that the page cache may hold.", bytes(cache.limit));
    text.gauge("cache_bytes", "What the page cache holds.", bytes(cache.cached));
    text.gauge("cache_dirty_bytes", "What of that nobody writes yet.", bytes(cache.dirty));
    text.gauge("page_memory_bytes", "Memory that this process has for pages.", stats.memory.held_bytes as f64);
    text.gauge("page_memory_spare_bytes", "What of that is kept for the next pages.", stats.memory.spare_bytes as f64);
    text.gauge("cache_writing_bytes", "What of that is on its way to the device.", bytes(cache.flying));
}
