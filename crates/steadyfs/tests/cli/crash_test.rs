//! `steadyfs crash-test`: what it counts, what it replays, how it fails.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{run, steadyfs};

#[test]
fn it_counts_what_it_did() {
    let out = run(&["crash-test", "--random", "2", "--seed", "3", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&json["workloads"], &json["seed"]), (&2.into(), &3.into()));
    assert_eq!(json["violations"], serde_json::json!([]));
    let number = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"));
    assert!(number("crash_points") > 20 && number("distinct_states") > number("crash_points") / 2, "{json}");
    assert!(number("choices") >= number("distinct_states") - number("states_of_recovery"), "{json}");
}

#[test]
fn nearly_full_volumes_come_with_a_flag() {
    let out = run(&["crash-test", "--nearly-full", "--states", "100", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert!(json["distinct_states"].as_u64() >= Some(100), "{json}");
}

#[test]
fn threads_that_share_files_come_with_a_flag() {
    let out = run(&["crash-test", "--torture", "--states", "100", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((json["crashes"].as_u64(), &json["violations"]), (Some(100), &serde_json::json!([])), "{json}");
}

#[test]
fn devices_that_move_blocks_come_with_a_kind() {
    let out = run(&["crash-test", "--kind", "d2fs", "--states", "40", "--jobs", "1", "--seed", "7", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    let number = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"));
    assert_eq!((number("states"), number("seed"), &json["violations"]), (48, 7, &serde_json::json!([])), "{json}");
    assert!(number("states_with_outstanding_records") > 24 && number("states_between_apply_and_checkpoint") > 6);
    let out = run(&["lab", "fuzz", "--kind", "d2fs", "--seeds", "3..4", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    let told = (json["runs"].as_u64(), json["states"].as_u64(), &json["violations"]);
    assert_eq!(told, (Some(1), Some(24), &serde_json::json!([])), "{json}");
    let refused = run(&["crash-test", "--kind", "d2fs", "--length", "1"]);
    assert!(refused.code == 2 && refused.stderr.contains("--length"), "{refused:?}");
}

#[test]
fn zoned_devices_come_with_a_kind() {
    let out = run(&["lab", "fuzz", "--kind", "zoned", "--seeds", "3..4", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    let number = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"));
    assert_eq!((number("runs"), &json["violations"]), (1, &serde_json::json!([])), "{json}");
    assert!(number("states") > 4 && number("zones_finished") > 0 && number("zones_most_active") > 2, "{json}");
}

#[test]
fn a_workload_is_replayed_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.txt");
    std::fs::write(&file, "creat one\n---\nwrite one 0 4096\nfsync one\n").unwrap();
    let out = run(&["crash-test", "--replay", file.to_str().unwrap()]);
    assert_eq!(out.code, 0, "{out:?}");
    let line = |name: &str| out.stdout.lines().any(|line| line.split_whitespace().eq([name, "1"]));
    assert!(line("workloads") && line("seed"), "{}", out.stdout);
    let traced = run(&["crash-test", "--trace", "--replay", file.to_str().unwrap()]);
    let place = |what: &str| traced.stdout.lines().position(|line| line.ends_with(what));
    assert!(place("0> fsync one").is_some() && place("flush: done") < place("0< fsync one"), "{}", traced.stdout);
}

/// Waits until the command heeds the signal and has worked for half a second of processor time since.
fn let_work(child: &Child, signal: Signal) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    let heeds = || {
        let caught =
            read("status").lines().find_map(|line| line.strip_prefix("SigCgt:").map(|set| set.trim().to_owned()));
        u64::from_str_radix(&caught.unwrap(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    };
    // Ticks in user mode: the fourteenth field, the twelfth behind the name.
    let ticks =
        || -> u64 { read("stat").rsplit(')').next().unwrap().split_whitespace().nth(11).unwrap().parse().unwrap() };
    while !heeds() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = ticks();
    while ticks() < before + 50 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_it_with_what_was_done_so_far() {
    let random = ["crash-test", "--random", "1000000000", "--jobs", "1", "--json"];
    let torture = ["crash-test", "--torture", "--states", "1000000000", "--jobs", "2", "--json"];
    let load = ["lab", "fuzz", "--load", "--seeds", "0..1000000000", "--jobs", "1", "--json"];
    let cut = |kind| ["lab", "fuzz", "--kind", kind, "--seeds", "0..1000000000", "--jobs", "1", "--json"];
    for (args, signal, code, counted) in [
        (&cut("zoned")[..], Signal::TERM, 143, "runs"),
        (&cut("d2fs"), Signal::INT, 130, "runs"),
        (&random, Signal::INT, 130, "distinct_states"),
        (&random, Signal::TERM, 143, "crash_points"),
        (&torture, Signal::INT, 130, "crashes"),
        (&load, Signal::TERM, 143, "seeds"),
    ] {
        let child = steadyfs().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let_work(&child, signal);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), &*out.stderr), (Some(code), &b""[..]), "{args:?}: {out:?}");
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(json["interrupted"], true, "{json}");
        assert!(json[counted].as_u64() > Some(0) && json[counted].as_u64() < Some(1_000_000_000), "{json}");
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown = file("unknown", "creat one\nfrobnicate one\n");
    let impossible = file("impossible", "unlink one\n");
    let image = file("image", &"\0".repeat(2 << 20));
    let latin = dir.path().join("latin");
    std::fs::write(&latin, b"creat \xe4\n").unwrap();
    let latin = latin.to_str().unwrap().to_owned();
    for (args, part) in [
        (&["crash-test", "--replay", &unknown][..], "line 2: 'frobnicate one'"),
        (&["crash-test", "--replay", &image], "it is no text of a workload; give a file that crash-test has saved"),
        (&["crash-test", "--replay", &latin], "it is no text of a workload"),
        (&["crash-test", "--replay", &impossible], "does not exist"),
        (&["crash-test", "-o", "frobnicate"], "frobnicate"),
        (&["crash-test", "--full", "-o", "frobnicate"], "frobnicate"),
        (&["crash-test", "--length", "9"], "9"),
    ] {
        let out = run(args);
        assert_eq!(out.code, 2, "{out:?}");
        assert!(out.stderr.contains(part), "{out:?}");
    }
}
