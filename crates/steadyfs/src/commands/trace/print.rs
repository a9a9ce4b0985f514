//! `steadyfs trace show` and `steadyfs trace stats`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_trace::{Name, Record, Summary};

use crate::failure::Failure;
use crate::size::human;
use crate::text::print_json;

/// Print the operations of a trace, one a line
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The trace
    file: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Sum a trace up: operations, sizes, footprint, write rate
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// The trace
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let trace = super::load(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut print = || {
        for record in &trace.records {
            match args.json {
                true => writeln!(out, "{}", serde_json::to_string(record)?)?,
                false => writeln!(out, "{}", line(record))?,
            }
        }
        out.flush()
    };
    print().map_err(|e| Failure::output(&e))?;
    if trace.cut_off || trace.dropped > 0 {
        let cut = if trace.cut_off { "; the file is cut off" } else { "" };
        eprintln!("{} operations were dropped{cut}", trace.dropped);
    }
    Ok(ExitCode::SUCCESS)
}

/// An operation for people: when, how long, who, what; then what is not 0.
fn line(r: &Record) -> String {
    let mut out = format!(
        "{:>12.6} {:>10.1}us {:>7} {:<11} {}",
        r.start_ns as f64 / 1e9,
        r.duration_ns as f64 / 1e3,
        r.thread,
        r.op.name(),
        r.file
    );
    let name = |name: Name| format!("{:012x}", name.0 >> 8);
    if r.name != Name::default() {
        out += &format!("/{}", name(r.name));
    }
    if r.other != 0 {
        out += &format!(" -> {}", r.other);
    }
    if r.other_name != Name::default() {
        out += &format!("/{}", name(r.other_name));
    }
    for (what, value) in
        [("offset", r.offset), ("to", r.other_offset), ("size", r.size), ("done", r.done), ("flags", r.flags)]
    {
        if value != 0 {
            out += &format!(" {what}={value}");
        }
    }
    if r.error != 0 {
        out += &format!(" error={}", r.error);
    }
    out
}

pub(super) fn stats(args: &StatsArgs) -> Result<ExitCode, Failure> {
    let summary = Summary::of(&super::load(&args.file)?);
    if args.json {
        print_json(&summary)?;
    } else {
        print(&summary, &mut io::stdout().lock()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(s: &Summary, out: &mut impl Write) -> io::Result<()> {
    let cut = if s.cut_off { "; the file is cut off" } else { "" };
    writeln!(
        out,
        "{} operations in {:.3} s by {} threads on {} files; {} dropped{cut}",
        s.operations, s.seconds, s.threads, s.files, s.dropped
    )?;
    writeln!(out, "footprint {}, of which {} written", human(s.footprint_bytes), human(s.written_footprint_bytes))?;
    let (mean, most) = (s.write_mb_s, s.write_mb_s_most);
    writeln!(out, "written {}: {mean:.2} MB/s, at most {most:.2} MB/s in one second", human(s.written_bytes))?;
    writeln!(
        out,
        "{:<12} {:>9} {:>7} {:>8} {:>10} {:>10}",
        "operation", "count", "share", "failed", "mean us", "max us"
    )?;
    let mut ops: Vec<_> = s.ops.iter().collect();
    ops.sort_by_key(|(op, one)| (std::cmp::Reverse(one.count), **op));
    for (op, one) in ops {
        let share = one.count as f64 / s.operations.max(1) as f64 * 100.0;
        writeln!(
            out,
            "{:<12} {:>9} {share:>6.1}% {:>8} {:>10.1} {:>10.1}",
            op.name(),
            one.count,
            one.failed,
            one.mean_us,
            one.max_us
        )?;
    }
    for (what, sizes) in [("read", &s.read_sizes), ("write", &s.write_sizes)] {
        for (size, count) in sizes {
            writeln!(out, "{what} up to {:<10} {count}", human(*size))?;
        }
    }
    Ok(())
}
