//! Range locks on the real runtime: page numbers beyond the first, a model, threads, virtual time; and what ScaleLFS'
//! table got wrong, one test each.

use super::*;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::sim::{Costs, SimConfig, SimFailure};
use steadyfs_rt::{now, sim, sleep, spawn};

const ALL: Range<u64> = 0..u64::MAX;

fn page(page: u64) -> Range<u64> {
    page..page + 1
}

/// Single pages exclude each other by their number, not only page 0: an end that is always 1 makes `1..1` of page 1.
#[test]
fn single_pages_exclude_each_other_whatever_their_number() {
    let locks = RangeLocks::new();
    for at in [0, 1, 2, 31, 32, 33, 63, 64, 1000, 1 << 32, u64::MAX - 1] {
        let held = locks.try_write(page(at)).unwrap();
        assert!(locks.try_write(page(at)).is_none() && locks.try_read(page(at)).is_none(), "page {at} twice");
        // Neighbours, and other pages of the same bucket, are free.
        for other in [at.wrapping_sub(1), at + 1, at ^ 32, at ^ 64].into_iter().filter(|other| *other < u64::MAX) {
            assert!(locks.try_write(page(other)).is_some(), "page {other} beside {at}");
        }
        for around in [at.saturating_sub(1)..at + 1, at.saturating_sub(40)..at + 1, ALL] {
            assert!(locks.try_read(around.clone()).is_none(), "{around:?} with page {at}");
        }
        drop(held);
        let readers = (locks.try_read(page(at)), locks.try_read(ALL));
        assert!(readers.0.is_some() && readers.1.is_some() && locks.try_write(page(at)).is_none(), "page {at}");
    }
    assert_eq!(locks.elements().0, 0);
    let none = (locks.write(7..7), locks.write(7..7), locks.try_write(ALL));
    assert!(none.2.is_some(), "nothing is in an empty range");
}

/// A try that fails, in the first bucket or the last, leaves nothing that anybody could take for a holder, and nothing
/// that was linked is used again.
#[test]
fn a_failed_try_leaves_nothing_behind() {
    let locks = RangeLocks::new();
    for at in [0, 1, 31, 32, 63] {
        let held = locks.read(page(at));
        for _ in 0..3 {
            assert!(locks.try_write(ALL).is_none() && locks.try_write(at.saturating_sub(20)..at + 5).is_none());
            assert_eq!(locks.elements().0, 1, "only the reader of page {at}");
        }
        // What it was in the way of for a moment is not in the way.
        let others = (locks.try_read(ALL), locks.try_write(at + 1..at + 33));
        assert!(others.0.is_some() && others.1.is_none());
        drop((held, others));
    }
    assert_eq!(locks.contended().refused, 5 * 7);
    assert!(locks.try_write(ALL).is_some());
}

/// A waiter sleeps: over a second of waiting next to nothing happens, in virtual time, and it goes on when the range is
/// free.
#[test]
fn waiters_sleep_until_the_range_is_free() {
    let config = SimConfig { cores: 2, costs: Costs::free(), ..SimConfig::default() };
    let report = sim::run(config, || {
        let locks = Arc::new(RangeLocks::new());
        let held = locks.write(40..50);
        let tasks: Vec<_> = [41..42, 33..41, ALL, 49..90]
            .into_iter()
            .map(|range| {
                let locks = Arc::clone(&locks);
                spawn("waiter", move || {
                    let guard = locks.write(range);
                    let at = now();
                    drop(guard);
                    at
                })
            })
            .collect();
        sleep(Duration::from_secs(1));
        let freed = now();
        drop(held);
        let waited = tasks
            .into_iter()
            .map(|task| task.join().unwrap())
            .all(|at| at >= freed && at - freed < Duration::from_millis(1));
        (waited, locks.contended().waits, locks.elements().0)
    });
    let report = report.unwrap();
    assert!(report.value.0, "all went on when the range was free");
    assert!(report.value.1 >= 4, "{} waits", report.value.1);
    assert_eq!(report.value.2, 0);
    assert!(report.events < 200, "{} events: somebody spins", report.events);
}

/// Dropping the table gives back what nobody has walked past, and guards that were forgotten do no harm.
#[test]
fn a_dropped_table_gives_everything_back() {
    let locks = RangeLocks::new();
    for at in 0..100 {
        drop(locks.read(page(at * 32)));
    }
    let (live, dead) = locks.elements();
    assert!(live == 0 && dead <= 1, "{dead} deleted elements in a bucket that is walked each time");
    let holders: Vec<_> = (0..100).map(|at| locks.read(page(at))).collect();
    drop(holders);
    let (live, dead) = locks.elements();
    assert!(live == 0 && dead > 32, "{dead} elements wait for somebody who walks past");
    std::mem::forget(locks.write(5..7));
    assert_eq!(locks.elements().0, 2);
    // That these are freed, and once, the model checker counts (`tests/ranges`).
    drop(locks);
}

/// Readers that keep coming do not keep a writer out, nor collectors that try.
#[test]
fn a_waiting_writer_is_not_starved() {
    let config = SimConfig { cores: 4, costs: Costs::free(), ..SimConfig::default() };
    let report = sim::run(config, || {
        let locks = Arc::new(RangeLocks::new());
        let done = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..3)
            .map(|i| {
                let (locks, done) = (Arc::clone(&locks), Arc::clone(&done));
                spawn("reader", move || {
                    let mut count = 0u32;
                    while done.load(SeqCst) == 0 && count < 10_000 {
                        let guard = locks.read(i..i + 100);
                        sleep(Duration::from_micros(10 + i));
                        drop(guard);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        sleep(Duration::from_micros(105));
        let began = now();
        let guard = locks.write(50..60);
        let waited = began.elapsed();
        done.store(1, SeqCst);
        drop(guard);
        let counts: Vec<u32> = readers.into_iter().map(|task| task.join().unwrap()).collect();
        (waited, counts)
    });
    let (waited, counts) = report.unwrap().value;
    assert!(waited < Duration::from_micros(20), "the writer waited for {waited:?}");
    assert!(counts.iter().all(|count| *count < 100), "{counts:?}");
}

/// Who asks for what it holds waits for itself, which virtual time reports.
#[test]
fn asking_twice_is_a_deadlock_that_is_seen() {
    let twice = sim::run(SimConfig::default(), || {
        let locks = RangeLocks::new();
        let _first = locks.write(3..5);
        drop(locks.write(4..9));
    });
    assert!(matches!(twice, Err(SimFailure::Deadlock(_))), "{twice:?}");
}

/// Real threads on real cores: no two writers on a page, no reader beside one, everything free in the end.
#[test]
fn threads_exclude_each_other() {
    const PAGES: u64 = 80;
    let locks = Arc::new(RangeLocks::new());
    let pages: Arc<Vec<AtomicI64>> = Arc::new((0..PAGES).map(|_| AtomicI64::new(0)).collect());
    let held = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..4u64)
        .map(|number| {
            let (locks, pages, held) = (Arc::clone(&locks), Arc::clone(&pages), Arc::clone(&held));
            spawn("holder", move || {
                let mut seed = number + 1;
                let mut below = |n: u64| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ((u128::from(seed) * u128::from(n)) >> 64) as u64
                };
                for _ in 0..4000 {
                    let start = below(PAGES);
                    let range = if below(16) == 0 { ALL } else { start..(start + 1 + below(40)).min(PAGES) };
                    let (write, guard) = match below(4) {
                        0 => (true, locks.try_write(range.clone())),
                        1 => (false, locks.try_read(range.clone())),
                        2 => (true, Some(locks.write(range.clone()))),
                        _ => (false, Some(locks.read(range.clone()))),
                    };
                    let Some(guard) = guard else { continue };
                    let mine = &pages[range.start as usize..range.end.min(PAGES) as usize];
                    for page in mine {
                        let before = page.fetch_add(if write { -1 } else { 1 }, SeqCst);
                        assert!(if write { before == 0 } else { before >= 0 }, "{range:?}: {before}");
                    }
                    held.fetch_add(1, SeqCst);
                    for page in mine {
                        page.fetch_sub(if write { -1 } else { 1 }, SeqCst);
                    }
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().unwrap();
    }
    assert!(held.load(SeqCst) > 8000 && locks.elements().0 == 0, "{} held", held.load(SeqCst));
    assert!(locks.try_write(ALL).is_some());
}

fn some_range() -> impl Strategy<Value = Range<u64>> {
    prop_oneof![
        (0u64..100, 0u64..50).prop_map(|(start, len)| start..start + len),
        (0u64..100).prop_map(page),
        Just(ALL),
    ]
}

proptest! {
    /// Tries and releases in any order, against a list of what is held.
    #[test]
    fn tries_succeed_exactly_where_nothing_conflicts(
        steps in prop::collection::vec((some_range(), any::<bool>(), any::<bool>(), any::<prop::sample::Index>()), 1..60)
    ) {
        let locks = RangeLocks::new();
        let mut held: Vec<(Range<u64>, bool, RangeGuard<'_>)> = Vec::new();
        for (range, write, release, which) in steps {
            if release && !held.is_empty() {
                drop(held.swap_remove(which.index(held.len())));
                continue;
            }
            let overlap = |other: &Range<u64>| other.start.max(range.start) < other.end.min(range.end);
            let conflict = held.iter().any(|(other, theirs, _)| (*theirs || write) && overlap(other));
            let guard = if write { locks.try_write(range.clone()) } else { locks.try_read(range.clone()) };
            prop_assert_eq!(guard.is_none(), conflict, "{:?}, write {}", range, write);
            held.extend(guard.map(|guard| (range, write, guard)));
        }
        held.clear();
        prop_assert_eq!(locks.elements().0, 0);
    }
}
