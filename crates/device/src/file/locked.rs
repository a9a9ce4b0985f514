//! The locks that keep two processes from changing one image, whichever way they reach it.
//!
//! A file has two locks, which belong to the process that has it open. The one of the whole file (`flock`) is what
//! other programs know: shared for reading, alone for writing. The one of a range of bytes (open file description
//! locks) is there for loop devices: several of them, or their partitions, may be parts of one file. Who opens a loop
//! device locks it and the file behind it: the whole shared, so that nobody changes that directly, and the part as he
//! opens the device.
//!
//! Kept true: all locks are given back when the value goes, though a child process may still hold the open file.
#![allow(unsafe_code)] // locks of ranges that belong to an open file, which nobody has wrapped

use crate::OpenError;
use crate::loop_device::Backing;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// An open file, or block device, that is locked as long as it is open, unless it is only looked at.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
    /// The file behind a loop device.
    behind: Option<File>,
}

/// What a lock is to keep out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    /// Those who write.
    Shared,
    /// All others.
    Alone,
}

impl Locked {
    /// Locks what was opened at `path`.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if somebody else has it, in part, and one of both writes.
    pub(super) fn lock(path: &Path, file: File, read_only: bool) -> Result<Self, OpenError> {
        let system = |source: std::io::Error| OpenError::System { path: path.to_owned(), source };
        let failed = |errno: Errno| match errno {
            Errno::WOULDBLOCK => OpenError::InUse { path: path.to_owned() },
            errno => system(errno.into()),
        };
        let wanted = if read_only { Lock::Shared } else { Lock::Alone };
        let meta = file.metadata().map_err(system)?;
        let is_device = meta.file_type().is_block_device();
        let mut locked = Locked { file, behind: None };
        if steadyfs_rt::mutated("images-are-locked") {
            return Ok(locked);
        }
        lock_whole(&locked.file, wanted).map_err(failed)?;
        if !is_device {
            lock_range(&locked.file, 0, 0, wanted).map_err(failed)?;
        } else if let Some(backing) = Backing::of(meta.rdev())
            && let Some(behind) = backing.open(&locked.file, !read_only)
        {
            let behind = locked.behind.insert(behind);
            lock_whole(behind, Lock::Shared).map_err(failed)?;
            lock_range(behind, backing.start, backing.len, wanted).map_err(failed)?;
        }
        Ok(locked)
    }

    /// Locks nothing: for looking at what somebody else has locked.
    pub(crate) fn unlocked(file: File) -> Self {
        Locked { file, behind: None }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl std::io::Seek for Locked {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Locked {
    /// Gives the locks back by hand: they belong to the open file, which a child process or a dying ring may still
    /// hold.
    fn drop(&mut self) {
        for file in [&self.file].into_iter().chain(&self.behind) {
            // Closing the file releases its locks as well, if this should fail.
            let _ = set_range(file, 0, 0, libc::F_UNLCK);
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

fn lock_whole(file: &File, lock: Lock) -> Result<(), Errno> {
    flock(
        file,
        match lock {
            Lock::Shared => FlockOperation::NonBlockingLockShared,
            Lock::Alone => FlockOperation::NonBlockingLockExclusive,
        },
    )
}

/// Locks `len` bytes from `start` on, all that follow if it is 0. Where the file system of the image has no such locks,
/// there is the one of the whole file.
fn lock_range(file: &File, start: u64, len: u64, lock: Lock) -> Result<(), Errno> {
    let kind = if lock == Lock::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
    match set_range(file, start, len, kind) {
        Err(Errno::AGAIN | Errno::ACCESS) => Err(Errno::WOULDBLOCK),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn set_range(file: &File, start: u64, len: u64, kind: libc::c_int) -> Result<(), Errno> {
    let [Ok(l_start), Ok(l_len)] = [libc::off_t::try_from(start), libc::off_t::try_from(len)] else {
        return Err(Errno::INVAL);
    };
    let [Ok(l_type), Ok(l_whence)] = [kind, libc::SEEK_SET].map(libc::c_short::try_from) else {
        return Err(Errno::INVAL);
    };
    let range = libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 };
    // SAFETY: the call only reads the structure that it is given.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    if result < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    } else {
        Ok(())
    }
}
