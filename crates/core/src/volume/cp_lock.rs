//! `cp_rwsem`: shared by threads that change the volume, exclusive while a checkpoint freezes it.
//!
//! F2FS counts those who change in one word, which all cores write twice for each change. With `cp_lock=cores` (MAX)
//! each has a counter of its own, and a freeze looks at all of them.

use crate::locks;
use crate::options::techniques::CpCounters;
use steadyfs_rt::{
    PassThroughLock, PassingReader, PassingWriter, RwLock, RwLockReadGuard, RwLockWriteGuard, SharedLine,
};

/// The checkpoint lock.
pub(crate) enum CpLock {
    One { lock: RwLock<()>, count: SharedLine },
    PerCore(PassThroughLock),
}

/// Held by one of many who change the volume.
pub(crate) enum Shared<'a> {
    One { count: &'a SharedLine, _guard: RwLockReadGuard<'a, ()> },
    PerCore { _guard: PassingReader<'a> },
}

/// Held by a freeze.
pub(crate) enum Alone<'a> {
    One { _guard: RwLockWriteGuard<'a, ()> },
    PerCore { _guard: PassingWriter<'a> },
}

impl CpLock {
    /// Held by nobody.
    pub(crate) fn new(counters: CpCounters) -> Self {
        match counters {
            CpCounters::Shared => CpLock::One { lock: RwLock::new(&locks::CP, ()), count: SharedLine::new() },
            CpCounters::PerCore => CpLock::PerCore(PassThroughLock::new(&locks::CP)),
        }
    }

    /// Takes it for a change, if that needs no waiting.
    pub(crate) fn try_share(&self) -> Option<Shared<'_>> {
        match self {
            CpLock::One { lock, count } => lock.try_read().map(|guard| Shared::one(count, guard)),
            CpLock::PerCore(lock) => lock.try_read().map(|guard| Shared::PerCore { _guard: guard }),
        }
    }

    /// Takes it for a change.
    pub(crate) fn share(&self) -> Shared<'_> {
        match self {
            CpLock::One { lock, count } => Shared::one(count, lock.read()),
            CpLock::PerCore(lock) => Shared::PerCore { _guard: lock.read() },
        }
    }

    /// Takes it for a freeze.
    pub(crate) fn close(&self) -> Alone<'_> {
        match self {
            CpLock::One { lock, .. } => Alone::One { _guard: lock.write() },
            CpLock::PerCore(lock) => Alone::PerCore { _guard: lock.write() },
        }
    }

    /// Whether a freeze would have to wait for nobody.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        match self {
            CpLock::One { lock, .. } => lock.try_write().is_some(),
            CpLock::PerCore(lock) => lock.try_write().is_some(),
        }
    }
}

impl<'a> Shared<'a> {
    fn one(count: &'a SharedLine, guard: RwLockReadGuard<'a, ()>) -> Self {
        count.write();
        Shared::One { count, _guard: guard }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Shared::One { count, .. } = self {
            count.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
    use std::time::Duration;
    use steadyfs_rt::sim::{SimConfig, run};
    use steadyfs_rt::{sleep, spawn};

    const CORES: usize = 48;
    const CHANGES: usize = 400;
    const FREEZES: usize = 5;

    /// Nanoseconds in which all cores make their changes, with freezes in between.
    fn changes(counters: CpCounters) -> u64 {
        let work = move || {
            let lock = Arc::new(CpLock::new(counters));
            let inside = Arc::new(AtomicI64::new(0));
            let changers: Vec<_> = (0..CORES)
                .map(|_| {
                    let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                    spawn("changer", move || {
                        for _ in 0..CHANGES {
                            let _change = lock.try_share().unwrap_or_else(|| lock.share());
                            assert!(inside.fetch_add(1, SeqCst) >= 0, "nobody has frozen the volume");
                            sleep(Duration::ZERO);
                            inside.fetch_sub(1, SeqCst);
                        }
                    })
                })
                .collect();
            for _ in 0..FREEZES {
                let _frozen = lock.close();
                assert_eq!(inside.swap(-1, SeqCst), 0, "a freeze waits for changes");
                sleep(Duration::from_nanos(100));
                inside.store(0, SeqCst);
            }
            changers.into_iter().for_each(|changer| changer.join().unwrap());
            assert!(lock.is_free());
        };
        let report = run(SimConfig { cores: CORES + 1, seed: 1, ..SimConfig::default() }, work);
        report.expect("sense").elapsed.as_nanos() as u64
    }

    #[test]
    fn changes_on_many_cores_do_not_meet_at_counters_of_their_own() {
        let [one, own] = [CpCounters::Shared, CpCounters::PerCore].map(changes);
        println!("{one} ns with one counter, {own} ns with one for each core");
        // Each change writes the one line twice, and it is at one core at a time.
        assert!(one >= (CORES * CHANGES * 2 * 40) as u64 && own * 2 < one, "{one} ns, {own} ns");
    }
}
