//! Waiting for other threads without a lost wake-up: [`EventCount`], [`Completion`], [`Pending`].
//!
//! Written on [`Mutex`] and [`Condvar`] alone, so they work in every backend.

use crate::{Condvar, LockClass, Mutex, now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The locks inside the types of this module are held for a few instructions and take nothing else.
static EVENT: LockClass = LockClass::new("rt.event", 0);

/// Waiting for "something changed" where the change itself is made without a lock.
///
/// The waiter takes a key, looks at the condition, and waits with the key; the changer changes and notifies. A
/// notification after the key was taken ends the wait at once, so none is lost. Notifying while nobody waits takes one
/// atomic operation.
///
/// ```
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # let (event, ready) = (steadyfs_rt::EventCount::new(), AtomicBool::new(true));
/// loop {
///     let key = event.listen();
///     if ready.load(Ordering::Acquire) {
///         break;
///     }
///     event.wait(key);
/// }
/// ```
#[derive(Debug)]
pub struct EventCount {
    epoch: AtomicU64,
    waiters: AtomicUsize,
    lock: Mutex<()>,
    condvar: Condvar,
}

/// What [`EventCount::listen`] saw; a wait with it ends when anything was notified since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKey(u64);

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}

impl EventCount {
    /// An event nobody has notified.
    pub const fn new() -> Self {
        EventCount {
            epoch: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            lock: Mutex::new(&EVENT, ()),
            condvar: Condvar::new(),
        }
    }

    /// A key for [`EventCount::wait`]. Take it before looking at the condition.
    pub fn listen(&self) -> EventKey {
        EventKey(self.epoch.load(SeqCst))
    }

    /// Waits until a notification after `key` was taken.
    pub fn wait(&self, key: EventKey) {
        self.wait_until(key, None);
    }

    /// Like [`EventCount::wait`] for at most `timeout`; true if there was no notification in that time.
    pub fn wait_timeout(&self, key: EventKey, timeout: Duration) -> bool {
        self.wait_until(key, Some(timeout))
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.notify(Condvar::notify_all);
    }

    /// Wakes at least one waiter, if there is one. Threads between `listen` and `wait` are not held up either.
    pub fn notify_one(&self) {
        self.notify(Condvar::notify_one);
    }

    /// All orderings are `SeqCst`: either the notifier sees the waiter's count, or the waiter sees the notifier's
    /// epoch.
    fn notify(&self, wake: impl FnOnce(&Condvar)) {
        self.epoch.fetch_add(1, SeqCst);
        if self.waiters.load(SeqCst) > 0 {
            // With the lock free, every counted waiter is either in the condition wait or has yet to look at the epoch.
            drop(self.lock.lock());
            wake(&self.condvar);
        }
    }

    fn wait_until(&self, key: EventKey, timeout: Option<Duration>) -> bool {
        if self.listen() != key {
            return false;
        }
        let deadline = timeout.map(|timeout| now() + timeout);
        let mut guard = self.lock.lock();
        self.waiters.fetch_add(1, SeqCst);
        let mut timed_out = false;
        while self.listen() == key && !timed_out {
            match deadline {
                None => self.condvar.wait(&mut guard),
                Some(deadline) => {
                    let left = deadline - now();
                    timed_out = left.is_zero();
                    if !timed_out {
                        self.condvar.wait_timeout(&mut guard, left);
                    }
                }
            }
        }
        let before = self.waiters.fetch_sub(1, SeqCst);
        assert!(before > 0, "an event count lost track of its waiters");
        timed_out
    }
}

/// The result of something another thread does, delivered once. Clones are handles to the same result.
#[derive(Debug)]
pub struct Completion<T> {
    inner: Arc<CompletionInner<T>>,
}

#[derive(Debug)]
struct CompletionInner<T> {
    slot: Mutex<Slot<T>>,
    done: AtomicBool,
    condvar: Condvar,
}

#[derive(Debug)]
enum Slot<T> {
    Empty,
    Full(T),
    Taken,
}

impl<T> Clone for Completion<T> {
    fn clone(&self) -> Self {
        Completion { inner: Arc::clone(&self.inner) }
    }
}

impl<T> Default for Completion<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Completion<T> {
    /// A result nobody has delivered.
    pub fn new() -> Self {
        let slot = Mutex::new(&EVENT, Slot::Empty);
        Completion { inner: Arc::new(CompletionInner { slot, done: AtomicBool::new(false), condvar: Condvar::new() }) }
    }

    /// Delivers the result and wakes the threads that wait for it.
    ///
    /// # Panics
    /// If a result was delivered before.
    pub fn complete(&self, value: T) {
        let mut slot = self.inner.slot.lock();
        assert!(matches!(*slot, Slot::Empty), "a completion delivers one result");
        *slot = Slot::Full(value);
        self.inner.done.store(true, SeqCst);
        drop(slot);
        self.inner.condvar.notify_all();
    }

    /// Waits for the result and takes it.
    ///
    /// # Panics
    /// If another handle took the result.
    pub fn wait(&self) -> T {
        let mut slot = self.inner.slot.lock();
        self.inner.condvar.wait_while(&mut slot, |slot| matches!(slot, Slot::Empty));
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Full(value) => value,
            Slot::Empty | Slot::Taken => panic!("a completion's result is taken once"),
        }
    }

    /// True once the result was delivered.
    pub fn is_done(&self) -> bool {
        self.inner.done.load(SeqCst)
    }
}

/// A count of things under way, and waiting until there are none.
#[derive(Debug, Default)]
pub struct Pending {
    count: AtomicU64,
    event: EventCount,
}

impl Pending {
    /// Nothing under way.
    pub const fn new() -> Self {
        Pending { count: AtomicU64::new(0), event: EventCount::new() }
    }

    /// `n` more things are under way.
    pub fn add(&self, n: u64) {
        let before = self.count.fetch_add(n, SeqCst);
        assert!(before.checked_add(n).is_some(), "the count of pending things overflowed");
    }

    /// `n` things have ended.
    ///
    /// # Panics
    /// If fewer than `n` were under way.
    pub fn done(&self, n: u64) {
        let before = self.count.fetch_sub(n, SeqCst);
        assert!(before >= n, "{n} things ended while {before} were pending");
        if before == n {
            self.event.notify_all();
        }
    }

    /// How many things are under way; may change at once.
    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Waits until nothing is under way. Things added meanwhile are waited for too.
    pub fn wait_zero(&self) {
        loop {
            let key = self.event.listen();
            if self.count() == 0 {
                return;
            }
            self.event.wait(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sleep, spawn};

    /// Two threads hand a token back and forth; one lost wake-up and the test hangs (the timeout turns that into a
    /// failure).
    #[test]
    fn eventcount_loses_no_wakeup() {
        const ROUNDS: u64 = 20_000;
        let shared = Arc::new((AtomicU64::new(0), EventCount::new()));
        let player = |shared: Arc<(AtomicU64, EventCount)>, parity: u64| {
            move || {
                let (turn, event) = &*shared;
                while turn.load(SeqCst) < ROUNDS {
                    let key = event.listen();
                    if turn.load(SeqCst) % 2 == parity {
                        turn.fetch_add(1, SeqCst);
                        event.notify_one();
                    } else if turn.load(SeqCst) < ROUNDS {
                        assert!(!event.wait_timeout(key, Duration::from_secs(20)), "lost wake-up");
                    }
                }
                event.notify_all();
            }
        };
        let even = spawn("even", player(Arc::clone(&shared), 0));
        let odd = spawn("odd", player(Arc::clone(&shared), 1));
        assert!(even.join().is_ok() && odd.join().is_ok());
        assert_eq!(shared.1.waiters.load(SeqCst), 0);
    }

    /// The moment that a stress test rarely hits: a waiter has looked at the epoch and is not asleep yet.
    #[test]
    fn a_notifier_waits_for_a_waiter_that_is_going_to_sleep() {
        let event = Arc::new(EventCount::new());
        let guard = event.lock.lock();
        event.waiters.fetch_add(1, SeqCst);
        let other = Arc::clone(&event);
        let notifier = spawn("notifier", move || other.notify_one());
        sleep(Duration::from_millis(20));
        assert!(!notifier.is_finished(), "it would wake nobody now");
        drop(guard);
        assert!(notifier.join().is_ok());
        event.waiters.fetch_sub(1, SeqCst);
    }

    #[test]
    fn eventcount_wakes_all_and_times_out() {
        let event = Arc::new(EventCount::new());
        assert!(event.wait_timeout(event.listen(), Duration::from_millis(5)));
        let key = event.listen();
        event.notify_one();
        assert!(!event.wait_timeout(key, Duration::ZERO), "a notification after listen ends the wait");
        let sleepers: Vec<_> = (0..3)
            .map(|_| {
                let (event, key) = (Arc::clone(&event), event.listen());
                spawn("sleeper", move || event.wait(key))
            })
            .collect();
        sleep(Duration::from_millis(10));
        event.notify_all();
        assert!(sleepers.into_iter().all(|sleeper| sleeper.join().is_ok()));
    }

    #[test]
    fn completion_delivers_once() {
        let completion = Completion::new();
        let other = completion.clone();
        let worker = spawn("worker", move || {
            sleep(Duration::from_millis(5));
            other.complete(42);
        });
        assert_eq!(completion.wait(), 42);
        assert!(completion.is_done() && worker.join().is_ok());
        assert!(spawn("twice", move || completion.wait()).join().is_err(), "the result is taken once");
        let completion = Completion::new();
        completion.complete(1);
        assert!(spawn("again", move || completion.complete(2)).join().is_err(), "one result only");
    }

    #[test]
    fn pending_waits_for_zero() {
        let pending = Arc::new(Pending::new());
        pending.wait_zero();
        pending.add(3);
        let other = Arc::clone(&pending);
        let worker = spawn("worker", move || {
            other.done(1);
            sleep(Duration::from_millis(5));
            other.done(2);
        });
        pending.wait_zero();
        assert_eq!(pending.count(), 0);
        assert!(worker.join().is_ok());
        assert!(spawn("under", move || pending.done(1)).join().is_err(), "more ended than began");
    }
}
