//! A snapshot as plain text.

use std::fmt::{self, Write};
use std::time::Duration;

use steadyfs_core::stats::{CollectorStats, Doing, VolumeStats};
use steadyfs_format::BLOCK_SIZE;

use super::cells::{LEGEND, looks};
use super::source::Snapshot;
use super::{latency, logs};
use crate::size::human;

/// Cells in a line, and lines of the map.
const WIDTH: usize = 72;
const LINES: usize = 8;
/// Collectors that are listed.
const COLLECTORS: usize = 16;

/// The text of a snapshot; with what has happened since an earlier one, if there is one.
pub(super) fn text(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, now, before);
    out
}

fn write_all(out: &mut String, now: &Snapshot, before: Option<&Snapshot>) -> fmt::Result {
    let stats = &now.stats;
    writeln!(out, "{}: {}", now.volume, state(now))?;
    let space = &stats.space;
    let (used, all) = (space.blocks - space.blocks_free, space.blocks);
    writeln!(out, "space        {} of {} used ({} %)", size(used), size(all), used * 100 / all.max(1))?;
    match logs::are_in(stats) {
        true => logs::lines(now).iter().try_for_each(|(name, words)| writeln!(out, "{name:<12} {words}"))?,
        false => segments(out, now)?,
    }
    if !now.mounted {
        return Ok(());
    }
    traffic(out, stats, before.map(|b| &b.stats))?;
    held_up(out, stats)?;
    latencies(out, stats, before.map(|b| &b.stats))?;
    checkpoints(out, stats)?;
    if !logs::are_in(stats) {
        collection(out, stats)?;
    }
    for lock in &stats.locks {
        let (sum, longest) = (time(Duration::from_micros(lock.wait_us)), time(Duration::from_micros(lock.longest_us)));
        writeln!(out, "lock         {:<22} {} waits, {sum} in all, longest {longest}", lock.name, lock.waits)?;
    }
    Ok(())
}

/// Sections and segments in numbers, and as a map.
fn segments(out: &mut String, now: &Snapshot) -> fmt::Result {
    let s = &now.stats.sections;
    let parts = |total, free, emptied| format!("{total}: {free} free, {emptied} emptied");
    let sections = parts(s.total, s.free, s.prefree);
    writeln!(out, "sections     {sections}; writers wait at {}, the reserve is {}", s.needed, s.reserved)?;
    let s = &now.stats.segments;
    writeln!(out, "segments     {}, {} dirty, {} used", parts(s.total, s.free, s.prefree), s.dirty, s.used)?;
    let looks = looks(&now.segments, WIDTH * LINES);
    let per_cell = now.segments.in_cells(WIDTH * LINES).segments_per_cell;
    writeln!(out, "map          {per_cell} segments in a cell; {LEGEND}")?;
    let lines = looks.chunks(WIDTH).map(|line| line.iter().map(|look| look.letter()).collect::<String>());
    lines.into_iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// Mounted for how long, or not.
pub(super) fn state(now: &Snapshot) -> String {
    let access = if now.stats.read_only { ", read-only" } else { "" };
    let way = match now.stats.serving.transport.as_str() {
        "" => String::new(),
        transport => format!(", through {transport}"),
    };
    match now.mounted {
        true => format!("mounted for {}{access}{way}", clock(now.stats.mounted_us)),
        false => "not mounted".to_owned(),
    }
}

/// Hours, minutes and seconds.
pub(super) fn clock(us: u64) -> String {
    let s = us / 1_000_000;
    format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// A number of blocks, in bytes.
pub(super) fn size(blocks: u64) -> String {
    human(blocks * BLOCK_SIZE as u64)
}

/// A time, with the unit that suits it.
pub(super) fn time(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1000 => format!("{us} us"),
        us @ 1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// A ratio, or a dash.
pub(super) fn ratio(waf: Option<f64>) -> String {
    waf.map_or_else(|| "-".to_owned(), |waf| format!("{waf:.2}"))
}

/// What a collector does.
pub(super) fn doing(collector: &CollectorStats) -> String {
    match (collector.doing, collector.victim) {
        (Doing::Reading | Doing::Moving, Some(victim)) => format!("{} {victim}", collector.doing.name()),
        (doing, _) => doing.name().to_owned(),
    }
}

/// Bytes a second between two snapshots.
pub(super) struct Rates {
    pub(super) app_written: f64,
    pub(super) app_read: f64,
    pub(super) device_written: f64,
    pub(super) device_read: f64,
}

impl Rates {
    /// Nothing if no time has passed between them, or if they are of different mounts.
    pub(super) fn between(before: &VolumeStats, now: &VolumeStats) -> Option<Self> {
        let us = now.mounted_us.checked_sub(before.mounted_us).filter(|us| *us > 0)?;
        let seconds = Duration::from_micros(us).as_secs_f64();
        let rate = |of: fn(&VolumeStats) -> u64| of(now).saturating_sub(of(before)) as f64 / seconds;
        Some(Rates {
            app_written: rate(|s| s.app.written_bytes),
            app_read: rate(|s| s.app.read_bytes),
            device_written: rate(VolumeStats::device_written_bytes),
            device_read: rate(VolumeStats::device_read_bytes),
        })
    }
}

fn traffic(out: &mut String, stats: &VolumeStats, before: Option<&VolumeStats>) -> fmt::Result {
    let (app, written, read) = (&stats.app, stats.device_written_bytes(), stats.device_read_bytes());
    writeln!(out, "application  {} written, {} read", human(app.written_bytes), human(app.read_bytes))?;
    writeln!(out, "device       {} written, {} read, {} flushes", human(written), human(read), stats.io.flushes)?;
    let discards = &stats.discards;
    if discards.requests + discards.failed + discards.waiting_blocks > 0 {
        let failed = match discards.failed {
            0 => String::new(),
            failed => format!(", {failed} refused"),
        };
        let (done, waiting) = (size(stats.io.discarded), size(discards.waiting_blocks));
        writeln!(out, "discards     {done} in {} requests, {waiting} waiting{failed}", discards.requests)?;
    }
    if let Some(rates) = before.and_then(|before| Rates::between(before, stats)) {
        let rate = |bytes: f64| format!("{}/s", human(bytes as u64));
        let (w, r, dw, dr) = (rates.app_written, rates.app_read, rates.device_written, rates.device_read);
        writeln!(
            out,
            "now          application {} written, {} read; device {} written, {} read",
            rate(w),
            rate(r),
            rate(dw),
            rate(dr)
        )?;
    }
    let lately = before.map(|before| format!(", {} since the last look", ratio(stats.waf_since(before))));
    writeln!(out, "WAF          {} since the mount{}", ratio(stats.waf()), lately.unwrap_or_default())
}

/// Requests that have been in service for long.
fn held_up(out: &mut String, stats: &VolumeStats) -> fmt::Result {
    let all: u64 = stats.serving.in_service.values().sum();
    if all > 0 {
        let oldest = time(Duration::from_micros(stats.serving.oldest_us));
        writeln!(out, "in service   {all} requests, the oldest for {oldest}")?;
    }
    stats.serving.slow.iter().try_for_each(|request| {
        let [operation, lasted, cause, who] = latency::held(request);
        writeln!(out, "  {operation:<16} for {lasted}, waits for {cause}; {who}")
    })
}

/// Requests by operation; since the mount, or since an earlier look.
fn latencies(out: &mut String, stats: &VolumeStats, before: Option<&VolumeStats>) -> fmt::Result {
    let rows = latency::rows(stats, before);
    let since = if before.is_some() { "since the last look" } else { "since the mount" };
    if !rows.is_empty() {
        writeln!(out, "requests     {since}: {:>13} {:>10} {:>10} {:>10}", "number", "p50", "p99", "longest")?;
    }
    rows.iter().try_for_each(|row| {
        let [number, p50, p99, longest] = row.words();
        let operation = &row.operation;
        writeln!(out, "  {operation:<16} {number:>25} {p50:>10} {p99:>10} {longest:>10}")
    })
}

fn checkpoints(out: &mut String, stats: &VolumeStats) -> fmt::Result {
    let checkpoints = &stats.checkpoints;
    let causes = checkpoints.causes.iter().filter(|(_, n)| **n > 0).map(|(cause, n)| format!("{cause} {n}"));
    let causes = causes.collect::<Vec<_>>().join(", ");
    let (all, last) = (time(checkpoints.time), time(checkpoints.last));
    let longest = time(checkpoints.longest_freeze);
    writeln!(
        out,
        "checkpoints  {} in {all}, the last in {last}, longest freeze {longest} ({causes})",
        checkpoints.committed
    )
}

fn collection(out: &mut String, stats: &VolumeStats) -> fmt::Result {
    let (gc, now) = (&stats.gc.done, &stats.collectors);
    writeln!(
        out,
        "collection   {} victims, {} freed, {} data and {} node blocks moved; skipped {} gone, {} moved, {} late, {} held",
        gc.victims,
        gc.sections_freed,
        gc.data_moved,
        gc.nodes_moved,
        gc.skipped.gone,
        gc.skipped.moved,
        gc.skipped.late,
        gc.skipped.held
    )?;
    writeln!(
        out,
        "collectors   {}, {} working; {} writers waiting; busy {} in {} rounds",
        now.number,
        now.working,
        now.writers_waiting,
        time(stats.gc.times.busy),
        stats.gc.times.rounds
    )?;
    let line = |out: &mut String, name: &str, c: &CollectorStats| {
        let moved = c.data_moved + c.nodes_moved;
        writeln!(out, "  {name:<10} {:<16} {} victims, {} freed, {moved} moved", doing(c), c.victims, c.sections_freed)
    };
    now.each.iter().take(COLLECTORS).enumerate().try_for_each(|(i, c)| line(out, &i.to_string(), c))?;
    if now.each.len() > COLLECTORS {
        writeln!(out, "  and {} more", now.number.saturating_sub(COLLECTORS as u64))?;
    }
    line(out, "others", &now.alone)
}
