//! Mount points: finding the directory, clearing what a killed mount left, unmounting.

use super::{helper, system, table};
use crate::error::{Error, Result};
use crate::options::FuseOptions;
use crate::server::END_ATTRIBUTE;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fcntl_setfl, flock, fstat, open};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use steadyfs_device::locked_file;
use steadyfs_rt::{Instant, now, sleep};

/// How often to look whether a server has let go.
const LOOK: Duration = Duration::from_millis(5);
/// How long that may take before it is worth a word.
const LONG: Duration = Duration::from_secs(5);
/// How long it is waited for.
const LONGEST: Duration = Duration::from_secs(600);

/// Takes away the mounts of this type (its `subtype`) at `dir` whose process was killed; true if there was one.
/// [`mount`](super::mount) does this too, but a block device cannot be opened while a dead mount of it is there. Dead
/// mounts of others are left to their owners.
///
/// # Errors
/// [`Error::Unmount`] if it cannot be taken away.
pub fn clear_dead(dir: &Path, subtype: &str) -> Result<bool> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    let mut cleared = false;
    loop {
        let is_dead = |error: &io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
        if !std::fs::metadata(dir).is_err_and(|error| is_dead(&error)) {
            return Ok(cleared);
        }
        let path = absolute(dir).map_err(failed)?;
        let is_ours = |entry: table::Entry| entry.kind.split_once('.').is_some_and(|(_, kind)| kind == subtype);
        if !table::at(&path).is_some_and(is_ours) {
            return Ok(cleared);
        }
        tracing::warn!("{} was left mounted by a process that is gone; unmounting it", path.display());
        detach(&path, true).map_err(failed)?;
        cleared = true;
    }
}

/// The absolute path of a directory to mount at, ready to be mounted at.
pub(super) fn prepare(dir: &Path, subtype: &str) -> Result<PathBuf> {
    let wrong = |source: io::Error| Error::MountPoint { dir: dir.to_owned(), source };
    clear_dead(dir, subtype)?;
    let path = absolute(dir).map_err(wrong)?;
    if !std::fs::metadata(&path).map_err(wrong)?.is_dir() {
        return Err(wrong(Errno::NOTDIR.into()));
    }
    Ok(path)
}

/// The path without links, `.` and `..`. The last component is not looked into, since it may be a dead mount.
fn absolute(dir: &Path) -> io::Result<PathBuf> {
    match (dir.canonicalize(), dir.parent(), dir.file_name()) {
        (Ok(path), ..) => Ok(path),
        (Err(error), Some(parent), Some(name)) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize()?.join(name))
        }
        (Err(error), ..) => Err(error),
    }
}

/// Changes the kernel's flags of a mount of ours (`mount -o remount`): read-only or not, and those of [`FuseOptions`]
/// that mount(2) knows. What the serving process goes by stays. When this returns, a mount that became read-only has
/// everything on its device that was written before.
///
/// # Errors
/// [`Error::Mount`], with `EINVAL` if no mount of this type (its `subtype`) is there, `EBUSY` if something is open for
/// writing that is to be read-only.
pub fn remount(dir: &Path, options: &FuseOptions) -> Result<()> {
    let failed = |source: io::Error| Error::Mount { dir: dir.to_owned(), source };
    let path = absolute(dir).map_err(failed)?;
    let is_ours = |entry: &table::Entry| entry.kind.split_once('.').is_some_and(|(_, kind)| kind == options.subtype);
    if !table::at(&path).as_ref().is_some_and(is_ours) {
        return Err(failed(Errno::INVAL.into()));
    }
    let top = File::open(&path).map_err(failed)?;
    rustix::mount::mount_remount(&path, system::flags(options), c"").map_err(|errno| failed(errno.into()))?;
    // The kernel has written back what it had; its `sync` does not reach every mount, an fsync of a directory does, and
    // is a checkpoint.
    if options.read_only { top.sync_all().map_err(failed) } else { Ok(()) }
}

/// Takes a mount away, by system call or, where that is not allowed, through the helper. `lazily`: at once out of
/// sight, for good when the last user is gone.
pub(super) fn detach(dir: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => helper::unmount(dir, lazily),
        Err(errno) => Err(errno.into()),
    }
}

/// Unmounts the file system mounted at `dir` and waits until the process that serves it has let go of the image or
/// device, for ten minutes at most. (The system's own `umount` waits for that only where
/// [`Mounted::is_block_device`](super::Mounted::is_block_device).) It waits for nothing of another user's mount, and
/// opens nothing that another user has named.
///
/// # Errors
/// [`Error::Unmount`], with `EBUSY` if somebody uses the mount, `EINVAL` if nothing is mounted there; [`Error::Ended`]
/// if it is unmounted, but the last checkpoint failed, the serving process was gone, or has not ended by then.
pub fn unmount(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    let path = absolute(dir).map_err(failed)?;
    let entry = table::at(&path).filter(|entry| entry.kind.starts_with("fuse"));
    let own = entry.as_ref().filter(|entry| entry.is_own());
    let ending = own.map_or(Ending::Unknown, |_| Ending::ask(&path));
    detach(&path, false).map_err(failed)?;
    if own.is_none()
        && let Some(owner) = entry.as_ref().and_then(|entry| entry.owner)
    {
        tracing::warn!("{} was mounted by user {owner}: its last checkpoint is not waited for", path.display());
    }
    let mut patience = Patience::new(&path, LONG, LONGEST);
    let ended = ending.wait(&mut patience);
    let held = own.and_then(|entry| what_is_locked(&entry.source));
    let ended = ended.and_then(|()| held.map_or(Ok(()), |held| patience.until_free(&held)));
    ended.map_err(|why| Error::Ended { dir: dir.to_owned(), why })
}

/// What a server of this source holds a lock on for as long as it has it open. A name in the mount table may stand for
/// anything: only a file or a block device is opened, after a look that opens nothing.
fn what_is_locked(source: &Path) -> Option<OwnedFd> {
    let it = open(locked_file(source), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&it).ok()?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(format!("/proc/self/fd/{}", it.as_raw_fd()), flags, Mode::empty()).ok()
}

/// Waits for a server, says so if it takes long, and does not wait for ever.
struct Patience<'a> {
    dir: &'a Path,
    start: Instant,
    told: bool,
    long: Duration,
    longest: Duration,
}

impl<'a> Patience<'a> {
    fn new(dir: &'a Path, long: Duration, longest: Duration) -> Self {
        Patience { dir, start: now(), told: false, long, longest }
    }

    /// A moment passes.
    ///
    /// # Errors
    /// It was the last one.
    fn pass(&mut self) -> std::result::Result<(), String> {
        let waited = self.start.elapsed();
        if waited > self.longest {
            return Err(format!("the process that serves it has not let go of it for {} s", self.longest.as_secs()));
        }
        if !self.told && waited > self.long {
            tracing::warn!(
                "{} is unmounted here; waiting for its last checkpoint, or for another mount namespace that still has \
                 it (Ctrl-C ends the waiting only)",
                self.dir.display()
            );
            self.told = true;
        }
        sleep(LOOK);
        Ok(())
    }

    /// Waits until nobody has it locked for himself alone.
    fn until_free(&mut self, held: &OwnedFd) -> std::result::Result<(), String> {
        while flock(held, FlockOperation::NonBlockingLockShared).is_err_and(|errno| errno == Errno::WOULDBLOCK) {
            self.pass()?;
        }
        Ok(())
    }
}

/// How the unmounting process hears of the end.
enum Ending {
    /// Through this pipe.
    Heard(PipeReader),
    /// Nobody serves the mount any more.
    Dead,
    /// Not at all: the server may not be asked, or knows no answer.
    Unknown,
}

impl Ending {
    /// Asks the server of a mount to say how it ends.
    fn ask(dir: &Path) -> Self {
        let Ok((reader, _writer)) = io::pipe() else { return Self::Unknown };
        let name = format!("{END_ATTRIBUTE}{}", reader.as_raw_fd());
        match rustix::fs::getxattr(dir, name, &mut [0; 8]) {
            Ok(_) if fcntl_setfl(&reader, OFlags::NONBLOCK).is_ok() => Self::Heard(reader),
            Err(Errno::NOTCONN | Errno::CONNABORTED) => Self::Dead,
            _ => Self::Unknown,
        }
    }

    /// Waits for the end; why it was none, as far as that is known.
    fn wait(self, patience: &mut Patience<'_>) -> std::result::Result<(), String> {
        const GONE: &str = "the process that served it is gone, and what was not synced is lost";
        let mut reader = match self {
            Self::Heard(reader) => reader,
            Self::Dead => return Err(GONE.to_owned()),
            Self::Unknown => return Ok(()),
        };
        let mut word = Vec::new();
        while reader.read_to_end(&mut word).is_err() {
            patience.pass()?;
        }
        match serde_json::from_slice(&word) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(why),
            Err(_) => Err(GONE.to_owned()),
        }
    }
}

/// Takes the mount at `dir` out of sight at once, and waits for nothing: its last user ends it.
///
/// # Errors
/// [`Error::Unmount`], with `EINVAL` if nothing is mounted there.
pub fn unmount_lazily(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    detach(&absolute(dir).map_err(failed)?, true).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};

    #[test]
    fn only_files_and_devices_are_opened_to_look_for_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (file, fifo) = (dir.path().join("file"), dir.path().join("fifo"));
        std::fs::write(&file, "x").unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(what_is_locked(&file).is_some());
        for other in [&*fifo, dir.path(), Path::new("/dev/tty"), Path::new("/dev/null"), Path::new("a name")] {
            assert!(what_is_locked(other).is_none(), "{}", other.display());
        }
    }

    #[test]
    fn the_wait_for_a_lock_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let holder = File::create(&path).unwrap();
        flock(&holder, FlockOperation::LockExclusive).unwrap();
        let held = what_is_locked(&path).unwrap();
        let mut patience = Patience::new(&path, Duration::ZERO, Duration::from_millis(50));
        let why = patience.until_free(&held).unwrap_err();
        assert!(patience.told && why.contains("has not let go of it"), "{why}");
        drop(holder);
        assert_eq!(Patience::new(&path, LONG, LONGEST).until_free(&held), Ok(()));
    }
}
