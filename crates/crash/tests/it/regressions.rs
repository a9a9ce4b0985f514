//! Every workload that once broke a promise, replayed with all effort.

use std::path::Path;
use steadyfs_crash::{Effort, Plan, Volumes, Workload, explore_one};
use steadyfs_testkit::sampled;

#[test]
fn what_was_repaired_stays_so() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let volumes = Volumes::default();
    let mut replayed = 0;
    for entry in std::fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("readable").path();
        let text = std::fs::read_to_string(&path).expect("readable");
        let workload: Workload = text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let effort = Effort { tears: 20, ..Effort::USUAL };
        let plan = Plan { effort, recovery_every: sampled(6, 2), ..Plan::default() };
        let outcome = explore_one(&workload, &plan, &volumes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(outcome.violations.is_empty(), "{}: {}", path.display(), outcome.violations[0]);
        replayed += 1;
    }
    assert!(replayed > 0, "no workload was found");
}
