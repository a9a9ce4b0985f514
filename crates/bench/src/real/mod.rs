//! `steadyfs-bench real`: programs that people run, on a mount of ours, on ext4 and on XFS, in one run.
//!
//! All file systems are on a loop device over the same memory, one directly after the other within each repetition.
//! The peer `memfuse-acl` tells what the way through FUSE leaves at most: it has no device and nothing to make durable.
//! Each program works in a directory of a fresh file system; what it reads beside lies in memory, outside of it.

mod programs;
mod report;
mod servers;
mod source;

use crate::arguments;
use crate::bed::Target;
use crate::comparison::{Repeated, Site};
use crate::report::Samples;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use programs::{PROGRAMS, Program};
use report::RealFindings;
use source::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the command.
pub(crate) const COMMAND: &str = "real";

/// The targets unless others are named.
const DEFAULT_TARGETS: [Target; 4] = [Target::Ext4, Target::Xfs, Target::MemfuseAcl, Target::FuseLoop];

/// Compare programs that people run on SteadyFS, ext4 and XFS
#[derive(Debug, Parser)]
struct Args {
    /// File systems to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = DEFAULT_TARGETS)]
    targets: Vec<Target>,
    /// Programs to run; all that are installed unless given
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Files of the tree that is cloned, unpacked, copied, listed and removed
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Transactions of SQLite
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Seconds that a database server is asked for
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Mount options of SteadyFS
    #[arg(short = 'o', long, default_value = "")]
    options: String,
    /// MiB of the image
    #[arg(long, default_value_t = 3072, value_parser = clap::value_parser!(u64).range(512..))]
    size: u64,
    #[command(flatten)]
    repeated: Repeated,
}

/// How much there is to do.
struct Amounts {
    transactions: u64,
    seconds: u64,
}

/// Where a program runs.
struct Place<'a> {
    /// A directory of the file system that is measured, empty.
    home: &'a Path,
    /// A directory beside it, in memory, for sockets.
    beside: &'a Path,
    source: &'a Source,
    amounts: &'a Amounts,
}

impl Args {
    fn programs(&self) -> Result<Vec<&'static Program>> {
        arguments::chosen("program", &PROGRAMS, |program| program.name, &self.programs)
    }

    fn targets(&self) -> Result<()> {
        for target in &self.targets {
            ensure!(target.is_mounted(), "programs need a mount, and {} is none", target.name());
        }
        Ok(())
    }
}

/// Measures and reports. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words);
    args.targets()?;
    let mut programs = args.programs()?;
    let missing = leave_out_missing(&mut programs, &args.programs)?;
    let part = if args.repeated.short { 4 } else { 1 };
    let amounts = Amounts { transactions: (args.transactions / part).max(1), seconds: (args.seconds / part).max(1) };
    let site = Site::make(&args.repeated.scratch, args.size << 20)?;
    let files = usize::try_from(args.files / part)?.max(1);
    let source = Source::make(site.scratch(), files, programs.iter().any(|program| program.clones))?;
    // A server that gives up its rights has to come as far as its directory.
    arguments::let_others_through(site.scratch())?;

    let options = format!("allow_other,{}", args.options);
    let repetitions = Samples::by_turns(
        args.repeated.repetitions(),
        &programs,
        |program| args.targets.iter().copied().filter(|target| program.on_peers || !target.is_peer()).collect(),
        |program| program.name.to_owned(),
        |_, program, target| {
            site.stop.check()?;
            let bed = site.bed(target, &options)?;
            let mounted = bed.mount()?;
            let home = site.dir.join("home");
            std::fs::create_dir(&home)?;
            let place = Place { home: &home, beside: site.scratch(), source: &source, amounts: &amounts };
            let rate = (program.run)(&place)?;
            mounted.unmount()?;
            Ok(vec![(program.name, rate)])
        },
    )?;
    let findings = RealFindings { files: files as u64, missing, repetitions };
    args.repeated.outcome.tell(site.machine, &findings, RealFindings::judge)
}

/// Leaves out programs that are not installed, and gives the names of their packages.
///
/// # Errors
/// One was asked for by name, or none is left.
fn leave_out_missing(programs: &mut Vec<&Program>, asked_for: &[String]) -> Result<BTreeSet<&'static str>> {
    let mut missing = BTreeSet::new();
    programs.retain(|program| {
        let absent: Vec<_> = program.tools.iter().filter(|(tool, _)| find(tool).is_none()).collect();
        missing.extend(absent.iter().map(|(_, package)| *package));
        absent.is_empty()
    });
    let packages = || missing.iter().copied().collect::<Vec<_>>().join(" ");
    ensure!(asked_for.is_empty() || missing.is_empty(), "not installed: apt install {}", packages());
    ensure!(!programs.is_empty(), "none of the programs is installed: apt install {}", packages());
    Ok(missing)
}

/// Where a program lies: in `PATH`, or where Debian keeps PostgreSQL's.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|file| file.is_file());
    in_path.or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        versions.flatten().map(|version| version.path().join("bin").join(tool)).find(|file| file.is_file())
    })
}

/// The command that runs an installed program, silent but for its errors.
fn program(tool: &str) -> Result<Command> {
    let mut command = Command::new(find(tool).with_context(|| format!("{tool} is not installed"))?);
    command.stdin(Stdio::null());
    Ok(command)
}

/// Runs it to its end, and gives what it prints.
fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot run {name}"))?;
    if !out.status.success() {
        let (error, text) = (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
        bail!("{name} failed ({}): {} {}", out.status, error.trim(), text.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_missing_are_left_out_unless_they_are_asked_for() {
        const ABSENT: Program = Program {
            name: "absent",
            unit: "runs",
            tools: &[("no-such-program", "no-such-package")],
            on_peers: true,
            clones: false,
            goal: None,
            run: |_| Ok(1.0),
        };
        const THERE: Program = Program { name: "there", tools: &[("sh", "dash")], ..ABSENT };
        const ALSO: Program = Program { name: "also absent", ..ABSENT };
        let mut programs = vec![&ABSENT, &ALSO, &THERE];
        assert_eq!(leave_out_missing(&mut programs, &[]).unwrap().len(), 1);
        assert_eq!(programs.iter().map(|program| program.name).collect::<Vec<_>>(), ["there"]);
        let error = leave_out_missing(&mut vec![&ABSENT, &THERE], &["absent".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("apt install no-such-package"), "{error}");
        assert!(leave_out_missing(&mut vec![&ABSENT], &[]).is_err());
    }
}
