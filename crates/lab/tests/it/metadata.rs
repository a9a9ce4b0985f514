//! Mixes of operations on names: every item is found once per phase, proportions are those of the load.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run};

fn go(experiment: &Experiment, seed: u64) -> Run {
    run(experiment, Scale::FULL, seed, &Arc::new(Progress::default())).unwrap()
}

#[test]
fn every_item_is_created_found_read_and_removed() {
    let mut mdtest = builtin("mdtest").unwrap();
    for unique in [false, true] {
        mdtest.set(&format!("workload.unique={unique}")).unwrap();
        let run = go(&mdtest, 1);
        let phases = ["dir_create", "dir_stat", "dir_remove", "file_create", "file_stat", "file_read", "file_remove"];
        let mut sum = 0.0;
        for phase in phases {
            let metric = |name: &str| run.record.metrics[&format!("{phase}{name}")];
            assert_eq!(metric("_ops"), 8.0 * 500.0, "{phase}");
            assert!(metric("_rate") > metric("_ops_s"), "{phase}: the rate is that of its own time");
            sum += metric("_ops") / metric("_rate");
        }
        let seconds = run.record.metrics["seconds"];
        assert!((sum / seconds - 1.0).abs() < 0.01, "the phases take {sum} s of {seconds}");
        let names = ["dir_create", "dir_remove", "file_create", "file_remove"];
        let changing: f64 = names.map(|phase| 4000.0 / run.record.metrics[&format!("{phase}_rate")]).iter().sum();
        let together = 4.0 * 4000.0 / changing;
        assert!((run.record.metrics["names_rate"] / together - 1.0).abs() < 1e-6, "{together} names a second");
        assert!(run.record.checks["contents"].contains(if unique { "168 directories" } else { "21 directories" }));
    }
}

#[test]
fn the_mix_has_the_proportions_of_the_load_and_repeats() {
    let dbench = builtin("dbench").unwrap();
    let run = go(&dbench, 1);
    let count = |kind: &str| run.record.metrics[&format!("{kind}_ops")];
    let opens = count("ntcreatex");
    assert!(opens > 8000.0, "{opens} opens: several rounds of each client");
    for (kind, share) in [
        ("close", 0.735),
        ("rename", 0.042),
        ("unlink", 0.202),
        ("qpathinfo", 0.906),
        ("find", 0.350),
        ("writex", 0.498),
        ("readx", 1.568),
        ("flush", 0.070),
    ] {
        let ours = count(kind) / opens;
        assert!((ours / share - 1.0).abs() < 0.1, "{kind}: {ours} for each open, {share} in the load");
    }
    let bytes = run.record.metrics["mb_s"] * run.record.metrics["seconds"] * 1e6 / (count("readx") + count("writex"));
    assert!((12_000.0..16_500.0).contains(&bytes), "{bytes} bytes at a time");
    assert_eq!(go(&dbench, 1).record, run.record);
}
