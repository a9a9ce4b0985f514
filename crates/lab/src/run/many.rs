//! Several runs side by side: one per system and seed, each on a thread of its own, and somebody who watches.

use super::run_system;
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::record::Run;
use crate::spec::{Experiment, Scale};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{JoinHandle, sleep, spawn};

/// How often the watcher is asked.
const LOOK: Duration = Duration::from_millis(100);

/// One run, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    /// The system.
    pub(crate) system: String,
    /// The seed.
    pub(crate) seed: u64,
    /// What its thread notes.
    pub(crate) progress: Arc<Progress>,
}

impl Errand {
    /// A job for each of some systems with each seed.
    pub(crate) fn of(systems: &[String], seeds: &[u64]) -> Vec<Self> {
        let job = |system: &String, seed| Errand { system: system.clone(), seed, progress: Arc::default() };
        systems.iter().flat_map(|system| seeds.iter().map(move |seed| job(system, *seed))).collect()
    }
}

/// Runs each system of an experiment with every seed, at most `jobs` at a time; `watch` is called again and again with
/// how far each is. The runs are in the order of the systems, and for each in that of the seeds.
///
/// # Errors
/// The first run that failed; the others are waited for.
pub fn run_seeds(
    experiment: &Experiment,
    scale: Scale,
    seeds: &[u64],
    jobs: usize,
    mut watch: impl FnMut(&[Arc<Progress>]),
) -> Result<Vec<Run>> {
    let wanted = Errand::of(&experiment.system_names(), seeds);
    let progress: Vec<Arc<Progress>> = wanted.iter().map(|job| Arc::clone(&job.progress)).collect();
    run_jobs(experiment, scale, wanted, jobs, || watch(&progress)).into_iter().collect()
}

/// Runs some systems of an experiment with some seeds, as [`run_seeds`]; what came of each, in the same order.
pub(crate) fn run_jobs(
    experiment: &Experiment,
    scale: Scale,
    wanted: Vec<Errand>,
    jobs: usize,
    mut watch: impl FnMut(),
) -> Vec<Result<Run>> {
    let progress: Vec<Arc<Progress>> = wanted.iter().map(|job| Arc::clone(&job.progress)).collect();
    let count = wanted.len();
    let mut waiting: VecDeque<_> = wanted.into_iter().enumerate().collect();
    let mut running: Vec<(usize, JoinHandle<Result<Run>>)> = Vec::new();
    let mut ended: Vec<(usize, Result<Run>)> = Vec::new();
    loop {
        while running.len() < jobs.max(1)
            && let Some((place, Errand { system, seed, progress })) = waiting.pop_front()
        {
            let experiment = experiment.clone();
            let thread = spawn("steadyfs-lab", move || run_system(&experiment, &system, scale, seed, &progress));
            running.push((place, thread));
        }
        let (done, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(_, thread)| thread.is_finished());
        running = still;
        for (place, thread) in done {
            let result = thread.join().unwrap_or_else(|panicked| Err(Error::Check(panicked.to_string())));
            ended.push((place, result));
        }
        watch();
        if running.is_empty() && waiting.is_empty() {
            break;
        }
        sleep(LOOK);
    }
    assert!(ended.len() == count, "every system has been run with every seed");
    ended.sort_by_key(|(place, _)| *place);
    let runs: Vec<Result<Run>> = ended.into_iter().map(|(_, result)| result).collect();
    debug_assert!(runs.iter().zip(&progress).all(|(run, progress)| run.is_err() || progress.phase() == Phase::Done));
    runs
}
