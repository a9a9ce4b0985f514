//! [`Condvar`]: waiting for a condition that a [`Mutex`](crate::Mutex) protects.
//!
//! The wait releases the mutex and takes it back, so in debug builds every other lock that stays held must rank below
//! it.
#![allow(unsafe_code)] // a wait in virtual time unlocks and locks behind the guard

use crate::MutexGuard;
use crate::sim::{self, Share};
use std::time::Duration;

/// A condition variable. Waits may end without a notification; callers loop, or use [`Condvar::wait_while`].
#[derive(Debug, Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
}

impl Condvar {
    /// A condition variable nobody waits on.
    pub const fn new() -> Self {
        Condvar { inner: parking_lot::Condvar::new() }
    }

    /// Releases the mutex, waits for a notification, takes the mutex back.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.held.check_rewait();
        if sim::is_active() {
            self.wait_in_simulation(guard, None);
        } else {
            self.inner.wait(&mut guard.inner);
        }
    }

    /// Like [`Condvar::wait`], for at most `timeout`; true if the time ran out.
    pub fn wait_timeout<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        guard.held.check_rewait();
        if sim::is_active() {
            return self.wait_in_simulation(guard, Some(timeout));
        }
        self.inner.wait_for(&mut guard.inner, timeout).timed_out()
    }

    /// Waits until `condition` is false.
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        if sim::is_active() {
            return sim::notify(self.addr(), false);
        }
        self.inner.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        if sim::is_active() {
            return sim::notify(self.addr(), true);
        }
        self.inner.notify_all();
    }

    fn addr(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The wait of a task: unlocks, waits in virtual time, locks again. True if the time ran out.
    fn wait_in_simulation<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        sim::point();
        let lock = parking_lot::MutexGuard::mutex(&guard.inner);
        let (addr, class) = guard.held.identity();
        // SAFETY: the guard holds the lock, and nobody looks through it before it is locked again below.
        unsafe { lock.force_unlock() };
        sim::unlocked(addr, class);
        let timed_out = sim::wait_notified(self.addr(), "a notification", timeout);
        sim::point();
        let again =
            lock.try_lock().unwrap_or_else(|| sim::take(addr, class, guard.owner, Share::Alone, || lock.try_lock()));
        sim::locked_again(class);
        guard.owner.set();
        // The first guard stands for the lock again.
        std::mem::forget(again);
        timed_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockClass, Mutex, spawn};
    use std::sync::Arc;

    static LOW: LockClass = LockClass::new("test.cv_low", 5);
    static HIGH: LockClass = LockClass::new("test.cv_high", 6);

    #[test]
    fn waits_for_the_condition() {
        let shared = Arc::new((Mutex::new(&LOW, false), Condvar::new()));
        let other = Arc::clone(&shared);
        let setter = spawn("setter", move || {
            *other.0.lock() = true;
            other.1.notify_all();
        });
        let mut guard = shared.0.lock();
        shared.1.wait_while(&mut guard, |set| !*set);
        assert!(*guard);
        drop(guard);
        setter.join().expect("no panic");
    }

    #[test]
    fn times_out() {
        let (lock, condvar) = (Mutex::new(&LOW, ()), Condvar::new());
        let start = crate::now();
        assert!(condvar.wait_timeout(&mut lock.lock(), Duration::from_millis(5)));
        assert!(start.elapsed() >= Duration::from_millis(4));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn waiting_below_a_held_lock_panics() {
        let waited = spawn("order", || {
            let (low, high) = (Mutex::new(&LOW, ()), Mutex::new(&HIGH, ()));
            let mut guard = low.lock();
            let _high = high.lock();
            Condvar::new().wait_timeout(&mut guard, Duration::from_millis(1));
        });
        assert!(waited.join().is_err(), "the wait takes rank 5 back while rank 6 is held");
    }
}
