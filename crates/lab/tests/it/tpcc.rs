//! TPC-C's transactions over the database engine: their proportions, and every row with the version that was committed
//! last.

use std::sync::Arc;
use steadyfs_lab::{Progress, Run, Scale, builtin, run};

const KINDS: [(&str, f64); 5] =
    [("new_order", 0.45), ("payment", 0.43), ("order_status", 0.04), ("delivery", 0.04), ("stock_level", 0.04)];

fn go(seed: u64, settings: &[&str]) -> Run {
    let mut experiment = builtin("tpcc").unwrap();
    settings.iter().for_each(|setting| experiment.set(setting).unwrap());
    run(&experiment, Scale::FULL, seed, &Arc::new(Progress::default())).unwrap()
}

#[test]
fn transactions_come_in_their_proportions_and_runs_repeat() {
    let run = go(1, &["workload.runtime=1.0"]);
    let metric = |name: &str| run.record.metrics.get(name).copied().unwrap_or(0.0);
    println!("{:?}", run.record.metrics);
    let all = metric("ios");
    assert!(all > 1000.0, "{all} transactions");
    for (kind, share) in KINDS {
        let ours = metric(&format!("{kind}_ops")) / all;
        assert!((ours - share).abs() < 0.03, "{ours} are {kind}");
    }
    let failed = metric("rolled_back") / metric("new_order_ops");
    assert!((0.001..0.03).contains(&failed), "{failed} of the new orders are rolled back");
    // One commit for all statements of a transaction, and none for those that only read.
    let syncs = metric("log_syncs");
    let writers = metric("new_order_ops") + metric("payment_ops") + metric("delivery_ops");
    assert!(syncs > 100.0 && syncs < 2.0 * writers, "{syncs} syncs of the log for {writers} transactions");
    assert!(metric("delivery_latency_mean_us") > metric("payment_latency_mean_us"));
    let contents = &run.record.checks["contents"];
    let rows: f64 = contents.split(' ').next().unwrap().parse().unwrap();
    // A warehouse, and a payment's and a new order's rows.
    assert!(rows > 600_000.0 + metric("payment_ops") + 10.0 * metric("new_order_ops"), "{contents}");
    assert_eq!(run.record.checks["volume"], "clean");
    let bytes = |run: &Run| (serde_json::to_string(&run.record).unwrap(), run.rows.clone());
    assert!(bytes(&run) == bytes(&go(1, &["workload.runtime=1.0"])), "the same seed gives other bytes");
}

#[test]
fn the_host_of_a_d2fs_volume_moves_nothing_under_transactions() {
    let settings = ["volume.mount=", "volume.kind=d2fs", "device.size=512M", "workload.runtime=0.3"];
    let run = go(2, &[&settings[..], &["workload.flush_log_at_trx_commit=2"]].concat());
    let lazy = run.record.metrics["log_syncs"];
    assert_eq!(run.record.metrics["gc_moved_blocks"], 0.0);
    assert_eq!(run.record.checks["volume"], "clean");
    let synced = go(2, &settings).record.metrics["log_syncs"];
    assert!(lazy < synced / 2.0, "{lazy} syncs of the log where commits do not wait, {synced} where they do");
}
