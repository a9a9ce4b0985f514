//! The handle of the discarder's thread (`discarding`): its owner may end the thread.

use crate::volume::discard::Signal;
use std::sync::Arc;
use steadyfs_rt::{JoinHandle, Mutex};

/// The discarder of a volume.
pub(crate) struct Discarder {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Discarder {
    /// No thread yet.
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Discarder { signal, thread: Mutex::new(&crate::locks::STATE, None) }
    }

    /// What the thread waits for.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    /// The thread runs.
    pub(crate) fn began(&self, thread: JoinHandle<()>) {
        let earlier = self.thread.lock().replace(thread);
        assert!(earlier.is_none(), "a volume has two discarders");
    }

    /// Ends the thread and waits for it; what still waits stays in the queue.
    pub(crate) fn stop(&self) {
        self.signal.stop();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|thread| !thread.is_current())
            && thread.join().is_err()
        {
            tracing::error!("the discarder panicked");
        }
    }
}

impl Drop for Discarder {
    fn drop(&mut self) {
        self.signal.stop();
    }
}
