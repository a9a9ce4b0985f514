//! The page: one file that needs nothing else, for wide screens and telephones, by day and by night.

use super::svg::{self, COLOURS, Line, escape};
use super::{Batch, figures};
use crate::claims::{Judgement, Verdict, spread};
use crate::run::{Record, Row, Run};
use crate::spec::Plot;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{--bg:#fff;--fg:#1a1d21;--mute:#5b6470;--rule:#d9dee4;--good:#12733f;--bad:#b3261e;--c0:#1f6fb2;--c1:#c8501c;--c2:#2f8547;--c3:#8a4fb0;--c4:#a0700a;--c5:#4b5563}\
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ed;--mute:#9aa4b0;--rule:#333a43;--good:#5fcf92;--bad:#ff8a80;--c0:#6cb2ee;--c1:#f19a6b;--c2:#7ccb92;--c3:#c69be6;--c4:#dcb14f;--c5:#aab4c0}}\
*{box-sizing:border-box}body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem}h2{font-size:1.25rem;margin-top:2.5rem}h3{font-size:1rem;margin-bottom:.25rem}p,li{overflow-wrap:anywhere}.mute{color:var(--mute)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;min-width:100%}th,td{padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.holds{color:var(--good);font-weight:600}.fails{color:var(--bad);font-weight:600}\
svg{width:100%;height:auto;display:block}svg text{fill:var(--mute);font-size:12px}.grid{stroke:var(--rule)}polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}.faint{opacity:.35}\
.key{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.25rem 0;padding:0;list-style:none;font-size:.9rem}.key i{display:inline-block;width:1.2rem;height:.2rem;margin-right:.4rem;vertical-align:middle}\
details{margin:.75rem 0}summary{cursor:pointer}pre{overflow-x:auto;font-size:.8rem}";

/// The page of some results.
pub fn page(batches: &[Batch]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>SteadyFS lab: results</title><link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head><body><h1>SteadyFS lab: results</h1>\n<p class=\"mute\">Every figure was made in deterministic virtual time: the same experiment with the same seed gives the same numbers on any machine.</p>\n"
    );
    batches.iter().for_each(|batch| section(&mut out, batch));
    out + "</body></html>\n"
}

/// Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.
fn section(out: &mut String, batch: &Batch) {
    let experiment = &batch.experiment;
    let _ = write!(
        out,
        "<section><h2>{} <span class=\"mute\">at scale {}</span></h2>\n<p>{}</p>\n",
        escape(&experiment.name),
        batch.scale,
        escape(&experiment.title)
    );
    if !experiment.source.is_empty() {
        let _ = writeln!(out, "<p class=\"mute\">After {}.</p>", escape(&experiment.source));
    }
    if !experiment.notes.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escape(&experiment.notes));
    }
    claims(out, &batch.judgements());
    experiment.plots.iter().for_each(|plot| figure(out, plot, &batch.runs));
    measured(out, batch);
    locks(out, &batch.runs);
    costs(out, &batch.runs);
    settings(out, &batch.runs);
    out.push_str("</section>\n");
}

fn claims(out: &mut String, judgements: &[Judgement]) {
    if judgements.is_empty() {
        return;
    }
    out.push_str("<div class=\"scroll\"><table><tr><th>Claim<th>Where<th class=\"n\">Paper<th class=\"n\">Accepted<th class=\"n\">Ours<th class=\"n\">Seeds from, to<th>Verdict</tr>\n");
    for Judgement { claim, bounds, ours, verdict } in judgements {
        let accepted = match bounds {
            (Some(least), Some(most)) => format!("{} to {}", number(*least), number(*most)),
            (Some(least), None) => format!("from {}", number(*least)),
            (None, Some(most)) => format!("up to {}", number(*most)),
            (None, None) => "anything".into(),
        };
        let (mean, range) = ours.map_or(("not measured".into(), String::new()), |(mean, least, most)| {
            (number(mean), format!("{}, {}", number(least), number(most)))
        });
        let class = match verdict {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "fails",
            Verdict::NotApplicable => "mute",
        };
        let says = if claim.says.is_empty() { &claim.metric } else { &claim.says };
        let _ = writeln!(
            out,
            "<tr><td>{}<br><span class=\"mute\">{}</span><td>{}<td class=\"n\">{}<td class=\"n\">{accepted}<td class=\"n\">{mean}<td class=\"n\">{range}<td class=\"{class}\">{}</tr>",
            escape(says),
            escape(&claim.metric),
            escape(&claim.source),
            claim.value.map_or_else(String::new, number),
            verdict.text()
        );
    }
    out.push_str("</table></div>\n");
}

fn figure(out: &mut String, plot: &Plot, runs: &[Run]) {
    let columns: Vec<(usize, &String)> = plot
        .series
        .iter()
        .filter_map(|name| Some((Row::COLUMNS.iter().position(|column| column == name)?, name)))
        .collect();
    let mut lines = Vec::new();
    for (colour, (column, _)) in columns.iter().enumerate() {
        for (seed, run) in runs.iter().enumerate() {
            let points = run.rows.iter().map(|row| (row.seconds, row.values()[*column])).collect();
            lines.push(Line { points, colour, faint: seed > 0 });
        }
    }
    let _ = writeln!(out, "<h3>{}</h3>{}", escape(&plot.title), svg::plot(&plot.title, &plot.unit, &lines));
    out.push_str("<ul class=\"key\">");
    for (colour, (_, name)) in columns.iter().enumerate() {
        let _ = write!(out, "<li><i style=\"background:var(--c{})\"></i>{}</li>", colour % COLOURS, escape(name));
    }
    out.push_str("</ul>\n");
}

fn measured(out: &mut String, batch: &Batch) {
    let records: Vec<&Record> = batch.runs.iter().map(|run| &run.record).collect();
    let seeds: Vec<String> = records.iter().map(|record| record.seed.to_string()).collect();
    let _ = writeln!(
        out,
        "<details><summary>All figures ({} seeds: {})</summary><div class=\"scroll\"><table><tr><th>Figure<th class=\"n\">Mean<th class=\"n\">Least<th class=\"n\">Most</tr>",
        seeds.len(),
        seeds.join(", ")
    );
    for name in figures(&batch.runs).keys() {
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

fn locks(out: &mut String, runs: &[Run]) {
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

fn costs(out: &mut String, runs: &[Run]) {
    out.push_str("<details open><summary>Runs: checks and cost</summary><div class=\"scroll\"><table><tr><th class=\"n\">Seed<th>Trace<th>Checks<th class=\"n\">Simulated, s<th class=\"n\">CPU, s<th class=\"n\">Peak memory, MB<th class=\"n\">Events/s</tr>\n");
    for Run { record, cost, .. } in runs {
        let checks: Vec<String> = record.checks.iter().map(|(what, came)| format!("{what}: {came}")).collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"n\">{}<td>{}<td>{}<td class=\"n\">{:.3}<td class=\"n\">{:.1}<td class=\"n\">{:.0}<td class=\"n\">{:.0}</tr>",
            record.seed,
            escape(&record.trace),
            escape(&checks.join("; ")),
            record.simulated_seconds,
            cost.cpu_seconds,
            cost.peak_memory_bytes as f64 / 1e6,
            cost.events_per_second
        );
    }
    out.push_str("</table></div>");
    let machines: std::collections::BTreeSet<&str> = runs.iter().map(|run| run.cost.machine.as_str()).collect();
    for machine in machines {
        let _ = write!(out, "<p class=\"mute\">{}</p>", escape(machine));
    }
    out.push_str("</details>\n");
}

fn settings(out: &mut String, runs: &[Run]) {
    let Some(run) = runs.first() else { return };
    let text = serde_json::to_string_pretty(&run.record.settings).unwrap_or_default();
    let _ = writeln!(out, "<details><summary>Settings</summary><pre>{}</pre></details>", escape(&text));
}

/// A number with as many digits as tell something.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if value == value.trunc() && size < 1e15 => format!("{value:.0}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
