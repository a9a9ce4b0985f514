//! Events in the order of virtual time, tasks on cores, and the switch between them.
//!
//! A running task has its own time, which runs ahead of the last event's while it charges for work. It is switched out
//! at a synchronisation point if another event is due before that time, if its slice is over and others want a core, or
//! if it waits. All state is of one thread; no borrow of it lasts across a switch.
//!
//! A callback is run by a task that needs no core: one that lies idle, or a new one if all others wait inside theirs.
#![allow(unsafe_code)] // the current simulation and its coroutines' yielders are found through pointers

use super::events::{Action, Events};
use super::waiting::Queues;
use super::{SimConfig, SimFailure, SimReport};
use crate::class::HeldLocks;
use crate::task::Panicked;
use crate::{Cost, Instant};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A task, by the order in which tasks were made.
pub(super) type TaskId = u32;

/// The task that the simulation is for.
const FIRST: TaskId = 0;

/// Why a task was switched out.
#[derive(Clone, Copy, Debug)]
enum Switch {
    /// Others come first; it goes on at its time.
    Due,
    /// Its slice is over; it goes to the end of the queue for cores.
    Slice,
    Blocked,
    /// It waits without leaving its core.
    Spinning,
    /// A task for callbacks has done its own.
    Idle,
}

type Work = Coroutine<(), Switch, ()>;

/// How a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It has left its core.
    Asleep,
    /// It keeps its core for [`SimConfig::spin`], or until somebody else wants it, and then sleeps.
    SpinningFirst,
    /// It keeps its core however long it takes.
    Spinning,
}

/// What a task waits for.
#[derive(Clone, Copy)]
struct WaitsFor {
    what: &'static str,
    /// Since when, in virtual nanoseconds.
    since: u64,
    how: Waits,
    /// Its wait is about to end: who spins does not go to sleep any more.
    woken: bool,
}

struct Task {
    name: String,
    /// Boxed, so that taking it out to run it moves a pointer.
    work: Option<Box<Work>>,
    yielder: *const Yielder<(), Switch>,
    /// Raised with every wait: a wake-up for an earlier one is stale. (It may come round: no wake-up is on its way for
    /// 2^32 waits.)
    wait: u32,
    waits_for: Option<WaitsFor>,
    timed_out: bool,
    held: HeldLocks,
    /// Needs a core to run, as all but those for callbacks do.
    on_core: bool,
    /// Locks it holds whose waiters spin: until it has released them it keeps its core.
    holds_core: u32,
    /// When it got its core: its slice began then, however often events of others have interrupted it since.
    since: u64,
    /// Whether it has one now.
    has_core: bool,
    ended: bool,
}

/// What changes with every event.
#[derive(Default)]
pub(super) struct State {
    events: Events,
    tasks: Vec<Task>,
    /// Tasks that could run and have no core.
    ready: VecDeque<TaskId>,
    /// Tasks that have a core, spin on it, and would sleep if somebody else wanted it: who spins for longest first.
    spinners: VecDeque<TaskId>,
    running: usize,
    /// Time for which cores had a task, in nanoseconds, if each that has one now had it until 0: what it has had since
    /// is to be added.
    busy: i128,
    /// Tasks for callbacks that have nothing to do, and the callback that is being handed to one of them.
    idle: Vec<TaskId>,
    call: Option<Box<dyn FnOnce()>>,
    pub(super) queues: Queues,
    asked: u64,
    random: u64,
}

/// A simulation.
pub(super) struct Sim {
    config: SimConfig,
    state: RefCell<State>,
    current: Cell<TaskId>,
    yielder: Cell<*const Yielder<(), Switch>>,
    /// Time of the current task.
    now: Cell<u64>,
    /// Time of the last event.
    last: Cell<u64>,
    /// Time of the next event, and end of the current task's slice: up to the earlier of the two it goes on
    /// undisturbed.
    next_event: Cell<u64>,
    slice_end: Cell<u64>,
    /// Of the current task, see [`Task::holds_core`] and [`Task::on_core`].
    holds_core: Cell<u32>,
    on_core: Cell<bool>,
    /// Work of each callback that a core owes, since all of them were busy when it was done, and how many those are.
    interrupts: RefCell<VecDeque<u64>>,
    interrupted: Cell<usize>,
    happened: Cell<u64>,
    trace: Cell<u64>,
    /// The first task has ended.
    over: Cell<bool>,
}

thread_local! {
    static CURRENT: Cell<*const Sim> = const { Cell::new(ptr::null()) };

    /// Stacks of tasks that have ended, each with the size that was asked for. For a new one the kernel has to map
    /// memory, and to clear each page that is touched.
    static STACKS: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

/// Stacks that a thread keeps for later tasks.
const STACKS_KEPT: usize = 64;

/// A stack that a task has left, or a new one.
fn take_stack(size: usize) -> std::io::Result<DefaultStack> {
    let left = STACKS.with_borrow_mut(|stacks| {
        let at = stacks.iter().rposition(|(kept, _)| *kept == size)?;
        Some(stacks.swap_remove(at).1)
    });
    left.map_or_else(|| DefaultStack::new(size), Ok)
}

/// Keeps the stack of a task that has ended.
fn keep_stack(size: usize, work: Work) {
    let stack = work.into_stack();
    STACKS.with_borrow_mut(|stacks| {
        if stacks.len() < STACKS_KEPT {
            stacks.push((size, stack));
        }
    });
}

/// Whether this thread runs a simulation.
#[inline(always)]
pub(crate) fn active() -> bool {
    !CURRENT.get().is_null()
}

/// Events so far.
pub(super) fn happened() -> u64 {
    with(|sim| sim.happened.get())
}

/// Time for which cores have had a task so far, of all cores together.
pub(super) fn cpu_time() -> Duration {
    with(|sim| {
        let state = sim.state();
        let busy = state.busy + state.running as i128 * i128::from(sim.now.get());
        // A task may be a little ahead of those that took their cores later than it is asked.
        Duration::from_nanos(u64::try_from(busy).unwrap_or(0))
    })
}

/// Lends the current simulation to `f`, which does not switch.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&Sim) -> R) -> R {
    let sim = CURRENT.get();
    assert!(!sim.is_null(), "outside a simulation");
    // SAFETY: `run` sets the pointer to a simulation that it owns, and clears it before that ends; both on this thread.
    f(unsafe { &*sim })
}

impl Sim {
    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(super) fn current(&self) -> TaskId {
        self.current.get()
    }

    fn ask(&self, state: &mut State, at: u64, action: Action) {
        let tie = self.tie(state);
        state.events.push(at, tie, action);
        self.next_event.set(self.next_event.get().min(at));
    }

    /// Decides between events of one time: the order of asking, or chance if schedules are perturbed. No two are the
    /// same.
    fn tie(&self, state: &mut State) -> u64 {
        state.asked += 1;
        if self.config.seed == 0 { state.asked } else { state.next_random() << 32 | state.asked & 0xffff_ffff }
    }

    /// Ends a task's wait, a little later than now. To wake up who sleeps is work of the current task, or of the
    /// callback; who spins sees by itself what it waits for.
    pub(super) fn wake(&self, task: TaskId) {
        let state = &mut *self.state();
        let Task { wait, ref mut waits_for, .. } = *state.task(task);
        let Some(waited) = waits_for else { return };
        waited.woken = true;
        let WaitsFor { since, how, .. } = *waited;
        let asleep = how == Waits::Asleep;
        if how == Waits::SpinningFirst {
            state.spinners.retain(|other| *other != task);
        }
        if asleep {
            self.now.set(self.now.get() + self.config.costs.of(Cost::WakeUp));
        }
        let latency = if asleep { self.config.wake } else { self.config.handover };
        // A task that has woken others before it waits may have got ahead of the task that wakes it.
        self.ask(state, self.now.get().max(since) + nanos(latency), Action::Wake(task, wait));
    }

    /// Who has spun for so long goes to sleep.
    fn stop_spinning(&self, state: &mut State, task: TaskId, wait: u32) {
        let spinner = state.task(task);
        if spinner.wait != wait {
            return;
        }
        let Some(waited) = spinner.waits_for.as_mut().filter(|it| !it.woken) else { return };
        waited.how = Waits::Asleep;
        self.note(5, task);
        state.spinners.retain(|other| *other != task);
        self.free_core(state, task);
    }

    /// Gives a task a core, or a place in the queue for one.
    fn make_ready(&self, state: &mut State, task: TaskId) {
        if !state.task(task).on_core {
            self.ask(state, self.now.get(), Action::Resume(task));
        } else if state.running < self.config.cores {
            self.give_core(state, task, self.now.get());
        } else {
            state.ready.push_back(task);
            let end = self.end_of_slice(state.task(self.current.get()));
            self.slice_end.set(self.slice_end.get().min(end));
            if let Some(spinner) = state.spinners.pop_front() {
                let wait = state.task(spinner).wait;
                self.stop_spinning(state, spinner, wait);
            }
        }
    }

    /// A task has a core from now on, and goes on at `at`.
    fn give_core(&self, state: &mut State, task: TaskId, at: u64) {
        state.running += 1;
        state.busy -= i128::from(self.now.get());
        let task_of = state.task(task);
        (task_of.since, task_of.has_core) = (at, true);
        self.ask(state, at, Action::Resume(task));
    }

    /// A task has left its core, if it has one: the next one gets it.
    fn free_core(&self, state: &mut State, task: TaskId) {
        if !std::mem::take(&mut state.task(task).has_core) {
            return;
        }
        state.running -= 1;
        state.busy += i128::from(self.now.get());
        if let Some(next) = state.ready.pop_front() {
            self.give_core(state, next, self.now.get() + nanos(self.config.switch));
        }
    }

    /// When a task has had its core for a slice.
    fn end_of_slice(&self, task: &Task) -> u64 {
        if task.on_core { task.since.saturating_add(nanos(self.config.slice)) } else { u64::MAX }
    }

    fn note(&self, what: u64, task: TaskId) {
        self.happened.set(self.happened.get() + 1);
        let word = self.now.get() ^ u64::from(task) << 48 ^ what << 44;
        self.trace.set((self.trace.get() ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23));
    }

    /// Takes the next event and lets it happen; false if there is none.
    fn step(&self) -> bool {
        let (at, action) = {
            let events = &mut self.state().events;
            let Some(event) = events.pop() else { return false };
            self.next_event.set(events.next().unwrap_or(u64::MAX));
            event
        };
        assert!(at >= self.last.get(), "time runs backwards");
        self.last.set(at);
        self.now.set(at);
        match action {
            Action::Resume(task) => {
                self.note(1, task);
                self.resume(task);
            }
            Action::Wake(task, wait) => self.end_wait(task, wait, false),
            Action::Timeout(task, wait) => self.end_wait(task, wait, true),
            Action::Sleep(task, wait) => self.stop_spinning(&mut self.state(), task, wait),
            Action::Call(place) => {
                self.note(4, 0);
                let f = self.state().events.take_call(place);
                self.call(f);
            }
        }
        true
    }

    fn end_wait(&self, task: TaskId, wait: u32, timed_out: bool) {
        let state = &mut *self.state();
        let waiter = state.task(task);
        let Some(waited) = waiter.waits_for.filter(|_| waiter.wait == wait) else { return };
        waiter.waits_for = None;
        waiter.timed_out = timed_out;
        if waited.how == Waits::SpinningFirst {
            state.spinners.retain(|other| *other != task);
        }
        self.note(if timed_out { 3 } else { 2 }, task);
        match waited.how {
            Waits::Asleep => self.make_ready(state, task),
            // It has its core still.
            Waits::SpinningFirst | Waits::Spinning => self.ask(state, self.now.get(), Action::Resume(task)),
        }
    }

    fn resume(&self, id: TaskId) {
        let mut work = {
            let state = &mut *self.state();
            let contested = !state.ready.is_empty();
            let task = state.task(id);
            self.current.set(id);
            self.yielder.set(task.yielder);
            task.held.exchange();
            self.holds_core.set(task.holds_core);
            self.on_core.set(task.on_core);
            self.slice_end.set(if contested { self.end_of_slice(task) } else { u64::MAX });
            task.work.take().unwrap_or_else(|| panic!("task {} runs already", task.name))
        };
        let began = self.now.get();
        let result = work.resume(());
        let state = &mut *self.state();
        let worked = self.now.get() - began;
        if !self.on_core.get() && worked > 0 {
            self.interrupt(state, worked);
        }
        let task = state.task(id);
        task.held.exchange();
        task.holds_core = self.holds_core.get();
        match result {
            CoroutineResult::Return(()) => {
                task.ended = true;
                keep_stack(self.config.stack, *work);
                self.over.set(self.over.get() || id == FIRST);
                self.free_core(state, id);
            }
            CoroutineResult::Yield(why) => {
                task.work = Some(work);
                task.yielder = self.yielder.get();
                match why {
                    Switch::Slice if task.on_core => {
                        state.ready.push_back(id);
                        self.free_core(state, id);
                    }
                    Switch::Due | Switch::Slice => self.ask(state, self.now.get(), Action::Resume(id)),
                    Switch::Blocked => self.free_core(state, id),
                    Switch::Spinning => {}
                    Switch::Idle => state.idle.push(id),
                }
            }
        }
    }

    /// A callback has worked for so long, as an interrupt does: on a core that had nothing to do, or else in the time
    /// of a task.
    fn interrupt(&self, state: &mut State, work: u64) {
        if state.running < self.config.cores {
            state.busy += i128::from(work);
        } else {
            let mut owed = self.interrupts.borrow_mut();
            owed.push_back(work);
            self.interrupted.set(owed.len());
        }
    }

    /// What the core of a task that gets to a synchronisation point does for callbacks: its share of what is owed.
    #[cold]
    fn take_interrupts(&self) -> u64 {
        let mut owed = self.interrupts.borrow_mut();
        let share = owed.len().div_ceil(self.config.cores);
        let work = owed.drain(..share).sum();
        self.interrupted.set(owed.len());
        work
    }

    /// Runs a callback until it ends or waits.
    fn call(&self, f: Box<dyn FnOnce()>) {
        let idle = self.state().idle.pop();
        let task = idle.unwrap_or_else(|| self.add_task("callback", false, Box::new(run_callbacks)));
        let before = self.state().call.replace(f);
        assert!(before.is_none(), "one callback is handed over at a time");
        self.resume(task);
    }

    fn add_task(&self, name: &str, on_core: bool, body: Box<dyn FnOnce()>) -> TaskId {
        let stack = take_stack(self.config.stack).unwrap_or_else(|e| panic!("no stack for task {name}: {e}"));
        let work = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Switch>, ()| {
            with(|sim| sim.yielder.set(ptr::from_ref(yielder)));
            body();
        });
        let state = &mut *self.state();
        let id = TaskId::try_from(state.tasks.len()).expect("fewer than 2^32 tasks");
        state.tasks.push(Task {
            name: name.to_owned(),
            work: Some(Box::new(work)),
            yielder: ptr::null(),
            wait: 0,
            waits_for: None,
            timed_out: false,
            held: HeldLocks::default(),
            holds_core: 0,
            on_core,
            since: 0,
            has_core: false,
            ended: false,
        });
        if on_core {
            self.make_ready(state, id);
        }
        id
    }

    /// A line for every task that waits.
    fn who_waits(&self) -> String {
        let state = self.state();
        let waiting = state.tasks.iter().filter_map(|task| task.waits_for.map(|it| (task, it.what, it.since)));
        let line = |(task, what, since): (&Task, &str, u64)| {
            let held = task.held.names();
            let held = if held.is_empty() { String::new() } else { format!(", holding {}", held.join(", ")) };
            format!("  {} waits for {what} since {since} ns{held}\n", task.name)
        };
        waiting.map(line).collect()
    }
}

impl State {
    fn task(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id as usize]
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a task for callbacks does: what it is handed, until that is nothing.
fn run_callbacks() {
    while let Some(f) = with(|sim| sim.state().call.take()) {
        f();
        switch(Switch::Idle);
    }
}

/// Switches the current task out.
fn switch(why: Switch) {
    let yielder = with(|sim| sim.yielder.get());
    assert!(!yielder.is_null(), "only a task can wait");
    // SAFETY: the yielder lives on the stack of the current task for as long as that runs, and only that task gets
    // here.
    unsafe { (*yielder).suspend(why) }
}

/// One task in 64 is held up at a synchronisation point when schedules are perturbed, for up to two microseconds.
fn perturb(sim: &Sim) {
    if sim.config.seed != 0 {
        let random = sim.state().next_random();
        if random.is_multiple_of(64) {
            sim.now.set(sim.now.get() + (random >> 32) % 2000);
        }
    }
}

/// See [`super::point`].
pub(super) fn point() {
    if std::thread::panicking() {
        return; // whoever unwinds goes on alone: a switch would take the panic to others
    }
    let why = with(|sim| {
        if sim.yielder.get().is_null() {
            return None; // outside all tasks
        }
        let stolen = if sim.interrupted.get() > 0 && sim.on_core.get() { sim.take_interrupts() } else { 0 };
        sim.now.set(sim.now.get() + sim.config.costs.of(Cost::LockOp) + stolen);
        perturb(sim);
        let now = sim.now.get();
        match () {
            () if now >= sim.slice_end.get() && sim.holds_core.get() == 0 => Some(Switch::Slice),
            () if now > sim.next_event.get() => Some(Switch::Due),
            () => None,
        }
    });
    if let Some(why) = why {
        switch(why);
    }
}

/// The current task has taken a lock whose waiters spin: as in a kernel, nothing takes its core away, since all cores
/// might wait for it.
pub(super) fn hold_core() {
    with(|sim| sim.holds_core.set(sim.holds_core.get() + 1));
}

/// It has released one.
pub(super) fn release_core() {
    with(|sim| {
        let held = sim.holds_core.get();
        assert!(held > 0, "a task releases a lock that it does not hold");
        sim.holds_core.set(held - 1);
    });
}

/// Waits until [`Sim::wake`] or the end of the time; true if that was it. The caller is in a queue already.
pub(super) fn block(what: &'static str, how: Waits, timeout: Option<Duration>) -> bool {
    let how = with(|sim| {
        let (state, now) = (&mut *sim.state(), sim.now.get());
        let id = sim.current();
        let may_sleep = how == Waits::Spinning || sim.holds_core.get() == 0 || std::thread::panicking();
        assert!(may_sleep, "a task sleeps, waiting for {what}, while it holds a lock whose waiters spin");
        let yields = sim.config.spin.is_zero() || !state.ready.is_empty();
        let how = if how == Waits::SpinningFirst && yields { Waits::Asleep } else { how };
        let task = state.task(id);
        task.wait = task.wait.wrapping_add(1);
        task.waits_for = Some(WaitsFor { what, since: now, how, woken: false });
        task.timed_out = false;
        let (wait, has_core) = (task.wait, task.has_core);
        if how == Waits::SpinningFirst {
            if has_core {
                state.spinners.push_back(id);
            }
            sim.ask(state, now.saturating_add(nanos(sim.config.spin)), Action::Sleep(id, wait));
        }
        if let Some(timeout) = timeout {
            sim.ask(state, now.saturating_add(nanos(timeout)), Action::Timeout(id, wait));
        }
        how
    });
    switch(if how == Waits::Asleep { Switch::Blocked } else { Switch::Spinning });
    with(|sim| sim.state().task(sim.current()).timed_out)
}

/// Whether a task runs now: a waiter for a lock of its spins only then. One that is not known may.
pub(super) fn may_run(task: Option<TaskId>) -> bool {
    let Some(task) = task else { return true };
    with(|sim| sim.state().tasks.get(task as usize).is_none_or(|task| task.has_core || !task.on_core))
}

/// The current task.
pub(super) fn current() -> TaskId {
    with(Sim::current)
}

/// Suspends the current task.
pub(crate) fn sleep(duration: Duration) {
    block("a time to come", Waits::Asleep, Some(duration));
}

/// Lets every task run that could.
pub(crate) fn yield_now() {
    let others = with(|sim| !sim.state().ready.is_empty());
    // Without anybody in the queue the rest of this instant comes first, and time moves on, so that who polls does not
    // poll for ever.
    if others && with(|sim| sim.holds_core.get() == 0) {
        switch(Switch::Slice);
    } else {
        with(|sim| sim.now.set(sim.now.get() + nanos(sim.config.switch)));
        switch(Switch::Due);
    }
}

/// The virtual clock of the current task.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(with(|sim| sim.now.get()))
}

/// Virtual cores.
pub(crate) fn cores() -> usize {
    with(|sim| sim.config.cores)
}

/// Lets time pass for CPU work.
pub(crate) fn charge(cost: Cost, n: u64) {
    with(|sim| sim.now.set(sim.now.get() + sim.config.costs.of(cost) * n));
}

/// Number of the current task: tasks are numbered in the order in which they were started.
pub(crate) fn task_number() -> usize {
    with(|sim| sim.current() as usize)
}

/// Lets the time pass that a write takes of a line which other cores write too: one after the other. `free_at` is when
/// the last of them was done.
pub(crate) fn write_line(free_at: u64) -> u64 {
    with(|sim| {
        sim.now.set(sim.now.get().max(free_at) + sim.config.costs.of(Cost::SharedAtomic));
        sim.now.get()
    })
}

/// See [`super::compute`].
pub(super) fn compute(work: Duration) {
    with(|sim| sim.now.set(sim.now.get().saturating_add(nanos(work))));
}

/// See [`super::call_after`].
pub(super) fn call_after(delay: Duration, f: Box<dyn FnOnce()>) {
    with(|sim| {
        let (state, at) = (&mut *sim.state(), sim.now.get().saturating_add(nanos(delay)));
        let tie = sim.tie(state);
        state.events.push_call(at, tie, f);
        sim.next_event.set(sim.next_event.get().min(at));
    });
}

/// Where a task leaves its result.
#[derive(Debug)]
pub(crate) struct JoinSlot<T> {
    result: parking_lot::Mutex<Option<Result<T, Panicked>>>,
    task: String,
}

impl<T> JoinSlot<T> {
    /// Waits for the task to end and takes what it left.
    pub(crate) fn join(self: Arc<Self>) -> Result<T, Panicked> {
        loop {
            point();
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            super::wait_notified(self.addr(), "another task to end", None);
        }
    }

    /// Whether the task has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.result.lock().is_some()
    }

    /// Whether the caller is that task.
    pub(crate) fn is_current(&self) -> bool {
        active() && with(|sim| sim.state().task(sim.current()).name == self.task)
    }

    fn addr(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// Starts a task.
pub(crate) fn spawn<T: 'static>(name: &str, f: Box<dyn FnOnce() -> T + Send>) -> Arc<JoinSlot<T>> {
    point();
    let number = with(|sim| sim.state().tasks.len());
    let name = format!("{name}#{number}");
    let slot = Arc::new(JoinSlot { result: parking_lot::Mutex::new(None), task: name.clone() });
    let (mine, thread) = (Arc::clone(&slot), name.clone());
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Panicked::new(thread, &*payload));
        point(); // nobody may find the result before the time at which the task ends, nor see the task go on afterwards
        *mine.result.lock() = Some(result);
        super::waiting::notify(mine.addr(), true);
    };
    with(|sim| sim.add_task(&name, true, Box::new(body)));
    slot
}

/// Clears the pointer to the simulation, however it ends.
struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// See [`super::run`].
pub(super) fn run<T: 'static>(config: SimConfig, f: Box<dyn FnOnce() -> T>) -> Result<SimReport<T>, SimFailure> {
    assert!(!active(), "simulations do not nest");
    assert!(config.cores > 0, "a simulation needs a core");
    let seed = config.seed;
    let sim = Sim {
        config,
        state: RefCell::new(State { random: seed, ..State::default() }),
        current: Cell::new(0),
        yielder: Cell::new(ptr::null()),
        now: Cell::new(0),
        last: Cell::new(0),
        next_event: Cell::new(u64::MAX),
        slice_end: Cell::new(u64::MAX),
        holds_core: Cell::new(0),
        on_core: Cell::new(false),
        interrupts: RefCell::default(),
        interrupted: Cell::new(0),
        happened: Cell::new(0),
        trace: Cell::new(seed),
        over: Cell::new(false),
    };
    CURRENT.set(&raw const sim);
    let _entered = Entered;
    let result = Rc::new(RefCell::new(None));
    let mine = Rc::clone(&result);
    let body = move || {
        crate::reset_lock_stats();
        let value = catch_unwind(AssertUnwindSafe(f)).map_err(|p| Panicked::new("first".to_owned(), &*p));
        *mine.borrow_mut() = Some(value);
    };
    let first = sim.add_task("first", true, Box::new(body));
    assert!(first == FIRST, "nothing runs before the first task");
    while !sim.over.get() {
        if !sim.step() {
            let who = sim.who_waits();
            forget_tasks(&sim);
            return Err(SimFailure::Deadlock(who));
        }
        sim.yielder.set(ptr::null());
    }
    let unfinished = forget_tasks(&sim);
    let value = result.borrow_mut().take();
    match value {
        Some(Ok(value)) => Ok(SimReport {
            value,
            elapsed: Duration::from_nanos(sim.now.get()),
            events: sim.happened.get(),
            trace: sim.trace.get(),
            unfinished,
        }),
        Some(Err(panicked)) => Err(SimFailure::Panicked(panicked.message)),
        None => Err(SimFailure::Panicked("it left no result".to_owned())),
    }
}

/// Leaves the tasks that have not ended as they are: unwinding them would run code that waits for others. Their names.
fn forget_tasks(sim: &Sim) -> Vec<String> {
    while let Some(idle) = { sim.state().idle.pop() } {
        sim.resume(idle); // without a callback, it ends
    }
    let tasks = std::mem::take(&mut sim.state().tasks);
    let events = std::mem::take(&mut sim.state().events);
    drop(events);
    let mut names = Vec::new();
    for mut task in tasks.into_iter().filter(|task| !task.ended) {
        std::mem::forget(task.work.take());
        names.push(task.name);
    }
    names
}
