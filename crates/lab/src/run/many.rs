//! Several runs side by side: one per system and seed, each on a thread of its own, and somebody who watches.

use super::{Phase, Progress, Run, run_system};
use crate::error::{Error, Result};
use crate::spec::{Experiment, Scale};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{JoinHandle, sleep, spawn};

/// How often the watcher is asked.
const LOOK: Duration = Duration::from_millis(100);

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
    let systems = experiment.system_names();
    let wanted: Vec<(String, u64)> =
        systems.iter().flat_map(|system| seeds.iter().map(|seed| (system.clone(), *seed))).collect();
    let progress: Vec<Arc<Progress>> = wanted.iter().map(|_| Arc::default()).collect();
    let count = wanted.len();
    let mut waiting: VecDeque<_> = wanted.into_iter().zip(progress.iter().cloned()).enumerate().collect();
    let mut running: Vec<(usize, JoinHandle<Result<Run>>)> = Vec::new();
    let mut ended: Vec<(usize, Result<Run>)> = Vec::new();
    loop {
        while running.len() < jobs.max(1)
            && let Some((place, ((system, seed), progress))) = waiting.pop_front()
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
        watch(&progress);
        if running.is_empty() && waiting.is_empty() {
            break;
        }
        sleep(LOOK);
    }
    assert!(ended.len() == count, "every system has been run with every seed");
    ended.sort_by_key(|(place, _)| *place);
    let runs: Result<Vec<Run>> = ended.into_iter().map(|(_, result)| result).collect();
    debug_assert!(runs.is_err() || progress.iter().all(|progress| progress.phase() == Phase::Done));
    runs
}
