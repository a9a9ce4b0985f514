//! `steadyfs-bench hostile` for parts of a second: every attacker does what it is for, nothing is left behind, also
//! when it is interrupted, and what cannot be measured is refused.
//!
//! Whether bounds hold in so short a time, beside other tests, says nothing.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn bench(scratch: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadyfs-bench"));
    command.args(["hostile", "--amount", "1", "--size", "128", "--scratch"]).arg(scratch);
    command
}

/// Other users have to come as far as the mount, so no directory of ours alone will do.
fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn every_attacker_attacks_and_is_judged() {
    let scratch = scratch();
    let json = tempfile::NamedTempFile::new().unwrap();
    let out = bench(scratch.path()).args(["--seconds", "0.1", "--json"]).arg(json.path()).output().unwrap();
    let (text, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    // Three bounds of each of eight attackers.
    let broken = text.matches(": BROKEN").count();
    assert_eq!(text.matches(": holds").count() + broken, 24, "{said}{text}");
    assert_eq!((out.status.code(), said.contains("bounds are broken")), (Some(i32::from(broken > 0)), broken > 0));
    let report: Value = serde_json::from_slice(&std::fs::read(json.path()).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1 + 2 * 4 + 8, "{said}");
    for row in rows {
        let alone = row["name"] == "alone";
        assert_eq!(row["attacks"]["done"].as_u64().unwrap() == 0, alone, "{row}");
        assert!(row["victim"]["waits"]["all"]["done"].as_u64().unwrap() > 0, "{row}");
    }
    assert!(is_empty(scratch.path()), "something is left");
}

#[test]
fn nothing_is_left_after_a_signal() {
    let scratch = scratch();
    let mut command = bench(scratch.path());
    let mut child = command.args(["--seconds", "60", "--attackers", "fsync"]).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let is_mounted = || std::fs::read_to_string("/proc/mounts").unwrap().contains(scratch.path().to_str().unwrap());
    while !is_mounted() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(50), "it went on");
    assert!(!is_mounted() && is_empty(scratch.path()), "something is left");
}

#[test]
fn what_cannot_be_attacked_is_refused_in_one_line() {
    for (args, part) in [
        (["--attackers", "sleep"], "there are: deep, nameless"),
        (["--seconds", "0"], "--seconds takes"),
        (["--scratch", "/nowhere"], "/nowhere"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadyfs-bench"));
        let out = command.arg("hostile").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(part), "{args:?}: {said}");
    }
}
