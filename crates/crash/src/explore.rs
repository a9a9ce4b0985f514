//! Exploring workloads: run, enumerate, judge, count. One workload by [`explore_one`], many on several threads by
//! [`explore`].

use crate::judge::{Fault, Judge, Rule};
use crate::lang::{VolumeKind, Workload};
use crate::left::Left;
use crate::legal::Moment;
use crate::rng::Rng;
use crate::run::{Run, RunError, Sample, options_afterwards, run, volume};
use crate::states::{self, Effort, States};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use steadyfs_core::MountOptions;
use steadyfs_core::raw::Superblocks;
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::Lba;
use steadyfs_rt::{LockClass, Mutex};

/// Held to take the next workload, or to add one's result.
static QUEUE: LockClass = LockClass::new("crash.queue", u16::MAX - 20);

/// Crashes one upon the other: in the recovery, and in the recovery of that.
const RECOVERY_DEPTH: u32 = 2;

/// A state that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The workload.
    pub workload: Workload,
    /// The promise.
    pub rule: Rule,
    /// The broken promise.
    pub what: String,
    /// How the crash went.
    pub crash: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: {}", self.rule, self.what)?;
        writeln!(f, "{}, in the workload", self.crash)?;
        write!(f, "{}", self.workload)
    }
}

/// What exploring came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Workloads run.
    pub workloads: u64,
    /// Changes of the device at which the power was cut.
    pub crash_points: u64,
    /// Ways to crash that were looked at.
    pub choices: u64,
    /// States that differ in their bytes, each judged.
    pub states: u64,
    /// Of those, states reached by a crash during the recovery of another.
    pub recovery_states: u64,
    /// Of workloads whose mount says how many collectors there are: what these did.
    pub collected: Collected,
    /// The violations found, at most one per workload.
    pub violations: Vec<Violation>,
}

/// What collectors did in explored workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Victims cleaned.
    pub victims: u64,
    /// Blocks moved before the first crash point.
    pub moved_before: u64,
    /// Blocks moved between the first and the last one.
    pub moved_between: u64,
    /// States after a crash before which at least one stream had a segment open.
    pub states_with_streams: u64,
    /// Most streams that were open at a crash.
    pub most_streams: u64,
}

impl Collected {
    fn add(&mut self, other: Collected) {
        self.victims += other.victims;
        self.moved_before += other.moved_before;
        self.moved_between += other.moved_between;
        self.states_with_streams += other.states_with_streams;
        self.most_streams = self.most_streams.max(other.most_streams);
    }

    /// Without the states: what the run itself did.
    fn of(samples: &[Sample]) -> Self {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Collected::default() };
        Collected {
            victims: last.victims,
            moved_before: first.moved,
            moved_between: last.moved - first.moved,
            ..Collected::default()
        }
    }

    /// A state after a crash at this tick was looked at.
    fn note(&mut self, samples: &[Sample], tick: u64) {
        let before = samples.iter().rev().find(|sample| sample.tick <= tick);
        let streams = before.map_or(0, |sample| sample.streams as u64);
        self.states_with_streams += u64::from(streams > 0);
        self.most_streams = self.most_streams.max(streams);
    }
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.workloads += other.workloads;
        self.crash_points += other.crash_points;
        self.choices += other.choices;
        self.states += other.states;
        self.recovery_states += other.recovery_states;
        self.collected.add(other.collected);
        self.violations.extend(other.violations);
    }
}

/// Ends explorations early, between two states, from another thread.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What somebody else sets to end them.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }

    /// Whether they are to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// How to explore.
#[derive(Debug, Clone)]
pub struct Plan {
    /// States per workload.
    pub effort: Effort,
    /// Of this many states one is judged with a crash in its recovery, too; 0 = none.
    pub recovery_every: u64,
    /// Seed of every choice made at random.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
    /// Ends it early.
    pub stop: Stop,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { effort: Effort::USUAL, recovery_every: 10, seed: 1, jobs: 1, stop: Stop::default() }
    }
}

/// Empty volumes by their shape, made once.
#[derive(Default)]
pub struct Volumes(OnceLock<Mutex<HashMap<Shape, MemDevice>>>);

/// Kind, size, segments per section, features.
type Shape = (VolumeKind, u32, u32, String);

impl Volumes {
    pub(crate) fn get(&self, workload: &Workload) -> Result<MemDevice, RunError> {
        let all = self.0.get_or_init(|| Mutex::new(&QUEUE, HashMap::new()));
        let shape = (workload.kind, workload.mib, workload.segs_per_sec, workload.features.clone());
        if let Some(known) = all.lock().get(&shape) {
            return Ok(known.fork());
        }
        let made = volume(workload)?;
        all.lock().insert(shape, made.fork());
        Ok(made)
    }
}

/// A workload that was run, and all states in which a crash may leave its volume.
pub struct Exploration {
    workload: Workload,
    run: Run,
    states: States<Vec<Moment>>,
    options: MountOptions,
}

impl Exploration {
    /// Runs a workload.
    ///
    /// # Errors
    /// The workload makes no sense, or the file system does not do what the model allows.
    pub fn new(workload: &Workload, effort: Effort, seed: u64, volumes: &Volumes) -> Result<Self, RunError> {
        let run = run(workload, &volumes.get(workload)?)?;
        let states = states::explore(&run.trace, effort, seed, |tick| -> Vec<Moment> {
            run.timelines.iter().map(|line| Moment::at(&run.done, line, &run, tick)).collect()
        });
        Ok(Exploration { workload: workload.clone(), options: options_afterwards(workload)?, run, states })
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.states.distinct.len()
    }

    /// What collectors did in the run, and in how many of the states they have streams open.
    pub fn collected(&self) -> Collected {
        let mut all = Collected::of(&self.run.samples);
        self.states.distinct.iter().for_each(|state| all.note(&self.run.samples, state.choice.tick()));
        all
    }

    /// The volume in one of the states.
    ///
    /// # Panics
    /// If there is no state with this number.
    pub fn state(&self, number: usize) -> MemDevice {
        self.left(number).device
    }

    fn left(&self, number: usize) -> Left {
        self.states.distinct[number].choice.build(&self.run.trace)
    }

    /// How the crash that leads to a state went.
    ///
    /// # Panics
    /// If there is no state with this number.
    pub fn describe(&self, number: usize) -> String {
        format!("{}, in the workload\n{}", self.states.distinct[number].choice.describe(&self.run.trace), self.workload)
    }

    /// Whether the tree on a device, which is what somebody made of this state, is one that the promises allow, and the
    /// one that we make of it.
    ///
    /// # Errors
    /// The fault of the state.
    ///
    /// # Panics
    /// If there is no state with this number.
    pub fn compare(&self, number: usize, device: Arc<dyn Device>) -> Result<(), String> {
        self.judge().compare(device, Arc::new(self.state(number)), &self.states.distinct[number].moments)
    }

    /// Whether the write of a checkpoint pack is torn. If that is its last block, the checkpoint is there for us, who
    /// look at what arrived, and not for Linux, who wants the block whole. Both are legal.
    ///
    /// # Panics
    /// If there is no state with this number.
    pub fn tears_a_pack(&self, number: usize) -> bool {
        let trace = &self.run.trace;
        let Some((torn, _)) = self.states.distinct[number].choice.torn() else { return false };
        let superblocks = Superblocks::read(&trace.base);
        let place = superblocks.chosen().map(|superblock| superblock.layout().cp..superblock.layout().sit);
        place.is_ok_and(|packs| packs.contains(&Lba(trace.records[torn].extent.0)))
    }

    fn judge(&self) -> Judge<'_> {
        Judge { workload: &self.run.done, run: &self.run, options: &self.options }
    }
}

/// Explores one workload. Stops at the first violation.
///
/// # Errors
/// If the workload makes no sense; what the file system does wrong is a violation.
pub fn explore_one(workload: &Workload, plan: &Plan, volumes: &Volumes) -> Result<Outcome, RunError> {
    let mut outcome = Outcome { workloads: 1, ..Outcome::default() };
    let violation = |fault: Fault, crash: String| Violation {
        workload: workload.clone(),
        rule: fault.rule,
        what: fault.what,
        crash,
    };
    let effort = if needs_no_flush(workload) { Effort::PREFIXES } else { plan.effort };
    let found = match Exploration::new(workload, effort, plan.seed, volumes) {
        Ok(found) => found,
        Err(e @ (RunError::Model(_) | RunError::Volume(_))) => return Err(e),
        Err(e) => {
            let fault = Fault { rule: Rule::Works, what: e.to_string() };
            outcome.violations.push(violation(fault, "no crash".into()));
            return Ok(outcome);
        }
    };
    outcome.crash_points = found.run.trace.records.len() as u64;
    outcome.choices = found.states.choices;
    outcome.collected = Collected::of(&found.run.samples);
    let judge = found.judge();
    let mut rng = Rng::new(plan.seed ^ 1);
    for (number, state) in found.states.distinct.iter().enumerate().take_while(|_| !plan.stop.is_set()) {
        outcome.states += 1;
        outcome.collected.note(&found.run.samples, state.choice.tick());
        let left = found.left(number);
        let mut judged = Ok(0);
        if plan.recovery_every > 0 && rng.below(plan.recovery_every) == 0 {
            judged = judge.judge_recovery(&left, &state.moments, effort, RECOVERY_DEPTH, rng.next());
        }
        let judged = judged.and_then(|more| judge.judge(left, &state.moments, number).map(|()| more));
        match judged {
            Ok(more) => outcome.recovery_states += more,
            Err(fault) => {
                outcome.violations.push(violation(fault, state.choice.describe(&found.run.trace)));
                break;
            }
        }
    }
    outcome.states += outcome.recovery_states;
    Ok(outcome)
}

/// Whether the workload's mounts are for devices that lose nothing.
fn needs_no_flush(workload: &Workload) -> bool {
    workload.mount.split(',').any(|option| option == "fsync_mode=nobarrier")
}

/// Explores many workloads on several threads; `tell` hears the sum so far after each. Ends early once `tell` returns
/// false, or the plan's [`Stop`] is set.
///
/// # Errors
/// The first workload that makes no sense.
pub fn explore(
    workloads: impl Iterator<Item = Workload> + Send + 'static,
    plan: &Plan,
    tell: impl Fn(&Outcome) -> bool + Send + Sync + 'static,
) -> Result<Outcome, RunError> {
    // Numbered as they are taken: which one has which seed is not to depend on which thread is faster.
    let queue = Arc::new(Mutex::new(&QUEUE, workloads.zip(0u64..)));
    let sum = Arc::new(Mutex::new(&QUEUE, Outcome::default()));
    let (volumes, enough) = (Arc::new(Volumes::default()), Arc::new(AtomicBool::new(false)));
    let tell = Arc::new(tell);
    let worker = {
        let (plan, sum) = (plan.clone(), Arc::clone(&sum));
        move || -> Result<(), RunError> {
            while !enough.load(Relaxed) && !plan.stop.is_set() {
                let Some((workload, number)) = queue.lock().next() else { break };
                let seed = plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let one = explore_one(&workload, &Plan { seed, ..plan.clone() }, &volumes)
                    .inspect_err(|_| enough.store(true, Relaxed))?;
                let mut sum = sum.lock();
                sum.add(one);
                if !tell(&sum) {
                    enough.store(true, Relaxed);
                }
            }
            Ok(())
        }
    };
    let helpers: Vec<_> = (1..plan.jobs).map(|_| steadyfs_rt::spawn("crash-explorer", worker.clone())).collect();
    let mut result = worker();
    for helper in helpers {
        let ended = helper.join().map_err(|panic| RunError::Panicked(panic.to_string())).and_then(|ended| ended);
        result = result.and(ended);
    }
    let sum = sum.lock().clone();
    result.map(|()| sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use steadyfs_device::Record;

    /// What the workload writes, and what a mount writes after the crash of the last state.
    fn written(workload: &Workload) -> (Vec<Record>, Vec<Record>) {
        let found = Exploration::new(workload, Effort::LIGHT, 1, &Volumes::default()).expect("sense");
        let recovery = found.judge().record_mount(&found.left(found.states() - 1)).expect("it mounts");
        (found.run.trace.records, recovery.records)
    }

    #[test]
    fn a_stop_ends_a_workload_between_two_states() {
        let workload: Workload = "creat one\nfsync one\n".parse().expect("a workload");
        let plan = Plan::default();
        let states = || explore_one(&workload, &plan, &Volumes::default()).expect("sense").states;
        assert!(states() > 0);
        plan.stop.flag().store(true, Relaxed);
        assert_eq!(states(), 0);
    }

    #[test]
    fn the_time_of_day_is_not_in_what_is_explored() {
        for workload in [generate::scheduled("", 4), generate::random(1, 30, "", 1)] {
            let ((first, recovery), again) = (written(&workload), written(&workload));
            assert!(!first.is_empty() && !recovery.is_empty());
            assert!(first == again.0, "the run differs, in\n{workload}");
            assert!(recovery == again.1, "the recovery differs, in\n{workload}");
        }
    }
}
