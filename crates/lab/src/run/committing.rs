//! A run of commits alone, without a volume.
//!
//! - `commit_latency_..._us`: the time of a commit, waiting included;
//! - `space_updates`: writes of the count of bytes that all cores share;
//! - `seal_longest_us`: the longest time for which a seal had a list to itself;
//! - `bytes_per_commit`: what batches have for each commit;
//! - `relogged`: the share of parts whose item was in the list already.
//!
//! Kept true: every commit is in one batch, whole.

use super::phases::{Measured, Metrics, Outcome, Trial, named};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::spec::Experiment;
use crate::stage::{Tally, join};
use crate::workload::Committing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::JournalMode;
use steadyfs_journal::{Classes, CommitLists, Form, Item, ListStats, Part};
use steadyfs_rt::sim::compute;
use steadyfs_rt::{JoinHandle, LockClass, Mutex, now, sleep, spawn};

/// Locks as those of core, with its names.
static PUSH: LockClass = LockClass::new("journal_push_mutex", 45);
static CONTEXT: LockClass = LockClass::new("journal_context_lock", 46);
static OWN: LockClass = LockClass::new("i_rwsem", 30);
static LIST: LockClass = LockClass::new("journal_list_lock", 82).spinning();

/// What is to be written of an item, and how many commits it is the sum of.
#[derive(Debug, Default)]
struct Vector {
    bytes: i64,
    commits: u64,
}

/// Batches.
#[derive(Debug, Default)]
struct Pushed {
    batches: u64,
    items: u64,
    bytes: i64,
    commits: u64,
}

/// What the tasks share.
struct Field {
    options: Committing,
    lists: CommitLists<Vector>,
    items: Vec<(Mutex<()>, Arc<Item<Vector>>)>,
    pushed: Mutex<Pushed>,
    progress: Arc<Progress>,
    over: AtomicBool,
}

/// See the head of the module.
pub(super) struct CommitTrial {
    field: Arc<Field>,
    pusher: Option<JoinHandle<()>>,
    /// The lists before the last batch, and all batches.
    stats: ListStats,
    pushed: Pushed,
}

impl CommitTrial {
    pub(super) fn new(experiment: &Experiment, options: &Committing, progress: &Arc<Progress>) -> Result<Self> {
        let mount = experiment.mount_options().map_err(Error::core("volume.mount"))?;
        let form = match mount.journal {
            JournalMode::Off => {
                return Err(Error::spec("volume.mount", "say which journal: there is none to commit to"));
            }
            JournalMode::Single => Form::Single,
            JournalMode::Double => Form::Double,
            JournalMode::PerCore => Form::PerCore { stride: mount.journal_stride },
        };
        let items = if options.shared { options.items } else { options.items * options.tasks };
        let field = Arc::new(Field {
            options: options.clone(),
            lists: CommitLists::new(form, Classes { context: &CONTEXT, list: &LIST }),
            items: (0..items).map(|key| (Mutex::new(&OWN, ()), Item::new(key))).collect(),
            pushed: Mutex::new(&PUSH, Pushed::default()),
            progress: Arc::clone(progress),
            over: AtomicBool::new(false),
        });
        Ok(CommitTrial { field, pusher: None, stats: ListStats::default(), pushed: Pushed::default() })
    }
}

impl Trial for CommitTrial {
    fn lay_out(&mut self) -> Result<()> {
        Ok(())
    }

    fn amount(&self) -> u64 {
        self.field.options.total()
    }

    fn work(&mut self) -> Result<Tally> {
        self.pusher = (self.field.options.push_us > 0).then(|| {
            let field = Arc::clone(&self.field);
            spawn("pusher", move || field.push_until_over())
        });
        let task = |number| {
            let field = Arc::clone(&self.field);
            spawn("committer", move || Ok(field.work(number)))
        };
        join((0..self.field.options.tasks).map(task).collect())
    }

    fn wind_up(&mut self) -> Result<Tally> {
        self.field.over.store(true, SeqCst);
        if let Some(pusher) = self.pusher.take() {
            pusher.join().map_err(|panicked| Error::Check(panicked.to_string()))?;
        }
        self.stats = self.field.lists.stats();
        self.field.push();
        self.pushed = std::mem::take(&mut *self.field.pushed.lock());
        Ok(Tally::default())
    }

    fn figures(&mut self, _measured: &Measured, metrics: &mut Metrics) -> Result<()> {
        let (pushed, stats) = (&self.pushed, &self.stats);
        metrics.extend(named([
            ("batches", pushed.batches as f64),
            ("items_per_batch", pushed.items as f64 / pushed.batches.max(1) as f64),
            ("bytes_per_commit", pushed.bytes as f64 / self.field.options.total() as f64),
            ("relogged", stats.relogged as f64 / stats.parts.max(1) as f64),
            ("space_updates", stats.space_updates as f64),
            ("seal_longest_us", stats.longest_seal_ns as f64 / 1e3),
        ]));
        Ok(())
    }

    fn check(self: Box<Self>, outcome: &mut Outcome) -> Result<()> {
        let (commits, total) = (self.pushed.commits, self.field.options.total());
        if commits != total || self.field.lists.bytes() != 0 {
            return Err(Error::Check(format!("{commits} of {total} commits are in batches")));
        }
        outcome.checks.insert("commits".into(), "each is in one batch".into());
        Ok(())
    }
}

impl Field {
    /// Everything that was committed so far becomes a batch.
    fn push(&self) {
        let mut pushed = self.pushed.lock();
        if let Some(sealed) = self.lists.seal() {
            pushed.batches += 1;
            pushed.items += sealed.items.len() as u64;
            pushed.bytes += sealed.items.iter().map(|(_, vector)| vector.bytes).sum::<i64>();
            pushed.commits += sealed.items.iter().map(|(_, vector)| vector.commits).sum::<u64>();
        }
    }

    fn push_until_over(&self) {
        while !self.over.load(SeqCst) {
            sleep(Duration::from_micros(self.options.push_us));
            self.push();
        }
    }

    /// What one task does.
    fn work(&self, number: u32) -> Tally {
        let options = &self.options;
        let mut tally = Tally::default();
        for commit in 0..options.commits {
            compute(Duration::from_nanos(options.work_ns));
            let turn = commit % options.items;
            let at = if options.shared { (turn + number) % options.items } else { number * options.items + turn };
            let (lock, item) = &self.items[at as usize];
            let began = now();
            let locked = lock.lock();
            let part = Part { item: Arc::clone(item), what: (options.bytes, options.name_bytes) };
            self.lists.commit([part], |vector, (bytes, name)| {
                let grown = if vector.commits == 0 { i64::from(bytes) } else { 0 } + i64::from(name);
                vector.commits += 1;
                vector.bytes += grown;
                grown
            });
            drop(locked);
            tally.record("commit", began.elapsed());
            self.progress.advance(1);
            if options.push_every > 0 && (commit + 1).is_multiple_of(options.push_every) {
                self.push();
            }
        }
        tally
    }
}
