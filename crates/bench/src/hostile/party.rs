//! Processes of other users: this program with a hidden command, which says "ready", waits for "go", and at its end
//! tells in one line of JSON what came of it.
//!
//! Kept true: none outlives this program, and none outlives its guard.

use crate::measure::Stop;
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running process of another user.
pub(super) struct Party {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Party {
    /// Starts one in a directory, as a user without groups. `words` are those behind the hidden command.
    pub(super) fn start(uid: u32, dir: &Path, words: &[&str]) -> Result<Self> {
        // Its path may lie where the user cannot come. Without other groups: std drops those of root with its uid.
        let mut command = Command::new("/proc/self/exe");
        command.arg(super::PARTY).args(words).uid(uid).gid(uid).current_dir(dir);
        // In a process group of its own: Ctrl-C is for us, we end it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("cannot start a process as another user")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = (input.context("it has no input")?, output.context("it has no output")?);
        Ok(Party { name: words.join(" "), child, input, output: BufReader::new(output) })
    }

    /// Waits until it has prepared everything.
    pub(super) fn ready(&mut self, within: Duration, stop: &Stop) -> Result<()> {
        let line = self.line(within, stop)?;
        ensure!(line.trim() == "ready", "{}: it could not begin", self.name);
        Ok(())
    }

    /// Lets it begin.
    pub(super) fn go(&mut self) -> Result<()> {
        writeln!(self.input, "go").with_context(|| format!("{}: it is gone", self.name))
    }

    /// Asks it to end.
    pub(super) fn end(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for what it tells at its end.
    pub(super) fn told<T: DeserializeOwned>(mut self, within: Duration, stop: &Stop) -> Result<T> {
        let line = self.line(within, stop)?;
        serde_json::from_str(&line).with_context(|| format!("{}: it ended with '{}'", self.name, line.trim()))
    }

    /// A line of its; an empty one if it has ended.
    fn line(&mut self, within: Duration, stop: &Stop) -> Result<String> {
        let until = Instant::now() + within;
        let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        loop {
            stop.check()?;
            let mut output = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            match poll(&mut output, Some(&moment)) {
                Ok(0) | Err(rustix::io::Errno::INTR) if Instant::now() < until => {}
                Ok(0) | Err(rustix::io::Errno::INTR) => bail!("{}: no word in {} s", self.name, within.as_secs()),
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has the kernel end this process when the one that started it is gone.
pub(super) fn die_with_the_parent() -> Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Says that everything is prepared, and waits for the word to begin.
pub(super) fn wait_for_go() -> Result<()> {
    say("ready")?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    ensure!(line.trim() == "go", "nobody says go");
    Ok(())
}

/// Tells what came of it.
pub(super) fn tell(what: &impl Serialize) -> Result<()> {
    say(&serde_json::to_string(what)?)
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
