//! Threads that tell the kernel something, for lanes that must not.
//!
//! The kernel may wait for other requests before it has done what it is told, and those may come in the very queue
//! whose lane would be waiting. Kept true: nobody waits here behind another; as many threads are there as have been
//! needed at once.

use std::collections::VecDeque;
use std::sync::Arc;
use steadyfs_rt::{Condvar, LockClass, Mutex, try_spawn};

static HERALD: LockClass = LockClass::new("fuse_herald_mutex", 96);

/// Something to tell.
type Errand = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    errands: VecDeque<Errand>,
    /// Threads that wait for an errand.
    idle: usize,
    over: bool,
}

/// The threads.
pub(super) struct Herald {
    state: Mutex<State>,
    come: Condvar,
}

impl Herald {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Herald { state: Mutex::new(&HERALD, State::default()), come: Condvar::new() })
    }

    /// Has a thread do this, soon. False: it is over, and nobody does.
    pub(super) fn send(self: &Arc<Self>, errand: Errand) -> bool {
        let lacks_one = {
            let mut state = self.state.lock();
            if state.over {
                return false;
            }
            state.errands.push_back(errand);
            state.errands.len() > state.idle
        };
        if lacks_one {
            let herald = Arc::clone(self);
            if let Err(error) = try_spawn("fuse-herald", move || herald.run()) {
                // The next thread that is free does it.
                tracing::warn!("cannot start a thread: {error}");
            }
        }
        self.come.notify_one();
        true
    }

    fn run(&self) {
        crate::mount::become_io_flusher();
        loop {
            let errand = {
                let mut state = self.state.lock();
                loop {
                    if let Some(errand) = state.errands.pop_front() {
                        break errand;
                    }
                    if state.over {
                        return;
                    }
                    state.idle += 1;
                    self.come.wait(&mut state);
                    state.idle -= 1;
                }
            };
            errand();
        }
    }

    /// Lets the threads go when they have done what was given to them.
    pub(super) fn end(&self) {
        self.state.lock().over = true;
        self.come.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn nobody_waits_behind_another() {
        let herald = Herald::new();
        let (go, wait) = channel::<()>();
        assert!(herald.send(Box::new(move || wait.recv().expect("told to go on"))));
        for round in 0..3 {
            let (done, told) = channel();
            herald.send(Box::new(move || done.send(round).expect("the test waits")));
            assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(round), "an errand waits behind the first");
        }
        go.send(()).expect("the first waits");
        herald.end();
        assert!(!herald.send(Box::new(|| ())), "done after the end");
    }
}
