//! Filebench's personalities on small volumes: each does its flowops in their proportions, and what is left is right.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run};

fn go(experiment: &Experiment, seed: u64) -> Run {
    run(experiment, Scale::FULL, seed, &Arc::new(Progress::default())).unwrap()
}

fn count(run: &Run, kind: &str) -> f64 {
    run.record.metrics.get(&format!("{kind}_ops")).copied().unwrap_or(0.0)
}

/// Each kind occurs so often in a round of a thread, to within what the threads had begun when time was over.
fn in_proportion(run: &Run, threads: f64, kinds: &[(&str, f64)]) {
    let (first, each) = kinds[0];
    let rounds = count(run, first) / each;
    assert!(rounds > 5.0 * threads, "{rounds} rounds");
    for (kind, each) in kinds {
        let ours = count(run, kind);
        let left = run.record.metrics.get("deletes_of_open_files").copied().unwrap_or(0.0);
        let least = rounds * each - threads * each - if *kind == "deletefile" { left } else { 0.0 };
        assert!(ours >= least && ours <= rounds * each + threads * each, "{kind}: {ours} in {rounds} rounds");
    }
}

#[test]
fn threads_of_the_file_server_do_their_flowops_in_turn() {
    let run = go(&builtin("filebench-fileserver").unwrap(), 1);
    let kinds = [
        ("createfile", 1.0),
        ("writewholefile", 1.0),
        ("closefile", 3.0),
        ("openfile", 2.0),
        ("appendfilerand", 1.0),
        ("readwholefile", 1.0),
        ("deletefile", 1.0),
        ("statfile", 1.0),
    ];
    in_proportion(&run, 8.0, &kinds);
    let metric = |name: &str| run.record.metrics[name];
    // A whole file of 640 KiB on average is written, and an append of 8 KiB.
    let written = metric("write_mb_s") * metric("seconds") * 1e6 / count(&run, "writewholefile");
    assert!((written / f64::from(648 << 10) - 1.0).abs() < 0.25, "{written} bytes a round");
    assert!((metric("seconds") / 0.5 - 1.0).abs() < 0.3, "{} s", metric("seconds"));
    assert_eq!(run.record.checks["volume"], "clean");
}

#[test]
fn mail_is_synced_twice_for_each_that_is_deleted_and_runs_repeat() {
    let varmail = builtin("filebench-varmail").unwrap();
    let run = go(&varmail, 2);
    let kinds =
        [("createfile", 1.0), ("appendfilerand", 2.0), ("fsync", 2.0), ("readwholefile", 2.0), ("openfile", 2.0)];
    in_proportion(&run, 8.0, &kinds);
    in_proportion(&run, 8.0, &[("createfile", 1.0), ("deletefile", 1.0), ("closefile", 3.0)]);
    assert!(run.record.metrics["flushes"] > 10.0, "fsyncs reach the device");
    let bytes = |run: &Run| (serde_json::to_string(&run.record).unwrap(), run.rows.clone());
    assert!(bytes(&run) == bytes(&go(&varmail, 2)), "the same seed gives other bytes");
    assert_ne!(run.record.trace, go(&varmail, 3).record.trace);
}

#[test]
fn pages_are_read_ten_times_for_each_line_of_the_log() {
    let run = go(&builtin("filebench-webserver").unwrap(), 1);
    in_proportion(&run, 8.0, &[("appendlog", 1.0), ("readwholefile", 10.0), ("openfile", 10.0), ("closefile", 10.0)]);
    let checked = &run.record.checks["contents"];
    assert!(checked.starts_with("501 files"), "{checked}");
}

#[test]
fn database_writers_keep_step_with_readers() {
    let run = go(&builtin("filebench-oltp").unwrap(), 1);
    let (reads, writes, logs) = (count(&run, "shadowread"), count(&run, "dbwrite"), count(&run, "lg_write"));
    assert!(reads > 3000.0, "{reads} reads");
    // Two writers write 100 times for 1000 posts each, and are at most 2000 posts and a batch behind; the log once
    // for 3200.
    let batches = (writes / 200.0, reads / 1000.0);
    assert!(batches.0 <= batches.1 + 1.0 && batches.0 >= batches.1 - 3.0, "{writes} writes, {reads} reads");
    assert!(logs >= 1.0 && logs <= reads / 3200.0 + 1.0, "{logs} writes of the log");
    assert_eq!(run.record.checks["volume"], "clean");
}
