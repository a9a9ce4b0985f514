//! A tree of corner cases, as a list of operations that any file system can be asked to perform.
//!
//! [`Spec`] says how large the tree is; [`Spec::ops`] lists the operations; [`Workload`] has further lists, for volumes
//! that are to crash, to age or to have orphans; [`apply`] performs them on a [`Target`]: a directory of the host
//! ([`HostTarget`]: the kernel's F2FS inside user-mode Linux, our mount, any other file system), or a library. Two
//! targets that performed the same list must have the same [`crate::Manifest`] (compared with
//! [`crate::manifest::Fields::portable`]): contents, owners, modes and times are all set explicitly, so nothing depends
//! on who ran it and when.

mod data;
mod dirs;
mod files;
mod host;
mod inodes;
mod spec;
mod tree;
mod workload;

use std::fmt;

pub use data::Data;
pub use host::HostTarget;
pub use spec::Spec;
pub use workload::Workload;

use crate::manifest::{Time, escape};

/// One operation. Paths are relative to the target's root, bytes without a leading slash, `.` for the root
/// itself; the last component is never followed.
#[allow(missing_docs)] // Of the fields: their names are those of the system calls' parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorpusOp {
    /// Makes a directory with exactly these permission bits. The parent has no default ACL and no setgid bit.
    Mkdir { path: Vec<u8>, mode: u32 },
    /// Makes an empty regular file, which must not exist, with exactly these permission bits. The parent has no default
    /// ACL.
    Create { path: Vec<u8>, mode: u32 },
    /// Makes a directory as `mkdir(2)` under umask 0: a default ACL and setgid bit of the parent take effect.
    MkdirInherit { path: Vec<u8>, mode: u32 },
    /// Makes an empty file as `open(2)` under umask 0: a default ACL and setgid bit of the parent take effect.
    CreateInherit { path: Vec<u8>, mode: u32 },
    /// Writes at an offset of an existing file.
    Write { path: Vec<u8>, offset: u64, data: Data },
    /// Sets the size.
    Truncate { path: Vec<u8>, size: u64 },
    /// `fallocate(2)`.
    Fallocate { path: Vec<u8>, how: Falloc, offset: u64, len: u64 },
    /// Makes a symbolic link.
    Symlink { path: Vec<u8>, target: Vec<u8> },
    /// Makes a further name for something that is no directory (a symbolic link itself, if it is one).
    Link { existing: Vec<u8>, new: Vec<u8> },
    /// Makes a special file with exactly these permission bits.
    Mknod { path: Vec<u8>, kind: Special, mode: u32 },
    /// Sets an attribute; the name is the full one. ACLs are in the form of the system call
    /// (`system.posix_acl_access`).
    SetXattr { path: Vec<u8>, name: Vec<u8>, value: Vec<u8> },
    /// Removes an attribute that is there.
    RemoveXattr { path: Vec<u8>, name: Vec<u8> },
    /// Sets owner and group.
    Chown { path: Vec<u8>, uid: u32, gid: u32 },
    /// Sets the permission, setuid, setgid and sticky bits.
    Chmod { path: Vec<u8>, mode: u32 },
    /// Sets the times of access and modification.
    SetTimes { path: Vec<u8>, atime: Time, mtime: Time },
    /// Removes a name of something that is no directory.
    Unlink { path: Vec<u8> },
    /// Removes an empty directory.
    Rmdir { path: Vec<u8> },
    /// Renames; something at the new name is replaced.
    Rename { from: Vec<u8>, to: Vec<u8> },
    /// Exchanges two names (RENAME_EXCHANGE).
    Exchange { a: Vec<u8>, b: Vec<u8> },
    /// Opens a file or an empty directory, removes its only name and keeps it open for as long as the target lives.
    Orphan { path: Vec<u8> },
    /// Makes one file durable.
    Fsync { path: Vec<u8> },
    /// Makes everything durable.
    Sync,
}

/// The kinds of `fallocate(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falloc {
    /// Reserves; the size grows.
    Allocate,
    /// Reserves; the size stays.
    KeepSize,
    /// Makes a hole; the size stays.
    PunchHole,
    /// Makes zeros; the size grows.
    Zero,
    /// Makes zeros; the size stays.
    ZeroKeepSize,
    /// Removes a range, block-aligned.
    Collapse,
    /// Inserts a hole, block-aligned.
    Insert,
}

/// Special files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device with major and minor number.
    Char(u32, u32),
    /// Block device with major and minor number.
    Block(u32, u32),
}

/// What a file system must be able to do to receive the tree. Each method is the operation of the same name in
/// [`CorpusOp`].
#[allow(missing_docs)] // They would only repeat the operations' documentation.
pub trait Target {
    /// Its error.
    type Error: fmt::Display;

    fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<(), Self::Error>;
    fn create(&mut self, path: &[u8], mode: u32) -> Result<(), Self::Error>;
    fn mkdir_inherit(&mut self, path: &[u8], mode: u32) -> Result<(), Self::Error>;
    fn create_inherit(&mut self, path: &[u8], mode: u32) -> Result<(), Self::Error>;
    fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<(), Self::Error>;
    fn truncate(&mut self, path: &[u8], size: u64) -> Result<(), Self::Error>;
    fn fallocate(&mut self, path: &[u8], how: Falloc, offset: u64, len: u64) -> Result<(), Self::Error>;
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), Self::Error>;
    fn link(&mut self, existing: &[u8], new: &[u8]) -> Result<(), Self::Error>;
    fn mknod(&mut self, path: &[u8], kind: Special, mode: u32) -> Result<(), Self::Error>;
    fn set_xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<(), Self::Error>;
    fn remove_xattr(&mut self, path: &[u8], name: &[u8]) -> Result<(), Self::Error>;
    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> Result<(), Self::Error>;
    fn chmod(&mut self, path: &[u8], mode: u32) -> Result<(), Self::Error>;
    fn set_times(&mut self, path: &[u8], atime: Time, mtime: Time) -> Result<(), Self::Error>;
    fn unlink(&mut self, path: &[u8]) -> Result<(), Self::Error>;
    fn rmdir(&mut self, path: &[u8]) -> Result<(), Self::Error>;
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Self::Error>;
    fn exchange(&mut self, a: &[u8], b: &[u8]) -> Result<(), Self::Error>;
    fn orphan(&mut self, path: &[u8]) -> Result<(), Self::Error>;
    fn fsync(&mut self, path: &[u8]) -> Result<(), Self::Error>;
    fn sync(&mut self) -> Result<(), Self::Error>;
}

/// The operation that a target failed at.
#[derive(Debug, thiserror::Error)]
#[error("operation {index} {op}: {error}")]
pub struct ApplyError {
    /// Its place in the list.
    pub index: usize,
    /// The operation.
    pub op: CorpusOp,
    /// The target's error.
    pub error: String,
}

/// Performs the operations in order, up to the first that fails.
pub fn apply<T: Target>(ops: impl IntoIterator<Item = CorpusOp>, target: &mut T) -> Result<(), ApplyError> {
    for (index, op) in ops.into_iter().enumerate() {
        if let Err(error) = one(&op, target) {
            return Err(ApplyError { index, op, error: error.to_string() });
        }
    }
    Ok(())
}

fn one<T: Target>(op: &CorpusOp, target: &mut T) -> Result<(), T::Error> {
    match op {
        CorpusOp::Mkdir { path, mode } => target.mkdir(path, *mode),
        CorpusOp::Create { path, mode } => target.create(path, *mode),
        CorpusOp::MkdirInherit { path, mode } => target.mkdir_inherit(path, *mode),
        CorpusOp::CreateInherit { path, mode } => target.create_inherit(path, *mode),
        CorpusOp::Write { path, offset, data } => {
            data.pieces(*offset).try_for_each(|(at, piece)| target.write(path, at, &piece))
        }
        CorpusOp::Truncate { path, size } => target.truncate(path, *size),
        CorpusOp::Fallocate { path, how, offset, len } => target.fallocate(path, *how, *offset, *len),
        CorpusOp::Symlink { path, target: to } => target.symlink(path, to),
        CorpusOp::Link { existing, new } => target.link(existing, new),
        CorpusOp::Mknod { path, kind, mode } => target.mknod(path, *kind, *mode),
        CorpusOp::SetXattr { path, name, value } => target.set_xattr(path, name, value),
        CorpusOp::RemoveXattr { path, name } => target.remove_xattr(path, name),
        CorpusOp::Chown { path, uid, gid } => target.chown(path, *uid, *gid),
        CorpusOp::Chmod { path, mode } => target.chmod(path, *mode),
        CorpusOp::SetTimes { path, atime, mtime } => target.set_times(path, *atime, *mtime),
        CorpusOp::Unlink { path } => target.unlink(path),
        CorpusOp::Rmdir { path } => target.rmdir(path),
        CorpusOp::Rename { from, to } => target.rename(from, to),
        CorpusOp::Exchange { a, b } => target.exchange(a, b),
        CorpusOp::Orphan { path } => target.orphan(path),
        CorpusOp::Fsync { path } => target.fsync(path),
        CorpusOp::Sync => target.sync(),
    }
}

impl fmt::Display for CorpusOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Mkdir { .. } => "mkdir",
            Self::Create { .. } => "create",
            Self::MkdirInherit { .. } => "mkdir (inheriting)",
            Self::CreateInherit { .. } => "create (inheriting)",
            Self::Write { .. } => "write",
            Self::Truncate { .. } => "truncate",
            Self::Fallocate { .. } => "fallocate",
            Self::Symlink { .. } => "symlink",
            Self::Link { .. } => "link",
            Self::Mknod { .. } => "mknod",
            Self::SetXattr { .. } => "setxattr",
            Self::RemoveXattr { .. } => "removexattr",
            Self::Chown { .. } => "chown",
            Self::Chmod { .. } => "chmod",
            Self::SetTimes { .. } => "utimens",
            Self::Unlink { .. } => "unlink",
            Self::Rmdir { .. } => "rmdir",
            Self::Rename { .. } => "rename",
            Self::Exchange { .. } => "exchange",
            Self::Orphan { .. } => "open and unlink",
            Self::Fsync { .. } => "fsync",
            Self::Sync => "sync",
        };
        write!(f, "{word}")?;
        for path in self.paths() {
            write!(f, " {}", escape(path))?;
        }
        match self {
            Self::Write { offset, data, .. } => write!(f, " {} bytes at {offset}", data.len()),
            Self::Truncate { size, .. } => write!(f, " to {size}"),
            Self::Fallocate { how, offset, len, .. } => write!(f, " {how:?} {len} bytes at {offset}"),
            Self::SetXattr { name, value, .. } => write!(f, " {} ({} bytes)", escape(name), value.len()),
            Self::RemoveXattr { name, .. } => write!(f, " {}", escape(name)),
            Self::Mknod { kind, .. } => write!(f, " {kind:?}"),
            _ => Ok(()),
        }
    }
}

impl CorpusOp {
    /// The paths that the operation names.
    pub fn paths(&self) -> Vec<&[u8]> {
        match self {
            Self::Mkdir { path, .. }
            | Self::Create { path, .. }
            | Self::MkdirInherit { path, .. }
            | Self::CreateInherit { path, .. }
            | Self::Write { path, .. }
            | Self::Truncate { path, .. }
            | Self::Fallocate { path, .. }
            | Self::Symlink { path, .. }
            | Self::Mknod { path, .. }
            | Self::SetXattr { path, .. }
            | Self::RemoveXattr { path, .. }
            | Self::Chown { path, .. }
            | Self::Chmod { path, .. }
            | Self::SetTimes { path, .. }
            | Self::Unlink { path }
            | Self::Rmdir { path }
            | Self::Orphan { path }
            | Self::Fsync { path } => vec![path],
            Self::Link { existing: a, new: b } | Self::Rename { from: a, to: b } | Self::Exchange { a, b } => {
                vec![a, b]
            }
            Self::Sync => Vec::new(),
        }
    }
}
