//! Lock classes: the name, rank and statistics that all locks of one purpose share, and the lock-order check.
//!
//! A class is a `static`; every lock points to its class. Ranks order the classes: a thread may block on a lock only if
//! its rank is above every rank the thread already holds. Debug builds check that; release builds do not. Statistics
//! count only contended waits, so the uncontended path never writes to the class. In a simulation they are the
//! simulation's own: several that run side by side, on threads of the process, do not see each other's.
//!
//! Relies on guards not being `Send`: a lock is released by the thread that took it, so the list of held locks is per
//! thread (in a simulation per task).

use crate::sim;
use crate::time::{Instant, now};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The identity of a group of locks: name, place in the lock order, wait statistics. Made as a `static`.
///
/// ```
/// static CURSEG: steadyfs_rt::LockClass = steadyfs_rt::LockClass::new("curseg", 40);
/// static NODE: steadyfs_rt::LockClass = steadyfs_rt::LockClass::new("node", 30).multi();
/// ```
#[derive(Debug)]
pub struct LockClass {
    name: &'static str,
    rank: u16,
    multi: bool,
    spinning: bool,
    registered: AtomicBool,
    waits: AtomicU64,
    wait_ns: AtomicU64,
    max_wait_ns: AtomicU64,
}

impl LockClass {
    /// A class called `name` at `rank`. Lower ranks are taken first; rank 0 is outside the order and never checked.
    pub const fn new(name: &'static str, rank: u16) -> Self {
        LockClass {
            name,
            rank,
            multi: false,
            spinning: false,
            registered: AtomicBool::new(false),
            waits: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            max_wait_ns: AtomicU64::new(0),
        }
    }

    /// Allows one thread to hold several locks of this class at once; the caller orders them (by address, by number).
    pub const fn multi(mut self) -> Self {
        self.multi = true;
        self
    }

    /// Says that waiters never sleep, as those of a kernel's spin lock. In virtual time a waiter keeps its core busy
    /// until the lock is its own, however long that takes, and a mutex goes to waiters in their order; the holder of
    /// the lock keeps its core, and may not sleep. Outside a simulation the lock is as any other.
    pub const fn spinning(mut self) -> Self {
        self.spinning = true;
        self
    }

    /// Whether waiters never sleep.
    pub(crate) const fn spins(&self) -> bool {
        self.spinning
    }

    /// The name given at construction.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The rank given at construction.
    pub const fn rank(&self) -> u16 {
        self.rank
    }

    /// Counts one wait that began at `start` and ended now, under this name: for locks that are built on other things
    /// than those of this crate.
    #[cold]
    pub fn record_wait(&'static self, start: Instant) {
        let ns = now().as_nanos().saturating_sub(start.as_nanos());
        if sim::is_active() {
            return record_simulated(self.name, ns);
        }
        if !self.registered.swap(true, Ordering::Relaxed) {
            REGISTRY.lock().push(self);
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_wait_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

/// Classes that have seen a contended wait. A plain lock: it is the one thing here that must not report to itself.
static REGISTRY: parking_lot::Mutex<Vec<&'static LockClass>> = parking_lot::Mutex::new(Vec::new());

/// How long threads have waited for the locks of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockStat {
    /// The name of the class.
    pub name: &'static str,
    /// Number of acquisitions that found the lock taken and waited.
    pub waits: u64,
    /// Sum of the waits, in nanoseconds.
    pub wait_ns: u64,
    /// Longest single wait, in nanoseconds.
    pub max_wait_ns: u64,
}

thread_local! {
    /// Statistics of the simulation that this thread runs.
    static SIMULATED: RefCell<Vec<LockStat>> = const { RefCell::new(Vec::new()) };
}

/// Counts a wait of a simulated task.
fn record_simulated(name: &'static str, ns: u64) {
    SIMULATED.with_borrow_mut(|stats| {
        let at = stats.iter().position(|stat| stat.name == name).unwrap_or_else(|| {
            stats.push(LockStat { name, waits: 0, wait_ns: 0, max_wait_ns: 0 });
            stats.len() - 1
        });
        let stat = &mut stats[at];
        stat.waits += 1;
        stat.wait_ns += ns;
        stat.max_wait_ns = stat.max_wait_ns.max(ns);
    });
}

/// Statistics of every class that was ever waited for, longest total wait first; in a simulation, of its own tasks. A
/// class nobody waited for is not listed.
pub fn lock_stats() -> Vec<LockStat> {
    let mut stats = if sim::is_active() { SIMULATED.with_borrow(Clone::clone) } else { of_threads() };
    stats.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then(a.name.cmp(b.name)));
    stats
}

fn of_threads() -> Vec<LockStat> {
    REGISTRY
        .lock()
        .iter()
        .map(|class| LockStat {
            name: class.name,
            waits: class.waits.load(Ordering::Relaxed),
            wait_ns: class.wait_ns.load(Ordering::Relaxed),
            max_wait_ns: class.max_wait_ns.load(Ordering::Relaxed),
        })
        .collect()
}

/// Sets all wait statistics to zero; in a simulation, its own. Waits that end while this runs may be counted in part.
pub fn reset_lock_stats() {
    if sim::is_active() {
        return SIMULATED.with_borrow_mut(Vec::clear);
    }
    for class in REGISTRY.lock().iter() {
        class.waits.store(0, Ordering::Relaxed);
        class.wait_ns.store(0, Ordering::Relaxed);
        class.max_wait_ns.store(0, Ordering::Relaxed);
    }
}

#[cfg(debug_assertions)]
pub(crate) use checked::{Held, HeldLocks, check_blocking};
#[cfg(not(debug_assertions))]
pub(crate) use unchecked::{Held, HeldLocks, check_blocking};

/// The order check of debug builds: a per-thread list of the locks held.
#[cfg(debug_assertions)]
mod checked {
    use super::LockClass;
    use crate::sim::AfterRelease;
    use std::cell::RefCell;

    #[derive(Debug, Clone, Copy)]
    struct Entry {
        class: &'static LockClass,
        addr: usize,
    }

    thread_local! {
        static HELD: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    }

    /// Runs `f` on this thread's list; does nothing while the thread is being torn down (its list is gone by then).
    fn with_list(f: impl FnOnce(&mut Vec<Entry>)) {
        let _ = HELD.try_with(|list| f(&mut list.borrow_mut()));
    }

    /// Panics if blocking on the lock at `addr` breaks the order, or if this thread holds that very lock.
    pub(crate) fn check_blocking(class: &'static LockClass, addr: usize) {
        let mut broken = None;
        with_list(|list| broken = list.iter().copied().find(|held| breaks(held, class, addr)));
        refuse(broken, class, addr, "taken");
    }

    fn breaks(held: &Entry, class: &'static LockClass, addr: usize) -> bool {
        if held.addr == addr {
            return true;
        }
        let unordered = held.class.rank == 0 || class.rank == 0;
        let siblings = std::ptr::eq(held.class, class) && class.multi;
        !unordered && !siblings && class.rank <= held.class.rank
    }

    fn refuse(broken: Option<Entry>, class: &'static LockClass, addr: usize, what: &str) {
        let Some(held) = broken else { return };
        if std::thread::panicking() {
            return; // a second panic would abort and hide the first
        }
        let why = if held.addr == addr { "is the very lock" } else { "is held" };
        panic!(
            "lock order: {} (rank {}) {what} while {} (rank {}) {why}",
            class.name, class.rank, held.class.name, held.class.rank
        );
    }

    /// The list of a task that does not run now.
    #[derive(Debug, Default)]
    pub(crate) struct HeldLocks(Vec<Entry>);

    impl HeldLocks {
        /// Exchanges this list with the thread's.
        pub(crate) fn exchange(&mut self) {
            with_list(|list| std::mem::swap(list, &mut self.0));
        }

        /// Names of the locks.
        pub(crate) fn names(&self) -> Vec<&'static str> {
            self.0.iter().map(|held| held.class.name).collect()
        }
    }

    /// Proof that this thread holds a lock; dropping it takes the lock off the list, and in a simulation wakes who
    /// waits for it.
    #[derive(Debug)]
    pub(crate) struct Held(Entry, AfterRelease);

    impl Held {
        pub(crate) fn new(class: &'static LockClass, addr: usize) -> Self {
            with_list(|list| list.push(Entry { class, addr }));
            Held(Entry { class, addr }, AfterRelease::new(addr, class))
        }

        /// Address and class of the lock.
        pub(crate) fn identity(&self) -> (usize, &'static LockClass) {
            (self.1.addr(), self.0.class)
        }

        /// Panics if a condition wait on this mutex would take it back below a lock that stays held.
        pub(crate) fn check_rewait(&self) {
            let Entry { class, addr } = self.0;
            let mut broken = None;
            with_list(|list| broken = list.iter().copied().find(|held| held.addr != addr && breaks(held, class, addr)));
            refuse(broken, class, addr, "waited on");
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            with_list(|list| {
                if let Some(at) = list.iter().rposition(|held| held.addr == self.0.addr) {
                    list.remove(at);
                }
            });
        }
    }
}

/// Release builds: nothing is recorded and nothing is checked.
#[cfg(not(debug_assertions))]
mod unchecked {
    use super::LockClass;
    use crate::sim::AfterRelease;

    #[derive(Debug, Default)]
    pub(crate) struct HeldLocks;

    impl HeldLocks {
        #[inline(always)]
        pub(crate) fn exchange(&mut self) {}

        pub(crate) fn names(&self) -> Vec<&'static str> {
            Vec::new()
        }
    }

    #[inline(always)]
    pub(crate) fn check_blocking(_: &'static LockClass, _: usize) {}

    #[derive(Debug)]
    pub(crate) struct Held(AfterRelease, &'static LockClass);

    impl Held {
        #[inline(always)]
        pub(crate) fn new(class: &'static LockClass, addr: usize) -> Self {
            Held(AfterRelease::new(addr, class), class)
        }

        pub(crate) fn identity(&self) -> (usize, &'static LockClass) {
            (self.0.addr(), self.1)
        }

        #[inline(always)]
        pub(crate) fn check_rewait(&self) {}
    }
}
