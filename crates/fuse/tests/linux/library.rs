//! The tree of corner cases through the library: every operation becomes a call of `Fs`.

use std::collections::HashMap;
use std::sync::Arc;
use steadyfs_core::{Error, FallocMode, Fs, InodeRef, NewInode, RenameFlags, Result, SetAttr, SetTime, XattrFlags};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Time as Stamp};
use steadyfs_testkit::corpus::{Falloc, Special, Target};
use steadyfs_testkit::manifest::Time;

/// A mounted volume as a target.
pub(crate) struct LibraryTarget {
    fs: Arc<Fs>,
    /// Directories met so far, by path.
    dirs: HashMap<Vec<u8>, InodeRef>,
    orphans: Vec<InodeRef>,
}

impl LibraryTarget {
    pub(crate) fn new(fs: Arc<Fs>) -> Self {
        LibraryTarget { fs, dirs: HashMap::new(), orphans: Vec::new() }
    }

    fn inode(&self, path: &[u8]) -> Result<InodeRef> {
        if path == b"." {
            return self.fs.root();
        }
        if let Some(dir) = self.dirs.get(path) {
            return Ok(dir.clone());
        }
        let (dir, name) = self.parent(path)?;
        self.fs.lookup(&dir, name)
    }

    fn parent<'p>(&self, path: &'p [u8]) -> Result<(InodeRef, &'p [u8])> {
        match path.iter().rposition(|&b| b == b'/') {
            Some(at) => Ok((self.inode(&path[..at])?, &path[at + 1..])),
            None => Ok((self.fs.root()?, path)),
        }
    }

    /// Exactly these bits, without a default ACL or setgid bit in the way.
    fn make(&self, path: &[u8], mode: u32, rdev: DeviceNumber) -> Result<InodeRef> {
        let (dir, name) = self.parent(path)?;
        let new = NewInode { mode, rdev, ..NewInode::default() };
        let inode = self.fs.create(&dir, name, &new)?;
        if mode & 0o7000 != 0 {
            self.fs.setattr(&inode, &SetAttr { mode: Some(mode), ..SetAttr::default() })?;
        }
        Ok(inode)
    }
}

fn stamp(t: Time) -> Option<SetTime> {
    Some(SetTime::At(Stamp { secs: t.sec, nanos: t.nsec }))
}

impl Target for LibraryTarget {
    type Error = Error;

    fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()> {
        let inode = self.make(path, 0o040_000 | mode, DeviceNumber::default())?;
        self.dirs.insert(path.to_vec(), inode);
        Ok(())
    }

    fn create(&mut self, path: &[u8], mode: u32) -> Result<()> {
        self.make(path, 0o100_000 | mode, DeviceNumber::default()).map(drop)
    }

    fn mkdir_inherit(&mut self, path: &[u8], mode: u32) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.create(&dir, name, &NewInode { mode: 0o040_000 | mode, ..NewInode::default() }).map(drop)
    }

    fn create_inherit(&mut self, path: &[u8], mode: u32) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.create(&dir, name, &NewInode { mode: 0o100_000 | mode, ..NewInode::default() }).map(drop)
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<()> {
        let written = self.fs.write(&self.inode(path)?, offset, data)?;
        assert_eq!(written, data.len());
        Ok(())
    }

    fn truncate(&mut self, path: &[u8], size: u64) -> Result<()> {
        self.fs.setattr(&self.inode(path)?, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
    }

    fn fallocate(&mut self, path: &[u8], how: Falloc, offset: u64, len: u64) -> Result<()> {
        let mode = match how {
            Falloc::Allocate => FallocMode::Allocate { keep_size: false },
            Falloc::KeepSize => FallocMode::Allocate { keep_size: true },
            Falloc::PunchHole => FallocMode::PunchHole,
            Falloc::Zero => FallocMode::ZeroRange { keep_size: false },
            Falloc::ZeroKeepSize => FallocMode::ZeroRange { keep_size: true },
            Falloc::Collapse => FallocMode::CollapseRange,
            Falloc::Insert => FallocMode::InsertRange,
        };
        self.fs.fallocate(&self.inode(path)?, mode, offset, len)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.symlink(&dir, name, target, &NewInode { mode: 0o777, ..NewInode::default() }).map(drop)
    }

    fn link(&mut self, existing: &[u8], new: &[u8]) -> Result<()> {
        let (dir, name) = self.parent(new)?;
        self.fs.link(&self.inode(existing)?, &dir, name)
    }

    fn mknod(&mut self, path: &[u8], kind: Special, mode: u32) -> Result<()> {
        let (file_type, rdev) = match kind {
            Special::Fifo => (0o010_000, DeviceNumber::default()),
            Special::Socket => (0o140_000, DeviceNumber::default()),
            Special::Char(major, minor) => (0o020_000, DeviceNumber { major, minor }),
            Special::Block(major, minor) => (0o060_000, DeviceNumber { major, minor }),
        };
        self.make(path, file_type | mode, rdev).map(drop)
    }

    fn set_xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<()> {
        self.fs.setxattr(&self.inode(path)?, name, value, XattrFlags::default())
    }

    fn remove_xattr(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        self.fs.removexattr(&self.inode(path)?, name)
    }

    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> Result<()> {
        let owner = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
        self.fs.setattr(&self.inode(path)?, &owner).map(drop)
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> Result<()> {
        self.fs.setattr(&self.inode(path)?, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
    }

    fn set_times(&mut self, path: &[u8], atime: Time, mtime: Time) -> Result<()> {
        let times = SetAttr { atime: stamp(atime), mtime: stamp(mtime), ..SetAttr::default() };
        self.fs.setattr(&self.inode(path)?, &times).map(drop)
    }

    fn unlink(&mut self, path: &[u8]) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.unlink(&dir, name)
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        self.dirs.remove(path);
        let (dir, name) = self.parent(path)?;
        self.fs.rmdir(&dir, name)
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.dirs.clear();
        let (old, new) = (self.parent(from)?, self.parent(to)?);
        self.fs.rename(&old.0, old.1, &new.0, new.1, RenameFlags::Replace)
    }

    fn exchange(&mut self, a: &[u8], b: &[u8]) -> Result<()> {
        self.dirs.clear();
        let (a, b) = (self.parent(a)?, self.parent(b)?);
        self.fs.rename(&a.0, a.1, &b.0, b.1, RenameFlags::Exchange)
    }

    fn orphan(&mut self, path: &[u8]) -> Result<()> {
        let inode = self.inode(path)?;
        let is_dir = inode.kind() == FileType::Dir;
        self.orphans.push(inode);
        if is_dir { self.rmdir(path) } else { self.unlink(path) }
    }

    fn fsync(&mut self, path: &[u8]) -> Result<()> {
        self.fs.fsync(&self.inode(path)?, false)
    }

    fn sync(&mut self) -> Result<()> {
        self.fs.sync()
    }
}
