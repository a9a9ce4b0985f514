//! Power cuts while collectors move blocks, with their streams open: nothing that was promised is lost, and the
//! collectors did work.

use steadyfs_crash::{Effort, Exploration, Plan, Volumes, Workload, explore, generate};
use steadyfs_testkit::sampled;

/// Whether collectors have their streams open in most of the states, and do not leave it to writers.
fn has_streams_open(workload: &Workload) -> bool {
    let found = Exploration::new(workload, Effort::PREFIXES, 1, &Volumes::default()).expect("sense");
    println!("{:?}: {:?} of {} states", workload.schedule, found.collected(), found.states());
    found.collected().states_with_streams * 2 > found.states() as u64
}

#[test]
fn what_collectors_move_survives() {
    let wanted = sampled(2, 4);
    // One in two has streams open in most of its states; which ones depends on all that takes virtual time.
    let all = (1..=4 * wanted).map(|seed| generate::collecting("", seed));
    let workloads: Vec<Workload> = all.filter(has_streams_open).take(wanted as usize).collect();
    assert_eq!(workloads.len() as u64, wanted, "streams are seldom open");
    let plan = Plan { effort: Effort::PREFIXES, jobs: 2, recovery_every: 40, ..Plan::default() };
    let outcome = explore(workloads.into_iter(), &plan, |_| true).expect("sense");
    println!("{outcome:?}");
    for violation in &outcome.violations {
        eprintln!("{:?}: {}; {}", violation.rule, violation.what, violation.crash);
    }
    assert_eq!(outcome.violations.len(), 0);
    let all = outcome.collected;
    assert!(all.moved_before > wanted * 1000 && all.moved_between > wanted * 500, "little was moved: {all:?}");
    assert!(all.most_streams >= 2 && all.states_with_streams * 2 > outcome.states, "streams were closed: {outcome:?}");
    assert!(outcome.recovery_states > 0, "no recovery was interrupted: {outcome:?}");
}
