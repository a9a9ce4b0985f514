//! An image, a mount point, and the process that serves one at the other.
//!
//! The process is this test program again, told by its environment to run only [`serve`]. Whatever happens to a test,
//! the process dies with it and nothing stays mounted.

use rustix::fs::{FlockOperation, OFlags, flock, open};
use rustix::process::{Gid, Pid, Signal, Uid, kill_process, set_parent_process_death_signal};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadyfs_core::mkfs::{Infinite, MkfsOptions, format, parse_features};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_fuse::{FuseOptions, Transport};

/// Set for the process that serves: image, mount point and options, one per line.
pub(crate) const SERVE: &str = "STEADYFS_TEST_SERVE";

/// Set to have requests come through io_uring, where root has switched that on. Unset they never do: tests kill serving
/// processes, and one that is killed on a ring can leave a mount that only `abort` ends. So set it in a virtual machine
/// only that can be thrown away: `tools/ring.sh` does.
const RING: &str = "STEADYFS_TEST_RING";

/// The ways in which the kernel may cache contents.
pub(crate) const CACHES: [&str; 3] = ["writeback_cache", "writethrough", "direct_io"];

/// How long anything may take before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Says what is missing to mount.
fn require_mounting() {
    assert!(rustix::process::geteuid().is_root(), "mounting is tested as root: run the tests as root");
    let device = open("/dev/fuse", OFlags::RDWR, rustix::fs::Mode::empty());
    assert!(device.is_ok(), "mounting needs /dev/fuse: load the kernel module (`modprobe fuse`): {device:?}");
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_to_be(is_so), "still not: {what}");
}

/// Waits until something is so; false if it has not come to be. For those whom others only leave when they go on.
pub(crate) fn comes_to_be(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Unmounts as `umount` does.
pub(crate) fn umount(dir: &Path) {
    retried_while_busy(|| {
        let unmounted = rustix::mount::unmount(dir, rustix::mount::UnmountFlags::empty());
        unmounted.map_err(|errno| steadyfs_fuse::Error::Unmount { dir: dir.to_owned(), source: errno.into() })
    });
}

/// Unmounts in some way. Busy is tried again: a process that another test is just starting has a copy of every file
/// that was open here, until it executes its own program.
pub(crate) fn retried_while_busy(mut unmount: impl FnMut() -> steadyfs_fuse::Result<()>) {
    let busy = |error: &steadyfs_fuse::Error| matches!(error, steadyfs_fuse::Error::Unmount { source, .. } if source.kind() == ErrorKind::ResourceBusy);
    let mut last = Ok(());
    until("not busy any more", || {
        last = unmount();
        !last.as_ref().is_err_and(busy)
    });
    last.expect("unmounted");
}

/// Makes a volume in an image file or on a block device.
pub(crate) fn make_volume(path: &Path, bytes: u64) {
    let options = OpenOptions { create: Some(bytes), ..OpenOptions::default() };
    let device = FileDevice::open(path, options).expect("the image opens");
    let features = parse_features("extra_attr,inode_checksum,inode_crtime").expect("known features");
    format(&device, &MkfsOptions { features, ..MkfsOptions::new([7; 16], 1_700_000_000) }).expect("a volume");
}

/// Makes an IPLFS volume that may hold so many bytes, in an image of 1 EiB of holes.
pub(crate) fn make_infinite(path: &Path, bytes: u64) {
    let chosen = Infinite::new(bytes / 4096);
    let options = OpenOptions { create: Some(chosen.device_blocks() * 4096), ..OpenOptions::default() };
    let device = FileDevice::open(path, options).expect("the image opens");
    let features = parse_features("extra_attr,inode_crtime").expect("known features");
    let options = MkfsOptions { features, infinite: Some(chosen), ..MkfsOptions::new([7; 16], 1_700_000_000) };
    format(&device, &options).expect("a volume");
}

/// Runs `work` in a thread that has the rights of a user who owns nothing, and gives back what it found.
pub(crate) fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    as_nobody_of(&[], work)
}

/// The same of a user who is a member of a group.
pub(crate) fn as_member_of<T: Send>(group: u32, work: impl FnOnce() -> T + Send) -> T {
    as_nobody_of(&[Gid::from_raw(group)], work)
}

fn as_nobody_of<T: Send>(groups: &[Gid], work: impl FnOnce() -> T + Send) -> T {
    let nobody = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    std::thread::scope(|threads| {
        let thread = threads.spawn(move || {
            set_thread_groups(groups).expect("root may");
            set_thread_res_gid(nobody.1, nobody.1, nobody.1).expect("root may");
            set_thread_res_uid(nobody.0, nobody.0, nobody.0).expect("root may");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A lock shared by all tests that mount, and held alone by one that makes a mount namespace: that would have a copy of
/// every mount there is, and keep it alive. A file, for the tests of another working copy mount on the same system.
fn turn(operation: FlockOperation) -> File {
    let path = std::env::temp_dir().join("steadyfs-tests-that-mount.lock");
    let file = File::options().create(true).append(true).open(path).expect("a lock file");
    flock(&file, operation).expect("a turn");
    file
}

/// A directory with an image and a mount point.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    /// Held until all is unmounted.
    _turn: File,
    /// What is mounted.
    pub(crate) source: PathBuf,
}

impl Place {
    /// With an empty volume of 256 MiB, in memory.
    pub(crate) fn new() -> Self {
        Self::sized(256 << 20)
    }

    pub(crate) fn sized(bytes: u64) -> Self {
        let place = Self::empty();
        make_volume(&place.source, bytes);
        place
    }

    /// As [`Place::new`], while no other test has anything mounted.
    pub(crate) fn alone() -> Self {
        let place = Self::with(turn(FlockOperation::LockExclusive));
        make_volume(&place.source, 256 << 20);
        place
    }

    /// Without a volume.
    pub(crate) fn empty() -> Self {
        Self::with(turn(FlockOperation::LockShared))
    }

    fn with(turn: File) -> Self {
        require_mounting();
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a directory");
        std::fs::create_dir(dir.path().join("mnt")).expect("a mount point");
        let source = dir.path().join("image");
        Place { dir, _turn: turn, source }
    }

    /// The mount point.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("there").join("mnt")
    }

    /// Lets every user reach the mount point.
    pub(crate) fn open_to_all(&self) {
        std::fs::set_permissions(self.dir.path(), std::fs::Permissions::from_mode(0o755)).expect("our own directory");
    }

    /// A path below the mount point.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Starts serving.
    pub(crate) fn mount(&self, options: &str) -> Served {
        let served = self.try_mount(options);
        assert!(served.is_ok(), "not mounted: {}", served.err().unwrap_or_default());
        served.unwrap_or_else(|_| unreachable!("looked at above"))
    }

    /// Starts serving, or says why that did not work.
    pub(crate) fn try_mount(&self, options: &str) -> Result<Served, String> {
        let log = self.dir.path().join("log");
        let output = File::create(&log).expect("a log");
        let way = if std::env::var_os(RING).is_some() { "uring=auto" } else { "uring=off" };
        let serve = format!("{}\n{}\n{way},{options}", self.source.display(), self.dir().display());
        // With no signal ignored, as they are where tests run in the background: a mount leaves those ignored.
        let child = Command::new("env")
            .arg("--default-signal")
            .arg(std::env::current_exe().expect("this program"))
            .args(["harness::serve", "--exact", "--nocapture", "--test-threads=1"])
            .env(SERVE, serve)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log"))
            .stderr(output)
            .spawn()
            .expect("a process");
        let mut served = Served { child, log, dir: self.dir(), status: None };
        let mut mounted = false;
        until("mounted or failed", || {
            mounted = served.log().contains("MOUNTED");
            mounted || served.has_ended()
        });
        if mounted { Ok(served) } else { Err(served.log()) }
    }

    /// Serves while `work` runs, then unmounts and checks that everything went well.
    pub(crate) fn mounted<T>(&self, options: &str, work: impl FnOnce(&Served) -> T) -> T {
        let served = self.mount(options);
        let done = work(&served);
        served.stop();
        done
    }

    /// Checks the image with f2fs-tools' fsck.
    pub(crate) fn check(&self) {
        if let Err(error) = steadyfs_testkit::fsck_f2fs(&self.source) {
            panic!("{error}");
        }
    }

    /// Checks a copy: fsck refuses an image that is in the mount table, and a dead mount still is.
    pub(crate) fn check_copy(&self) {
        let copy = steadyfs_testkit::TempImage::copy_of(&self.source).expect("a copy");
        if let Err(error) = steadyfs_testkit::fsck_f2fs(copy.path()) {
            panic!("{error}");
        }
    }
}

/// A process that serves a mount.
pub(crate) struct Served {
    child: Child,
    log: PathBuf,
    pub(crate) dir: PathBuf,
    status: Option<i32>,
}

impl Served {
    /// What it has printed.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text)).expect("the log");
        text
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("a signal");
    }

    /// Bytes of memory that it has.
    pub(crate) fn resident(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("it lives");
        let pages: u64 = statm.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        pages * rustix::param::page_size() as u64
    }

    /// Of each thread of a queue, whether it may only run on the queue's processor; `None` if requests come through
    /// `/dev/fuse`.
    pub(crate) fn at_home(&self, queue: usize) -> Option<Vec<bool>> {
        std::env::var_os(RING)?;
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        let at_home = tasks.filter_map(|task| {
            let path = task.expect("a thread").path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            (name.trim() == format!("fuse-cpu{queue}")).then(|| allowed.trim() == queue.to_string())
        });
        Some(at_home.collect())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            let status = self.child.try_wait().expect("a child");
            self.status = status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        self.status.is_some()
    }

    /// Waits for its end; its exit status, 128 and the signal if one ended it.
    pub(crate) fn end(&mut self) -> i32 {
        until("the process has ended", || self.has_ended());
        self.status.unwrap_or(-1)
    }

    /// Tells it to stop and checks that it ended well.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.end(), 0, "{}", self.log());
        assert!(!self.log().contains("ERROR"), "{}", self.log());
        assert!(!is_mounted(&self.dir), "still mounted");
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.end(), 128 + 9);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.has_ended() {
            // Its log tells more than the assertion that failed.
            eprintln!("--- the serving process said:\n{}", self.log());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Whether something is mounted at `dir`.
pub(crate) fn is_mounted(dir: &Path) -> bool {
    mount_line(dir).is_some()
}

/// The line of the mount table about `dir`.
pub(crate) fn mount_line(dir: &Path) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").expect("a mount table");
    let wanted = format!(" {} ", dir.display());
    table.lines().find(|line| line.contains(&wanted)).map(str::to_owned)
}

/// What the serving process runs; in the test run itself it does nothing.
#[test]
fn serve() {
    let Ok(what) = std::env::var(SERVE) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("a death signal");
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut lines = what.lines();
    let (source, dir) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let (mut fuse, mut core) = (FuseOptions::new(source), MountOptions::default());
    for option in lines.next().unwrap_or_default().split(',').filter(|option| !option.is_empty()) {
        let taken = [fuse.take(option).expect("a good option"), core.set(option).expect("a good option")];
        assert!(taken.contains(&true), "nobody knows {option}");
    }
    let patience = Duration::from_secs(2);
    let options = OpenOptions { read_only: core.read_only, leave_mountable: true, patience, ..OpenOptions::default() };
    let device = FileDevice::open(source, options).unwrap_or_else(|error| fail(&error));
    let fs = Fs::mount(Arc::new(device), core).unwrap_or_else(|error| fail(&error));
    let mut mounted = steadyfs_fuse::mount(fs, dir.as_ref(), &fuse).unwrap_or_else(|error| fail(&error));
    mounted.heed_signals();
    assert_eq!(mounted.transport() == Transport::Ring, std::env::var_os(RING).is_some(), "{:?}", mounted.transport());
    eprintln!("MOUNTED");
    mounted.wait().unwrap_or_else(|error| fail(&error));
    std::process::exit(0);
}

fn fail(error: &dyn std::error::Error) -> ! {
    eprintln!("failed: {error}");
    std::process::exit(3);
}
