//! One file per command: its arguments, and what it does with the crates below.

pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod crash_test;
pub(crate) mod df;
pub(crate) mod du;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod find;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod info;
pub(crate) mod lab;
pub(crate) mod links;
pub(crate) mod ln;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mkdir;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod mv;
pub(crate) mod put;
pub(crate) mod recover;
pub(crate) mod resize;
pub(crate) mod rm;
pub(crate) mod stat;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod trim;
pub(crate) mod umount;

use std::process::ExitCode;

use serde::Serialize;

use crate::failure::Failure;
use crate::talk::End;
use crate::text::print_json;
use crate::transfer::Job;

/// `--help` alone, for commands whose `-h` is that of ls(1), du(1) and df(1).
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LongHelp {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The JSON form of a copy.
#[derive(Serialize)]
struct Copy {
    entries: u64,
    bytes: u64,
    left_out: u64,
}

/// How a copy ends: what was left out has been printed, and the exit code says that there was something. People are
/// told no more.
fn copied(job: &Job, end: End) -> Result<ExitCode, Failure> {
    let left_out = job.notes.count();
    if end.json {
        print_json(&Copy { entries: job.copied.entries, bytes: job.copied.bytes, left_out })?;
    }
    Ok(if left_out == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
