//! `steadyfs man`: the manual pages, made from the same definitions as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;
use steadyfs_device::create_file;

use crate::cli;
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
    cli::command().mut_subcommand("mount", |mount| mount.after_long_help(mount::manual()))
}

/// Writes the page of each command, never through a symlink.
fn write_pages(dir: &Path) -> io::Result<()> {
    let mut top = command().disable_help_subcommand(true);
    top.build();
    let mut pending = vec![top];
    while let Some(command) = pending.pop() {
        pending.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let page = Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text)?;
        create_file(&dir.join(page.get_filename()), 0o666)?.write_all(&text)?;
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.dir {
        Some(dir) => std::fs::create_dir_all(dir).and_then(|()| write_pages(dir)).map_err(|e| {
            Failure::new(
                format!("cannot write manual pages to {}", dir.display()),
                e,
                "give a directory that you may write",
            )
        })?,
        None => {
            let mut page = Vec::new();
            Man::new(command())
                .render(&mut page)
                .and_then(|()| io::stdout().write_all(&page))
                .map_err(|e| Failure::output(&e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
