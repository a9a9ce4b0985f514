//! Mount points: finding the directory, clearing what a killed mount left, unmounting.

use super::{helper, table};
use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Takes away the mounts of this type (its `subtype`) at `dir` whose process was killed; true if there was one. [`mount`](super::mount) does this too, but a
/// block device cannot be opened while a dead mount of it is there. Dead mounts of others are left to their owners.
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

/// Takes a mount away, by system call or, where that is not allowed, through the helper. `lazily`: at once out of sight, for good when the last
/// user is gone.
pub(super) fn detach(dir: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => helper::unmount(dir, lazily),
        Err(errno) => Err(errno.into()),
    }
}

/// Unmounts the file system mounted at `dir` and waits until the process that serves it has let go of the image or device. (The system's own
/// `umount` waits for that only on block devices.)
///
/// # Errors
/// [`Error::Unmount`], with `EBUSY` if somebody uses the mount, `EINVAL` if nothing is mounted there.
pub fn unmount(dir: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Unmount { dir: dir.to_owned(), source };
    let dir = absolute(dir).map_err(failed)?;
    let source = table::at(&dir).map(|entry| entry.source);
    detach(&dir, false).map_err(failed)?;
    // The server holds a lock on what it serves for as long as it has it open.
    if let Some(file) = source.and_then(|path| File::open(path).ok()) {
        loop {
            match flock(&file, FlockOperation::LockShared) {
                Err(Errno::INTR) => {}
                Err(errno) => {
                    tracing::debug!("waiting for the end: {errno}");
                    break;
                }
                Ok(()) => break,
            }
        }
    }
    Ok(())
}
