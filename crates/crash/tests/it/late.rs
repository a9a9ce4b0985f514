//! Devices that end requests late and out of order, with threads of the system and in virtual time.

use steadyfs_crash::{Effort, Plan, Schedule, Workload, explore, generate};
use steadyfs_testkit::sampled;

#[test]
fn late_devices_lose_nothing_that_was_promised() {
    let workloads = (0..sampled(3, 6)).map(|seed| generate::random(1 + (seed % 3) as u8, 30, "", seed + 100));
    let workloads = workloads
        .chain(generate::exhaustive(1, "", 9))
        .chain(generate::exhaustive(2, "", 9).take(sampled(20, 40)))
        .zip(1..);
    let late = workloads.map(|(workload, seed)| {
        let schedule = (seed % 2 == 0).then_some(Schedule { cores: 4, seed });
        Workload { late: Some(seed), schedule, ..workload }
    });
    let plan = Plan { effort: Effort::USUAL, jobs: 2, ..Plan::default() };
    let outcome = explore(late, &plan, |_| true).expect("the workloads make sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.states > 10 * outcome.workloads, "{outcome:?}");
}
