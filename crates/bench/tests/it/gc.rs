//! `steadyfs-bench gc` on tiny volumes: every kind of peer is filled, aged, measured and reported, and its options are
//! checked.
//!
//! Figures of volumes this small mean nothing; what is tested is that they are there, and that they are those of the
//! work that was asked for.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(args: &[&str], json: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadyfs-bench"));
    command.args(["gc", "--memory", env!("CARGO_TARGET_TMPDIR")]).args(args).arg("--json").arg(json);
    command.output().unwrap()
}

fn number(outcome: &Value, name: &str) -> f64 {
    outcome[name].as_f64().unwrap_or_else(|| panic!("no {name} in {outcome}"))
}

#[test]
fn all_kinds_of_peers_are_measured_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let peers = ["fuse-scalelfs", "fuse-f2fs-lfs", "library-scalelfs-1cpu", "linux-lfs"];
    let args = "--size 96 --seconds 0.2 --age 0.1 --reps 1 --on memory --ways direct,fsync32 --goals --peers";
    let mut args: Vec<&str> = args.split(' ').collect();
    let list = peers.join(",");
    args.push(&list);
    let svg = dir.path().join("out.svg");
    args.extend(["--svg", svg.to_str().unwrap()]);
    let out = bench(&args, &json);
    let (text, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}{text}");
    assert!(text.contains("user-mode Linux") && text.contains("fuse-scalelfs / linux-lfs"), "{text}");
    // The mount against its other way and the real one, and its amplification, in two ways of writing each.
    assert_eq!(text.matches(": met").count() + text.matches(": not met").count(), 6, "{text}");

    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.contains(">Our mount, gc=scalelfs, ") && picture.contains(">The real F2FS, "), "{picture}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let medium = &report["media"][0];
    let sizes: Vec<u64> = peers.iter().map(|peer| medium["file_bytes"][peer].as_u64().unwrap()).collect();
    assert!(sizes.iter().all(|size| *size == sizes[0] && *size > 24 << 20), "{sizes:?}");
    for peer in peers {
        assert_eq!(number(&medium["aged"][peer], "writes"), f64::from(96 * 256 / 10), "{peer}");
        for (way, name) in [("direct", "direct"), ("fsync every 32", "fsync32")] {
            let outcome = &medium["repetitions"][0][way][peer];
            let (writes, seconds) = (number(outcome, "writes"), number(outcome, "seconds"));
            assert!(writes >= 1.0 && (0.2..60.0).contains(&seconds), "{peer} {name}: {outcome}");
            assert!(number(outcome, "p50_us") <= number(outcome, "p999_us"), "{peer} {name}: {outcome}");
            assert!(number(&outcome["counters"], "written") >= writes, "{peer} {name}: {outcome}");
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["--seconds", "0"][..], "--seconds takes"),
        (&["--age", "200"], "--age"),
        (&["--strict", "--peers", "library-scalelfs"], "--strict needs"),
        (&["--peers", "btrfs"], "btrfs"),
        (&["--on", "disk", "--disk", "/nowhere", "--peers", "library-scalelfs"], "/nowhere"),
    ] {
        let out = bench(args, &dir.path().join("out.json"));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(part), "{args:?}: {said}");
    }
}
