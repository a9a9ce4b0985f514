//! [`Events`]: calling something at a point in time, in virtual time and in real time.
//!
//! In a simulation that is an event of the scheduler, without a thread. Elsewhere a thread sleeps until the next one is
//! due; it is started with the first, and ends with the device.

use crate::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_rt::{Condvar, JoinHandle, LockClass, Mutex, now, sim, try_spawn_vital};

/// Held for a few instructions, under whatever its caller holds.
static TIMER: LockClass = LockClass::new("flash.timer", u16::MAX - 2);

type Call = Box<dyn FnOnce() + Send>;

struct Due {
    at: Time,
    number: u64,
    call: Call,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
struct Timer {
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
    thread: Option<JoinHandle<()>>,
    closing: bool,
}

struct Shared {
    timer: Mutex<Timer>,
    changed: Condvar,
}

/// See the head of the module.
pub(crate) struct Events {
    shared: Arc<Shared>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Events { shared: Arc::new(Shared { timer: Mutex::new(&TIMER, Timer::default()), changed: Condvar::new() }) }
    }

    /// Calls `call` at `at`, or soon if that has passed.
    pub(crate) fn at(&self, at: Time, call: Call) {
        if sim::is_active() {
            let delay = at.saturating_sub(now().as_nanos());
            return sim::call_after(Duration::from_nanos(delay), call);
        }
        let mut timer = self.shared.timer.lock();
        assert!(!timer.closing, "a device that is gone completes nothing");
        timer.number += 1;
        let number = timer.number;
        let first = timer.due.peek().is_none_or(|Reverse(due)| at < due.at);
        timer.due.push(Reverse(Due { at, number, call }));
        if timer.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = try_spawn_vital("flash-timer", move || shared.run());
            timer.thread = Some(thread.unwrap_or_else(|error| panic!("no thread for an emulated SSD: {error}")));
        }
        drop(timer);
        if first {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut timer = self.timer.lock();
        loop {
            let wait = match timer.due.peek() {
                Some(Reverse(due)) => due.at.saturating_sub(now().as_nanos()),
                None if timer.closing => return,
                None => {
                    self.changed.wait(&mut timer);
                    continue;
                }
            };
            if wait > 0 {
                self.changed.wait_timeout(&mut timer, Duration::from_nanos(wait));
                continue;
            }
            if let Some(Reverse(due)) = timer.due.pop() {
                drop(timer);
                (due.call)();
                timer = self.timer.lock();
            }
        }
    }
}

impl Drop for Events {
    /// Everything that is due still happens; nobody waits for it here.
    fn drop(&mut self) {
        if !sim::is_active() {
            self.shared.timer.lock().closing = true;
            self.shared.changed.notify_one();
        }
    }
}
