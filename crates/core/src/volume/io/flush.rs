//! Shared flushes: of all threads that want the device's cache flushed at a time, one does it for all (group commit).
//!
//! Kept true: [`SharedFlush::flush`] returns success only after a flush that began when the call was made, or later,
//! has succeeded; a caller who finds nothing written since the last flush began does not flush at all. The first one
//! always flushes: an earlier writer may have ended before its blocks on the device were durable.

use crate::error::{Error, Result};
use crate::locks;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_device::{IoError, OpKind};
use steadyfs_rt::{Condvar, Mutex};

#[derive(Default)]
struct State {
    /// Flushes begun, and the number of the last one that ended.
    begun: u64,
    ended: u64,
    /// Number of the last one that succeeded.
    succeeded: u64,
    /// The first flush that lost what was written before it, for good.
    failed: Option<IoError>,
    /// Why the last one failed that lost nothing.
    passing: Option<IoError>,
}

/// The flushes of a device.
pub(crate) struct SharedFlush {
    state: Mutex<State>,
    ended: Condvar,
    /// Blocks written, and how many of them a successful flush has covered.
    completed: AtomicU64,
    covered: AtomicU64,
}

impl SharedFlush {
    /// A device of which nobody knows what is durable.
    pub(crate) fn new() -> Self {
        SharedFlush {
            state: Mutex::new(&locks::FLUSH, State::default()),
            ended: Condvar::new(),
            completed: AtomicU64::new(u64::from(!steadyfs_rt::mutated("the-first-flush-is-due"))),
            covered: AtomicU64::new(0),
        }
    }

    /// A write of `blocks` blocks has completed.
    pub(crate) fn note_write(&self, blocks: u64) {
        self.completed.fetch_add(blocks, SeqCst);
    }

    /// How many blocks were written, if all of them are durable.
    pub(crate) fn all_durable(&self) -> Option<u64> {
        let completed = self.completed.load(SeqCst);
        (self.covered.load(SeqCst) == completed).then_some(completed)
    }

    /// `blocks` blocks, which were durable when they were written, followed `before` others. If no others have, a flush
    /// would find nothing to do; if others have, who flushes next flushes for these, too, which is too much by little.
    pub(crate) fn note_durable(&self, before: u64, blocks: u64) {
        let after = before + blocks;
        if self.completed.load(SeqCst) == after {
            // Unless a flush that began meanwhile knows better.
            let _ = self.covered.compare_exchange(before, after, SeqCst, SeqCst);
        }
    }

    /// Makes every write that has completed before this call durable; `flush` flushes the device.
    ///
    /// # Errors
    /// What `flush` returned, to everybody who waited for it. If its kind is [`OpKind::Flush`], which says that writes
    /// may be lost, to everybody after them, too.
    pub(crate) fn flush(&self, flush: impl Fn() -> std::result::Result<(), IoError>) -> Result<()> {
        if self.covered.load(SeqCst) == self.completed.load(SeqCst) {
            return Ok(());
        }
        let mut s = self.state.lock();
        let joins = s.begun > s.ended && steadyfs_rt::mutated("a-flush-that-began-is-no-flush");
        let mine = s.begun + u64::from(!joins);
        while s.ended < mine {
            if s.begun > s.ended {
                self.ended.wait(&mut s);
                continue;
            }
            assert_eq!(s.begun, s.ended, "two flushes at a time");
            s.begun += 1;
            drop(s);
            let covers = self.completed.load(SeqCst);
            let result = flush();
            s = self.state.lock();
            s.ended += 1;
            assert_eq!(s.begun, s.ended, "another flush began before this one had ended");
            match result {
                Ok(()) => {
                    s.succeeded = s.ended;
                    self.covered.fetch_max(covers, SeqCst);
                }
                Err(e) if e.op == OpKind::Flush => drop(s.failed.get_or_insert(e)),
                Err(e) => s.passing = Some(e),
            }
            self.ended.notify_all();
        }
        if steadyfs_rt::mutated("a-failed-flush-is-told") {
            return Ok(());
        }
        let passing = s.passing.clone().filter(|_| s.succeeded < mine);
        s.failed.clone().or(passing).map_or(Ok(()), |e| Err(Error::Io(e)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use steadyfs_rt::EventCount;

    #[test]
    fn one_flush_serves_all_who_came_before_it_began() {
        let shared = Arc::new(SharedFlush::new());
        let (count, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let gate = Arc::new(EventCount::new());
        let first = AtomicU64::new(0);
        let counted = || {
            first.fetch_add(1, SeqCst);
            Ok(())
        };
        shared.flush(counted).unwrap();
        shared.flush(counted).unwrap();
        assert_eq!(first.into_inner(), 1, "what was there before, and nothing since");
        let threads: Vec<_> = (0..9)
            .map(|_| {
                let (shared, count, open, gate) =
                    (Arc::clone(&shared), Arc::clone(&count), Arc::clone(&open), Arc::clone(&gate));
                steadyfs_rt::spawn("flusher", move || {
                    shared.note_write(1);
                    let device = || {
                        count.fetch_add(1, SeqCst);
                        loop {
                            let key = gate.listen();
                            if open.load(SeqCst) > 0 {
                                return Ok(());
                            }
                            gate.wait(key);
                        }
                    };
                    shared.flush(device).unwrap();
                })
            })
            .collect();
        // The first flush is held up until everybody has come.
        while shared.completed.load(SeqCst) < 10 || count.load(SeqCst) == 0 {
            steadyfs_rt::yield_now();
        }
        steadyfs_rt::sleep(std::time::Duration::from_millis(20));
        open.store(1, SeqCst);
        gate.notify_all();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(count.load(SeqCst) <= 3, "9 callers needed {} flushes", count.load(SeqCst));
        shared.flush(|| unreachable!("everything is durable")).unwrap();
    }

    #[test]
    fn writes_that_are_durable_themselves_need_no_flush_unless_others_have_ended() {
        let shared = SharedFlush::new();
        assert_eq!(shared.all_durable(), None, "nobody knows of what was there before");
        shared.flush(|| Ok(())).unwrap();
        let before = shared.all_durable().expect("a flush covered everything");
        (0..2).for_each(|_| shared.note_write(1));
        shared.note_durable(before, 2);
        shared.flush(|| unreachable!("both are durable")).unwrap();
        let before = shared.all_durable().expect("both are durable");
        (0..2).for_each(|_| shared.note_write(1));
        shared.note_durable(before, 1);
        assert_eq!(shared.all_durable(), None, "one of the two is another's");
        let flushed = AtomicU64::new(0);
        let counted = || {
            flushed.fetch_add(1, SeqCst);
            Ok(())
        };
        shared.flush(counted).unwrap();
        assert_eq!(flushed.into_inner(), 1, "the other's is not durable");
    }

    #[test]
    fn a_failed_flush_is_told_to_everybody() {
        let shared = SharedFlush::new();
        shared.note_write(1);
        let broken = || Err(IoError::from_errno(OpKind::Flush, 0, 0, 5));
        assert!(shared.flush(broken).is_err());
        assert!(shared.flush(|| Ok(())).is_err(), "what was written before the failed flush may be lost");
    }

    #[test]
    fn a_flush_that_lost_nothing_is_told_to_its_callers_and_tried_again() {
        let shared = SharedFlush::new();
        shared.note_write(1);
        let full = || Err(IoError::from_errno(OpKind::Write, 0, 0, 28));
        assert!(shared.flush(full).is_err() && shared.flush(full).is_err());
        assert_eq!(shared.all_durable(), None);
        shared.flush(|| Ok(())).unwrap();
        assert!(shared.all_durable().is_some());
    }

    /// What it has written ended behind the beginning of the flush under way, which may not have it.
    #[test]
    fn who_comes_during_a_flush_has_another_one() {
        let shared = Arc::new(SharedFlush::new());
        let (count, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let flusher = |number: u64| {
            let (shared, count, open) = (Arc::clone(&shared), Arc::clone(&count), Arc::clone(&open));
            steadyfs_rt::spawn("flusher", move || {
                shared.note_write(1);
                let device = || {
                    count.fetch_add(1, SeqCst);
                    while open.load(SeqCst) == 0 {
                        steadyfs_rt::yield_now();
                    }
                    Ok(())
                };
                shared.flush(device).unwrap();
                assert!(count.load(SeqCst) >= number, "flusher {number} had no flush of its own");
            })
        };
        let first = flusher(1);
        while count.load(SeqCst) == 0 {
            steadyfs_rt::yield_now();
        }
        let second = flusher(2);
        // The second one waits, or has taken the first flush for its own.
        while shared.completed.load(SeqCst) < 3 {
            steadyfs_rt::yield_now();
        }
        steadyfs_rt::sleep(std::time::Duration::from_millis(5));
        open.store(1, SeqCst);
        [first, second].into_iter().for_each(|flusher| flusher.join().unwrap());
        assert_eq!(count.load(SeqCst), 2);
    }
}
