//! `steadyfs completions`: a script that makes a shell complete commands and options.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs completions bash > /etc/bash_completion.d/steadyfs")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // clap_complete panics when its writer fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "steadyfs", &mut script);
    io::stdout().write_all(&script).map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}
