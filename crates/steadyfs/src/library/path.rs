//! Paths in a volume, walked by lookups from its root, as the kernel walks them for a mount.
//!
//! Paths are bytes between slashes. All of them start at the root, with a slash or without.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use steadyfs_core::{Error, Fs, InodeRef, Result};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;

/// As Linux: more symlinks than this on one path are taken for a circle.
const MAX_SYMLINKS: usize = 40;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without the directory's.
    pub name: OsString,
    /// Number of the inode.
    pub ino: Ino,
    /// Kind of the inode.
    pub kind: FileType,
}

/// The inode at `path`. Symlinks on the way are followed, one at its end if `follow`.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::Invalid`] for a circle of symlinks, and whatever a lookup may
/// say.
pub fn resolve(fs: &Fs, path: &[u8], follow: bool) -> Result<InodeRef> {
    let mut stack = vec![fs.root()?];
    let mut todo: Vec<Vec<u8>> = Vec::new();
    push_parts(&mut todo, path);
    let mut symlinks = 0;
    while let Some(part) = todo.pop() {
        let Some(here) = stack.last() else { return Err(Error::NotFound) };
        if here.kind() != FileType::Dir {
            return Err(Error::NotDirectory);
        }
        if part == b".." {
            if stack.len() > 1 {
                stack.pop();
            }
            continue;
        }
        let child = fs.lookup(here, &part)?;
        if child.kind() == FileType::Symlink && (follow || !todo.is_empty()) {
            symlinks += 1;
            if symlinks > MAX_SYMLINKS {
                return Err(Error::Invalid);
            }
            let target = fs.readlink(&child)?;
            if target.first() == Some(&b'/') {
                stack.truncate(1);
            }
            push_parts(&mut todo, &target);
            continue;
        }
        stack.push(child);
    }
    stack.pop().ok_or(Error::NotFound)
}

fn push_parts(todo: &mut Vec<Vec<u8>>, path: &[u8]) {
    todo.extend(path.split(|b| *b == b'/').rev().filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec));
}

/// The directory that holds the last part of `path`, and that part, which need not exist.
///
/// # Errors
/// As [`resolve`]; [`Error::Invalid`] for a path whose last part is no name, such as `/` or `..`.
pub fn parent<'a>(fs: &Fs, path: &'a [u8]) -> Result<(InodeRef, &'a [u8])> {
    let (dir, name) = split(trim_slashes(path));
    if matches!(name, b"" | b"." | b"..") {
        return Err(Error::Invalid);
    }
    let dir = resolve(fs, dir, true)?;
    if dir.kind() == FileType::Dir { Ok((dir, name)) } else { Err(Error::NotDirectory) }
}

/// What a directory holds, without `.` and `..`, sorted by name.
///
/// # Errors
/// [`Error::NotDirectory`], and whatever reading it may say.
pub fn entries(fs: &Fs, dir: &InodeRef) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            entries.push(Entry { name: OsString::from_vec(entry.name.to_vec()), ino: entry.ino, kind: entry.kind });
        }
        true
    })?;
    entries.sort_unstable();
    Ok(entries)
}

/// What stands before the last slash of a path, and what stands behind it.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A path without the slashes at its end.
pub fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let [head @ .., b'/'] = path {
        path = head;
    }
    path
}
