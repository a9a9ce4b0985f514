//! What collectors and the I/O of a file keep from each other, in two ways.
//!
//! `gc.protect=page` (ScaleLFS' "scalable victim protection"): ranges of pages, in two tables of range locks
//! ([`crate::ranges`]), one for reads and one for writes. `gc.protect=file` (F2FS): two semaphores for the whole file,
//! `i_gc_rwsem[READ]` and `[WRITE]`; so two collectors that have blocks of one file at hand keep each other out too.
//! Who takes what:
//!
//! | who | for reads | for writes |
//! |---|---|---|
//! | a direct read | shared | |
//! | a direct write | shared | shared |
//! | cutting, punching, zeroing, collapsing, inserting | | alone |
//! | a collector that reads a victim | | alone, tries |
//! | a collector that moves blocks | alone, tries | alone, tries |
//!
//! Buffered reads and writes, write-back, fsync, preallocation and deletion take none: the node rule is enough for
//! them.
//!
//! Kept true:
//! - A collector never waits here: it leaves the block where it is. While it has a file, it waits for nothing but a
//!   read that is under way and the checkpoint lock.
//! - A thread that waits for room holds nothing here, so long operations give back what they hold with each piece.
//!
//! Collectors that gain nothing stop asking. They may: nothing is wrong without these locks.
//! - No block is written in place while a collector has its segment.
//! - A collector publishes an address when the block can be read there (`io`).
//! - A claimed segment is not given out again (`segments`).
//! - A reader looks at slot and generation again after it has read (`file::fetch`).
//!
//! The locks keep the two from doing work for nothing, and let both ways be compared.

use crate::locks;
use crate::options::techniques::GcProtect;
use crate::ranges::{RangeGuard, RangeLocks};
use std::ops::Range;
use std::sync::OnceLock;
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitCause, charge_n, waiting_for};

/// The locks of one file. They take memory from the first use on.
pub(crate) struct FileLocks {
    protect: GcProtect,
    locks: OnceLock<Locks>,
}

enum Locks {
    File(Box<Pair<RwLock<()>>>),
    Page(Box<Pair<RangeLocks>>),
}

/// Those for reads, and those for writes.
struct Pair<T> {
    reads: T,
    writes: T,
}

/// Something that is held until this is dropped.
#[must_use = "given back when this is dropped"]
pub(crate) struct PageHold<'a>(#[expect(dead_code, reason = "held, not read")] [Option<Guard<'a>>; 2]);

#[expect(dead_code, reason = "held, not read")]
enum Guard<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
    Range(RangeGuard<'a>),
}

/// What a collector is about to do with blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Start to read them.
    Read,
    /// Write them to another place.
    Move,
}

impl FileLocks {
    /// Nothing is held.
    pub(crate) fn new(protect: GcProtect) -> Self {
        FileLocks { protect, locks: OnceLock::new() }
    }

    fn locks(&self) -> &Locks {
        let file = || RwLock::new(&locks::FILE_GC, ());
        self.locks.get_or_init(|| match self.protect {
            GcProtect::File => Locks::File(Box::new(Pair { reads: file(), writes: file() })),
            GcProtect::Page => Locks::Page(Box::new(Pair { reads: RangeLocks::new(), writes: RangeLocks::new() })),
        })
    }

    /// For a direct read. The file's `i_rwsem` is held, and nothing of a higher rank; so for the two below.
    pub(crate) fn for_read(&self, pages: Range<PageIndex>) -> PageHold<'_> {
        match self.locks() {
            Locks::File(locks) => PageHold([Some(Guard::Shared(locks.reads.read())), None]),
            Locks::Page(locks) => PageHold([Some(wait_for(&locks.reads, &pages, false)), None]),
        }
    }

    /// For a direct write.
    pub(crate) fn for_write(&self, pages: Range<PageIndex>) -> PageHold<'_> {
        match self.locks() {
            Locks::File(locks) => {
                let writes = locks.writes.read();
                PageHold([Some(Guard::Shared(writes)), Some(Guard::Shared(locks.reads.read()))])
            }
            Locks::Page(locks) => {
                let writes = wait_for(&locks.writes, &pages, false);
                PageHold([Some(writes), Some(wait_for(&locks.reads, &pages, false))])
            }
        }
    }

    /// For threads that free, replace or move the contents of these pages.
    pub(crate) fn for_change(&self, pages: Range<PageIndex>) -> PageHold<'_> {
        match self.locks() {
            Locks::File(locks) => PageHold([Some(Guard::Alone(locks.writes.write())), None]),
            Locks::Page(locks) => PageHold([Some(wait_for(&locks.writes, &pages, true)), None]),
        }
    }

    /// Which of these pages of the file, in their order, a collector may work on now, and what it holds meanwhile.
    pub(crate) fn try_pages(&self, work: Work, pages: &[PageIndex]) -> (Vec<bool>, Vec<PageHold<'_>>) {
        match self.locks() {
            Locks::File(locks) => {
                let held = try_file(work, locks);
                (vec![held.is_some(); pages.len()], held.into_iter().collect())
            }
            Locks::Page(locks) => {
                let (mut may, mut held) = (Vec::with_capacity(pages.len()), Vec::new());
                for run in pages.chunk_by(|a, b| *a + 1 == *b) {
                    try_run(work, locks, run[0]..run[run.len() - 1] + 1, &mut may, &mut held);
                }
                (may, held)
            }
        }
    }
}

fn try_file(work: Work, locks: &Pair<RwLock<()>>) -> Option<PageHold<'_>> {
    let reads = match work {
        Work::Read => None,
        Work::Move => Some(Guard::Alone(locks.reads.try_write()?)),
    };
    Some(PageHold([reads, Some(Guard::Alone(locks.writes.try_write()?))]))
}

/// Takes what can be had of neighbouring pages: one that somebody works on does not keep a collector from those beside
/// it.
fn try_run<'a>(
    work: Work,
    locks: &'a Pair<RangeLocks>,
    pages: Range<PageIndex>,
    may: &mut Vec<bool>,
    held: &mut Vec<PageHold<'a>>,
) {
    let count = pages.end - pages.start;
    assert!(count > 0, "a run without pages at {:?}", pages.start);
    match try_range(work, locks, &pages) {
        Some(taken) => {
            may.extend((0..count).map(|_| true));
            held.push(taken);
        }
        None if count <= 1 => may.push(false),
        None => {
            let middle = pages.start + count / 2;
            try_run(work, locks, pages.start..middle, may, held);
            try_run(work, locks, middle..pages.end, may, held);
        }
    }
}

fn try_range<'a>(work: Work, locks: &'a Pair<RangeLocks>, pages: &Range<PageIndex>) -> Option<PageHold<'a>> {
    let range = pages.start.get()..pages.end.get();
    let reads = match work {
        Work::Read => None,
        Work::Move => Some(Guard::Range(take(&range, || locks.reads.try_write(range.clone()))?)),
    };
    Some(PageHold([reads, Some(Guard::Range(take(&range, || locks.writes.try_write(range.clone()))?))]))
}

/// Accounts for a look at the buckets of a range.
fn take<T>(range: &Range<u64>, take: impl FnOnce() -> T) -> T {
    charge_n(Cost::LockOp, range.end.saturating_sub(range.start).min(32));
    take()
}

/// Waits for a range, and counts that under the name of these locks.
fn wait_for<'a>(table: &'a RangeLocks, pages: &Range<PageIndex>, alone: bool) -> Guard<'a> {
    let range = pages.start.get()..pages.end.get();
    let at_once = take(&range, || if alone { table.try_write(range.clone()) } else { table.try_read(range.clone()) });
    Guard::Range(at_once.unwrap_or_else(|| {
        let began = steadyfs_rt::now();
        let _waiting = waiting_for(WaitCause::Lock);
        let guard = if alone { table.write(range) } else { table.read(range) };
        locks::PAGE_GC.record_wait(began);
        guard
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use steadyfs_rt::sim::{SimConfig, run};
    use steadyfs_rt::{lock_stats, sleep, spawn};

    fn pages(start: u64, end: u64) -> Range<PageIndex> {
        PageIndex(start)..PageIndex(end)
    }

    fn may(locks: &FileLocks, work: Work, pages: impl IntoIterator<Item = u64>) -> Vec<bool> {
        locks.try_pages(work, &pages.into_iter().map(PageIndex).collect::<Vec<_>>()).0
    }

    #[test]
    fn files_exclude_collectors_from_each_other_and_pages_do_not() {
        for (protect, beside) in [(GcProtect::File, false), (GcProtect::Page, true)] {
            let locks = FileLocks::new(protect);
            for work in [Work::Read, Work::Move] {
                let (mine, held) = locks.try_pages(work, &[1, 40, 41, 42].map(PageIndex));
                assert_eq!(mine, [true; 4]);
                // Of neighbours those that are free, on both sides of what is held.
                let expected = [beside, beside, false, false, false, beside, beside, beside];
                assert_eq!(may(&locks, Work::Move, (38..45).chain([100])), expected, "{protect:?}");
                drop(held);
                assert_eq!(may(&locks, Work::Move, 38..45), [true; 7]);
            }
        }
    }

    #[test]
    fn io_keeps_collectors_from_what_it_works_on() {
        for (protect, beside) in [(GcProtect::File, false), (GcProtect::Page, true)] {
            let locks = Arc::new(FileLocks::new(protect));
            let both = 9..11;
            {
                // A read keeps blocks where they are, and they may be read beside it, and written.
                let _held = locks.for_read(pages(10, 20));
                assert_eq!(may(&locks, Work::Read, both.clone()), [true, true]);
                assert_eq!(may(&locks, Work::Move, both.clone()), [beside, false]);
                let other = Arc::clone(&locks);
                spawn("writer", move || drop(other.for_write(pages(0, 12)))).join().unwrap();
            }
            {
                let _held = locks.for_write(pages(10, 20));
                assert_eq!(may(&locks, Work::Read, both.clone()), [beside, false]);
                assert_eq!(may(&locks, Work::Move, both.clone()), [beside, false]);
                let other = Arc::clone(&locks);
                spawn("reader", move || drop(other.for_read(pages(15, 30)))).join().unwrap();
            }
            let _held = locks.for_change(pages(10, u64::MAX));
            assert_eq!(may(&locks, Work::Read, both.clone()), [beside, false]);
            assert_eq!(may(&locks, Work::Move, both.clone()), [beside, false]);
        }
    }

    /// Who has to wait is there when the collector is done, and the wait stands under its name.
    #[test]
    fn waits_are_counted_under_the_name_of_the_lock() {
        for (protect, name) in [(GcProtect::File, "i_gc_rwsem"), (GcProtect::Page, "gc_page_range")] {
            let report = run(SimConfig::default(), move || {
                let locks = Arc::new(FileLocks::new(protect));
                let moving = locks.try_pages(Work::Move, &[PageIndex(5)]);
                let writer = {
                    let locks = Arc::clone(&locks);
                    spawn("writer", move || drop(locks.for_write(pages(0, 10))))
                };
                sleep(Duration::from_micros(100));
                drop(moving);
                writer.join().unwrap();
                lock_stats()
            });
            let stats = report.unwrap().value;
            let stat = stats.iter().find(|stat| stat.name == name).unwrap_or_else(|| panic!("{name}: {stats:?}"));
            assert!(stat.waits == 1 && (90_000..110_000).contains(&stat.wait_ns), "{stat:?}");
        }
    }

    #[test]
    fn an_idle_file_has_no_tables() {
        assert!(size_of::<FileLocks>() <= 32, "{}", size_of::<FileLocks>());
        assert!(FileLocks::new(GcProtect::Page).locks.get().is_none());
    }
}
