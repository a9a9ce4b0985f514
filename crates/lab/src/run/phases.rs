//! The phases of a run, inside the simulation. They are the same for all workloads: what a workload has in each of them
//! is a [`Trial`].
//!
//! Figures that mean the same have the same names with all of them.

use super::course::Course;
use super::neighbour::{self, AtWork};
use super::sample::{Sampler, Source};
use crate::device::Target;
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::record::{LockWaits, Row};
use crate::spec::Experiment;
use crate::stage::Tally;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_rt::{lock_stats, now, reset_lock_stats};

/// Figures by name.
pub(super) type Metrics = BTreeMap<String, f64>;

/// What the simulation returns.
pub(super) struct Outcome {
    pub(super) metrics: Metrics,
    pub(super) latencies: BTreeMap<String, Vec<(f64, f64)>>,
    pub(super) locks: Vec<LockWaits>,
    pub(super) checks: BTreeMap<String, String>,
    pub(super) rows: Vec<Row>,
}

/// The measured phase as it went.
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) rows: Vec<Row>,
    pub(super) course: Course,
}

/// A workload in a run. The methods are called once each, in this order, inside the simulation.
pub(super) trait Trial {
    /// How far the layout advances the progress.
    fn layout_bytes(&self) -> u64 {
        0
    }

    /// Makes what the measured phase begins with.
    fn lay_out(&mut self) -> Result<()>;

    /// How far the measured phase advances the progress in all; 0 if time ends it.
    fn amount(&self) -> u64;

    /// After how many virtual seconds the measured phase ends at the latest, if it does.
    fn seconds(&self) -> Option<f64> {
        None
    }

    /// Notes counters of which the figures are differences.
    fn begin(&mut self) {}

    /// What a series is sampled of, if there is one.
    fn source(&self) -> Option<Arc<dyn Source>> {
        None
    }

    /// The measured phase, to its end.
    fn work(&mut self) -> Result<Tally>;

    /// Ends tasks that go on for as long as the work does; what they counted.
    fn wind_up(&mut self) -> Result<Tally> {
        Ok(Tally::default())
    }

    /// Adds figures to those of the operations.
    fn figures(&mut self, measured: &Measured, metrics: &mut Metrics) -> Result<()>;

    /// Checks what is left, and notes what was checked.
    fn check(self: Box<Self>, outcome: &mut Outcome) -> Result<()>;
}

/// Everything, in order.
pub(super) fn all(mut trial: Box<dyn Trial + '_>, experiment: &Experiment, progress: &Progress) -> Result<Outcome> {
    progress.enter(Phase::Layout);
    progress.expect(trial.layout_bytes());
    trial.lay_out()?;
    let mut outcome = measure(&mut *trial, experiment, progress)?;
    progress.enter(Phase::Verifying);
    trial.check(&mut outcome)?;
    Ok(outcome)
}

/// The measured phase.
fn measure(trial: &mut dyn Trial, experiment: &Experiment, progress: &Progress) -> Result<Outcome> {
    progress.enter(Phase::Measuring);
    progress.expect(trial.amount());
    progress.end_after(trial.seconds().unwrap_or(0.0));
    let alone = experiment.neighbour.as_ref().map(neighbour::alone);
    reset_lock_stats();
    trial.begin();
    let sampler = trial.source().map(|source| Sampler::start(source, experiment.interval));
    let beside = experiment.neighbour.as_ref().map(AtWork::start);
    let began = now();
    let worked = trial.work();
    let seconds = began.elapsed().as_secs_f64().max(1e-9);
    let beside = beside.map(AtWork::finish);
    let (rows, course) = sampler.map(Sampler::finish).unwrap_or_default();
    let mut tally = worked?;
    tally.merge(&trial.wind_up()?);
    let locks = lock_stats().into_iter().map(LockWaits::from).collect();
    let measured = Measured { seconds, rows, course };
    let mut metrics = tally.metrics(seconds);
    metrics.insert("seconds".into(), seconds);
    metrics.extend(alone.zip(beside).into_iter().flat_map(|(alone, beside)| neighbour::figures(alone, beside)));
    trial.figures(&measured, &mut metrics)?;
    Ok(Outcome { metrics, latencies: tally.curves(), locks, checks: BTreeMap::new(), rows: measured.rows })
}

impl Measured {
    /// Figures of the series; `victims_before` is the number of victims at its beginning.
    pub(super) fn series(&self, victims_before: f64) -> impl Iterator<Item = (String, f64)> {
        of_series(&self.rows, victims_before).into_iter().chain(self.course.tenths())
    }
}

/// The device that the experiment names.
pub(super) fn make_target(experiment: &Experiment) -> Result<Target> {
    let (areas, zones, cut) = (experiment.areas()?, experiment.zones()?, experiment.cut.is_some());
    Target::new(&experiment.device, experiment.addresses(), areas.as_ref(), zones.as_ref(), cut)
        .map_err(|why| Error::spec(&experiment.name, why))
}

pub(super) fn named<const N: usize>(figures: [(&str, f64); N]) -> impl Iterator<Item = (String, f64)> {
    figures.map(|(name, value)| (name.to_owned(), value)).into_iter()
}

/// When collection began, and what that did to the jobs.
fn of_series(rows: &[Row], victims_before: f64) -> Vec<(String, f64)> {
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
