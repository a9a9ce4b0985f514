//! Mount points: finding the directory, clearing what a killed mount left, unmounting.

use super::{helper, system, table};
use crate::error::{Error, Result};
use crate::options::FuseOptions;
use crate::server::END_ATTRIBUTE;
use rustix::fs::{FlockOperation, OFlags, fcntl_setfl, flock};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use steadyfs_device::locked_file;
use steadyfs_rt::{Instant, now, sleep};

/// How often to look whether a server has let go.
const LOOK: Duration = Duration::from_millis(5);
/// How long that may take before it is worth a word.
const LONG: Duration = Duration::from_secs(5);

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
/// device. (The system's own `umount` waits for that only where
/// [`Mounted::is_block_device`](super::Mounted::is_block_device).) A mount by another user that lets no other user in
/// cannot be asked how it ended: it is waited for only if the mount table says what is mounted (not with `fsname`).
///
/// # Errors
/// [`Error::Unmount`], with `EBUSY` if somebody uses the mount, `EINVAL` if nothing is mounted there; [`Error::Ended`]
/// if it is unmounted, but the last checkpoint failed, or the serving process was gone.
pub fn unmount(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    let path = absolute(dir).map_err(failed)?;
    let entry = table::at(&path);
    let ending = match &entry {
        Some(entry) if entry.kind.starts_with("fuse") => Ending::ask(&path),
        _ => Ending::Unknown,
    };
    detach(&path, false).map_err(failed)?;
    let mut patience = Patience { dir: &path, start: now(), told: false };
    let ended = ending.wait(&mut patience);
    // The server holds a lock on what it serves for as long as it has it open.
    let held = entry.and_then(|entry| File::open(locked_file(entry.source)).ok());
    let locked =
        |file| flock(file, FlockOperation::NonBlockingLockShared).is_err_and(|errno| errno == Errno::WOULDBLOCK);
    while held.as_ref().is_some_and(locked) {
        patience.pass();
    }
    ended.map_err(|why| Error::Ended { dir: dir.to_owned(), why })
}

/// Waits for a server, and says so if it takes long.
struct Patience<'a> {
    dir: &'a Path,
    start: Instant,
    told: bool,
}

impl Patience<'_> {
    /// A moment passes.
    fn pass(&mut self) {
        if !self.told && self.start.elapsed() > LONG {
            tracing::warn!(
                "{} is unmounted here; waiting for its last checkpoint, or for another mount namespace that still has it",
                self.dir.display()
            );
            self.told = true;
        }
        sleep(LOOK);
    }
}

/// How whoever unmounts hears of the end.
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
            patience.pass();
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
