//! `steadyfs-bench journal`: what programs do to make names last, with the metadata journal and without it, beside
//! ext4 and XFS, in one run.
//!
//! All systems are on a loop device over the same memory, one directly after the other within each repetition, and run
//! the same [`patterns`]. A measurement is idle, or beside inodes that somebody else dirties: before each of its
//! rounds all of a number of small files are written to and not synced, outside the time that is taken.

mod names;
mod patterns;
mod report;

use crate::arguments;
use crate::bed::Target;
use crate::comparison::{Repeated, Site};
use crate::report::Samples;
use anyhow::Result;
use clap::{Parser, ValueEnum};
use names::{Ends, Names, names_of};
use patterns::{PATTERNS, Pattern};
use report::{PatternFindings, Row, Timing};
use serde::Serialize;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The name of the command.
pub(crate) const COMMAND: &str = "journal";

/// Small files that somebody else dirties, in a directory.
const FILES_PER_DIR: u64 = 1000;

/// The systems that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum System {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
    /// The library with `journal=off`
    LibraryOff,
    /// The library with `journal=single`
    LibrarySingle,
    /// The library with `journal=double`
    LibraryDouble,
    /// The library with `journal=percore`
    LibraryPercore,
    /// A mount with `journal=off`
    MountOff,
    /// A mount with `journal=single`
    MountSingle,
}

impl System {
    fn is_library(self) -> bool {
        matches!(self.setup().0, Target::LibraryLoop)
    }

    /// How it is mounted.
    fn setup(self) -> (Target, &'static str) {
        match self {
            System::Ext4 => (Target::Ext4, ""),
            System::Xfs => (Target::Xfs, ""),
            System::LibraryOff => (Target::LibraryLoop, "journal=off"),
            System::LibrarySingle => (Target::LibraryLoop, "journal=single"),
            System::LibraryDouble => (Target::LibraryLoop, "journal=double"),
            System::LibraryPercore => (Target::LibraryLoop, "journal=percore"),
            System::MountOff => (Target::FuseLoop, "journal=off"),
            System::MountSingle => (Target::FuseLoop, "journal=single"),
        }
    }
}

/// Compare the metadata journal with checkpoints, ext4 and XFS
#[derive(Debug, Parser)]
struct Args {
    /// Systems to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = System::value_variants().to_vec())]
    systems: Vec<System>,
    /// Patterns to run; all unless given
    #[arg(long, value_delimiter = ',')]
    patterns: Vec<String>,
    /// Clients of the measurements with many
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(2..))]
    clients: u64,
    /// Inodes that somebody else dirties
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    dirty: u64,
    /// Rounds of a client while nothing is dirty
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Rounds of a client beside dirty inodes, which are dirtied again before each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    dirty_rounds: u64,
    /// MiB of the image: mkfs.xfs needs 384 for a journal of its usual size
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(384..))]
    size: u64,
    #[command(flatten)]
    repeated: Repeated,
}

impl Args {
    fn patterns(&self) -> Result<Vec<&'static Pattern>> {
        arguments::chosen("pattern", &PATTERNS, |pattern| pattern.name, &self.patterns)
    }

    /// The measurements of a pattern: with one client and nothing dirty, with many and much; the first pattern in both
    /// other ways, too.
    fn rows(&self, pattern: &Pattern) -> Vec<Row> {
        let row = |clients, dirty| Row { pattern: pattern.name, clients, dirty };
        let mut rows = vec![row(1, 0)];
        if pattern.name == PATTERNS[0].name {
            rows.extend([row(self.clients, 0), row(1, self.dirty)]);
        }
        rows.push(row(self.clients, self.dirty));
        rows
    }

    /// Rounds of a client.
    fn rounds(&self, row: &Row) -> u64 {
        let rounds = if row.dirty == 0 { self.rounds / row.clients.min(4) } else { self.dirty_rounds };
        if self.repeated.short { rounds.div_ceil(3) } else { rounds.max(1) }
    }
}

/// Measures and reports. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words);
    let patterns = args.patterns()?;
    let site = Site::make(&args.repeated.scratch, args.size << 20)?;
    let rows: Vec<(&Pattern, Row)> =
        patterns.iter().flat_map(|pattern| args.rows(pattern).into_iter().map(|row| (*pattern, row))).collect();
    let repetitions = Samples::by_turns(
        args.repeated.repetitions(),
        &rows,
        |_| args.systems.clone(),
        |(_, row)| row.name(),
        |_, (pattern, row), system| {
            let sample = Place { system, site: &site }.measure(pattern, row, args.rounds(row))?;
            Ok(vec![(row.clone(), sample)])
        },
    )?;
    args.repeated.outcome.tell(site.machine, &PatternFindings { repetitions }, PatternFindings::judge)
}

/// Where something is measured.
struct Place<'a> {
    system: System,
    site: &'a Site,
}

impl Place<'_> {
    /// Measures one row on a fresh file system.
    fn measure(&self, pattern: &Pattern, row: &Row, rounds: u64) -> Result<Timing> {
        let (target, options) = self.system.setup();
        let bed = self.site.bed(target, &format!("cache=1G,node_cache=512M,{options}"))?;
        let mounted = bed.mount()?;
        let names = names_of(&mounted, &self.site.dir);
        let sample = self.run(&*names, pattern, row, rounds)?;
        drop(names);
        mounted.unmount()?;
        Ok(sample)
    }

    fn run(&self, names: &dyn Names, pattern: &Pattern, row: &Row, rounds: u64) -> Result<Timing> {
        let homes: Vec<String> = (0..row.clients).map(|client| format!("client-{client}")).collect();
        for home in &homes {
            names.mkdir(home)?;
            (pattern.prepare)(names, home)?;
        }
        let others = Others::make(names, row.dirty)?;
        names.sync_all()?;
        // Once without taking time.
        homes.iter().try_for_each(|home| (pattern.round)(names, home, 0))?;
        let (mut taken, mut costs) = (Duration::ZERO, [0; 3]);
        // Beside dirty inodes a round a time, which all clients begin together.
        let (turns, each) = if row.dirty == 0 { (1, rounds) } else { (rounds, 1) };
        for turn in 0..turns {
            self.site.stop.check()?;
            others.dirty(names, turn)?;
            let before = names.costs();
            let first = 1 + turn * each;
            taken += at_once(&homes, |home| (first..first + each).try_for_each(|n| (pattern.round)(names, home, n)))?;
            if let (Some(before), Some(after)) = (before, names.costs()) {
                costs[0] += after.checkpoints - before.checkpoints;
                costs[1] += after.flushes - before.flushes;
                costs[2] += after.through - before.through;
            }
        }
        let told = names.costs().is_some();
        let [checkpoints, flushes, through] = costs.map(|cost| told.then_some(cost));
        Ok(Timing { rounds: rounds * row.clients, seconds: taken.as_secs_f64(), checkpoints, flushes, through })
    }
}

/// Runs every client in a thread of its own, once all of them are there; how long it took from when the first began
/// until the last was done.
fn at_once(homes: &[String], work: impl Fn(&str) -> Result<()> + Sync) -> Result<Duration> {
    if let [only] = homes {
        let began = Instant::now();
        return work(only).map(|()| began.elapsed());
    }
    let all_there = Barrier::new(homes.len());
    std::thread::scope(|threads| {
        let (work, all_there) = (&work, &all_there);
        let client = move |home: &str| {
            all_there.wait();
            let began = Instant::now();
            work(home).map(|()| (began, Instant::now()))
        };
        let clients: Vec<_> = homes.iter().map(|home| threads.spawn(move || client(home))).collect();
        let times = clients.into_iter().map(|client| match client.join() {
            Ok(times) => times,
            Err(_) => anyhow::bail!("a client panicked"),
        });
        let (begins, ends): (Vec<Instant>, Vec<Instant>) = times.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let (first, last) = (begins.into_iter().min(), ends.into_iter().max());
        Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
    })
}

/// Files of somebody else.
struct Others(u64);

impl Others {
    /// Makes `count` of them.
    fn make(names: &dyn Names, count: u64) -> Result<Self> {
        for n in 0..count {
            if n % FILES_PER_DIR == 0 {
                names.mkdir(&format!("others-{}", n / FILES_PER_DIR))?;
            }
            names.write(&Self::path(n), &[0; 100], Ends::Cached)?;
        }
        Ok(Others(count))
    }

    fn path(n: u64) -> String {
        format!("others-{}/{n}", n / FILES_PER_DIR)
    }

    /// Writes to all of them.
    fn dirty(&self, names: &dyn Names, turn: u64) -> Result<()> {
        (0..self.0).try_for_each(|n| names.overwrite(&Self::path(n), 0, &[turn as u8 + 1; 100], Ends::Cached))
    }
}
