//! Threads, and what CPU work costs.
//!
//! [`charge`] is how code tells a virtual clock that it worked: the operating system measures by itself, so there it
//! does nothing.

use crate::pin;
use crate::sim::{self, JoinSlot};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A thread that was started by [`spawn`]. Dropping the handle lets the thread run on by itself.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: Inner<T>,
}

#[derive(Debug)]
enum Inner<T> {
    Thread(std::thread::JoinHandle<T>),
    Task(Arc<JoinSlot<T>>),
}

impl<T> JoinHandle<T> {
    /// Waits for the thread to end; its value, or the panic that ended it.
    pub fn join(self) -> Result<T, Panicked> {
        match self.inner {
            Inner::Task(task) => task.join(),
            Inner::Thread(thread) => {
                let name = thread.thread().name().unwrap_or("?").to_owned();
                thread.join().map_err(|payload| Panicked::new(name, &*payload))
            }
        }
    }

    /// True once the thread has ended, so that [`JoinHandle::join`] returns at once.
    pub fn is_finished(&self) -> bool {
        match &self.inner {
            Inner::Thread(thread) => thread.is_finished(),
            Inner::Task(task) => task.is_finished(),
        }
    }

    /// True when called on the thread this handle stands for, which cannot join itself.
    pub fn is_current(&self) -> bool {
        match &self.inner {
            Inner::Thread(thread) => thread.thread().id() == std::thread::current().id(),
            Inner::Task(task) => task.is_current(),
        }
    }
}

/// The panic that ended a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    /// Name of the thread.
    pub thread: String,
    /// The panic message, where it was text.
    pub message: String,
}

impl Panicked {
    /// From what a panic carried.
    pub(crate) fn new(thread: String, payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().cloned();
        let message = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Panicked { thread, message: message.unwrap_or_else(|| "no message".to_owned()) }
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} panicked: {}", self.thread, self.message)
    }
}

impl std::error::Error for Panicked {}

/// Starts a thread called `name` (the system shows 15 bytes of it).
///
/// # Panics
/// If the system gives no thread; use [`try_spawn`] where that can be survived.
pub fn spawn<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    try_spawn(name, f).unwrap_or_else(|error| panic!("cannot start thread {name}: {error}"))
}

/// Starts a thread called `name`, or says why the system gave none.
pub fn try_spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    start(name, Box::new(f))
}

/// Behind a pointer, so that one copy of all that starts a thread serves every function with the same kind of value.
fn start<T: Send + 'static>(name: &str, f: Box<dyn FnOnce() -> T + Send>) -> std::io::Result<JoinHandle<T>> {
    if sim::is_active() {
        return Ok(JoinHandle { inner: Inner::Task(sim::spawn(name, f)) });
    }
    let free = pin::free();
    let inner = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        pin::restore(free);
        f()
    })?;
    Ok(JoinHandle { inner: Inner::Thread(inner) })
}

/// Like [`try_spawn`], for a thread that others wait for without joining it, such as one that completes I/O: if it
/// panics, the process aborts after the panic message. Its waiters would hang otherwise.
pub fn try_spawn_vital<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    struct AbortOnPanic;
    impl Drop for AbortOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("a thread that others depend on has panicked; giving up");
                std::process::abort();
            }
        }
    }
    try_spawn(name, || {
        let _guard = AbortOnPanic;
        f()
    })
}

/// Whether this thread is unwinding from a panic: for guards of what must not be used half changed.
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// Lets other threads run.
pub fn yield_now() {
    if sim::is_active() {
        return sim::yield_now();
    }
    std::thread::yield_now();
}

/// Number of CPUs that threads of this run can use, at least 1; as it was when the process first asked.
pub fn cpus() -> usize {
    if sim::is_active() {
        return sim::cores();
    }
    if let Some(free) = pin::free() {
        return usize::try_from(free.count()).unwrap_or(1).max(1);
    }
    // The control group's limits are in files: twenty system calls for each of thousands of mounts in one process.
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A number of the calling thread (in a simulation: task): threads that live at the same time mostly differ in it by
/// less than there are of them. For counters and lists that threads have apart.
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if sim::is_active() {
        return sim::task_number();
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

/// A kind of CPU work with a price in the calibrated table of a simulation. One unit is what the variant says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cost {
    /// Entering and leaving the file system once, as a system call or a request from the mount.
    SyscallEntry,
    /// Copying one 4 KiB page.
    PageCopy,
    /// Filling one 4 KiB page with zeros.
    PageZero,
    /// A checksum over one 4 KiB page.
    Checksum,
    /// One look-up in the page cache or another radix tree.
    RadixLookup,
    /// One look-up in the node cache or NAT.
    NodeLookup,
    /// One slot of a directory that a search looks at, or another comparison of two small keys.
    DentryScan,
    /// Allocating one block from a log head.
    BlockAlloc,
    /// Updating the segment state of one block: bitmap bit, valid count, summary entry.
    SegmentUpdate,
    /// Examining one victim candidate.
    VictimScan,
    /// Preparing and submitting one device request.
    BioSubmit,
    /// Handling the completion of one device request.
    BioComplete,
    /// One uncontended lock and unlock.
    LockOp,
    /// One atomic read-modify-write on a line that other CPUs write too.
    SharedAtomic,
    /// One journal or log record formatted in memory.
    LogRecord,
    /// Waking up one thread that sleeps, for the thread that wakes it.
    WakeUp,
    /// A kernel's work on one page that a write makes dirty, beside its look-up and its copy: the page is taken or
    /// found, locked, marked, counted and put on lists.
    PageWrite,
    /// A kernel's work on one page that is written back, beside its node, its block and its request.
    PageWriteback,
    /// A kernel's work on one block that a collector moves, beside its node, its block and its requests.
    PageMove,
    /// A kernel's work on one operation that changes names, beside its searches, its nodes and its pages: the path, an
    /// inode and an entry in memory, permissions.
    NameChange,
}

impl Cost {
    /// Every kind.
    pub const ALL: [Cost; 20] = [
        Cost::SyscallEntry,
        Cost::PageCopy,
        Cost::PageZero,
        Cost::Checksum,
        Cost::RadixLookup,
        Cost::NodeLookup,
        Cost::DentryScan,
        Cost::BlockAlloc,
        Cost::SegmentUpdate,
        Cost::VictimScan,
        Cost::BioSubmit,
        Cost::BioComplete,
        Cost::LockOp,
        Cost::SharedAtomic,
        Cost::LogRecord,
        Cost::WakeUp,
        Cost::PageWrite,
        Cost::PageWriteback,
        Cost::PageMove,
        Cost::NameChange,
    ];
}

/// Accounts for one unit of CPU work. Free outside a simulation.
#[inline(always)]
pub fn charge(cost: Cost) {
    charge_n(cost, 1);
}

/// Accounts for `n` units of CPU work. Free outside a simulation.
#[inline(always)]
pub fn charge_n(cost: Cost, n: u64) {
    if sim::is_active() {
        sim::charge(cost, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_return_values_and_panics() {
        assert_eq!(spawn("seven", || 7).join(), Ok(7));
        let panicked: Result<(), _> = spawn("bad", || panic!("reason {}", 1)).join();
        assert_eq!(panicked, Err(Panicked { thread: "bad".into(), message: "reason 1".into() }));
    }

    /// Runs itself in a process of its own, which has to abort.
    #[test]
    fn a_vital_thread_takes_the_process_with_it() {
        const CHILD: &str = "STEADYFS_RT_TEST_CHILD";
        if std::env::var_os(CHILD).is_some() {
            let vital = try_spawn_vital("vital", || panic!("on purpose"));
            let result: Result<(), _> = vital.expect("a thread").join();
            panic!("outlived {result:?}");
        }
        let name = "task::tests::a_vital_thread_takes_the_process_with_it";
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test's program"));
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("on purpose") && text.contains("giving up") && !text.contains("outlived"), "{text}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "SIGABRT");
        assert_eq!(try_spawn_vital("calm", || 3).expect("a thread").join(), Ok(3));
    }

    #[test]
    fn a_thread_knows_its_own_handle() {
        let handle = spawn("other", || {});
        assert!(!handle.is_current());
        assert!(handle.join().is_ok());
        assert!(cpus() >= 1);
        yield_now();
        charge(Cost::PageCopy);
    }
}
