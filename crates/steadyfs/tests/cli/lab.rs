//! `steadyfs lab`: what it prints and writes, how it ends.

use crate::run::run;

/// Settings that make the built-in smoke test a matter of a moment.
const QUICK: [&str; 6] = ["--set", "workload.io_size=4M", "--set", "workload.numjobs=2", "--set", "workload.size=40M"];

fn lab<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let verb = ["lab", "run", "smoke"];
    verb.into_iter().chain(QUICK).chain(args.iter().copied()).collect()
}

#[test]
fn experiments_are_listed_run_and_reported() {
    let listed = run(&["lab", "list"]);
    assert!(listed.code == 0 && listed.stdout.contains("scalelfs-fig2a"), "{listed:?}");
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let out = run(&lab(&["--seeds", "2", "--out", a, "--json"]));
    // The claim of the smoke test is that something is collected, which so little does not make happen.
    assert_eq!((out.code, out.stderr.as_str()), (1, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((json["runs"].as_array().map(Vec::len), &json["scale"]), (Some(2), &"1".into()));
    assert_eq!(json["judgements"][0]["verdict"], "does-not-hold");
    assert_eq!(json["runs"][0]["metrics"]["ios"], 2048.0);
    assert!(json["costs"][0]["cpu_seconds"].as_f64().unwrap() > 0.0);
    let out = run(&lab(&["--seeds", "2", "--jobs", "2", "--out", b, "--set", "workload.rwmixread=90"]));
    assert!(out.stdout.contains("does not hold") && out.stdout.contains("seed 1: trace"), "{out:?}");
    let out = run(&["lab", "compare", a, b]);
    assert!(out.code == 0 && out.stdout.contains("read_mb_s"), "{out:?}");
    let page = dir.path().join("a/index.html");
    std::fs::remove_file(&page).unwrap();
    let out = run(&["lab", "report", a]);
    assert!(out.code == 0 && page.exists(), "{out:?}");
}

#[test]
fn a_claim_that_holds_ends_with_0() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let text = "name = 'mine'\ntitle = 'reads'\n[machine]\ncores = 2\n[device]\npreset = 'pm9a3'\nsize = '256M'\n[workload]\nkind = 'fio'\nrw = 'randread'\nsize = '8M'\n[[claim]]\nmetric = 'read_mb_s'\nat_least = 1\n";
    std::fs::write(&file, text).unwrap();
    let out = run(&["lab", "run", file.to_str().unwrap()]);
    assert!(out.code == 0 && out.stdout.contains("self-checks: all hold"), "{out:?}");
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for (args, part) in [
        (&["lab", "run", "nonsense"][..], "scalelfs-fig2a"),
        (&["lab", "run", "smoke", "--set", "machine.coers=3"], "cores"),
        (&["lab", "run", "smoke", "--scale", "3/2"], "3/2"),
        (&["lab", "run", "smoke", "--scale", "1/100000"], "device.size"),
        (&["lab", "run", "smoke", "--seeds", "0"], "0"),
    ] {
        let out = run(args);
        assert_eq!(out.code, 2, "{out:?}");
        assert!(out.stderr.contains(part), "{out:?}");
    }
    let out = run(&["lab", "compare", "/nowhere/a", "/nowhere/b"]);
    assert!(out.code == 1 && out.stderr.contains("/nowhere/a/runs.jsonl"), "{out:?}");
}

#[test]
fn schedules_are_fuzzed_and_their_number_is_told() {
    let out = run(&["lab", "fuzz", "--seeds", "5..9", "--jobs", "1", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&json["workloads"], &json["seed"]), (&4.into(), &5.into()));
    assert!(json["distinct_states"].as_u64().is_some_and(|states| states > 40), "{json}");
    for (seeds, part) in [("9..5", "there is no seed in it"), ("few", "'few' is no number")] {
        let out = run(&["lab", "fuzz", "--seeds", seeds]);
        assert!(out.code == 2 && out.stderr.contains(part), "{out:?}");
    }
}
