//! What filebench's `semblock` and `sempost` do to each other: a pair of semaphores, so that those who post run ahead
//! of the one who waits by a bounded number of posts.
//!
//! `low` counts posts that have not been taken, `high` how many more may be posted. A post takes from `high` and adds
//! to `low`; a wait for N first adds N to `high`, then takes N from `low`.

use steadyfs_rt::{Condvar, LockClass, Mutex};

static GATE: LockClass = LockClass::new("lab.gate", 0);

#[derive(Debug)]
struct State {
    low: u64,
    high: u64,
    closed: bool,
}

/// The pair.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    /// Nothing posted, `highwater` posts allowed.
    pub(super) fn new(highwater: u64) -> Self {
        let state = State { low: 0, high: highwater, closed: false };
        Gate { state: Mutex::new(&GATE, state), changed: Condvar::new() }
    }

    /// `semblock`: waits for `value` posts; false if the gate was closed meanwhile.
    pub(super) fn block(&self, value: u64) -> bool {
        let mut state = self.state.lock();
        state.high += value;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.low < value && !state.closed);
        if state.closed {
            return false;
        }
        state.low -= value;
        true
    }

    /// `sempost` with `blocking`: posts one as soon as that is allowed; false if the gate was closed meanwhile.
    pub(super) fn post(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.high == 0 && !state.closed);
        if state.closed {
            return false;
        }
        state.high -= 1;
        state.low += 1;
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Nobody waits any more.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::Duration;
    use steadyfs_rt::sim::{self, SimConfig};
    use steadyfs_rt::{sleep, spawn};

    #[test]
    fn those_who_post_run_ahead_by_the_highwater_mark_and_no_more() {
        let report = sim::run(SimConfig::default(), || {
            let gate = Arc::new(Gate::new(20));
            let posts = Arc::new(AtomicU64::new(0));
            let poster = {
                let (gate, posts) = (Arc::clone(&gate), Arc::clone(&posts));
                spawn("poster", move || {
                    while gate.post() {
                        posts.fetch_add(1, SeqCst);
                    }
                })
            };
            sleep(Duration::from_millis(1));
            let mut seen = vec![posts.load(SeqCst)];
            for _ in 0..3 {
                assert!(gate.block(10));
                sleep(Duration::from_millis(1));
                seen.push(posts.load(SeqCst));
            }
            gate.close();
            assert!(poster.join().is_ok() && !gate.block(1) && !gate.post());
            seen
        });
        assert_eq!(report.unwrap().value, [20, 30, 40, 50]);
    }
}
