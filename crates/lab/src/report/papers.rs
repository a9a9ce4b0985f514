//! Where the numbers of papers stand in plots. They come from the claims, so that each stands in one place.
//!
//! A claim with a value has a mark where the plot shows its figure:
//! - at the value of the sweep;
//! - in the tail of a distribution at its percentile;
//! - as a level of a series;
//! - at the end of the run on the axis of time.
//!
//! A claim of a ratio has it at the paper's ratio times ours of the other system.

use super::svg::Mark;
use super::{Batch, colours};
use crate::claims::{Judgement, spread};
use crate::record::Record;
use crate::spec::{Plot, PlotOver, Sweep};

/// A mark, and what it says.
pub(super) struct Paper {
    pub(super) mark: Mark,
    pub(super) says: String,
}

/// Figures that are levels of a column of the series, and what they are times.
const LEVELS: [(&str, &str, f64); 8] = [
    ("mb_s", "app_write_mb_s", 1.0),
    ("write_mb_s", "app_write_mb_s", 1.0),
    ("read_mb_s", "app_read_mb_s", 1.0),
    // Thousand writes of 4 KiB a second, as 10^6 bytes.
    ("kiops_before", "app_write_mb_s", 4.096),
    ("kiops_after", "app_write_mb_s", 4.096),
    ("last_tenth_kiops", "app_write_mb_s", 4.096),
    ("waf", "waf", 1.0),
    ("flash_waf", "flash_waf", 1.0),
];

/// The marks of a plot.
pub(super) fn of(plot: &Plot, batch: &Batch) -> Vec<Paper> {
    let mut out: Vec<Paper> = Vec::new();
    for judgement in batch.judgements() {
        let Some(paper) = paper(plot, batch, &judgement) else { continue };
        if !out.iter().any(|other| other.mark == paper.mark) {
            out.push(paper);
        }
    }
    out
}

fn paper(plot: &Plot, batch: &Batch, judgement: &Judgement) -> Option<Paper> {
    let claim = &judgement.claim;
    let system = claim.system.as_deref().unwrap_or_default();
    let records = records(batch, system);
    let (target, against) = target(batch, judgement, &records)?;
    let (at, value) = match plot.over {
        PlotOver::Seconds if claim.metric == "seconds" => {
            // When the jobs are done is a number of what they do.
            let shown = plot.series.iter().any(|series| series.starts_with("app_"));
            (Some(target), shown.then_some(0.0)?)
        }
        PlotOver::Seconds => {
            let (_, _, factor) = LEVELS
                .iter()
                .find(|(metric, column, _)| claim.metric == *metric && plot.series.iter().any(|s| s == column))?;
            (None, target * factor)
        }
        PlotOver::Latency => {
            let (kind, share) = percentile(&claim.metric)?;
            let shown = plot.series.iter().any(|series| series == kind) || kind == "all" && plot.series.len() == 1;
            (Some(target), shown.then_some(1.0 - share)?)
        }
        PlotOver::Sweep => {
            if !plot.series.contains(&claim.metric) {
                return None;
            }
            let (_, value) = Sweep::split(system)?;
            let at = if plot.against.is_empty() { Some(value as f64) } else { mean(&plot.against, &records) };
            (Some(at?), target)
        }
    };
    let colour = colours::of(number_of(plot, batch, system)?, 0).0;
    let ratio = if against { ", times ours" } else { "" };
    let source = if claim.source.is_empty() { String::new() } else { format!(" ({})", claim.source) };
    Some(Paper { mark: Mark { at, value, colour }, says: format!("{}{ratio}{source}", claim.subject()) })
}

/// The paper's number at the scale of the runs, and whether it is a ratio to a figure of ours.
fn target(batch: &Batch, judgement: &Judgement, records: &[&Record]) -> Option<(f64, bool)> {
    let claim = &judgement.claim;
    if claim.full_scale && !batch.scale.is_full() {
        return None;
    }
    let value = claim.value? * if claim.scales { batch.scale.factor() } else { 1.0 };
    if claim.over.is_none() && claim.over_others.is_none() {
        return Some((value, false));
    }
    let (ours, ratio) = (mean(&claim.metric, records)?, judgement.ours?.0);
    (ratio != 0.0).then_some((value * ours / ratio, true))
}

fn records<'a>(batch: &'a Batch, system: &str) -> Vec<&'a Record> {
    batch.runs.iter().map(|run| &run.record).filter(|record| record.system == system).collect()
}

fn mean(metric: &str, records: &[&Record]) -> Option<f64> {
    spread(metric, records).map(|(mean, ..)| mean)
}

/// The place of a system among the lines of a plot: over a sweep those of all its values are one line.
fn number_of(plot: &Plot, batch: &Batch, system: &str) -> Option<usize> {
    let line = |name: &str| match plot.over {
        PlotOver::Sweep => Sweep::split(name).map_or_else(|| name.to_owned(), |(system, _)| system.to_owned()),
        _ => name.to_owned(),
    };
    let mut lines: Vec<String> = batch.by_system().into_iter().map(|(name, _)| line(name)).collect();
    lines.dedup();
    lines.iter().position(|name| *name == line(system))
}

/// Which kind of operations a figure is a percentile of, and which: `write_latency_p99_us` is 0.99 of `write`.
fn percentile(metric: &str) -> Option<(&str, f64)> {
    let (kind, rest) = metric.split_once("latency_p")?;
    let digits = rest.strip_suffix("_us")?;
    let share = digits.parse::<f64>().ok()? / 10f64.powi(i32::try_from(digits.len()).ok()?);
    Some((if kind.is_empty() { "all" } else { kind.strip_suffix('_')? }, share))
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_read_from_names_of_figures() {
        let read = ["latency_p99_us", "write_latency_p999_us", "read_latency_p50_us", "read_latency_mean_us", "p99"];
        let right = [Some(("all", 0.99)), Some(("write", 0.999)), Some(("read", 0.5)), None, None];
        assert_eq!(read.map(percentile), right);
    }
}
