//! The range locks under a model checker: the same source, over atomics and waits of `shuttle`, in many schedules.
//!
//! A deadlock, a lost wake-up, two holders of one page, a use of memory that was given back, and memory that nobody
//! gives back all fail.
#![allow(unreachable_pub, dead_code, reason = "files of the library, seen from a test")]

#[path = "../../src/ranges/list.rs"]
mod list;
mod sync;
#[path = "../../src/ranges/table.rs"]
mod table;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use table::{RangeGuard, RangeLocks};

/// Who is on each of the first pages: -1 a writer, else the number of readers. Not known to the checker, so it adds no
/// schedules.
struct Pages([AtomicI64; 72]);

impl Pages {
    fn new() -> Self {
        Pages(std::array::from_fn(|_| AtomicI64::new(0)))
    }

    fn of(&self, range: &Range<u64>) -> &[AtomicI64] {
        &self.0[range.start as usize..range.end.min(self.0.len() as u64) as usize]
    }

    /// Works on a range for a while, with others in between.
    fn work(&self, range: &Range<u64>, write: bool, guard: RangeGuard<'_>) {
        for page in self.of(range) {
            let before = page.fetch_add(if write { -1 } else { 1 }, SeqCst);
            assert!(if write { before == 0 } else { before >= 0 }, "{range:?}, write {write}: {before} on a page");
        }
        shuttle::thread::yield_now();
        for page in self.of(range) {
            page.fetch_sub(if write { -1 } else { 1 }, SeqCst);
        }
        drop(guard);
    }
}

const ALL: Range<u64> = 0..u64::MAX;

#[derive(Clone, Copy)]
enum Ask {
    Read,
    Write,
    TryRead,
    TryWrite,
}

fn ask(locks: &RangeLocks, pages: &Pages, range: &Range<u64>, how: Ask) -> bool {
    let (write, guard) = match how {
        Ask::Read => (false, Some(locks.read(range.clone()))),
        Ask::Write => (true, Some(locks.write(range.clone()))),
        Ask::TryRead => (false, locks.try_read(range.clone())),
        Ask::TryWrite => (true, locks.try_write(range.clone())),
    };
    let Some(guard) = guard else { return false };
    pages.work(range, write, guard);
    true
}

/// Threads that each ask for ranges in order, over one table; afterwards everything is free, and all memory is given
/// back.
fn threads(work: Vec<Vec<(Range<u64>, Ask)>>) {
    let (locks, pages) = (Arc::new(RangeLocks::new()), Arc::new(Pages::new()));
    let tasks: Vec<_> = work
        .into_iter()
        .map(|asks| {
            let (locks, pages) = (Arc::clone(&locks), Arc::clone(&pages));
            shuttle::thread::spawn(move || {
                for (range, how) in asks {
                    ask(&locks, &pages, &range, how);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(locks.elements().0, 0, "somebody holds what nobody has");
    assert!(locks.try_write(ALL).is_some(), "everything is free");
    drop(locks);
    sync::collect();
    assert_eq!(sync::ALIVE.load(SeqCst), 0, "elements are left");
}

/// Ranges on both sides of the borders of pages, of buckets, and of the table.
fn some_range() -> Range<u64> {
    let ranges = [0..1, 1..2, 0..2, 31..32, 32..33, 31..34, 33..34, 1..70, ALL];
    ranges[below(ranges.len())].clone()
}

fn below(n: usize) -> usize {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..n)
}

fn random_work() {
    let some_ask = || [Ask::Read, Ask::Write, Ask::TryRead, Ask::TryWrite][below(4)];
    let count = 2 + below(2);
    threads((0..count).map(|_| (0..1 + below(3)).map(|_| (some_range(), some_ask())).collect()).collect());
}

// The tests count elements in one place, so they run one after the other.
#[test]
fn ranges_hold_under_all_kinds_of_schedules() {
    shuttle::check_random(random_work, 4000);
    shuttle::check_pct(random_work, 4000, 3);
    // Small cases, whole: all their schedules, or as many as there is time for.
    let one = |range: Range<u64>, how| vec![(range, how)];
    for (first, second) in [
        (one(1..2, Ask::Write), one(1..2, Ask::Write)),
        (one(33..34, Ask::Read), one(33..34, Ask::Write)),
        (one(31..33, Ask::Write), one(32..34, Ask::TryWrite)),
        (vec![(5..6, Ask::TryWrite), (5..6, Ask::TryWrite)], one(5..6, Ask::Write)),
    ] {
        shuttle::check_dfs(move || threads(vec![first.clone(), second.clone()]), Some(20_000));
    }
}
