//! `steadyfs fsck`: checks a volume and says what is wrong; nothing is repaired yet. Exit codes are those of fsck(8).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use steadyfs_core::Error;
use steadyfs_core::fsck::{CheckOptions, Issue, Phase, Progress, ProgressFn, Report, Severity, Value, check};
use steadyfs_core::raw::Superblocks;
use steadyfs_device::{Device, OpenError, open_image};
use steadyfs_format::{Features, FormatError};

use crate::failure::Failure;
use crate::image::{self, ImageArgs, Looked};
use crate::talk::Talk;
use crate::text::print_json;
use crate::volume::{TRIES, failure};

/// Check a volume; nothing is changed
///
/// Every rule of the format is checked on all of the volume. Exit codes: 0 nothing is wrong, 4 errors were found or a
/// copy of the superblock or of the checkpoint is lost, 8 the check could not be done, 16 wrong arguments, and their
/// sums.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs fsck image.img")]
pub(crate) struct Args {
    /// Change nothing (this version never does); looks also at a volume that is mounted, at its last checkpoint
    #[arg(short = 'n')]
    no_change: bool,
    /// As at boot: skip volumes that were cleanly unmounted, unless -f is given
    #[arg(short = 'p', visible_short_alias = 'a')]
    preen: bool,
    /// Check also what was cleanly unmounted
    #[arg(short, long)]
    force: bool,
    /// Answer every question with yes; there are none yet
    #[arg(short = 'y', conflicts_with = "no_change")]
    yes: bool,
    /// Write progress to the file descriptor FD, as lines of phase, done and total; 0 is a bar on the terminal
    #[arg(short = 'C', value_name = "FD")]
    progress: Option<u32>,
    /// Compare what the device holds with what an IPLFS volume needs, and name the rest; `steadyfs trim` gives it back
    #[arg(long)]
    leaks: bool,
    /// Threads to use [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    pub(crate) talk: Talk,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Looked { device, in_use } = match args.no_change {
        true => image::look(&args.device, args.image)?,
        false => Looked { device: open(args)?, in_use: false },
    };
    // A disk with partitions is no damaged volume.
    if let Err(Error::Format(FormatError::Magic { .. })) = Superblocks::read(&*device).chosen()
        && let Some(disk) = image::disk_failure(&format!("cannot check {}", args.device.display()), &args.device)
    {
        return Err(disk);
    }
    if args.leaks
        && Superblocks::read(&*device).chosen().is_ok_and(|found| !found.features().contains(Features::INFINITE))
    {
        let what = format!("cannot look for leaks in {}", args.device.display());
        return Err(Failure::usage(what, "it is no IPLFS volume, and no other kind has them", "leave out --leaks"));
    }
    let (progress, bar) = progress(args)?;
    // Leaks are not looked for in what is skipped.
    let force = args.force || !args.preen || args.leaks;
    let mut options = CheckOptions { force, leaks: args.leaks, rehearse: !in_use, progress, ..CheckOptions::default() };
    if let Some(threads) = args.threads {
        options.threads = threads;
    }
    let check = || {
        let checked = check(Arc::clone(&device), &options);
        checked.map_err(|e| failure(format!("cannot check {}", args.device.display()), &e))
    };
    let mut report = check()?;
    for _ in 1..TRIES {
        // The error may come from a checkpoint that came in between.
        if in_use && report.worst() >= Some(Severity::Error) {
            report = check()?;
        }
    }
    bar.finish_and_clear();
    if args.json {
        print_json(&json(&report))?;
    } else if !args.talk.quiet || !report.is_clean() {
        print(args, &report, &mut io::BufWriter::new(io::stdout().lock())).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// A volume that somebody else writes to is no state to judge; its last checkpoint is, if that is asked for.
fn open(args: &Args) -> Result<Arc<dyn Device>, Failure> {
    open_image(&args.device, args.image.for_reading(&args.device)?).map_err(|e| match e {
        OpenError::InUse { .. } => {
            image::open_failure(&args.device, &e).with_hint("unmount it, or check its last checkpoint with -n")
        }
        e => image::open_failure(&args.device, &e),
    })
}

/// Who is told how far the check is, and the bar if that is one.
fn progress(args: &Args) -> Result<(Option<ProgressFn>, ProgressBar), Failure> {
    let wants_bar = args.progress == Some(0) || (args.progress.is_none() && !args.json && !args.talk.quiet);
    let bar = ProgressBar::hidden();
    match args.progress {
        Some(fd) if fd > 0 => {
            let what = || format!("cannot write progress to file descriptor {fd}");
            let file = File::options().append(true).open(format!("/proc/self/fd/{fd}"));
            let file =
                Mutex::new(file.map_err(|e| Failure::usage(what(), e, "give an open descriptor, or 0 for a bar"))?);
            let tell = move |progress: Progress| {
                if let Ok(mut file) = file.lock() {
                    // The reader of the progress may have gone; the check goes on.
                    let _ = writeln!(file, "{} {} {}", progress.phase as u32 + 1, progress.done, progress.total);
                }
            };
            Ok((Some(Arc::new(tell)), bar))
        }
        _ if wants_bar && io::stderr().is_terminal() => {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{msg:28} {bar:32} {pos}/{len}") {
                bar.set_style(style);
            }
            let shown = bar.clone();
            let phase: Mutex<Option<Phase>> = Mutex::new(None);
            let tell = move |progress: Progress| {
                shown.set_length(progress.total);
                shown.set_position(progress.done);
                if phase.lock().is_ok_and(|mut last| last.replace(progress.phase) != Some(progress.phase)) {
                    shown.set_message(progress.phase.name());
                }
            };
            Ok((Some(Arc::new(tell)), bar))
        }
        _ => Ok((None, bar)),
    }
}

/// One line per issue, and two at the end: what the volume holds, and the verdict.
fn print(args: &Args, report: &Report, out: &mut impl Write) -> io::Result<()> {
    for issue in &report.issues {
        writeln!(out, "{}: {issue}", issue.severity())?;
    }
    if report.dropped > 0 {
        writeln!(out, "{} more issues are not shown", report.dropped)?;
    }
    if let Some(counts) = &report.counts {
        writeln!(
            out,
            "{} files, {} directories, {} symlinks, {} special files, {} orphans; {} nodes, {} blocks; {:.1} s",
            counts.files,
            counts.dirs,
            counts.symlinks,
            counts.specials,
            counts.orphans,
            counts.nodes,
            counts.blocks,
            report.elapsed.as_secs_f64()
        )?;
    }
    writeln!(out, "{}: {}", args.device.display(), verdict(report))?;
    out.flush()
}

/// What to do about errors.
const WAY_OUT: &str = "this program repairs nothing; before fsck.f2fs see \"Repairing\" in docs/TROUBLESHOOTING.md";

fn verdict(report: &Report) -> String {
    let (fatal, errors, warnings) =
        (report.count(Severity::Fatal), report.count(Severity::Error), report.count(Severity::Warning));
    if report.issues.iter().any(|issue| matches!(issue, Issue::NotRead { .. })) {
        return "cannot be checked by this version".to_owned();
    }
    if fatal > 0 {
        return format!("could not be checked to the end ({errors} errors so far)");
    }
    if errors > 0 {
        return format!("{errors} errors, {warnings} warnings; {WAY_OUT}");
    }
    match (report.checked.is_some_and(|checked| checked.walked), warnings) {
        (false, _) => "cleanly unmounted, not checked (-f checks it)".to_owned(),
        (true, 0) => "no errors".to_owned(),
        (true, _) => format!("no errors, {warnings} warnings"),
    }
}

#[derive(Serialize)]
struct JsonReport {
    clean: bool,
    exit_code: u8,
    errors: u64,
    warnings: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<JsonChecked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<BTreeMap<&'static str, u64>>,
    issues: Vec<JsonIssue>,
    issues_not_shown: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct JsonChecked {
    pack: u32,
    checkpoint: u64,
    walked: bool,
}

#[derive(Serialize)]
struct JsonIssue {
    code: &'static str,
    severity: &'static str,
    text: String,
    fields: BTreeMap<&'static str, serde_json::Value>,
}

fn json(report: &Report) -> JsonReport {
    let counts = report.counts.as_ref().map(|counts| {
        BTreeMap::from([
            ("files", counts.files),
            ("directories", counts.dirs),
            ("symlinks", counts.symlinks),
            ("specials", counts.specials),
            ("links", counts.links),
            ("orphans", counts.orphans),
            ("nodes", counts.nodes),
            ("blocks", counts.blocks),
        ])
    });
    JsonReport {
        clean: report.is_clean(),
        exit_code: report.exit_code(),
        errors: report.count(Severity::Error) + report.count(Severity::Fatal),
        warnings: report.count(Severity::Warning),
        checked: report.checked.map(|checked| JsonChecked {
            pack: checked.pack.number(),
            checkpoint: checked.version,
            walked: checked.walked,
        }),
        counts,
        issues: report.issues.iter().map(json_issue).collect(),
        issues_not_shown: report.dropped,
        seconds: report.elapsed.as_secs_f64(),
    }
}

fn json_issue(issue: &Issue) -> JsonIssue {
    let value = |value: Value| match value {
        Value::Number(number) => number.into(),
        Value::Text(text) => text.into(),
    };
    JsonIssue {
        code: issue.code(),
        severity: issue.severity().name(),
        text: issue.to_string(),
        fields: issue.fields().into_iter().map(|(name, field)| (name, value(field))).collect(),
    }
}
