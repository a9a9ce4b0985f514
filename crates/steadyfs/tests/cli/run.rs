//! Runs the command and gives back what a user sees.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a user sees of a run.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs `steadyfs ARGS`.
pub(crate) fn run(args: &[impl AsRef<OsStr>]) -> Output {
    run_as("steadyfs", args)
}

/// The command, to be given arguments.
pub(crate) fn steadyfs() -> Command {
    Command::new(env!("CARGO_BIN_EXE_steadyfs"))
}

/// Runs the binary under another name.
pub(crate) fn run_as(name: &str, args: &[impl AsRef<OsStr>]) -> Output {
    finish(steadyfs().arg0(name).args(args))
}

/// Runs a prepared command.
pub(crate) fn finish(command: &mut Command) -> Output {
    let out = command.output().expect("the command starts");
    Output {
        code: out.status.code().expect("the command exits by itself"),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// A script in a mount namespace of its own. That begins with a copy of every mount there is, which would keep what
/// other tests have mounted alive when they unmount it: it lets go of them first.
pub(crate) fn in_a_mount_namespace(script: &str) -> Command {
    let others = "umount --all --internal-only --types fuse.steadyfs,fuseblk.steadyfs >/dev/null 2>&1 || true";
    let mut run = Command::new("unshare");
    run.args(["--mount", "--propagation", "private", "bash", "-c", &format!("{others}\n{script}")]);
    run
}

/// Runs `umount DIR`. Busy is tried again.
#[track_caller]
pub(crate) fn umount(dir: &Path) {
    let out = unless_busy(|| finish(Command::new("umount").arg(dir)));
    assert_eq!(out.code, 0, "{out:?}");
}

/// Runs a command that needs that nobody has something open (to write), once more as long as it says "busy". A process
/// that another test is just starting has a copy of every file that was open here, until it executes its own program. A
/// recorder of the mount asks it something every few milliseconds.
#[track_caller]
pub(crate) fn unless_busy(mut run: impl FnMut() -> Output) -> Output {
    let start = Instant::now();
    loop {
        let out = run();
        if out.code == 0 || !out.stderr.contains("busy") {
            return out;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{out:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
