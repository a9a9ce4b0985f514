//! Runs a target on many inputs and watches it: panics in any thread, time, and memory.
//!
//! - A panic is caught and collected with the number of the input; all distinct ones are reported at the end, so that
//!   one run finds many faults. A panic of a thread that the target started counts too.
//! - An input that takes longer than [`TIME_LIMIT`] ends the process with a message: a thread that hangs cannot be
//!   stopped.
//! - The memory that the thread of the test holds at one time is counted, and compared with what the target allows.
//!   The address space of the process is limited as well, which catches what other threads allocate.
//!
//! `STEADYFS_FUZZ_INPUT=TARGET:NUMBER` runs one input, without catching anything; `STEADYFS_FUZZ_COUNT=N` runs N
//! instead of 10,000, or of the fewer of [`FEWER`].

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, Once};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use steadyfs_fuzzing::Target;
use steadyfs_fuzzing::mutate::mutate;
use steadyfs_fuzzing::rng::Rng;

/// How long one input may take. Generous: a sound one takes milliseconds, but the machine may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How often the watchdog looks. It counts its looks, so that a process that was stopped and went on is not taken for
/// one that hangs.
const LOOK: Duration = Duration::from_millis(500);
/// Most address space of the whole process.
const ADDRESS_SPACE: u64 = 8 << 30;
/// Inputs per target.
const COUNT: u64 = 10_000;
/// Targets that take longer for each: what is tried of them here is less.
const FEWER: [(&str, u64); 5] =
    [("replay", 1_000), ("iplfs_check", 1_000), ("iplfs_mount", 1_000), ("verdict", 400), ("iplfs_verdict", 400)];

/// An input that is running.
struct Run {
    thread: ThreadId,
    target: &'static str,
    number: u64,
    /// Looks of the watchdog that it has outlived.
    looks: u32,
}

/// What is running.
static RUNNING: Mutex<Vec<Run>> = Mutex::new(Vec::new());
/// Panics since somebody last looked: the thread and the message with its place.
static PANICS: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs all inputs of a target and panics with a list of the faults that they showed.
pub(crate) fn run_all(target: &'static Target) {
    if let Some(number) = only_input(target.name) {
        let input = input(target, &(target.seeds)(), number);
        eprintln!("{} input {number}: {} bytes: {:02x?}", target.name, input.len(), &input[..input.len().min(64)]);
        (target.run)(&input);
        return;
    }
    start_watching();
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has inputs to start from", target.name);
    let mut faults: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut largest, mut slowest) = ((0, 0), (Duration::ZERO, 0));
    let began = Instant::now();
    // First of all the sound ones: a target that fails on those tests nothing.
    let count = count(target.name);
    for number in 0..count {
        let input = input(target, &seeds, number);
        let (memory, time, fault) = run_one(target, number, &input);
        for fault in fault {
            faults.entry(fault).or_insert((number, 0)).1 += 1;
        }
        largest = largest.max((memory, number));
        slowest = slowest.max((time, number));
    }
    let took = began.elapsed();
    println!(
        "{}: {count} inputs in {took:.1?}; most memory {} KiB (input {}), slowest {:.1?} (input {})",
        target.name,
        largest.0 >> 10,
        largest.1,
        slowest.0,
        slowest.1
    );
    let list: Vec<_> =
        faults.iter().map(|(fault, (first, times))| format!("{times}x, first {first}: {fault}")).collect();
    assert!(list.is_empty(), "{} of {count} inputs:\n{}", target.name, list.join("\n"));
}

/// Input number `number`: the sound ones come first, then changed ones.
fn input(target: &Target, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let index = number as usize;
    if let Some(seed) = seeds.get(index) {
        return seed.clone();
    }
    let mut rng = Rng::of(target.name, number);
    if target.volume {
        let mut bytes = rng.bytes(1);
        // A few bytes per change and per operation; no change is the zero that ends them.
        let count = 8 << rng.below(5);
        bytes.extend(rng.bytes(count).into_iter().map(|byte| byte.max(1)));
        bytes.push(0);
        bytes.extend(rng.bytes(200));
        return bytes;
    }
    let mut bytes = seeds[rng.below(seeds.len())].clone();
    mutate(&mut rng, &mut bytes);
    bytes
}

/// Runs one input; returns the bytes it held at most, the time it took, and its faults.
fn run_one(target: &'static Target, number: u64, input: &[u8]) -> (u64, Duration, Vec<String>) {
    let me = std::thread::current().id();
    lock(&RUNNING).push(Run { thread: me, target: target.name, number, looks: 0 });
    let began = Instant::now();
    let info = allocation_counter::measure(|| {
        let _: Result<(), Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    });
    let took = began.elapsed();
    lock(&RUNNING).retain(|run| run.thread != me);
    // Panics of threads that no test runs in belong to some running target; two targets may both report one.
    let mut panics = lock(&PANICS);
    let running: Vec<_> = lock(&RUNNING).iter().map(|run| run.thread).collect();
    let mut faults = Vec::new();
    panics.retain(|(thread, message)| {
        let other = *thread != me && running.contains(thread);
        if !other {
            faults.push(message.clone());
        }
        other
    });
    let limit = target.memory + 2 * input.len();
    if info.bytes_max > limit as u64 {
        faults.push(format!("held more than {} KiB", limit >> 10));
    }
    (info.bytes_max, took, faults)
}

/// The input that the environment asks for, if it asks for one of this target; with another target's, nothing is to be
/// run.
fn only_input(name: &str) -> Option<u64> {
    let wish = std::env::var("STEADYFS_FUZZ_INPUT").ok()?;
    let (target, number) = wish.rsplit_once(':')?;
    (target == name).then(|| number.parse().expect("TARGET:NUMBER"))
}

fn count(name: &str) -> u64 {
    let usual = FEWER.iter().find(|(target, _)| *target == name).map_or(COUNT, |(_, count)| *count);
    std::env::var("STEADYFS_FUZZ_COUNT").map_or(usual, |count| count.parse().expect("a number of inputs"))
}

/// Installs the panic hook, the watchdog and the limit of the address space, once per process.
fn start_watching() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("?");
            let place = info.location().map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
            let thread = std::thread::current();
            if lock(&RUNNING).iter().any(|run| run.thread == thread.id()) || thread.name().is_none() {
                lock(&PANICS).push((thread.id(), format!("{place}: {text}")));
            } else if thread.name().is_some_and(|name| name.starts_with("steadyfs")) {
                lock(&PANICS).push((thread.id(), format!("{place}: {text} (thread {thread:?})")));
            } else {
                eprintln!("{thread:?}: {place}: {text}");
            }
        }));
        let limit = rustix::process::Rlimit { current: Some(ADDRESS_SPACE), maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).expect("a lower limit is always allowed");
        std::thread::spawn(watch);
    });
}

/// Ends the process when an input takes too long.
fn watch() {
    loop {
        std::thread::sleep(LOOK);
        for Run { target, number, looks, .. } in lock(&RUNNING).iter_mut() {
            *looks += 1;
            if LOOK * *looks > TIME_LIMIT {
                eprintln!("{target}: input {number} hangs; STEADYFS_FUZZ_INPUT={target}:{number} runs it alone");
                std::process::abort();
            }
        }
    }
}
