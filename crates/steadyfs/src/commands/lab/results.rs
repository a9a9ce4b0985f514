//! `steadyfs lab compare`, `report` and `calibrate`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadyfs_lab::{Batch, Comparison, number};

use crate::failure::Failure;
use crate::text::print_json;

/// Compare the results in two directories, figure by figure
///
/// Shown are figures whose means differ by more than chance explains, with the interval of the difference (Welch's t
/// over the seeds, 95 %). It needs two seeds or more on both sides; five are better.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// Results that `lab run --out` wrote
    a: PathBuf,
    /// Others, of the same experiments at the same scales
    b: PathBuf,
    /// Show every figure, also those that differ no more than chance explains
    #[arg(long)]
    all: bool,
    /// Print all figures as JSON
    #[arg(long)]
    json: bool,
}

/// Write the page of results in a directory anew
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Results that `lab run --out` wrote
    dir: PathBuf,
}

/// Measure what CPU work costs on this machine, beside the table that experiments use
///
/// docs/lab/PARAMETERS.md has the source of each default. Prices of this machine can be given to an experiment by
/// --set machine.costs.NAME=NANOSECONDS.
#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    /// Print the prices as JSON
    #[arg(long)]
    json: bool,
}

fn load(dir: &Path) -> Result<Vec<Batch>, Failure> {
    steadyfs_lab::load(dir).map_err(|e| {
        let what = format!("cannot read the results in {}", dir.display());
        Failure::new(what, e, "give a directory that `steadyfs lab run NAME --out DIR` wrote")
    })
}

pub(super) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let compared = steadyfs_lab::compare(&load(&args.a)?, &load(&args.b)?);
    if compared.is_empty() {
        let what = format!("cannot compare {} and {}", args.a.display(), args.b.display());
        return Err(Failure::new(what, "they have no experiment at the same scale in common", "run it into both"));
    }
    if args.json {
        print_json(&compared)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_compared(&compared, args.all).map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each figure that differs, and what that is worth.
fn print_compared(compared: &[Comparison], all: bool) -> io::Result<()> {
    let mut out = io::stdout();
    let mut experiment = "";
    for figure in compared.iter().filter(|figure| all || figure.differs() == Some(true)) {
        if figure.experiment != experiment {
            experiment = &figure.experiment;
            writeln!(out, "{experiment}")?;
        }
        let (a, b, change) = (number(figure.a), number(figure.b), figure.change * 100.0);
        let interval = match figure.difference {
            None => "one seed: nothing can be said".to_owned(),
            Some((least, most)) => format!("{} to {}", signed(least), signed(most)),
        };
        writeln!(out, "  {:<24} {a:>12} {b:>12} {change:>+8.1} %   {interval}", figure.metric)?;
    }
    let told = compared.iter().filter(|figure| figure.differs().is_some()).count();
    let silent = compared.len() - told;
    if experiment.is_empty() && told > 0 {
        writeln!(out, "no figure differs by more than chance explains")?;
    }
    if silent > 0 {
        writeln!(out, "nothing can be said of {silent} figures: one of the sets has one seed (--all shows them)")?;
    }
    if told > 0 {
        let share = steadyfs_lab::CONFIDENCE;
        writeln!(
            out,
            "{told} figures compared by Welch's t, intervals of {:.0} %: if nothing had changed, about {:.0} would be listed",
            share * 100.0,
            (1.0 - share) * told as f64
        )?;
    }
    Ok(())
}

/// A number with its sign.
fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "-" } else { "+" }, number(value.abs()))
}

pub(super) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let page = args.dir.join("index.html");
    std::fs::write(&page, steadyfs_lab::page(&load(&args.dir)?))
        .map_err(|e| Failure::new(format!("cannot write {}", page.display()), e, "check the directory"))?;
    writeln!(io::stdout(), "{}", page.display()).map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn calibrate(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    let prices = steadyfs_lab::calibrate();
    if args.json {
        print_json(&prices)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout();
    let table = prices.iter().try_for_each(|price| {
        let here = price.ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"));
        writeln!(out, "{:<16} {here:>8} ns here {:>6} ns by default   {}", price.cost, price.default_ns, price.how)
    });
    table.map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}
