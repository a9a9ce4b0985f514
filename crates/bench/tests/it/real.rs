//! `steadyfs-bench real` on a tree of a few files: programs run on every kind of mount, are judged, and are refused.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steadyfs-bench")).arg("real").args(args).output().unwrap()
}

#[test]
fn programs_are_measured_on_every_kind_of_mount() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let args = "--reps 1 --files 40 --size 512 --programs git-clone,rm-rf --targets ext4,memfuse-acl,fuse-loop --goals";
    let out = bench(&args.split(' ').chain(["--json", json.to_str().unwrap()]).collect::<Vec<_>>());
    let (text, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{text}");
    // Beside ext4 only the clone has a goal, beside the peer both have.
    assert_eq!(text.matches(": met").count() + text.matches(": not met").count(), 3, "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    for program in ["git-clone", "rm-rf"] {
        for target in ["ext4", "memfuse-acl", "fuse-loop"] {
            let rate = &report["repetitions"][0][program][target];
            assert!(rate.as_f64().is_some_and(|rate| rate > 1.0), "{program} on {target}: {rate}");
        }
    }
}

#[test]
fn what_no_program_can_run_on_is_refused_in_one_line() {
    for (args, part) in [
        (["--targets", "library"], "is none"),
        (["--programs", "emacs"], "there are: git-clone"),
        (["--scratch", "/nowhere"], "/nowhere"),
    ] {
        let out = bench(&args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(part), "{args:?}: {said}");
    }
}
