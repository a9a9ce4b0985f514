//! One door to time, threads and locks.
//!
//! The file system, its devices and its simulations take threads, locks, sleeps and clocks from here and from nowhere
//! else, so that one binary can run on the operating system or in deterministic virtual time. This file only names the
//! parts:
//!
//! - [`LockClass`], [`Mutex`], [`RwLock`], [`Condvar`]: locks with a name, a place in the lock order, and wait
//!   statistics;
//! - [`PassThroughLock`]: many readers or one writer, and readers that do not meet; [`SharedLine`]: what it costs them
//!   where they do;
//! - [`SplitCount`], [`Portions`]: counts that cores change without meeting, and things of which there is only so much;
//! - [`Leaf`]: a lock whose holder calls nothing that could wait;
//! - [`EventCount`], [`Completion`], [`Pending`], [`queue::Queue`]: waiting for each other, built only on the locks
//!   above;
//! - [`waiting_for`], [`cause_at`]: what a thread waits for, where others see it;
//! - [`sim`]: all of this in deterministic virtual time, on as many virtual cores as asked for;
//! - [`mutated`]: vital lines that a run of tests switches off; never in a build that ships;
//! - [`spawn`], [`pin`], [`yield_now`], [`sleep`], [`now`], [`wall_clock`], [`charge`], [`cpus`]: threads, clocks, CPU
//!   cost.
//!
//! Kept true: an uncontended lock costs what parking_lot costs plus a look at a thread-local flag; in debug
//! builds a lock taken against the order of ranks panics and names both locks; no wake-up is lost.
//!
//! The backend is chosen behind these types, never by them: nothing of parking_lot or std shows through the API.
//! Everything that can block or read a clock is in `mutex`, `rwlock`, `condvar`, `time` and `task`, which ask `sim`
//! whether they are in a simulation; the other modules are written in terms of those.

mod cause;
mod class;
mod condvar;
mod event;
mod leaf;
mod line;
mod mutant;
mod mutex;
mod passing;
mod pin;
mod portions;
pub mod queue;
mod rwlock;
pub mod sim;
mod split;
mod task;
mod time;

pub use cause::{WAITING_PLACES, WaitCause, Waiting, cause_at, waiting_for, waiting_place};
pub use class::{LockClass, LockStat, lock_stats, reset_lock_stats};
pub use condvar::Condvar;
pub use event::{Completion, EventCount, EventKey, Pending};
pub use leaf::Leaf;
pub use line::SharedLine;
pub use mutant::mutated;
pub use mutex::{ArcMutexGuard, Mutex, MutexGuard};
pub use passing::{PassThroughLock, PassingReader, PassingWriter};
pub use pin::{keep_off, pin, unpin};
pub use portions::Portions;
pub use rwlock::{ArcRwLockReadGuard, ArcRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use split::SplitCount;
pub use task::{
    Cost, JoinHandle, Panicked, charge, charge_n, cpus, panicking, spawn, thread_number, try_spawn, try_spawn_vital,
    yield_now,
};
pub use time::{Instant, Timespec, now, sleep, wall_clock};
