//! Scheduling events per second in virtual time: 96 tasks on 48 cores, short critical sections on shared locks.
//!
//! `cargo run --release -p steadyfs-rt --example events`

use std::sync::Arc;
use std::time::Instant;
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{Cost, LockClass, Mutex, charge_n, spawn};

static SHARED: LockClass = LockClass::new("events.shared", 0);

fn main() {
    let began = Instant::now();
    let report = run(SimConfig { cores: 48, ..SimConfig::default() }, || {
        let locks: Arc<Vec<_>> = Arc::new((0..16).map(|_| Mutex::new(&SHARED, 0u64)).collect());
        let tasks: Vec<_> = (0..96usize)
            .map(|n| {
                let locks = Arc::clone(&locks);
                spawn("worker", move || {
                    for round in 0..40_000usize {
                        charge_n(Cost::RadixLookup, ((n * 7 + round * 13) % 16) as u64);
                        *locks[(n + round * 5) % 16].lock() += 1;
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().expect("no panic"));
        locks.iter().map(|lock| *lock.lock()).sum::<u64>()
    })
    .expect("it ends");
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(report.value, 96 * 40_000);
    println!(
        "{} events and {} lock operations in {seconds:.2} s: {:.1} million events/s, {:.1} million lock operations/s; {:?} of virtual time, trace {:016x}",
        report.events,
        2 * report.value,
        report.events as f64 / seconds / 1e6,
        2.0 * report.value as f64 / seconds / 1e6,
        report.elapsed,
        report.trace
    );
}
