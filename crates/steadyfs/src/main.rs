//! The `steadyfs` command: reads the arguments, runs one command, prints one line if it fails, and exits by convention.
//!
//! The binary also answers to the names that mount(8), fsck(8) and mkfs(8) look for (`argv.rs`). Each command lives in
//! one file of `commands/`. Exit codes are in `failure.rs`, and nowhere else.

mod argv;
mod calendar;
mod cli;
mod commands;
mod emulated;
mod failure;
mod glob;
mod image;
mod interrupt;
mod live;
mod log;
mod memory;
mod metrics;
mod options;
mod partitions;
mod readable;
mod sandbox;
mod service;
mod size;
mod talk;
mod text;
mod transfer;
mod volume;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

fn main() -> ExitCode {
    let argv = argv::by_name(std::env::args_os().collect());
    match cli::parse(&argv) {
        Ok(cli) => {
            log::init(cli.command.usual_log(), cli.command.lasts());
            let verb = cli.command.verb();
            match cli.command.run() {
                Ok(code) => code,
                Err(failure) => failure.report(verb),
            }
        }
        Err(e) => report_usage(e, &argv),
    }
}

/// Commands that people type, and what they are called here.
const ELSEWHERE: [(&str, &str); 3] = [
    ("cp", "`steadyfs put` copies into an image, `steadyfs get` out of it; of a mount, cp(1) does"),
    ("tar", "`steadyfs put --tar` takes an archive into an image, `steadyfs get --tar` makes one of it"),
    ("format", "`steadyfs mkfs` makes a volume"),
];

/// Prints clap's message. Help and version are no failure; anything else is a usage error of the command that was asked
/// for.
fn report_usage(mut e: clap::Error, argv: &[OsString]) -> ExitCode {
    let typed = argv.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    if e.kind() == ErrorKind::InvalidSubcommand
        && let Some((_, tip)) = ELSEWHERE.iter().find(|(name, _)| *name == typed)
    {
        e.remove(ContextKind::SuggestedSubcommand);
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).into()]));
    }
    // Nothing is left to do if even the message cannot be written.
    let _ = e.print();
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => failure::usage_code(typed),
    }
}
