//! Collection in the gaps between requests, so that those who come next find room (`gc.idle`).
//!
//! When nothing has been asked of the volume for a while, collectors make as much room as the last bursts of requests
//! have used. A checkpoint then frees it. The first request that comes ends that, after the victim that is being
//! cleaned. Programs that write in bursts then wait for no collection, and share the device with none.
//!
//! Kept true: while the volume is busy nothing here costs more than looking at a clock; when all is done, nobody wakes
//! up until a request comes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{EventCount, now};

/// The state of requests, and of the gap between them.
pub(super) struct Gaps {
    /// How long nothing must have been asked for.
    quiet: Duration,
    /// When the last request came, in nanoseconds of the clock, to a quarter of `quiet`.
    last: AtomicU64,
    /// Free sections above what writers need that collectors are to make in this gap; 0 if it is none.
    goal: AtomicU64,
    /// Somebody is to be woken by the next request.
    sleeping: AtomicBool,
    stop: AtomicBool,
    wake: EventCount,
}

/// Sections of the volume at one moment.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    /// Free ones, and those that the next checkpoint frees.
    pub(super) to_come: u64,
    /// Those that collection has emptied since the mount.
    pub(super) emptied: u64,
}

/// What the watcher remembers from gap to gap.
#[derive(Default)]
struct Seen {
    /// Sections that were free, and those that collection had emptied since the mount, when the last gap ended.
    free: u64,
    emptied: u64,
    /// What a burst uses.
    demand: u64,
}

impl Gaps {
    /// Gaps are what has been quiet for so long.
    pub(super) fn new(quiet: Duration) -> Self {
        Gaps {
            quiet,
            last: AtomicU64::new(0),
            goal: AtomicU64::new(0),
            sleeping: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake: EventCount::new(),
        }
    }

    /// Something is asked of the volume.
    pub(super) fn note_request(&self) {
        let (at, step) = (now().as_nanos(), self.quiet.as_nanos() as u64 / 4);
        // Many ask at the same time: a line of memory that all write to would be what they wait for.
        if at.saturating_sub(self.last.load(SeqCst)) > step {
            self.last.store(at, SeqCst);
        }
        if self.goal.load(SeqCst) != 0 {
            self.goal.store(0, SeqCst);
        }
        if self.sleeping.load(SeqCst) && self.sleeping.swap(false, SeqCst) {
            self.wake.notify_all();
        }
    }

    /// How many free sections above what writers need are to be made while this gap lasts; 0 if there is none.
    pub(super) fn goal(&self) -> u64 {
        self.goal.load(SeqCst)
    }

    /// Ends the watcher.
    pub(super) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_all();
    }

    /// Watches for gaps until it is stopped or the volume is gone, which has no levels then; calls `collect` when there
    /// is room to be made in one, beyond the `usual` level.
    pub(super) fn watch(&self, usual: u64, levels: impl Fn() -> Option<Levels>, collect: impl Fn()) {
        let mut seen = Seen::default();
        loop {
            let key = self.wake.listen();
            if self.stop.load(SeqCst) {
                return;
            }
            let quiet_since = now().as_nanos().saturating_sub(self.last.load(SeqCst));
            let left = self.quiet.saturating_sub(Duration::from_nanos(quiet_since));
            if !left.is_zero() {
                self.wake.wait_timeout(key, left);
                continue;
            }
            let Some(now_there) = levels() else { return };
            self.goal.store(seen.goal(now_there, usual), SeqCst);
            collect();
            self.sleeping.store(true, SeqCst);
            // A request that came before it could see that is as good as one that wakes.
            if now().as_nanos().saturating_sub(self.last.load(SeqCst)) >= self.quiet.as_nanos() as u64 {
                self.wake.wait(key);
            }
            self.sleeping.store(false, SeqCst);
            self.goal.store(0, SeqCst);
            let Some(now_there) = levels() else { return };
            (seen.free, seen.emptied) = (now_there.to_come, now_there.emptied);
        }
    }
}

impl Seen {
    /// As much as the largest of the last bursts took, half as much again, and the usual.
    fn goal(&mut self, now: Levels, usual: u64) -> u64 {
        let made = now.emptied.saturating_sub(self.emptied);
        let used = (self.free + made).saturating_sub(now.to_come);
        self.demand = used.max(self.demand - self.demand / 8);
        usual + self.demand + self.demand / 2
    }
}
