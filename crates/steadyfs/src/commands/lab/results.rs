//! `steadyfs lab compare`, `report` and `calibrate`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadyfs_lab::{Batch, number};

use crate::failure::Failure;
use crate::text::print_json;

/// Compare the results in two directories, figure by figure
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// Results that `lab run --out` wrote
    a: PathBuf,
    /// Others, of the same experiments at the same scales
    b: PathBuf,
    /// Show every figure, also those that differ no more than the seeds do
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
/// The default table stands for the servers of the papers. Prices of this machine can be given to an experiment by
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
    let mut out = io::stdout();
    let mut experiment = "";
    for figure in compared.iter().filter(|figure| args.all || figure.beyond_spread) {
        if figure.experiment != experiment {
            experiment = &figure.experiment;
            writeln!(out, "{experiment}").map_err(|e| Failure::output(&e))?;
        }
        let (a, b) = (number(figure.a), number(figure.b));
        let change = figure.change * 100.0;
        writeln!(out, "  {:<24} {a:>12} {b:>12} {change:>+8.1} %", figure.metric).map_err(|e| Failure::output(&e))?;
    }
    if experiment.is_empty() {
        writeln!(out, "no figure differs beyond the spread of the seeds").map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
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
        writeln!(
            out,
            "{:<16} {:>8.1} ns here {:>6} ns by default   {}",
            price.cost, price.ns, price.default_ns, price.how
        )
    });
    table.map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}
