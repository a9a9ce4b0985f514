//! [`SplitCount`]: a count that threads on all cores change, and that few look at.
//!
//! Each core counts what it adds for itself, and tells the others of it in strides: so the line that all cores read is
//! written once in a stride. Linux' percpu counters and ScaleXFS' strided space counting do the same.
//!
//! Kept true: where nobody adds, the sum is exact, and what was told is less than a stride for each core away from it.

use crate::{SharedLine, cpus, thread_number};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

/// More places than this are no gain.
const MOST_CORES: usize = 256;

/// One place for each core, a power of two, so that finding one's own is no division.
pub(crate) fn places<T>(make: impl FnMut() -> T) -> Box<[T]> {
    std::iter::repeat_with(make).take(cpus().clamp(1, MOST_CORES).next_power_of_two()).collect()
}

/// The place of the calling thread's core.
pub(crate) fn own<T>(places: &[T]) -> &T {
    &places[thread_number() & (places.len() - 1)]
}

/// Between two steps, where other threads come in: in virtual time some passes there, in tests of these types.
#[inline(always)]
pub(crate) fn between() {
    #[cfg(test)]
    if crate::sim::is_active() {
        crate::charge_n(crate::Cost::SharedAtomic, 25);
        crate::sim::point();
    }
}

/// What a core has not told, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Untold {
    count: AtomicI64,
    /// A thread is telling.
    telling: AtomicBool,
}

/// A count in parts, one for each core.
pub struct SplitCount {
    stride: i64,
    cores: Box<[Untold]>,
    /// What all cores were told.
    told: AtomicI64,
    line: SharedLine,
}

impl SplitCount {
    /// Zero; a core keeps less than `stride` to itself.
    pub fn new(stride: u32) -> Self {
        SplitCount {
            stride: i64::from(stride.max(1)),
            cores: places(Untold::default),
            told: AtomicI64::new(0),
            line: SharedLine::new(),
        }
    }

    /// Zero, for a count of about `limit`: what is told is at most an eighth of that away.
    pub fn for_limit(limit: usize) -> Self {
        let share = limit / (8 * cpus().clamp(1, MOST_CORES).next_power_of_two());
        SplitCount::new(share.clamp(1, 64) as u32)
    }

    /// Adds to the count, or takes from it.
    #[inline]
    pub fn add(&self, by: i64) {
        let own = own(&self.cores);
        let untold = own.count.fetch_add(by, SeqCst) + by;
        if untold.abs() >= self.stride {
            self.tell(own);
        }
    }

    /// Tells of what a core has kept to itself. Who finds somebody at it leaves it to that one, who looks again.
    #[cold]
    fn tell(&self, own: &Untold) {
        while own.count.load(SeqCst).abs() >= self.stride && !own.telling.swap(true, SeqCst) {
            self.line.write();
            let by = own.count.load(SeqCst);
            // In this order: a sum of what only grows finds no less than there is.
            self.told.fetch_add(by, SeqCst);
            between();
            own.count.fetch_sub(by, SeqCst);
            own.telling.store(false, SeqCst);
        }
    }

    /// About how many there are: the sum, but for less than a stride for each core.
    #[inline]
    pub fn estimate(&self) -> u64 {
        count(self.told.load(SeqCst))
    }

    /// No fewer than there are.
    #[inline]
    pub fn at_most(&self) -> u64 {
        // Twice a stride: a core may have another one by the time that it tells of the first.
        count(self.told.load(SeqCst) + 2 * self.stride * self.cores.len() as i64)
    }

    /// How many there are: exactly, if nobody adds meanwhile; else about as many. Below zero only by what was taken and
    /// never added.
    pub fn sum(&self) -> i64 {
        // First what is not told: what is told in between is found twice, and not missed.
        let untold: i64 = self.cores.iter().map(|core| core.count.load(SeqCst)).sum();
        untold + self.told.load(SeqCst)
    }

    /// As [`SplitCount::sum`], none if it is below zero.
    pub fn total(&self) -> u64 {
        count(self.sum())
    }

    /// Zero again. Nobody may add meanwhile.
    pub fn reset(&self) {
        self.cores.iter().for_each(|core| core.count.store(0, SeqCst));
        self.told.store(0, SeqCst);
    }
}

fn count(sum: i64) -> u64 {
    u64::try_from(sum).unwrap_or(0)
}

impl std::fmt::Debug for SplitCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SplitCount").field(&self.sum()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, run};
    use crate::{Cost, charge_n, spawn};
    use std::sync::Arc;

    /// Tasks on many cores that add and take, more of them than there are places: what is told is never far from the
    /// sum, and the sum is exact in the end.
    #[test]
    fn what_is_told_is_less_than_a_stride_for_each_core_away() {
        for seed in 0..20 {
            let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
            let work = move || {
                let count = Arc::new(SplitCount::new(16));
                let adder = |task: i64| {
                    let count = Arc::clone(&count);
                    spawn("adder", move || {
                        let mut added = 0;
                        for step in 0..1000 {
                            let by = (step * 7 + task * 13) % 11 - 3;
                            count.add(by);
                            added += by;
                            charge_n(Cost::LockOp, (step % 3) as u64);
                        }
                        added
                    })
                };
                let adders: Vec<_> = (0..20).map(adder).collect();
                let added: i64 = adders.into_iter().map(|adder| adder.join().unwrap()).sum();
                assert_eq!(count.sum(), added);
                assert!(count.estimate().abs_diff(added as u64) < 16 * 8, "{count:?} of {added}");
                assert!(count.at_most() >= added as u64);
                count.reset();
                assert_eq!((count.sum(), count.estimate()), (0, 0));
            };
            run(config, work).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }

    /// The shared line is written once in a stride.
    #[test]
    fn cores_that_count_meet_seldom() {
        let time = |stride| {
            let work = move || {
                let count = Arc::new(SplitCount::new(stride));
                let adder = |_| {
                    let count = Arc::clone(&count);
                    spawn("adder", move || (0..6400).for_each(|_| count.add(1)))
                };
                let adders: Vec<_> = (0..16).map(adder).collect();
                adders.into_iter().for_each(|adder| adder.join().unwrap());
                assert_eq!(count.total(), 16 * 6400);
            };
            run(SimConfig { cores: 17, ..SimConfig::default() }, work).unwrap().elapsed
        };
        let [each, strided] = [1, 64].map(time);
        assert!(each >= 60 * strided, "{each:?}, and {strided:?} in strides");
    }

    #[test]
    fn threads_add_up() {
        let count = Arc::new(SplitCount::new(4));
        let adder = |by| {
            let count = Arc::clone(&count);
            spawn("adder", move || (0..100_000).for_each(|_| count.add(by)))
        };
        let adders: Vec<_> = [1, 3, -2].map(adder).into_iter().collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!(count.sum(), 200_000);
    }
}
