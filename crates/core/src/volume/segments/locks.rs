//! The locks around the segment table, where a volume wants them.
//!
//! The table's words and bitmaps are atomic, and every change of state belongs to one thread: it needs no lock
//! ("loosely synchronised" metadata, ScaleLFS section 3.2). F2FS has two. `sentry_lock` is exclusive for each block
//! that becomes valid or invalid, and shared for each look of a collector at the valid ones. `seglist_lock` is for each
//! change of the lists of dirty and emptied segments, and is held throughout the search for a victim. A volume that
//! collects as F2FS does (`gc.meta=locked`, `gc.select=locked`) takes them at the same places.

use crate::locks;
use crate::options::techniques::{GcMeta, GcOptions, GcSelect};
use steadyfs_rt::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The locks of a segment table.
pub(crate) struct SegLocks {
    sentry: RwLock<()>,
    /// Where the next search for a victim starts.
    seglist: Mutex<usize>,
    meta: GcMeta,
    select: GcSelect,
}

impl SegLocks {
    /// What such a volume wants.
    pub(crate) fn new(options: &GcOptions) -> Self {
        SegLocks {
            sentry: RwLock::new(&locks::SENTRY, ()),
            seglist: Mutex::new(&locks::SEGLIST, 0),
            meta: options.meta,
            select: options.select,
        }
    }

    /// For threads that make blocks valid or invalid.
    pub(crate) fn change(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        (self.meta == GcMeta::Locked).then(|| self.sentry.write())
    }

    /// For a collector that looks at which blocks are valid.
    pub(crate) fn look(&self) -> Option<RwLockReadGuard<'_, ()>> {
        (self.meta == GcMeta::Locked).then(|| self.sentry.read())
    }

    /// For threads that move a segment from one list to another.
    pub(crate) fn lists(&self) -> Option<MutexGuard<'_, usize>> {
        (self.select == GcSelect::Locked).then(|| self.seglist.lock())
    }

    /// For a search that nobody else makes at the same time; gives the place where it starts.
    pub(crate) fn search(&self) -> MutexGuard<'_, usize> {
        self.seglist.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::segments::table::BLOCKS;
    use crate::volume::segments::table::tests::table_of;
    use std::sync::Arc;
    use steadyfs_rt::sim::{self, SimConfig};
    use steadyfs_rt::{Cost, charge_n, lock_stats, spawn};

    /// Names of the locks that were waited for while a search is made beside four threads, each of which fills a
    /// segment and empties it again.
    fn waited_for(meta: GcMeta, select: GcSelect) -> Vec<&'static str> {
        let options = GcOptions { meta, select, ..GcOptions::default() };
        let config = SimConfig { cores: 5, ..SimConfig::default() };
        let run = sim::run(config, move || {
            let table = Arc::new(table_of(&options));
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let table = Arc::clone(&table);
                    spawn(&format!("writer {n}"), move || {
                        let seg = table.open(None, 0).expect("one for each");
                        (0..BLOCKS).for_each(|off| table.mark_valid(seg, off, 1));
                        table.close(seg);
                        assert!((0..BLOCKS).all(|off| table.invalidate(seg, off, 2)));
                    })
                })
                .collect();
            let search = (select == GcSelect::Locked).then(|| table.locks.search());
            charge_n(Cost::VictimScan, 10_000);
            steadyfs_rt::yield_now();
            drop(search);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert_eq!(table.prefree.count(), 4);
            let mut names: Vec<_> = lock_stats().into_iter().map(|stat| stat.name).collect();
            names.sort_unstable();
            names
        });
        run.expect("no deadlock").value
    }

    #[test]
    fn each_lock_is_waited_for_only_where_the_volume_wants_it() {
        assert_eq!(waited_for(GcMeta::Loose, GcSelect::Concurrent), [""; 0]);
        assert_eq!(waited_for(GcMeta::Locked, GcSelect::Concurrent), ["sentry_lock"]);
        assert_eq!(waited_for(GcMeta::Loose, GcSelect::Locked), ["seglist_lock"]);
        assert_eq!(waited_for(GcMeta::Locked, GcSelect::Locked), ["seglist_lock", "sentry_lock"]);
    }
}
