//! YCSB over the database engine: operations in their proportions, every record with the version that was committed
//! last.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run};

fn go(experiment: &Experiment, seed: u64) -> Run {
    run(experiment, Scale::FULL, seed, &Arc::new(Progress::default())).unwrap()
}

fn count(run: &Run, kind: &str) -> f64 {
    run.record.metrics.get(&format!("{kind}_ops")).copied().unwrap_or(0.0)
}

#[test]
fn half_are_reads_half_are_updates_and_runs_repeat() {
    let a = builtin("ycsb").unwrap();
    let run = go(&a, 1);
    let metric = |name: &str| run.record.metrics[name];
    assert_eq!(count(&run, "read") + count(&run, "update"), 20_000.0);
    assert!((count(&run, "read") / 20_000.0 - 0.5).abs() < 0.02, "{}", count(&run, "read"));
    // Updates wait for the log, several for one sync; pages go twice to the volume, besides the log.
    assert!(metric("update_latency_mean_us") > metric("read_latency_mean_us"));
    let syncs = metric("log_syncs");
    assert!(syncs > 500.0 && syncs < 0.9 * count(&run, "update"), "{syncs} syncs of the log");
    let written = metric("write_mb_s") * metric("seconds") * 1e6;
    assert!(written > 20_000.0 * 400.0, "{written} bytes");
    let contents = &run.record.checks["contents"];
    assert!(contents.starts_with("60000 records"), "{contents}");
    assert_eq!(run.record.checks["volume"], "clean");
    let bytes = |run: &Run| (serde_json::to_string(&run.record).unwrap(), run.rows.clone());
    assert!(bytes(&run) == bytes(&go(&a, 1)), "the same seed gives other bytes");
    assert_ne!(run.record.trace, go(&a, 2).record.trace);
}

#[test]
fn every_load_does_what_its_letter_says() {
    let mut experiment = builtin("ycsb").unwrap();
    for setting in ["workload.recordcount=20000", "workload.operationcount=8000", "interval=0.01"] {
        experiment.set(setting).unwrap();
    }
    for (load, kinds) in [
        ("b", [("read", 0.95), ("update", 0.05)]),
        ("c", [("read", 1.0), ("update", 0.0)]),
        ("d", [("read", 0.95), ("insert", 0.05)]),
        ("e", [("scan", 0.95), ("insert", 0.05)]),
        ("f", [("read", 0.5), ("read_modify_write", 0.5)]),
        ("update-only", [("update", 1.0), ("read", 0.0)]),
    ] {
        experiment.set(&format!("workload.load={load}")).unwrap();
        let run = go(&experiment, 3);
        for (kind, share) in kinds {
            let ours = count(&run, kind) / 8000.0;
            assert!((ours - share).abs() < 0.02, "{load}: {ours} are {kind}");
        }
        let records = 20_000.0 + count(&run, "insert");
        let contents = &run.record.checks["contents"];
        assert!(contents.starts_with(&format!("{records} records")), "{load}: {contents}");
        if load == "e" {
            let length = run.record.metrics["records_scanned"] / count(&run, "scan");
            assert!((length / 50.5 - 1.0).abs() < 0.05, "{length} records in a scan");
        }
    }
}

#[test]
fn direct_pages_and_lazy_commits_are_right_too() {
    let mut experiment = builtin("ycsb").unwrap();
    experiment.set("workload.operationcount=8000").unwrap();
    let updates = |experiment: &Experiment| {
        let run = go(experiment, 1);
        (run.record.metrics["update_latency_mean_us"], run.record.metrics["log_syncs"])
    };
    let synced = updates(&experiment);
    experiment.set("workload.direct=true").unwrap();
    let direct = updates(&experiment);
    experiment.set("workload.flush_log_at_trx_commit=2").unwrap();
    let lazy = updates(&experiment);
    assert!(lazy.0 < direct.0 / 2.0 && lazy.1 < direct.1 / 4.0, "{lazy:?}, with syncs {direct:?}, buffered {synced:?}");
}
