//! [`RwLock`]: many readers or one writer, with a lock class.
//!
//! Same layering, statistics and order rules as `mutex`. A thread that reads must not read the same lock again: with a
//! writer waiting in between that deadlocks, and the debug check refuses it.
#![allow(unsafe_code)] // the owned guards hold the lock without a borrow

use crate::cause::{WaitCause, waiting_for};
use crate::class::{Held, LockClass, check_blocking};
use crate::sim::{self, BeforeRelease, Owner, Share};
use crate::time::now;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A reader-writer lock around a `T`. Not poisoned by panics; waiting writers hold back new readers.
pub struct RwLock<T: ?Sized> {
    class: &'static LockClass,
    /// Of readers nothing is known.
    owner: Owner,
    inner: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// An unlocked lock of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        RwLock { class, owner: Owner::new(), inner: parking_lot::RwLock::new(value) }
    }

    /// The value, when nobody shares the lock any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until there is no writer and takes the lock shared.
    ///
    /// # Panics
    /// In debug builds, when taking it breaks the lock order (see [`LockClass`]).
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        check_blocking(self.class, self.addr());
        sim::point();
        // As the system's lock does it: who comes behind a waiting writer waits too.
        let behind = sim::is_active() && sim::writer_waits(self.addr());
        let inner = match self.inner.try_read() {
            Some(inner) if !behind => inner,
            tried => {
                drop(tried);
                self.read_contended()
            }
        };
        self.read_guard(inner)
    }

    /// Waits until there is neither reader nor writer and takes the lock exclusively.
    ///
    /// # Panics
    /// In debug builds, when taking it breaks the lock order (see [`LockClass`]).
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        check_blocking(self.class, self.addr());
        sim::point();
        let inner = match self.inner.try_write() {
            Some(inner) => inner,
            None => self.write_contended(),
        };
        self.write_guard(inner)
    }

    /// Takes the lock shared if that needs no waiting. Exempt from the lock order.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        sim::point();
        self.inner.try_read().map(|inner| self.read_guard(inner))
    }

    /// Takes the lock exclusively if that needs no waiting. Exempt from the lock order.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        sim::point();
        self.inner.try_write().map(|inner| self.write_guard(inner))
    }

    /// The value through exclusive access to the lock itself: no locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// The class given at construction.
    pub fn class(&self) -> &'static LockClass {
        self.class
    }

    /// Like [`RwLock::read`]; the guard keeps the lock alive by itself and borrows nothing.
    pub fn read_arc(self: &Arc<Self>) -> ArcRwLockReadGuard<T> {
        let RwLockReadGuard { before, inner, held } = self.read();
        std::mem::forget((before, inner)); // unlocked again by the owned guard
        ArcRwLockReadGuard { lock: Arc::clone(self), _held: held, not_send: PhantomData }
    }

    /// Like [`RwLock::write`]; the guard keeps the lock alive by itself and borrows nothing.
    pub fn write_arc(self: &Arc<Self>) -> ArcRwLockWriteGuard<T> {
        let RwLockWriteGuard { before, inner, held } = self.write();
        std::mem::forget((before, inner)); // unlocked again by the owned guard
        ArcRwLockWriteGuard { lock: Arc::clone(self), _held: held, not_send: PhantomData }
    }

    #[cold]
    fn read_contended(&self) -> parking_lot::RwLockReadGuard<'_, T> {
        let start = now();
        let _waiting = waiting_for(WaitCause::Lock);
        let inner = match sim::is_active() {
            true => sim::take(self.addr(), self.class, &self.owner, Share::WithOthers, || self.inner.try_read()),
            false => self.inner.read(),
        };
        self.class.record_wait(start);
        inner
    }

    #[cold]
    fn write_contended(&self) -> parking_lot::RwLockWriteGuard<'_, T> {
        let start = now();
        let _waiting = waiting_for(WaitCause::Lock);
        let inner = match sim::is_active() {
            true => sim::take(self.addr(), self.class, &self.owner, Share::Alone, || self.inner.try_write()),
            false => self.inner.write(),
        };
        self.class.record_wait(start);
        inner
    }

    #[inline]
    fn read_guard<'a>(&'a self, inner: parking_lot::RwLockReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        self.owner.share();
        RwLockReadGuard { before: BeforeRelease, inner, held: self.held() }
    }

    #[inline]
    fn write_guard<'a>(&'a self, inner: parking_lot::RwLockWriteGuard<'a, T>) -> RwLockWriteGuard<'a, T> {
        self.owner.set();
        RwLockWriteGuard { before: BeforeRelease, inner, held: self.held() }
    }

    #[inline]
    fn held(&self) -> Held {
        Held::new(self.class, self.addr())
    }

    #[inline]
    fn addr(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }
}

impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RwLock").field("class", &self.class.name()).field("inner", &&self.inner).finish()
    }
}

/// Shared access to the value of a [`RwLock`]; dropping it lets writers in.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Dropped in this order: unlock, then forget that it was held.
    before: BeforeRelease,
    inner: parking_lot::RwLockReadGuard<'a, T>,
    held: Held,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

/// Exclusive access to the value of a [`RwLock`]; dropping it unlocks.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    before: BeforeRelease,
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    held: Held,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A read guard that owns a reference to its lock.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct ArcRwLockReadGuard<T: ?Sized> {
    lock: Arc<RwLock<T>>,
    _held: Held,
    not_send: PhantomData<*mut ()>,
}

/// A write guard that owns a reference to its lock.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct ArcRwLockWriteGuard<T: ?Sized> {
    lock: Arc<RwLock<T>>,
    _held: Held,
    not_send: PhantomData<*mut ()>,
}

// SAFETY: sharing a guard shares only `&T`; the lock itself is only ever released by the guard's drop, on its own
// thread.
unsafe impl<T: ?Sized + Sync> Sync for ArcRwLockReadGuard<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for ArcRwLockWriteGuard<T> {}

impl<T: ?Sized> Deref for ArcRwLockReadGuard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only between `read_arc` and its drop, and the lock is held shared all that time.
        unsafe { &*self.lock.inner.data_ptr() }
    }
}

impl<T: ?Sized> Deref for ArcRwLockWriteGuard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only between `write_arc` and its drop, and the lock is held exclusively all that
        // time.
        unsafe { &*self.lock.inner.data_ptr() }
    }
}

impl<T: ?Sized> DerefMut for ArcRwLockWriteGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; the exclusive borrow of the only guard makes this the only reference.
        unsafe { &mut *self.lock.inner.data_ptr() }
    }
}

impl<T: ?Sized> Drop for ArcRwLockReadGuard<T> {
    fn drop(&mut self) {
        sim::point();
        // SAFETY: `read_arc` took one shared hold on this thread and forgot the borrowed guard; this gives it back,
        // once.
        unsafe { self.lock.inner.force_unlock_read() }
    }
}

impl<T: ?Sized> Drop for ArcRwLockWriteGuard<T> {
    fn drop(&mut self) {
        sim::point();
        // SAFETY: `write_arc` took the exclusive hold on this thread and forgot the borrowed guard; this gives it back,
        // once.
        unsafe { self.lock.inner.force_unlock_write() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lock_stats, sleep, spawn};
    use std::time::Duration;

    static TABLE: LockClass = LockClass::new("test.table", 0);
    static BUSY: LockClass = LockClass::new("test.rw_busy", 0);

    #[test]
    fn readers_share_and_writers_exclude() {
        let mut lock = RwLock::new(&TABLE, 7);
        {
            let a = lock.read();
            let b = lock.try_read().expect("readers share");
            assert_eq!(*a + *b, 14);
            assert!(lock.try_write().is_none());
        }
        *lock.write() += 1;
        {
            let _writer = lock.write();
            assert!(lock.try_read().is_none());
        }
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 9);
    }

    #[test]
    fn owned_guards_exclude_and_release() {
        let lock = Arc::new(RwLock::new(&TABLE, 1));
        {
            let reader = lock.read_arc();
            assert!(lock.try_write().is_none());
            assert_eq!(*reader, 1);
        }
        {
            let mut writer = lock.write_arc();
            assert!(lock.try_read().is_none());
            *writer += 1;
        }
        assert_eq!(*lock.read(), 2);
        assert_eq!(Arc::strong_count(&lock), 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn reading_twice_panics() {
        let twice = spawn("twice", || {
            let lock = RwLock::new(&TABLE, ());
            let _a = lock.read();
            let _b = lock.read();
        });
        assert!(twice.join().is_err());
    }

    #[test]
    fn waits_are_counted() {
        let lock = Arc::new(RwLock::new(&BUSY, ()));
        let reader = lock.read();
        let other = Arc::clone(&lock);
        let writer = spawn("writer", move || drop(other.write()));
        sleep(Duration::from_millis(20));
        drop(reader);
        writer.join().expect("no panic");
        let stat = lock_stats().into_iter().find(|stat| stat.name == "test.rw_busy").expect("one wait");
        assert_eq!(stat.waits, 1);
        assert!(stat.wait_ns >= 1_000_000);
    }
}
