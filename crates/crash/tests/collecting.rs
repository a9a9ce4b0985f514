//! Power cuts while collectors move blocks, with their streams open: nothing that was promised is lost, and the collectors did work.

use steadyfs_crash::{Effort, Plan, explore, generate};

#[test]
fn what_collectors_move_survives() {
    const SEEDS: [u64; 2] = [3, 15];
    const WORKLOADS: u64 = SEEDS.len() as u64;
    let plan = Plan { effort: Effort::PREFIXES, jobs: 2, recovery_every: 40, ..Plan::default() };
    // Two in which collectors have their streams open most of the time, and do not leave it to writers.
    let workloads = SEEDS.map(|seed| generate::collecting("", seed)).into_iter();
    let outcome = explore(workloads, &plan, |_| true).expect("sense");
    println!("{outcome:?}");
    for violation in &outcome.violations {
        eprintln!("{:?}: {}; {}", violation.rule, violation.what, violation.crash);
    }
    assert_eq!(outcome.violations.len(), 0);
    let all = outcome.collected;
    assert!(all.moved_before > WORKLOADS * 1000 && all.moved_between > WORKLOADS * 500, "little was moved: {all:?}");
    assert!(all.most_streams >= 2 && all.states_with_streams * 2 > outcome.states, "streams were closed: {outcome:?}");
    assert!(outcome.recovery_states > 0, "no recovery was interrupted: {outcome:?}");
}
