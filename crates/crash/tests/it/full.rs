//! Power cuts on volumes that have next to no room: what was fsynced is recovered there, too, and what had no room
//! changed nothing.

use steadyfs_crash::{Effort, Plan, explore, generate};

#[test]
fn nearly_full_volumes_are_recovered() {
    let modes = ["", "noinline_data,noinline_dentry,noinline_xattr"];
    let replacing = (0..24).map(move |seed| generate::nearly_full(modes[seed as usize % 2], seed));
    let short =
        generate::exhaustive(1, "", 5).step_by(9).zip(0..).map(|(workload, seed)| generate::filled(workload, seed));
    // A batch may find no place.
    let journaled = (0..12).map(|seed| generate::nearly_full("journal=single", 100 + seed));
    let plan = Plan { effort: Effort::PREFIXES, jobs: 2, ..Plan::default() };
    let outcome = explore(replacing.chain(journaled).chain(short), &plan, |_| true).expect("the workloads make sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    println!("{outcome:?}");
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.workloads > 50 && outcome.states > 5 * outcome.workloads, "{outcome:?}");
}
