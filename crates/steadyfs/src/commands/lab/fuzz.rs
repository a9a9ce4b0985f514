//! `steadyfs lab fuzz`: the file system under many schedules.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::MountOptions;
use steadyfs_crash::{Effort, generate};

use crate::commands::crash_test::{Search, plan};
use crate::failure::Failure;

/// Run random workloads under many schedules, with faults and power cuts, and compare with a model
///
/// Each seed makes a workload of two to four writers, with collection, checkpoints and syncs, and runs it in virtual time in a schedule of its
/// own on one to eight cores; two of three on a device that ends requests late and out of order, one of three on one that refuses some writes. A
/// run that never ends is reported with who waits for whom. The power is cut at every write, and every state compared with what was promised. A workload that
/// breaks a promise is made short and saved: `steadyfs crash-test --trace --replay FILE` repeats it, schedule and all, and tells what
/// happens. Exits with 1 then.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Seeds from A up to but without B, or the one seed A
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Range<u64>,
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
    let options = args.options.clone();
    let workloads = args.seeds.clone().map(move |seed| generate::scheduled(&options, seed));
    let plan = plan(Effort::LIGHT, args.seeds.start, args.jobs);
    Search { plan, limit: None, save: &args.save, json: args.json }.run(Box::new(workloads))
}
