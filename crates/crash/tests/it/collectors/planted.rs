//! Faults planted in collection: each must be found by the bed that is there for its kind.

use crate::collectors::beds;
use steadyfs_crash::load::schedules::run_seeds;
use steadyfs_crash::{Effort, Plan, explore, generate};

/// What the load says of a volume with this fault.
fn load(canary: &str, seeds: u64) -> Option<String> {
    let (_, wrong) = run_seeds(0..seeds, &format!("canary={canary}"), 2, |_| true).expect("volumes");
    wrong.first().map(ToString::to_string)
}

/// What the crash explorer says of it.
fn cut(canary: &str, workloads: u64) -> Option<String> {
    let plan = Plan { effort: Effort { subsets: 4, tears: 0 }, jobs: 2, recovery_every: 0, ..Plan::default() };
    let mount = format!("canary={canary}");
    let all = (0..workloads).map(move |seed| generate::collecting(&mount, seed));
    let outcome = explore(all, &plan, |sum| sum.violations.is_empty()).expect("the workloads make sense");
    outcome.violations.first().map(|found| format!("{:?}: {}; {}", found.rule, found.what, found.crash))
}

#[track_caller]
fn is_found(canary: &str, said: Option<String>) {
    let said = said.unwrap_or_else(|| panic!("{canary} was not found"));
    println!("{canary}: {}", said.chars().take(300).collect::<String>());
}

#[test]
fn a_move_that_overtakes_a_writer_is_found() {
    is_found("blind-move", load("blind-move", 12));
}

#[test]
fn a_move_that_is_read_before_it_has_arrived_is_found() {
    is_found("move-unseen", load("move-unseen", 12));
}

#[test]
fn a_round_for_each_of_a_herd_is_found() {
    is_found("herd", beds::a_herd("gc=f2fs-lfs,canary=herd").err());
}

#[test]
fn summaries_missing_at_a_checkpoint_are_found() {
    is_found("stream-summary", cut("stream-summary", 8));
}
