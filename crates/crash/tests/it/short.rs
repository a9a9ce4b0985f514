//! Every workload of one operation, in three modes, with the power cut after every write; and some longer ones with
//! writes lost out of order.

use steadyfs_crash::{Effort, Outcome, Plan, Workload, explore, generate};

fn explore_all(workloads: impl Iterator<Item = Workload> + Send + 'static, effort: Effort) -> Outcome {
    let plan = Plan { effort, jobs: 2, ..Plan::default() };
    let outcome = explore(workloads, &plan, |_| true).expect("the workloads make sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
    outcome
}

#[test]
fn one_operation_and_every_prefix() {
    let modes = ["", "fsync_mode=strict", "noinline_data,noinline_dentry,noinline_xattr"];
    let outcome = explore_all(modes.into_iter().flat_map(|mode| generate::exhaustive(1, mode, 1)), Effort::PREFIXES);
    assert!(outcome.workloads > 800, "{outcome:?}");
    assert!(outcome.states > 2 * outcome.workloads, "{outcome:?}");
}

#[test]
fn one_operation_with_a_journal() {
    let outcome = explore_all(generate::exhaustive(1, "journal=single", 1), Effort::PREFIXES);
    assert!(outcome.states > 2 * outcome.workloads, "{outcome:?}");
    explore_all(generate::exhaustive(2, "journal=single", 9).take(40), Effort::USUAL);
    // Batches in the holes of used segments.
    let holes = generate::exhaustive(1, "journal=single,mode=adaptive,ssr=eager", 2).step_by(3);
    explore_all(holes, Effort::PREFIXES);
}

#[test]
fn two_operations_out_of_order() {
    let outcome = explore_all(generate::exhaustive(2, "", 7).take(60), Effort::USUAL);
    assert!(outcome.states > 10 * outcome.workloads, "{outcome:?}");
}

#[test]
fn torn_inodes_with_checksums() {
    let features = "extra_attr,inode_checksum".to_owned();
    let sealed = generate::exhaustive(2, "", 8).take(60).map(move |w| Workload { features: features.clone(), ..w });
    explore_all(sealed, Effort { tears: 20, ..Effort::USUAL });
}

#[test]
fn several_writers_at_random() {
    let workloads = (0..8).map(|seed| generate::random(1 + (seed % 3) as u8, 30, "", seed));
    let outcome = explore_all(workloads, Effort::USUAL);
    assert!(outcome.states > 10 * outcome.workloads, "{outcome:?}");
}

/// Files without a name that are synced, and what is promised behind them, with crashes in the recovery, and in the
/// recovery of that.
#[test]
fn files_without_a_name_with_a_journal() {
    let forms = ["journal=single", "journal=percore,mode=adaptive,ssr=eager"];
    let workloads = (0..6).map(move |seed| generate::nameless(forms[seed as usize % 2], seed));
    let plan = Plan { effort: Effort::LIGHT, recovery_every: 8, jobs: 2, ..Plan::default() };
    let outcome = explore(workloads, &plan, |_| true).expect("sense");
    for violation in &outcome.violations {
        eprintln!("{violation}");
    }
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.recovery_states > 50, "{outcome:?}");
}
