//! Our mount: the process that serves it, and how to start and end that.
//!
//! This program starts itself anew with the hidden command `serve`, so that the server runs as a process of its own, as it does for users.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_fuse::FuseOptions;

/// The name of the hidden command.
pub(crate) const COMMAND: &str = "serve";

/// Mounts a volume and serves it until it is unmounted. `options` are those of `steadyfs mount -o`.
pub(crate) fn serve(device: &Path, dir: &Path, options: &str) -> Result<()> {
    let mut core = MountOptions::default();
    let mut fuse = FuseOptions::new(device);
    for option in options.split(',').filter(|o| !o.is_empty()) {
        let (for_core, for_fuse) = (core.set(option)?, fuse.take(option)?);
        ensure!(for_core || for_fuse, "unknown mount option '{option}'");
    }
    steadyfs_fuse::become_io_flusher();
    let open = OpenOptions { leave_mountable: true, ..OpenOptions::default() };
    let fs = Fs::mount(Arc::new(FileDevice::open(device, open)?), core)?;
    let mounted = steadyfs_fuse::mount(fs, dir, &fuse)?;
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
        let program = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(program);
        command.arg(COMMAND).args([device, dir]).arg(options);
        // In a process group of its own: Ctrl-C is for us, we unmount.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
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
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
