//! `steadyfs lab import`: traces that others recorded, in the form that `lab replay` takes.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadyfs_device::{PRIVATE, create_file};
use steadyfs_trace::import::{Format, Imported, Options, Plan};

use crate::failure::Failure;
use crate::size::human;
use crate::text::print_json;

/// Make a trace of a log of fio, or of a block trace in the CSV of MSR Cambridge
///
/// The result is for `lab replay`, `trace show` and `trace stats`. fio writes its logs with write_iolog, versions 2 and
/// 3; SNIA has the block traces of MSR Cambridge and others in their form. Each disk, and each file of a log, becomes a
/// file that holds the pieces of 64 KiB that are used, and that is there before the replay begins. FILE is read twice,
/// and nothing is written if one of its lines is bad. docs/lab/TRACES.md says what becomes of each operation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs lab import job.log --out job.trace")]
pub(super) struct Args {
    /// The log or CSV
    file: PathBuf,
    /// The trace to write; must not be a symlink
    #[arg(short, long, value_name = "TRACE")]
    out: PathBuf,
    /// The format of FILE [default: what its first line looks like]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// fio read and wrote past the page cache (direct=1), which its log does not say; block traces always do
    #[arg(long)]
    direct: bool,
    /// Only the first N operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    first: Option<u64>,
    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
}

/// As in [`Format`].
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FormatName {
    /// A log of fio's write_iolog
    Fio,
    /// CSV: Timestamp, Hostname, DiskNumber, Type, Offset, Size, ResponseTime
    Msr,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cannot = |e: &dyn std::fmt::Display| {
        let hint = "nothing has been written; docs/lab/TRACES.md has the formats";
        Failure::new(format!("cannot import {}", args.file.display()), e, hint)
    };
    let format = args.format.map(|format| match format {
        FormatName::Fio => Format::Fio,
        FormatName::Msr => Format::Msr,
    });
    let file = open(&args.file, &args.out).map_err(|e| cannot(&e))?;
    let mut from = BufReader::new(file);
    let options = Options { format, direct: args.direct, first: args.first };
    let plan = Plan::of(&mut from, options).map_err(|e| cannot(&e))?;
    let imported = write(&plan, &mut from, &args.out)?;
    if args.json {
        print_json(&imported)?;
    } else {
        print(&args.out, &imported).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The text, if it can be read twice and is not what is going to be written.
fn open(path: &Path, out: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file, and has to be read twice"));
    }
    match out.metadata() {
        Ok(other) if (other.dev(), other.ino()) == (found.dev(), found.ino()) => {
            Err(io::Error::other("it is the file that would be written"))
        }
        _ => Ok(file),
    }
}

/// Writes the trace; half of one does not stay, if it is a file at all: nothing else is removed.
fn write(plan: &Plan, from: &mut BufReader<File>, path: &Path) -> Result<Imported, Failure> {
    let cannot =
        |e: &dyn std::fmt::Display, hint: &str| Failure::new(format!("cannot write {}", path.display()), e, hint);
    let file = create_file(path, PRIVATE).map_err(|e| cannot(&e, "no trace has been written"))?;
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let mut out = BufWriter::new(file);
    let written = plan.write(from, &mut out).and_then(|imported| Ok(out.flush().map(|()| imported)?));
    written.map_err(|e| match is_file && std::fs::remove_file(path).is_ok() {
        true => cannot(&e, "no trace has been written"),
        false => cannot(&e, "what is there is no whole trace"),
    })
}

fn print(path: &Path, imported: &Imported) -> io::Result<()> {
    let Imported { format: _, operations, files, file_bytes, seconds, left_out } = imported;
    writeln!(
        io::stdout(),
        "{}: {operations} operations in {seconds:.3} s on {files} files of {} together; {left_out} left out",
        path.display(),
        human(*file_bytes)
    )
}
