//! Trees and files by plain system calls: mounted file systems, and a device written without any.

use crate::tree::{Handle, Open, Tree};
use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::retry_on_intr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A directory where something is mounted.
pub(crate) struct PosixTree {
    root: OwnedFd,
}

impl PosixTree {
    /// Opens the root.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .with_context(|| format!("cannot open {}", root.display()))?;
        Ok(PosixTree { root })
    }
}

fn flags(how: Open) -> OFlags {
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
    if how.is_new() {
        flags |= OFlags::CREATE | OFlags::EXCL;
    }
    if how.is_direct() {
        flags |= OFlags::DIRECT;
    }
    flags
}

impl Tree for PosixTree {
    fn mkdir(&self, path: &str) -> Result<()> {
        Ok(rustix::fs::mkdirat(&self.root, path, Mode::from_raw_mode(0o755))?)
    }

    fn open(&self, path: &str, how: Open) -> Result<Box<dyn Handle + '_>> {
        let file = rustix::fs::openat(&self.root, path, flags(how), Mode::from_raw_mode(0o644))?;
        Ok(Box::new(PosixFile { file }))
    }

    fn stat(&self, path: &str) -> Result<u64> {
        let stat = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(u64::try_from(stat.st_size)?)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.root, path, AtFlags::empty())?)
    }

    fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }
}

/// A device written from its first byte on, as if it were a tree with one file: the limit of what a file system on it
/// can do.
pub(crate) struct RawTree<'a> {
    /// Image file or block device.
    pub(crate) device: &'a Path,
}

impl Tree for RawTree<'_> {
    fn mkdir(&self, _path: &str) -> Result<()> {
        bail!("a raw device has no directories")
    }

    fn open(&self, _path: &str, how: Open) -> Result<Box<dyn Handle + '_>> {
        let flags = flags(how) - (OFlags::CREATE | OFlags::EXCL);
        let file = rustix::fs::openat(CWD, self.device, flags, Mode::empty())?;
        Ok(Box::new(PosixFile { file }))
    }

    fn stat(&self, _path: &str) -> Result<u64> {
        bail!("a raw device has no files")
    }

    fn unlink(&self, _path: &str) -> Result<()> {
        bail!("a raw device has no names")
    }

    fn sync(&self) -> Result<()> {
        self.open("", Open::Cached)?.datasync()
    }
}

struct PosixFile {
    file: OwnedFd,
}

impl Handle for PosixFile {
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let n = retry_on_intr(|| rustix::io::pread(&self.file, &mut buf[done..], off + done as u64))?;
            if n == 0 {
                bail!("the file ends at {}", off + done as u64);
            }
            done += n;
        }
        Ok(())
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let n = retry_on_intr(|| rustix::io::pwrite(&self.file, &buf[done..], off + done as u64))?;
            if n == 0 {
                bail!("nothing was written at {}", off + done as u64);
            }
            done += n;
        }
        Ok(())
    }

    fn datasync(&self) -> Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fdatasync(&self.file))?)
    }

    fn set_mode_and_time(&self, mode: u32, seconds: i64) -> Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        Ok(rustix::fs::futimens(&self.file, &Timestamps { last_access: time, last_modification: time })?)
    }
}
