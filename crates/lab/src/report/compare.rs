//! Two sets of results side by side.

use super::{Batch, figures};
use serde::Serialize;
use std::collections::BTreeMap;

/// One figure of one experiment in both sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The experiment and its scale.
    pub experiment: String,
    /// The figure.
    pub metric: String,
    /// Its mean over the seeds in the first set.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// How much larger the second is, as a share of the first.
    pub change: f64,
    /// Whether that is more than the seeds of either set differ among themselves.
    pub beyond_spread: bool,
}

/// Compares every figure that both sets have, of every experiment that both have at the same scale.
pub fn compare(a: &[Batch], b: &[Batch]) -> Vec<Comparison> {
    let mut out = Vec::new();
    for mine in a {
        let name = format!("{} ({})", mine.experiment.name, mine.scale);
        let same = |other: &&Batch| other.experiment.name == mine.experiment.name && other.scale == mine.scale;
        let Some(other) = b.iter().find(same) else { continue };
        let theirs = named_figures(other);
        for (metric, values) in named_figures(mine) {
            let Some(others) = theirs.get(&metric) else { continue };
            let ((a, spread_a), (b, spread_b)) = (mean_and_spread(&values), mean_and_spread(others));
            let change = if a == 0.0 { if b == 0.0 { 0.0 } else { f64::INFINITY } } else { b / a - 1.0 };
            let beyond_spread = (b - a).abs() > spread_a.max(spread_b);
            out.push(Comparison { experiment: name.clone(), metric, a, b, change, beyond_spread });
        }
    }
    out
}

/// The figures of all systems, each with its system's name in front.
fn named_figures(batch: &Batch) -> BTreeMap<String, Vec<f64>> {
    let named = |system: &str, name: &str| if system.is_empty() { name.into() } else { format!("{system}: {name}") };
    let systems = batch.by_system().into_iter();
    systems
        .flat_map(|(system, runs)| figures(runs).into_iter().map(move |(name, values)| (named(system, name), values)))
        .collect()
}

/// The mean, and how far the values lie apart.
fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (mean, if values.is_empty() { 0.0 } else { most - least })
}
