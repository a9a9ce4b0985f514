//! What the range locks are built on: real atomics, epochs of crossbeam, events of the runtime.

pub(super) use crossbeam_epoch::{Guard, pin};
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
pub(super) use steadyfs_rt::EventCount as Event;

/// Part of each element, where the model checker notices uses after the end. Here it does nothing.
pub(super) struct Liveness;

impl Liveness {
    /// Of a new element.
    pub(super) fn new() -> Self {
        Liveness
    }

    /// The element is used.
    pub(super) fn check(&self) {}
}

/// Runs `free` when every thread that is pinned now has unpinned.
///
/// # Safety
/// Nobody can find the memory that `free` gives back any more, except threads that are pinned now; and `free` may run
/// on any thread.
#[expect(unsafe_code, reason = "hands the promise of the caller to crossbeam")]
pub(super) unsafe fn retire(guard: &Guard, _liveness: &Liveness, free: impl FnOnce() + 'static) {
    // SAFETY: as the caller promises.
    unsafe { guard.defer_unchecked(free) }
}
