//! [`ChunkDevice`]: a device in a directory of files, for volumes that give back what they do not need.
//!
//! The address space is cut into chunks of 64 MiB. A chunk in which something is held is a file, named by its number in
//! hexadecimal; all others read as zeros and take nothing. Discarded blocks are punched out of their chunk, and a chunk
//! that holds nothing any more is removed: that costs the host one step, whatever its size. So the device may be far
//! longer than any file of the host, which has to know holes, and what it takes is what is held.
//!
//! The file `steadyfs-chunks` says how long the device is, and is what processes lock. Hosts whose blocks are longer
//! than 4 KiB give back whole blocks of theirs only.
//!
//! Kept true:
//! - a chunk is removed only while its count of held blocks is zero, and a write counts its blocks before it writes;
//! - a flush makes durable what was written, punched, made and removed before: files first, then their directory; that
//!   an earlier process did it, and was killed, makes no difference;
//! - a file that is to be synced stays open, so that the host's errors reach the next flush; if one had to be closed,
//!   its error is kept for that;
//! - after a sync that failed no flush succeeds any more, until the device is opened again;
//! - a chunk that somebody else removes or cuts short is an error of each request that reads it, writes to it, or
//!   flushes it: it is never made again, or taken for one that holds nothing.

mod chunk;
mod open;
mod table;

use crate::device::{IoResult, submit_and_wait};
use crate::file::locked::Locked;
use crate::file::threads::{Perform, ThreadPool};
use crate::host::{HostDir, HostModel};
use crate::{BLOCK_SIZE, Device, DeviceInfo, IoError, Op, OpKind, OpenError, OpenOptions, PageBuf, Request, errno};
use rustix::io::Errno;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::Table;

/// Blocks of a chunk: 64 MiB.
const CHUNK_BLOCKS: u64 = 1 << 14;

/// What a directory of a model is called.
const MODEL: &str = "model.d";

/// What keeps the files from being what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The system says so.
    System(Errno),
    /// Somebody removed the file of this chunk, or put another in its place.
    Removed(u64),
    /// Somebody cut the file of this chunk short.
    Cut(u64),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Trouble::System(errno)
    }
}

impl Trouble {
    /// The error that the request gets.
    fn told(self, kind: OpKind, block: u64, count: u64) -> IoError {
        let of = |number, what| {
            let cause = format!("file {} of the chunk directory {what} while it was in use", table::name(number));
            IoError::new(kind, block, count, errno::EIO, cause)
        };
        match self {
            Trouble::System(errno) => IoError::from_errno(kind, block, count, errno.raw_os_error()),
            Trouble::Removed(number) => of(number, "was removed"),
            Trouble::Cut(number) => of(number, "was cut short"),
        }
    }
}

/// See the head of the module.
pub struct ChunkDevice {
    info: DeviceInfo,
    chunks: Arc<Chunks>,
    pool: Option<ThreadPool<Chunks>>,
}

/// What threads work on.
struct Chunks {
    table: Table,
    /// The file that says what the device is; locked as long as the device is open, if it is one of the system.
    _marker: Option<Locked>,
}

impl ChunkDevice {
    /// Makes an empty device of `blocks` blocks, at most 2^61, in the directory `path`, which is made if it is not
    /// there. A crash leaves a directory that is no device yet and can be made one, or the device.
    ///
    /// # Errors
    /// The directory holds something; what the system says.
    pub fn create(path: impl AsRef<Path>, blocks: u64) -> Result<(), OpenError> {
        open::create(path.as_ref(), blocks)
    }

    /// Whether the path is a directory with a device, or one that was begun.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        open::is_at(path.as_ref())
    }

    /// Whether the path is a directory with a device that is complete.
    pub fn is_complete(path: impl AsRef<Path>) -> bool {
        open::is_complete(path.as_ref())
    }

    /// The file that is locked as long as the device at `path` is open: `path` itself, unless it is a chunk directory.
    pub fn locked_file(path: impl AsRef<Path>) -> PathBuf {
        open::locked_file(path.as_ref())
    }

    /// Opens and locks the directory. Of the options, offset and size have no meaning here.
    ///
    /// # Errors
    /// It is no device, somebody else has it open, or the host does not know holes.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Ok(Self::with(open::open(path, &options)?, path, options.read_only))
    }

    /// Makes an empty device of `blocks` blocks in the directory of a model, in chunks of `chunk_blocks`: a power of 2
    /// from 64 on, at most the usual ones.
    ///
    /// # Errors
    /// The directory holds something; no device is so long.
    pub fn create_on(host: &HostModel, blocks: u64, chunk_blocks: u64) -> Result<(), OpenError> {
        open::create_in(&HostDir::Model(host.clone()), Path::new(MODEL), blocks, chunk_blocks)
    }

    /// Opens the directory of a model. Nobody else may have it open.
    ///
    /// # Errors
    /// It is no device.
    pub fn open_on(host: &HostModel) -> Result<Self, OpenError> {
        let path = Path::new(MODEL);
        Ok(Self::with(open::open_model(host, path)?, path, false))
    }

    fn with(opened: open::OpenedChunks, path: &Path, read_only: bool) -> Self {
        let open::OpenedChunks { marker, table, blocks } = opened;
        let in_memory = table.is_in_memory();
        let chunks = Arc::new(Chunks { table, _marker: marker });
        // Without threads it is slower, and still right.
        let pool = if in_memory { None } else { ThreadPool::start(&chunks).ok() };
        let info = DeviceInfo {
            blocks,
            read_only,
            discard: !read_only,
            synchronous: pool.is_none(),
            prefers_fua: false,
            name: path.display().to_string(),
        };
        ChunkDevice { info, chunks, pool }
    }

    /// Chunks that are there: files beside the one that says what the device is.
    ///
    /// # Errors
    /// What the system says.
    pub fn chunks(&self) -> Result<u64, IoError> {
        let numbers = self.chunks.table.numbers().map_err(|errno| Trouble::from(errno).told(OpKind::Held, 0, 0))?;
        Ok(numbers.len() as u64)
    }
}

/// The parts of a range of blocks that lie in one chunk of `size` each: chunk, first block in it, number of blocks.
fn parts(block: u64, count: u64, size: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = block + count;
    let starts = std::iter::successors((count > 0).then_some(block), move |at| {
        let next = (at / size + 1) * size;
        (next < end).then_some(next)
    });
    starts.map(move |at| (at / size, at % size, end.min((at / size + 1) * size) - at))
}

impl Chunks {
    fn read(&self, block: u64, count: u64) -> IoResult {
        let mut pages: Vec<PageBuf> = Vec::with_capacity(count as usize);
        let fail = |trouble: Trouble| trouble.told(OpKind::Read, block, count);
        for (number, at, count) in parts(block, count, self.table.blocks) {
            let first = pages.len();
            match self.table.find(number).map_err(fail)? {
                None => pages.extend((0..count).map(|_| PageBuf::zeroed())),
                Some(chunk) => {
                    pages.extend((0..count).map(|_| PageBuf::stale()));
                    chunk.read(at, &mut pages[first..]).map_err(|errno| fail(errno.into()))?;
                }
            }
        }
        Ok(pages)
    }

    /// Fills memory of whole blocks.
    fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        let (count, mut rest) = ((bytes.len() / BLOCK_SIZE) as u64, bytes);
        let fail = |trouble: Trouble| trouble.told(OpKind::Read, block, count);
        for (number, at, count) in parts(block, count, self.table.blocks) {
            let (part, behind) = rest.split_at_mut(count as usize * BLOCK_SIZE);
            match self.table.find(number).map_err(fail)? {
                None => part.fill(0),
                Some(chunk) => chunk.read_bytes(at, part).map_err(|errno| fail(errno.into()))?,
            }
            rest = behind;
        }
        Ok(())
    }

    fn write(&self, block: u64, pages: Vec<PageBuf>, fua: bool) -> Result<(), IoError> {
        let pages: Vec<PageBuf> = pages.into_iter().map(PageBuf::expanded).collect();
        let (mut rest, mut touched) = (pages.as_slice(), Vec::new());
        for (number, at, count) in parts(block, pages.len() as u64, self.table.blocks) {
            let (part, after) = rest.split_at(count as usize);
            rest = after;
            let written = self.table.write(number, at, part);
            touched.push(written.map_err(|trouble| trouble.told(OpKind::Write, block, pages.len() as u64))?);
        }
        if fua {
            // A sync that fails says as much of earlier writes as a flush that fails.
            return self.table.sync(&touched).map_err(|trouble| trouble.told(OpKind::Flush, 0, 0));
        }
        Ok(())
    }

    fn discard(&self, block: u64, count: u64) -> Result<(), Trouble> {
        let size = self.table.blocks;
        // A discard of all that there may be must not look for each chunk.
        let (first, last) = (block / size, (block + count - 1) / size);
        for number in self.table.known(first..=last) {
            let start = (number * size).max(block);
            let end = ((number + 1) * size).min(block + count);
            let from = number * size;
            self.table.discard(number, start - from..end - from)?;
        }
        Ok(())
    }

    fn held_from(&self, block: u64, blocks: u64) -> Result<Option<Range<u64>>, Trouble> {
        let size = self.table.blocks;
        let first = block / size;
        // Mostly it is near, and the directory need not be read.
        let near = self.table.find(first)?.map(|chunk| chunk.held_from(block % size)).transpose()?.flatten();
        if let Some(held) = near {
            let start = first * size;
            return Ok(Some(start + held.start..(start + held.end).min(blocks)).filter(|held| !held.is_empty()));
        }
        for number in self.table.numbers()?.into_iter().filter(|number| *number > first) {
            let Some(chunk) = self.table.find(number)? else { continue };
            if let Some(held) = chunk.held_from(0)? {
                let start = number * size;
                return Ok(Some(start + held.start..(start + held.end).min(blocks)).filter(|held| !held.is_empty()));
            }
        }
        Ok(None)
    }
}

impl Perform for Chunks {
    fn perform(&self, op: Op) -> IoResult {
        let (kind, (block, count)) = (op.kind(), op.range());
        let fail = |trouble: Trouble| trouble.told(kind, block, count);
        match op {
            Op::Read { .. } => self.read(block, count),
            Op::Write { pages, fua, .. } => self.write(block, pages, fua).map(|()| Vec::new()),
            Op::Flush => self.table.sync_all().map(|()| Vec::new()).map_err(fail),
            Op::Discard { .. } if count == 0 => Ok(Vec::new()),
            Op::Discard { .. } => self.discard(block, count).map(|()| Vec::new()).map_err(fail),
            Op::ZoneReset { .. } | Op::ZoneFinish { .. } => Err(op.error(errno::EOPNOTSUPP)),
        }
    }
}

impl Device for ChunkDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        let valid = self.info.accept(batch);
        match &self.pool {
            Some(pool) => pool.submit(valid),
            None => valid.into_iter().for_each(|Request { op, done }| done(self.chunks.perform(op))),
        }
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        let fail = |trouble: Trouble| trouble.told(OpKind::Held, block, 0);
        self.chunks.held_from(block, self.info.blocks).map_err(fail)
    }

    fn run(&self, op: Op) -> IoResult {
        if self.info.check(&op).is_err() {
            return submit_and_wait(self, op);
        }
        self.chunks.perform(op)
    }

    fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        assert!(bytes.len().is_multiple_of(BLOCK_SIZE), "{} bytes are not whole blocks", bytes.len());
        self.info.check(&Op::Read { block, count: (bytes.len() / BLOCK_SIZE) as u64 })?;
        self.chunks.read_bytes(block, bytes)
    }
}

#[cfg(test)]
mod tests;
