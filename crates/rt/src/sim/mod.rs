//! Deterministic virtual time: the same code on N virtual cores, on one thread.
//!
//! [`run`] runs a function as the first task of a simulation. Inside, every lock, condition variable, sleep, thread and
//! clock of this crate works in virtual time. A task is a coroutine, and runs on one of the virtual cores. It costs
//! nothing but what it [charges](crate::charge), what it waits for, and what locking and switching cost
//! ([`SimConfig`]). The same seed gives the same schedule; [`SimReport::trace`] is a hash of it.
//!
//! - `events`: what is due when; `scheduler`: cores, tasks, the switch between them;
//! - `waiting`: who waits for which lock or condition, found by its address;
//! - [`Costs`]: the price of each kind of CPU work.
//!
//! Kept true: a task acts at a synchronisation point (taking or releasing a lock, waiting, notifying) only when no
//! other event is due before its own time, so all such points happen in the order of virtual time. When nothing can
//! ever happen again and the first task has not ended, the simulation ends with [`SimFailure::Deadlock`], which names
//! who waits for what.
//!
//! Outside a simulation all this costs one look at a thread-local flag per lock operation.

mod costs;
mod events;
mod scheduler;
mod waiting;

use crate::LockClass;
pub use costs::Costs;
use scheduler::Waits;
pub(crate) use scheduler::{JoinSlot, active};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
pub(crate) use waiting::Share;

/// What a simulation runs on.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Virtual cores: how many tasks run at a time.
    pub cores: usize,
    /// 0: what is due at one time happens in the order in which it was asked for. Else such ties are broken at random,
    /// and tasks are now and then held up at synchronisation points; the same number gives the same schedule.
    pub seed: u64,
    /// Price of CPU work.
    pub costs: Costs,
    /// How long a task keeps its core while others wait for one.
    pub slice: Duration,
    /// From the release of a lock, or a notification, to the moment when the waiter runs, if it sleeps and a core has
    /// nothing else to do. The task that wakes it works for [`Cost::WakeUp`](crate::Cost::WakeUp) before that.
    pub wake: Duration,
    /// How long a waiter for a lock keeps its core before it sleeps, if who holds the lock has one, too, and nobody
    /// else wants this one. Who waits for a notification sleeps at once.
    pub spin: Duration,
    /// What handing over to a spinning waiter takes. It is not work of the task that releases the lock.
    pub handover: Duration,
    /// Switching a core from one task to another.
    pub switch: Duration,
    /// Bytes of a task's stack.
    pub stack: usize,
}

impl Default for SimConfig {
    /// One core; `docs/lab/PARAMETERS.md` has the source of each figure, as of the prices ([`Costs`]).
    fn default() -> Self {
        SimConfig {
            cores: 1,
            seed: 0,
            costs: Costs::default(),
            slice: Duration::from_millis(3),
            wake: Duration::from_nanos(2000),
            spin: Duration::from_micros(20),
            handover: Duration::from_nanos(162),
            switch: Duration::from_nanos(1055),
            stack: 512 << 10,
        }
    }
}

impl SimConfig {
    /// One core on which nothing takes time but what is told to: sleeping, computing, devices.
    pub fn timeless() -> Self {
        let zero = Duration::ZERO;
        SimConfig { costs: Costs::free(), wake: zero, spin: zero, handover: zero, switch: zero, ..SimConfig::default() }
    }
}

/// What a simulation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimReport<T> {
    /// What the first task returned.
    pub value: T,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Events that took place: tasks resumed and woken.
    pub events: u64,
    /// Hash of all events: when, which task, what.
    pub trace: u64,
    /// Tasks that had not ended when the first one did. They never run again, and what they own is not dropped.
    pub unfinished: Vec<String>,
}

/// Why a simulation ended before its first task did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimFailure {
    /// Every task waits, and nothing is due that could wake one: a line for each, with what it waits for and (in debug
    /// builds) holds.
    Deadlock(String),
    /// The first task panicked.
    Panicked(String),
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimFailure::Deadlock(who) => write!(f, "every task waits for ever:\n{who}"),
            SimFailure::Panicked(message) => write!(f, "the first task panicked: {message}"),
        }
    }
}

impl std::error::Error for SimFailure {}

/// Runs `f` in a new simulation until it returns.
///
/// # Errors
/// See [`SimFailure`].
///
/// # Panics
/// Inside another simulation, or without a core.
pub fn run<T: 'static>(config: SimConfig, f: impl FnOnce() -> T + 'static) -> Result<SimReport<T>, SimFailure> {
    scheduler::run(config, Box::new(f))
}

/// Whether the caller is in a simulation.
pub fn is_active() -> bool {
    active()
}

/// Events that have taken place in the caller's simulation so far, as [`SimReport::events`] counts them; 0 outside one.
pub fn events() -> u64 {
    if active() { scheduler::happened() } else { 0 }
}

/// For how long cores have been busy so far in the caller's simulation, all of them together, switches included; zero
/// outside one.
pub fn cpu_time() -> Duration {
    if active() { scheduler::cpu_time() } else { Duration::ZERO }
}

/// The calling task computes for so long, on its core; nothing outside a simulation. For work that has no price of its
/// own: somebody else's program.
pub fn compute(work: Duration) {
    if active() {
        scheduler::compute(work);
        point();
    }
}

/// Calls `f` when so much virtual time has passed, as an interrupt does. For devices, whose requests complete without a
/// thread of their own. It waits for no core, and what it charges is the time of one: of an idle one, or, if all are
/// busy, of a task that gets to a synchronisation point. Of callbacks that ended meanwhile each task pays for one, or
/// for its share if there are more than cores. It may take locks and wait like any task; callbacks that are due
/// meanwhile do not wait for it.
///
/// # Panics
/// Outside a simulation.
pub fn call_after(delay: Duration, f: impl FnOnce() + 'static) {
    scheduler::call_after(delay, Box::new(f));
}

/// A point where a task takes or gives up something that others may want: everything that is due before happens first.
#[inline(always)]
pub(crate) fn point() {
    if active() {
        scheduler::point();
    }
}

/// Part of a guard, in front of the lock's own: before the lock is released, everything that is due before happens.
#[derive(Debug)]
pub(crate) struct BeforeRelease;

impl Drop for BeforeRelease {
    #[inline(always)]
    fn drop(&mut self) {
        point();
    }
}

/// Part of a guard, behind the lock's own: when the lock has been released, who waited for it gets the chance.
#[derive(Debug)]
pub(crate) struct AfterRelease {
    addr: usize,
    spins: bool,
}

impl AfterRelease {
    /// The lock at this address has just been taken.
    #[inline(always)]
    pub(crate) fn new(addr: usize, class: &LockClass) -> Self {
        let spins = class.spins() && active();
        if spins {
            scheduler::hold_core();
        }
        AfterRelease { addr, spins }
    }

    pub(crate) fn addr(&self) -> usize {
        self.addr
    }
}

impl Drop for AfterRelease {
    #[inline(always)]
    fn drop(&mut self) {
        if active() {
            if self.spins {
                scheduler::release_core();
            }
            waiting::released(self.addr);
        }
    }
}

/// Which task holds a lock alone: part of the lock. A waiter for it spins while that task runs, as waiters for a
/// kernel's mutex do.
#[derive(Debug)]
pub(crate) struct Owner(AtomicU32);

impl Owner {
    /// Nobody that is known.
    pub(crate) const fn new() -> Self {
        Owner(AtomicU32::new(u32::MAX))
    }

    /// The caller has taken the lock.
    #[inline(always)]
    pub(crate) fn set(&self) {
        if active() {
            self.0.store(scheduler::current(), Relaxed);
        }
    }

    /// The caller shares the lock with others.
    #[inline(always)]
    pub(crate) fn share(&self) {
        if active() {
            self.0.store(u32::MAX, Relaxed);
        }
    }

    fn get(&self) -> Option<u32> {
        Some(self.0.load(Relaxed)).filter(|task| *task != u32::MAX)
    }
}

/// Takes a lock: tries until it succeeds, waiting in between. The first try has failed.
#[cold]
pub(crate) fn take<G>(
    addr: usize,
    class: &'static LockClass,
    owner: &Owner,
    share: Share,
    mut attempt: impl FnMut() -> Option<G>,
) -> G {
    let mut again = false;
    loop {
        let how = match class.spins() {
            true => Waits::Spinning,
            false if scheduler::may_run(owner.get()) => Waits::SpinningFirst,
            false => Waits::Asleep,
        };
        waiting::wait(addr, class.name(), waiting::Place { share, front: again, how }, None);
        if let Some(guard) = attempt() {
            return guard;
        }
        again = true;
    }
}

/// A lock was released without a guard's drop.
pub(crate) fn unlocked(addr: usize, class: &LockClass) {
    if class.spins() {
        scheduler::release_core();
    }
    waiting::released(addr);
}

/// A lock was taken again for a guard that stayed.
pub(crate) fn locked_again(class: &LockClass) {
    if class.spins() {
        scheduler::hold_core();
    }
}

/// Whether somebody waits for the lock.
pub(crate) fn somebody_waits(addr: usize) -> bool {
    waiting::somebody_waits(addr)
}

/// Whether somebody waits to take the lock exclusively.
pub(crate) fn writer_waits(addr: usize) -> bool {
    waiting::writer_waits(addr)
}

/// Waits for a notification at an address; true if the time ran out first.
pub(crate) fn wait_notified(addr: usize, what: &'static str, timeout: Option<Duration>) -> bool {
    waiting::wait(addr, what, waiting::Place { share: Share::Alone, front: false, how: Waits::Asleep }, timeout)
}

/// Wakes the tasks that wait at an address, or the first of them.
pub(crate) fn notify(addr: usize, all: bool) {
    point();
    waiting::notify(addr, all);
}

pub(crate) use scheduler::{charge, cores, now, sleep, spawn, task_number, write_line, yield_now};
