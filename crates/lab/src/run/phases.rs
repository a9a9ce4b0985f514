//! The steps of a run, inside the simulation, and the figures that are made of the counters.

use super::course::Course;
use super::neighbour::{self, AtWork};
use super::progress::{Phase, Progress};
use super::record::{LockWaits, Row};
use super::recovery;
use super::sample::{OnVolume, Sampler};
use crate::device::Target;
use crate::error::{Error, Result};
use crate::spec::Experiment;
use crate::workload::{Act, Plan, Stage, Traffic};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs;
use steadyfs_core::stats::VolumeStats;
use steadyfs_rt::{lock_stats, now, reset_lock_stats};

/// What the simulation returns.
pub(super) struct Outcome {
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) latencies: BTreeMap<String, Vec<(f64, f64)>>,
    pub(super) locks: Vec<LockWaits>,
    pub(super) checks: BTreeMap<String, String>,
    pub(super) rows: Vec<Row>,
}

/// Everything, in order.
pub(super) fn all(experiment: &Experiment, seed: u64, progress: &Arc<Progress>) -> Result<Outcome> {
    let mut target = make_target(experiment)?;
    let fs = make_volume(experiment, &target)?;
    let stage = Stage::new(&fs, seed, progress);
    let mut act = experiment.workload.act(&stage);
    progress.enter(Phase::Layout);
    progress.expect(experiment.workload.file_bytes());
    act.lay_out()?;
    let mut outcome = measure(experiment, &stage, &mut *act, &mut target)?;
    if let Some((cut, ssd)) = experiment.cut.zip(target.ssd()) {
        outcome.metrics.extend(recovery::figures(experiment, cut, &stage.fs, ssd, seed)?);
    }
    drop(fs);
    finish(experiment, stage, act, &target, outcome)
}

/// The device that the experiment names.
pub(super) fn make_target(experiment: &Experiment) -> Result<Target> {
    let (areas, zones, cut) = (experiment.areas()?, experiment.zones()?, experiment.cut.is_some());
    Target::new(&experiment.device, experiment.addresses(), areas.as_ref(), zones.as_ref(), cut)
        .map_err(|why| Error::spec(&experiment.name, why))
}

fn make_volume(experiment: &Experiment, target: &Target) -> Result<Arc<Fs>> {
    mkfs::format(&*target.device(), &experiment.mkfs_options()?).map_err(Error::core("making the volume"))?;
    let mount = experiment.mount_options().map_err(Error::core("volume.mount"))?;
    Fs::mount(target.device(), mount).map_err(Error::core("mounting the volume"))
}

/// The measured phase.
fn measure(experiment: &Experiment, stage: &Arc<Stage>, act: &mut dyn Act, target: &mut Target) -> Result<Outcome> {
    stage.progress.enter(Phase::Measuring);
    stage.progress.expect(act.amount());
    stage.progress.end_after(act.seconds().unwrap_or(0.0));
    let alone = experiment.neighbour.as_ref().map(neighbour::alone);
    reset_lock_stats();
    target.begin();
    let before = stage.fs.stats();
    let filled = utilisation(&stage.fs);
    let source = OnVolume { stage: Arc::clone(stage), ssd: target.ssd().cloned() };
    let sampler = Sampler::start(&Arc::new(source), experiment.interval);
    let beside = experiment.neighbour.as_ref().map(AtWork::start);
    let began = now();
    let worked = act.work();
    let elapsed = began.elapsed();
    let beside = beside.map(AtWork::finish);
    let (rows, course) = sampler.finish();
    let tally = worked?;
    let locks = lock_stats().into_iter().map(LockWaits::from).collect();
    let after = stage.fs.stats();
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let mut metrics = target.metrics(elapsed.as_secs_f64());
    metrics.extend(tally.metrics(seconds));
    metrics.extend(of_traffic(seconds, &stage.traffic));
    metrics.extend(of_volume(elapsed, &stage.traffic, &before, &after));
    metrics.insert("gc_false_reads_per_million".into(), 1e6 * metrics["gc_false_reads"] / metrics["ios"].max(1.0));
    metrics.extend(of_memory(&stage.fs));
    metrics.extend(of_records(&stage.fs, &rows, &course));
    metrics.extend(of_zones(&stage.fs));
    // Whoever collects sections: the device where the host moves nothing.
    let section = if stage.fs.migration_stats().is_some() { "flash_line_us" } else { "gc_section_us" };
    if let Some(us) = metrics.get(section).copied() {
        metrics.insert("section_us".into(), us);
    }
    metrics.extend(alone.zip(beside).into_iter().flat_map(|(alone, beside)| neighbour::figures(alone, beside)));
    metrics.extend(of_series(&rows, before.gc.done.victims as f64));
    metrics.extend(course.tenths());
    metrics.extend(course.windows(&experiment.windows));
    if let Some(flash) = metrics.get("flash_waf") {
        let both = metrics["waf"] * flash;
        metrics.insert("total_waf".into(), both);
    }
    // Flash beside what the files need, for each byte of theirs; a trace does not tell what they need.
    let files = experiment.workload.file_bytes();
    if let Some(pages) = target.flash_pages().filter(|_| files > 0) {
        metrics.insert("flash_spare".into(), pages as f64 * 4096.0 / files as f64 - 1.0);
    }
    metrics.insert("utilisation_before".into(), filled);
    metrics.insert("utilisation".into(), utilisation(&stage.fs));
    Ok(Outcome { metrics, latencies: tally.curves(), locks, checks: BTreeMap::new(), rows })
}

/// The share of the space for users that is taken.
fn utilisation(fs: &Fs) -> f64 {
    let statfs = fs.statfs();
    1.0 - statfs.blocks_free as f64 / statfs.blocks as f64
}

pub(super) fn named<const N: usize>(figures: [(&str, f64); N]) -> impl Iterator<Item = (String, f64)> {
    figures.map(|(name, value)| (name.to_owned(), value)).into_iter()
}

/// What the workload moved.
fn of_traffic(seconds: f64, traffic: &Traffic) -> impl Iterator<Item = (String, f64)> {
    let (written, read) = (traffic.written() as f64, traffic.read() as f64);
    named([
        ("seconds", seconds),
        ("mb_s", (written + read) / seconds / 1e6),
        ("write_mb_s", written / seconds / 1e6),
        ("read_mb_s", read / seconds / 1e6),
    ])
}

/// What the file system did for it.
fn of_volume(
    elapsed: Duration,
    traffic: &Traffic,
    before: &VolumeStats,
    after: &VolumeStats,
) -> impl Iterator<Item = (String, f64)> {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let since = |f: fn(&VolumeStats) -> u64| (f(after) - f(before)) as f64;
    let blocks = traffic.written() as f64 / 4096.0;
    let device_written = since(|c| c.io.written_blocks());
    let device_read = since(|c| c.io.read);
    let (victims, moved) = (since(|c| c.gc.done.victims), since(|c| c.gc.done.data_moved));
    let time = |f: fn(&VolumeStats) -> Duration| (f(after) - f(before)).as_secs_f64();
    let busy = time(|c| c.gc.times.busy);
    let per = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    named([
        ("waf", per(device_written, blocks)),
        ("device_over_app", per(device_written + device_read, blocks)),
        ("device_write_mb_s", device_written * 4096.0 / seconds / 1e6),
        ("device_read_mb_s", device_read * 4096.0 / seconds / 1e6),
        ("device_mb_s", (device_written + device_read) * 4096.0 / seconds / 1e6),
        ("data_blocks", since(|c| c.io.data_written)),
        ("node_blocks", since(|c| c.io.node_written)),
        ("meta_blocks", since(|c| c.io.meta_written)),
        ("flushes", since(|c| c.io.flushes)),
        ("discarded_blocks", since(|c| c.io.discarded)),
        ("discards", since(|c| c.discards.requests)),
        ("user_mib", after.space.blocks as f64 / 256.0),
        ("checkpoints", since(|c| c.checkpoints.committed)),
        ("fsync_checkpoints", since(|c| c.fsyncs.checkpoints.values().sum())),
        ("fsyncs_journaled", since(|c| c.fsyncs.journaled)),
        ("journal_batches", since(|c| c.journal.batches)),
        ("journal_blocks", since(|c| c.journal.blocks)),
        ("gc_rounds", since(|c| c.gc.times.rounds)),
        ("gc_s", busy),
        ("gc_share", busy / seconds),
        ("gc_reading_s", time(|c| c.gc.done.reading)),
        ("gc_checkpoints_s", time(|c| c.gc.times.checkpointing)),
        ("gc_victims", victims),
        ("gc_moved_blocks", moved),
        ("gc_moved_nodes", since(|c| c.gc.done.nodes_moved)),
        ("gc_skipped_blocks", since(|c| c.gc.done.skipped.total())),
        ("gc_held_blocks", since(|c| c.gc.done.skipped.held)),
        ("gc_false_reads", since(|c| c.gc.done.skipped.late)),
        ("gc_stale_victims", since(|c| c.gc.done.stale_victims)),
        ("gc_us_per_moved_block", per(busy * 1e6, moved)),
        ("gc_section_us", per(busy * 1e6, victims)),
    ])
}

/// What collectors hold of pages of their own at most, and each of them on average then.
fn of_memory(fs: &Fs) -> impl Iterator<Item = (String, f64)> {
    let stats = fs.stats();
    let (peak, collectors) = (stats.gc.memory.peak as f64, stats.collectors.number.max(1) as f64);
    named([("gc_memory_mb", peak / 1e6), ("gc_memory_per_collector_kb", peak / 1e3 / collectors)])
}

/// The fate of the records of a device that moves blocks, and how much of the regular area was in use when it began to
/// collect. That is taken at the end of the interval in which the host heard of the first ones. A flash that programs
/// more than the host writes is no sign of it, for a flush pads what is open.
fn of_records(fs: &Fs, rows: &[Row], course: &Course) -> Vec<(String, f64)> {
    let Some(stats) = fs.migration_stats() else { return Vec::new() };
    let mut out: Vec<(String, f64)> = named([
        ("records_moved", stats.moved as f64),
        ("records_stale", stats.stale as f64),
        ("records_most", stats.most_outstanding as f64),
        ("upcalls", stats.upcalls as f64),
    ])
    .collect();
    let begun = course.first_upcall().and_then(|at| rows.get(at));
    out.extend(begun.map(|row| {
        ("regular_used_at_collection".to_owned(), 1.0 - row.free_sections / stats.regular_sections.max(1) as f64)
    }));
    out
}

/// What became of the zones of a zoned device since the mount.
fn of_zones(fs: &Fs) -> Vec<(String, f64)> {
    let Some(stats) = fs.zone_stats() else { return Vec::new() };
    named([
        ("zones_reset", stats.resets as f64),
        ("zones_finished", stats.finished as f64),
        ("zones_most_active", f64::from(stats.most_active)),
    ])
    .collect()
}

/// When collection began, and what that did to the jobs.
pub(super) fn of_series(rows: &[Row], victims_before: f64) -> Vec<(String, f64)> {
    let Some(start) = rows.iter().position(|row| row.victims > victims_before) else { return Vec::new() };
    // The interval in which it begins belongs to neither side.
    let (before, after) = (&rows[..start], &rows[start + 1..]);
    let mean = |rows: &[Row], f: fn(&Row) -> f64| rows.iter().map(f).sum::<f64>() / rows.len().max(1) as f64;
    let app = |row: &Row| row.app_write_mb_s + row.app_read_mb_s;
    let device = |row: &Row| row.device_write_mb_s + row.device_read_mb_s;
    let cpu = |row: &Row| row.cpu;
    let mut out: Vec<(String, f64)> = named([("gc_start_s", rows[start].seconds)]).collect();
    if before.is_empty() || after.is_empty() {
        return out;
    }
    let most = before.iter().map(app).fold(0.0, f64::max);
    let least = after.iter().map(app).filter(|rate| *rate > 0.0).fold(f64::INFINITY, f64::min);
    out.extend(named([
        ("before_gc_mb_s", mean(before, app)),
        ("after_gc_mb_s", mean(after, app)),
        ("drop", mean(before, app) / mean(after, app).max(1e-9)),
        ("drop_largest", if least.is_finite() { most / least } else { 0.0 }),
        ("before_gc_device_mb_s", mean(before, device)),
        ("after_gc_device_mb_s", mean(after, device)),
        ("before_gc_cpu", mean(before, cpu)),
        ("after_gc_cpu", mean(after, cpu)),
    ]));
    out
}

/// How the level after the beginning of collection goes on: writes of 4 KiB a second in thousands before, after, in the
/// first and in the last third after, and write amplification in that last third.
pub(super) fn levels(rows: &[Row], victims_before: f64) -> Vec<(String, f64)> {
    let Some(start) = rows.iter().position(|row| row.victims > victims_before) else { return Vec::new() };
    let (before, after) = (&rows[..start], &rows[start + 1..]);
    let third = after.len() / 3;
    if before.is_empty() || third == 0 {
        return Vec::new();
    }
    let (early, late) = (&after[..third], &after[after.len() - third..]);
    let mean = |rows: &[Row], f: fn(&Row) -> f64| rows.iter().map(f).sum::<f64>() / rows.len() as f64;
    let kiops = |rows: &[Row]| mean(rows, |row| row.app_write_mb_s / 4.096);
    named([
        ("kiops_before", kiops(before)),
        ("kiops_after", kiops(after)),
        ("kiops_after_early", kiops(early)),
        ("kiops_after_late", kiops(late)),
        ("after_late_to_early", kiops(late) / kiops(early).max(1e-9)),
        ("waf_late", mean(late, |row| row.waf)),
    ])
    .collect()
}

/// Everything is read back, and what is left is checked.
fn finish(
    experiment: &Experiment,
    stage: Arc<Stage>,
    mut act: Box<dyn Act>,
    target: &Target,
    mut outcome: Outcome,
) -> Result<Outcome> {
    stage.progress.enter(Phase::Verifying);
    let mut note = |what: &str, came: String| outcome.checks.insert(what.to_owned(), came);
    if experiment.verify {
        stage.progress.expect(experiment.workload.file_bytes());
        note("contents", act.verify()?);
    }
    drop(act);
    stage.fs.unmount().map_err(Error::core("unmounting"))?;
    drop(stage);
    if let Some((left, share)) = target.records_left() {
        outcome.metrics.extend(named([("records_left", left), ("records_most_share", share)]));
    }
    if experiment.verify {
        let found = check(target.device(), &CheckOptions { leaks: true, ..CheckOptions::default() })
            .map_err(Error::core("checking the volume"))?;
        if !found.is_clean() {
            return Err(Error::Check(format!(
                "the volume has {} faults: {:?}",
                found.issues.len(),
                found.issues.first()
            )));
        }
        note("volume", "clean".to_owned());
    }
    note("device", target.self_check().map_err(Error::Check)?);
    Ok(outcome)
}
