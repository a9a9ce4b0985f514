//! `steadyfs crash-test`: what it counts, what it replays, how it fails.

use crate::run::run;

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
        (&["crash-test", "--length", "9"], "9"),
    ] {
        let out = run(args);
        assert_eq!(out.code, 2, "{out:?}");
        assert!(out.stderr.contains(part), "{out:?}");
    }
}
