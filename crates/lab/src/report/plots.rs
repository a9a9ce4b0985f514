//! Which lines a plot has: columns of the series over time, distributions of latencies, or figures over the values of a
//! sweep.
//!
//! Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.

use super::svg::{self, COLOURS, Line, Over, escape};
use super::{Batch, sweep};
use crate::run::{Row, Run};
use crate::spec::{Plot, PlotOver, Sweep};
use std::fmt::Write as _;

/// A line with its entry in the key. Of several seeds the first stands out.
struct Named {
    name: String,
    /// The lines of each seed.
    seeds: Vec<Vec<(f64, f64)>>,
}

/// The plot with its heading, key and caption.
pub(super) fn figure(out: &mut String, plot: &Plot, batch: &Batch) {
    let (named, over) = match plot.over {
        PlotOver::Seconds => (over_time(plot, batch), Over::Linear("seconds of virtual time")),
        PlotOver::Latency => (over_latency(plot, batch), Over::Logarithmic("microseconds")),
        PlotOver::Sweep => {
            let sweep = batch.experiment.sweep.as_ref().map_or("value", |sweep: &Sweep| sweep.name.as_str());
            let name = if plot.against.is_empty() { sweep } else { plot.against.as_str() };
            (
                sweep::lines(plot, batch).map(|(name, points)| Named { name, seeds: vec![points] }).collect(),
                Over::Linear(name),
            )
        }
    };
    let (mut lines, mut key) = (Vec::new(), String::new());
    for (colour, Named { name, seeds }) in named.into_iter().enumerate() {
        lines.extend(seeds.into_iter().enumerate().map(|(seed, points)| Line { points, colour, faint: seed > 0 }));
        let _ = write!(key, "<li><i style=\"background:var(--c{})\"></i>{}</li>", colour % COLOURS, escape(&name));
    }
    let picture = svg::plot(&plot.title, over, &plot.unit, &lines);
    let _ = write!(out, "<figure><h3>{}</h3>{picture}<ul class=\"key\">{key}", escape(&plot.title));
    let _ = writeln!(out, "</ul><figcaption>{}{}</figcaption></figure>", seeds(plot, batch), missing(plot, batch));
}

/// What a line is called: its system, and the figure unless all lines are of the same.
fn name_of(plot: &Plot, system: &str, what: &str) -> String {
    match (system.is_empty(), plot.series.len()) {
        (true, _) => what.to_owned(),
        (false, 1) => system.to_owned(),
        (false, _) => format!("{system}: {what}"),
    }
}

/// For each system and each of the plot's series a line for each run.
fn of_runs(
    plot: &Plot,
    batch: &Batch,
    what: impl Fn(&str) -> String,
    points: impl Fn(&Run, &str) -> Option<Vec<(f64, f64)>>,
) -> Vec<Named> {
    let mut out = Vec::new();
    for (system, runs) in batch.by_system() {
        for series in &plot.series {
            let seeds: Vec<_> = runs.iter().filter_map(|run| points(run, series)).collect();
            if !seeds.is_empty() {
                out.push(Named { name: name_of(plot, system, &what(series)), seeds });
            }
        }
    }
    out
}

fn column(name: &str) -> Option<usize> {
    Row::COLUMNS.iter().position(|column| *column == name)
}

fn over_time(plot: &Plot, batch: &Batch) -> Vec<Named> {
    let points = |run: &Run, series: &str| {
        let column = column(series)?;
        Some(run.rows.iter().map(|row| (row.seconds, row.values()[column])).collect())
    };
    of_runs(plot, batch, |series| column(series).map_or("", |at| Row::NAMES[at]).to_owned(), points)
}

fn over_latency(plot: &Plot, batch: &Batch) -> Vec<Named> {
    let points = |run: &Run, kind: &str| {
        let curve = run.record.latencies.get(kind)?;
        Some(curve.iter().map(|(share, us)| (*us, *share)).collect())
    };
    of_runs(plot, batch, |kind| format!("{kind} latency"), points)
}

/// Whose lines these are.
fn seeds(plot: &Plot, batch: &Batch) -> String {
    let first = batch.runs.first().map_or(0, |run| run.record.seed);
    match (plot.over, batch.by_system().first().map_or(0, |(_, runs)| runs.len())) {
        (_, 0 | 1) => format!("Seed {first}"),
        (PlotOver::Sweep, count) => format!("Means over {count} seeds"),
        (_, count) => format!("Seed {first}; faint: {} other seeds", count - 1),
    }
}

/// What was to be drawn and is not there.
fn missing(plot: &Plot, batch: &Batch) -> String {
    let known = |name: &String| match plot.over {
        PlotOver::Seconds => column(name).is_some(),
        PlotOver::Latency => batch.runs.iter().any(|run| run.record.latencies.contains_key(name)),
        PlotOver::Sweep => batch.runs.iter().any(|run| run.record.metrics.contains_key(name)),
    };
    let unknown: Vec<&str> = plot.series.iter().filter(|name| !known(name)).map(String::as_str).collect();
    match unknown.is_empty() {
        true => String::new(),
        false => format!("; there is no series {}", escape(&unknown.join(", "))),
    }
}
