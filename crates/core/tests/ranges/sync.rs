//! The primitives that range locks are built on, for the model checker.
//!
//! Every atomic and every wait is a point where it may go on with another thread. Memory that was given back is
//! remembered instead of freed, so that a use of it is seen.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize as Plain, Ordering::SeqCst};

pub use shuttle::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// Canaries that have not been dropped.
pub static ALIVE: Plain = Plain::new(0);

type Free = Box<dyn FnOnce()>;

#[derive(Default)]
struct Epochs {
    next: u64,
    pinned: BTreeSet<u64>,
    /// Elements that those who were pinned then may still look at.
    waiting: Vec<(BTreeSet<u64>, Arc<AtomicBool>)>,
    garbage: Vec<Free>,
}

thread_local! {
    /// The checker runs all threads of a schedule on one thread of the system.
    static EPOCHS: RefCell<Epochs> = RefCell::default();
}

/// A thread that is pinned.
pub struct Guard(u64);

pub fn pin() -> Guard {
    EPOCHS.with_borrow_mut(|epochs| {
        epochs.next += 1;
        let id = epochs.next;
        epochs.pinned.insert(id);
        Guard(id)
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        EPOCHS.with_borrow_mut(|epochs| {
            epochs.pinned.remove(&self.0);
            epochs.waiting.retain_mut(|(pinned, dead)| {
                pinned.remove(&self.0);
                if pinned.is_empty() {
                    dead.store(true, SeqCst);
                }
                !pinned.is_empty()
            });
        });
    }
}

/// Part of each element: whether it may still be used.
pub struct Liveness(Arc<AtomicBool>);

impl Liveness {
    pub fn new() -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Liveness(Arc::default())
    }

    pub fn check(&self) {
        assert!(!self.0.load(SeqCst), "an element is used after its memory was given back");
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, SeqCst);
    }
}

/// # Safety
/// As for the real one; here nothing is freed before [`collect`].
#[expect(unsafe_code, reason = "stands for a function that is unsafe")]
pub unsafe fn retire(_guard: &Guard, liveness: &Liveness, free: impl FnOnce() + 'static) {
    liveness.check();
    EPOCHS.with_borrow_mut(|epochs| {
        let pinned = epochs.pinned.clone();
        epochs.waiting.push((pinned, Arc::clone(&liveness.0)));
        epochs.garbage.push(Box::new(free));
    });
}

/// The end of a schedule: frees what was given back. Everybody has to have unpinned.
pub fn collect() {
    let epochs = EPOCHS.take();
    assert!(epochs.pinned.is_empty() && epochs.waiting.is_empty(), "somebody is still pinned");
    epochs.garbage.into_iter().for_each(|free| free());
}

/// As `EventCount` of the runtime; a wait that nobody ends is a deadlock for the checker.
pub struct Event {
    epoch: shuttle::sync::Mutex<u64>,
    changed: shuttle::sync::Condvar,
}

impl Event {
    pub fn new() -> Self {
        Event { epoch: shuttle::sync::Mutex::new(0), changed: shuttle::sync::Condvar::new() }
    }

    pub fn listen(&self) -> u64 {
        *self.epoch.lock().unwrap()
    }

    pub fn wait(&self, key: u64) {
        let mut epoch = self.epoch.lock().unwrap();
        while *epoch == key {
            epoch = self.changed.wait(epoch).unwrap();
        }
    }

    pub fn notify_all(&self) {
        *self.epoch.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}
