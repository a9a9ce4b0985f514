//! Counts writes in flight by epoch, so that one can wait for all that came before without waiting for those that come
//! after.

use crate::locks;
use std::collections::VecDeque;
use steadyfs_rt::{Condvar, Mutex, WaitCause, waiting_for};

/// Epoch number of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(u64);

/// A moment: what had entered by then can be waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut(Option<u64>);

struct State {
    /// Epoch that new entries join.
    current: u64,
    /// Entries in flight of each epoch from `current + 1 - open.len()` to `current`.
    open: VecDeque<u64>,
}

impl State {
    /// Takes an entry out of its epoch; whether the earliest epoch is over with that, which is what waiters wait for.
    fn leave(&mut self, epoch: Epoch) -> bool {
        let first = self.current + 1 - self.open.len() as u64;
        assert!(epoch.0 >= first && epoch.0 <= self.current, "left an epoch that is over");
        let count = &mut self.open[(epoch.0 - first) as usize];
        assert!(*count > 0, "left twice");
        *count -= 1;
        let before = self.open.len();
        while self.open.len() > 1 && self.open[0] == 0 {
            self.open.pop_front();
        }
        self.open.len() < before
    }
}

/// The barrier.
pub(crate) struct Barrier {
    state: Mutex<State>,
    emptied: Condvar,
}

impl Barrier {
    pub(crate) fn new() -> Self {
        let state = State { current: 0, open: VecDeque::from([0]) };
        Barrier { state: Mutex::new(&locks::INFLIGHT, state), emptied: Condvar::new() }
    }

    /// Something begins; give the epoch back to [`Barrier::leave`] when it ends.
    pub(crate) fn enter(&self) -> Epoch {
        let mut s = self.state.lock();
        *s.open.back_mut().expect("the current epoch is always open") += 1;
        Epoch(s.current)
    }

    /// Whether what entered in this epoch is the only thing inside.
    pub(crate) fn has_only(&self, epoch: Epoch) -> bool {
        let s = self.state.lock();
        let inside: u64 = s.open.iter().sum();
        assert!(epoch.0 <= s.current && inside > 0, "who asks is inside");
        inside == 1
    }

    /// Something that began in `epoch` has ended.
    pub(crate) fn leave(&self, epoch: Epoch) {
        // Most leave others of their epoch, or of an earlier one, behind: then nobody can go on.
        let over = self.state.lock().leave(epoch);
        if over {
            self.emptied.notify_all();
        }
    }

    /// Tells apart what has entered so far from what enters later.
    pub(crate) fn cut(&self) -> Cut {
        let mut s = self.state.lock();
        if s.open.len() == 1 && s.open[0] == 0 {
            return Cut(None);
        }
        let mine = s.current;
        s.current += 1;
        s.open.push_back(0);
        while s.open.len() > 1 && s.open[0] == 0 {
            s.open.pop_front();
        }
        Cut(Some(mine))
    }

    /// Returns when everything that entered before the cut has left.
    pub(crate) fn wait_for(&self, cut: Cut) {
        let Cut(Some(last)) = cut else { return };
        let _waiting = waiting_for(WaitCause::Device);
        let mut s = self.state.lock();
        while s.current + 1 - s.open.len() as u64 <= last && !steadyfs_rt::mutated("barrier-waits") {
            self.emptied.wait(&mut s);
        }
    }

    /// Returns when everything that entered before this call has left.
    pub(crate) fn wait(&self) {
        self.wait_for(self.cut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn only_the_end_of_the_earliest_epoch_wakes_anybody() {
        let mut state = State { current: 2, open: VecDeque::from([2, 1, 0]) };
        assert!(!state.leave(Epoch(0)), "another one of the epoch is inside");
        assert!(!state.leave(Epoch(1)), "an earlier epoch is not over");
        assert!(state.leave(Epoch(0)), "and now both are");
        assert_eq!(state.open, [0]);
    }

    #[test]
    fn what_enters_after_a_cut_is_not_waited_for() {
        let barrier = Barrier::new();
        let idle = barrier.cut();
        let first = barrier.enter();
        let cut = barrier.cut();
        let later = barrier.enter();
        barrier.wait_for(idle);
        barrier.leave(first);
        // The later one is inside for as long as this thread waits.
        barrier.wait_for(cut);
        barrier.leave(later);
        barrier.wait();
        assert_eq!(barrier.state.lock().open, [0]);
    }

    #[test]
    fn waits_for_earlier_entries_only() {
        let barrier = Arc::new(Barrier::new());
        barrier.wait();
        let first = barrier.enter();
        let over = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (barrier, over) = (Arc::clone(&barrier), Arc::clone(&over));
            steadyfs_rt::spawn("waiter", move || {
                barrier.wait();
                over.store(true, SeqCst);
            })
        };
        while barrier.state.lock().open.len() < 2 {
            steadyfs_rt::yield_now();
        }
        assert!(barrier.has_only(first));
        let second = barrier.enter();
        // One that does not wait has gone on by then.
        steadyfs_rt::sleep(std::time::Duration::from_millis(50));
        assert!(!barrier.has_only(second) && !over.load(SeqCst), "the first entry is still inside");
        barrier.leave(first);
        waiter.join().unwrap();
        assert!(over.load(SeqCst), "the second entry is not waited for");
        barrier.leave(second);
        barrier.wait();
    }
}
