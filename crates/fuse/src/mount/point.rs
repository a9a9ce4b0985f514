//! Mount points: finding the directory, clearing what a killed mount left, unmounting.

use super::{helper, system, table};
use crate::error::{Error, Result};
use crate::options::FuseOptions;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use steadyfs_device::locked_file;
use steadyfs_rt::{now, sleep};

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
/// [`Mounted::is_block_device`](super::Mounted::is_block_device).) A mount that was given another name (`fsname`) is
/// not waited for: the mount table does not say what to wait for.
///
/// # Errors
/// [`Error::Unmount`], with `EBUSY` if somebody uses the mount, `EINVAL` if nothing is mounted there.
pub fn unmount(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    let path = absolute(dir).map_err(failed)?;
    let source = table::at(&path).map(|entry| entry.source);
    detach(&path, false).map_err(failed)?;
    // The server holds a lock on what it serves for as long as it has it open.
    let Some(file) = source.and_then(|path| File::open(locked_file(path)).ok()) else { return Ok(()) };
    let start = now();
    let mut told = false;
    while flock(&file, FlockOperation::NonBlockingLockShared).is_err_and(|errno| errno == Errno::WOULDBLOCK) {
        if !told && start.elapsed() > LONG {
            tracing::warn!(
                "{} is unmounted here; waiting for its last checkpoint, or for another mount namespace that still has it",
                path.display()
            );
            told = true;
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Takes the mount at `dir` out of sight at once, and waits for nothing: its last user ends it.
///
/// # Errors
/// [`Error::Unmount`], with `EINVAL` if nothing is mounted there.
pub fn unmount_lazily(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    detach(&absolute(dir).map_err(failed)?, true).map_err(failed)
}
