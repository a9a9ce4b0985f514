//! A device that ends requests late and in another order: what is submitted together is in flight together, and a flush
//! covers only what had ended before it. A file system that does not wait where it must is found out by it, which a
//! device that ends every request at once hides.
//!
//! It may refuse writes, too, once it has been told to begin: a file system finds out late that it has to write again.
//!
//! There is no order at all, as NVMe has it. The controller does not look at the blocks of outstanding commands. So of
//! a read and a write of one block either may end first (NVM Express Base Specification, "Command Ordering
//! Requirements"). A read that overtakes a write finds the contents from before.
//!
//! Kept true: every request ends. Two changes of one block are never under way together, for nobody knows which of them
//! would be there in the end. A caller that asks for that panics.

use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, DeviceInfo, IoError, MemDevice, Op, Request, errno};
use steadyfs_rt::{Condvar, JoinHandle, LockClass, Mutex};

/// Held to decide about one write.
static REFUSALS: LockClass = LockClass::new("crash.refusals", u16::MAX - 3);

/// Held to add or take a request, under whatever locks the submitter holds.
static WAITING: LockClass = LockClass::new("crash.late", u16::MAX - 4);

/// How long requests gather before one of them ends.
const DELAY: Duration = Duration::from_micros(30);

#[derive(Default)]
struct Waiting {
    requests: Vec<Request>,
    /// One has been taken out and has not ended.
    busy: bool,
    stopping: bool,
}

/// One write in this many is refused.
const REFUSED: u64 = 40;

struct Shared {
    inner: MemDevice,
    /// Decides which writes are refused; none before it is told to begin.
    refusals: Mutex<Option<Rng>>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// The device. See the head of the module.
pub(crate) struct LateDevice {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

impl LateDevice {
    /// Ends requests on `inner` in an order that the seed decides; with no seed, at once and in order.
    pub(crate) fn new(inner: MemDevice, seed: Option<u64>) -> Self {
        let shared = Arc::new(Shared {
            inner,
            refusals: Mutex::new(&REFUSALS, None),
            waiting: Mutex::new(&WAITING, Waiting::default()),
            changed: Condvar::new(),
        });
        let worker = seed.map(|seed| {
            let shared = Arc::clone(&shared);
            steadyfs_rt::spawn("crash-device", move || work(&shared, &mut Rng::new(seed)))
        });
        LateDevice { shared, worker }
    }

    /// From now on refuses writes, those that the seed decides.
    pub(crate) fn begin_refusing(&self, seed: u64) {
        *self.shared.refusals.lock() = Some(Rng::new(seed));
    }

    /// A copy of what the device holds once nothing is in flight any more.
    pub(crate) fn settled(&self) -> MemDevice {
        let mut waiting = self.shared.waiting.lock();
        while !waiting.requests.is_empty() || waiting.busy {
            self.shared.changed.wait(&mut waiting);
        }
        self.shared.inner.fork()
    }
}

impl Shared {
    /// Does what is asked, or refuses it.
    fn end(&self, batch: Vec<Request>) {
        for request in batch {
            let (kind, (block, count)) = (request.op.kind(), request.op.range());
            let refused = matches!(request.op, Op::Write { .. })
                && self.refusals.lock().as_mut().is_some_and(|rng| rng.below(REFUSED) == 0);
            match refused {
                true => (request.done)(Err(IoError::from_errno(kind, block, count, errno::EIO))),
                false => self.inner.submit(vec![request]),
            }
        }
    }
}

impl Device for LateDevice {
    fn info(&self) -> DeviceInfo {
        let is_late = self.worker.is_some();
        DeviceInfo { synchronous: !is_late, prefers_fua: is_late, ..self.shared.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        if self.worker.is_none() {
            return self.shared.end(batch);
        }
        let mut waiting = self.shared.waiting.lock();
        for request in batch {
            let same = waiting.requests.iter().find(|other| are_changes_of_one_block(&request.op, &other.op));
            let at = same.map(|other| other.op.range());
            assert_eq!(at, None, "{:?} while another change of it is under way", request.op.range());
            waiting.requests.push(request);
        }
        drop(waiting);
        self.shared.changed.notify_all();
    }
}

impl Drop for LateDevice {
    fn drop(&mut self) {
        self.shared.waiting.lock().stopping = true;
        self.shared.changed.notify_all();
        // The last reference may be dropped by a completion, in the worker itself.
        if let Some(worker) = self.worker.take().filter(|worker| !worker.is_current()) {
            drop(worker.join());
        }
    }
}

fn work(shared: &Shared, rng: &mut Rng) {
    loop {
        let mut waiting = shared.waiting.lock();
        while waiting.requests.is_empty() {
            if waiting.stopping {
                return;
            }
            shared.changed.wait(&mut waiting);
        }
        drop(waiting);
        steadyfs_rt::sleep(DELAY);
        let mut waiting = shared.waiting.lock();
        let at = rng.below(waiting.requests.len() as u64) as usize;
        let request = waiting.requests.remove(at);
        waiting.busy = true;
        drop(waiting);
        shared.end(vec![request]);
        shared.waiting.lock().busy = false;
        shared.changed.notify_all();
    }
}

fn are_changes_of_one_block(a: &Op, b: &Op) -> bool {
    let ((x, m), (y, n)) = (a.range(), b.range());
    a.changes() && b.changes() && x < y + n && y < x + m
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use steadyfs_device::{PageBuf, StreamHint};

    fn write(block: u64, byte: u8, done: impl FnOnce() + Send + 'static) -> Request {
        let op = Op::Write { block, pages: vec![PageBuf::from_slice(&[byte])], hint: StreamHint::DataWarm, fua: false };
        Request::new(op, move |_| done())
    }

    #[test]
    fn every_request_ends_and_the_seed_says_when() {
        let device = LateDevice::new(MemDevice::new(64), Some(5));
        let (ended, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
        let mut batch = Vec::new();
        for number in 0..30u8 {
            let (ended, order) = (Arc::clone(&ended), Arc::clone(&order));
            batch.push(write(u64::from(number), number, move || {
                ended.fetch_add(1, SeqCst);
                order.lock().expect("not poisoned").push(number);
            }));
        }
        device.submit(batch);
        let copy = device.settled();
        assert_eq!(ended.load(SeqCst), 30);
        let first: Vec<u8> = (0..30).map(|block| copy.read_one(block).expect("in range").to_array()[0]).collect();
        assert_eq!(first, (0..30).collect::<Vec<u8>>());
        assert!(!order.lock().expect("not poisoned").is_sorted(), "nothing was reordered");
    }

    #[test]
    fn of_a_read_and_a_write_of_one_block_either_may_end_first() {
        let mut seen = [[0; 2]; 2];
        for (seed, read_first) in (0..40).flat_map(|seed| [(seed, false), (seed, true)]) {
            let device = LateDevice::new(MemDevice::new(64), Some(seed));
            let found = Arc::new(AtomicUsize::new(9));
            let note = Arc::clone(&found);
            let read = Request::new(Op::Read { block: 6, count: 3 }, move |pages| {
                note.store(usize::from(pages.expect("in range")[1].to_array()[0]), SeqCst);
            });
            let mut batch = vec![read, write(7, 1, || ())];
            batch.rotate_left(usize::from(!read_first));
            device.submit(batch);
            assert_eq!(device.settled().read_one(7).expect("in range").to_array()[0], 1);
            seen[usize::from(read_first)][found.load(SeqCst)] += 1;
        }
        assert!(seen.iter().flatten().all(|times| *times > 0), "old and new contents: {seen:?}");
    }

    #[test]
    #[should_panic(expected = "(8, 1) while another change of it is under way")]
    fn two_writes_of_one_block_are_not_to_be_under_way_together() {
        let device = LateDevice::new(MemDevice::new(64), Some(1));
        let pages = vec![PageBuf::zeroed(), PageBuf::zeroed()];
        let both = Op::Write { block: 7, pages, hint: StreamHint::DataWarm, fua: false };
        device.submit(vec![Request::new(both, |_| ()), write(9, 1, || ()), write(8, 2, || ())]);
    }
}
