//! The real Linux kernel over given disk images: boots, runs a shell script, goes off.
//!
//! There are two kernels. [`Uml`] is the one for everyday use: it boots in a second. [`Qemu`] takes twenty, but is
//! Debian's whole kernel, with compression, casefolding, encryption, verity and several CPUs.
//!
//! The guest sees the host's files read-only, so the host's programs (and the binaries that cargo built) run there by
//! their path; a scratch directory, `$HOST`, is the only place where it can write. `$MNT` is an empty directory to
//! mount on.
//!
//! ```no_run
//! # fn main() -> steadyfs_testkit::Result<()> {
//! use steadyfs_testkit::Uml;
//! let out = Uml::new()
//!     .disk("/tmp/volume.img")
//!     .script("mount -t f2fs -o mode=lfs /dev/ubda $MNT\n ls -lR $MNT >$HOST/listing")
//!     .run()?;
//! println!("{}", std::fs::read_to_string(out.file("listing")).unwrap());
//! # Ok(())
//! # }
//! ```
//!
//! The script runs under `sh -eu`. Mounts that are left at its end are unmounted, unless the machine is to
//! [`Machine::crash`].

mod initramfs;
pub mod qemu;
pub mod uml;
mod uml_kernel;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::{Error, Result, io};
use crate::klog;
use crate::process::{Running, tail};

pub use qemu::Qemu;
pub use uml::Uml;

/// The common end of the guests' init scripts.
const RUN: &str = include_str!("run.sh");
const BEGIN: &str = "@@steadyfs-begin";
const END: &str = "@@steadyfs-end";
/// The script's status when it ended well but its mount could not be undone.
const BUSY: i32 = 199;

/// How a kind of machine is started.
pub trait Kernel: Default {
    /// The kind's name, for the names of directories.
    const NAME: &'static str;
    /// How long a machine may run if nobody says otherwise.
    const LIMIT: Duration;

    /// Starts the machine. In `scratch`, which the guest sees as `/run/host`, lie `script.sh` and `run.sh`; the guest's
    /// init shall end by reading the latter. The kernel's log is the process's standard output, the script's terminal
    /// its standard error.
    fn start(&self, setup: &Setup, scratch: &Path) -> Result<Running>;
}

/// The parts of a machine.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Images and whether they may be written to.
    pub disks: Vec<(PathBuf, bool)>,
    /// Kernel modules beyond those for F2FS.
    pub modules: Vec<String>,
    /// Memory.
    pub mem_mib: u32,
}

/// How the machine ends once the script has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Mounts are unmounted.
    Clean,
    /// The power goes off: nothing is written back or unmounted.
    PowerOff,
    /// The power goes off when the script prints this line.
    PowerOffAt(String),
}

/// A machine to be started. See the head of the module.
#[derive(Debug, Clone)]
pub struct Machine<K> {
    kernel: K,
    setup: Setup,
    script: String,
    expected: Vec<String>,
    timeout: Duration,
    end: End,
}

/// What a machine left behind.
#[derive(Debug)]
pub struct Output {
    /// What the script printed, both its streams.
    pub stdout: String,
    /// Its exit status. When the power went off before its end: none.
    pub status: Option<i32>,
    /// The kernel's log.
    pub kernel: String,
    /// Lines of the log that a sound volume does not cause, less those that were expected.
    pub complaints: Vec<String>,
    /// From start to power-off.
    pub elapsed: Duration,
    scratch: TempDir,
}

impl Output {
    /// The host's path of a file that the script wrote as `$HOST/name`. The file goes away with this value.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

impl<K: Kernel> Default for Machine<K> {
    fn default() -> Self {
        Self {
            kernel: K::default(),
            setup: Setup { disks: Vec::new(), modules: Vec::new(), mem_mib: 512 },
            script: String::new(),
            expected: Vec::new(),
            timeout: K::LIMIT,
            end: End::Clean,
        }
    }
}

impl<K: Kernel> Machine<K> {
    /// A machine with no disks and 512 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a disk: `/dev/ubda`, `/dev/ubdb`, ... of [`Uml`], `/dev/vda`, ... of [`Qemu`]. The image is a file whose
    /// size is a multiple of 512 bytes.
    pub fn disk(mut self, image: impl AsRef<Path>) -> Self {
        self.setup.disks.push((image.as_ref().to_owned(), true));
        self
    }

    /// Adds a disk that the kernel cannot write to.
    pub fn disk_read_only(mut self, image: impl AsRef<Path>) -> Self {
        self.setup.disks.push((image.as_ref().to_owned(), false));
        self
    }

    /// Loads a kernel module. [`Uml`] wants its path below the kernel's module directory, without `.ko`, such as
    /// `drivers/md/dm-mod`, and modules that it depends on first; [`Qemu`] its name.
    pub fn module(mut self, module: &str) -> Self {
        self.setup.modules.push(module.to_owned());
        self
    }

    /// Adds lines to the script, which runs under `sh -eu`.
    pub fn script(mut self, body: impl AsRef<str>) -> Self {
        self.script.push_str(body.as_ref());
        self.script.push('\n');
        self
    }

    /// How long the machine may run; then it is killed and the result is [`Error::Timeout`].
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// The machine's memory.
    pub fn mem_mib(mut self, mib: u32) -> Self {
        self.setup.mem_mib = mib;
        self
    }

    /// A kernel message that contains `part` is no complaint in this run.
    pub fn expect(mut self, part: &str) -> Self {
        self.expected.push(part.to_owned());
        self
    }

    /// The power goes off after the script: what it mounted stays mounted, what is in the page cache is lost. What the
    /// kernel had written to a disk is there.
    pub fn crash(mut self) -> Self {
        self.end = End::PowerOff;
        self
    }

    /// The power goes off while the script runs: the process is killed when the script prints `line`.
    pub fn crash_at(mut self, line: &str) -> Self {
        self.end = End::PowerOffAt(line.to_owned());
        self
    }

    /// Boots, runs the script and fails unless the script ended with status 0 and the kernel did not complain.
    pub fn run(self) -> Result<Output> {
        let crash = matches!(self.end, End::PowerOffAt(_));
        let out = self.run_any()?;
        if !out.complaints.is_empty() {
            return Err(Error::Kernel { complaints: out.complaints, stdout: out.stdout });
        }
        match out.status {
            Some(0) => Ok(out),
            None if crash => Ok(out),
            status => Err(Error::Script {
                status: status.unwrap_or(-1),
                stdout: out.stdout,
                kernel: tail(klog::after_boot(&out.kernel)),
            }),
        }
    }

    /// As [`Machine::run`], but whatever the script and the kernel said is a result; fails only when the machine could
    /// not run it.
    pub fn run_any(self) -> Result<Output> {
        let prefix = format!("steadyfs-{}-", K::NAME);
        let scratch = tempfile::Builder::new().prefix(&prefix).tempdir().map_err(io("create a scratch directory"))?;
        let run = RUN
            .replace("@BEGIN@", BEGIN)
            .replace("@END@", END)
            .replace("@BUSY@", &BUSY.to_string())
            .replace("@UNMOUNT@", if self.end == End::Clean { "yes" } else { "no" });
        write(&scratch.path().join("run.sh"), &run)?;
        write(&scratch.path().join("script.sh"), &self.script)?;
        let stop_line = match &self.end {
            End::PowerOffAt(line) => Some(line.as_str()),
            _ => None,
        };
        let running = self.kernel.start(&self.setup, scratch.path())?;
        let finished = running.wait(self.timeout, |r| match stop_line {
            Some(line) => Ok(has_line(&r.stderr_so_far()?, line)),
            None => Ok(false),
        })?;
        let kernel = klog::tidy(&finished.stdout);
        let (stdout, status) = script_output(&finished.stderr);
        let killed = stop_line.is_some_and(|line| has_line(stdout, line));
        if status.is_none() && !killed {
            return Err(Error::Boot { stdout: stdout.to_owned(), kernel: tail(klog::after_boot(&kernel)) });
        }
        let complaints = klog::complaints(&kernel, &self.expected);
        let stdout = stdout.to_owned();
        Ok(Output { stdout, status, kernel, complaints, elapsed: finished.elapsed, scratch })
    }
}

/// Links to the disk images by plain names, because the options of kernels and emulators know commas and blanks.
fn link_disks(setup: &Setup, scratch: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let link = |(n, (image, writable)): (usize, &(PathBuf, bool))| {
        let image = image.canonicalize().map_err(io(format!("find the disk image {}", image.display())))?;
        let link = scratch.join(format!("disk{n}"));
        std::os::unix::fs::symlink(image, &link).map_err(io("link a disk image"))?;
        Ok((link, *writable))
    };
    setup.disks.iter().enumerate().map(link).collect()
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|l| l.trim_end() == line)
}

/// What the script printed, and its status, out of everything that came over the script's terminal.
fn script_output(terminal: &str) -> (&str, Option<i32>) {
    let body = match terminal.split_once(&format!("{BEGIN}\n")) {
        Some((_, body)) => body,
        None => return (terminal, None),
    };
    match body.rsplit_once(&format!("{END} ")) {
        Some((stdout, status)) => (stdout, status.lines().next().and_then(|s| s.trim().parse().ok())),
        None => (body, None),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(io(format!("write {}", path.display())))
}

/// Writes an init script.
fn write_executable(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, executable).map_err(io(format!("make {} executable", path.display())))
}
