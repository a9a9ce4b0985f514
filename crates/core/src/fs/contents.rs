//! Reading and writing contents.

use super::Fs;
use crate::error::Result;
use crate::files::file::{FallocMode, Whence};
use crate::files::inode::InodeRef;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;

impl Fs {
    /// Reads from a regular file at a byte offset; returns how many bytes there were, fewer than asked for only at the
    /// end.
    ///
    /// # Errors
    /// `IsDirectory` and `Invalid` for anything but a regular file; `Unsupported` for encrypted contents; damage and
    /// I/O errors.
    pub fn read(&self, file: &InodeRef, off: u64, buf: &mut [u8]) -> Result<usize> {
        self.files.read(file, off, buf)
    }

    /// Reads as [`Fs::read`], without putting pages into the cache. Any offset and length will do. Whole pages at the
    /// start of a page go straight from the device into memory that is aligned; then the rest of the last page is
    /// overwritten, too.
    ///
    /// # Errors
    /// As [`Fs::read`].
    pub fn read_direct(&self, file: &InodeRef, off: u64, buf: &mut [u8]) -> Result<usize> {
        self.files.read_direct(file, off, buf)
    }

    /// Writes to a regular file at a byte offset; returns how many bytes were written, fewer than given only if space
    /// or the largest file size ran out on the way. The data reaches the device later; see [`Fs::fsync`].
    ///
    /// # Errors
    /// `IsDirectory` and `Invalid` for anything but a regular file; `TooBig` beyond the largest file; `NoSpace`; what
    /// forbids changing the file at all.
    pub fn write(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<usize> {
        self.files.write(file, off, data)
    }

    /// Writes at the end of a regular file, wherever that is then; returns the offset and the number of bytes written.
    ///
    /// # Errors
    /// As [`Fs::write`].
    pub fn append(&self, file: &InodeRef, data: &[u8]) -> Result<(u64, usize)> {
        self.files.append(file, data)
    }

    /// Writes as [`Fs::write`], with pages that are taken as they are, without a copy, from page `first` of the file
    /// on. Synthetic pages stay synthetic on their way to the device.
    ///
    /// # Errors
    /// As [`Fs::write`].
    pub fn write_pages(&self, file: &InodeRef, first: PageIndex, pages: &[PageBuf]) -> Result<usize> {
        self.files.write_pages(file, first, pages)
    }

    /// Writes what a cache above this one held back, as [`Fs::write`] or, if it will not be read again soon, as
    /// [`Fs::write_direct`]; leaves the file's times alone. What may be written was decided when that cache took it: an
    /// inode that became immutable meanwhile is written all the same. A cache holds back whole pages, so an append to
    /// an append-only file may begin before its end; but what the file holds must not change.
    ///
    /// # Errors
    /// As [`Fs::write`], for what the device refuses stays in memory; `NotPermitted` if it would change bytes of an
    /// append-only file.
    pub fn write_back(&self, file: &InodeRef, off: u64, data: &[u8], direct: bool) -> Result<usize> {
        self.files.write_back(file, off, data, direct)
    }

    /// Writes as [`Fs::write`]; the data has reached the device when this returns (durable after a flush: see
    /// [`Fs::fsync`]). Whole pages go straight to the device; a request that is not made of whole pages goes through
    /// the cache.
    ///
    /// # Errors
    /// As [`Fs::write`], and I/O errors of the write itself.
    pub fn write_direct(&self, file: &InodeRef, off: u64, data: &[u8]) -> Result<usize> {
        self.files.write_direct(file, off, data)
    }

    /// As [`Fs::write_direct`], with pages that are taken as they are, without a copy, from page `first` of the file
    /// on.
    ///
    /// # Errors
    /// As [`Fs::write_direct`].
    pub fn write_pages_direct(&self, file: &InodeRef, first: PageIndex, pages: &[PageBuf]) -> Result<usize> {
        self.files.write_pages_direct(file, first, pages)
    }

    /// Allocates, frees or moves ranges of a regular file.
    ///
    /// # Errors
    /// `Invalid` for an empty range, and for ranges that the mode does not allow; `TooBig`; `NoSpace`; what forbids
    /// changing the file.
    pub fn fallocate(&self, file: &InodeRef, mode: FallocMode, off: u64, len: u64) -> Result<()> {
        self.files.fallocate(file, mode, off, len)
    }

    /// The first offset at or after `off` that is data, or a hole.
    ///
    /// # Errors
    /// `NoSuchOffset` if `off` is not below the size, or if there is no data from there on.
    pub fn seek(&self, file: &InodeRef, off: u64, whence: Whence) -> Result<u64> {
        self.files.seek(file, off, whence)
    }

    /// The largest file in bytes: what Linux allows, whatever share of it the inode itself could hold (format section
    /// 7.3). Follows from the width of the volume's addresses.
    pub fn max_file_size(&self) -> u64 {
        self.files.max_file_size()
    }
}
