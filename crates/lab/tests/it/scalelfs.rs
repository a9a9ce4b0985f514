//! The shape of ScaleLFS' Figures 2a and 9, small enough for every test run: bandwidth falls when collection begins,
//! and stays low where one writer collects at a time; collectors on all cores keep the device busy.

use std::sync::Arc;
use steadyfs_lab::{Progress, Record, Verdict, builtin, judge, run, run_seeds};

#[test]
fn bandwidth_falls_when_collection_begins() {
    let experiment = builtin("scalelfs-fig2a").unwrap();
    let scale = "1/32".parse().unwrap();
    let result = run(&experiment, scale, 0, &Arc::new(Progress::default())).unwrap();
    let metric = |name: &str| result.record.metrics[name];
    let drop = judge(&experiment, scale, &[&result.record]).into_iter().find(|j| j.claim.metric == "drop").unwrap();
    assert_eq!(drop.verdict, Verdict::Holds, "{drop:?}");
    // Where the paper has it: the disk is nearly full, so collection begins early and takes most of the time from then
    // on.
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

#[test]
fn collectors_take_half_the_time_that_writers_take() {
    let mut experiment = builtin("scalelfs-fig9").unwrap();
    // The others are not slower by as much as the paper says; see docs/lab/results/SCALELFS.md.
    experiment.keep_systems(&["f2fs-lfs".to_owned(), "scalelfs".to_owned()]).unwrap();
    let scale = "1/32".parse().unwrap();
    // Of one seed the ratio is 2.11 to 2.21, and the bound is 1.92.
    let runs = run_seeds(&experiment, scale, &[0], 2, |_| ()).unwrap();
    let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
    for record in &records {
        let metric = |name: &str| record.metrics[name];
        let (read, ios) = (metric("gc_false_reads"), metric("ios"));
        let over = metric("device_mb_s") / metric("mb_s");
        assert!((metric("device_over_app") / over - 1.0).abs() < 1e-6, "{over} bytes for each of the jobs");
        assert!(read <= metric("gc_skipped_blocks") && metric("gc_stale_victims") <= metric("gc_victims"));
        assert!((metric("gc_false_reads_per_million") * ios - read * 1e6).abs() < 1.0, "{read} of {ios}");
    }
    for judged in judge(&experiment, scale, &records) {
        // The slowest writes wait longer than the paper says, and the device does more: docs/lab/results/SCALELFS.md.
        let differs = match judged.claim.metric.as_str() {
            "latency_p99_us" => true,
            // A small volume keeps more of itself back.
            "device_over_app" => judged.verdict == Verdict::NotApplicable,
            "after_gc_device_mb_s" => judged.claim.over.is_none(),
            _ => false,
        };
        let ((least, most), (mean, ..)) = (judged.bounds, judged.ours.unwrap());
        let holds = least.is_none_or(|least| mean >= least) && most.is_none_or(|most| mean <= most);
        assert_eq!(holds, !differs, "{judged:?}");
    }
}
