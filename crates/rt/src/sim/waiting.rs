//! Who waits for what: queues of tasks by the address of the lock or condition variable.
//!
//! Locks are not handed over: a woken task tries again, and goes back to the front of the queue if somebody was
//! faster. For a mutex whose waiters spin, a later task queues behind them. Addresses differ from run to run, so
//! nothing here depends on their order.

use super::scheduler::{self, TaskId, Waits, with};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Alone,
    WithOthers,
}

/// How somebody waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) share: Share,
    /// At the front of the queue.
    pub(super) front: bool,
    pub(super) how: Waits,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    task: TaskId,
    share: Share,
}

/// Spreads addresses: one multiplication, for this is asked at every release of a lock.
#[derive(Default)]
struct AddrHasher(u64);

impl Hasher for AddrHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, addr: usize) {
        // The table takes the bucket from the low bits and a tag from the high ones; the middle of the product is mixed
        // best.
        self.0 = (self.0 ^ addr as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The queues.
#[derive(Default)]
pub(super) struct Queues {
    by_addr: HashMap<usize, VecDeque<Waiter>, BuildHasherDefault<AddrHasher>>,
}

impl Queues {
    fn pop(&mut self, addr: usize, wanted: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        let queue = self.by_addr.get_mut(&addr)?;
        let waiter = if queue.front().is_some_and(wanted) { queue.pop_front() } else { None };
        if queue.is_empty() {
            self.by_addr.remove(&addr);
        }
        waiter
    }

    fn remove(&mut self, addr: usize, task: TaskId) {
        if let Some(queue) = self.by_addr.get_mut(&addr) {
            queue.retain(|waiter| waiter.task != task);
            if queue.is_empty() {
                self.by_addr.remove(&addr);
            }
        }
    }
}

/// Waits until woken, at the front of the queue or at its end; true if the time ran out first.
pub(super) fn wait(addr: usize, what: &'static str, place: Place, timeout: Option<Duration>) -> bool {
    let Place { share, front, how } = place;
    with(|sim| {
        let waiter = Waiter { task: sim.current(), share };
        let mut state = sim.state();
        let queue = state.queues.by_addr.entry(addr).or_default();
        if front { queue.push_front(waiter) } else { queue.push_back(waiter) }
    });
    let timed_out = scheduler::block(what, how, timeout);
    if timed_out {
        with(|sim| {
            let task = sim.current();
            sim.state().queues.remove(addr, task);
        });
    }
    timed_out
}

/// A lock was released: the first waiter may try, and with a reader all readers behind it.
pub(super) fn released(addr: usize) {
    with(|sim| {
        let Some(first) = sim.state().queues.pop(addr, |_| true) else { return };
        sim.wake(first.task);
        if first.share == Share::WithOthers {
            while let Some(next) = { sim.state().queues.pop(addr, |waiter| waiter.share == Share::WithOthers) } {
                sim.wake(next.task);
            }
        }
    });
}

/// Wakes the first waiter, or all.
pub(super) fn notify(addr: usize, all: bool) {
    with(|sim| {
        while let Some(waiter) = { sim.state().queues.pop(addr, |_| true) } {
            sim.wake(waiter.task);
            if !all {
                return;
            }
        }
    });
}

/// Whether somebody waits at this address. A woken task does not.
pub(super) fn somebody_waits(addr: usize) -> bool {
    with(|sim| sim.state().queues.by_addr.contains_key(&addr))
}

/// Whether somebody waits to take the lock alone.
pub(super) fn writer_waits(addr: usize) -> bool {
    with(|sim| {
        let state = sim.state();
        state.queues.by_addr.get(&addr).is_some_and(|queue| queue.iter().any(|waiter| waiter.share == Share::Alone))
    })
}
