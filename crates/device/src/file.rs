//! [`FileDevice`]: a regular file or a block device of the operating system.
//!
//! This file opens: it finds out what the path is, takes the locks that keep two processes from writing one image
//! (`locked`), finds the size, and chooses the engine that moves the data. `raw` does single operations with system
//! calls; the engines carry requests to it.
//!
//! Keeps true: while a device is open for writing nobody else opens it through this crate, by whatever path or loop
//! device. Nobody mounts it either, if it is a block device. The lock ends when the last request has ended and the
//! device is dropped.

mod hand;
pub(crate) mod locked;
pub(crate) mod open;
pub(crate) mod raw;
pub(crate) mod threads;
mod uring;
mod zones;

use crate::device::{IoResult, read_and_copy, submit_all_and_wait, submit_and_wait};
use crate::{
    BLOCK_SIZE, Device, DeviceInfo, IoError, Op, OpKind, OpenError, PageBuf, Request, Zone, ZoneGeometry, errno,
};
use hand::Hands;
use raw::RawFile;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threads::ThreadPool;
use uring::Uring;
use zones::InZones;

/// Whether I/O bypasses the page cache of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direct {
    /// For block devices where that works; regular files go through the cache.
    #[default]
    Auto,
    /// Yes; opening fails where that is not possible.
    On,
    /// No.
    Off,
}

/// How requests reach the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Inline for files in memory, io_uring for direct I/O, threads for files that go through the page cache.
    ///
    /// Measured on two cores, io_uring does twice what threads do on a loop device with direct I/O. Where requests end
    /// in the page cache it does half of that of threads, since the kernel hands them to threads of its own. A file in
    /// memory is fastest without either.
    #[default]
    Auto,
    /// io_uring; falls back to threads if the kernel refuses it.
    Uring,
    /// A pool of threads with system calls.
    Threads,
    /// System calls in the thread that submits.
    Inline,
}

/// How to open a [`FileDevice`]. The default opens for reading and writing, all of the file, choosing everything else
/// itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Refuse every change, and share the device with other readers.
    pub read_only: bool,
    /// With `read_only`: open it also while somebody else writes to it, and lock nothing. Blocks may change between two
    /// reads.
    pub despite_writers: bool,
    /// Where block 0 starts, in bytes.
    pub offset_bytes: u64,
    /// Size of the device in bytes, instead of all that follows the offset. A regular file may be shorter: what is
    /// missing reads as zeros, and writes extend it. A block device may not.
    pub size: Option<u64>,
    /// If there is no file, make a sparse one of this many bytes, which only its owner may read. An existing one is
    /// opened as it is. No file is made through a symlink.
    pub create: Option<u64>,
    /// With `create`: refuse a path that is there already.
    pub only_new: bool,
    /// Only check that a block device is not mounted, and leave it free to be mounted from then on: for the server of a
    /// mount, which the kernel lists as a mount of this very device. Others that open it through this crate are kept
    /// out all the same.
    pub leave_mountable: bool,
    /// A block device may be mounted: for the server of that mount, which opens it again.
    pub own_mount: bool,
    /// How long to wait for a process that has the path open: a process that was just told to stop may still be
    /// writing, and one that was killed holds its files until the kernel has cleaned up after it.
    pub patience: Duration,
    /// Whether to bypass the page cache.
    pub direct: Direct,
    /// How requests reach the operating system.
    pub engine: Engine,
}

/// A regular file or block device.
pub struct FileDevice {
    info: DeviceInfo,
    raw: Arc<RawFile>,
    carrier: Carrier,
    /// An operation that its caller waits for is done in the caller's thread: handing it over and back costs more than
    /// most take.
    at_once: bool,
    /// For several operations that their caller waits for.
    hands: Option<Hands>,
}

/// The engine at work.
enum Carrier {
    Uring(Uring),
    Threads(ThreadPool<RawFile>),
    /// A pool of threads, which keeps the order of each zone.
    Zones(InZones<RawFile>),
    Inline,
}

impl FileDevice {
    /// Opens and locks `path`.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let open::Opened { mut info, raw, direct, zones } = open::open(path, &options)?;
        let raw = Arc::new(raw);
        let carrier = match (zones, options.engine) {
            // No other engine keeps the order of writes.
            (Some(zones), _) => {
                let system = |source| OpenError::System { path: path.to_owned(), source };
                Carrier::Zones(InZones::start(&raw, zones).map_err(system)?)
            }
            (None, engine) => Carrier::new(engine, &raw, direct),
        };
        info.synchronous = matches!(carrier, Carrier::Inline);
        // An engine that is named does everything.
        let at_once = options.engine == Engine::Auto && zones.is_none();
        let has_ring = at_once && matches!(carrier, Carrier::Uring(_));
        let hands = if has_ring { Hands::start(&raw).ok() } else { None };
        // A write of a file that is durable when it ends costs the sync of the file, with a system call or with two.
        info.prefers_fua = hands.is_some() && raw.is_block_device();
        Ok(FileDevice { info, raw, carrier, at_once, hands })
    }

    /// The engine that was chosen; never [`Engine::Auto`].
    pub fn engine(&self) -> Engine {
        match self.carrier {
            Carrier::Uring(_) => Engine::Uring,
            Carrier::Threads(_) | Carrier::Zones(_) => Engine::Threads,
            Carrier::Inline => Engine::Inline,
        }
    }
}

impl Carrier {
    fn new(engine: Engine, raw: &Arc<RawFile>, direct: bool) -> Self {
        match engine {
            Engine::Auto if raw.is_in_memory() => Carrier::Inline,
            Engine::Auto if direct => Carrier::uring_or_threads(raw),
            Engine::Uring => Carrier::uring_or_threads(raw),
            Engine::Auto | Engine::Threads => Carrier::threads_or_inline(raw),
            Engine::Inline => Carrier::Inline,
        }
    }

    fn uring_or_threads(raw: &Arc<RawFile>) -> Self {
        Uring::start(raw).map_or_else(|_| Self::threads_or_inline(raw), Carrier::Uring)
    }

    /// Threads, or no engine at all where the system gives no thread: slower, and still right.
    fn threads_or_inline(raw: &Arc<RawFile>) -> Self {
        ThreadPool::start(raw).map_or(Carrier::Inline, Carrier::Threads)
    }
}

impl Device for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        let valid = self.info.accept(batch);
        match &self.carrier {
            Carrier::Uring(uring) => uring.submit(valid),
            Carrier::Threads(pool) => pool.submit(valid),
            Carrier::Zones(zones) => zones.submit(valid),
            Carrier::Inline => valid.into_iter().for_each(|Request { op, done }| done(self.raw.perform(op))),
        }
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        match &self.carrier {
            Carrier::Zones(zones) => Some(zones.geometry()),
            _ => None,
        }
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        match &self.carrier {
            Carrier::Zones(zones) => zones.report(first, count),
            _ => Err(IoError::from_errno(OpKind::ZoneReport, first, count, errno::EOPNOTSUPP)),
        }
    }

    fn held_from(&self, block: u64) -> Result<Option<Range<u64>>, IoError> {
        self.raw.held_from(block, self.info.blocks)
    }

    fn run(&self, op: Op) -> IoResult {
        if !self.at_once {
            return submit_and_wait(self, op);
        }
        self.info.check(&op)?;
        match &self.hands {
            Some(hands) if self.info.prefers_fua && matches!(op, Op::Write { fua: true, .. }) => {
                hands.run(vec![op]).pop().unwrap_or_else(|| Ok(Vec::new()))
            }
            _ => self.raw.perform(op),
        }
    }

    fn run_all(&self, ops: Vec<Op>) -> Vec<IoResult> {
        match &self.hands {
            Some(hands) if ops.iter().all(|op| self.info.check(op).is_ok()) => hands.run(ops),
            _ => submit_all_and_wait(self, ops),
        }
    }

    fn read_into(&self, block: u64, pages: &mut [PageBuf]) -> Result<(), IoError> {
        let op = Op::Read { block, count: pages.len() as u64 };
        if !self.at_once {
            let read = submit_and_wait(self, op)?;
            pages.iter_mut().zip(read).for_each(|(page, read)| *page = read);
            return Ok(());
        }
        self.info.check(&op)?;
        self.raw.read_rest(block, pages, 0)
    }

    fn read_bytes(&self, block: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        // Direct I/O takes memory that is aligned.
        if !self.at_once || !bytes.as_ptr().addr().is_multiple_of(BLOCK_SIZE) {
            return read_and_copy(self, block, bytes);
        }
        assert!(bytes.len().is_multiple_of(BLOCK_SIZE), "{} bytes are not whole blocks", bytes.len());
        self.info.check(&Op::Read { block, count: (bytes.len() / BLOCK_SIZE) as u64 })?;
        self.raw.read_bytes(block, bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests;
