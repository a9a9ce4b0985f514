//! The lanes of the pass-through lock under a model checker: the same source, over atomics and waits of `shuttle`, in
//! many schedules.
//!
//! A reader and a writer inside together, a lost wake-up and a deadlock all fail.
#![allow(unreachable_pub, reason = "files of the library, seen from a test")]

#[path = "../../src/passing/lanes.rs"]
mod lanes;
mod sync;

use lanes::Lanes;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

const READERS: usize = 3;
const LANES: usize = 2;

/// What a thread does, and its number.
#[derive(Clone, Copy)]
enum Ask {
    Enter(usize),
    TryEnter(usize),
    Close,
    TryClose,
}

fn ask(lanes: &Lanes, inside: &AtomicI64, turn: &shuttle::sync::Mutex<()>, how: Ask) {
    let enters = |number: usize, entered: bool| {
        if entered {
            assert!(inside.fetch_add(1, SeqCst) >= 0, "somebody has closed");
            shuttle::thread::yield_now();
            inside.fetch_sub(1, SeqCst);
            lanes.leave(lanes.lane_of(number));
        }
    };
    let closes = |close: &dyn Fn() -> bool| {
        let _turn = turn.lock().unwrap();
        if close() {
            assert_eq!(inside.swap(-1, SeqCst), 0, "somebody is inside");
            shuttle::thread::yield_now();
            inside.store(0, SeqCst);
            lanes.open();
        }
    };
    match how {
        Ask::Enter(number) => {
            lanes.enter(lanes.lane_of(number));
            enters(number, true);
        }
        Ask::TryEnter(number) => enters(number, lanes.try_enter(lanes.lane_of(number))),
        Ask::Close => closes(&|| {
            let _ = lanes.close();
            true
        }),
        Ask::TryClose => closes(&|| lanes.try_close()),
    }
}

/// Threads that each do these things in order; afterwards nobody is inside.
fn threads(work: &[Vec<Ask>]) {
    let shared = Arc::new((Lanes::new(LANES), AtomicI64::new(0), shuttle::sync::Mutex::new(())));
    let tasks: Vec<_> = work
        .iter()
        .map(|asks| {
            let (shared, asks) = (Arc::clone(&shared), asks.clone());
            shuttle::thread::spawn(move || asks.iter().for_each(|how| ask(&shared.0, &shared.1, &shared.2, *how)))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert!(shared.0.try_close(), "somebody is inside who has left");
}

fn below(n: usize) -> usize {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..n)
}

fn random_work() {
    let some = |number| [Ask::Enter(number), Ask::TryEnter(number), Ask::Close, Ask::TryClose][below(4)];
    let work: Vec<_> = (0..2 + below(READERS)).map(|n| (0..1 + below(3)).map(|_| some(n)).collect()).collect();
    threads(&work);
}

#[test]
fn nobody_is_inside_with_a_closer_in_any_schedule() {
    shuttle::check_random(random_work, 4000);
    shuttle::check_pct(random_work, 4000, 3);
    // Small cases, whole: all their schedules, or as many as there is time for.
    for work in [
        [vec![Ask::Enter(0)], vec![Ask::Close]],
        [vec![Ask::Enter(0), Ask::TryEnter(0)], vec![Ask::Close]],
        [vec![Ask::Close], vec![Ask::TryClose]],
    ] {
        shuttle::check_dfs(move || threads(&work), Some(20_000));
    }
}
