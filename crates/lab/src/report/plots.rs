//! Which lines a plot has: columns of the series over time, distributions of latencies, or figures over the values of a
//! sweep; and the numbers of papers in it (`papers`).
//!
//! Over time a line is smoothed, and what was measured lies faintly below it. Of latencies the tail is shown: the share
//! that took longer, by powers of ten.
//!
//! Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.

use super::papers::{self, Paper};
use super::svg::{self, DIAMOND, Line, Over, Up, Weight, escape};
use super::{Batch, colours, sweep};
use crate::record::{Row, Run};
use crate::spec::{Plot, PlotOver, Sweep};
use std::fmt::Write as _;

/// Of so few intervals all are drawn.
const FEW_ROWS: usize = 8;

/// A smoothed line has so many independent points; one with fewer is as it was measured.
const SMOOTHED: usize = 60;

/// How far from the lines a number of a paper may lie, times their own extent.
const FARTHEST: f64 = 2.5;

/// A line with its entry in the key. Of several seeds the first stands out.
struct Named {
    name: String,
    /// Which system it is of, or which line if there is one system; and which of the plot's series.
    place: (usize, usize),
    /// The lines of each seed.
    seeds: Vec<Vec<(f64, f64)>>,
}

/// How many colours the plots of a batch need.
pub(super) fn most_colours(batch: &Batch) -> usize {
    let plots = &batch.experiment.plots;
    let named = plots.iter().flat_map(|plot| named(plot, batch));
    named.map(|line| colours::of(line.place.0, line.place.1).0 + 1).max().unwrap_or(1)
}

fn named(plot: &Plot, batch: &Batch) -> Vec<Named> {
    match plot.over {
        PlotOver::Seconds => over_time(plot, batch),
        PlotOver::Latency => over_latency(plot, batch),
        PlotOver::Sweep => {
            let lines = sweep::lines(plot, batch);
            lines.map(|(name, place, points)| Named { name, place, seeds: vec![points] }).collect()
        }
    }
}

/// The plot with its heading, key and caption.
pub(super) fn figure(out: &mut String, plot: &Plot, batch: &Batch) {
    let (over, up, kind) = match plot.over {
        PlotOver::Seconds => (Over::Linear("seconds of virtual time"), Up::Linear, "seconds"),
        PlotOver::Latency => (Over::Logarithmic("microseconds"), Up::Tail, "latency"),
        PlotOver::Sweep => {
            let sweep = batch.experiment.sweep.as_ref().map_or("value", |sweep: &Sweep| sweep.name.as_str());
            (Over::Linear(if plot.against.is_empty() { sweep } else { &plot.against }), Up::Linear, "sweep")
        }
    };
    let (mut lines, mut key) = (Vec::new(), String::new());
    for Named { name, place, seeds } in named(plot, batch) {
        let (colour, dash) = colours::of(place.0, place.1);
        lines.extend(weighted(plot, seeds).map(|(weight, points)| Line { points, colour, dash, weight }));
        let _ = write!(
            key,
            "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line class=\"d{dash}\" x1=\"0\" x2=\"26\" y1=\"5\" y2=\"5\" stroke-width=\"3\" stroke=\"var(--c{colour})\"/></svg>{}</li>",
            escape(&name)
        );
    }
    let (papers, beyond): (Vec<Paper>, Vec<Paper>) =
        papers::of(plot, batch).into_iter().partition(|paper| is_near(plot, &lines, &paper.mark));
    if !papers.is_empty() {
        let _ = write!(
            key,
            "<li><svg viewBox=\"0 0 26 14\" aria-hidden=\"true\"><path class=\"paper\" stroke=\"var(--mute)\" d=\"M13 7{DIAMOND}\"/></svg>the paper</li>"
        );
    }
    let marks: Vec<svg::Mark> = papers.iter().map(|paper| paper.mark.clone()).collect();
    let unit = if up == Up::Tail { format!("{} that took longer", plot.unit) } else { plot.unit.clone() };
    let picture = svg::plot(&plot.title, over, up, &unit, &lines, &marks);
    let _ = write!(
        out,
        "<figure data-over=\"{kind}\" data-papers=\"{}\"><h3>{}</h3>{picture}<ul class=\"key\">{key}</ul><figcaption>{}{}",
        marks.len(),
        escape(&plot.title),
        seeds(plot, batch),
        missing(plot, batch)
    );
    for (what, papers) in [("The paper", papers), ("Beyond the plot, from the paper", beyond)] {
        let says: Vec<String> = papers.iter().map(|paper| escape(&paper.says)).collect();
        if !says.is_empty() {
            let _ = write!(out, ". {what}: {}", says.join("; "));
        }
    }
    let _ = writeln!(out, "</figcaption></figure>");
}

/// Whether a mark leaves the lines enough room on axes that are not logarithmic.
fn is_near(plot: &Plot, lines: &[Line], mark: &svg::Mark) -> bool {
    let most = |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|line| &line.points).map(of).fold(0.0, f64::max);
    let far = |value: f64, most: f64| value > most * FARTHEST;
    plot.over == PlotOver::Latency
        || !far(mark.value, most(|point| point.1)) && !mark.at.is_some_and(|at| far(at, most(|point| point.0)))
}

/// What is drawn of the lines of each seed.
fn weighted(plot: &Plot, seeds: Vec<Vec<(f64, f64)>>) -> impl Iterator<Item = (Weight, Vec<(f64, f64)>)> {
    let over_time = plot.over == PlotOver::Seconds;
    seeds.into_iter().enumerate().flat_map(move |(seed, points)| {
        let weight = if seed > 0 { Weight::Faint } else { Weight::Line };
        if !over_time || points.len() <= SMOOTHED {
            return vec![(weight, points)];
        }
        let smoothed = (weight, smooth(&points));
        if seed > 0 { vec![smoothed] } else { vec![(Weight::Raw, points), smoothed] }
    })
}

/// The means of the points around each.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let half = points.len() / SMOOTHED / 2 + 1;
    let around = |at: usize| &points[at.saturating_sub(half)..(at + half + 1).min(points.len())];
    let mean = |part: &[(f64, f64)]| part.iter().map(|point| point.1).sum::<f64>() / part.len() as f64;
    points.iter().enumerate().map(|(at, point)| (point.0, mean(around(at)))).collect()
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
    let (mut out, systems) = (Vec::new(), batch.by_system());
    let one = systems.len() <= 1;
    for (system_number, (system, runs)) in systems.into_iter().enumerate() {
        for (number, series) in plot.series.iter().enumerate() {
            let seeds: Vec<_> = runs.iter().filter_map(|run| points(run, series)).collect();
            if !seeds.is_empty() {
                let place = if one { (number, 0) } else { (system_number, number) };
                out.push(Named { name: name_of(plot, system, &what(series)), place, seeds });
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
        Some(whole(&run.rows).iter().map(|row| (row.seconds, row.values()[column])).collect())
    };
    of_runs(plot, batch, |series| column(series).map_or("", |at| Row::NAMES[at]).to_owned(), points)
}

/// The intervals that were whole: the last one ends with the jobs, and the first begins before all of them have.
fn whole(rows: &[Row]) -> &[Row] {
    if rows.len() > FEW_ROWS { &rows[1..rows.len() - 1] } else { rows }
}

fn over_latency(plot: &Plot, batch: &Batch) -> Vec<Named> {
    let points = |run: &Run, kind: &str| {
        let curve = run.record.latencies.get(kind)?;
        Some(curve.iter().map(|(share, us)| (*us, 1.0 - share)).collect())
    };
    of_runs(plot, batch, |kind| format!("{kind} latency"), points)
}

/// Whose lines these are.
fn seeds(plot: &Plot, batch: &Batch) -> String {
    let first = batch.runs.first().map_or(0, |run| run.record.seed);
    match (plot.over, batch.by_system().first().map_or(0, |(_, runs)| runs.len())) {
        (PlotOver::Seconds, 0 | 1) => format!("Seed {first}, smoothed; below it each interval"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothed_lines_keep_their_mean_and_lose_what_swings() {
        let points: Vec<(f64, f64)> = (0..6000).map(|at| (f64::from(at), f64::from(at % 2) * 100.0)).collect();
        let smoothed = smooth(&points);
        assert_eq!(smoothed.len(), points.len());
        assert!(smoothed[200..5800].iter().all(|point| (point.1 - 50.0).abs() < 1.0), "{:?}", smoothed[3000]);
    }
}
