//! Figure 1 of D2FS, the device's half, small enough for every test run: what the emulated flash does before it
//! collects and while it does.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, builtin, run};

fn go(changes: &[&str]) -> Run {
    let mut experiment: Experiment = builtin("d2fs-fig1-devgc").unwrap();
    for change in changes {
        experiment.set(change).unwrap();
    }
    run(&experiment, "1/512".parse().unwrap(), 0, &Arc::new(Progress::default())).unwrap()
}

/// Amplification of greedy collection of uniform overwrites where `used` of the flash in use is live: the part of a
/// victim that is, f, solves (1 - f) / -ln f = used.
fn analytic(used: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let f: f64 = (low + high) / 2.0;
        if (1.0 - f) / -f.ln() < used { low = f } else { high = f }
    }
    1.0 / (1.0 - low)
}

#[test]
fn the_device_alone_goes_at_the_speed_of_its_flash_and_then_pays_for_copies() {
    let Run { record, rows, .. } = go(&["workload.rate_iops=0"]);
    let metric = |name: &str| record.metrics[name];
    // 16 chips of units of 8 pages, 38.9 us on the channel and 185 us of programming each.
    let flash = 16.0 * 8.0 / (38.9 + 185.0) * 1000.0;
    assert!((metric("kiops_before") / flash - 1.0).abs() < 0.02, "{} and {flash}", metric("kiops_before"));
    let waf = analytic(180.0 / 291.2);
    assert!((metric("waf_late") / waf - 1.0).abs() < 0.06, "{} and {waf}", metric("waf_late"));
    // Copies are paid for as they become more: the level falls, unlike the real drive's.
    assert!(metric("after_late_to_early") < 0.92, "{}", metric("after_late_to_early"));
    assert!(metric("kiops_after") < flash / 1.4, "{}", metric("kiops_after"));
    assert!(rows.windows(2).all(|pair| pair[0].victims <= pair[1].victims), "lines are erased one after the other");
    assert!(record.checks["contents"].contains("pages"), "{:?}", record.checks);
}

#[test]
fn a_host_with_a_limit_stays_at_it_and_runs_repeat() {
    let (first, second) = (go(&[]), go(&[]));
    let before = first.record.metrics["kiops_before"];
    assert!((before / 268.0 - 1.0).abs() < 0.01, "{before}");
    assert_eq!((&first.record, &first.rows), (&second.record, &second.rows));
    let filled = go(&["workload.laid_out=true"]);
    let start = |run: &Run| run.record.metrics["gc_start_s"];
    assert!(start(&filled) < start(&first) / 2.0, "a region that was written before leaves less free flash");
}
