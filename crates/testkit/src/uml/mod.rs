//! The real Linux kernel as a process, over given disk images.
//!
//! Debian's user-mode-linux is a 6.1 kernel that runs as an ordinary program, as any user, at native speed except for system calls,
//! with one CPU. The guest sees the host's files read-only, so the host's programs (and the binaries that cargo built) run there by
//! their path; a scratch directory, `$HOST`, is the only place where it can write. The disks are `/dev/ubda`, `/dev/ubdb`, ...
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
//! The script runs under `sh -eu`. What is still mounted at its end is unmounted, unless the machine is to [`Uml::crash`]. F2FS is
//! there; further modules (dm, nilfs2) are loaded by [`Uml::module`]. This kernel's F2FS has no compression, casefolding,
//! encryption and verity.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::error::{Error, Result, io};
use crate::klog;
use crate::process::{self, Running, tail};

const PACKAGE: &str = "user-mode-linux";
const INIT: &str = include_str!("init.sh");
const BEGIN: &str = "@@steadyfs-begin";
const END: &str = "@@steadyfs-end";
/// The script's status when it ended well but its mount could not be undone.
const BUSY: i32 = 199;
/// Modules that every script finds loaded: F2FS, the checksum that it asks the crypto layer for, and the format of its quota files.
const F2FS_MODULES: [&str; 4] = ["crypto/crc32_generic", "fs/quota/quota_tree", "fs/quota/quota_v2", "fs/f2fs/f2fs"];

/// How the machine ends once the script has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// What is mounted is unmounted.
    Clean,
    /// The power goes off: nothing is written back or unmounted.
    PowerOff,
    /// The power goes off when the script prints this line.
    PowerOffAt(String),
}

/// A machine to be started. See the head of the module.
#[derive(Debug, Clone)]
pub struct Uml {
    disks: Vec<(PathBuf, bool)>,
    modules: Vec<String>,
    script: String,
    expected: Vec<String>,
    timeout: Duration,
    mem_mib: u32,
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

impl Default for Uml {
    fn default() -> Self {
        Self {
            disks: Vec::new(),
            modules: F2FS_MODULES.map(str::to_owned).to_vec(),
            script: String::new(),
            expected: Vec::new(),
            timeout: Duration::from_secs(120),
            mem_mib: 512,
            end: End::Clean,
        }
    }
}

impl Uml {
    /// A machine with no disks, 512 MiB and two minutes to live.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a disk: `/dev/ubda`, then `/dev/ubdb`, ... The image is a file whose size is a multiple of 512 bytes.
    pub fn disk(mut self, image: impl AsRef<Path>) -> Self {
        self.disks.push((image.as_ref().to_owned(), true));
        self
    }

    /// Adds a disk that the kernel cannot write to.
    pub fn disk_read_only(mut self, image: impl AsRef<Path>) -> Self {
        self.disks.push((image.as_ref().to_owned(), false));
        self
    }

    /// Loads a module by its path below the kernel's module directory, without `.ko`, such as `drivers/md/dm-mod`. Modules that it
    /// depends on come first.
    pub fn module(mut self, path: &str) -> Self {
        self.modules.push(path.to_owned());
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
        self.mem_mib = mib;
        self
    }

    /// A kernel message that contains `part` is no complaint in this run.
    pub fn expect(mut self, part: &str) -> Self {
        self.expected.push(part.to_owned());
        self
    }

    /// The power goes off after the script: what it mounted stays mounted, what is in the page cache is lost. What the kernel had
    /// written to a disk is there.
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

    /// As [`Uml::run`], but whatever the script and the kernel said is a result; fails only when the machine could not run it.
    pub fn run_any(self) -> Result<Output> {
        let kernel = process::find("linux.uml", PACKAGE)?;
        process::find("insmod", "kmod")?;
        let scratch =
            tempfile::Builder::new().prefix("steadyfs-uml-").tempdir().map_err(io("create a scratch directory"))?;
        self.write_guest_files(scratch.path())?;
        let args = self.command_line(scratch.path())?;
        let stop_line = match &self.end {
            End::PowerOffAt(line) => Some(line.as_str()),
            _ => None,
        };
        // UML looks at TMPDIR for the file that is its memory; /dev/shm, its default, is memory.
        let running = Running::start(&kernel, &args, &[("TMPDIR", "/dev/shm")])?;
        let finished = running.wait(self.timeout, |r| match stop_line {
            Some(line) => Ok(r.stderr_so_far()?.lines().any(|l| l.trim_end() == line)),
            None => Ok(false),
        })?;
        let kernel = klog::tidy(&finished.stdout);
        let (stdout, status) = script_output(&finished.stderr);
        let killed = stop_line.is_some_and(|line| stdout.lines().any(|l| l.trim_end() == line));
        if status.is_none() && !killed {
            return Err(Error::Boot { stdout: stdout.to_owned(), kernel: tail(klog::after_boot(&kernel)) });
        }
        let complaints = klog::complaints(&kernel, &self.expected);
        let stdout = stdout.to_owned();
        Ok(Output { stdout, status, kernel, complaints, elapsed: finished.elapsed, scratch })
    }

    fn write_guest_files(&self, scratch: &Path) -> Result<()> {
        let root = module_root()?;
        for module in &self.modules {
            let file = root.join(format!("{module}.ko"));
            if !file.is_file() {
                return Err(Error::Missing { what: file.display().to_string(), package: PACKAGE });
            }
        }
        let init = INIT
            .replace("@HOST@", &scratch.display().to_string())
            .replace("@MODULES@", &self.modules.join(" "))
            .replace("@MODULE_ROOT@", &root.display().to_string())
            .replace("@BEGIN@", BEGIN)
            .replace("@END@", END)
            .replace("@BUSY@", &BUSY.to_string())
            .replace("@UNMOUNT@", if self.end == End::Clean { "yes" } else { "no" });
        write(&scratch.join("init.sh"), &init)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(scratch.join("init.sh"), executable).map_err(io("make init.sh executable"))?;
        write(&scratch.join("script.sh"), &self.script)
    }

    fn command_line(&self, scratch: &Path) -> Result<Vec<String>> {
        let mut args = vec![
            format!("mem={}M", self.mem_mib),
            "root=/dev/root rootfstype=hostfs rootflags=/ ro".to_owned(),
            // The host's /dev until init mounts its own: init.sh may lie in /dev/shm.
            "devtmpfs.mount=0".to_owned(),
            // No SELinux: it would add xattrs of its own.
            "lsm=yama".to_owned(),
            format!("uml_dir={}", scratch.display()),
            "umid=uml".to_owned(),
            // The kernel's log is our standard output, the script's output our standard error.
            "con=null con0=null,fd:1 con1=null,fd:2 ssl=null".to_owned(),
            format!("init={}", scratch.join("init.sh").display()),
        ];
        for (n, (image, writable)) in self.disks.iter().enumerate() {
            let image = image.canonicalize().map_err(io(format!("find the disk image {}", image.display())))?;
            // By a link with a plain name: the kernel's option syntax knows commas and blanks.
            let link = scratch.join(format!("disk{n}"));
            std::os::unix::fs::symlink(image, &link).map_err(io("link a disk image"))?;
            args.push(format!("ubd{n}{}={}", if *writable { "" } else { "r" }, link.display()));
        }
        Ok(args.iter().flat_map(|a| a.split(' ')).map(str::to_owned).collect())
    }
}

/// The version of the kernel, such as `6.1.176`.
pub fn kernel_version() -> Result<String> {
    let kernel = process::find("linux.uml", PACKAGE)?;
    Ok(process::run(&kernel, &["--version"], Duration::from_secs(10))?.stdout.trim().to_owned())
}

/// The directory with the modules of this very kernel.
fn module_root() -> Result<PathBuf> {
    let root = PathBuf::from(format!("/usr/lib/uml/modules/{}/kernel", kernel_version()?));
    if root.is_dir() { Ok(root) } else { Err(Error::Missing { what: root.display().to_string(), package: PACKAGE }) }
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
