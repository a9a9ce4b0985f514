//! The command line: the list of commands; the arguments of each stand beside its code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::styling::Styles;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    cat, completions, crash_test, df, du, dump, export, find, fsck, gc, get, info, lab, links, ln, ls, man, mkdir,
    mkfs, mount, mv, put, recover, resize, rm, stat, top, trace, trim, umount,
};
use crate::failure::Failure;
use crate::talk::Talk;

/// A log-structured file system in user space that speaks F2FS.
#[derive(Debug, Parser)]
#[command(name = "steadyfs", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mkfs(mkfs::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Fsck(fsck::Args),
    Info(info::Args),
    Top(top::Args),
    Dump(dump::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Stat(stat::Args),
    Find(find::Args),
    Du(du::Args),
    Df(df::Args),
    Put(put::Args),
    Get(get::Args),
    Rm(rm::Args),
    Mkdir(mkdir::Args),
    Ln(ln::Args),
    Mv(mv::Args),
    Gc(gc::Args),
    Recover(recover::Args),
    Export(export::Args),
    Resize(resize::Args),
    Trim(trim::Args),
    Trace(trace::Args),
    CrashTest(crash_test::Args),
    Lab(lab::Args),
    Links(links::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// What the commands are for, as `steadyfs --help` has them.
pub(crate) const GROUPS: [(&str, &[&str]); 4] = [
    ("Mount", &["mount", "umount", "top"]),
    ("Files of an image", &["ls", "cat", "stat", "find", "du", "df", "put", "get", "rm", "mkdir", "ln", "mv"]),
    ("Make and care", &["mkfs", "fsck", "info", "gc", "recover", "trim", "resize", "export", "links"]),
    ("Look inside and research", &["dump", "trace", "crash-test", "lab"]),
];

/// Commands about this program alone.
const OTHERS: (&str, &[&str]) = ("This program", &["help", "completions", "man"]);

/// The definition of the command line, with its commands in groups.
pub(crate) fn command() -> clap::Command {
    let command = <Cli as CommandFactory>::command();
    let (styles, mut list) = (Styles::default(), String::new());
    let (header, literal) = (styles.get_header(), styles.get_literal());
    for (group, names) in GROUPS.iter().chain([&OTHERS]) {
        list.push_str(&format!("{header}{group}:{header:#}\n"));
        for name in *names {
            let about = match command.find_subcommand(name).and_then(clap::Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message or the help of a command".to_owned(),
            };
            list.push_str(&format!("  {literal}{name:11}{literal:#} {about}\n"));
        }
        list.push('\n');
    }
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}\n\n\
         `steadyfs help COMMAND` or `steadyfs COMMAND --help` says more.\n"
    );
    command.help_template(template)
}

/// Reads the arguments.
pub(crate) fn parse(argv: &[OsString]) -> Result<Cli, clap::Error> {
    command().try_get_matches_from(argv).and_then(|matches| Cli::from_arg_matches(&matches))
}

impl Command {
    /// What the log tells unless asked: nothing of volumes in memory that are made to fail.
    pub(crate) fn usual_log(&self) -> &'static str {
        match self {
            Command::CrashTest(_) | Command::Lab(_) => "off",
            _ if self.talk().is_some_and(|talk| talk.verbose) => "info",
            _ => "warn",
        }
    }

    /// How much it is to say, if that can be chosen.
    fn talk(&self) -> Option<Talk> {
        match self {
            Command::Mkfs(args) => Some(args.talk),
            Command::Mount(args) => Some(args.end.talk),
            Command::Umount(args) => Some(args.end.talk),
            Command::Fsck(args) => Some(args.talk),
            Command::Gc(args) => Some(args.talk),
            Command::Put(args) => Some(args.end.talk),
            Command::Get(args) => Some(args.end.talk),
            Command::Recover(args) => Some(args.end.talk),
            Command::Export(args) => Some(args.end.talk),
            Command::Resize(args) => Some(args.end.talk),
            Command::Trim(args) => Some(args.end.talk),
            _ => None,
        }
    }

    /// Whether it serves, or runs for long, so that its log tells the time.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Command::Mount(_) | Command::Top(_) | Command::CrashTest(_) | Command::Lab(_))
    }

    /// The name by which the user called it.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Command::Mkfs(_) => "mkfs",
            Command::Mount(_) => "mount",
            Command::Umount(_) => "umount",
            Command::Fsck(_) => "fsck",
            Command::Info(_) => "info",
            Command::Top(_) => "top",
            Command::Dump(_) => "dump",
            Command::Ls(_) => "ls",
            Command::Cat(_) => "cat",
            Command::Stat(_) => "stat",
            Command::Find(_) => "find",
            Command::Du(_) => "du",
            Command::Df(_) => "df",
            Command::Put(_) => "put",
            Command::Get(_) => "get",
            Command::Rm(_) => "rm",
            Command::Mkdir(_) => "mkdir",
            Command::Ln(_) => "ln",
            Command::Mv(_) => "mv",
            Command::Gc(_) => "gc",
            Command::Recover(_) => "recover",
            Command::Export(_) => "export",
            Command::Resize(_) => "resize",
            Command::Trim(_) => "trim",
            Command::Trace(_) => "trace",
            Command::CrashTest(_) => "crash-test",
            Command::Lab(_) => "lab",
            Command::Links(_) => "links",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
        }
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Mkfs(args) => mkfs::run(&args),
            Command::Mount(args) => mount::run(&args),
            Command::Umount(args) => umount::run(&args),
            Command::Fsck(args) => fsck::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Dump(args) => dump::run(&args),
            Command::Ls(args) => ls::run(&args),
            Command::Cat(args) => cat::run(&args),
            Command::Stat(args) => stat::run(&args),
            Command::Find(args) => find::run(&args),
            Command::Du(args) => du::run(&args),
            Command::Df(args) => df::run(&args),
            Command::Put(args) => put::run(&args),
            Command::Get(args) => get::run(&args),
            Command::Rm(args) => rm::run(&args),
            Command::Mkdir(args) => mkdir::run(&args),
            Command::Ln(args) => ln::run(&args),
            Command::Mv(args) => mv::run(&args),
            Command::Gc(args) => gc::run(&args),
            Command::Recover(args) => recover::run(&args),
            Command::Export(args) => export::run(&args),
            Command::Resize(args) => resize::run(&args),
            Command::Trim(args) => trim::run(&args),
            Command::Trace(args) => trace::run(&args),
            Command::CrashTest(args) => crash_test::run(&args),
            Command::Lab(args) => lab::run(&args),
            Command::Links(args) => links::run(&args),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn each_command_is_in_one_group() {
        let grouped = GROUPS.iter().chain([&OTHERS]).flat_map(|(_, names)| names.iter().copied());
        let mut grouped: Vec<&str> = grouped.filter(|name| *name != "help").collect();
        let command = command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
