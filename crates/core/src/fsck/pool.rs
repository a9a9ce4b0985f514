//! Jobs over threads: numbered jobs, a shared cursor, no recursion and no queue that could grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use steadyfs_rt::try_spawn;

/// Runs the jobs `0..jobs` on at most `threads` threads. Each job may append to the list of its thread; the lists come
/// back joined, in no particular order.
///
/// # Panics
/// If a job does.
pub(super) fn run<T, F>(threads: usize, jobs: usize, job: F) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(usize, &mut Vec<T>) + Send + Sync + 'static,
{
    let job = Arc::new(job);
    let next = Arc::new(AtomicUsize::new(0));
    let worker = {
        let (job, next) = (Arc::clone(&job), Arc::clone(&next));
        move || {
            let mut out = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= jobs {
                    return out;
                }
                job(number, &mut out);
            }
        }
    };
    // This thread works too; a thread that the system does not give is one worker less.
    let helpers: Vec<_> = (1..threads.min(jobs)).filter_map(|_| try_spawn("fsck", worker.clone()).ok()).collect();
    let mut all = worker();
    for helper in helpers {
        match helper.join() {
            Ok(list) => all.extend(list),
            Err(panicked) => panic!("{panicked}"),
        }
    }
    assert!(next.load(Relaxed) >= jobs, "every job was taken");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once_whatever_the_threads() {
        for threads in [1, 2, 7] {
            let mut all = run(threads, 1000, |number, out| out.push(number));
            all.sort_unstable();
            assert_eq!(all, (0..1000).collect::<Vec<_>>());
        }
        assert!(run(3, 0, |_, _: &mut Vec<u8>| unreachable!("no job")).is_empty());
    }
}
