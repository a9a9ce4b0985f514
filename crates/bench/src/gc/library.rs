//! Our library as a peer, in this process.

use super::write::{Counters, FILE, Pages, Peer};
use crate::measure::cpu_time;
use anyhow::{Result, ensure};
use std::path::Path;
use std::sync::Arc;
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::OpenOptions;

/// A volume mounted in this process.
pub(crate) struct Library {
    fs: Arc<Fs>,
}

impl Library {
    /// Mounts the volume in an image.
    pub(crate) fn mount(image: &Path, options: &str) -> Result<Self> {
        let device = crate::bed::open(image, OpenOptions::default())?;
        Ok(Library { fs: Fs::mount(device, MountOptions::parse(options)?)? })
    }

    /// Unmounts it.
    pub(crate) fn unmount(self) -> Result<()> {
        Ok(self.fs.unmount()?)
    }
}

impl Peer for Library {
    fn free_bytes(&self) -> Result<u64> {
        let stat = self.fs.statfs();
        Ok(stat.blocks_free * u64::from(stat.block_size))
    }

    fn create(&self) -> Result<Box<dyn Pages + '_>> {
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let inode = self.fs.create(&self.fs.root()?, FILE.as_bytes(), &new)?;
        Ok(Box::new(LibraryFile { fs: &self.fs, inode, direct: false }))
    }

    fn open(&self, direct: bool) -> Result<Box<dyn Pages + '_>> {
        let inode = self.fs.lookup(&self.fs.root()?, FILE.as_bytes())?;
        Ok(Box::new(LibraryFile { fs: &self.fs, inode, direct }))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.fs.sync()?)
    }

    fn counters(&self) -> Result<Counters> {
        let (io, gc) = (self.fs.io_stats(), self.fs.gc_totals());
        let named = [
            ("written", io.written_blocks()),
            ("data", io.data_written),
            ("node", io.node_written),
            ("meta", io.meta_written),
            ("read", io.read),
            ("moved", gc.data_moved + gc.nodes_moved),
            ("victims", gc.victims),
            ("checkpoints", self.fs.checkpoint_stats().committed),
            ("cpu_us", u64::try_from(cpu_time(None)?.as_micros())?),
        ];
        Ok(named.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

struct LibraryFile<'a> {
    fs: &'a Fs,
    inode: InodeRef,
    direct: bool,
}

impl Pages for LibraryFile<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.fs.attr(&self.inode)?.size)
    }

    fn write(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let n = match self.direct {
            true => self.fs.write_direct(&self.inode, off, bytes)?,
            false => self.fs.write(&self.inode, off, bytes)?,
        };
        ensure!(n == bytes.len(), "only {n} bytes were written");
        Ok(())
    }

    fn datasync(&self) -> Result<()> {
        Ok(self.fs.fsync(&self.inode, true)?)
    }
}
