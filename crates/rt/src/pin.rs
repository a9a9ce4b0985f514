//! A thread that stays on one processor, or away from it.
//!
//! For threads that serve what is asked on their own processor: a request that crosses to another one waits until that
//! wakes. Kept true: threads that a pinned one starts run wherever it could run before, and so does what it counts of
//! processors; a simulation has no processors to pin to.

use crate::sim;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;

thread_local! {
    /// Where the thread could run before it was pinned, or kept off a processor.
    static FREE: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Keeps the calling thread on processor `cpu` from now on. False: that cannot be, and nothing has changed.
pub fn pin(cpu: usize) -> bool {
    if sim::is_active() || cpu >= CpuSet::MAX_CPU {
        return false;
    }
    let Ok(before) = sched_getaffinity(None) else {
        return false;
    };
    let mut only = CpuSet::new();
    only.set(cpu);
    let pinned = sched_setaffinity(None, &only).is_ok();
    if pinned && FREE.get().is_none() {
        FREE.set(Some(before));
    }
    pinned
}

/// Lets the calling thread run from now on where it could before [`pin`], except on processor `cpu`. False: there is no
/// other, and nothing has changed.
pub fn keep_off(cpu: usize) -> bool {
    if sim::is_active() || cpu >= CpuSet::MAX_CPU {
        return false;
    }
    let Some(before) = FREE.get().or_else(|| sched_getaffinity(None).ok()) else {
        return false;
    };
    let mut others = before;
    others.unset(cpu);
    let is_off = others.count() > 0 && sched_setaffinity(None, &others).is_ok();
    if is_off {
        FREE.set(Some(before));
    }
    is_off
}

/// Lets the calling thread run again wherever it could before [`pin`] or [`keep_off`].
pub fn unpin() {
    restore(FREE.take());
}

/// Where a thread that the calling one starts is to run, if that is not where the calling one runs.
pub(crate) fn free() -> Option<CpuSet> {
    FREE.get()
}

/// Undoes for the calling thread what it has inherited of the pinned one that started it.
pub(crate) fn restore(free: Option<CpuSet>) {
    if let Some(free) = free {
        // The system takes back what it gave, unless processors have gone; then it stays where it is.
        let _ = sched_setaffinity(None, &free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cpus, spawn};

    #[test]
    fn only_the_pinned_thread_is_pinned() {
        let here = sched_getaffinity(None).unwrap();
        let all = cpus();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| here.is_set(*cpu)).unwrap();
        let pinned = spawn("pinned", move || {
            assert!(!pin(CpuSet::MAX_CPU) && sched_getaffinity(None).unwrap() == here);
            assert!(pin(first) && pin(first));
            assert_eq!((sched_getaffinity(None).unwrap().count(), cpus()), (1, all));
            let child = spawn("child", move || (sched_getaffinity(None).unwrap() == here, cpus()));
            assert_eq!(child.join(), Ok((true, all)));
            unpin();
            sched_getaffinity(None).unwrap() == here
        });
        assert_eq!(pinned.join(), Ok(true));
    }

    #[test]
    fn a_thread_that_is_kept_off_a_processor_runs_on_all_others() {
        let here = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| here.is_set(*cpu)).unwrap();
        let mut others = here;
        others.unset(first);
        let kept = spawn("kept off", move || {
            let now = || sched_getaffinity(None).unwrap();
            let mut seen = Vec::new();
            for _ in 0..2 {
                assert!(pin(first));
                assert_eq!(keep_off(first), here.count() > 1);
                seen.push(now());
            }
            unpin();
            seen.push(now());
            seen
        });
        let expected = if here.count() > 1 { others } else { here };
        assert_eq!(kept.join(), Ok(vec![expected, expected, here]));
    }
}
