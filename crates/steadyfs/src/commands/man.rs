//! `steadyfs man`: the manual pages, made from the same definitions as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;
use steadyfs_device::create_file;

use crate::cli;
use crate::commands::mount;
use crate::failure::{Failure, codes};

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

/// A manual page: a command, and what it has of the commands above it.
struct Page {
    command: clap::Command,
    /// The name of the command below `steadyfs`; none of the program itself.
    verb: String,
    /// Lines of examples: its own, or those of the command above.
    examples: Vec<String>,
}

impl Page {
    /// The page of the program.
    fn top(command: clap::Command) -> Self {
        let examples = vec!["steadyfs mount --create 4G image.img ./mnt".to_owned(), "steadyfs help mount".to_owned()];
        Page { command, verb: String::new(), examples }
    }

    /// The pages of its commands.
    fn below(&self) -> Vec<Page> {
        let commands = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        let page = |command: &clap::Command| {
            let (own, _) = parts(command);
            let examples = if own.is_empty() { self.examples.clone() } else { own };
            let verb = if self.verb.is_empty() { command.get_name().to_owned() } else { self.verb.clone() };
            Page { command: command.clone(), verb, examples }
        };
        commands.map(page).collect()
    }

    /// With the sections of man-pages(7).
    fn render(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let (_, notes) = parts(&self.command);
        let command = self.command.clone().after_help(notes.clone()).after_long_help(notes.clone());
        let (has_options, has_commands) = (command.get_arguments().next().is_some(), command.has_subcommands());
        let page = Man::new(command).source(concat!("steadyfs ", env!("CARGO_PKG_VERSION"))).manual("SteadyFS");
        page.render_title(out)?;
        page.render_name_section(out)?;
        page.render_synopsis_section(out)?;
        page.render_description_section(out)?;
        if has_options {
            page.render_options_section(out)?;
        }
        if has_commands {
            page.render_subcommands_section(out)?;
        }
        if !notes.is_empty() {
            let mut extra = Vec::new();
            page.render_extra_section(&mut extra)?;
            let heading = if notes.contains("ptions") { ".SH \"MOUNT OPTIONS\"" } else { ".SH NOTES" };
            out.extend(String::from_utf8_lossy(&extra).replacen(".SH EXTRA", heading, 1).into_bytes());
        }
        writeln!(out, ".SH EXAMPLES\n.nf")?;
        self.examples.iter().try_for_each(|line| writeln!(out, "{}", escaped(line)))?;
        writeln!(out, ".fi\n.SH \"EXIT STATUS\"")?;
        for (code, meaning) in codes(&self.verb) {
            writeln!(out, ".TP\n\\fB{code}\\fR\n{}", escaped(meaning))?;
        }
        if self.verb == "fsck" {
            writeln!(out, ".PP\n4 and 8 together are 12.")?;
        }
        writeln!(out, ".SH \"SEE ALSO\"\n{}", escaped(&self.see_also().join(", ")))
    }

    /// Pages about the same.
    fn see_also(&self) -> Vec<String> {
        let foreign: &[&str] = match self.verb.as_str() {
            "mkfs" => &["mkfs(8)", "mkfs.f2fs(8)"],
            "fsck" => &["fsck(8)", "fsck.f2fs(8)"],
            "mount" => &["mount(8)", "fstab(5)"],
            "umount" => &["umount(8)", "fusermount3(1)"],
            "resize" => &["resize.f2fs(8)"],
            "trim" => &["fstrim(8)"],
            "ls" | "find" | "du" | "df" | "cat" | "stat" | "rm" | "mkdir" | "ln" | "mv" => &["(1)"],
            "put" | "get" => &["tar(1)"],
            _ => &[],
        };
        let group = cli::GROUPS.iter().find(|(_, names)| names.contains(&self.verb.as_str()));
        let others = group.map_or(&["mkfs", "mount", "fsck"][..], |(_, names)| names);
        let own = self.command.get_name();
        let mut all: Vec<String> = Vec::new();
        if !self.verb.is_empty() {
            all.push("steadyfs(1)".to_owned());
        }
        all.extend(others.iter().filter(|name| **name != own).map(|name| format!("steadyfs-{name}(1)")));
        let name = |page: &&str| if *page == "(1)" { format!("{own}(1)") } else { (*page).to_owned() };
        all.extend(foreign.iter().map(name));
        all
    }
}

/// What stands behind the help of a command: its examples, one in a line, and the rest.
fn parts(command: &clap::Command) -> (Vec<String>, String) {
    let text = command.get_after_long_help().or_else(|| command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let (examples, notes): (Vec<&str>, Vec<&str>) = text.split("\n\n").partition(|part| part.starts_with("Example"));
    let lines = examples.iter().flat_map(|part| part.lines());
    let lines = lines.map(|line| line.trim_start_matches("Examples:").trim_start_matches("Example:").trim());
    (lines.filter(|line| !line.is_empty()).map(str::to_owned).collect(), notes.join("\n\n"))
}

/// A line of text in the language of pages.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// Writes the page of each command, never through a symlink.
fn write_pages(dir: &Path) -> io::Result<()> {
    let mut top = command().disable_help_subcommand(true);
    top.build();
    let mut pending = vec![Page::top(top)];
    while let Some(page) = pending.pop() {
        pending.extend(page.below());
        let mut text = Vec::new();
        page.render(&mut text)?;
        let name = Man::new(page.command).get_filename();
        create_file(&dir.join(name), 0o666)?.write_all(&text)?;
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
            Page::top(command())
                .render(&mut page)
                .and_then(|()| io::stdout().write_all(&page))
                .map_err(|e| Failure::output(&e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
