//! The load's target through a FUSE mount that this process serves itself: plain system calls go to the kernel and come
//! back to it.

use anyhow::Result;
use rustix::fs::{FallocateFlags, OFlags, fallocate, statvfs};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steadyfs_core::Fs;
use steadyfs_crash::load::{Failure, Target};
use steadyfs_fuse::FuseOptions;

/// Where the volume is mounted.
pub(crate) struct Mounted {
    dir: PathBuf,
}

/// A file opened twice, the second time with `O_DIRECT`.
pub(crate) struct Opened {
    buffered: File,
    direct: File,
}

impl Opened {
    fn file(&self, direct: bool) -> &File {
        if direct { &self.direct } else { &self.buffered }
    }
}

/// The mount. Unmount it before the process ends.
pub(crate) struct Handle(steadyfs_fuse::Mounted);

impl Handle {
    /// Unmounts, and waits until the volume has been written.
    pub(crate) fn unmount(self, dir: &Path) -> Result<()> {
        rustix::mount::unmount(dir, rustix::mount::UnmountFlags::empty())?;
        Ok(self.0.wait()?)
    }
}

impl Mounted {
    /// Mounts a volume at a directory.
    pub(crate) fn new(fs: &Arc<Fs>, image: &Path, dir: &Path) -> Result<(Handle, Self)> {
        let handle = steadyfs_fuse::mount(Arc::clone(fs), dir, &FuseOptions::new(image))?;
        Ok((Handle(handle), Mounted { dir: dir.to_owned() }))
    }

    fn opened(&self, path: &str, new: bool) -> Result<Opened, Failure> {
        let at = self.dir.join(path);
        let open = |flags: OFlags, new: bool| {
            let mut options = File::options();
            options.read(true).write(true).create_new(new).custom_flags(flags.bits().cast_signed()).open(&at)
        };
        let buffered = open(OFlags::empty(), new)?;
        Ok(Opened { buffered, direct: open(OFlags::DIRECT, false)? })
    }
}

impl Target for Mounted {
    type File = Opened;

    fn mkdir(&self, path: &str) -> Result<(), Failure> {
        Ok(std::fs::create_dir(self.dir.join(path))?)
    }

    fn create(&self, path: &str) -> Result<Opened, Failure> {
        self.opened(path, true)
    }

    fn open(&self, path: &str) -> Result<Opened, Failure> {
        self.opened(path, false)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failure> {
        Ok(std::fs::rename(self.dir.join(from), self.dir.join(to))?)
    }

    fn read(&self, file: &Opened, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        Ok(file.file(direct).read_at(buf, off)?)
    }

    fn write(&self, file: &Opened, direct: bool, off: u64, data: &[u8]) -> Result<usize, Failure> {
        file.file(direct).write_all_at(data, off)?;
        Ok(data.len())
    }

    fn set_size(&self, file: &Opened, size: u64) -> Result<(), Failure> {
        Ok(file.buffered.set_len(size)?)
    }

    fn punch(&self, file: &Opened, off: u64, len: u64) -> Result<(), Failure> {
        Ok(fallocate(&file.buffered, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, off, len)?)
    }

    fn fsync(&self, file: &Opened, data: bool) -> Result<(), Failure> {
        let synced = if data { file.buffered.sync_data() } else { file.buffered.sync_all() };
        Ok(synced?)
    }

    fn sync(&self) -> Result<(), Failure> {
        Ok(rustix::fs::syncfs(File::open(&self.dir)?)?)
    }

    fn used(&self) -> Result<(u64, u64), Failure> {
        let now = statvfs(&self.dir)?;
        Ok((now.f_blocks - now.f_bfree, now.f_blocks))
    }
}
