//! The processes that serve FUSE mounts, ours and the peer's, and how to start and end them.
//!
//! This program starts itself again with a hidden command, so that a server runs as a process of its own, as it does
//! for users.

use crate::memfuse;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{OpenOptions, dump_no_core, keep_few_capabilities, refuse_other_system_calls};
use steadyfs_fuse::FuseOptions;

/// The name of the hidden command.
pub(crate) const COMMAND: &str = "serve";

/// The option that leaves the server all rights.
pub(crate) const NO_SANDBOX: &str = "nosandbox";

/// Mounts a volume and serves it until it is unmounted, with the rights that the command keeps. `options` are those of
/// `steadyfs mount -o`.
pub(crate) fn serve(device: &Path, dir: &Path, options: &str) -> Result<()> {
    let mut core = MountOptions::default();
    let mut fuse = FuseOptions::new(device);
    let options = || options.split(',').filter(|option| !option.is_empty());
    let sandbox = options().all(|option| option != NO_SANDBOX);
    for option in options().filter(|option| *option != NO_SANDBOX) {
        let (for_core, for_fuse) = (core.set(option)?, fuse.take(option)?);
        ensure!(for_core || for_fuse, "unknown mount option '{option}'");
    }
    // As the command does.
    if core.spare_bytes < MountOptions::default().spare_bytes {
        steadyfs_device::share_arenas();
    }
    steadyfs_fuse::become_io_flusher();
    if sandbox {
        dump_no_core()?;
        keep_few_capabilities()?;
    }
    let open = OpenOptions { leave_mountable: true, ..OpenOptions::default() };
    let fs = Fs::mount(crate::bed::open(device, open)?, core)?;
    let mounted = steadyfs_fuse::mount(fs, dir, &fuse)?;
    if sandbox {
        refuse_other_system_calls()?;
    }
    writeln!(std::io::stdout(), "ready").context("nobody waits for the mount")?;
    Ok(mounted.wait()?)
}

/// The serving process. Unmount before dropping it: what still serves then is killed.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts it, and waits until the volume is mounted.
    pub(crate) fn start(device: &Path, dir: &Path, options: &str) -> Result<Self> {
        let mut command = this_program(COMMAND)?;
        command.args([device, dir]).arg(options).stdin(Stdio::null());
        let mut server = Server { child: command.spawn().context("cannot start the server of the mount")? };
        let mut line = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            bail!("the mount failed ({})", server.child.wait()?);
        }
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, after unmounting.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the server of the mount failed ({status})");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After an unmount it writes its last checkpoint and ends by itself.
        end(&mut self.child);
    }
}

/// Waits for a process that ends by itself soon; kills it if it does not.
fn end(child: &mut Child) {
    for _ in 0..100 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// This program with a hidden command, in a process group of its own: Ctrl-C is for us, we unmount.
fn this_program(command: &str) -> Result<Command> {
    let program = std::env::current_exe().context("where is this program?")?;
    let mut this = Command::new(program);
    this.arg(command).stdout(Stdio::piped()).process_group(0);
    Ok(this)
}

/// The peer's process. It lives as long as its file system, through all of its mounts.
pub(crate) struct PeerProcess {
    child: Child,
    /// Closed to end it.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PeerProcess {
    /// Starts it with an empty file system.
    pub(crate) fn start(dir: &Path, cache: &str) -> Result<Self> {
        let mut command = this_program(memfuse::COMMAND)?;
        let mut child = command.arg(dir).arg(cache).stdin(Stdio::piped()).spawn().context("cannot start the peer")?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        Ok(PeerProcess { child, orders, answers: BufReader::new(answers.context("the peer has no output")?) })
    }

    /// Lets it mount.
    pub(crate) fn mount(&mut self) -> Result<()> {
        let orders = self.orders.as_mut().context("the peer has no input")?;
        writeln!(orders, "mount").context("the peer is gone")?;
        self.hear("ready")
    }

    /// Waits for a word of it: "ready" after [`PeerProcess::mount`], "gone" after unmounting.
    pub(crate) fn hear(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line.trim() == word, "the peer said '{}', not '{word}'", line.trim());
        Ok(())
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It ends with its input. One that still serves a mount does not, and is killed.
        drop(self.orders.take());
        end(&mut self.child);
    }
}
