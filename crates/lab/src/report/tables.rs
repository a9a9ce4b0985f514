//! The tables of the page: claims with their verdicts, all figures, waits for locks, runs with their checks and costs.
//!
//! Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.

use super::html::{number, seeds};
use super::svg::escape;
use super::sweep::{SweepTable, sweep_tables};
use super::{Batch, figures};
use crate::claims::{Judgement, Verdict, spread};
use crate::record::{Record, Run};
use crate::spec::Scale;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How a verdict is shown.
pub(super) fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "fails",
        Verdict::CannotBeTold | Verdict::NotApplicable | Verdict::NotAtThisScale => "mute",
    }
}

/// Claims, ours with the spread and the interval of the mean, verdicts. On narrow screens each row is a card whose
/// cells say what they are.
pub(super) fn claims(out: &mut String, scale: Scale, judgements: &[Judgement]) {
    if judgements.is_empty() {
        return;
    }
    out.push_str("<div class=\"scroll\"><table class=\"cards\"><tr><th>Claim<th>Where<th class=\"n\">Paper<th class=\"n\">Accepted<th class=\"n\">Ours<th class=\"n\">Over the seeds<th class=\"n\">Mean, 95 %<th>Verdict</tr>\n");
    for judgement @ Judgement { claim, bounds, ours, interval, verdict, .. } in judgements {
        let accepted = match bounds {
            (Some(least), Some(most)) => format!("{} to {}", number(*least), number(*most)),
            (Some(least), None) => format!("from {}", number(*least)),
            (None, Some(most)) => format!("up to {}", number(*most)),
            (None, None) => "anything".into(),
        };
        let (mean, range) = ours.map_or(("not measured".into(), "none".into()), |(mean, least, most)| {
            (number(mean), format!("{} to {}", number(least), number(most)))
        });
        let interval = interval.map_or("one seed".into(), |(from, to)| format!("{} to {}", number(from), number(to)));
        let class = class_of(*verdict);
        let elsewhere = if claim.scales && !scale.is_full() { ", full scale" } else { "" };
        let of_paper = |value| format!("{}{elsewhere}", number(value));
        let source = if claim.source.is_empty() { "not said" } else { &claim.source };
        let _ = writeln!(
            out,
            "<tr><td class=\"says\">{}<br><span class=\"mute\">{}</span><td data-is=\"Where\">{}<td class=\"n\" data-is=\"Paper\">{}<td class=\"n\" data-is=\"Accepted\">{accepted}<td class=\"n\" data-is=\"Ours\">{mean}<td class=\"n\" data-is=\"Over the seeds\">{range}<td class=\"n\" data-is=\"Mean, 95 %\">{interval}<td class=\"{class}\" data-is=\"Verdict\">{}</tr>",
            escape(claim.subject()),
            escape(&claim.figure()),
            escape(source),
            claim.value.map_or_else(|| "no number".into(), of_paper),
            judgement.in_words()
        );
    }
    out.push_str("</table></div>\n");
}

/// A table for each figure that the sweep shows: systems by values.
pub(super) fn sweep(out: &mut String, batch: &Batch) {
    let Some(sweep) = &batch.experiment.sweep else { return };
    for SweepTable { figure, values, systems } in sweep_tables(batch) {
        let _ = write!(
            out,
            "<h3>{} by {}</h3><div class=\"scroll\"><table><tr><th>{}",
            escape(&figure),
            escape(&sweep.name),
            escape(&sweep.name)
        );
        for value in values {
            let _ = write!(out, "<th class=\"n\">{value}");
        }
        for (system, means) in systems {
            let name = if system.is_empty() { &figure } else { &system };
            let _ = write!(out, "</tr>\n<tr><td>{}", escape(name));
            for mean in means {
                let _ = write!(out, "<td class=\"n\">{}", mean.map_or_else(|| "-".into(), number));
            }
        }
        out.push_str("</tr></table></div>\n");
    }
}

/// Every figure of the records.
pub(super) fn measured(out: &mut String, runs: &[Run]) {
    let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
    let _ = writeln!(
        out,
        "<details><summary>All figures (runs: {})</summary><div class=\"scroll\"><table><tr><th>Figure<th class=\"n\">Mean<th class=\"n\">Least<th class=\"n\">Most</tr>",
        seeds(runs)
    );
    for name in figures(runs).keys() {
        if let Some((mean, least, most)) = spread(name, &records) {
            let _ = writeln!(
                out,
                "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
                escape(name),
                number(mean),
                number(least),
                number(most)
            );
        }
    }
    out.push_str("</table></div></details>\n");
}

/// Waits for locks, a run's mean.
pub(super) fn locks(out: &mut String, runs: &[Run]) {
    let mut sums: BTreeMap<&str, (u64, f64, f64)> = BTreeMap::new();
    for waits in runs.iter().flat_map(|run| &run.record.locks) {
        let sum = sums.entry(&waits.lock).or_default();
        *sum = (sum.0 + waits.waits, sum.1 + waits.seconds, sum.2.max(waits.longest_us));
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    let count = runs.len().max(1) as f64;
    out.push_str("<details><summary>Waits for locks</summary><div class=\"scroll\"><table><tr><th>Lock<th class=\"n\">Waits<th class=\"n\">Seconds, all tasks<th class=\"n\">Longest, µs</tr>\n");
    for (lock, (waits, seconds, longest)) in sums {
        let _ = writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{:.0}<td class=\"n\">{:.4}<td class=\"n\">{longest:.1}</tr>",
            escape(lock),
            waits as f64 / count,
            seconds / count
        );
    }
    out.push_str("</table></div></details>\n");
}

/// What was checked of each run, and what it cost; unfolded where it is the only such table of its section.
pub(super) fn runs(out: &mut String, runs: &[Run], alone: bool) {
    out.push_str(if alone { "<details open>" } else { "<details>" });
    out.push_str("<summary>Runs: checks and cost</summary><div class=\"scroll\"><table class=\"cards\"><tr><th class=\"n\">Seed<th>Trace<th>Checks<th class=\"n\">Simulated, s<th class=\"n\">CPU, s<th class=\"n\">Peak memory, MB<th class=\"n\">Events/s</tr>\n");
    for Run { record, cost, .. } in runs {
        let checks: Vec<String> = record.checks.iter().map(|(what, came)| format!("{what}: {came}")).collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"n\" data-is=\"Seed\">{}<td class=\"n\" data-is=\"Trace\">{}<td data-is=\"Checks\">{}<td class=\"n\" data-is=\"Simulated, s\">{:.3}<td class=\"n\" data-is=\"CPU, s\">{:.1}<td class=\"n\" data-is=\"Peak memory, MB\">{:.0}<td class=\"n\" data-is=\"Events/s\">{:.0}</tr>",
            record.seed,
            escape(&record.trace),
            escape(&checks.join("; ")),
            record.simulated_seconds,
            cost.cpu_seconds,
            cost.peak_memory_bytes as f64 / 1e6,
            cost.events_per_second
        );
    }
    out.push_str("</table></div></details>\n");
}
