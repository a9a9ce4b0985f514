//! Directories of the host, reached part by part.
//!
//! Every path is walked from an open top directory with one system call per part, never following a symlink. So a tree
//! may be deeper than PATH_MAX, and nothing in a hostile image can lead a copy out of its destination.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::split;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// An open directory of the host, and the directory below it that was used last.
pub(crate) struct HostDir {
    top: OwnedFd,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl HostDir {
    /// Opens the top. Symlinks on the way to it are followed: the user named it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(HostDir { top: openat(CWD, path, DIRECTORY, Mode::empty())?, last: None })
    }

    /// The directory at `path` below the top (empty: the top).
    pub(crate) fn dir(&mut self, path: &[u8]) -> Result<&OwnedFd, Errno> {
        if path.is_empty() {
            return Ok(&self.top);
        }
        if self.last.as_ref().is_none_or(|(known, _)| known != path) {
            // A child of the directory used last is the common case.
            let (mut at, rest) = match self.last.take() {
                Some((known, fd)) if path.starts_with(&known) && path.get(known.len()) == Some(&b'/') => {
                    (Some(fd), &path[known.len() + 1..])
                }
                _ => (None, path),
            };
            for part in rest.split(|b| *b == b'/') {
                at = Some(openat(at.as_ref().unwrap_or(&self.top), part, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?);
            }
            self.last = at.map(|fd| (path.to_vec(), fd));
        }
        Ok(self.last.as_ref().map_or(&self.top, |(_, fd)| fd))
    }

    /// The directory that holds `path`, and the last part of `path`.
    pub(crate) fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(&OwnedFd, &'p [u8]), Errno> {
        let (dir, name) = split(path);
        Ok((self.dir(dir)?, name))
    }
}

/// Opens `name` in `dir` as a file, never following a symlink.
pub(crate) fn open_file(dir: impl AsFd, name: &[u8], flags: OFlags, mode: Mode) -> Result<File, Errno> {
    openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode).map(File::from)
}

/// A path for the system calls that have no "at" form (xattrs): stays inside `dir` and leaves the last part unfollowed.
pub(crate) fn proc_path(dir: &OwnedFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(if name.is_empty() { b"." } else { name });
    path
}

/// The last part of a path that a user named, resolving `.` and `..`; `None` for a root directory.
pub(crate) fn base_name(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.file_name() {
        Some(name) => Ok(Some(name.as_bytes().to_vec())),
        None => Ok(path.canonicalize()?.file_name().map(|name| name.as_bytes().to_vec())),
    }
}
