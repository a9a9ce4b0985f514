//! Rings of the threads that wait: who has several operations to wait for starts them with one system call, and is
//! woken when they have ended, by no other thread of ours.
//!
//! A ring is in one thread's hands at a time, and goes back to those that are idle. What a write that is to be durable
//! costs is one wait, too: the kernel has it made durable by the write itself, or by a flush right behind it.
//!
//! Keeps true: memory given to the kernel stays alive and unmoved until its completion, also if this thread panics in
//! between; a short, interrupted or cancelled transfer is finished with system calls.
#![allow(unsafe_code)] // the kernel reads and writes our memory behind the compiler's back

use super::raw::RawFile;
use super::uring::{Job, MAX_PAGES};
use crate::device::IoResult;
use crate::{Op, OpKind, Request};
use io_uring::IoUring;
use rustix::io::Errno;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{LockClass, Mutex, sleep};

/// Operations of one system call.
const ENTRIES: usize = 8;
/// Rings that are kept. Each costs the kernel two pages.
const MOST_IDLE: usize = 64;

/// Guards the idle rings; held to take one or to put one back.
static IDLE: LockClass = LockClass::new("device.hands", u16::MAX - 2);

/// The rings of one file.
pub(super) struct Hands {
    raw: Arc<RawFile>,
    idle: Mutex<Vec<Hand>>,
}

impl Hands {
    /// Sets up the first ring.
    pub(super) fn start(raw: &Arc<RawFile>) -> io::Result<Self> {
        let first = Hand::new(raw)?;
        Ok(Hands { raw: Arc::clone(raw), idle: Mutex::new(&IDLE, vec![first]) })
    }

    /// Does operations whose ranges were checked, all at the same time; their results in their order.
    pub(super) fn run(&self, ops: Vec<Op>) -> Vec<IoResult> {
        let fits = ops.len() <= ENTRIES && ops.iter().all(|op| op.range().1 <= MAX_PAGES as u64);
        let all_have_entries = ops.iter().all(|op| matches!(op, Op::Read { .. } | Op::Write { .. } | Op::Flush));
        let hand = if fits && all_have_entries { self.take() } else { None };
        let Some(mut hand) = hand else {
            return ops.into_iter().map(|op| self.raw.perform(op)).collect();
        };
        let jobs: Vec<Job> = ops.into_iter().map(|op| Job::new(Request::new(op, |_| {}))).collect();
        // Not dropped by a panic: the kernel may be at work on them.
        let jobs = ManuallyDrop::new(jobs);
        let results = hand.run(&jobs, &self.raw);
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(hand);
        }
        drop(idle);
        let jobs = ManuallyDrop::into_inner(jobs);
        jobs.into_iter().zip(results).map(|(job, result)| self.outcome(job, result)).collect()
    }

    fn take(&self) -> Option<Hand> {
        let idle = self.idle.lock().pop();
        idle.or_else(|| Hand::new(&self.raw).ok())
    }

    fn outcome(&self, mut job: Job, result: i32) -> IoResult {
        let outcome = job.outcome(&self.raw, result);
        match outcome {
            // Of a write that was to be durable the kernel does not say which failed, it or the flush: what takes the
            // write now has failed to flush.
            Err(error) if error.op == OpKind::Flush && job.is_write() => job.write_again(&self.raw).and(Err(error)),
            outcome => outcome,
        }
    }
}

/// One ring.
struct Hand(IoUring);

impl Hand {
    fn new(raw: &RawFile) -> io::Result<Self> {
        let ring = IoUring::builder().build(ENTRIES as u32)?;
        ring.submitter().register_files(&[raw.file().as_raw_fd()])?;
        Ok(Hand(ring))
    }

    /// Has the kernel do these, and waits for all of them.
    fn run(&mut self, jobs: &[Job], raw: &RawFile) -> Vec<i32> {
        for (number, job) in jobs.iter().enumerate() {
            // SAFETY: the caller keeps the jobs, and with them the memory, until this returns, and for ever if this
            // panics.
            let pushed = unsafe { self.0.submission().push(&job.entry(raw).user_data(number as u64)) };
            assert!(pushed.is_ok(), "a ring that is idle has room for {} operations", jobs.len());
        }
        let mut results: Vec<Option<i32>> = vec![None; jobs.len()];
        loop {
            let missing = results.iter().filter(|result| result.is_none()).count();
            if missing == 0 {
                return results.into_iter().flatten().collect();
            }
            if let Err(error) = self.0.submit_and_wait(missing) {
                match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => sleep(Duration::from_millis(1)),
                    _ => panic!("io_uring refuses a valid submission: {error}"),
                }
            }
            for entry in self.0.completion() {
                let earlier = results[entry.user_data() as usize].replace(entry.result());
                assert!(earlier.is_none(), "an operation ended twice");
            }
        }
    }
}

impl Drop for Hand {
    /// The kernel takes a ring apart in the background; without this it would hold on to the file for a while.
    fn drop(&mut self) {
        // If this fails the file is released later: nothing to do about it, and nobody to tell.
        let _ = self.0.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK_SIZE, PageBuf, StreamHint};

    fn raw(blocks: u64) -> Arc<RawFile> {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(blocks * BLOCK_SIZE as u64).expect("grows");
        let file = super::super::locked::Locked::lock("a file".as_ref(), file, false).expect("locks");
        Arc::new(RawFile::new(file, 0, false, false))
    }

    fn write(block: u64, seed: u8, fua: bool) -> Op {
        let pages = vec![PageBuf::synthetic([seed; 16]), PageBuf::synthetic([seed + 1; 16])];
        Op::Write { block, pages, hint: StreamHint::DataWarm, fua }
    }

    #[test]
    fn what_is_done_together_ends_in_its_order_and_the_ring_is_used_again() {
        let raw = raw(64);
        let Ok(hands) = Hands::start(&raw) else { return };
        for round in 0..5u8 {
            let writes = vec![write(2, round, false), write(8, round + 10, true), Op::Flush];
            assert_eq!(hands.run(writes), vec![Ok(vec![]), Ok(vec![]), Ok(vec![])]);
            let read = hands.run(vec![Op::Read { block: 8, count: 2 }, Op::Read { block: 2, count: 1 }]);
            let page = |seed: u8| PageBuf::synthetic([seed; 16]);
            assert_eq!(read, vec![Ok(vec![page(round + 10), page(round + 11)]), Ok(vec![page(round)])]);
            assert_eq!(hands.idle.lock().len(), 1);
        }
    }

    #[test]
    fn more_than_a_ring_takes_is_done_all_the_same() {
        let raw = raw(64);
        let Ok(hands) = Hands::start(&raw) else { return };
        let many = (0..20).map(|n| write(n * 2, n as u8, n % 2 == 0)).collect();
        assert!(hands.run(many).iter().all(Result::is_ok));
        assert_eq!(raw.perform(Op::Read { block: 38, count: 1 }), Ok(vec![PageBuf::synthetic([19; 16])]));
    }

    #[test]
    fn a_durable_write_that_failed_says_which_of_the_two_it_was() {
        let raw = raw(64);
        let Ok(hands) = Hands::start(&raw) else { return };
        let job = || Job::new(Request::new(write(4, 1, true), |_| {}));
        let error = hands.outcome(job(), -Errno::IO.raw_os_error()).expect_err("it failed");
        assert_eq!((error.op, error.block), (OpKind::Flush, 4), "the write is taken now");
        let closed = RawFile::new(
            super::super::locked::Locked::lock(
                "a file".as_ref(),
                std::fs::File::open("/dev/null").expect("opens"),
                false,
            )
            .expect("locks"),
            0,
            false,
            false,
        );
        let hands = Hands { raw: Arc::new(closed), idle: Mutex::new(&IDLE, Vec::new()) };
        let error = hands.outcome(job(), -Errno::IO.raw_os_error()).expect_err("it failed");
        assert_eq!((error.op, error.block), (OpKind::Write, 4), "the file takes no writes");
    }
}
