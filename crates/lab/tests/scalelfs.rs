//! The shape of ScaleLFS' Figure 2a, small enough for every test run: bandwidth falls when collection begins, and stays low.

use std::sync::Arc;
use steadyfs_lab::{Progress, Verdict, builtin, judge, run};

#[test]
fn bandwidth_falls_when_collection_begins() {
    let experiment = builtin("scalelfs-fig2a").unwrap();
    let scale = "1/32".parse().unwrap();
    let result = run(&experiment, scale, 0, &Arc::new(Progress::default())).unwrap();
    let metric = |name: &str| result.record.metrics[name];
    let drop = judge(&experiment, scale, &[&result.record]).into_iter().find(|j| j.claim.metric == "drop").unwrap();
    assert_eq!(drop.verdict, Verdict::Holds, "{drop:?}");
    // Where the paper has it: the disk is nearly full, so collection begins early and takes most of the time from then on.
    assert!(metric("gc_start_s") < metric("seconds") / 10.0, "begins at {} s", metric("gc_start_s"));
    assert!(metric("gc_share") > 0.7, "{}", metric("gc_share"));
    assert!(metric("waf") > 1.5 && metric("waf") < 5.0, "{}", metric("waf"));
    // One collector cannot use the device: 3.4 GB/s each way.
    assert!(metric("after_gc_device_mb_s") < 0.6 * 3400.0, "{}", metric("after_gc_device_mb_s"));
    // Where its time goes: waiting for reads is the largest part.
    let parts = metric("gc_reading_s") + metric("gc_checkpoints_s");
    assert!(metric("gc_reading_s") > metric("gc_s") / 4.0 && parts < metric("gc_s"), "{parts} of {} s", metric("gc_s"));
    let late = &result.rows[result.rows.len() / 2..];
    let best = late.iter().map(|row| row.app_write_mb_s).fold(0.0, f64::max);
    assert!(best < metric("before_gc_mb_s"), "it does not recover: {best}");
}
