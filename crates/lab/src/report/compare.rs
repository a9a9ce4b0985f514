//! Two sets of results side by side: means, and intervals of their differences by Welch's t.

use super::{Batch, figures};
use crate::interval;
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
    /// The interval of `b - a` ([`interval::CONFIDENCE`]); `None` where one of the sets has one seed, which says
    /// nothing.
    pub difference: Option<(f64, f64)>,
}

impl Comparison {
    /// Whether the sets differ by more than chance explains; `None` where nothing can be said.
    pub fn differs(&self) -> Option<bool> {
        self.difference.map(|(least, most)| least > 0.0 || most < 0.0)
    }
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
            let (a, b) = (mean(&values), mean(others));
            let change = if a == 0.0 { if b == 0.0 { 0.0 } else { f64::INFINITY } } else { b / a - 1.0 };
            let difference = interval::of_difference(&values, others);
            out.push(Comparison { experiment: name.clone(), metric, a, b, change, difference });
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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
