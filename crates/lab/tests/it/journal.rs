//! Experiments with the metadata journal, small: one list stops scaling where lists on each core go on, and saves make
//! no checkpoint.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Record, Scale, builtin, run_system};

fn go(experiment: &Experiment, system: &str) -> Record {
    run_system(experiment, system, Scale::FULL, 0, &Arc::new(Progress::default())).unwrap().record
}

fn with(name: &str, settings: &[&str]) -> Experiment {
    let mut experiment = builtin(name).unwrap();
    settings.iter().for_each(|setting| experiment.set(setting).unwrap());
    experiment
}

#[test]
fn commits_to_one_list_stop_scaling_and_those_to_lists_of_cores_do_not() {
    let small = with("scalexfs-commit", &["workload.commits=300"]);
    let rate = |system: &str| go(&small, system).metrics["commit_ops_s"];
    let (single, strided) = (rate("single@112"), rate("strided@112"));
    assert!(single < 1.5 * rate("single@16"), "one list: {single} a second");
    assert!(strided > 2.0 * single && strided > 3.0 * rate("strided@16"), "{strided} and {single} a second");
}

#[test]
fn batches_have_every_commit_and_of_a_hot_item_only_the_last() {
    let small = with("scalexfs-commit", &["workload.commits=50"]);
    let (each, many) = (go(&small, "hot-1@16"), go(&small, "hot-1000@16"));
    assert_eq!(each.metrics["commit_ops"], 16.0 * 1000.0, "the system says how many");
    assert!(many.metrics["bytes_per_commit"] * 5.0 < each.metrics["bytes_per_commit"], "{:?}", many.metrics);
    assert!(each.metrics["batches"] > 1000.0 && many.metrics["relogged"] > 0.9);
    assert_eq!(go(&small, "hot-1@16"), each, "runs repeat");
}

#[test]
fn saves_by_the_journal_make_no_checkpoint_and_are_faster() {
    let small = with("journal-patterns", &["workload.rounds=3", "workload.dirty=300", "device.size=512M"]);
    let [off, percore] = ["off@16", "percore@16"].map(|system| go(&small, system).metrics);
    assert_eq!((percore["fsync_checkpoints"], percore["round_ops"]), (0.0, 48.0));
    assert!(off["fsync_checkpoints"] > 0.0 && percore["fsyncs_journaled"] >= 48.0, "{off:?}");
    assert!(percore["round_rate"] > 2.0 * off["round_rate"], "{} and {}", percore["round_rate"], off["round_rate"]);
    for pattern in ["lock-file", "maildir", "sqlite-delete"] {
        let mut other = small.clone();
        other.set(&format!("workload.pattern={pattern}")).unwrap();
        assert_eq!(go(&other, "single@1").metrics["fsync_checkpoints"], 0.0, "{pattern}");
    }
}

#[test]
fn private_files_are_those_of_one_thread() {
    let settings = ["workload.nfiles=10", "workload.runtime=0.006", "device.size=512M", "machine.cores=4"];
    let small = with("scalexfs-varmail", &settings);
    let metrics = go(&small, "strided@4").metrics;
    assert!(metrics["deletefile_ops"] > 50.0 && metrics["fsync_ops"] > 100.0, "{metrics:?}");
    // With a set for all, some find none of ten files that others have not open.
    assert!(!metrics.contains_key("deletes_of_open_files"), "{metrics:?}");
}

/// 8 MiB are full long before the end: checkpoints empty it, and nobody waits for ever, which virtual time would tell.
#[test]
fn a_small_journal_under_many_syncs_is_emptied_by_checkpoints() {
    let settings = [
        "workload.items=1300",
        "workload.sync_file=true",
        "workload.write_bytes=100",
        "machine.cores=16",
        "device.size=1G",
        "volume.mount=journal=percore,journal.size=8M,commit=0",
    ];
    let mut small = with("scalexfs-mdtest", &settings);
    small.systems.clear();
    small.claims.clear();
    small.sweep = None;
    small.set("workload.ranks=8").unwrap();
    let metrics = go(&small, "").metrics;
    assert_eq!((metrics["file_create_ops"], metrics["file_remove_ops"]), (10_400.0, 10_400.0));
    assert!(metrics["checkpoints"] > 0.0 && metrics["fsyncs_journaled"] > 0.0, "{metrics:?}");
}
