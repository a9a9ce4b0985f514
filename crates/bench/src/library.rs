//! The library without FUSE: a tree on `steadyfs-core`.
//!
//! Directories that have been looked up are kept, as a kernel's name cache keeps them; names of files are looked up
//! every time.

use crate::tree::{Handle, Open, Tree};
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode, SetAttr, SetTime};
use steadyfs_device::OpenOptions;

/// A volume mounted in this process.
pub(crate) struct LibraryTree {
    fs: Arc<Fs>,
    dirs: RefCell<HashMap<String, InodeRef>>,
}

/// Regular file and directory types of `st_mode`.
const FILE: u32 = 0o100_644;
const DIR: u32 = 0o040_755;

impl LibraryTree {
    /// Mounts the volume on an image file, on a block device or in a directory of chunks.
    pub(crate) fn mount(device: &Path, options: &str) -> Result<Self> {
        let fs = Fs::mount(crate::bed::open(device, OpenOptions::default())?, MountOptions::parse(options)?)?;
        let root = fs.root()?;
        Ok(LibraryTree { fs, dirs: RefCell::new(HashMap::from([(String::new(), root)])) })
    }

    /// The volume.
    pub(crate) fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// Unmounts.
    pub(crate) fn unmount(&self) -> Result<()> {
        self.dirs.borrow_mut().clear();
        Ok(self.fs.unmount()?)
    }

    /// The directory that a path names something in, and the name.
    fn split<'p>(&self, path: &'p str) -> Result<(InodeRef, &'p [u8])> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.dir(dir)?, name.as_bytes()))
    }

    fn dir(&self, path: &str) -> Result<InodeRef> {
        if let Some(dir) = self.dirs.borrow().get(path) {
            return Ok(dir.clone());
        }
        ensure!(!path.is_empty(), "the volume was unmounted");
        let (parent, name) = self.split(path)?;
        let dir = self.fs.lookup(&parent, name)?;
        self.dirs.borrow_mut().insert(path.to_owned(), dir.clone());
        Ok(dir)
    }
}

fn new_inode(mode: u32) -> NewInode {
    NewInode { mode, ..NewInode::default() }
}

impl Tree for LibraryTree {
    fn mkdir(&self, path: &str) -> Result<()> {
        let (parent, name) = self.split(path)?;
        self.fs.create(&parent, name, &new_inode(DIR))?;
        Ok(())
    }

    fn open(&self, path: &str, how: Open) -> Result<Box<dyn Handle + '_>> {
        let (parent, name) = self.split(path)?;
        let inode = match how.is_new() {
            true => self.fs.create(&parent, name, &new_inode(FILE))?,
            false => self.fs.lookup(&parent, name)?,
        };
        Ok(Box::new(LibraryFile { fs: &self.fs, inode, direct: how.is_direct() }))
    }

    fn stat(&self, path: &str) -> Result<u64> {
        let (parent, name) = self.split(path)?;
        Ok(self.fs.attr(&self.fs.lookup(&parent, name)?)?.size)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        let (parent, name) = self.split(path)?;
        self.fs.unlink(&parent, name).with_context(|| format!("cannot remove {path}"))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.fs.sync()?)
    }
}

struct LibraryFile<'a> {
    fs: &'a Fs,
    inode: InodeRef,
    direct: bool,
}

impl Handle for LibraryFile<'_> {
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<()> {
        let n = match self.direct {
            true => self.fs.read_direct(&self.inode, off, buf)?,
            false => self.fs.read(&self.inode, off, buf)?,
        };
        ensure!(n == buf.len(), "the file ends at {}", off + n as u64);
        Ok(())
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<()> {
        let n = match self.direct {
            true => self.fs.write_direct(&self.inode, off, buf)?,
            false => self.fs.write(&self.inode, off, buf)?,
        };
        ensure!(n == buf.len(), "only {n} bytes were written");
        Ok(())
    }

    fn datasync(&self) -> Result<()> {
        Ok(self.fs.fsync(&self.inode, true)?)
    }

    fn set_mode_and_time(&self, mode: u32, seconds: i64) -> Result<()> {
        let time = Some(SetTime::At(steadyfs_format::inode::Time { secs: seconds, nanos: 0 }));
        let set = SetAttr { mode: Some(mode), atime: time, mtime: time, ..SetAttr::default() };
        self.fs.setattr(&self.inode, &set)?;
        Ok(())
    }
}
