//! A policy of one's own for the choice of victims, beside the built-in ones: on a small volume, in virtual time.
//!
//! `cargo run --release -p steadyfs-lab --example own_policy [PICTURE.svg]` prints what came of each, and draws the
//! bandwidth over time. Two ways lead to a policy: a type that implements [`VictimPolicy`], and a [`Formula`], which an
//! experiment's file can have, too (`gc.score`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use steadyfs_core::{CostBenefit, Greedy, SectionState, VictimPolicy};
use steadyfs_lab::{Curve, Formula, Progress, Result, Run, Scale, builtin, number, picture, run_with_victims};

/// Greedy, but patient: a section that was written a moment ago loses blocks by itself, so it waits.
#[derive(Debug)]
struct Patient;

impl VictimPolicy for Patient {
    fn cost(&self, section: &SectionState) -> u64 {
        let is_hot = section.age < 2;
        section.valid + if is_hot { section.blocks } else { 0 }
    }
}

/// The policies, by the names that they have in the results.
fn policies() -> [(&'static str, &'static dyn VictimPolicy); 4] {
    let formula = Formula::parse("(1 - u) * sqrt(age)").expect("it is a formula").keep();
    [("greedy", &Greedy), ("cost-benefit", &CostBenefit), ("patient", &Patient), ("(1 - u) * sqrt(age)", formula.0)]
}

/// Runs the same load with each policy; each of its 8 jobs writes so much.
pub(crate) fn compare(each_writes: &str) -> Result<Vec<Run>> {
    let mut load = builtin("victim-formulas")?;
    // Systems and claims are those of the built-in experiment.
    load.systems.clear();
    load.claims.clear();
    load.set(&format!("workload.io_size={each_writes}"))?;
    let progress = Arc::new(Progress::default());
    policies()
        .map(|(name, policy)| run_with_victims(&load, name, policy, Scale::FULL, 0, &progress))
        .into_iter()
        .collect()
}

/// Prints the figures, and draws the picture.
pub(crate) fn report(runs: &[Run], path: &Path) -> std::io::Result<()> {
    const FIGURES: [&str; 5] = ["seconds", "mb_s", "gc_victims", "gc_moved_blocks", "total_waf"];
    let row =
        |name: &str, cells: [String; 5]| println!("{name:<20}{}", cells.map(|cell| format!("{cell:>17}")).concat());
    row("", FIGURES.map(str::to_owned));
    for run in runs {
        row(&run.record.system, FIGURES.map(|name| run.record.metrics.get(name).map_or("-".into(), |it| number(*it))));
    }
    let curve = |run: &Run| Curve {
        name: run.record.system.clone(),
        points: run.rows.iter().map(|row| (row.seconds, row.app_write_mb_s)).collect(),
    };
    let curves: Vec<Curve> = runs.iter().map(curve).collect();
    std::fs::write(path, picture("What the jobs wrote, by policy", "seconds", "MB/s", &curves))?;
    println!("{} has the bandwidth over time", path.display());
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| "own_policy.svg".into(), PathBuf::from);
    Ok(report(&compare("80M")?, &path)?)
}
