//! Whole runs: the same bytes twice, figures that add up, faults that are seen.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run};

fn go(experiment: &Experiment, seed: u64) -> Run {
    run(experiment, Scale::FULL, seed, &Arc::new(Progress::default())).unwrap()
}

#[test]
fn the_same_experiment_gives_the_same_bytes_and_another_seed_others() {
    let smoke = builtin("smoke").unwrap();
    let bytes = |run: &Run| (serde_json::to_string(&run.record).unwrap(), run.rows.clone());
    let (first, second, other) = (go(&smoke, 0), go(&smoke, 0), go(&smoke, 7));
    assert_eq!(bytes(&first), bytes(&second));
    assert_ne!(first.record.trace, other.record.trace);
    assert_ne!(first.record.metrics["seconds"], other.record.metrics["seconds"]);
}

#[test]
fn figures_add_up() {
    let smoke = builtin("smoke").unwrap();
    let Run { record, rows, .. } = go(&smoke, 3);
    let metric = |name: &str| record.metrics[name];
    assert_eq!(metric("ios"), 8.0 * f64::from(70 << 8), "8 jobs of 70 MiB in blocks of 4 KiB");
    let moved = metric("mb_s") * metric("seconds") * 1e6;
    assert!((moved / (8.0 * f64::from(70 << 20)) - 1.0).abs() < 1e-6, "{moved} bytes");
    assert!((metric("read_mb_s") / metric("mb_s") - 0.2).abs() < 0.01, "a fifth is read");
    // The series covers the whole phase, but for a last short interval.
    let sum: f64 = rows
        .iter()
        .zip([0.0].into_iter().chain(rows.iter().map(|row| row.seconds)))
        .map(|(row, before)| (row.app_write_mb_s + row.app_read_mb_s) * (row.seconds - before))
        .sum();
    assert!((sum * 1e6 / moved - 1.0).abs() < 0.05, "{sum} MB in the series, {moved} bytes in all");
    assert!(rows.windows(2).all(|pair| pair[0].seconds < pair[1].seconds && pair[0].victims <= pair[1].victims));
    assert!(metric("gc_victims") > 0.0 && metric("gc_moved_blocks") > 0.0 && metric("waf") > 1.0);
    assert!(metric("latency_p50_us") <= metric("latency_p99_us"));
    assert_eq!(record.checks["volume"], "clean");
    assert!(record.checks["contents"].starts_with(&format!("{} pages", 8 * 20 * 256)), "{:?}", record.checks);
}

#[test]
fn a_volume_that_is_too_full_is_an_error_with_a_reason() {
    let mut smoke = builtin("smoke").unwrap();
    smoke.set("workload.size=32M").unwrap();
    let failed = run(&smoke, Scale::FULL, 0, &Arc::new(Progress::default())).unwrap_err();
    assert!(failed.to_string().contains("laying out job.") && !failed.is_usage(), "{failed}");
}

#[test]
fn time_ends_jobs_and_depth_is_tasks() {
    let mut smoke = builtin("smoke").unwrap();
    for setting in [
        "workload.runtime=0.05",
        "workload.time_based=true",
        "workload.iodepth=4",
        "workload.direct=true",
        "workload.numjobs=2",
    ] {
        smoke.set(setting).unwrap();
    }
    let Run { record, .. } = go(&smoke, 1);
    assert!((record.metrics["seconds"] / 0.05 - 1.0).abs() < 0.1, "{}", record.metrics["seconds"]);
}

#[test]
fn a_neighbour_has_what_the_workload_leaves_of_the_cores() {
    let text = include_str!("../../experiments/smoke.toml");
    let with = |cores: usize, threads: u32| {
        let text = format!("{text}\n[neighbour]\nthreads = {threads}\nslice_us = 50\nalone_ms = 20\n");
        let mut experiment = Experiment::parse("file.toml", &text).unwrap();
        experiment.set(&format!("machine.cores={cores}")).unwrap();
        go(&experiment, 0).record.metrics
    };
    let wide = with(64, 2);
    // Two tasks that have their cores for themselves: 20,000 slices a second each.
    assert!((wide["neighbour_alone_ops_s"] / 40_000.0 - 1.0).abs() < 0.02, "{}", wide["neighbour_alone_ops_s"]);
    assert!((wide["neighbour_slowdown"] - 1.0).abs() < 0.02, "{}", wide["neighbour_slowdown"]);
    let narrow = with(1, 2);
    assert!((narrow["neighbour_alone_ops_s"] / 20_000.0 - 1.0).abs() < 0.02, "{}", narrow["neighbour_alone_ops_s"]);
    assert!(narrow["neighbour_slowdown"] > 1.1, "{}", narrow["neighbour_slowdown"]);
    assert!(narrow["seconds"] > wide["seconds"], "the workload has the cores for itself no more");
    let e = Experiment::parse("file.toml", &format!("{text}\n[neighbour]\nthreads = 0\nslice_us = 5\n")).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("neighbour.threads"), "{e}");
}

/// What is there before the measured phase, and what is written in it: pages of the files that it does not reach stay
/// as the layout left them, and are read back so.
#[test]
fn a_layout_is_what_the_jobs_find() {
    let with = |layout: &str| {
        let mut smoke = builtin("smoke").unwrap();
        for setting in ["rw=randwrite", "io_size=2M", "fsync=0", &format!("layout={layout}")] {
            smoke.set(&format!("workload.{setting}")).unwrap();
        }
        let Run { record, .. } = go(&smoke, 0);
        assert!(record.checks["contents"].starts_with(&format!("{} pages", 8 * 20 * 256)), "{:?}", record.checks);
        (record.metrics["utilisation_before"], record.metrics["utilisation"], record.metrics["data_blocks"])
    };
    let (written, allocated, empty) = (with("written"), with("fallocate"), with("none"));
    assert!(written.0 > 0.6 && written.0 == allocated.0, "{written:?}, {allocated:?}");
    assert!(empty.0 < 0.05 && empty.1 > empty.0 + 0.05 && empty.1 < written.0, "{empty:?}");
    assert_eq!(allocated.1, allocated.0, "space was there for all that was written");
    let mut smoke = builtin("smoke").unwrap();
    let refused = smoke.set("workload.layout=none").unwrap_err();
    assert!(refused.to_string().contains("jobs that read"), "{refused}");
}
