//! [`Mutex`]: mutual exclusion with a lock class.
//!
//! A thin layer over parking_lot: try first, and only when that fails read the clock and wait. Keeps the class
//! statistics and the debug lock order. Guards stay on the thread that took them.
#![allow(unsafe_code)] // the owned guard holds the lock without a borrow

use crate::cause::{WaitCause, waiting_for};
use crate::class::{Held, LockClass, check_blocking};
use crate::sim::{self, BeforeRelease, Owner, Share};
use crate::time::now;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A mutual exclusion lock around a `T`. Not poisoned by panics.
pub struct Mutex<T: ?Sized> {
    class: &'static LockClass,
    owner: Owner,
    inner: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Mutex { class, owner: Owner::new(), inner: parking_lot::Mutex::new(value) }
    }

    /// The value, when nobody shares the mutex any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and takes it.
    ///
    /// # Panics
    /// In debug builds, when taking it breaks the lock order (see [`LockClass`]).
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        check_blocking(self.class, self.addr());
        sim::point();
        // As a kernel's spin lock has it: who comes behind somebody who spins waits for their turn.
        let behind = self.class.spins() && sim::is_active() && sim::somebody_waits(self.addr());
        let inner = match self.inner.try_lock() {
            Some(inner) if !behind => inner,
            tried => {
                drop(tried);
                self.lock_contended()
            }
        };
        self.guard(inner)
    }

    /// Takes the mutex if it is free. Exempt from the lock order, since it cannot wait.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        sim::point();
        self.inner.try_lock().map(|inner| self.guard(inner))
    }

    /// The value through exclusive access to the mutex itself: no locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// The class given at construction.
    pub fn class(&self) -> &'static LockClass {
        self.class
    }

    /// Like [`Mutex::lock`]; the guard keeps the mutex alive by itself and borrows nothing.
    pub fn lock_arc(self: &Arc<Self>) -> ArcMutexGuard<T> {
        let MutexGuard { before, inner, held, .. } = self.lock();
        std::mem::forget((before, inner)); // unlocked again by the owned guard
        ArcMutexGuard { lock: Arc::clone(self), _held: held, not_send: PhantomData }
    }

    /// Like [`Mutex::try_lock`], with an owned guard.
    pub fn try_lock_arc(self: &Arc<Self>) -> Option<ArcMutexGuard<T>> {
        let MutexGuard { before, inner, held, .. } = self.try_lock()?;
        std::mem::forget((before, inner));
        Some(ArcMutexGuard { lock: Arc::clone(self), _held: held, not_send: PhantomData })
    }

    #[inline]
    fn guard<'a>(&'a self, inner: parking_lot::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.owner.set();
        MutexGuard { before: BeforeRelease, inner, held: Held::new(self.class, self.addr()), owner: &self.owner }
    }

    #[cold]
    fn lock_contended(&self) -> parking_lot::MutexGuard<'_, T> {
        let start = now();
        let _waiting = waiting_for(WaitCause::Lock);
        let inner = match sim::is_active() {
            true => sim::take(self.addr(), self.class, &self.owner, Share::Alone, || self.inner.try_lock()),
            false => self.inner.lock(),
        };
        self.class.record_wait(start);
        inner
    }

    #[inline]
    fn addr(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }
}

impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutex").field("class", &self.class.name()).field("inner", &&self.inner).finish()
    }
}

/// Access to the value of a locked [`Mutex`]; dropping it unlocks.
#[must_use = "the mutex is unlocked at once if the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Dropped in this order: unlock, then forget that it was held.
    before: BeforeRelease,
    pub(crate) inner: parking_lot::MutexGuard<'a, T>,
    pub(crate) held: Held,
    pub(crate) owner: &'a Owner,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// A guard that owns a reference to its mutex, for state that outlives the borrow (an iterator, an operation in steps).
#[must_use = "the mutex is unlocked at once if the guard is dropped"]
pub struct ArcMutexGuard<T: ?Sized> {
    lock: Arc<Mutex<T>>,
    _held: Held,
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing the guard shares only `&T`; the lock itself is only ever released by the guard's drop, on its own
// thread.
unsafe impl<T: ?Sized + Sync> Sync for ArcMutexGuard<T> {}

impl<T: ?Sized> ArcMutexGuard<T> {
    /// The mutex this guard holds.
    pub fn mutex(&self) -> &Arc<Mutex<T>> {
        &self.lock
    }
}

impl<T: ?Sized> Deref for ArcMutexGuard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only between `lock_arc` and its drop, and the mutex is locked all that time.
        unsafe { &*self.lock.inner.data_ptr() }
    }
}

impl<T: ?Sized> DerefMut for ArcMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; the exclusive borrow of the only guard makes this the only reference.
        unsafe { &mut *self.lock.inner.data_ptr() }
    }
}

impl<T: ?Sized> Drop for ArcMutexGuard<T> {
    fn drop(&mut self) {
        sim::point();
        // SAFETY: `lock_arc` locked the mutex on this thread and forgot the borrowed guard, so it is ours to unlock,
        // once.
        unsafe { self.lock.inner.force_unlock() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockStat, lock_stats, sleep, spawn};
    use std::time::Duration;

    static OUTER: LockClass = LockClass::new("test.outer", 10);
    static INNER: LockClass = LockClass::new("test.inner", 20);
    static PEERS: LockClass = LockClass::new("test.peers", 20).multi();
    static FREE: LockClass = LockClass::new("test.free", 0);
    static BUSY: LockClass = LockClass::new("test.busy", 0);

    /// The panic message of `f`, run on a thread of its own so that the list of held locks starts empty.
    fn panic_of(f: impl FnOnce() + Send + 'static) -> Option<String> {
        spawn("order", f).join().err().map(|panicked| panicked.to_string())
    }

    #[test]
    #[cfg(debug_assertions)]
    fn order_violations_panic_with_both_names() {
        let message = panic_of(|| {
            let (outer, inner) = (Mutex::new(&OUTER, ()), Mutex::new(&INNER, ()));
            let _second = inner.lock();
            let _first = outer.lock();
        });
        let message = message.expect("taking rank 10 under rank 20 must panic");
        assert!(message.contains("test.outer") && message.contains("test.inner"), "{message}");
        let same_class = panic_of(|| {
            let (a, b) = (Mutex::new(&INNER, ()), Mutex::new(&INNER, ()));
            let _a = a.lock();
            let _b = b.lock();
        });
        assert!(same_class.is_some(), "two locks of a class that is not multi");
        let same_rank = panic_of(|| {
            let (a, b) = (Mutex::new(&INNER, ()), Mutex::new(&PEERS, ()));
            let _a = a.lock();
            let _b = b.lock();
        });
        assert!(same_rank.is_some(), "multi does not extend to another class of the same rank");
        let itself = panic_of(|| {
            let a = Mutex::new(&FREE, ());
            let _a = a.lock();
            let _b = a.lock();
        });
        assert!(itself.expect("a mutex is not reentrant").contains("the very lock"));
    }

    #[test]
    fn permitted_orders_do_not_panic() {
        let message = panic_of(|| {
            let (outer, inner, free) = (Mutex::new(&OUTER, 1), Mutex::new(&INNER, 2), Mutex::new(&FREE, 3));
            let (p, q) = (Mutex::new(&PEERS, 4), Mutex::new(&PEERS, 5));
            {
                let _inner = inner.lock();
                let tried = outer.try_lock().expect("free");
                let _free = free.lock();
                assert_eq!(*tried, 1);
            }
            {
                let _outer = outer.lock();
                let _p = p.lock();
                let _q = q.lock();
            }
            let _inner = inner.lock(); // everything above was released, in whatever order
        });
        assert_eq!(message, None);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn tried_locks_count_as_held() {
        let message = panic_of(|| {
            let (outer, inner) = (Mutex::new(&OUTER, ()), Mutex::new(&INNER, ()));
            let _inner = inner.try_lock().expect("free");
            let _outer = outer.lock();
        });
        assert!(message.is_some());
    }

    #[test]
    fn contended_waits_are_counted_and_uncontended_ones_are_not() {
        let stat = || lock_stats().into_iter().find(|stat: &LockStat| stat.name == "test.busy");
        let lock = Arc::new(Mutex::new(&BUSY, 0u32));
        for _ in 0..100 {
            *lock.lock() += 1;
        }
        assert_eq!(stat(), None);
        let guard = lock.lock();
        let other = Arc::clone(&lock);
        let waiter = spawn("waiter", move || *other.lock());
        sleep(Duration::from_millis(30));
        drop(guard);
        assert_eq!(waiter.join().expect("no panic"), 100);
        let stat = stat().expect("one wait");
        assert_eq!(stat.waits, 1);
        assert!(stat.wait_ns >= 1_000_000 && stat.max_wait_ns == stat.wait_ns, "{stat:?}");
    }

    #[test]
    fn owned_guards_exclude_and_release() {
        let lock = Arc::new(Mutex::new(&FREE, vec![1]));
        let mut guard = lock.lock_arc();
        guard.push(2);
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_arc().is_none());
        assert!(Arc::ptr_eq(guard.mutex(), &lock));
        drop(guard);
        assert_eq!(*lock.lock(), [1, 2]);
        let mut lock = Arc::into_inner(lock).expect("the guard let go of its reference");
        lock.get_mut().push(3);
        assert_eq!(lock.into_inner(), [1, 2, 3]);
    }
}
