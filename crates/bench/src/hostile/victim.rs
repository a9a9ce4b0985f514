//! The victim: one process that loops over small operations in the directory that it stands in.
//!
//! Each is timed from its first system call to its last. Those that are refused have times, too: a user waits for a
//! refusal. They count for the long waits, not for the median, for a refusal at once is no fast operation.

use super::party;
use crate::data::{Buffer, PAGE};
use crate::latency::Latencies;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The word of the hidden command.
pub(super) const ROLE: &str = "victim";
/// The name of the row of all operations.
pub(super) const ALL: &str = "all";
/// Names in the small directory.
const LISTED: usize = 16;

/// What the victim does in each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Create,
    Fsync,
    Stat,
    Read,
    Readdir,
    Rename,
    Unlink,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Fsync => "fsync",
            Operation::Stat => "stat",
            Operation::Read => "read",
            Operation::Readdir => "readdir",
            Operation::Rename => "rename",
            Operation::Unlink => "unlink",
        }
    }
}

/// The names of the operations in the order of a round, and of all of them.
pub(super) const OPERATIONS: [&str; 8] = ["create", "fsync", "stat", "read", "readdir", "rename", "unlink", ALL];

/// Times of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Waits {
    /// How many succeeded, and how many were refused.
    pub(super) done: u64,
    pub(super) refused: u64,
    /// The median of those that succeeded, microseconds.
    pub(super) p50_us: f64,
    /// What 99.9 % of all of them did not exceed, and the longest.
    pub(super) p999_us: f64,
    pub(super) worst_us: f64,
}

/// What the victim met with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Suffered {
    pub(super) seconds: f64,
    /// By the name of the operation, and [`ALL`].
    pub(super) waits: BTreeMap<String, Waits>,
    /// How often each error came.
    pub(super) errors: BTreeMap<String, u64>,
}

/// Times while they are taken.
struct Times {
    done: Latencies,
    refused: Latencies,
    counts: [u64; 2],
}

impl Times {
    fn new() -> Self {
        Times { done: Latencies::new(), refused: Latencies::new(), counts: [0; 2] }
    }

    fn merge(&mut self, other: &Times) {
        self.done.merge(&other.done);
        self.refused.merge(&other.refused);
        self.counts.iter_mut().zip(other.counts).for_each(|(ours, theirs)| *ours += theirs);
    }

    fn waits(&self) -> Waits {
        let mut all = self.done.clone();
        all.merge(&self.refused);
        let us = |ns: u64| ns as f64 / 1e3;
        Waits {
            done: self.counts[0],
            refused: self.counts[1],
            p50_us: us(self.done.quantile(0.5)),
            p999_us: us(all.quantile(0.999)),
            worst_us: us(all.longest()),
        }
    }
}

/// All that is timed.
#[derive(Default)]
pub(super) struct Log {
    times: BTreeMap<Operation, Times>,
    errors: BTreeMap<String, u64>,
}

impl Log {
    /// Does and times an operation; whether it succeeded.
    fn time(&mut self, operation: Operation, work: impl FnOnce() -> io::Result<()>) -> bool {
        let began = Instant::now();
        let outcome = work();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let times = self.times.entry(operation).or_insert_with(Times::new);
        match &outcome {
            Ok(()) => times.done.add(took),
            Err(error) => {
                times.refused.add(took);
                *self.errors.entry(format!("{}: {error}", operation.name())).or_default() += 1;
            }
        }
        times.counts[usize::from(outcome.is_err())] += 1;
        outcome.is_ok()
    }
}

/// Loops for `seconds` seconds, and tells of it.
pub(super) fn run(seconds: f64) -> Result<()> {
    let mut user = User::new().context("the victim's directory cannot be prepared")?;
    party::wait_for_go()?;
    let mut log = Log::default();
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    while began.elapsed() < limit {
        user.round(&mut log);
    }
    let mut all = Times::new();
    log.times.values().for_each(|times| all.merge(times));
    let mut waits: BTreeMap<String, Waits> =
        log.times.iter().map(|(operation, times)| (operation.name().to_owned(), times.waits())).collect();
    waits.insert(ALL.to_owned(), all.waits());
    party::tell(&Suffered { seconds: began.elapsed().as_secs_f64(), waits, errors: log.errors })
}

/// Who works in the directory that the process stands in.
pub(super) struct User {
    rounds: u64,
    kept: File,
    data: Buffer,
}

impl User {
    /// Makes what the operations need.
    pub(super) fn new() -> io::Result<Self> {
        for dir in ["a", "b", "list"] {
            std::fs::create_dir(dir)?;
        }
        for name in 0..LISTED {
            File::create_new(format!("list/{name}"))?;
        }
        let kept = File::create_new("kept")?;
        kept.sync_all()?;
        Ok(User { rounds: 0, kept, data: Buffer::random(PAGE, 5) })
    }

    /// One of each operation. A file that could not be made is not looked for.
    pub(super) fn round(&mut self, log: &mut Log) {
        let (first, second) = (format!("a/{}", self.rounds), format!("b/{}", self.rounds));
        self.rounds += 1;
        let made = log.time(Operation::Create, || File::create_new(&first)?.write_all(self.data.bytes()));
        log.time(Operation::Fsync, || {
            self.kept.write_all_at(&self.data.bytes()[..512], 0)?;
            self.kept.sync_all()
        });
        if made {
            log.time(Operation::Stat, || std::fs::metadata(&first).map(drop));
            log.time(Operation::Read, || File::open(&first)?.read_exact(&mut [0; PAGE]));
        }
        log.time(Operation::Readdir, || {
            let count = std::fs::read_dir("list")?.try_fold(0, |count, entry| entry.map(|_| count + 1))?;
            if count == LISTED { Ok(()) } else { Err(io::Error::other(format!("{count} names of {LISTED}"))) }
        });
        if !made {
            let _ = std::fs::remove_file(&first);
            return;
        }
        let renamed = log.time(Operation::Rename, || std::fs::rename(&first, &second));
        log.time(Operation::Unlink, || std::fs::remove_file(if renamed { &second } else { &first }));
    }
}
