//! Runs another program so that nothing of it outlives the test.
//!
//! The program leads a process group of its own. The group is killed when the time is up, when the caller drops
//! [`Running`], and when the test process itself dies in whatever way (a watcher inside the group reads a pipe whose
//! other end the test holds). That matters for user-mode Linux, whose helper processes keep a lock on the disk image
//! when only their parent is killed. Output goes to unlinked temporary files, so that no pipe can fill up and no reader
//! can hang on a child that holds it open.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result, io};

/// Waits for the test to go away, then kills the whole group; meanwhile becomes the program itself.
const WATCHED: &str = r#"exec 3<&0; (cat <&3 >/dev/null 2>&1; kill -KILL 0) & exec "$@" 3<&- </dev/null"#;

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(10);

/// The last lines of a program's output that go into an error text.
const TAIL_LINES: usize = 60;

/// How a program ended and what it printed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit status; `128 + n` when signal `n` ended it.
    pub status: i32,
    /// Its standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it ran.
    pub elapsed: Duration,
}

/// A program that runs in a process group of its own.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    group: Pid,
    /// Held open: its end tells the watcher to kill the group.
    _alive: Option<ChildStdin>,
    stdout: File,
    stderr: File,
    started: Instant,
    ended: bool,
}

impl Running {
    /// Starts `program` with `args`. Its standard input is empty.
    pub fn start<S: AsRef<std::ffi::OsStr>>(program: &Path, args: &[S], env: &[(&str, &str)]) -> Result<Self> {
        let name = program.display().to_string();
        let stdout = tempfile::tempfile().map_err(io("create an output file"))?;
        let stderr = tempfile::tempfile().map_err(io("create an output file"))?;
        let copy = |file: &File| file.try_clone().map_err(io("duplicate an output file"));
        let mut child = Command::new("/bin/sh")
            .args(["-c", WATCHED, "sh"])
            .arg(program)
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(copy(&stdout)?)
            .stderr(copy(&stderr)?)
            .process_group(0)
            .spawn()
            .map_err(io(format!("start {name}")))?;
        let group = Pid::from_child(&child);
        let alive = child.stdin.take();
        assert!(alive.is_some(), "the watcher's pipe was asked for");
        Ok(Self { name, child, group, _alive: alive, stdout, stderr, started: Instant::now(), ended: false })
    }

    /// What the program has printed on its standard output so far.
    pub fn stdout_so_far(&self) -> Result<String> {
        contents(&self.stdout)
    }

    /// What the program has printed on its standard error so far.
    pub fn stderr_so_far(&self) -> Result<String> {
        contents(&self.stderr)
    }

    /// Waits until the program ends, or until `stop` (looked at every few milliseconds) says so, and then kills the
    /// group. `Error::Timeout` when neither happens before `limit` has passed since the start.
    pub fn wait(mut self, limit: Duration, mut stop: impl FnMut(&Self) -> Result<bool>) -> Result<Finished> {
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(io(format!("wait for {}", self.name)))? {
                break status;
            }
            if self.started.elapsed() > limit {
                self.kill();
                let tail = tail(&format!("{}{}", self.stdout_so_far()?, self.stderr_so_far()?));
                return Err(Error::Timeout { program: self.name.clone(), after: limit, tail });
            }
            if stop(&self)? {
                self.kill();
                break self.child.wait().map_err(io(format!("wait for {}", self.name)))?;
            }
            std::thread::sleep(POLL);
        };
        self.kill();
        use std::os::unix::process::ExitStatusExt;
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Finished {
            status,
            stdout: self.stdout_so_far()?,
            stderr: self.stderr_so_far()?,
            elapsed: self.started.elapsed(),
        })
    }

    /// Kills the whole group. The watcher keeps the group's number from being reused until then.
    fn kill(&mut self) {
        if !self.ended {
            self.ended = true;
            // The only possible failure is that nobody is left to kill.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(program: &Path, args: &[S], limit: Duration) -> Result<Finished> {
    Running::start(program, args, &[])?.wait(limit, |_| Ok(false))
}

/// Looks a program up in `PATH` and in the directories of system programs, which a user's `PATH` often lacks.
pub fn find(program: &str, package: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::Missing { what: program.to_owned(), package })
}

/// The last lines of a long text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The whole text of an output file, whose own position the child shares and which is therefore read by offset.
fn contents(file: &File) -> Result<String> {
    use std::os::unix::fs::FileExt;
    let length = file.metadata().map_err(io("measure an output file"))?.len();
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64).map_err(io("read an output file"))? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
