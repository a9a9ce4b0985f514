//! The housekeeper: the thread in which a mounted volume does what it does by itself.
//!
//! It wakes every second, or when poked. `housekeeping` says what it does then.

use crate::options::COMMIT_SECONDS;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{EventCount, JoinHandle, Mutex, spawn};

/// How long the housekeeper sleeps between looks.
const TICK: Duration = Duration::from_secs(1);

/// The housekeeper of a volume.
pub(crate) struct Background {
    wake: Arc<EventCount>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Seconds between checkpoints while there are changes, unless the options of the mount say how many.
    pub(crate) usual_commit: AtomicU64,
}

impl Background {
    /// No housekeeper yet.
    pub(crate) fn new() -> Self {
        Background {
            wake: Arc::new(EventCount::new()),
            stop: Arc::new(AtomicBool::new(false)),
            thread: Mutex::new(&crate::locks::STATE, None),
            usual_commit: AtomicU64::new(COMMIT_SECONDS),
        }
    }

    /// Starts the housekeeper of a writable volume: it runs `tick` every second, until that says that the volume is
    /// gone.
    pub(crate) fn start(&self, tick: impl FnMut() -> bool + Send + 'static) {
        let (wake, stop) = (Arc::clone(&self.wake), Arc::clone(&self.stop));
        let thread = spawn("steadyfs-housekeeper", move || run(tick, &wake, &stop));
        *self.thread.lock() = Some(thread);
    }

    /// Ends the housekeeper and waits for it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake.notify_all();
        let thread = self.thread.lock().take();
        // The housekeeper itself may hold the last reference to the volume; it must not wait for itself.
        if let Some(thread) = thread.filter(|t| !t.is_current())
            && thread.join().is_err()
        {
            tracing::error!("the housekeeper panicked");
        }
    }
}

fn run(mut tick: impl FnMut() -> bool, wake: &EventCount, stop: &AtomicBool) {
    loop {
        let key = wake.listen();
        if stop.load(SeqCst) {
            return;
        }
        wake.wait_timeout(key, TICK);
        if stop.load(SeqCst) || !tick() {
            return;
        }
    }
}
