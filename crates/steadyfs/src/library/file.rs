//! [`File`]: a regular file of a volume behind the traits of [`std::io`].

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use steadyfs_core::{Error, Fs, InodeRef, Result};

/// An open regular file, with a place where the next read or write begins. It reads and writes until its volume is
/// unmounted.
///
/// Writes are durable after [`File::sync`], or after [`Volume::sync`](crate::Volume::sync) for all files.
pub struct File {
    fs: Arc<Fs>,
    inode: InodeRef,
    at: u64,
}

impl File {
    pub(super) fn new(fs: Arc<Fs>, inode: InodeRef) -> Self {
        File { fs, inode, at: 0 }
    }

    /// The inode, for the operations of [`Fs`].
    pub fn inode(&self) -> &InodeRef {
        &self.inode
    }

    /// Makes the file durable: contents, size and attributes, and its name.
    ///
    /// # Errors
    /// What could not be written.
    pub fn sync(&self) -> Result<()> {
        self.fs.fsync(&self.inode, false)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.fs.read(&self.inode, self.at, buf).map_err(system)?;
        self.at += got as u64;
        Ok(got)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let done = self.fs.write(&self.inode, self.at, buf).map_err(system)?;
        self.at += done as u64;
        Ok(done)
    }

    /// Has nothing to do: the file keeps no buffer of its own. For durability there is [`File::sync`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.fs.attr(&self.inode).map_err(system)?.size.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The error as one of the system's, of the kind that its number has.
fn system(e: Error) -> io::Error {
    io::Error::new(io::Error::from_raw_os_error(e.errno()).kind(), e)
}
