//! A run on a volume: mkfs and mount, the act of the workload, and in the end the check of all pages and of the volume.

use super::course::Course;
use super::phases::{Measured, Metrics, Outcome, Trial, make_target, named};
use super::recovery;
use super::sample::{FlashNow, Snapshot, Source};
use crate::device::Target;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::record::Row;
use crate::spec::Experiment;
use crate::stage::{Stage, Tally, Traffic};
use crate::workload::{Act, Plan};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs;
use steadyfs_core::stats::VolumeStats;
use steadyfs_flash::EmulatedSsd;
use steadyfs_rt::now;
use steadyfs_rt::sim::cpu_time;

/// See the head of the module.
pub(super) struct VolumeTrial<'a> {
    experiment: &'a Experiment,
    seed: u64,
    target: Target,
    stage: Arc<Stage>,
    act: Box<dyn Act>,
    /// Counters at the beginning of the measured phase, and the share of the users' space that was taken.
    before: VolumeStats,
    filled: f64,
}

impl<'a> VolumeTrial<'a> {
    /// A new volume that is mounted, and the workload on it.
    pub(super) fn new(
        experiment: &'a Experiment,
        plan: &dyn Plan,
        seed: u64,
        progress: &Arc<Progress>,
    ) -> Result<Self> {
        let target = make_target(experiment)?;
        let stage = Stage::new(&make_volume(experiment, &target)?, seed, progress);
        let act = plan.act(&stage);
        Ok(VolumeTrial { experiment, seed, target, stage, act, before: VolumeStats::default(), filled: 0.0 })
    }
}

fn make_volume(experiment: &Experiment, target: &Target) -> Result<Arc<Fs>> {
    mkfs::format(&*target.device(), &experiment.mkfs_options()?).map_err(Error::core("making the volume"))?;
    let mount = experiment.mount_options().map_err(Error::core("volume.mount"))?;
    Fs::mount(target.device(), mount).map_err(Error::core("mounting the volume"))
}

impl Trial for VolumeTrial<'_> {
    fn layout_bytes(&self) -> u64 {
        self.experiment.workload.file_bytes()
    }

    fn lay_out(&mut self) -> Result<()> {
        self.act.lay_out()
    }

    fn amount(&self) -> u64 {
        self.act.amount()
    }

    fn seconds(&self) -> Option<f64> {
        self.act.seconds()
    }

    fn begin(&mut self) {
        self.target.begin();
        self.before = self.stage.fs.stats();
        self.filled = utilisation(&self.stage.fs);
    }

    fn source(&self) -> Option<Arc<dyn Source>> {
        Some(Arc::new(OnVolume { stage: Arc::clone(&self.stage), ssd: self.target.ssd().cloned() }))
    }

    fn work(&mut self) -> Result<Tally> {
        self.act.work()
    }

    fn figures(&mut self, measured: &Measured, metrics: &mut Metrics) -> Result<()> {
        self.of_measured(measured, metrics);
        if let Some((cut, ssd)) = self.experiment.cut.zip(self.target.ssd()) {
            metrics.extend(recovery::figures(self.experiment, cut, &self.stage.fs, ssd, self.seed)?);
        }
        Ok(())
    }

    /// Everything is read back, and what is left is checked.
    fn check(self: Box<Self>, outcome: &mut Outcome) -> Result<()> {
        let VolumeTrial { experiment, target, stage, mut act, .. } = *self;
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
        Ok(())
    }
}

impl VolumeTrial<'_> {
    /// Figures of the measured phase.
    fn of_measured(&self, measured: &Measured, metrics: &mut Metrics) {
        let (fs, traffic) = (&self.stage.fs, &self.stage.traffic);
        let after = fs.stats();
        let seconds = measured.seconds;
        metrics.extend(self.target.metrics(seconds));
        metrics.extend(of_traffic(seconds, traffic));
        metrics.extend(of_volume(seconds, traffic, &self.before, &after));
        metrics.insert("gc_false_reads_per_million".into(), 1e6 * metrics["gc_false_reads"] / metrics["ios"].max(1.0));
        metrics.extend(of_memory(fs));
        metrics.extend(of_records(fs, &measured.rows, &measured.course));
        metrics.extend(of_zones(fs));
        // Whoever collects sections: the device where the host moves nothing.
        let section = if fs.migration_stats().is_some() { "flash_line_us" } else { "gc_section_us" };
        if let Some(us) = metrics.get(section).copied() {
            metrics.insert("section_us".into(), us);
        }
        metrics.extend(measured.series(self.before.gc.done.victims as f64));
        metrics.extend(measured.course.windows(&self.experiment.windows));
        if let Some(flash) = metrics.get("flash_waf") {
            let both = metrics["waf"] * flash;
            metrics.insert("total_waf".into(), both);
        }
        // Flash beside what the files need, for each byte of theirs; a trace does not tell what they need.
        let files = self.experiment.workload.file_bytes();
        if let Some(pages) = self.target.flash_pages().filter(|_| files > 0) {
            metrics.insert("flash_spare".into(), pages as f64 * 4096.0 / files as f64 - 1.0);
        }
        metrics.insert("utilisation_before".into(), self.filled);
        metrics.insert("utilisation".into(), utilisation(fs));
    }
}

/// The share of the space for users that is taken.
fn utilisation(fs: &Fs) -> f64 {
    let statfs = fs.statfs();
    1.0 - statfs.blocks_free as f64 / statfs.blocks as f64
}

/// What the workload moved.
fn of_traffic(seconds: f64, traffic: &Traffic) -> impl Iterator<Item = (String, f64)> {
    let (written, read) = (traffic.written() as f64, traffic.read() as f64);
    named([
        ("mb_s", (written + read) / seconds / 1e6),
        ("write_mb_s", written / seconds / 1e6),
        ("read_mb_s", read / seconds / 1e6),
    ])
}

/// What the file system did for it.
fn of_volume(
    seconds: f64,
    traffic: &Traffic,
    before: &VolumeStats,
    after: &VolumeStats,
) -> impl Iterator<Item = (String, f64)> {
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

/// A volume under a workload, and the flash below it if there is any.
struct OnVolume {
    stage: Arc<Stage>,
    ssd: Option<Arc<EmulatedSsd>>,
}

impl Source for OnVolume {
    fn snapshot(&self) -> Snapshot {
        let Stage { fs, traffic, .. } = &*self.stage;
        let io = fs.io_stats();
        Snapshot {
            at: now(),
            written: traffic.written(),
            read: traffic.read(),
            device_written: io.written_blocks(),
            device_read: io.read,
            cpu: cpu_time(),
            upcalls: fs.migration_stats().map_or(0, |stats| stats.upcalls),
            flash: self.ssd.as_ref().map(|ssd| FlashNow::from(&ssd.stats())).unwrap_or_default(),
        }
    }

    fn state(&self, row: &mut Row) {
        let fs = &self.stage.fs;
        let sections = fs.sections();
        row.free_sections = sections.free as f64;
        row.prefree_sections = sections.prefree as f64;
        row.victims = fs.gc_totals().victims as f64;
        row.dirty_pages = fs.cache_stats().dirty as f64;
        self.stage.progress.note(row);
    }
}
