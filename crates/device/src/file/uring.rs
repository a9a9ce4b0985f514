//! The engine of a file device on io_uring: any thread submits, one thread (the reaper) takes completions.
//!
//! A request of at most [`MAX_PAGES`] pages becomes one entry of the submission queue; larger ones are cut before. A
//! slot keeps the memory that the kernel works on until its completion arrives. Jobs that find no free slot wait in a
//! backlog from which the reaper starts them. So a submitter never waits for completions (it may be the reaper).
//!
//! Keeps true:
//! - Memory given to the kernel stays alive and unmoved until its completion.
//! - The number of entries in flight never exceeds the number of slots, so neither queue overflows.
//! - The reaper finishes a short, interrupted or cancelled transfer with system calls. The kernel cancels queued work
//!   of a thread that exits.
#![allow(unsafe_code)] // the kernel reads and writes our memory behind the compiler's back

use super::raw::RawFile;
use crate::{BLOCK_SIZE, IoError, IoResult, Op, OpKind, PageBuf, Request, StreamHint};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{JoinHandle, LockClass, Mutex, sleep, try_spawn_vital};

/// Entries in flight at most.
const SLOTS: u32 = 256;
/// Pages per entry at most: as many buffers as the kernel takes in one call.
pub(super) const MAX_PAGES: usize = 1024;
/// Mark of the entry that only wakes the reaper.
const WAKE: u64 = u64::MAX;
/// The device's file, registered with the ring under this number.
const FILE: types::Fixed = types::Fixed(0);

/// Guards the submission queue and the slots. Submitting is a system call under it, which does not wait for I/O.
static RING: LockClass = LockClass::new("device.uring", u16::MAX - 2);
/// Parts of a cut request, put together under it.
static PARTS: LockClass = LockClass::new("device.uring_parts", u16::MAX - 2);

/// The engine.
pub(super) struct Uring {
    shared: Arc<Shared>,
    reaper: Option<JoinHandle<()>>,
}

struct Shared {
    ring: IoUring,
    raw: Arc<RawFile>,
    state: Mutex<State>,
}

struct State {
    slots: Vec<Option<Job>>,
    free: Vec<u32>,
    backlog: VecDeque<Job>,
    closing: bool,
}

impl Uring {
    /// Sets up the ring; fails where the kernel does not have it, forbids it, or lacks an operation we need.
    pub(super) fn start(raw: &Arc<RawFile>) -> io::Result<Self> {
        let ring = IoUring::builder().setup_cqsize(2 * SLOTS).build(SLOTS)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Readv::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
            opcode::Nop::CODE,
        ];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        ring.submitter().register_files(&[raw.file().as_raw_fd()])?;
        let slots = (0..SLOTS).map(|_| None).collect();
        let state = State { slots, free: (0..SLOTS).rev().collect(), backlog: VecDeque::new(), closing: false };
        let shared = Arc::new(Shared { ring, raw: Arc::clone(raw), state: Mutex::new(&RING, state) });
        let reaper = Arc::clone(&shared);
        let reaper = try_spawn_vital("device-uring", move || reaper.reap())?;
        Ok(Uring { shared, reaper: Some(reaper) })
    }

    /// Starts requests whose ranges were checked.
    pub(super) fn submit(&self, batch: Vec<Request>) {
        let (mut jobs, mut direct) = (VecDeque::new(), Vec::new());
        for request in batch {
            match &request.op {
                Op::Discard { .. } if self.shared.raw.is_block_device() => direct.push(request),
                Op::ZoneReset { .. } | Op::ZoneFinish { .. } => direct.push(request),
                _ => jobs.extend(cut(request).into_iter().map(Job::new)),
            }
        }
        if !jobs.is_empty() {
            let mut state = self.shared.state.lock();
            state.backlog.append(&mut jobs);
            self.shared.start_backlog(&mut state);
        }
        for Request { op, done } in direct {
            done(self.shared.raw.perform(op)); // what io_uring has no entry for
        }
    }
}

impl Drop for Uring {
    /// Waits until every request has ended, unless a completion drops the device: the reaper cannot wait for itself.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closing = true;
        self.shared.push(&opcode::Nop::new().build().user_data(WAKE));
        self.shared.enter();
        drop(state);
        if let Some(reaper) = self.reaper.take().filter(|reaper| !reaper.is_current()) {
            // A panic in a completion ends the process, so there is none to hear of.
            let _ = reaper.join();
        }
    }
}

impl Drop for Shared {
    /// The kernel takes a ring apart in the background; without this it would hold on to the file for a while after we
    /// closed it.
    fn drop(&mut self) {
        // If this fails the file is released later: nothing to do about it, and nobody to tell.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl Shared {
    /// Moves jobs from the backlog to free slots and tells the kernel.
    fn start_backlog(&self, state: &mut State) {
        let mut started = false;
        while let Some(slot) = state.free.pop() {
            let Some(job) = state.backlog.pop_front() else {
                state.free.push(slot);
                break;
            };
            let place = &mut state.slots[slot as usize];
            assert!(place.is_none(), "a free slot is empty");
            let job = place.insert(job);
            self.push(&job.entry(&self.raw).user_data(u64::from(slot)));
            started = true;
        }
        if started {
            self.enter();
        }
    }

    /// Puts one entry on the submission queue. The caller holds the state lock.
    fn push(&self, entry: &squeue::Entry) {
        // SAFETY: the state lock makes this the only submission queue in use; the entry's memory is kept alive by its
        // slot.
        let pushed = unsafe { self.ring.submission_shared().push(entry) };
        if pushed.is_err() {
            self.enter(); // every slot and the wake-up in one batch
            // SAFETY: as above.
            let pushed = unsafe { self.ring.submission_shared().push(entry) };
            assert!(pushed.is_ok(), "a submitted queue has room");
        }
    }

    /// Gives the submission queue to the kernel. Short of memory the kernel refuses for a moment; entries stay queued
    /// meanwhile.
    fn enter(&self) {
        while let Err(error) = self.ring.submitter().submit() {
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => sleep(Duration::from_millis(1)),
                _ => panic!("io_uring refuses a valid submission: {error}"),
            }
        }
    }

    /// The reaper: waits for completions, frees their slots, starts what waited, and finishes the requests.
    fn reap(&self) {
        let mut finished = Vec::new();
        loop {
            self.wait();
            // SAFETY: only the reaper looks at the completion queue.
            let completions: Vec<(u64, i32)> =
                unsafe { self.ring.completion_shared() }.map(|entry| (entry.user_data(), entry.result())).collect();
            let mut state = self.state.lock();
            for (slot, result) in completions.into_iter().filter(|&(slot, _)| slot != WAKE) {
                let job = state.slots[slot as usize].take();
                assert!(job.is_some(), "every completion belongs to a job in flight");
                state.free.push(slot as u32);
                finished.extend(job.map(|job| (job, result)));
            }
            self.start_backlog(&mut state);
            let idle = state.closing && state.backlog.is_empty() && state.free.len() == SLOTS as usize;
            drop(state);
            for (job, result) in finished.drain(..) {
                job.finish(&self.raw, result);
            }
            if idle {
                return;
            }
        }
    }

    /// Waits until the completion queue has an entry.
    fn wait(&self) {
        const GETEVENTS: u32 = 1;
        // SAFETY: no argument is passed; nothing is submitted by this call.
        while let Err(error) = unsafe { self.ring.submitter().enter::<()>(0, 1, GETEVENTS, None) } {
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => sleep(Duration::from_millis(1)),
                _ => panic!("io_uring refuses to wait: {error}"),
            }
        }
    }
}

/// One buffer for the kernel, in the layout of `struct iovec`.
#[repr(C)]
struct Buffer {
    base: *mut u8,
    len: usize,
}

/// A request in flight, with the memory that the kernel uses.
pub(super) struct Job {
    op: JobOp,
    block: u64,
    /// Pages being filled by a read, or held for a write.
    pages: Vec<PageBuf>,
    buffers: Vec<Buffer>,
    request: Request,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JobOp {
    Read,
    Write { fua: bool },
    Flush,
    Discard { count: u64 },
}

// SAFETY: the buffers point into pages that the job owns references to; they are dereferenced by the kernel alone.
unsafe impl Send for Job {}

impl Job {
    pub(super) fn new(mut request: Request) -> Self {
        let (block, count) = request.op.range();
        let (op, mut pages) = match &mut request.op {
            Op::Read { .. } => (JobOp::Read, (0..count).map(|_| PageBuf::stale()).collect()),
            Op::Write { pages, fua, .. } => {
                let pages: Vec<_> = std::mem::take(pages).into_iter().map(PageBuf::expanded).collect();
                (JobOp::Write { fua: *fua }, pages)
            }
            Op::Discard { .. } => (JobOp::Discard { count }, Vec::new()),
            Op::Flush | Op::ZoneReset { .. } | Op::ZoneFinish { .. } => (JobOp::Flush, Vec::new()),
        };
        let buffers = buffers(&mut pages, op == JobOp::Read);
        Job { op, block, pages, buffers, request }
    }

    /// The entry that asks the kernel for this job.
    pub(super) fn entry(&self, raw: &RawFile) -> squeue::Entry {
        const DSYNC: i32 = 2; // RWF_DSYNC
        let position = raw.position(self.block);
        let count = self.buffers.len() as u32;
        let flags = if self.op == (JobOp::Write { fua: true }) { DSYNC } else { 0 };
        match (self.op, self.buffers.as_slice()) {
            (JobOp::Read, [one]) => opcode::Read::new(FILE, one.base, one.len as u32).offset(position).build(),
            (JobOp::Read, all) => opcode::Readv::new(FILE, all.as_ptr().cast(), count).offset(position).build(),
            (JobOp::Write { .. }, [one]) => {
                opcode::Write::new(FILE, one.base, one.len as u32).offset(position).rw_flags(flags).build()
            }
            (JobOp::Write { .. }, all) => {
                opcode::Writev::new(FILE, all.as_ptr().cast(), count).offset(position).rw_flags(flags).build()
            }
            (JobOp::Flush, _) => opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build(),
            (JobOp::Discard { count }, _) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let bytes = count * BLOCK_SIZE as u64;
                opcode::Fallocate::new(FILE, bytes).offset(position).mode(hole.bits().cast_signed()).build()
            }
        }
    }

    /// Ends the request after the kernel said `result`: bytes moved, or a negated error number.
    fn finish(mut self, raw: &RawFile, result: i32) {
        self.buffers.clear();
        let outcome = self.outcome(raw, result);
        (self.request.done)(outcome);
    }

    /// Whether it is a write.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.op, JobOp::Write { .. })
    }

    /// Does a write by system calls, not durably.
    pub(super) fn write_again(&self, raw: &RawFile) -> IoResult {
        raw.write_rest(self.block, &self.pages, 0, false).map(|()| Vec::new())
    }

    /// What the request ends with after the kernel said `result`; what it left to do is done here.
    pub(super) fn outcome(&mut self, raw: &RawFile, result: i32) -> IoResult {
        let moved = usize::try_from(result).unwrap_or(0);
        let (kind, count) = match self.op {
            JobOp::Read => (OpKind::Read, self.pages.len() as u64),
            JobOp::Write { .. } => (OpKind::Write, self.pages.len() as u64),
            JobOp::Flush => (OpKind::Flush, 0),
            JobOp::Discard { count } => (OpKind::Discard, count),
        };
        if result < 0 && !is_transient(self.op, -result) {
            // Which of the two failed, write or sync, the kernel does not say.
            let kind = if self.op == (JobOp::Write { fua: true }) { OpKind::Flush } else { kind };
            return Err(IoError::from_errno(kind, self.block, count, -result));
        }
        match self.op {
            JobOp::Read => {
                raw.read_rest(self.block, &mut self.pages, moved)?;
                Ok(std::mem::take(&mut self.pages))
            }
            // All of it was written, and made durable if it was to be.
            JobOp::Write { .. } if moved == self.pages.len() * BLOCK_SIZE => Ok(Vec::new()),
            JobOp::Write { fua } => raw.write_rest(self.block, &self.pages, moved, fua).map(|()| Vec::new()),
            _ if result >= 0 => Ok(Vec::new()),
            JobOp::Flush => raw.perform(Op::Flush),
            JobOp::Discard { count } => raw.perform(Op::Discard { block: self.block, count }),
        }
    }
}

/// Errors after which the same operation is tried by a system call: it was interrupted, or the ring could not do it
/// this way.
fn is_transient(op: JobOp, errno: i32) -> bool {
    let errno = Errno::from_raw_os_error(errno);
    matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED)
        || (op == JobOp::Write { fua: true } && matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// The memory of `pages` as buffers, neighbours joined. For a read the pages are new and nobody else refers to them.
fn buffers(pages: &mut [PageBuf], for_read: bool) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> = Vec::with_capacity(pages.len());
    for page in pages {
        let base = match for_read {
            true => page.make_mut().as_mut_ptr(),
            false => {
                page.bytes().map(|bytes| bytes.as_ptr().cast_mut()).unwrap_or_else(|| page.make_mut().as_mut_ptr())
            }
        };
        match buffers.last_mut() {
            Some(last) if last.base.wrapping_add(last.len) == base => last.len += BLOCK_SIZE,
            _ => buffers.push(Buffer { base, len: BLOCK_SIZE }),
        }
    }
    buffers
}

/// The request itself, or parts of at most [`MAX_PAGES`] pages whose results are put together again.
fn cut(request: Request) -> Vec<Request> {
    let (start, count) = request.op.range();
    let whole = matches!(request.op, Op::Discard { .. } | Op::Flush);
    if whole || count <= MAX_PAGES as u64 {
        return vec![request];
    }
    let parts = count.div_ceil(MAX_PAGES as u64);
    let joint = Arc::new(Mutex::new(
        &PARTS,
        Joint {
            missing: parts,
            results: (0..parts).map(|_| Vec::new()).collect(),
            error: None,
            done: Some(request.done),
        },
    ));
    let (mut pages, hint, fua) = match request.op {
        Op::Write { pages, hint, fua, .. } => (Some(pages.into_iter()), hint, fua),
        _ => (None, StreamHint::DataWarm, false),
    };
    let part_request = |part: u64| {
        let block = start + part * MAX_PAGES as u64;
        let count = (start + count - block).min(MAX_PAGES as u64);
        let op = match &mut pages {
            Some(pages) => Op::Write { block, pages: pages.take(count as usize).collect(), hint, fua },
            None => Op::Read { block, count },
        };
        let joint = Arc::clone(&joint);
        Request::new(op, move |result| Joint::add(&joint, part, result))
    };
    (0..parts).map(part_request).collect()
}

/// A cut request: the results of its parts so far.
struct Joint {
    missing: u64,
    results: Vec<Vec<PageBuf>>,
    error: Option<IoError>,
    done: Option<crate::Done>,
}

impl Joint {
    /// Adds the result of one part; the last one ends the request, with the error of a part if there was one.
    fn add(joint: &Mutex<Joint>, part: u64, result: IoResult) {
        let mut all = joint.lock();
        assert!(all.missing > 0, "a part ends once");
        all.missing -= 1;
        match result {
            Ok(pages) => all.results[part as usize] = pages,
            Err(error) => all.error = Some(error),
        }
        if all.missing > 0 {
            return;
        }
        let (done, error) = (all.done.take(), all.error.take());
        let pages = std::mem::take(&mut all.results);
        drop(all);
        if let Some(done) = done {
            done(error.map_or_else(|| Ok(pages.into_iter().flatten().collect()), Err));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> RawFile {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8 * BLOCK_SIZE as u64).expect("grows");
        let file = super::super::locked::Locked::lock("a file".as_ref(), file, false).expect("locks");
        RawFile::new(file, 0, false, false)
    }

    fn pattern() -> Vec<PageBuf> {
        (1..=3u8).map(|seed| PageBuf::synthetic([seed; 16])).collect()
    }

    fn write_job(fua: bool) -> Job {
        let op = Op::Write { block: 2, pages: pattern(), hint: StreamHint::DataWarm, fua };
        Job::new(Request::new(op, |_| {}))
    }

    #[test]
    fn short_and_cancelled_writes_are_finished() {
        for result in [0, 100, 4096, 5000, 12287, -Errno::CANCELED.raw_os_error(), -Errno::INTR.raw_os_error()] {
            let raw = raw();
            // What the kernel had written before it stopped.
            let bytes: Vec<u8> = pattern().iter().flat_map(|page| page.to_array().to_vec()).collect();
            let moved = usize::try_from(result).unwrap_or(0);
            std::os::unix::fs::FileExt::write_all_at(raw.file(), &bytes[..moved], 2 * 4096).expect("writes");
            assert_eq!(write_job(moved == 100).outcome(&raw, result), Ok(vec![]));
            let all = raw.perform(Op::Read { block: 0, count: 8 }).expect("in range");
            assert_eq!(all[2..5], pattern());
            assert!(all[..2].iter().chain(&all[5..]).all(|page| *page == PageBuf::zeroed()));
        }
    }

    #[test]
    fn short_and_cancelled_reads_are_finished() {
        for result in [0, 100, 4096, 5000, 12287, -Errno::CANCELED.raw_os_error(), -Errno::AGAIN.raw_os_error()] {
            let raw = raw();
            assert_eq!(write_job(false).outcome(&raw, 0), Ok(vec![]));
            let mut job = Job::new(Request::new(Op::Read { block: 2, count: 3 }, |_| {}));
            let moved = usize::try_from(result).unwrap_or(0);
            for (at, page) in job.pages.iter_mut().enumerate() {
                let there = moved.saturating_sub(at * BLOCK_SIZE).min(BLOCK_SIZE);
                let bytes = page.make_mut();
                bytes.fill(0xee);
                pattern()[at].copy_out(0, &mut bytes[..there]);
            }
            assert_eq!(job.outcome(&raw, result), Ok(pattern()));
        }
    }

    #[test]
    fn what_the_kernel_has_made_durable_is_not_synced_again() {
        let moved = 3 * BLOCK_SIZE as i32;
        // Which takes writes, and no sync.
        let pipe = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").expect("opens");
        let file = super::super::locked::Locked::lock("a file".as_ref(), pipe, false).expect("locks");
        let raw = RawFile::new(file, 0, false, false);
        assert!(raw.perform(Op::Flush).is_err(), "a sync would be noticed");
        assert_eq!(write_job(true).outcome(&raw, moved), Ok(vec![]));
    }

    #[test]
    fn errors_name_the_request_and_unsupported_fua_is_tried_by_hand() {
        let raw = raw();
        let error = write_job(false).outcome(&raw, -Errno::NOSPC.raw_os_error()).expect_err("full");
        assert_eq!((error.op, error.block, error.count, error.errno()), (OpKind::Write, 2, 3, crate::errno::ENOSPC));
        assert_eq!(write_job(true).outcome(&raw, -Errno::OPNOTSUPP.raw_os_error()), Ok(vec![]));
        assert_eq!(raw.perform(Op::Read { block: 2, count: 3 }), Ok(pattern()));
    }
}
