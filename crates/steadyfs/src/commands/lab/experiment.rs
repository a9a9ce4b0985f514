//! `steadyfs lab list` and `steadyfs lab run`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_lab::{Batch, Cost, Experiment, Judgement, Record, Run, SweepTable, Verdict, number, sweep_tables};

use super::failure;
use super::options::{Pace, Subject};
use crate::failure::Failure;
use crate::text::{print_json, warn};

/// Figures that are printed unless all are asked for.
const SHOWN: [&str; 8] =
    ["seconds", "mb_s", "latency_mean_us", "waf", "gc_start_s", "before_gc_mb_s", "after_gc_mb_s", "gc_share"];

/// List the experiments that are built in
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Print the experiments with all their settings as JSON
    #[arg(long)]
    json: bool,
}

/// Run an experiment and judge its claims
///
/// With several seeds the 95 % interval of the mean decides of a claim: it holds, it does not hold, or that cannot be
/// told with so few seeds.
///
/// Exits with 0 if no claim fails, with 1 if one does not hold or a check of the results failed, and with 2 for an
/// unknown experiment or setting.
#[derive(Debug, clap::Args)]
#[command(after_long_help = crate::options::for_lab())]
pub(super) struct RunArgs {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    pace: Pace,
    /// Write runs.jsonl, costs.jsonl, series as CSV and index.html into DIR, beside what is there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print every figure, not the most important ones only
    #[arg(long)]
    all: bool,
    /// Print runs, costs and verdicts as JSON
    #[arg(long)]
    json: bool,
}

/// Print an experiment that is built in as TOML, to begin one of your own with
#[derive(Debug, clap::Args)]
pub(super) struct BuiltinArgs {
    /// Its name, as `steadyfs lab list` has it
    name: String,
}

pub(super) fn show(args: &BuiltinArgs) -> Result<ExitCode, Failure> {
    let text = steadyfs_lab::builtin_text(&args.name).map_err(|e| failure(format!("cannot show {}", args.name), &e))?;
    io::stdout().write_all(text.as_bytes()).map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let all = steadyfs_lab::builtins();
    if args.json {
        print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout();
    all.iter()
        .try_for_each(|experiment| writeln!(out, "{:<26} {}", experiment.name, experiment.title))
        .map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let cannot = |e: &steadyfs_lab::Error| failure(format!("cannot run {}", args.subject.experiment), e);
    let (experiment, seeds) = args.subject.open().map_err(|e| cannot(&e))?;
    let (scale, mut watch) = (args.subject.scale, args.pace.watch());
    if let Some(least) = experiment.is_too_small(scale) {
        let name = &experiment.name;
        warn(&format!("{name} was checked at scale {least} and above; at {scale} nothing is judged"));
    }
    let runs = steadyfs_lab::run_seeds(&experiment, scale, &seeds, args.pace.jobs(), |runs| watch.look(runs));
    watch.finish();
    let runs = runs.map_err(|e| cannot(&e))?;
    if let Some(dir) = &args.out {
        steadyfs_lab::save(dir, &runs).map_err(|e| failure("cannot save the results", &e))?;
    }
    let batch = Batch { experiment, scale, runs };
    let judgements = batch.judgements();
    if args.json {
        json(&batch, &judgements)?
    } else {
        print(&batch, &judgements, args.all).map_err(|e| Failure::output(&e))?
    }
    let broken = judgements.iter().any(|judgement| judgement.verdict == Verdict::DoesNotHold);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The results, for programs.
#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a Experiment,
    scale: String,
    runs: Vec<&'a Record>,
    costs: Vec<&'a Cost>,
    judgements: &'a [Judgement],
}

fn json(batch: &Batch, judgements: &[Judgement]) -> Result<(), Failure> {
    print_json(&Report {
        experiment: &batch.experiment,
        scale: batch.scale.to_string(),
        runs: batch.runs.iter().map(|run| &run.record).collect(),
        costs: batch.runs.iter().map(|run| &run.cost).collect(),
        judgements,
    })
}

/// For each figure and each claim the mean over the seeds, and the least and the most.
fn print(batch: &Batch, judgements: &[Judgement], all: bool) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{} at scale {}: {}", batch.experiment.name, batch.scale, batch.experiment.title)?;
    let tables = sweep_tables(batch);
    for (system, runs) in batch.by_system().into_iter().filter(|_| all || tables.is_empty()) {
        print_figures(&mut out, system, runs, all)?;
    }
    tables.iter().try_for_each(|table| print_sweep(&mut out, batch, table))?;
    batch.runs.iter().try_for_each(|run| print_run(&mut out, run))?;
    // Last, for they are what was asked for.
    for judgement @ Judgement { claim, ours, interval, .. } in judgements {
        let ours = ours.map_or_else(
            || "not measured".into(),
            |(mean, least, most)| format!("{} ({} to {})", number(mean), number(least), number(most)),
        );
        let interval = interval.map_or_else(String::new, |(from, to)| {
            format!(", mean of many seeds {} to {} (95 %)", number(from), number(to))
        });
        let (says, figure, verdict) = (claim.subject(), claim.figure(), judgement.in_words());
        writeln!(out, "claim: {says} [{}]\n  ours: {figure} {ours}{interval}: {verdict}", claim.source)?;
    }
    Ok(())
}

/// A figure of each system by the values of the sweep.
fn print_sweep(out: &mut impl Write, batch: &Batch, table: &SweepTable) -> io::Result<()> {
    let name = batch.experiment.sweep.as_ref().map_or("", |sweep| &sweep.name);
    write!(out, "{} by {name}\n  {name:<18}", table.figure)?;
    table.values.iter().try_for_each(|value| write!(out, " {value:>10}"))?;
    for (system, means) in &table.systems {
        write!(out, "\n  {system:<18}")?;
        let cell = |mean: &Option<f64>| mean.map_or_else(|| "-".into(), number);
        means.iter().try_for_each(|mean| write!(out, " {:>10}", cell(mean)))?;
    }
    writeln!(out)
}

/// The figures of one system.
fn print_figures(out: &mut impl Write, system: &str, runs: &[Run], all: bool) -> io::Result<()> {
    let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
    if !system.is_empty() {
        writeln!(out, "{system}")?;
    }
    let count = records.len();
    let over =
        if count == 1 { "one seed, so no spread is known".into() } else { format!("least to most of {count} seeds") };
    writeln!(out, "  {:<26} {:>10}   {over}", "figure", "mean")?;
    let mut shown: Vec<&str> = SHOWN.to_vec();
    if all {
        shown = records.iter().flat_map(|record| record.metrics.keys().map(String::as_str)).collect();
        shown.sort_unstable();
        shown.dedup();
    }
    for name in shown {
        if let Some((mean, least, most)) = steadyfs_lab::spread(name, &records) {
            writeln!(out, "  {name:<26} {:>10}   {} to {}", number(mean), number(least), number(most))?;
        }
    }
    print_kinds(out, &records)
}

/// The checks of a run, and its cost.
fn print_run(out: &mut impl Write, Run { record, cost, .. }: &Run) -> io::Result<()> {
    let checks: Vec<String> = record.checks.iter().map(|(what, came)| format!("{what}: {came}")).collect();
    let system = if record.system.is_empty() { String::new() } else { format!("{}, ", record.system) };
    writeln!(out, "{system}seed {}: trace {}; {}", record.seed, record.trace, checks.join("; "))?;
    writeln!(
        out,
        "  {:.1} s simulated in {:.1} s of CPU, {:.1} million events/s, peak memory {:.0} MB; {}; commit {}",
        record.simulated_seconds,
        cost.cpu_seconds,
        cost.events_per_second / 1e6,
        cost.peak_memory_bytes as f64 / 1e6,
        cost.machine,
        cost.commit
    )
}

/// A line for each kind of operation: how many a second, and how long they take; means over the runs.
fn print_kinds(out: &mut impl Write, records: &[&Record]) -> io::Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    let kinds: Vec<&str> = first.metrics.keys().filter_map(|name| name.strip_suffix("_ops_s")).collect();
    if kinds.is_empty() {
        return Ok(());
    }
    let columns = ["mean", "p50", "p95", "p99", "p999"];
    write!(out, "  {:<18} {:>10}", "operation", "ops/s")?;
    columns.iter().try_for_each(|column| write!(out, " {:>10}", format!("{column} us")))?;
    for kind in kinds {
        // Of its own phase, where an operation has one.
        let own = format!("{kind}_rate");
        let rate = [if first.metrics.contains_key(&own) { own } else { format!("{kind}_ops_s") }];
        let times = columns.iter().map(|column| format!("{kind}_latency_{column}_us"));
        write!(out, "\n  {kind:<18}")?;
        for name in rate.into_iter().chain(times) {
            let mean = steadyfs_lab::spread(&name, records).map_or_else(|| "-".into(), |(mean, ..)| number(mean));
            write!(out, " {mean:>10}")?;
        }
    }
    writeln!(out)
}
