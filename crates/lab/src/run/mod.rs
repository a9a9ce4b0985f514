//! One run of an experiment: everything inside one simulation, from mkfs to the check of what is left.
//!
//! The phases, in `phases`:
//! 1. Lay out the files.
//! 2. Measure: the workload works, and a series is sampled (`sample`).
//! 3. Check what is left. A run whose checks fail is an error, not a result.
//!
//! What happens in each of them is a `Trial`. There is one for each subject that a workload has: `volume`, `raw`,
//! `victims`, `committing`.
//!
//! Kept true: what is in [`Run::record`] and [`Run::rows`] depends on the experiment and the seed alone. What depends
//! on the machine ([`Cost`]) stands apart.

mod committing;
mod course;
mod many;
mod neighbour;
mod phases;
mod raw;
mod recovery;
mod sample;
mod victims;
mod volume;

use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::record::{Cost, Record, Run};
use crate::spec::{Experiment, Scale};
use crate::workload::Subject;
use committing::CommitTrial;
pub use many::run_seeds;
pub(crate) use many::{Errand, run_jobs};
use phases::Trial;
use raw::DeviceTrial;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use steadyfs_core::{Own, VictimPolicy};
use steadyfs_rt::sim;
use victims::VictimTrial;
use volume::VolumeTrial;

/// Runs an experiment that compares no systems once, with a seed, on the calling thread.
///
/// # Errors
/// The file system or the simulation failed, or a check of the results.
pub fn run(experiment: &Experiment, scale: Scale, seed: u64, progress: &Arc<Progress>) -> Result<Run> {
    run_system(experiment, "", scale, seed, progress)
}

/// Runs one of the systems of an experiment.
///
/// # Errors
/// As [`run`].
pub fn run_system(
    experiment: &Experiment,
    system: &str,
    scale: Scale,
    seed: u64,
    progress: &Arc<Progress>,
) -> Result<Run> {
    one(experiment, experiment.of_system(system, scale)?, system, scale, seed, progress)
}

/// Runs an experiment that compares no systems with a policy of the program's own for victims; `name` is that of the
/// system in the results.
///
/// # Errors
/// As [`run`].
pub fn run_with_victims(
    experiment: &Experiment,
    name: &str,
    policy: &'static dyn VictimPolicy,
    scale: Scale,
    seed: u64,
    progress: &Arc<Progress>,
) -> Result<Run> {
    let own = Experiment { victims_by: Some(Own(policy)), ..experiment.of_system("", scale)? };
    one(experiment, own, name, scale, seed, progress)
}

/// Runs `own`, which `experiment` has become for a system and a scale.
fn one(
    experiment: &Experiment,
    own: Experiment,
    system: &str,
    scale: Scale,
    seed: u64,
    progress: &Arc<Progress>,
) -> Result<Run> {
    let scaled = experiment.clone().scaled(scale)?;
    let own = own.filled()?;
    let config = own.sim(seed)?;
    let began = thread_cpu_seconds();
    let report = {
        let (experiment, progress) = (own, Arc::clone(progress));
        sim::run(config, move || phases::all(trial(&experiment, seed, &progress)?, &experiment, &progress))?
    };
    let outcome = report.value?;
    if !report.unfinished.is_empty() {
        return Err(Error::Check(format!("tasks outlived the experiment: {}", report.unfinished.join(", "))));
    }
    let cpu_seconds = thread_cpu_seconds() - began;
    let cost = Cost {
        experiment: scaled.name.clone(),
        system: system.to_owned(),
        scale: scale.to_string(),
        seed,
        machine: machine(),
        commit: commit(),
        cpu_seconds,
        peak_memory_bytes: peak_memory(),
        events: report.events,
        events_per_second: report.events as f64 / cpu_seconds.max(1e-9),
    };
    let record = Record {
        experiment: scaled.name.clone(),
        system: system.to_owned(),
        scale: scale.to_string(),
        seed,
        settings: serde_json::to_value(&scaled).map_err(|e| Error::spec(&scaled.name, e))?,
        metrics: outcome.metrics,
        latencies: outcome.latencies,
        locks: outcome.locks,
        checks: outcome.checks,
        simulated_seconds: report.elapsed.as_secs_f64(),
        events: report.events,
        trace: format!("{:016x}", report.trace),
    };
    progress.enter(Phase::Done);
    Ok(Run { record, rows: outcome.rows, cost })
}

/// The workload of an experiment, before anything has been done.
fn trial<'a>(experiment: &'a Experiment, seed: u64, progress: &Arc<Progress>) -> Result<Box<dyn Trial + 'a>> {
    Ok(match experiment.workload.subject() {
        Subject::Volume(plan) => Box::new(VolumeTrial::new(experiment, plan, seed, progress)?),
        Subject::Device(raw) => Box::new(DeviceTrial::new(experiment, raw, seed, progress)?),
        Subject::Segments(victims) => Box::new(VictimTrial::new(experiment, victims, seed, progress)?),
        Subject::Lists(committing) => Box::new(CommitTrial::new(experiment, committing, progress)?),
    })
}

/// CPU time of this thread; a run is on one.
fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processor's name for itself, and how many there are.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    format!("{model}, {count} CPUs")
}

/// What was built, and how: assertions cost time.
fn commit() -> String {
    let commit = crate::COMMIT.unwrap_or("not known (make build notes it)");
    format!("{commit}, {} assertions", if cfg!(debug_assertions) { "with" } else { "without" })
}

/// The most memory that this process has had, as the system says; 0 if it does not.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
