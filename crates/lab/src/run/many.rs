//! Several runs side by side: one per seed, each on a thread of its own, and somebody who watches.

use super::{Phase, Progress, Run, run};
use crate::error::{Error, Result};
use crate::spec::{Experiment, Scale};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{JoinHandle, sleep, spawn};

/// How often the watcher is asked.
const LOOK: Duration = Duration::from_millis(100);

/// Runs an experiment with every seed, at most `jobs` at a time; `watch` is called again and again with how far each is. The runs are in the order
/// of the seeds.
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
    let progress: Vec<Arc<Progress>> = seeds.iter().map(|_| Arc::default()).collect();
    let mut waiting: VecDeque<(u64, Arc<Progress>)> = seeds.iter().copied().zip(progress.iter().cloned()).collect();
    let mut running: Vec<(u64, JoinHandle<Result<Run>>)> = Vec::new();
    let mut ended: Vec<(u64, Result<Run>)> = Vec::new();
    loop {
        while running.len() < jobs.max(1)
            && let Some((seed, progress)) = waiting.pop_front()
        {
            let experiment = experiment.clone();
            running.push((seed, spawn("steadyfs-lab", move || run(&experiment, scale, seed, &progress))));
        }
        let (done, still): (Vec<_>, Vec<_>) = running.into_iter().partition(|(_, thread)| thread.is_finished());
        running = still;
        for (seed, thread) in done {
            let result = thread.join().unwrap_or_else(|panicked| Err(Error::Check(panicked.to_string())));
            ended.push((seed, result));
        }
        watch(&progress);
        if running.is_empty() && waiting.is_empty() {
            break;
        }
        sleep(LOOK);
    }
    assert!(ended.len() == seeds.len(), "every seed has been run");
    ended.sort_by_key(|(seed, _)| seeds.iter().position(|known| known == seed));
    let runs: Result<Vec<Run>> = ended.into_iter().map(|(_, result)| result).collect();
    debug_assert!(runs.is_err() || progress.iter().all(|progress| progress.phase() == Phase::Done));
    runs
}
