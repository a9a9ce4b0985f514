//! `steadyfs trace`: what programs do with a mount, recorded, shown and summed up. `steadyfs lab replay` runs it again.

mod print;
mod record;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use steadyfs_trace::file::{self, Trace};

use crate::failure::Failure;

/// Record what is done with a mount, and look at it
///
/// A trace holds every operation that reaches the file system: time, duration, thread, file number, offset, size,
/// result. It holds no contents and no names: a name is a number that depends on its directory and a key that is thrown
/// away when the recording ends. What is left are sizes, times, inode and thread numbers, and how long names are, in
/// steps of 8 bytes. The kernel's page cache comes before the file system: to see each read and write of a program,
/// mount with -o direct_io.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs trace show file.trace")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(record::Args),
    Show(print::ShowArgs),
    Stats(print::StatsArgs),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.verb {
        Verb::Record(args) => record::run(args),
        Verb::Show(args) => print::show(args),
        Verb::Stats(args) => print::stats(args),
    }
}

/// Reads a trace.
fn load(path: &Path) -> Result<Trace, Failure> {
    let what = || format!("cannot read {}", path.display());
    let file = File::open(path).map_err(|e| Failure::new(what(), e, "record one with `steadyfs trace record`"))?;
    file::read(&mut BufReader::new(file))
        .map_err(|e| Failure::new(what(), e, "record one with `steadyfs trace record` of this version"))
}
