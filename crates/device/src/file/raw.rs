//! Single operations on an open file with system calls: the common ground of all engines.
//!
//! Keeps true: a read fills every byte of the pages it returns; a write ends when every byte was taken, or with an
//! error; interrupted and short calls are continued, never reported.
#![allow(unsafe_code)] // a system call and an ioctl that nobody has wrapped

use super::locked::Locked;
use crate::device::IoResult;
use crate::{BLOCK_SIZE, IoError, Op, OpKind, PageBuf, errno};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};
use rustix::io::{Errno, pread, preadv, pwritev, retry_on_intr};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The most buffers one system call takes (IOV_MAX).
const MAX_BUFFERS: usize = 1024;

/// From this many pages on (192 KiB) a write is on its way to the disk before a flush asks for it: as much as
/// collectors write at once, and more than most fsyncs.
const START_PAGES: usize = 48;

/// An open file and where the device lies in it.
pub(crate) struct RawFile {
    file: Locked,
    offset: u64,
    block_device: bool,
    /// The file may end before the device does: the rest reads as zeros.
    ends_early: bool,
}

impl RawFile {
    pub(crate) fn new(file: Locked, offset: u64, block_device: bool, ends_early: bool) -> Self {
        RawFile { file, offset, block_device, ends_early }
    }

    /// The same file, which may not end before the device does.
    pub(crate) fn whole(self) -> Self {
        RawFile { ends_early: false, ..self }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// True for files in memory (tmpfs, ramfs), where a system call only copies and never waits.
    pub(crate) fn is_in_memory(&self) -> bool {
        !self.block_device && is_in_memory(&self.file)
    }

    /// Byte position of `block` in the file. Ranges were checked against a device size that fits.
    pub(crate) fn position(&self, block: u64) -> u64 {
        self.offset + block * BLOCK_SIZE as u64
    }

    /// Reads the first block and forgets it: does reading work as the file is opened?
    pub(crate) fn try_read(&self) -> Result<(), Errno> {
        let mut page = PageBuf::stale();
        retry_on_intr(|| preadv(&*self.file, &mut [IoSliceMut::new(page.make_mut())], self.offset)).map(drop)
    }

    /// Does one operation whose range was checked.
    pub(crate) fn perform(&self, op: Op) -> IoResult {
        let (kind, (block, count)) = (op.kind(), op.range());
        let fail = |errno: Errno| IoError::from_errno(kind, block, count, errno.raw_os_error());
        match op {
            Op::Read { .. } => {
                let mut pages: Vec<PageBuf> = (0..count).map(|_| PageBuf::stale()).collect();
                self.read_rest(block, &mut pages, 0)?;
                Ok(pages)
            }
            Op::Write { pages, fua, .. } => {
                let pages: Vec<PageBuf> = pages.into_iter().map(PageBuf::expanded).collect();
                self.write_rest(block, &pages, 0, fua)?;
                Ok(Vec::new())
            }
            Op::Flush => retry_on_intr(|| fdatasync(&*self.file)).map(|()| Vec::new()).map_err(fail),
            Op::Discard { .. } => self.discard(block, count).map(|()| Vec::new()).map_err(fail),
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(fail(Errno::OPNOTSUPP)),
        }
    }

    /// Fills `pages`, read from `block` on, of which `done` bytes are filled already.
    pub(crate) fn read_rest(&self, block: u64, pages: &mut [PageBuf], mut done: usize) -> Result<(), IoError> {
        let count = pages.len() as u64;
        while done < pages.len() * BLOCK_SIZE {
            let (first, skip) = (done / BLOCK_SIZE, done % BLOCK_SIZE);
            let mut buffers: Vec<IoSliceMut<'_>> = Vec::with_capacity(MAX_BUFFERS.min(pages.len() - first));
            for (at, page) in pages[first..].iter_mut().take(MAX_BUFFERS).enumerate() {
                let bytes = page.make_mut();
                buffers.push(IoSliceMut::new(if at == 0 { &mut bytes[skip..] } else { bytes }));
            }
            let position = self.position(block) + done as u64;
            match retry_on_intr(|| preadv(&*self.file, &mut buffers, position)) {
                Ok(0) if self.ends_early => {
                    buffers.iter_mut().for_each(|buffer| buffer.fill(0));
                    done += buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
                }
                Ok(0) => return Err(ended(block, count, position)),
                Ok(n) => done += n,
                Err(errno) => return Err(IoError::from_errno(OpKind::Read, block, count, errno.raw_os_error())),
            }
        }
        Ok(())
    }

    /// Fills memory of whole blocks, read from `block` on.
    pub(crate) fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        let (count, mut done) = ((bytes.len() / BLOCK_SIZE) as u64, 0);
        while done < bytes.len() {
            let position = self.position(block) + done as u64;
            match retry_on_intr(|| pread(&*self.file, &mut bytes[done..], position)) {
                Ok(0) if self.ends_early => {
                    bytes[done..].fill(0);
                    done = bytes.len();
                }
                Ok(0) => return Err(ended(block, count, position)),
                Ok(n) => done += n,
                Err(errno) => return Err(IoError::from_errno(OpKind::Read, block, count, errno.raw_os_error())),
            }
        }
        Ok(())
    }

    /// Writes `pages` (none of them synthetic) from `block` on, of which `done` bytes are written already.
    pub(crate) fn write_rest(&self, block: u64, pages: &[PageBuf], mut done: usize, fua: bool) -> Result<(), IoError> {
        let count = pages.len() as u64;
        let fail = |errno: Errno| IoError::from_errno(OpKind::Write, block, count, errno.raw_os_error());
        while done < pages.len() * BLOCK_SIZE {
            let (first, skip) = (done / BLOCK_SIZE, done % BLOCK_SIZE);
            let bytes = pages[first..].iter().take(MAX_BUFFERS).filter_map(PageBuf::bytes);
            let buffers: Vec<IoSlice<'_>> =
                bytes.enumerate().map(|(at, bytes)| IoSlice::new(&bytes[if at == 0 { skip } else { 0 }..])).collect();
            assert!(!buffers.is_empty(), "pages to write have their bytes in memory");
            match retry_on_intr(|| pwritev(&*self.file, &buffers, self.position(block) + done as u64)) {
                Ok(0) => return Err(fail(Errno::IO)),
                Ok(n) => done += n,
                Err(errno) => return Err(fail(errno)),
            }
        }
        if fua {
            // Not by one call (RWF_DSYNC): its error would not say which of the two failed.
            let lost = |errno: Errno| IoError::from_errno(OpKind::Flush, 0, 0, errno.raw_os_error());
            return retry_on_intr(|| fdatasync(&*self.file)).map_err(lost);
        }
        if pages.len() >= START_PAGES {
            self.start_writing(self.position(block), pages.len());
        }
        Ok(())
    }

    /// Has the system begin to write what it only keeps so far, so that the next flush finds less to wait for. Of
    /// direct I/O and of files in memory nothing is left to write.
    fn start_writing(&self, position: u64, pages: usize) {
        let [Ok(from), Ok(bytes)] = [i64::try_from(position), i64::try_from(pages * BLOCK_SIZE)] else { return };
        // SAFETY: the call takes numbers only. Its result says nothing that the next flush would not: with this
        // flag it neither waits nor takes notice of earlier errors away.
        let _ = unsafe { libc::sync_file_range(self.file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }

    /// The first run of blocks from `block` on, of a device of `blocks`, that the file has room for.
    pub(crate) fn held_from(&self, block: u64, blocks: u64) -> Result<Option<Range<u64>>, IoError> {
        let fail = |errno: Errno| IoError::from_errno(OpKind::Held, block, 0, errno.raw_os_error());
        if self.block_device {
            return Err(fail(Errno::OPNOTSUPP));
        }
        if block >= blocks {
            return Ok(None);
        }
        let size = BLOCK_SIZE as u64;
        let start = match retry_on_intr(|| seek(&*self.file, SeekFrom::Data(self.position(block)))) {
            Ok(start) => start,
            // Only a hole is left, or the file ends before.
            Err(Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(fail(errno)),
        };
        let end = retry_on_intr(|| seek(&*self.file, SeekFrom::Hole(start))).map_err(fail)?;
        // A part of a block counts as a whole one.
        let first = start.saturating_sub(self.offset) / size;
        let end = end.saturating_sub(self.offset).div_ceil(size).min(blocks);
        Ok((first < end).then_some(first..end))
    }

    fn discard(&self, block: u64, count: u64) -> Result<(), Errno> {
        let (position, bytes) = (self.position(block), count * BLOCK_SIZE as u64);
        if count == 0 {
            return Ok(());
        }
        if self.block_device {
            return retry_on_intr(|| discard_blocks(&self.file, [position, bytes]));
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| fallocate(&*self.file, hole, position, bytes))
    }
}

/// The error of a read of `count` blocks from `block` on, of a file that has become shorter.
fn ended(block: u64, count: u64, position: u64) -> IoError {
    let cause = format!("the file ends at byte {position}, it was longer when it was opened");
    IoError::new(OpKind::Read, block, count, errno::EIO, cause)
}

/// Whether the file system of a file is one in memory.
pub(crate) fn is_in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let kind = rustix::fs::fstatfs(file).map(|stat| stat.f_type as u64);
    kind.is_ok_and(|kind| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind))
}

/// The BLKDISCARD ioctl: range = [first byte, number of bytes].
fn discard_blocks(file: &File, range: [u64; 2]) -> Result<(), Errno> {
    const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);
    // SAFETY: BLKDISCARD takes a pointer to two u64 that it only reads.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new(range)) }
}
