//! The command line: the list of commands; the arguments of each stand beside its code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{completions, dump, fsck, info, man, mkfs};
use crate::failure::Failure;

/// A log-structured file system in user space that speaks F2FS.
#[derive(Debug, Parser)]
#[command(name = "steadyfs", version, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mkfs(mkfs::Args),
    Fsck(fsck::Args),
    Info(info::Args),
    Dump(dump::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// The name by which the user called it.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Command::Mkfs(_) => "mkfs",
            Command::Fsck(_) => "fsck",
            Command::Info(_) => "info",
            Command::Dump(_) => "dump",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Mkfs(args) => mkfs::run(&args),
            Command::Fsck(args) => fsck::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Dump(args) => dump::run(&args),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
