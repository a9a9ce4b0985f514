//! The flusher: the thread that writes file pages which have been dirty for long, or earlier when many are.
//!
//! `flush` says which pages it writes.

use crate::files::pages::Budget;
use crate::volume::io::depth::Depth;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{JoinHandle, Mutex, spawn};

/// How often the flusher looks for old pages.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// The flusher thread of a volume.
pub(crate) struct Flusher {
    stop: Arc<AtomicBool>,
    /// Its requests at the device.
    pub(super) depth: Arc<Depth>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    /// No flusher yet.
    pub(crate) fn new() -> Self {
        Flusher { stop: Arc::default(), depth: Arc::default(), thread: Mutex::new(&crate::locks::STATE, None) }
    }

    /// Starts the flusher of a writable volume: from time to time, or when many pages are dirty, it runs `round`, until
    /// that says that the volume is gone.
    pub(super) fn start(&self, budget: &Budget, round: impl Fn() -> bool + Send + 'static) {
        let (stop, budget) = (Arc::clone(&self.stop), budget.clone());
        budget.note_flusher(true);
        let thread = spawn("steadyfs-flusher", move || {
            while !stop.load(SeqCst) {
                budget.wait_for_call(|| stop.load(SeqCst) || budget.wants_flush(), INTERVAL);
                if stop.load(SeqCst) || !round() {
                    break;
                }
            }
            budget.note_flusher(false);
        });
        let earlier = self.thread.lock().replace(thread);
        assert!(earlier.is_none(), "a volume has two flushers");
    }

    /// Ends the flusher and waits for it. Pages that are dirty stay so.
    pub(crate) fn stop(&self, budget: &Budget) {
        self.stop.store(true, SeqCst);
        budget.note_flusher(false);
        budget.call_flusher();
        let thread = self.thread.lock().take();
        // The flusher itself may hold the last reference to the volume; it must not wait for itself.
        if let Some(thread) = thread.filter(|t| !t.is_current())
            && thread.join().is_err()
        {
            tracing::error!("the flusher panicked");
        }
    }
}
