//! A run of the choice of victims alone, without a volume.
//!
//! - `victim_latency_..._us`: the time from when a collector wants a victim until it has one, waiting for locks
//!   included;
//! - `looked_per_victim`: the candidates that were looked at;
//! - `others_per_victim`: those passed because another collector had them in mind;
//! - `looked_per_kept`: what a search costs for each victim that it keeps, whether the run comes to use it or not;
//! - `valid_mean`: the mean of valid blocks of the victims;
//! - `valid_best`: the same of as many segments with the fewest valid blocks at the start, by a full sort.
//!
//! Kept true: a search is one piece of work in virtual time, nothing happens in its middle; what is measured is what it
//! costs, and what others have taken by then.

use super::phases::{Measured, Metrics, Outcome, Trial, named};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spec::Experiment;
use crate::stage::Tally;
use crate::workload::{BLOCKS, Victims};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::VictimStand;
use steadyfs_rt::{JoinHandle, now, sleep, spawn};

/// What the tasks share.
struct Field {
    options: Victims,
    stand: VictimStand,
    progress: Arc<Progress>,
    over: AtomicBool,
    /// By segment: a collector has it as its victim.
    held: Vec<AtomicBool>,
}

/// What a collector came to.
#[derive(Default)]
struct Found {
    times: Tally,
    victims: u64,
    searches: u64,
    looked: u64,
    others: u64,
    kept: u64,
    valid: u64,
    stale: u64,
    /// Victims that another collector had at that time: none.
    twice: u64,
}

/// See the head of the module.
pub(super) struct VictimTrial {
    field: Arc<Field>,
    seed: u64,
    /// Mean of valid blocks of the best victims.
    best: f64,
    writers: Vec<JoinHandle<Found>>,
    /// What the collectors came to.
    found: Found,
}

impl VictimTrial {
    pub(super) fn new(experiment: &Experiment, options: &Victims, seed: u64, progress: &Arc<Progress>) -> Result<Self> {
        let mount = experiment.mount_options().map_err(Error::core("volume.mount"))?;
        let segments = options.segments as u32;
        let field = Arc::new(Field {
            options: options.clone(),
            stand: VictimStand::new(segments, &mount.gc, options.reach(), options.collectors as usize),
            progress: Arc::clone(progress),
            over: AtomicBool::new(false),
            held: (0..segments).map(|_| AtomicBool::new(false)).collect(),
        });
        Ok(VictimTrial { field, seed, best: 0.0, writers: Vec::new(), found: Found::default() })
    }

    /// Starts `many` tasks, each with choices of its own.
    fn start(
        &self,
        name: &str,
        stream: u64,
        task: fn(&Field, usize, Rng) -> Found,
        many: u32,
    ) -> Vec<JoinHandle<Found>> {
        let start = |number: u32| {
            let (field, rng) = (Arc::clone(&self.field), Rng::new(self.seed, stream + u64::from(number)));
            spawn(name, move || task(&field, number as usize, rng))
        };
        (0..many).map(start).collect()
    }
}

impl Trial for VictimTrial {
    fn lay_out(&mut self) -> Result<()> {
        let Field { options, stand, .. } = &*self.field;
        let mut with_count = [0u64; BLOCKS as usize + 1];
        let mut rng = Rng::new(self.seed, 0);
        for segment in 0..options.segments as u32 {
            let valid = options.valid(&mut rng);
            stand.fill(segment, valid as u32);
            with_count[valid as usize] += 1;
        }
        self.best = best_mean(&with_count, options.total());
        Ok(())
    }

    fn amount(&self) -> u64 {
        self.field.options.total()
    }

    fn work(&mut self) -> Result<Tally> {
        self.writers = self.start("writer", 1, lose, self.field.options.writers);
        self.found = join(self.start("collector", 1 << 20, collect, self.field.options.collectors))?;
        Ok(std::mem::take(&mut self.found.times))
    }

    fn wind_up(&mut self) -> Result<Tally> {
        self.field.over.store(true, SeqCst);
        Ok(join(std::mem::take(&mut self.writers))?.times)
    }

    fn figures(&mut self, measured: &Measured, metrics: &mut Metrics) -> Result<()> {
        let (found, best) = (&self.found, self.best);
        let per = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let mean = per(found.valid, found.victims);
        metrics.extend(named([
            ("victims", found.victims as f64),
            ("victims_s", found.victims as f64 / measured.seconds),
            ("searches", found.searches as f64),
            ("looked_per_victim", per(found.looked, found.victims)),
            ("looked_per_kept", per(found.looked, found.kept)),
            ("others_per_victim", per(found.others, found.victims)),
            ("stale_per_victim", per(found.stale, found.victims)),
            ("valid_mean", mean),
            ("valid_best", best),
            ("valid_over_best", mean / best.max(1e-9)),
        ]));
        Ok(())
    }

    fn check(self: Box<Self>, outcome: &mut Outcome) -> Result<()> {
        if self.found.twice > 0 {
            let twice = self.found.twice;
            return Err(Error::Check(format!("{twice} victims were those of two collectors at a time")));
        }
        outcome.checks.insert("victims".into(), "no two collectors had the same one at a time".into());
        Ok(())
    }
}

/// Valid blocks on average of the `many` segments with the fewest; full ones are no candidates.
fn best_mean(with_count: &[u64], many: u64) -> f64 {
    let (mut sum, mut left) = (0, many);
    for (valid, segments) in with_count.iter().enumerate().take(BLOCKS as usize) {
        let these = left.min(*segments);
        sum += these * valid as u64;
        left -= these;
    }
    sum as f64 / (many - left).max(1) as f64
}

/// Waits for tasks; what all came to.
fn join(tasks: Vec<JoinHandle<Found>>) -> Result<Found> {
    let mut sum = Found::default();
    for task in tasks {
        let one = task.join().map_err(|panicked| Error::Check(panicked.to_string()))?;
        sum.times.merge(&one.times);
        sum.victims += one.victims;
        sum.searches += one.searches;
        sum.looked += one.looked;
        sum.others += one.others;
        sum.kept += one.kept;
        sum.valid += one.valid;
        sum.stale += one.stale;
        sum.twice += one.twice;
    }
    Ok(sum)
}

/// A collector. They do not all begin at one moment.
fn collect(field: &Field, number: usize, mut rng: Rng) -> Found {
    let mut found = Found::default();
    let cleaning = Duration::from_micros(field.options.clean_us);
    sleep(Duration::from_nanos(rng.below(cleaning.as_nanos() as u64 + 1)));
    for _ in 0..field.options.victims {
        let began = now();
        let victim = field.stand.take(number);
        found.times.record("victim", began.elapsed());
        field.progress.advance(1);
        let Some(victim) = victim else { continue };
        let effort = victim.effort();
        found.victims += 1;
        found.searches += effort.searches;
        found.looked += effort.looked;
        found.others += effort.others;
        found.kept += effort.kept;
        found.valid += u64::from(victim.valid);
        found.stale += u64::from(victim.is_stale());
        let held = &field.held[victim.segment() as usize];
        found.twice += u64::from(held.swap(true, SeqCst));
        sleep(cleaning);
        held.store(false, SeqCst);
        field.stand.clean(number, victim);
    }
    found
}

/// Blocks die, at any places, until the collectors have ended.
fn lose(field: &Field, _number: usize, mut rng: Rng) -> Found {
    let mut found = Found::default();
    let pause = Duration::from_micros(field.options.write_us);
    while !field.over.load(SeqCst) {
        sleep(pause);
        let (segment, off) = (rng.below(field.options.segments), rng.below(BLOCKS));
        let began = now();
        field.stand.lose(segment as u32, off as u32);
        found.times.record("invalidation", began.elapsed());
    }
    found
}
