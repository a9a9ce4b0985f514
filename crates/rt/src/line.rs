//! [`SharedLine`]: the price of one cache line that all cores write.

use crate::sim;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A cache line that threads on all cores write, such as the count of a lock's readers. In virtual time it is at one
/// core at a time, and each write takes [`Cost::SharedAtomic`](crate::Cost::SharedAtomic) after the one before; outside
/// a simulation the processor sees to that itself, and this does nothing.
#[derive(Debug, Default)]
pub struct SharedLine {
    /// When the last write was done, in virtual nanoseconds.
    free_at: AtomicU64,
}

impl SharedLine {
    /// A line nobody has written.
    pub const fn new() -> Self {
        SharedLine { free_at: AtomicU64::new(0) }
    }

    /// The calling thread writes the line.
    #[inline(always)]
    pub fn write(&self) {
        if sim::is_active() {
            sim::point();
            self.free_at.store(sim::write_line(self.free_at.load(Relaxed)), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Costs, SimConfig, run};
    use crate::{Cost, charge_n, spawn};
    use std::sync::Arc;

    /// Nanoseconds in which so many tasks, each on a core of its own, each write a line so often, doing something else
    /// in between.
    fn time(tasks: usize, writes: u64, between: u64) -> u64 {
        let work = move || {
            let line = Arc::new(SharedLine::new());
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let line = Arc::clone(&line);
                    spawn("writer", move || {
                        for _ in 0..writes {
                            line.write();
                            charge_n(Cost::RadixLookup, between);
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().expect("no panic"));
        };
        run(SimConfig { cores: tasks + 1, ..SimConfig::default() }, work).expect("sense").elapsed.as_nanos() as u64
    }

    #[test]
    fn a_line_is_at_one_core_at_a_time() {
        // 16 cores ask for more than there is of it, and each gets its share.
        let crowded = time(16, 1000, 0);
        let price = 16 * 1000 * Costs::default().of(Cost::SharedAtomic);
        assert!((price..price * 9 / 8).contains(&crowded), "{crowded} ns");
        // Who seldom writes it hardly notices the others.
        let [alone, together] = [1, 4].map(|tasks| time(tasks, 1000, 100));
        assert!(together < alone + alone / 50, "{alone} ns alone, {together} ns with others");
    }
}
