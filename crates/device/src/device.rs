//! The [`Device`] trait: what a block device promises to the file system.
//!
//! Blocks are 4 KiB and numbered from 0. Requests are submitted in batches and complete in any order, each by calling
//! its `done` exactly once, possibly before `submit` returns and possibly on another thread.
//!
//! - A write that completed may still be lost, whole or in part and in any order with others, until a flush makes it
//!   durable: a flush covers everything that completed before the flush was submitted, and nothing else.
//! - A write with `fua` is durable itself when it completes.
//! - A write of several blocks is not atomic; a block may be torn at 512-byte pieces.
//! - Requests in flight together that touch the same block have no order among them.
//! - A discarded block reads as anything until it is written again.
//! - Errors are values; a failed write leaves its blocks undefined.
//!
//! Completions must not block on further I/O of the same device; they may submit it.

use crate::{BLOCK_SIZE, IoError, Migrations, OpKind, PageBuf, errno};
use std::ops::Range;
use steadyfs_rt::Completion;

/// Expected lifetime and kind of what is written, for devices that keep streams apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamHint {
    /// File data that is overwritten soon.
    DataHot,
    /// Ordinary file data.
    DataWarm,
    /// File data that stays.
    DataCold,
    /// Node blocks that are overwritten soon.
    NodeHot,
    /// Ordinary node blocks.
    NodeWarm,
    /// Node blocks that stay.
    NodeCold,
    /// Checkpoints and other areas that are overwritten soon.
    MetaHot,
    /// Ordinary file system areas.
    MetaWarm,
    /// File system areas that stay, such as the superblock.
    MetaCold,
}

/// What a request asks for. Zones are named by their first block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Read `count` blocks from `block` on; completes with that many pages.
    Read {
        /// First block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// Write `pages` from `block` on.
    Write {
        /// First block.
        block: u64,
        /// One page per block.
        pages: Vec<PageBuf>,
        /// Expected lifetime.
        hint: StreamHint,
        /// Durable when complete. An error of the kind [`OpKind::Flush`] says that it was taken and could not be made
        /// durable, which tells as much of earlier writes as a flush that fails.
        fua: bool,
    },
    /// Make every write that has completed durable. An error of another kind than [`OpKind::Flush`] says that nothing
    /// is lost, and another flush may make it durable; any other, that nobody knows which writes are lost.
    Flush,
    /// The contents of these blocks are no longer needed.
    Discard {
        /// First block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// Empty the zone that starts at `block` and set its write pointer back.
    ZoneReset {
        /// First block of the zone.
        block: u64,
    },
    /// Move the write pointer of the zone that starts at `block` to its end.
    ZoneFinish {
        /// First block of the zone.
        block: u64,
    },
}

impl Op {
    /// The kind of operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Read { .. } => OpKind::Read,
            Op::Write { .. } => OpKind::Write,
            Op::Flush => OpKind::Flush,
            Op::Discard { .. } => OpKind::Discard,
            Op::ZoneReset { .. } => OpKind::ZoneReset,
            Op::ZoneFinish { .. } => OpKind::ZoneFinish,
        }
    }

    /// First block and number of blocks; (0, 0) for a flush. A zone operation names one block, its zone's first.
    pub fn range(&self) -> (u64, u64) {
        match self {
            Op::Read { block, count } | Op::Discard { block, count } => (*block, *count),
            Op::Write { block, pages, .. } => (*block, pages.len() as u64),
            Op::Flush => (0, 0),
            Op::ZoneReset { block } | Op::ZoneFinish { block } => (*block, 1),
        }
    }

    /// True for operations that a read-only device refuses.
    pub fn changes(&self) -> bool {
        !matches!(self, Op::Read { .. } | Op::Flush)
    }

    /// The error of this operation for `errno`.
    pub fn error(&self, errno: i32) -> IoError {
        let (block, count) = self.range();
        IoError::from_errno(self.kind(), block, count, errno)
    }
}

/// What a request ends with: the pages of a read, an empty vector for everything else.
pub type IoResult = Result<Vec<PageBuf>, IoError>;

/// Called exactly once when a request has ended.
pub type Done = Box<dyn FnOnce(IoResult) + Send>;

/// One operation and what to do when it has ended.
pub struct Request {
    /// The operation that is asked for.
    pub op: Op,
    /// Called with the result.
    pub done: Done,
}

impl Request {
    /// A request that calls `done` with its result.
    pub fn new(op: Op, done: impl FnOnce(IoResult) + Send + 'static) -> Self {
        Request { op, done: Box::new(done) }
    }

    /// Ends the request with the error of its operation for `errno`.
    pub fn fail(self, errno: i32) {
        let error = self.op.error(errno);
        (self.done)(Err(error));
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("op", &self.op).finish_non_exhaustive()
    }
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number of 4 KiB blocks.
    pub blocks: u64,
    /// Writes, discards and zone operations are refused with EROFS.
    pub read_only: bool,
    /// Discards do something.
    pub discard: bool,
    /// Every request has ended when `submit` returns.
    pub synchronous: bool,
    /// A write with `fua` takes less than the same write and a flush behind it, and [`Device::run_all`] less than one
    /// operation after the other.
    pub prefers_fua: bool,
    /// The name for messages: a path, or what the device is.
    pub name: String,
}

impl DeviceInfo {
    /// The checks that every device makes first: the range lies on the device, and a read-only device is not changed.
    ///
    /// # Errors
    /// EINVAL, EROFS.
    pub fn check(&self, op: &Op) -> Result<(), IoError> {
        let (block, count) = op.range();
        if block.checked_add(count).is_none_or(|end| end > self.blocks)
            && !steadyfs_rt::mutated("requests-lie-within-the-device")
        {
            let cause = format!("beyond the end of {} ({} blocks)", self.name, self.blocks);
            return Err(IoError::new(op.kind(), block, count, errno::EINVAL, cause));
        }
        if self.read_only && op.changes() && !steadyfs_rt::mutated("who-only-reads-changes-nothing") {
            let cause = format!("{} is opened read-only", self.name);
            return Err(IoError::new(op.kind(), block, count, errno::EROFS, cause));
        }
        Ok(())
    }

    /// The requests of a batch that pass [`DeviceInfo::check`]; the others end here, with their errors.
    pub fn accept(&self, batch: Vec<Request>) -> Vec<Request> {
        let checked = batch.into_iter().map(|request| (self.check(&request.op), request));
        checked
            .filter_map(|(checked, request)| match checked {
                Ok(()) => Some(request),
                Err(error) => {
                    (request.done)(Err(error));
                    None
                }
            })
            .collect()
    }
}

/// How a zoned device is divided. Zones are of one size and lie side by side from block 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneGeometry {
    /// Distance from zone to zone, in blocks.
    pub size: u64,
    /// Blocks of a zone that can be written, at most `size`.
    pub capacity: u64,
    /// Number of zones.
    pub zones: u64,
    /// How many of the first zones take writes anywhere (conventional zones).
    pub conventional: u64,
    /// How many zones may be open at once; 0 for no limit.
    pub max_open: u32,
    /// How many may be open or closed, that is partly written; 0 for no limit.
    pub max_active: u32,
}

/// The state of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// First block.
    pub start: u64,
    /// Next block to write; `start` if empty, `start + capacity` if full.
    pub write_pointer: u64,
    /// Its state.
    pub state: ZoneState,
}

/// What a zone is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneState {
    /// Takes writes anywhere; has no write pointer.
    Conventional,
    /// Nothing written.
    Empty,
    /// Takes writes at its write pointer.
    Open,
    /// Partly written, and to be opened again by the next write.
    Closed,
    /// Takes no more writes.
    Full,
    /// Readable only.
    ReadOnly,
    /// Lost.
    Offline,
}

/// A block device. See the head of the module for what it promises.
pub trait Device: Send + Sync {
    /// What the device is. Does not change while it is open.
    fn info(&self) -> DeviceInfo;

    /// Starts all requests of the batch.
    fn submit(&self, batch: Vec<Request>);

    /// How the device is divided into zones; `None` if it is not.
    fn zones(&self) -> Option<ZoneGeometry> {
        None
    }

    /// The state of `count` zones from zone number `first` on.
    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        Err(IoError::new(OpKind::ZoneReport, first, count, errno::EOPNOTSUPP, "the device has no zones"))
    }

    /// The first run of blocks from `block` on that the device keeps something for; `None` if there is none. Blocks in
    /// no run read as zeros. Discarded blocks are in no run, unless the device gives room back in larger pieces only,
    /// or has them read as something. Neighbouring runs may touch.
    ///
    /// # Errors
    /// EOPNOTSUPP of a device that cannot tell; what the system says.
    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        Err(IoError::new(OpKind::Held, block, 0, errno::EOPNOTSUPP, "the device does not tell what it holds"))
    }

    /// The part of the device that moves pages by itself, if it does.
    fn migrations(&self) -> Option<&dyn Migrations> {
        None
    }

    /// Submits one operation and waits for its end.
    fn run(&self, op: Op) -> IoResult {
        submit_and_wait(self, op)
    }

    /// Does operations at the same time, and waits until all of them have ended; their results in their order.
    fn run_all(&self, ops: Vec<Op>) -> Vec<IoResult> {
        submit_all_and_wait(self, ops)
    }

    /// Reads `count` blocks from `block` on and waits.
    fn read(&self, block: u64, count: u64) -> Result<Vec<PageBuf>, IoError> {
        let pages = self.run(Op::Read { block, count })?;
        assert_eq!(pages.len() as u64, count, "a read returns the pages that were asked for");
        Ok(pages)
    }

    /// Reads blocks from `block` on into these pages and waits: for who reads one run after the other, and needs no
    /// new memory for each. After an error the pages hold anything.
    fn read_into(&self, block: u64, pages: &mut [PageBuf]) -> Result<(), IoError> {
        let read = self.read(block, pages.len() as u64)?;
        pages.iter_mut().zip(read).for_each(|(page, read)| *page = read);
        Ok(())
    }

    /// Reads blocks from `block` on into the caller's memory and waits: for who passes the bytes on. After an error it
    /// holds anything.
    ///
    /// # Panics
    /// If it is not whole blocks.
    fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        read_and_copy(self, block, bytes)
    }

    /// Reads one block and waits.
    fn read_one(&self, block: u64) -> Result<PageBuf, IoError> {
        let pages = self.read(block, 1)?;
        pages.into_iter().next().ok_or_else(|| IoError::from_errno(OpKind::Read, block, 1, errno::EIO))
    }

    /// Writes `pages` from `block` on and waits; durable only after a [`Device::flush`].
    fn write(&self, block: u64, pages: Vec<PageBuf>) -> Result<(), IoError> {
        self.run(Op::Write { block, pages, hint: StreamHint::DataWarm, fua: false }).map(drop)
    }

    /// Makes every completed write durable and waits.
    fn flush(&self) -> Result<(), IoError> {
        self.run(Op::Flush).map(drop)
    }

    /// Discards `count` blocks from `block` on and waits.
    fn discard(&self, block: u64, count: u64) -> Result<(), IoError> {
        self.run(Op::Discard { block, count }).map(drop)
    }
}

impl<D: Device + ?Sized> Device for std::sync::Arc<D> {
    fn info(&self) -> DeviceInfo {
        (**self).info()
    }
    fn submit(&self, batch: Vec<Request>) {
        (**self).submit(batch);
    }
    fn zones(&self) -> Option<ZoneGeometry> {
        (**self).zones()
    }
    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        (**self).zone_report(first, count)
    }
    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        (**self).held_from(block)
    }
    fn migrations(&self) -> Option<&dyn Migrations> {
        (**self).migrations()
    }
    fn run(&self, op: Op) -> IoResult {
        (**self).run(op)
    }
    fn run_all(&self, ops: Vec<Op>) -> Vec<IoResult> {
        (**self).run_all(ops)
    }
    fn read_into(&self, block: u64, pages: &mut [PageBuf]) -> Result<(), IoError> {
        (**self).read_into(block, pages)
    }
    fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        (**self).read_bytes(block, bytes)
    }
}

/// Reads pages, and copies them to where the caller wants them.
pub(crate) fn read_and_copy<D: Device + ?Sized>(device: &D, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
    assert!(bytes.len().is_multiple_of(BLOCK_SIZE), "{} bytes are not whole blocks", bytes.len());
    let pages = device.read(block, (bytes.len() / BLOCK_SIZE) as u64)?;
    bytes.chunks_exact_mut(BLOCK_SIZE).zip(pages).for_each(|(target, page)| page.copy_out(0, target));
    Ok(())
}

/// Submits one operation and waits for its end.
pub(crate) fn submit_and_wait<D: Device + ?Sized>(device: &D, op: Op) -> IoResult {
    let completion = Completion::new();
    let waiter = completion.clone();
    device.submit(vec![Request::new(op, move |result| completion.complete(result))]);
    waiter.wait()
}

/// Submits operations and waits until all have ended.
pub(crate) fn submit_all_and_wait<D: Device + ?Sized>(device: &D, ops: Vec<Op>) -> Vec<IoResult> {
    let ends: Vec<Completion<IoResult>> = ops.iter().map(|_| Completion::new()).collect();
    let requests = ops.into_iter().zip(&ends).map(|(op, end)| {
        let end = end.clone();
        Request::new(op, move |result| end.complete(result))
    });
    device.submit(requests.collect());
    ends.iter().map(Completion::wait).collect()
}
