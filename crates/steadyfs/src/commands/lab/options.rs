//! Options that `run`, `sensitivity` and `replay` share: what is run, and how runs are watched.

use steadyfs_lab::{Error, Experiment, Scale};

use super::watch::Watch;

/// An experiment with its changes, and the seeds of its runs.
#[derive(Debug, clap::Args)]
pub(super) struct Subject {
    /// Name of a built-in experiment, or a file that describes one
    pub(super) experiment: String,
    /// Volume, files, caches and amounts smaller by this factor, such as 1/16
    #[arg(long, default_value = "1", value_name = "FRACTION")]
    pub(super) scale: Scale,
    /// Change a setting in all runs, such as workload.numjobs=8; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// N runs of each with the seeds 0 to N-1 [default: the seeds that the experiment names]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Run only this one of the systems that the experiment compares; may be given several times
    #[arg(long, value_name = "NAME")]
    system: Vec<String>,
}

impl Subject {
    /// The experiment as it was asked for, with its seeds.
    pub(super) fn open(&self) -> Result<(Experiment, Vec<u64>), Error> {
        let mut experiment = steadyfs_lab::open(&self.experiment)?;
        self.set.iter().try_for_each(|setting| experiment.set(setting))?;
        experiment.keep_systems(&self.system)?;
        let seeds = self.seeds.map_or_else(|| experiment.seeds.clone(), |count| (0..count).collect());
        Ok((experiment, seeds))
    }
}

/// How many runs there are at a time, and how often it is told how far they are.
#[derive(Debug, clap::Args)]
pub(super) struct Pace {
    /// Runs side by side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Where no terminal shows how far it is: a line on standard error at most every so many seconds; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    progress: u32,
}

impl Pace {
    /// Runs side by side.
    pub(super) fn jobs(&self) -> usize {
        self.jobs.into()
    }

    /// Somebody to tell how far runs are.
    pub(super) fn watch(&self) -> Watch {
        Watch::new(self.progress)
    }
}
