//! `steadyfs man`: the manual pages, made from the same definitions as `--help`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::commands::mount;
use crate::failure::Failure;

/// Print the manual page, or write the pages of all commands into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs man | man -l -")]
pub(crate) struct Args {
    /// Write steadyfs.1 and one page per command into DIR
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The command as its manual describes it: that of `mount` lists more options than its help.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("mount", |mount| mount.after_long_help(mount::manual()))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command(), dir)).map_err(|e| {
                Failure::new(
                    format!("cannot write manual pages to {}", dir.display()),
                    e,
                    "give a directory that you may write",
                )
            })?
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command())
                .render(&mut page)
                .and_then(|()| io::stdout().write_all(&page))
                .map_err(|e| Failure::output(&e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
