//! What came of changed prices and assumptions: a page, and the same for programs.
//!
//! Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.

use super::html::{document, number};
use super::svg::escape;
use super::{plain, tables, write};
use crate::claims::Judgement;
use crate::error::{Error, Result};
use crate::sensitivity::{Finding, Sensitivity, Standing};
use std::fmt::Write as _;
use std::path::Path;

/// Writes `sensitivity-NAME.html` and `sensitivity-NAME.json` into a directory.
///
/// # Errors
/// The directory cannot be written.
pub fn save_sensitivity(dir: &Path, found: &Sensitivity) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|source| Error::File { path: dir.into(), source })?;
    let name = format!("sensitivity-{}", plain(&found.experiment));
    let json = dir.join(format!("{name}.json"));
    let text =
        serde_json::to_string_pretty(found).map_err(|e| Error::Results { path: json.clone(), why: e.to_string() })?;
    write(&json, &(text + "\n"))?;
    write(&dir.join(format!("{name}.html")), &page(found))
}

/// The page: claims with their standing, then every change with the figure of each claim.
fn page(found: &Sensitivity) -> String {
    let mut out = format!(
        "<h1>Sensitivity of {} <span class=\"mute\">at scale {}</span></h1>\n<p>{}</p>\n",
        escape(&found.experiment),
        found.scale,
        escape(&found.title)
    );
    let seeds: Vec<String> = found.seeds.iter().map(u64::to_string).collect();
    let count = |standing| found.findings.iter().filter(|finding| finding.standing == standing).count();
    let _ = writeln!(
        out,
        "<p class=\"mute\">Each price of CPU work halved and doubled, each assumption switched, one at a time. A claim is robust if its verdict is everywhere the same.</p><dl><dt>Claims</dt><dd>{} robust, {} fragile, {} not judged</dd><dt>Runs</dt><dd>{}</dd><dt>Seeds</dt><dd>{}</dd><dt>Commit</dt><dd>{}</dd></dl>",
        count(Standing::Robust),
        count(Standing::Fragile),
        count(Standing::NotJudged),
        found.runs,
        seeds.join(", "),
        escape(&found.commit)
    );
    claims(&mut out, &found.findings);
    changes(&mut out, found);
    let mut list = |what: &str, names: &[String]| {
        if !names.is_empty() {
            let _ = writeln!(out, "<p>{what}: {}.</p>", escape(&names.join(", ")));
        }
    };
    list("Prices that move nothing, for nothing here charges them", &found.unmoved);
    list("Nothing to switch here", &found.idle);
    document(&format!("SteadyFS lab: sensitivity of {}", found.experiment), 1, &out)
}

fn claims(out: &mut String, findings: &[Finding]) {
    out.push_str("<div class=\"scroll\"><table class=\"cards\"><tr><th>Claim<th class=\"n\">Ours<th>Verdict<th class=\"n\">Least<th class=\"n\">Most<th>Standing<th>Fragile on</tr>\n");
    for finding @ Finding { claim, as_it_is, standing, .. } in findings {
        let (least, most) = finding
            .extremes()
            .map_or(("none".into(), "none".into()), |(least, most)| (value(&least.judgement), value(&most.judgement)));
        let fragile = finding.fragile_on().filter(|_| *standing == Standing::Fragile);
        let on: Vec<String> = fragile.map(|told| format!("{}: {}", told.change, value(&told.judgement))).collect();
        let class = match standing {
            Standing::Robust => "holds",
            Standing::Fragile => "fails",
            Standing::NotJudged => "mute",
        };
        let _ = writeln!(
            out,
            "<tr><td class=\"says\">{}<br><span class=\"mute\">{}</span><td class=\"n\" data-is=\"Ours\">{}<td class=\"{}\" data-is=\"Verdict\">{}<td class=\"n\" data-is=\"Least\">{least}<td class=\"n\" data-is=\"Most\">{most}<td class=\"{class}\" data-is=\"Standing\">{}<td data-is=\"Fragile on\">{}</tr>",
            escape(claim.subject()),
            escape(&claim.figure()),
            value(as_it_is),
            tables::class_of(as_it_is.verdict),
            as_it_is.in_words(),
            standing.text(),
            if on.is_empty() { "nothing".into() } else { escape(&on.join("; ")) }
        );
    }
    out.push_str("</table></div>\n");
}

/// A row for each change, a column for each claim; another verdict than that of the experiment as it is stands out.
fn changes(out: &mut String, found: &Sensitivity) {
    out.push_str("<h2>Figures with each change</h2><div class=\"scroll\"><table><tr><th>Change<th>What is then so");
    for (number, finding) in found.findings.iter().enumerate() {
        let _ = write!(out, "<th class=\"n\" title=\"{}\">Claim {}", escape(finding.claim.subject()), number + 1);
    }
    let row = |out: &mut String, name: &str, what: &str, cells: &[String]| {
        let _ = write!(out, "</tr>\n<tr><td>{}<td>{}{}", escape(name), escape(what), cells.concat());
    };
    let plain: Vec<String> =
        found.findings.iter().map(|finding| format!("<td class=\"n\">{}", value(&finding.as_it_is))).collect();
    row(out, "none", "the experiment as it is", &plain);
    for change in &found.changes {
        let cell = |finding: &Finding| match finding.told.iter().find(|told| told.change == change.name) {
            Some(told) if told.judgement.verdict == finding.as_it_is.verdict => {
                format!("<td class=\"n\">{}", value(&told.judgement))
            }
            Some(told) => format!("<td class=\"n fails\">{}", value(&told.judgement)),
            None => "<td class=\"n\">not run".to_owned(),
        };
        let cells: Vec<String> = found.findings.iter().map(cell).collect();
        let failed = change.failed.as_ref().map_or_else(String::new, |why| format!(" (could not be run: {why})"));
        row(out, &change.name, &format!("{}{failed}", change.what), &cells);
    }
    out.push_str("</tr></table></div>\n<p class=\"mute\">In red: another verdict. Claims are numbered as above.</p>\n");
}

/// The mean.
fn value(judgement: &Judgement) -> String {
    judgement.ours.map_or_else(|| "not measured".to_owned(), |(mean, ..)| number(mean))
}
