//! [`Leaf`]: a lock for state that is looked at and changed without calling anything that could wait.
//!
//! In virtual time tasks switch only inside calls of this crate, so such a lock is never contended there: it costs no
//! hand-over, and no schedule depends on it. For the inside of devices, which in reality are not a lock that CPUs queue
//! for.

use crate::sim;

/// A value behind a lock that is held only while a closure runs. The closure must not take locks, wait, or start
/// threads; clocks, [`crate::sim::call_after`] and atomics are fine.
#[derive(Debug, Default)]
pub struct Leaf<T>(parking_lot::Mutex<T>);

impl<T> Leaf<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Leaf(parking_lot::Mutex::new(value))
    }

    /// Lends the value to `f`. In virtual time everything that is due before happens first.
    ///
    /// # Panics
    /// In a simulation, if another task holds the value: it has waited inside its closure.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if !sim::is_active() {
            return f(&mut self.0.lock());
        }
        sim::point();
        let mut value = self.0.try_lock().unwrap_or_else(|| panic!("the holder of a leaf lock waits for something"));
        f(&mut value)
    }

    /// Lends the value to `f`, and nothing else happens meanwhile, in virtual time neither. This is for what lies below
    /// everything that is simulated, such as memory. That may be asked for and given back inside another leaf's
    /// closure, and simulations on several threads share it. `f` must not call this crate.
    pub fn with_quietly<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, run};
    use crate::{sleep, spawn};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn threads_take_turns() {
        let leaf = Arc::new(Leaf::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let leaf = Arc::clone(&leaf);
                spawn("adder", move || (0..10_000).for_each(|_| leaf.with(|sum| *sum += 1)))
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
        assert_eq!(leaf.with(|sum| *sum), 40_000);
    }

    #[test]
    fn simulations_share_what_is_below_them() {
        static BELOW: Leaf<u64> = Leaf::new(0);
        let simulation = || {
            run(SimConfig { cores: 2, seed: 7, ..SimConfig::default() }, || {
                let own = Arc::new(Leaf::new(()));
                let adders = [(); 2].map(|()| {
                    let own = Arc::clone(&own);
                    let add = || BELOW.with_quietly(|sum| *sum += 1);
                    spawn("adder", move || (0..20_000).for_each(|_| own.with(|()| add())))
                });
                adders.into_iter().all(|adder| adder.join().is_ok())
            })
        };
        let threads = [(); 3].map(|()| spawn("simulation", move || simulation().is_ok_and(|report| report.value)));
        assert!(threads.into_iter().all(|thread| thread.join() == Ok(true)));
        assert_eq!(BELOW.with_quietly(|sum| *sum), 120_000);
    }

    #[test]
    fn who_waits_inside_is_caught() {
        let result = run(SimConfig { cores: 2, ..SimConfig::default() }, || {
            let leaf = Arc::new(Leaf::new(()));
            let other = Arc::clone(&leaf);
            spawn("waits inside", move || other.with(|()| sleep(Duration::from_micros(10))));
            sleep(Duration::from_micros(5));
            leaf.with(|()| ());
        });
        assert!(result.is_err_and(|failure| failure.to_string().contains("leaf lock")));
    }
}
