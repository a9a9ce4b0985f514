//! Virtual time: cores, locks, waiting, the same schedule for the same seed, and what cannot go on.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::queue::Queue;
use steadyfs_rt::sim::{Costs, SimConfig, SimFailure, SimReport, call_after, compute, cpu_time, run};
use steadyfs_rt::{
    Completion, Condvar, Cost, EventCount, Instant, LockClass, Mutex, Pending, RwLock, charge, charge_n, cpus, now,
    sleep, spawn, wall_clock, yield_now,
};

static A: LockClass = LockClass::new("sim.a", 0);
static B: LockClass = LockClass::new("sim.b", 0);

const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// So many cores, and nothing costs anything but page copies, a microsecond each.
fn config(cores: usize, seed: u64) -> SimConfig {
    let mut costs = Costs::free();
    costs.set(Cost::PageCopy, 1000);
    SimConfig { cores, seed, costs, ..SimConfig::timeless() }
}

fn ok<T: 'static>(config: SimConfig, f: impl FnOnce() -> T + 'static) -> SimReport<T> {
    run(config, f).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn work_is_spread_over_the_cores() {
    for (cores, expected) in [(1, 8), (3, 3), (4, 2), (8, 1), (100, 1)] {
        let report = ok(config(cores, 0), move || {
            assert_eq!(cpus(), cores);
            let tasks: Vec<_> = (0..8).map(|_| spawn("worker", || charge_n(Cost::PageCopy, 1000))).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
        assert_eq!(report.elapsed, expected * MS, "{cores} cores");
        assert!(report.unfinished.is_empty());
    }
}

#[test]
fn a_core_is_shared_in_slices() {
    let report = ok(config(1, 0), || {
        let order = Arc::new(Mutex::new(&A, Vec::new()));
        let tasks: Vec<_> = (0..2)
            .map(|n| {
                let order = Arc::clone(&order);
                spawn("worker", move || {
                    for _ in 0..10 {
                        charge_n(Cost::PageCopy, 1000);
                        order.lock().push(n);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        order.lock().clone()
    });
    assert_eq!(report.elapsed, 20 * MS);
    let turns = report.value.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((5..=8).contains(&turns), "10 ms each in slices of 3 ms: {:?}", report.value);
}

/// Events of others interrupt who computes, and must not give it a new slice each time: those who wait for a core would
/// never get one.
#[test]
fn a_slice_ends_however_often_it_is_interrupted() {
    let report = ok(config(2, 0), || {
        let over = Arc::new(AtomicBool::new(false));
        let busy = |over: &Arc<AtomicBool>| {
            let over = Arc::clone(over);
            spawn("busy", move || {
                let mut rounds = 0;
                while !over.load(SeqCst) && rounds < 100_000 {
                    compute(Duration::from_micros(20));
                    rounds += 1;
                }
                rounds
            })
        };
        // Two for the cores at any time, who interrupt each other every 20 us, and two who wait.
        let tasks: Vec<_> = (0..4).map(|_| busy(&over)).collect();
        sleep(Duration::from_millis(120));
        over.store(true, SeqCst);
        tasks.into_iter().map(|task| task.join().unwrap()).collect::<Vec<i32>>()
    });
    let shares = report.value;
    assert!(shares.iter().all(|rounds| (2400..3700).contains(rounds)), "of 120 ms each had half: {shares:?}");
}

#[test]
fn a_lock_makes_work_take_turns_and_waits_are_counted() {
    static BUSY: LockClass = LockClass::new("sim.busy", 0);
    let report = ok(config(4, 0), || {
        let lock = Arc::new(Mutex::new(&BUSY, 0));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                spawn("worker", move || {
                    for _ in 0..100 {
                        let mut count = lock.lock();
                        charge_n(Cost::PageCopy, 3);
                        *count += 1;
                        drop(count);
                        charge(Cost::PageCopy);
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        (*lock.lock(), steadyfs_rt::lock_stats())
    });
    let (count, stats) = &report.value;
    assert_eq!(*count, 400);
    let ideal = 400 * 3 * US;
    assert!(report.elapsed >= ideal && report.elapsed < ideal * 11 / 10, "{:?}", report.elapsed);
    let busy = stats.iter().find(|stat| stat.name == "sim.busy").unwrap();
    // Three of four wait nearly all of the time.
    assert!(busy.wait_ns > 2 * report.elapsed.as_nanos() as u64 && busy.waits > 200, "{busy:?}");
    // They are of this simulation alone: the next one on this thread begins without, and the process' own know nothing
    // of either.
    assert_eq!(ok(config(4, 0), steadyfs_rt::lock_stats).value, []);
    assert!(steadyfs_rt::lock_stats().iter().all(|stat| stat.name != "sim.busy"));
}

#[test]
fn readers_share_and_a_waiting_writer_comes_next() {
    let report = ok(config(8, 0), || {
        let lock = Arc::new(RwLock::new(&A, Vec::new()));
        let log = Arc::new(Mutex::new(&B, Vec::new()));
        let task = |name: &'static str, start: u32, writes: bool| {
            let (lock, log) = (Arc::clone(&lock), Arc::clone(&log));
            spawn(name, move || {
                sleep(start * US);
                if writes {
                    let mut names = lock.write();
                    charge_n(Cost::PageCopy, 10);
                    names.push(name);
                } else {
                    let names = lock.read();
                    charge_n(Cost::PageCopy, 10);
                    drop(names);
                }
                log.lock().push((name, now().as_nanos() / 1000));
            })
        };
        let tasks = [
            task("r1", 0, false),
            task("r2", 1, false),
            task("w", 2, true),
            task("r3", 3, false),
            task("r4", 3, false),
        ];
        tasks.into_iter().for_each(|task| task.join().unwrap());
        log.lock().clone()
    });
    assert_eq!(report.value, [("r1", 10), ("r2", 11), ("w", 21), ("r3", 31), ("r4", 31)]);
}

#[test]
fn waiting_of_every_kind_works() {
    let report = ok(SimConfig { cores: 3, ..SimConfig::default() }, || {
        let queue = Arc::new(Queue::bounded(2));
        let (event, pending, done) = (Arc::new(EventCount::new()), Arc::new(Pending::new()), Completion::new());
        pending.add(3);
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, pending) = (Arc::clone(&queue), Arc::clone(&pending));
                spawn("consumer", move || {
                    let mut sum = 0u64;
                    while let Some(n) = queue.pop() {
                        sum += n;
                        sleep(5 * US);
                    }
                    pending.done(1);
                    sum
                })
            })
            .collect();
        let (key, waker, finished) = (event.listen(), Arc::clone(&event), done.clone());
        call_after(100 * US, move || waker.notify_all());
        let other = spawn("other", move || {
            yield_now();
            finished.complete(7);
        });
        (1..=100).for_each(|n| queue.push(n).unwrap());
        queue.close();
        pending.wait_zero();
        event.wait(key);
        assert_eq!(done.wait(), 7);
        other.join().unwrap();
        let key = event.listen();
        let began = now();
        assert!(event.wait_timeout(key, 3 * MS), "nobody notifies");
        assert_eq!(began.elapsed() / 1000, 3 * US);
        consumers.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
    });
    assert_eq!(report.value, 5050);
}

#[test]
fn conditions_time_out_and_take_the_lock_back() {
    ok(config(2, 0), || {
        let pair = Arc::new((Mutex::new(&A, false), Condvar::new()));
        let other = Arc::clone(&pair);
        let task = spawn("setter", move || {
            sleep(10 * US);
            let mut set = other.0.lock();
            *set = true;
            other.1.notify_one();
            charge_n(Cost::PageCopy, 50);
        });
        let mut set = pair.0.lock();
        assert!(pair.1.wait_timeout(&mut set, 5 * US) && !*set);
        assert!(!pair.1.wait_timeout(&mut set, 20 * US), "notified in time, whatever the lock takes");
        assert!(*set && now().as_nanos() == 60_000, "{:?}", now());
        drop(set);
        task.join().unwrap();
    });
}

/// A workload with everything in it; the order in which things happened.
fn busy(seed: u64) -> SimReport<Vec<u64>> {
    ok(SimConfig { cores: 5, seed, ..SimConfig::default() }, || {
        let lock = Arc::new(Mutex::new(&A, Vec::new()));
        let shared = Arc::new(RwLock::new(&B, 0u64));
        let tasks: Vec<_> = (0..12u64)
            .map(|n| {
                let (lock, shared) = (Arc::clone(&lock), Arc::clone(&shared));
                spawn("worker", move || {
                    for round in 0..50u64 {
                        charge_n(Cost::RadixLookup, (n * 7 + round * 13) % 50);
                        match (n + round) % 4 {
                            0 => *shared.write() += 1,
                            1 => lock.lock().push(n * 1000 + round),
                            2 => drop(shared.read()),
                            _ => sleep(Duration::from_nanos(500 * n)),
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(*shared.read(), 150);
        lock.lock().clone()
    })
}

#[test]
fn one_seed_is_one_schedule() {
    let first = busy(3);
    assert_eq!(first, busy(3));
    let thread = std::thread::spawn(|| busy(3)).join().unwrap();
    assert_eq!(first, thread, "another thread, other addresses");
    assert_eq!(busy(0), busy(0));
    let orders: std::collections::HashSet<_> = (1..20).map(|seed| busy(seed).value).collect();
    assert!(orders.len() > 15, "seeds give {} orders", orders.len());
    assert_eq!(first.value.len(), 150);
}

#[test]
fn a_deadlock_is_reported_with_names() {
    let failure = run(config(2, 0), || {
        let locks = Arc::new((Mutex::new(&A, ()), Mutex::new(&B, ())));
        let other = Arc::clone(&locks);
        let task = spawn("crosswise", move || {
            let _b = other.1.lock();
            sleep(10 * US);
            let _a = other.0.lock();
        });
        let _a = locks.0.lock();
        sleep(20 * US);
        let _b = locks.1.lock();
        task.join().unwrap();
    });
    let Err(SimFailure::Deadlock(who)) = failure else { panic!("{failure:?}") };
    assert!(who.contains("first waits for sim.b") && who.contains("crosswise#1 waits for sim.a"), "{who}");
    if cfg!(debug_assertions) {
        assert!(who.contains("holding sim.a") && who.contains("holding sim.b"), "{who}");
    }
    let forgotten = run(config(1, 0), || {
        let (lock, condvar) = (Mutex::new(&A, ()), Condvar::new());
        condvar.wait(&mut lock.lock());
    });
    assert!(matches!(forgotten, Err(SimFailure::Deadlock(who)) if who.contains("waits for a notification")));
}

#[test]
fn panics_stay_where_they_belong() {
    let report = ok(config(1, 0), || {
        let lock = Arc::new(Mutex::new(&A, 1));
        let mine = Arc::clone(&lock);
        let task = spawn("unlucky", move || {
            let _held = mine.lock();
            panic!("on purpose");
        });
        let task: Result<(), _> = task.join();
        let panicked = task.unwrap_err();
        assert!(panicked.message == "on purpose" && panicked.thread.starts_with("unlucky"));
        *lock.lock()
    });
    assert_eq!(report.value, 1);
    let failure: Result<SimReport<()>, _> = run(config(1, 0), || panic!("the first"));
    assert_eq!(failure, Err(SimFailure::Panicked("the first".into())));
}

#[test]
fn clocks_begin_alike_and_what_is_left_over_is_named() {
    let report = ok(config(1, 0), || {
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        drop(spawn("daemon", move || {
            loop {
                sleep(MS);
                count.fetch_add(1, SeqCst);
            }
        }));
        sleep(Duration::from_millis(10) + US);
        (wall_clock(), now(), dropped.load(SeqCst))
    });
    let (wall, now, ticks) = report.value;
    assert_eq!((wall.sec, wall.nsec, now.as_nanos(), ticks), (1_704_067_200, 10_001_000, 10_001_000, 10));
    assert_eq!(report.unfinished, ["daemon#1"]);
    assert!(!steadyfs_rt::sim::is_active());
}

/// Also when whoever joins looks for the result at the very moment at which it is left.
#[test]
fn a_task_that_was_joined_has_ended() {
    for step in 0..2000 {
        let report = ok(SimConfig { cores: 2, ..SimConfig::default() }, move || {
            let task = spawn("joined", || sleep(10 * US));
            sleep(10 * US - Duration::from_nanos(1000) + Duration::from_nanos(step));
            task.join().unwrap();
        });
        assert!(report.unfinished.is_empty(), "{step}: {:?}", report.unfinished);
    }
}

#[test]
fn events_of_devices_come_in_time() {
    let report = ok(config(2, 0), || {
        let seen = Rc::new(RefCell::new(Vec::new()));
        for n in [30u64, 10, 20] {
            let seen = Rc::clone(&seen);
            call_after(Duration::from_micros(n), move || seen.borrow_mut().push((n, now().as_nanos())));
        }
        sleep(MS);
        seen.borrow().clone()
    });
    assert_eq!(report.value, [(10, 10_000), (20, 20_000), (30, 30_000)]);
}

#[test]
fn callbacks_may_wait_and_do_not_hold_up_each_other() {
    let report = ok(config(1, 0), || {
        let lock = Arc::new(Mutex::new(&A, Vec::new()));
        let pending = Arc::new(Pending::new());
        for n in [10u64, 20, 30] {
            let (lock, pending) = (Arc::clone(&lock), Arc::clone(&pending));
            pending.add(1);
            call_after(Duration::from_micros(n), move || {
                if n != 20 {
                    lock.lock().push((n, now().as_nanos() / 1000));
                }
                pending.done(1);
            });
        }
        let held = lock.lock();
        charge_n(Cost::PageCopy, 5);
        yield_now();
        charge_n(Cost::PageCopy, 45); // the callbacks come while the only core is busy and the lock is taken
        assert_eq!(pending.count(), 3, "nothing happens before a synchronisation point");
        yield_now();
        assert_eq!(pending.count(), 2, "the one that needs no lock");
        drop(held);
        pending.wait_zero();
        lock.lock().clone()
    });
    assert_eq!(report.value, [(10, 50), (30, 50)]);
    assert!(report.unfinished.is_empty(), "{:?}", report.unfinished);
}

/// What callbacks charge is paid by a core: an idle one, or the one of a task, which then takes longer.
#[test]
fn interrupts_take_the_time_of_a_core() {
    let times = |cores| {
        let work = move || {
            let lock = Mutex::new(&A, ());
            (0..10).for_each(|n| call_after(Duration::from_nanos(10_500 * n + 500), || charge_n(Cost::PageCopy, 3)));
            let (start, cpu) = (now(), cpu_time());
            for _ in 0..100 {
                charge(Cost::PageCopy);
                drop(lock.lock());
            }
            (start.elapsed(), cpu_time() - cpu)
        };
        ok(config(cores, 0), work).value
    };
    assert_eq!(times(1), (130 * US, 130 * US));
    assert_eq!(times(2), (100 * US, 130 * US));
}

/// Waking up who sleeps costs a microsecond, and nothing else but page copies costs anything.
fn with_wake_ups(cores: usize) -> SimConfig {
    let mut config = config(cores, 0);
    config.costs.set(Cost::WakeUp, 1000);
    config
}

#[test]
fn whoever_wakes_sleepers_pays_for_each() {
    ok(with_wake_ups(8), || {
        let pair = Arc::new((Mutex::new(&A, false), Condvar::new()));
        let sleeper = || {
            let pair = Arc::clone(&pair);
            spawn("sleeper", move || {
                pair.1.wait_while(&mut pair.0.lock(), |set| !*set);
                now().as_nanos() / 1000
            })
        };
        let sleepers = [(); 3].map(|()| sleeper());
        sleep(10 * US);
        *pair.0.lock() = true;
        let (began, cpu) = (now(), cpu_time());
        pair.1.notify_all();
        assert_eq!((began.elapsed(), cpu_time() - cpu), (3 * US, 3 * US));
        assert_eq!(sleepers.map(|task| task.join().unwrap()), [11, 12, 13], "one after the other");
        // A lock that somebody sleeps for: the release is work.
        let lock = Arc::new(Mutex::new(&B, ()));
        let (held, other) = (lock.lock(), Arc::clone(&lock));
        let waiter = spawn("waiter", move || drop(other.lock()));
        sleep(10 * US);
        let began = now();
        drop(held);
        assert_eq!(began.elapsed(), US);
        waiter.join().unwrap();
    });
}

/// Two at one time, while both cores are busy: each core does one.
#[test]
fn interrupts_at_one_time_are_shared_by_the_cores() {
    let report = ok(config(2, 0), || {
        (0..2).for_each(|_| call_after(5 * US + 500 * NS, || charge_n(Cost::PageCopy, 30)));
        let busy = || {
            let lock = Mutex::new(&A, ());
            for _ in 0..10 {
                charge(Cost::PageCopy);
                drop(lock.lock());
            }
            now().as_nanos() / 1000
        };
        let other = spawn("busy", busy);
        (busy(), other.join().unwrap())
    });
    assert_eq!(report.value, (40, 40));
}

/// A device that completes a request wakes somebody, and that is work of a core.
#[test]
fn interrupts_pay_for_whom_they_wake() {
    let report = ok(with_wake_ups(1), || {
        let (lock, done) = (Mutex::new(&A, ()), Completion::new());
        let end = done.clone();
        let waiter = spawn("waiter", move || done.wait());
        sleep(US);
        call_after(10 * US + 500 * NS, move || end.complete(()));
        let began = now();
        for _ in 0..100 {
            charge(Cost::PageCopy);
            drop(lock.lock());
        }
        let took = began.elapsed();
        waiter.join().unwrap();
        took
    });
    assert_eq!(report.value, 101 * US);
}

/// On two cores, a task holds a lock for so long, computing or asleep, and from 1 us on a second one waits for it. A
/// third one comes at a time, and has 40 us of work. When the second has the lock, when the third is done, and the time
/// that tasks had on cores until then.
fn beside_a_lock(held_for: u32, computing: bool, comes_at: u32) -> [Duration; 3] {
    let config = SimConfig { spin: 20 * US, handover: 150 * NS, wake: 2500 * NS, ..with_wake_ups(2) };
    let report = ok(config, move || {
        let lock = Arc::new(Mutex::new(&A, ()));
        let (first, second) = (Arc::clone(&lock), Arc::clone(&lock));
        drop(spawn("holder", move || {
            let guard = first.lock();
            if computing {
                compute(held_for * US)
            } else {
                sleep(held_for * US)
            }
            drop(guard);
        }));
        let waiter = spawn("waiter", move || {
            compute(US);
            let _guard = second.lock();
            now()
        });
        sleep(comes_at * US);
        compute(40 * US);
        let (done, cpu) = (now(), cpu_time());
        let since_the_start = |at: Instant| Duration::from_nanos(at.as_nanos());
        [since_the_start(waiter.join().unwrap()), since_the_start(done), cpu]
    });
    report.value
}

#[test]
fn waiters_spin_on_their_core_while_the_holder_runs_and_nobody_wants_it() {
    // Held for less than 20 us, and nobody comes before that.
    assert_eq!(beside_a_lock(10, true, 200), [10 * US + 150 * NS, 240 * US, 60 * US + 150 * NS]);
    // For longer: the waiter has spun for 20 us in vain, and sleeps.
    assert_eq!(beside_a_lock(100, true, 200), [103 * US + 500 * NS, 240 * US, 162 * US]);
    // Somebody comes, and has the core of the waiter, who sleeps.
    assert_eq!(beside_a_lock(10, true, 5), [13 * US + 500 * NS, 45 * US, 56 * US]);
    // The holder sleeps: so does who waits for it, at once.
    assert_eq!(beside_a_lock(30, false, 200), [33 * US + 500 * NS, 240 * US, 42 * US]);
}

/// What spinning takes is time of a core.
#[test]
fn spinning_is_time_on_a_core() {
    let busy = |held_for: u32| {
        let config = SimConfig { spin: 20 * US, ..config(2, 0) };
        let report = ok(config, move || {
            let lock = Arc::new(Mutex::new(&A, ()));
            let held = lock.lock();
            let other = Arc::clone(&lock);
            let waiter = spawn("waiter", move || drop(other.lock()));
            yield_now();
            let cpu = cpu_time();
            compute(held_for * US);
            let both = cpu_time() - cpu;
            drop(held);
            waiter.join().unwrap();
            both
        });
        report.value
    };
    assert_eq!(busy(10), 20 * US);
    assert_eq!(busy(50), 70 * US);
}

/// Cores are busy while a task has one, also in the middle of it; waiting and sleeping are free.
#[test]
fn busy_time_of_cores_is_counted() {
    ok(config(2, 0), || {
        let start = cpu_time();
        sleep(5 * MS);
        assert_eq!(cpu_time() - start, Duration::ZERO);
        let tasks: Vec<_> = (0..3).map(|_| spawn("worker", || charge_n(Cost::PageCopy, 1000))).collect();
        sleep(MS / 2);
        let half = cpu_time() - start;
        assert!(half >= MS && half <= 2 * MS, "two of three have a core for half a millisecond so far: {half:?}");
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(cpu_time() - start, 3 * MS);
    });
    assert_eq!(cpu_time(), Duration::ZERO, "there are no virtual cores outside");
}

/// Page faults of this thread so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
    let (_, after_name) = stat.rsplit_once(')').expect("a name");
    after_name.split_whitespace().nth(7).and_then(|minor| minor.parse().ok()).expect("a number")
}

/// A new stack costs three faults at least: its pages have to be made.
#[test]
fn a_task_takes_the_stack_of_one_that_has_ended() {
    let short_tasks = |tasks| ok(config(1, 0), move || (0..tasks).for_each(|_| spawn("short", || ()).join().unwrap()));
    short_tasks(10);
    let before = faults();
    short_tasks(1000);
    (0..1000).for_each(|_| drop(short_tasks(1)));
    assert!(faults() - before < 1000, "{} page faults", faults() - before);
}

static SPINS: LockClass = LockClass::new("sim.spins", 0).spinning();

/// On two cores, one task holds a lock of this class for a millisecond, another waits for it, and a third has work for
/// a millisecond. When the second one has the lock, when the third one is done, and the time that tasks had on cores.
fn beside_a_waiter(class: &'static LockClass) -> [Duration; 3] {
    let config = SimConfig { handover: Duration::from_nanos(150), wake: Duration::from_nanos(2500), ..config(2, 0) };
    let report = ok(config, move || {
        let lock = Arc::new(Mutex::new(class, ()));
        let (first, second) = (Arc::clone(&lock), Arc::clone(&lock));
        let holder = spawn("holder", move || {
            let _guard = first.lock();
            charge_n(Cost::PageCopy, 1000);
        });
        let waiter = spawn("waiter", move || {
            charge_n(Cost::PageCopy, 1);
            let _guard = second.lock();
            now()
        });
        let third = spawn("third", || {
            charge_n(Cost::PageCopy, 1000);
            now()
        });
        let since_the_start = |at: Instant| Duration::from_nanos(at.as_nanos());
        holder.join().unwrap();
        [since_the_start(waiter.join().unwrap()), since_the_start(third.join().unwrap()), cpu_time()]
    });
    report.value
}

#[test]
fn waiters_of_a_spinning_class_never_sleep() {
    // The waiter sleeps: its core goes to the third task, and waking it takes long.
    assert_eq!(beside_a_waiter(&A), [MS + 2500 * NS, MS + US, 2 * MS + US]);
    // It spins: the third task comes when the lock has been released, and the wait is time on a core.
    assert_eq!(beside_a_waiter(&SPINS), [MS + 150 * NS, 2 * MS, 3 * MS + 150 * NS]);
}

/// Of tasks that all want a lock all the time each gets it in its turn.
#[test]
fn waiters_of_a_spinning_class_come_in_their_order() {
    const TASKS: u32 = 12;
    let config = SimConfig { handover: Duration::from_nanos(150), ..config(TASKS as usize + 1, 0) };
    let report = ok(config, move || {
        let lock = Arc::new(Mutex::new(&SPINS, ()));
        let task = |number: u32| {
            let lock = Arc::clone(&lock);
            spawn("worker", move || {
                let mut longest = Duration::ZERO;
                for round in 0..200 {
                    let began = now();
                    let guard = lock.lock();
                    longest = longest.max(began.elapsed());
                    charge_n(Cost::PageCopy, 1);
                    drop(guard);
                    // Some come back at once, while the one whose turn it is has not seen the lock yet.
                    compute(50 * NS * ((number + round) % 3));
                }
                longest
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).max().unwrap()
    });
    // Two turns of everybody else, if each is overtaken once.
    let turn = US + 2 * 150 * NS + 100 * NS;
    assert!(report.value <= 2 * TASKS * turn, "{:?} of {:?}", report.value, TASKS * turn);
}

/// Else all cores could wait for a task that waits for a core.
#[test]
fn who_holds_a_spinning_lock_keeps_its_core() {
    for cores in [1, 2] {
        let report = ok(config(cores, 0), move || {
            let lock = Arc::new(Mutex::new(&SPINS, 0));
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    spawn("worker", move || {
                        let mut guard = lock.lock();
                        // Longer than a slice, and interrupted.
                        (0..10).for_each(|_| compute(MS));
                        yield_now();
                        *guard += 1;
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            *lock.lock()
        });
        assert_eq!((report.value, report.elapsed), (4, 40 * MS), "{cores} cores");
    }
}

#[test]
fn nobody_sleeps_under_a_spinning_lock() {
    let slept = run(config(1, 0), || {
        let lock = Mutex::new(&SPINS, ());
        let _guard = lock.lock();
        sleep(US);
    });
    let Err(SimFailure::Panicked(message)) = slept else { panic!("{slept:?}") };
    assert!(message.contains("waiting for a time to come"), "{message}");
    // A condition gives the lock up for as long as it takes.
    let report = ok(config(2, 0), || {
        let (lock, changed) = (Mutex::new(&SPINS, ()), Condvar::new());
        let timed_out = changed.wait_timeout(&mut lock.lock(), US);
        sleep(US);
        timed_out
    });
    assert_eq!((report.value, report.elapsed), (true, 2 * US));
}
