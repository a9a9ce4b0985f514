//! The page: one file that needs nothing else, for wide screens and telephones, by day and by night.
//!
//! Kept true (and looked at by a browser in `tests/browser`):
//! - Nothing throws, and nothing is wider than the screen but what scrolls by itself.
//! - Every line of a plot can be seen and told from the others.
//! - Each experiment says what was claimed, what came out with its spread over the seeds, and the verdict. It also says
//!   at which scale, with which seeds, on which machine, from which commit and at what cost.

use super::colours;
use super::svg::{self, escape};
use super::{Batch, plots, tables};
use crate::claims::{Judgement, Verdict};
use crate::record::Run;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Of everything but plots, which have theirs (`svg`).
const STYLE: &str = "\
*{box-sizing:border-box}body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem}h2{font-size:1.25rem;margin-top:2.5rem}h3{font-size:1rem;margin:1.5rem 0 0}p,li,td,dd{overflow-wrap:anywhere}.mute{color:var(--mute)}a{color:var(--link)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;width:100%}th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.holds{color:var(--good);font-weight:600;white-space:nowrap}.fails{color:var(--bad);font-weight:600;white-space:nowrap}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;font-size:.9rem}dt{color:var(--mute)}dd{margin:0}\
figure{margin:0}figcaption{font-size:.9rem;color:var(--mute)}svg{width:100%;height:auto;display:block}\
.key{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.25rem 0;padding:0;list-style:none;font-size:.9rem}.key svg{display:inline-block;width:1.6rem;height:.6rem;margin-right:.4rem;vertical-align:middle}\
details{margin:.75rem 0}summary{cursor:pointer}pre{overflow-x:auto;font-size:.8rem}\
@media(max-width:40rem){svg text{font-size:21px}svg .odd{display:none}dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}\
.cards tr:first-child{display:none}.cards tr{display:block;border-bottom:1px solid var(--rule);padding:.4rem 0}.cards td,.cards td.n{display:flex;justify-content:space-between;gap:1rem;border:0;padding:.05rem 0;text-align:right}\
.cards td.says{display:block;text-align:left}.cards td[data-is]::before{content:attr(data-is);color:var(--mute);font-weight:400;text-align:left}}";

/// The page of some results.
pub fn page(batches: &[Batch]) -> String {
    let mut out = String::from(
        "<h1>SteadyFS lab: results</h1>\n<p class=\"mute\">Every figure was made in deterministic virtual time: the same experiment with the same seed gives the same numbers on any machine. CPU seconds and memory are what making them cost on the machine that is named.</p>\n",
    );
    if batches.len() > 1 {
        contents(&mut out, batches);
    }
    batches.iter().enumerate().for_each(|(number, batch)| section(&mut out, number, batch));
    let lines = batches.iter().map(plots::most_colours).max();
    document("SteadyFS lab: results", lines.unwrap_or(0), &out)
}

/// A page that needs nothing else, with so many colours for lines.
pub(super) fn document(title: &str, lines: usize, body: &str) -> String {
    let (plots, colours) = (svg::STYLE, colours::style(lines));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{}</title><link rel=\"icon\" href=\"data:,\"><style>{plots}{STYLE}{colours}</style></head><body>{body}</body></html>\n",
        escape(title)
    )
}

/// Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.
fn contents(out: &mut String, batches: &[Batch]) {
    out.push_str("<ul>");
    for (number, batch) in batches.iter().enumerate() {
        let name = escape(&batch.experiment.name);
        let came = in_short(&batch.judgements());
        let _ = write!(out, "<li><a href=\"#e{number}\">{name}</a> at scale {}: {came}</li>", batch.scale);
    }
    out.push_str("</ul>\n");
}

/// How many claims hold.
fn in_short(judgements: &[Judgement]) -> String {
    let count = |verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    if judgements.is_empty() {
        return "no claims".into();
    }
    let (holds, fails, open) = (count(Verdict::Holds), count(Verdict::DoesNotHold), count(Verdict::CannotBeTold));
    let few = if open == 0 { String::new() } else { format!(", {open} cannot be told with so few seeds") };
    format!(
        "of {} claims {holds} hold, {fails} do not{few}, {} not judged",
        judgements.len(),
        judgements.len() - holds - fails - open
    )
}

fn section(out: &mut String, number: usize, batch: &Batch) {
    let experiment = &batch.experiment;
    let _ = write!(
        out,
        "<section id=\"e{number}\"><h2>{} <span class=\"mute\">at scale {}</span></h2>\n<p>{}</p>\n",
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
    if let Some(least) = experiment.is_too_small(batch.scale) {
        let _ = writeln!(
            out,
            "<p class=\"fails\">At scale {} this experiment says nothing: it was checked at {least} and above.</p>",
            batch.scale
        );
    }
    let judgements = batch.judgements();
    made_of(out, batch, &judgements);
    tables::claims(out, batch.scale, &judgements);
    experiment.plots.iter().for_each(|plot| plots::figure(out, plot, batch));
    tables::sweep(out, batch);
    let systems = batch.by_system();
    let alone = systems.len() <= 1;
    for (system, runs) in systems {
        if !system.is_empty() {
            let _ = writeln!(out, "<h3>{}</h3>", escape(system));
        }
        tables::measured(out, runs);
        tables::locks(out, runs);
        tables::runs(out, runs, alone);
    }
    settings(out, &batch.runs);
    out.push_str("</section>\n");
}

/// What stands behind every figure of the section.
fn made_of(out: &mut String, batch: &Batch, judgements: &[Judgement]) {
    let each = |f: fn(&Run) -> String| {
        let different: BTreeSet<String> = batch.runs.iter().map(f).collect();
        escape(&different.into_iter().collect::<Vec<_>>().join("; "))
    };
    let sum = |f: fn(&Run) -> f64| batch.runs.iter().map(f).sum::<f64>();
    let _ = writeln!(
        out,
        "<dl><dt>Verdict</dt><dd>{}</dd><dt>Scale</dt><dd>{}</dd><dt>Runs</dt><dd>{}</dd><dt>Machine</dt><dd>{}</dd><dt>Commit</dt><dd>{}</dd><dt>Cost</dt><dd>{:.1} CPU seconds for {:.1} s of virtual time</dd></dl>",
        in_short(judgements),
        batch.scale,
        runs_of(batch),
        each(|run| run.cost.machine.clone()),
        each(|run| if run.cost.commit.is_empty() { "not known".into() } else { run.cost.commit.clone() }),
        sum(|run| run.cost.cpu_seconds),
        sum(|run| run.record.simulated_seconds),
    );
}

/// Which systems and seeds there are.
fn runs_of(batch: &Batch) -> String {
    let systems = batch.by_system();
    let of_first = systems.first().map_or_else(|| "none".into(), |(_, runs)| seeds(runs));
    match systems.len() {
        0 | 1 => of_first,
        count => format!("{count} systems, of each {of_first}"),
    }
}

/// Which seeds there are.
pub(super) fn seeds(runs: &[Run]) -> String {
    let numbers: Vec<u64> = runs.iter().map(|run| run.record.seed).collect();
    let consecutive = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match numbers[..] {
        [] => "none".into(),
        [seed] => format!("1, seed {seed}: no spread is known"),
        [first, .., last] if consecutive => format!("{}, seeds {first} to {last}", numbers.len()),
        _ => {
            let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
            format!("{}, seeds {}", numbers.len(), list.join(", "))
        }
    }
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
