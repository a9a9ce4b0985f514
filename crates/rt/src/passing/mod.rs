//! [`PassThroughLock`]: many readers or one writer, and readers on different cores do not meet.
//!
//! In a [`RwLock`](crate::RwLock) each reader writes the one word that says how many there are, and the cache line with
//! it goes from core to core. Here readers count themselves in lanes, threads apart; a writer, who comes seldom, closes
//! the door and waits until all lanes are empty. That is MAX' "reader pass-through semaphore" (ATC '21, section 3.1),
//! and the kernel's `percpu_rw_semaphore`. It holds no value.

mod lanes;
mod sync;

use crate::cause::{WaitCause, waiting_for};
use crate::class::{Held, LockClass, check_blocking};
use crate::sim::{self, BeforeRelease};
use crate::time::now;
use crate::{Mutex, MutexGuard, cpus, thread_number};
use lanes::Lanes;

/// A lock for many readers or one writer, which readers take without a line that others write. Not poisoned by panics;
/// a waiting writer holds back new readers. Lock order and statistics as for the other locks.
pub struct PassThroughLock {
    class: &'static LockClass,
    lanes: Lanes,
    /// Held by the writer.
    turn: Mutex<()>,
}

/// More lanes than this cost a writer more than they spare readers.
const MOST_LANES: usize = 256;

impl PassThroughLock {
    /// An unlocked lock of `class`, with a lane for each core.
    pub fn new(class: &'static LockClass) -> Self {
        PassThroughLock { class, lanes: Lanes::new(cpus().min(MOST_LANES)), turn: Mutex::new(class, ()) }
    }

    /// Waits until there is no writer and takes the lock shared.
    ///
    /// # Panics
    /// In debug builds, when taking it breaks the lock order (see [`LockClass`]).
    #[inline]
    pub fn read(&self) -> PassingReader<'_> {
        check_blocking(self.class, self.addr());
        sim::point();
        let lane = self.lanes.lane_of(thread_number());
        if !self.lanes.try_enter(lane) {
            self.enter_contended(lane);
        }
        self.reader(lane)
    }

    /// Takes the lock shared if that needs no waiting. Exempt from the lock order.
    #[inline]
    pub fn try_read(&self) -> Option<PassingReader<'_>> {
        sim::point();
        let lane = self.lanes.lane_of(thread_number());
        self.lanes.try_enter(lane).then(|| self.reader(lane))
    }

    /// Waits until there is neither reader nor writer and takes the lock exclusively.
    ///
    /// # Panics
    /// In debug builds, when taking it breaks the lock order (see [`LockClass`]).
    pub fn write(&self) -> PassingWriter<'_> {
        check_blocking(self.class, self.addr());
        let turn = self.turn.lock();
        let start = now();
        let _waiting = waiting_for(WaitCause::Lock);
        if self.lanes.close() {
            self.class.record_wait(start);
        }
        PassingWriter { lanes: &self.lanes, _turn: turn }
    }

    /// Takes the lock exclusively if that needs no waiting. Exempt from the lock order.
    pub fn try_write(&self) -> Option<PassingWriter<'_>> {
        let turn = self.turn.try_lock()?;
        self.lanes.try_close().then(|| PassingWriter { lanes: &self.lanes, _turn: turn })
    }

    #[cold]
    fn enter_contended(&self, lane: usize) {
        let start = now();
        let _waiting = waiting_for(WaitCause::Lock);
        self.lanes.enter(lane);
        self.class.record_wait(start);
    }

    fn reader(&self, lane: usize) -> PassingReader<'_> {
        let held = Held::new(self.class, self.addr());
        PassingReader { _before: BeforeRelease, _inside: Inside { lanes: &self.lanes, lane }, _held: held }
    }

    fn addr(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl std::fmt::Debug for PassThroughLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassThroughLock").field("class", &self.class.name()).finish_non_exhaustive()
    }
}

/// The lock held shared; dropping it lets writers in. To be dropped by the thread that took it.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct PassingReader<'a> {
    // Dropped in this order: leave, then forget that it was held.
    _before: BeforeRelease,
    _inside: Inside<'a>,
    _held: Held,
}

struct Inside<'a> {
    lanes: &'a Lanes,
    lane: usize,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lanes.leave(self.lane);
    }
}

/// The lock held exclusively; dropping it unlocks.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct PassingWriter<'a> {
    lanes: &'a Lanes,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for PassingWriter<'_> {
    fn drop(&mut self) {
        self.lanes.open();
    }
}

#[cfg(test)]
mod tests;
