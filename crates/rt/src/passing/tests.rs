//! The pass-through lock on threads and in virtual time.

use super::*;
use crate::sim::{SimConfig, run};
use crate::{lock_stats, sleep, spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

static PASSED: LockClass = LockClass::new("test.passed", 0);
static BUSY: LockClass = LockClass::new("test.passed_busy", 0);
static ORDERED: LockClass = LockClass::new("test.passed_ordered", 40);

/// Readers and writers by turns; -1 stands for a writer inside, a count for so many readers. How often a reader met
/// another one.
fn mixed(threads: u64, rounds: u64) -> u64 {
    let lock = Arc::new(PassThroughLock::new(&PASSED));
    let inside = Arc::new(AtomicI64::new(0));
    let work = (0..threads).map(|n| {
        let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
        spawn("mixed", move || {
            let mut met = 0;
            for round in 0..rounds {
                if (round + n).is_multiple_of(7) {
                    let _writer = lock.write();
                    assert_eq!(inside.swap(-1, SeqCst), 0, "a writer is alone");
                    yield_now();
                    assert_eq!(inside.swap(0, SeqCst), -1);
                } else {
                    let _reader = lock.read();
                    let before = inside.fetch_add(1, SeqCst);
                    assert!(before >= 0, "no writer is inside");
                    met += u64::from(before > 0);
                    yield_now();
                    inside.fetch_sub(1, SeqCst);
                }
            }
            met
        })
    });
    let work: Vec<_> = work.collect();
    let met = work.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    assert!(lock.try_write().is_some(), "all have left");
    met
}

#[test]
fn readers_share_and_writers_exclude() {
    let lock = PassThroughLock::new(&PASSED);
    {
        let (_a, _b) = (lock.read(), lock.try_read().expect("readers share"));
        assert!(lock.try_write().is_none());
    }
    {
        let _writer = lock.write();
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
    }
    assert!(lock.try_read().is_some());
    mixed(8, 4000);
}

#[test]
fn in_virtual_time_as_well() {
    for seed in 0..200 {
        let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
        let met = run(config, || mixed(12, 40)).unwrap_or_else(|failure| panic!("seed {seed}: {failure}")).value;
        assert!(met > 0, "seed {seed}: no two readers were inside together");
    }
}

#[test]
fn waits_are_counted() {
    let lock = Arc::new(PassThroughLock::new(&BUSY));
    let reader = lock.read();
    let other = Arc::clone(&lock);
    let writer = spawn("writer", move || drop(other.write()));
    sleep(Duration::from_millis(20));
    assert!(lock.try_read().is_none(), "a waiting writer holds back readers");
    drop(reader);
    writer.join().expect("no panic");
    let stat = lock_stats().into_iter().find(|stat| stat.name == "test.passed_busy").expect("one wait");
    assert_eq!(stat.waits, 1);
    assert!(stat.wait_ns >= 1_000_000);
}

#[test]
#[cfg(debug_assertions)]
fn what_would_wait_for_itself_panics() {
    type Wrong = fn(&PassThroughLock);
    let wrong: [Wrong; 3] = [
        |lock| drop((lock.read(), lock.read())),
        |lock| drop((lock.read(), lock.write())),
        |lock| drop((lock.write(), lock.read())),
    ];
    for take in wrong {
        assert!(spawn("wrong", move || take(&PassThroughLock::new(&ORDERED))).join().is_err());
    }
}
