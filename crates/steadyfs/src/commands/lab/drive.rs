//! `steadyfs lab drive`: an emulated drive alone, at each share of writes.

use std::io::{self, Write};
use std::process::ExitCode;

use steadyfs_lab::{Mix, Point, Times, number};

use crate::failure::Failure;
use crate::size::Size;
use crate::text::print_json;

/// Measure an emulated drive without a file system: random reads beside random writes
///
/// Part of a new drive is filled; then so many requests at a time read it and overwrite it at random places. In this
/// simulation nothing but the drive takes time. Hold the figures against a datasheet, a measurement of the drive, or
/// another simulator: docs/lab/PARAMETERS.md has the presets' numbers, and where each comes from.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The drive: 970pro, pm9a3 or slow-emmc
    #[arg(default_value = "pm9a3")]
    preset: String,
    /// Another value for a number of the drive, such as suspend=both; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Writes among 100 requests; a row for each of them
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0,10,30,50,70,90,100",
          value_parser = clap::value_parser!(u32).range(0..=100))]
    writes: Vec<u32>,
    /// Requests at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Bytes of a request, in pages of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    request: Size,
    /// Requests of each row
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Bytes of the drive
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    capacity: Size,
    /// Bytes that are filled, read and overwritten
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    region: Size,
    /// Seed of places and choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let failure = |e: &steadyfs_lab::Error| {
        let what = format!("cannot measure the drive {}", args.preset);
        let hint = "see `steadyfs lab drive --help`; docs/lab/PARAMETERS.md has the numbers of a drive";
        if e.is_usage() { Failure::usage(what, e, hint) } else { Failure::new(what, e, "nothing has been written") }
    };
    let mix = Mix {
        capacity: args.capacity.0,
        region: args.region.0,
        request: args.request.0,
        depth: args.depth,
        requests: args.requests,
        seed: args.seed,
    };
    let drive = steadyfs_lab::drive(&args.preset, &args.set).map_err(|e| failure(&e))?;
    let mut points = Vec::new();
    for &writes in &args.writes {
        points.push(steadyfs_lab::measure(&drive, mix, writes).map_err(|e| failure(&e))?);
    }
    if args.json {
        print_json(&points)?;
    } else {
        print(&points).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(points: &[Point]) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "writes   requests          reads, us                      writes, us                      amplifi-"
    )?;
    writeln!(out, "of 100   a second     mean    p50    p99      max     mean    p50    p99      max   cation")?;
    for point in points {
        let [read, write] = [point.read, point.write].map(times);
        let (iops, amplification) = (number(point.iops), number(point.amplification));
        writeln!(out, "{:>6} {iops:>10}   {read}   {write}   {amplification:>6}", point.writes_percent)?;
    }
    Ok(())
}

/// Four columns; empty where there is nothing of the kind.
fn times(times: Option<Times>) -> String {
    let columns = times.map(|Times { mean, p50, p99, max }| [(mean, 6), (p50, 6), (p99, 6), (max, 8)]);
    let columns = columns.map_or(vec![(String::new(), 29)], |columns| {
        columns.iter().map(|&(value, width)| (number(value), width)).collect()
    });
    columns.iter().map(|(text, width)| format!("{text:>width$}")).collect::<Vec<_>>().join(" ")
}
