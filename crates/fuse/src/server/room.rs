//! Cached writes and the room for them.
//!
//! With write-back the kernel takes a write(2) into its cache without asking, and hears later that there is no room: by
//! then the program has written more. Two things keep that short. While files grow, the kernel may hold no more than
//! half of what is free ([`Room`]). And a file that lost contents for want of room is asked about before each write.
//! The kernel forgets the inode's attributes, so it asks for them before it takes the next write into its cache. That
//! request names the open file, and its error is the error of the write.
//!
//! A request that takes room at once, such as an allocation or a direct write, could take it from what the kernel
//! holds, whoever wrote that. So where less would be left than the kernel holds, it writes back first.
//!
//! When the last writer has closed, the size that only the kernel knew is gone with the kernel's inode.

use super::dirty::{DirtyPages, SINCE};
use super::{Answer, Call, node_of};
use crate::options::Cache;
use crate::wire::Notice;
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::{Instant, LockClass, Mutex, now};

static CHANGE: LockClass = LockClass::new("fuse_room_mutex", 5);

/// Bytes that the kernel may always hold: with less it would hardly gather anything.
const LEAST: u64 = 8 << 20;
/// Blocks that have to be free before a file that lost contents takes more.
const ENOUGH: u64 = 64;

/// Where no write took room for so long, and no file was opened for writing, pages are overwritten in the files that
/// are open. The kernel may then hold as much as of any file system: pages that are written again and again reach the
/// server once. The first write that takes room ends it, and so does a program that opens a file to write.
const OVERWRITING: Duration = Duration::from_secs(1);

/// More than any kernel holds.
const NO_LIMIT: u64 = u64::MAX;

/// Sets how many bytes that no request has brought yet the kernel may hold.
pub(crate) type Limit = Box<dyn Fn(u64) + Send + Sync>;

/// How much the kernel may hold: follows the free space, in powers of two, while files grow.
pub(super) struct Room {
    limit: OnceLock<Limit>,
    allowed: AtomicU64,
    /// Most that it was allowed since it last wrote back all: it keeps what it has when it is allowed less.
    held: AtomicU64,
    dirty: DirtyPages,
    growth: Growth,
    /// One change at a time, so that the last one counts.
    change: Mutex<()>,
}

impl Room {
    pub(super) fn new() -> Self {
        Room {
            limit: OnceLock::new(),
            allowed: AtomicU64::new(NO_LIMIT),
            held: AtomicU64::new(NO_LIMIT),
            dirty: DirtyPages::new(),
            growth: Growth::new(),
            change: Mutex::new(&CHANGE, ()),
        }
    }

    /// From now on `limit` is called when the free space has changed much. Once only.
    pub(super) fn limit_by(&self, limit: Limit, fs: &Fs) {
        let set = self.limit.set(limit);
        assert!(set.is_ok(), "a mount has one limit");
        self.look(fs);
    }

    /// The limit that the kernel was told last.
    #[cfg(test)]
    pub(super) fn allowed(&self) -> u64 {
        self.allowed.load(SeqCst)
    }

    /// To be called before a program gets a file to write.
    pub(super) fn expect_growth(&self, fs: &Fs) {
        self.growth.expect(now());
        self.look(fs);
    }

    /// To be called after writes.
    pub(super) fn look(&self, fs: &Fs) {
        let Some(limit) = self.limit.get() else {
            return;
        };
        if self.due(fs).is_some() {
            let _one_at_a_time = self.change.lock();
            if let Some(bytes) = self.due(fs) {
                limit(bytes);
                self.allowed.store(bytes, SeqCst);
                self.held.fetch_max(bytes, SeqCst);
            }
        }
    }

    /// Whether the kernel may hold more than would be left once a request has taken `bytes`.
    pub(super) fn is_short_after(&self, fs: &Fs, bytes: u64) -> bool {
        self.expect_growth(fs);
        let left = left_after(fs, bytes);
        // It may hold what it was allowed, and holds no more than the host has to write, of whatever file system.
        left < self.held.load(SeqCst) && left < self.dirty.bytes().map_or(NO_LIMIT, |bytes| bytes + LEAST)
    }

    /// As [`Room::is_short_after`], cheaper: true also where the kernel would have to be asked how much it holds.
    pub(super) fn may_be_short_after(&self, fs: &Fs, bytes: u64) -> bool {
        let left = left_after(fs, bytes);
        left < self.held.load(SeqCst) && self.dirty.lately().is_none_or(|bytes| left < bytes + LEAST + SINCE)
    }

    /// The kernel has written back all that it held.
    pub(super) fn note_written_back(&self) {
        self.held.store(self.allowed.load(SeqCst), SeqCst);
    }

    /// How much it may hold, if that is not what it was told. It grows late, so that it does not change with every
    /// file.
    fn due(&self, fs: &Fs) -> Option<u64> {
        let stat = fs.statfs();
        let half = stat.blocks_available() * u64::from(stat.block_size)
            / if steadyfs_rt::mutated("the-kernel-holds-half-of-the-room") { 1 } else { 2 };
        let bytes = match self.growth.has_ended(stat.blocks_free, now()) {
            true => NO_LIMIT,
            false => half.checked_ilog2().map_or(LEAST, |log| LEAST.max(1 << log)),
        };
        let allowed = self.allowed.load(SeqCst);
        (bytes < allowed || bytes / 4 >= allowed).then_some(bytes)
    }
}

/// Bytes that are left to everybody when `bytes` are taken.
fn left_after(fs: &Fs, bytes: u64) -> u64 {
    let stat = fs.statfs();
    (stat.blocks_available() * u64::from(stat.block_size)).saturating_sub(bytes)
}

/// Whether files grow.
struct Growth {
    /// Free blocks when last looked at.
    free: AtomicU64,
    /// When files grew last, in nanoseconds.
    at: AtomicU64,
}

impl Growth {
    fn new() -> Self {
        Growth { free: AtomicU64::new(u64::MAX), at: AtomicU64::new(now().as_nanos()) }
    }

    fn expect(&self, now: Instant) {
        self.at.store(now.as_nanos(), SeqCst);
    }

    /// Takes notice of the `free` blocks of now.
    fn has_ended(&self, free: u64, now: Instant) -> bool {
        if free < self.free.swap(free, SeqCst) {
            self.expect(now);
        }
        now.saturating_since(Instant::from_nanos(self.at.load(SeqCst))) >= OVERWRITING
    }
}

impl Call<'_> {
    /// The kernel wrote back `range` of an inode in vain.
    pub(super) fn lose(&mut self, ino: u32, range: std::ops::Range<u64>, why: Errno) {
        self.server.nodes.lose(ino, range, why);
        self.reply.then(Notice::ForgetAttributes { node: self.header.nodeid });
    }

    /// Why an inode takes no more cached writes, if it does not: it lost contents, and would lose more.
    fn refuses(&self, ino: u32, entitled: bool) -> Option<Errno> {
        if self.server.policy.cache != Cache::Writeback {
            return None;
        }
        let why = self.server.nodes.lost(ino)?;
        let is_full = || match self.fs.statfs() {
            stat if entitled => stat.blocks_free < ENOUGH,
            stat => stat.blocks_available() < ENOUGH,
        };
        (why == Errno::ROFS || why == Errno::NOSPC && is_full() && !steadyfs_rt::mutated("a-full-file-takes-no-more"))
            .then_some(why)
    }

    /// Whether the kernel may take another write of an open file into its cache.
    pub(super) fn admit_write(&self, ino: u32, fh: u64) -> Answer {
        let entitled = self.server.handles.is_entitled(fh);
        match self.refuses(ino, entitled) {
            // A file that was deleted just now makes room.
            Some(Errno::NOSPC) => self.with_space(|| match self.refuses(ino, entitled) {
                Some(_) => Err(steadyfs_core::Error::NoSpace),
                None => Ok(()),
            }),
            Some(why) => Err(why.into()),
            None => Ok(()),
        }
    }

    /// The reply to a GETATTR brings attributes: the kernel must not go by them if writes are to be refused. It takes
    /// none into its inode that it asked for before it had to forget what it knew.
    pub(super) fn ask_again_now(&self, ino: u32) {
        if self.refuses(ino, false).is_some() {
            self.kernel.forget_attributes(self.header.nodeid);
        }
    }

    /// The same for other replies. Their requester may not hold the kernel's inode, which would be waited for if it is
    /// just going.
    pub(super) fn ask_again(&mut self, ino: u32) {
        if self.refuses(ino, false).is_some() {
            self.reply.then(Notice::ForgetAttributes { node: u64::from(ino) });
        }
    }

    /// A file open for writing was closed. If it was the last one, and contents were lost, what lies behind the end
    /// that the file system knows is no longer awaited: the kernel drops its inode, and with it the size that it
    /// counted.
    pub(super) fn fall_back(&mut self, ino: u32) -> Answer {
        let nodes = &self.server.nodes;
        if nodes.lost(ino).is_none() || nodes.has_writers(ino) {
            return Ok(());
        }
        let inode = self.this()?;
        nodes.end_at(ino, self.fs.attr(&inode)?.size);
        let (parent, name) = self.fs.name_hint(&inode)?;
        self.reply.then(Notice::ForgetName { parent: node_of(parent), name });
        Ok(())
    }
}

const _: () = assert!(LEAST > 2 * ENOUGH * BLOCK_SIZE as u64, "the kernel gathers more than is kept free");
