//! `steadyfs lab fuzz`: the file system under many schedules.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use serde::Serialize;
use steadyfs_core::MountOptions;
use steadyfs_crash::load::schedules;
use steadyfs_crash::{Effort, SessionHost, Stop, generate};

use crate::commands::crash_test::{Explored, Search, Sessions, exit, heed_signals, note_interruption, plan, progress};
use crate::failure::Failure;

/// Run random workloads under many schedules, with faults and power cuts, and compare with a model
///
/// Each seed makes a workload of two to four writers, with collection, checkpoints and syncs. It runs in virtual time
/// in a schedule of its own on one to eight cores. Two of three are on a device that ends requests late and out of
/// order, one of three on one that refuses some writes. A run that never ends is reported with who waits for whom. The
/// power is cut at every write, and every state compared with what was promised. A workload that breaks a promise is
/// made short and saved: `steadyfs crash-test --trace --replay FILE` repeats it, schedule and all, and tells what
/// happens. Exits with 1 then. Ctrl-C or SIGTERM ends it between two states, with --load between two seeds: it reports
/// what was done so far, and exits with 130 or 143.
///
/// With --load nothing fails and the power stays on. Each seed has two to twelve writers work on a small volume that is
/// nearly full, on 1 to 48 cores, with several collectors. What they read is compared, and the volume checked. Told is
/// how much was collected; the same seed gives the same run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Seeds from A up to but without B, or the one seed A
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Range<u64>,
    /// Load on nearly full volumes, without faults and power cuts
    #[arg(long, conflicts_with = "save")]
    load: bool,
    /// The kind of the volumes: f2fs, iplfs, iplfs-dir, d2fs, d2fs-dir or zoned, as with `steadyfs crash-test`. On the
    /// last four each writer overwrites a file of its own, and the power is cut at some moments. The device moves
    /// blocks as inconveniently as it may (d2fs), or is a zoned one (zoned), or the cut is one of the host of a device
    /// in files. A session that has not ended after ten minutes of virtual time breaks a promise
    #[arg(long, value_name = "KIND", value_parser = Explored::parse, default_value = "f2fs", conflicts_with = "load")]
    kind: Explored,
    /// Threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Mount options of the workloads, as for `steadyfs mount`
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", default_value = "")]
    options: String,
    /// Where workloads that break a promise are saved
    #[arg(long, value_name = "DIR", default_value = ".")]
    save: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    let range = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(text)?..number(text)?.saturating_add(1),
    };
    if range.is_empty() { Err("there is no seed in it: say A..B with A smaller than B".to_owned()) } else { Ok(range) }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    MountOptions::parse(&args.options)
        .map_err(|e| Failure::usage("cannot mount with these options", e, "see `steadyfs mount --help`"))?;
    if args.load {
        return load(args);
    }
    let kind = match args.kind {
        Explored::Of(kind) => kind,
        Explored::Cut(kind) => {
            let sessions = Sessions {
                kind,
                host: SessionHost::Crowd,
                seeds: args.seeds.clone(),
                states: None,
                options: &args.options,
                jobs: args.jobs,
                json: args.json,
                command: "lab fuzz --jobs 1",
                seed: "--seeds",
            };
            return sessions.run();
        }
    };
    let options = args.options.clone();
    let workloads = args.seeds.clone().map(move |seed| generate::scheduled_on(kind, &options, seed));
    let plan = plan(Effort::LIGHT, args.seeds.start, args.jobs);
    Search { plan, limit: None, save: &args.save, json: args.json }.run(Box::new(workloads))
}

/// The result of load, for programs.
#[derive(Serialize)]
struct Report {
    seeds: u64,
    operations: u64,
    bytes_written: u64,
    bytes_verified: u64,
    victims: u64,
    data_blocks_moved: u64,
    node_blocks_moved: u64,
    blocks_skipped: u64,
    checkpoints: u64,
    collectors: u64,
    collectors_that_worked: u64,
    trace: u64,
    wrong: Vec<Wrong>,
    seconds: f64,
    /// A signal ended it early.
    interrupted: bool,
}

/// A seed under which something was wrong, for programs.
#[derive(Serialize)]
struct Wrong {
    seed: u64,
    what: String,
}

fn load(args: &Args) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let (bar, ended) = (progress(Some(args.seeds.end - args.seeds.start), "seeds"), Arc::new(AtomicU64::new(0)));
    let stop = Stop::default();
    let signal = heed_signals(&stop)?;
    let tell = {
        let (bar, ended) = (bar.clone(), Arc::clone(&ended));
        move |seeds| {
            bar.set_position(seeds);
            ended.fetch_max(seeds, SeqCst);
            !stop.is_set()
        }
    };
    let jobs = args.jobs.map_or_else(steadyfs_rt::cpus, usize::from);
    let (sum, wrong) = schedules::run_seeds(args.seeds.clone(), &args.options, jobs, tell).map_err(|e| {
        Failure::new("cannot make the volumes for the load", e, "report this: it needs nothing but memory")
    })?;
    bar.finish_and_clear();
    let wrong: Vec<_> = wrong.iter().map(|wrong| Wrong { seed: wrong.seed(), what: wrong.to_string() }).collect();
    let report = Report {
        seeds: ended.load(SeqCst),
        operations: sum.figures.operations,
        bytes_written: sum.figures.written,
        bytes_verified: sum.figures.verified,
        victims: sum.collected.victims,
        data_blocks_moved: sum.collected.data_moved,
        node_blocks_moved: sum.collected.nodes_moved,
        blocks_skipped: sum.collected.skipped.total(),
        checkpoints: sum.checkpoints,
        collectors: sum.collectors,
        collectors_that_worked: sum.worked,
        trace: sum.trace,
        wrong,
        seconds: began.elapsed().as_secs_f64(),
        interrupted: signal.code().is_some(),
    };
    print(args, &report).map_err(|e| Failure::output(&e))?;
    Ok(exit(&signal, report.wrong.is_empty()))
}

fn print(args: &Args, report: &Report) -> io::Result<()> {
    let mut out = io::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    for wrong in &report.wrong {
        writeln!(out, "{}\n  again: steadyfs lab fuzz --load --seeds {}{}", wrong.what, wrong.seed, mounted(args))?;
    }
    writeln!(out, "seeds             {}", report.seeds)?;
    writeln!(out, "operations        {}", report.operations)?;
    writeln!(out, "bytes written     {}", report.bytes_written)?;
    writeln!(out, "bytes verified    {}", report.bytes_verified)?;
    writeln!(out, "victims           {}", report.victims)?;
    writeln!(out, "blocks moved      {} of data, {} of nodes", report.data_blocks_moved, report.node_blocks_moved)?;
    writeln!(out, "  gone meanwhile  {}", report.blocks_skipped)?;
    writeln!(out, "checkpoints       {}", report.checkpoints)?;
    writeln!(out, "collectors        {}, of which {} worked", report.collectors, report.collectors_that_worked)?;
    writeln!(out, "trace             {:016x}", report.trace)?;
    writeln!(out, "wrong             {}", report.wrong.len())?;
    writeln!(out, "seconds           {:.1}", report.seconds)?;
    note_interruption(&mut out, report.interrupted)
}

fn mounted(args: &Args) -> String {
    if args.options.is_empty() { String::new() } else { format!(" -o {}", args.options) }
}
