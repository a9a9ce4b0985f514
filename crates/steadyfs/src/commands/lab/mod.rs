//! `steadyfs lab`: experiments in virtual time. Each verb stands in a file; what they do is in the crate
//! `steadyfs_lab`.

mod drive;
mod experiment;
mod fuzz;
mod import;
mod options;
mod replay;
mod results;
mod sensitivity;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

/// Run experiments on the file system in deterministic virtual time, and judge what papers claim
///
/// The whole file system runs on virtual cores over an emulated SSD, in memory, in one process: no device and no file
/// is touched but the results. The same experiment with the same seed gives the same numbers on any machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs lab run smoke")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(experiment::ListArgs),
    Show(experiment::BuiltinArgs),
    Run(experiment::RunArgs),
    Replay(replay::Args),
    Import(import::Args),
    Sensitivity(sensitivity::Args),
    Compare(results::CompareArgs),
    Report(results::ReportArgs),
    Calibrate(results::CalibrateArgs),
    Drive(drive::Args),
    Fuzz(fuzz::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.verb {
        Verb::List(args) => experiment::list(args),
        Verb::Show(args) => experiment::show(args),
        Verb::Run(args) => experiment::run(args),
        Verb::Replay(args) => replay::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Sensitivity(args) => sensitivity::run(args),
        Verb::Compare(args) => results::compare(args),
        Verb::Report(args) => results::report(args),
        Verb::Calibrate(args) => results::calibrate(args),
        Verb::Drive(args) => drive::run(args),
        Verb::Fuzz(args) => fuzz::run(args),
    }
}

/// An error of the laboratory as a failure of the command.
fn failure(what: impl Into<String>, e: &steadyfs_lab::Error) -> Failure {
    if e.is_usage() {
        return Failure::usage(what, e, "see `steadyfs lab list` and docs/LAB.md; a name with a '.' or '/' is a file");
    }
    Failure::new(what, e, "nothing but the results that were asked for has been written")
}
