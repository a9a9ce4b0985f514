//! The lanes' atomics and events, known to the model checker.

pub use shuttle::sync::atomic::{AtomicBool, AtomicUsize};

/// As `EventCount`; a wait that nobody ends is a deadlock for the checker.
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
