//! `steadyfs lab replay`: a trace of one's own on each of some designs and devices.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_lab::{Cost, Record, Replays, Run, Scale, number};

use super::failure;
use super::options::Pace;
use crate::failure::Failure;
use crate::size::Size;
use crate::text::print_json;

/// Replay a trace in virtual time, and see which design and which over-provisioning would serve it
///
/// The operations of `steadyfs trace record` are done again on a volume of its own for each combination of --mount and
/// --over-provisioning, in memory, by as many tasks as threads were at work. A task waits for what it had waited for,
/// and thinks between operations as long as the program did; with --speed N a part of it, with --speed asap not at all.
/// The shape of the tree and sizes are as recorded, contents are not known. After each run the volume is checked.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `steadyfs trace record` or `steadyfs mount --trace` wrote
    trace: PathBuf,
    /// Mount options of a design, as for `steadyfs mount`; may be given several times
    #[arg(long, value_name = "OPTIONS")]
    mount: Vec<String>,
    /// Flash beyond the partition as shares of it, such as 0.07,0.28 [default: the device's own]
    #[arg(long, value_name = "SHARES", value_delimiter = ',')]
    over_provisioning: Vec<f64>,
    /// The device: memory, 970pro, pm9a3 or slow-emmc
    #[arg(long, value_name = "PRESET", default_value = "970pro")]
    device: String,
    /// Size of the partition [default: half again as much as the trace's files take at most, and 64M]
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// How full the volume is before, as a share of the space for files, such as 0.8: beside the trace's own files
    /// there is one that nobody uses
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    fill: f64,
    /// Virtual cores
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    cores: u16,
    /// How many times as fast programs think, or asap
    #[arg(long, value_name = "N|asap", default_value = "1", value_parser = speed)]
    speed: f64,
    /// N runs of each with the seeds 0 to N-1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    #[command(flatten)]
    pace: Pace,
    /// Write runs.jsonl, costs.jsonl, series as CSV and index.html into DIR, beside what is there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print runs and costs as JSON
    #[arg(long)]
    json: bool,
}

/// 0 stands for as fast as possible.
fn speed(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|speed| *speed > 0.0 && *speed <= 1e6);
    match text {
        "asap" => Ok(0.0),
        _ => number.ok_or_else(|| "say a number above 0, or asap".to_owned()),
    }
}

/// The results, for programs.
#[derive(Serialize)]
struct Report<'a> {
    runs: Vec<&'a Record>,
    costs: Vec<&'a Cost>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cannot = |e: &steadyfs_lab::Error| failure(format!("cannot replay {}", args.trace.display()), e);
    let plan = Replays {
        trace: args.trace.clone(),
        mounts: args.mount.clone(),
        over_provisioning: args.over_provisioning.clone(),
        device: args.device.clone(),
        size: args.size.map(|size| size.0),
        cores: args.cores.into(),
        fill: args.fill,
        speed: args.speed,
    };
    let seeds: Vec<u64> = (0..args.seeds).collect();
    let mut groups: Vec<Vec<Run>> = Vec::new();
    for experiment in plan.experiments().map_err(|e| cannot(&e))? {
        let mut watch = args.pace.watch();
        let jobs = args.pace.jobs();
        let runs = steadyfs_lab::run_seeds(&experiment, Scale::FULL, &seeds, jobs, |runs| watch.look(runs));
        watch.finish();
        let runs = runs.map_err(|e| cannot(&e))?;
        if let Some(dir) = &args.out {
            steadyfs_lab::save(dir, &runs).map_err(|e| failure("cannot save the results", &e))?;
        }
        groups.push(runs);
    }
    if args.json {
        let all = || groups.iter().flatten();
        let (runs, costs) = (all().map(|run| &run.record).collect(), all().map(|run| &run.cost).collect());
        print_json(&Report { runs, costs })?;
    } else {
        print(args, &groups).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns of the table: heading, figure, and what it is multiplied by.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("seconds", "seconds", 1.0),
    ("MB/s", "mb_s", 1.0),
    ("p50 us", "latency_p50_us", 1.0),
    ("p99 us", "latency_p99_us", 1.0),
    ("WAF", "waf", 1.0),
    ("flash WAF", "flash_waf", 1.0),
    ("GC %", "gc_share", 100.0),
    ("differs", "replay_differs", 1.0),
];

fn print(args: &Args, groups: &[Vec<Run>]) -> io::Result<()> {
    let mut out = io::stdout();
    let first = groups.iter().flatten().next();
    let figure = |name: &str| first.and_then(|run| run.record.metrics.get(name)).copied().unwrap_or(0.0);
    writeln!(
        out,
        "{}: {} operations, {} s when recorded; on {}, {} virtual cores",
        args.trace.display(),
        number(figure("ios")),
        number(figure("replay_recorded_s")),
        args.device,
        args.cores
    )?;
    let heads: String = COLUMNS.iter().map(|(head, ..)| format!("{head:>11}")).collect();
    writeln!(out, "{:<44}{heads}", "")?;
    for runs in groups {
        let Some(run) = runs.first() else { continue };
        let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
        let spread = |name: &str| steadyfs_lab::spread(name, &records);
        let cell = |name: &str, by: f64| spread(name).map_or("-".into(), |(mean, ..)| number(mean * by));
        let cells: String = COLUMNS.iter().map(|(_, name, by)| format!("{:>11}", cell(name, *by))).collect();
        let name = run.record.experiment.strip_prefix("replay, ").unwrap_or(&run.record.experiment);
        writeln!(out, "{name:<44}{cells}")?;
        if runs.len() > 1
            && let (Some((_, least, most)), Some((_, least_99, most_99))) =
                (spread("seconds"), spread("latency_p99_us"))
        {
            let (seconds, p99) = ((number(least), number(most)), (number(least_99), number(most_99)));
            writeln!(out, "  {} seeds: {} to {} s, p99 {} to {} us", runs.len(), seconds.0, seconds.1, p99.0, p99.1)?;
        }
    }
    writeln!(out, "differs: operations that ended otherwise than when they were recorded; all volumes are clean")
}
