//! Seeds, one after the other on several threads, and runs in virtual time that end whatever happens.

use crate::sessions::CutCounts;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::sim::{self, SimConfig};
use steadyfs_rt::{EventCount, now, spawn};

/// A session takes less than a minute of virtual time. One in which only background threads go on takes for ever.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// What seeds come to, added up.
pub(crate) trait Sum: Default + Send + 'static {
    /// Adds what other seeds came to.
    fn add(&mut self, other: Self);

    /// How much of what is wanted was done.
    fn done(&self) -> u64;

    /// No further seed has to be tried.
    fn is_over(&self) -> bool {
        false
    }
}

/// Tries one seed after the other on several threads, until so much was done, or one says that it is over. `tell` hears
/// how much there was so far; once it returns false no seed begins any more.
///
/// # Errors
/// A thread panicked.
pub(crate) fn each_seed<T: Sum>(
    seeds: Range<u64>,
    wanted: u64,
    jobs: usize,
    tell: impl Fn(u64) -> bool + Send + Sync + 'static,
    one: impl Fn(u64) -> T + Clone + Send + 'static,
) -> Result<T, String> {
    let (next, done) = (Arc::new(AtomicU64::new(seeds.start)), Arc::new(AtomicU64::new(0)));
    let (tell, stop) = (Arc::new(tell), Arc::new(AtomicBool::new(false)));
    let work = move || {
        let mut all = T::default();
        while !stop.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                break;
            }
            let found = one(seed);
            stop.fetch_or(found.is_over(), SeqCst);
            let so_far = done.fetch_add(found.done(), SeqCst) + found.done();
            stop.fetch_or(!tell(so_far) || so_far >= wanted, SeqCst);
            all.add(found);
        }
        all
    };
    let helpers: Vec<_> = (1..jobs).map(|_| spawn("crash-seeds", work.clone())).collect();
    let mut all = work();
    for helper in helpers {
        all.add(helper.join().map_err(|panic| panic.to_string())?);
    }
    Ok(all)
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFault {
    /// Repeats it.
    pub seed: u64,
    /// The broken promise.
    pub what: String,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedsOutcome {
    /// Seeds.
    pub runs: u64,
    /// Those of the seeds that broke no promise.
    pub sum: CutCounts,
    /// At most one for each seed, in the order of the seeds.
    pub wrong: Vec<SeedFault>,
}

impl SeedsOutcome {
    /// What one seed came to.
    pub(crate) fn of(seed: u64, found: Result<CutCounts, String>) -> Self {
        match found {
            Ok(sum) => SeedsOutcome { runs: 1, sum, wrong: Vec::new() },
            Err(what) => SeedsOutcome { runs: 1, wrong: vec![SeedFault { seed, what }], ..SeedsOutcome::default() },
        }
    }
}

impl Sum for SeedsOutcome {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.sum.add(other.sum);
        self.wrong.extend(other.wrong);
        self.wrong.sort_by_key(|wrong| wrong.seed);
    }

    fn done(&self) -> u64 {
        self.sum.states
    }

    fn is_over(&self) -> bool {
        !self.wrong.is_empty()
    }
}

/// What `work` comes to; a panic is this error.
pub(crate) fn without_panic<T, E>(
    work: impl FnOnce() -> Result<T, E>,
    error: impl FnOnce(String) -> E,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(error(text.to_owned()))
    })
}

/// Runs `work` in virtual time, of which it has so much.
///
/// # Errors
/// What `work` says; that it panicked, that everybody waits, or that its time is over.
pub(crate) fn in_time<T: Send + 'static>(
    config: SimConfig,
    limit: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let ran = sim::run(config, move || {
        let over = Arc::new(Over { is_set: AtomicBool::new(false), event: EventCount::new() });
        let told = Told(Arc::clone(&over));
        let task = spawn("session", move || {
            let _told = told;
            work()
        });
        let began = now();
        loop {
            let key = over.event.listen();
            if over.is_set.load(SeqCst) {
                return task.join().map_err(|panic| panic.to_string())?;
            }
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(format!("after {} s of virtual time it has not ended", limit.as_secs()));
            }
            over.event.wait_timeout(key, left);
        }
    });
    ran.map_err(|e| e.to_string())?.value
}

struct Over {
    is_set: AtomicBool,
    event: EventCount,
}

/// Says that a task has ended, in whatever way.
struct Told(Arc<Over>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.is_set.store(true, SeqCst);
        self.0.event.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_rt::sleep;

    fn config() -> SimConfig {
        SimConfig { cores: 2, seed: 3, ..SimConfig::default() }
    }

    fn state() -> CutCounts {
        CutCounts { states: 1, ..CutCounts::default() }
    }

    #[test]
    fn a_run_in_which_everybody_waits_ends_as_a_violation_with_its_seed() {
        let stuck = |seed: u64| {
            let work = move || match seed {
                5 => loop {
                    sleep(Duration::from_secs(1));
                },
                _ => Ok(state()),
            };
            SeedsOutcome::of(seed, in_time(config(), LIMIT, work))
        };
        let found = each_seed(3..9, u64::MAX, 1, |_| true, stuck).unwrap();
        let what = "after 600 s of virtual time it has not ended".to_owned();
        assert_eq!((found.runs, found.sum.states, found.wrong), (3, 2, vec![SeedFault { seed: 5, what }]));
    }

    #[test]
    fn what_a_session_says_is_told_and_so_is_its_panic() {
        assert_eq!(in_time(config(), LIMIT, || Ok(7)), Ok(7));
        assert_eq!(in_time(config(), LIMIT, || Err::<(), _>("broken".to_owned())), Err("broken".to_owned()));
        let panicked = in_time::<()>(config(), LIMIT, || panic!("a promise")).unwrap_err();
        assert!(panicked.contains("a promise"), "{panicked}");
    }

    #[test]
    fn no_seed_begins_once_somebody_says_stop() {
        let one = |seed| SeedsOutcome::of(seed, Ok(state()));
        let found = each_seed(0..1000, u64::MAX, 2, |states| states < 4, one).unwrap();
        assert!((4..=6).contains(&found.runs) && found.wrong.is_empty(), "{} runs", found.runs);
    }
}
