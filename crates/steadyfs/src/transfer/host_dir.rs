//! Directories of the host, reached part by part.
//!
//! Every path is walked from an open top directory with one system call per part, never following a symlink. So a tree
//! may be deeper than PATH_MAX, and nothing in a hostile image can lead a copy out of its destination.
//!
//! One directory is open at a time, however deep the tree. The way down is by names, the way up by `..`, which counts
//! only if it leads to the directory that the way down came through; otherwise the walk begins at the top again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::split;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Device and inode number.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// An open directory of the host, and the directory below it that was used last.
pub(crate) struct HostDir {
    top: OwnedFd,
    /// The directory used last; none: the top.
    last: Option<OwnedFd>,
    /// Its path, and for each directory on it where its name ends, and which it is.
    path: Vec<u8>,
    levels: Vec<(usize, Identity)>,
    /// How often a directory was opened.
    #[cfg(test)]
    pub(crate) opened: u64,
}

impl HostDir {
    /// Opens the top. Symlinks on the way to it are followed: the user named it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let top = openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(HostDir {
            top,
            last: None,
            path: Vec::new(),
            levels: Vec::new(),
            #[cfg(test)]
            opened: 0,
        })
    }

    /// The directory at `path` below the top (empty: the top).
    pub(crate) fn dir(&mut self, path: &[u8]) -> Result<&OwnedFd, Errno> {
        if path != self.path {
            self.up(shared(&self.path, &self.levels, path));
            while self.path.len() < path.len() {
                let start = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
                let end = path[start..].iter().position(|b| *b == b'/').map_or(path.len(), |at| start + at);
                self.down(&path[..end], &path[start..end])?;
            }
        }
        Ok(self.last.as_ref().unwrap_or(&self.top))
    }

    /// The directory that holds `path`, and the last part of `path`.
    pub(crate) fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(&OwnedFd, &'p [u8]), Errno> {
        let (dir, name) = split(path);
        Ok((self.dir(dir)?, name))
    }

    fn open_at(&mut self, name: &[u8]) -> Result<(OwnedFd, Identity), Errno> {
        #[cfg(test)]
        {
            self.opened += 1;
        }
        let dir = self.last.as_ref().unwrap_or(&self.top);
        let found = openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fstat(&found)?;
        Ok((found, identity(&stat)))
    }

    /// Opens a directory in the one used last.
    fn down(&mut self, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        let (found, identity) = self.open_at(name)?;
        self.last = Some(found);
        self.path = path.to_vec();
        self.levels.push((path.len(), identity));
        Ok(())
    }

    /// Goes up until `left` levels are left, or to the top, if that is nearer or somebody moved what is on the way.
    fn up(&mut self, left: usize) {
        if self.levels.len() - left > left {
            return self.restart();
        }
        while self.levels.len() > left {
            let above = self.levels[self.levels.len() - 2];
            match self.open_at(b"..") {
                Ok((found, identity)) if identity == above.1 => self.last = Some(found),
                _ => return self.restart(),
            }
            self.levels.pop();
            self.path.truncate(above.0);
        }
    }

    fn restart(&mut self) {
        self.last = None;
        self.path.clear();
        self.levels.clear();
    }
}

/// How many levels of a path are those of another one, too.
fn shared(path: &[u8], levels: &[(usize, Identity)], other: &[u8]) -> usize {
    let same = path.iter().zip(other).take_while(|(a, b)| a == b).count();
    let whole = |end: usize| end <= same && other.get(end).is_none_or(|next| *next == b'/');
    let most = levels.partition_point(|(end, _)| *end <= same);
    // Only the last of them may end within a name.
    if most > 0 && !whole(levels[most - 1].0) { most - 1 } else { most }
}

/// Opens `name` in `dir` as a file, never following a symlink.
pub(crate) fn open_file(dir: impl AsFd, name: &[u8], flags: OFlags, mode: Mode) -> Result<File, Errno> {
    openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode).map(File::from)
}

/// A path for the system calls that have no "at" form: what is open, even if it is open as a name only.
pub(crate) fn proc_self(fd: impl AsFd) -> Vec<u8> {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into_bytes()
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
