//! `steadyfs lab sensitivity`: on which prices and assumptions claims rest.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadyfs_lab::{Finding, Judgement, Sensitivity, Standing, number};

use super::failure;
use super::options::{Pace, Subject};
use crate::failure::Failure;
use crate::text::print_json;

/// Halve and double each price, switch each assumption, and tell which claims change
///
/// Runs an experiment as it is, and once more for each change. A change halves or doubles a price of CPU work, or
/// switches a structural assumption (who writes back, the buffer of collection, how far it searches, the checkpoint
/// lock, the layout of files, the device). A claim is robust if its verdict is the same with every change. Else it is
/// fragile, and the changes are named with what the claim's figure is there. A price that the experiment does not
/// charge is named as such.
///
/// Exits with 0 whatever is found, with 1 if a change could not be run, and with 2 for an unknown experiment or
/// setting.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Try only this price or switch, such as bio_submit or writeback=linux; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    pace: Pace,
    /// Write a page, sensitivity-NAME.html, and the same for programs, sensitivity-NAME.json, into DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let cannot = |e: &steadyfs_lab::Error| failure(format!("cannot try changes of {}", args.subject.experiment), e);
    let (experiment, seeds) = args.subject.open().map_err(|e| cannot(&e))?;
    let (scale, mut watch) = (args.subject.scale, args.pace.watch());
    let look = |runs: &[_]| watch.look(runs);
    let found = steadyfs_lab::sensitivity(&experiment, scale, &seeds, args.pace.jobs(), &args.only, look);
    watch.finish();
    let found = found.map_err(|e| cannot(&e))?;
    if let Some(dir) = &args.out {
        save(dir, &found)?;
    }
    if args.json {
        print_json(&found)?
    } else {
        print(&found).map_err(|e| Failure::output(&e))?
    }
    let failed = found.changes.iter().any(|change| change.failed.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn save(dir: &Path, found: &Sensitivity) -> Result<(), Failure> {
    steadyfs_lab::save_sensitivity(dir, found).map_err(|e| failure("cannot save the findings", &e))
}

fn print(found: &Sensitivity) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{} at scale {}: {}", found.experiment, found.scale, found.title)?;
    for finding in &found.findings {
        print_finding(&mut out, finding)?;
    }
    for change in found.changes.iter().filter(|change| change.failed.is_some()) {
        let why = change.failed.as_deref().unwrap_or_default();
        writeln!(out, "could not be run: {}: {why}", change.name)?;
    }
    if !found.unmoved.is_empty() {
        writeln!(out, "prices that move nothing, for nothing here charges them: {}", found.unmoved.join(", "))?;
    }
    if !found.idle.is_empty() {
        writeln!(out, "nothing to switch here: {}", found.idle.join(", "))?;
    }
    let seeds = found.seeds.len();
    let noise = if seeds == 1 { "; of one seed, so chance is among what moves a figure" } else { "" };
    writeln!(
        out,
        "{} changes in {} runs, {seeds} seed{} each{noise}; commit {}",
        found.changes.len(),
        found.runs,
        if seeds == 1 { "" } else { "s" },
        found.commit
    )
}

/// A claim: what comes of it as it is, between which values it lies, and what it is fragile on.
fn print_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let Finding { claim, as_it_is, standing, .. } = finding;
    let verdict = as_it_is.in_words();
    writeln!(out, "{}: {} [{}]", standing.text(), claim.subject(), claim.source)?;
    writeln!(out, "  {} {}: {verdict}", claim.figure(), value(as_it_is))?;
    if let Some((least, most)) = finding.extremes() {
        let (low, high) = (value(&least.judgement), value(&most.judgement));
        writeln!(out, "  with the changes {low} ({}) to {high} ({})", least.change, most.change)?;
    }
    if *standing != Standing::Fragile {
        return Ok(());
    }
    for told in finding.fragile_on() {
        writeln!(out, "  fragile on {}: {}, {}", told.change, value(&told.judgement), told.judgement.in_words())?;
    }
    Ok(())
}

/// The mean.
fn value(judgement: &Judgement) -> String {
    judgement.ours.map_or_else(|| "not measured".to_owned(), |(mean, ..)| number(mean))
}
