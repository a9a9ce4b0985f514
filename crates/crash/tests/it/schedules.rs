//! Several writers in virtual time: every schedule keeps the promises, and a seed is a schedule.

use steadyfs_crash::{Effort, Outcome, Plan, Volumes, Workload, explore, explore_one, generate};
use steadyfs_testkit::sampled;

fn plan() -> Plan {
    Plan { effort: Effort::LIGHT, jobs: 2, ..Plan::default() }
}

#[test]
fn schedules_lose_nothing_that_was_promised() {
    let outcome =
        explore((0..sampled(12, 24)).map(|seed| generate::scheduled("", seed)), &plan(), |_| true).expect("sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.states > 20 * outcome.workloads, "{outcome:?}");
    assert!(outcome.recovery_states > 200 * outcome.workloads, "{outcome:?}");
}

/// Operations of some writers beside pushes of others, in every form of the journal.
#[test]
fn schedules_of_journals_lose_nothing_that_was_promised() {
    let forms = [
        "journal=single",
        "journal=double",
        "journal=percore",
        "journal=percore,journal.stride=1",
        // Batches lie in the holes of used segments, and contents change in place.
        "journal=single,mode=adaptive,ssr=eager",
        "journal=percore,mode=adaptive,ssr=eager,ipu=never",
    ];
    let workloads = (0..12).map(move |seed| generate::scheduled(forms[seed as usize % forms.len()], seed));
    let outcome = explore(workloads, &Plan { recovery_every: 40, ..plan() }, |_| true).expect("sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.states > 20 * outcome.workloads, "{outcome:?}");
}

#[test]
fn a_seed_gives_the_same_crash_points_each_time() {
    // One or two whose device refuses writes, and as many whose device does not.
    for &seed in sampled(&[3, 4][..], &[3, 4, 7, 8]) {
        let workload = Workload { late: Some(seed), ..generate::scheduled("", seed) };
        assert!(workload.schedule.is_some());
        let explored = || explore_one(&workload, &plan(), &Volumes::default()).expect("sense");
        let (first, second): (Outcome, Outcome) = (explored(), explored());
        assert_eq!(first, second, "seed {seed}");
        assert!(first.crash_points > 30, "{first:?}");
    }
}
