//! FUSE over io_uring: the kernel's queues, one for each processor, and the lanes that serve them.
//!
//! A request is served on the processor where it was made, so it wakes no other: that is the gain. The kernel starts
//! its queues when each *possible* processor has an entry. It gives a request to the entry that was given back last, so
//! spare lanes sleep.
//!
//! Kept true: everything that can fail is there before the kernel is told that rings come. A queue is known to have an
//! idle lane, or its last lane has been counted busy (the crew adds one where nothing gets done).
//!
//! `/dev/fuse` stays: what the kernel asks to forget and to interrupt comes there, and what it is told goes there.

mod lane;
mod raw;

use crate::options::Uring;
use lane::RingLane;
use std::fs::read_to_string;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use steadyfs_rt::{LockClass, Mutex};

static SPARE: LockClass = LockClass::new("fuse_ring_mutex", 94);

/// Where root switches it on, for mounts from then on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Lanes of a queue at the start: while one is busy with something that takes long, another serves what is short.
const LANES: usize = 2;

/// How requests get here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Through `/dev/fuse`.
    Device(WhyDevice),
    /// Through io_uring.
    Ring,
}

/// Why requests come through `/dev/fuse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyDevice {
    /// The options say so.
    Asked,
    /// The kernel is older than Linux 6.14, or was built without.
    Unknown,
    /// Root has not switched it on.
    SwitchedOff,
    /// This process may not use it, or has not enough threads or memory.
    Refused,
}

impl Transport {
    /// Its name, as in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Device(_) => "/dev/fuse",
            Transport::Ring => "io_uring",
        }
    }

    /// How root makes the next mount faster, if that would help.
    pub fn hint(self) -> Option<String> {
        (self == Transport::Device(WhyDevice::SwitchedOff)).then(|| format!("`echo Y > {SWITCH}`"))
    }
}

/// One of the kernel's queues.
struct Queue {
    /// Lanes that wait for a request.
    idle: AtomicUsize,
    /// Requests handled.
    handled: AtomicU64,
}

/// The queues of one mount.
pub(crate) struct Rings {
    fuse: Arc<OwnedFd>,
    queues: Box<[Queue]>,
    /// Lanes that nobody serves yet, and their queues.
    spare: Mutex<Vec<(usize, RingLane)>>,
    /// A lane has brought a request: the kernel's queues have started.
    has_started: AtomicBool,
    /// The kernel did not take a lane before they had started: it goes on with `/dev/fuse`.
    has_failed: AtomicBool,
}

/// Processors that the kernel counts as possible, of a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let of = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (last.parse::<usize>().ok()? + 1).checked_sub(first.parse().ok()?)
    };
    list.trim().split(',').map(of).sum()
}

impl Rings {
    /// Makes a ring for each queue of the kernel's, if there are queues, and the options want them; `most` is how many
    /// threads there may be. The mount is not told yet.
    pub(crate) fn prepare(fuse: &Arc<OwnedFd>, wish: Uring, most: usize) -> Result<Self, WhyDevice> {
        if wish == Uring::Off {
            return Err(WhyDevice::Asked);
        }
        let switch = read_to_string(SWITCH).map_err(|_| WhyDevice::Unknown)?;
        if switch.trim() != "Y" {
            return Err(WhyDevice::SwitchedOff);
        }
        let queues = read_to_string("/sys/devices/system/cpu/possible").ok().and_then(|list| count(&list));
        let queues = queues.filter(|queues| (1..most).contains(queues)).ok_or(WhyDevice::Refused)?;
        let each = LANES.min(most / queues);
        let lanes = (0..each * queues).map(|n| Ok((n % queues, Self::lane(fuse, n % queues)?)));
        let spare = lanes.collect::<io::Result<Vec<_>>>().map_err(|error| {
            tracing::debug!("no io_uring: {error}");
            WhyDevice::Refused
        })?;
        Ok(Rings {
            fuse: Arc::clone(fuse),
            queues: (0..queues).map(|_| Queue { idle: AtomicUsize::new(0), handled: AtomicU64::new(0) }).collect(),
            spare: Mutex::new(&SPARE, spare),
            has_started: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Queues that the kernel knows nothing of, and no lanes.
    #[cfg(test)]
    pub(super) fn of_nobody(fuse: &Arc<OwnedFd>, queues: usize) -> Self {
        Rings {
            fuse: Arc::clone(fuse),
            queues: (0..queues).map(|_| Queue { idle: AtomicUsize::new(0), handled: AtomicU64::new(0) }).collect(),
            spare: Mutex::new(&SPARE, Vec::new()),
            has_started: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    fn lane(fuse: &Arc<OwnedFd>, queue: usize) -> io::Result<RingLane> {
        let number = u16::try_from(queue).map_err(|_| io::ErrorKind::Unsupported)?;
        RingLane::new(Arc::clone(fuse), number)
    }

    /// The lanes that each queue begins with, once.
    pub(super) fn take_spare(&self) -> Vec<(usize, RingLane)> {
        std::mem::take(&mut *self.spare.lock())
    }

    /// One more lane of a queue.
    ///
    /// # Errors
    /// If the system gives no ring.
    pub(super) fn new_lane(&self, queue: usize) -> io::Result<RingLane> {
        Self::lane(&self.fuse, queue)
    }

    /// A lane of the queue is about to wait.
    pub(super) fn begin_wait(&self, queue: usize) {
        self.queues[queue].idle.fetch_add(1, SeqCst);
    }

    /// It has waited; whether none of the queue waits any more.
    pub(super) fn end_wait(&self, queue: usize) -> bool {
        self.queues[queue].idle.fetch_sub(1, SeqCst) == 1
    }

    /// A request of the queue is done.
    pub(super) fn done(&self, queue: usize) {
        self.queues[queue].handled.fetch_add(1, SeqCst);
        if !self.has_started.load(SeqCst) {
            self.has_started.store(true, SeqCst);
        }
    }

    /// Queues of which no lane waits.
    pub(super) fn busy(&self) -> Vec<usize> {
        let is_busy = |queue: &Queue| queue.idle.load(SeqCst) == 0;
        (0..).zip(&self.queues).filter(|(_, queue)| is_busy(queue)).map(|(number, _)| number).collect()
    }

    /// Requests handled, by queue.
    pub(super) fn handled(&self) -> Vec<u64> {
        self.queues.iter().map(|queue| queue.handled.load(SeqCst)).collect()
    }

    /// A lane broke. True: it was not even taken, and the kernel goes on with `/dev/fuse`.
    pub(super) fn fail_unless_started(&self) -> bool {
        if !self.has_started.load(SeqCst) {
            self.has_failed.store(true, SeqCst);
        }
        self.has_failed()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, processors) in [("0\n", Some(1)), ("0-1\n", Some(2)), ("0-3,8,10-11", Some(7))] {
            assert_eq!(count(list), processors, "{list}");
        }
        for list in ["", "x", "3-1", "0-", "-1"] {
            assert_eq!(count(list), None, "{list}");
        }
    }
}
