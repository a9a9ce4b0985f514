//! Results as files: what was measured as lines of JSON, series as CSV, and a page for people.
//!
//! A directory of results holds:
//! - `runs.jsonl`: a [`Record`] per line, the same bytes for the same experiment and seed;
//! - `costs.jsonl`: what the runs cost on the machine, and its commit;
//! - `NAME[-SYSTEM]-SCALE-seedN.csv`: the series;
//! - `index.html` ([`page`]), which is made from the others.
//!
//! A run that is there already is replaced.

mod colours;
mod compare;
mod html;
mod papers;
mod picture;
mod plots;
mod sensitivity;
mod svg;
mod sweep;
mod tables;

use crate::claims::{Judgement, Verdict, judge};
use crate::error::{Error, Result};
use crate::record::{Cost, Record, Row, Run};
use crate::spec::{Experiment, Scale};
pub use compare::{Comparison, compare};
pub use html::{number, page};
pub use picture::{Curve, picture};
pub use sensitivity::save_sensitivity;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
pub use sweep::{SweepTable, sweep_tables};

const RUNS: &str = "runs.jsonl";
const COSTS: &str = "costs.jsonl";
const PAGE: &str = "index.html";

/// Runs of one experiment at one scale, with one set of settings but for the seed.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The experiment, as it was run.
    pub experiment: Experiment,
    /// The scale.
    pub scale: Scale,
    /// The runs, by seed.
    pub runs: Vec<Run>,
}

impl Batch {
    /// The runs of each system, with its name; the name is empty if there is only one.
    pub fn by_system(&self) -> Vec<(&str, &[Run])> {
        self.runs
            .chunk_by(|a, b| a.record.system == b.record.system)
            .map(|runs| (runs[0].record.system.as_str(), runs))
            .collect()
    }

    /// What came of the claims.
    pub fn judgements(&self) -> Vec<Judgement> {
        let records: Vec<&Record> = self.runs.iter().map(|run| &run.record).collect();
        let mut judgements = judge(&self.experiment, self.scale, &records);
        if self.experiment.is_too_small(self.scale).is_some() {
            judgements.iter_mut().for_each(|judgement| judgement.verdict = Verdict::NotAtThisScale);
        }
        judgements
    }
}

/// Writes runs into a directory, beside what is there, and the page anew.
///
/// # Errors
/// Files that cannot be read or written, or do not hold results.
pub fn save(dir: &Path, runs: &[Run]) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|source| Error::File { path: dir.into(), source })?;
    let mut all = if dir.join(RUNS).exists() { read(dir)? } else { Vec::new() };
    for run in runs {
        match all.iter_mut().find(|old| same_place(&old.record, &run.record)) {
            Some(old) => *old = run.clone(),
            None => all.push(run.clone()),
        }
    }
    for run in runs {
        write(&dir.join(csv_name(&run.record)), &csv(&run.rows))?;
    }
    write(&dir.join(RUNS), &lines(all.iter().map(|run| &run.record))?)?;
    write(&dir.join(COSTS), &lines(all.iter().map(|run| &run.cost))?)?;
    write(&dir.join(PAGE), &page(&batches(all)?))
}

/// The runs of a directory.
///
/// # Errors
/// As [`save`].
pub fn load(dir: &Path) -> Result<Vec<Batch>> {
    batches(read(dir)?)
}

/// Runs replace each other if they are of the same experiment, scale and seed.
fn same_place(a: &Record, b: &Record) -> bool {
    (&a.experiment, &a.system, &a.scale, a.seed) == (&b.experiment, &b.system, &b.scale, b.seed)
}

/// Groups runs that differ in their seeds only.
fn batches(runs: Vec<Run>) -> Result<Vec<Batch>> {
    let mut groups: Vec<Batch> = Vec::new();
    for run in runs {
        let bad = |why: String| Error::Results { path: RUNS.into(), why };
        let experiment: Experiment =
            serde_json::from_value(run.record.settings.clone()).map_err(|e| bad(e.to_string()))?;
        let scale: Scale = run.record.scale.parse().map_err(bad)?;
        match groups.iter_mut().find(|group| group.scale == scale && group.experiment == experiment) {
            Some(group) => group.runs.push(run),
            None => groups.push(Batch { experiment, scale, runs: vec![run] }),
        }
    }
    for Batch { experiment, runs, .. } in &mut groups {
        let systems = experiment.system_names();
        let place = |run: &Run| systems.iter().position(|name| *name == run.record.system);
        runs.sort_by_key(|run| (place(run), run.record.seed));
    }
    Ok(groups)
}

fn read(dir: &Path) -> Result<Vec<Run>> {
    let records: Vec<Record> = parse(&dir.join(RUNS))?;
    let costs: Vec<Cost> = parse(&dir.join(COSTS))?;
    let mut runs = Vec::new();
    for record in records {
        let path = dir.join(csv_name(&record));
        let rows = parse_csv(&path, &read_text(&path)?)?;
        let of = |cost: &&Cost| {
            (&cost.experiment, &cost.system, &cost.scale, cost.seed)
                == (&record.experiment, &record.system, &record.scale, record.seed)
        };
        let cost = costs.iter().find(of).cloned();
        let cost = cost.ok_or_else(|| Error::Results {
            path: dir.join(COSTS),
            why: format!("there is no line for {}, scale {}, seed {}", record.experiment, record.scale, record.seed),
        })?;
        runs.push(Run { record, rows, cost });
    }
    Ok(runs)
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line)
                .map_err(|e| Error::Results { path: path.into(), why: format!("line {}: {e}", number + 1) })
        })
        .collect()
}

fn lines<'a, T: serde::Serialize + 'a>(items: impl Iterator<Item = &'a T>) -> Result<String> {
    let mut out = String::new();
    for item in items {
        out += &serde_json::to_string(item).map_err(|e| Error::Results { path: RUNS.into(), why: e.to_string() })?;
        out.push('\n');
    }
    Ok(out)
}

/// The name of a series' file.
fn csv_name(record: &Record) -> String {
    let scale = record.scale.replace('/', "of");
    let system = if record.system.is_empty() { String::new() } else { format!("-{}", plain(&record.system)) };
    format!("{}{system}-{scale}-seed{}.csv", plain(&record.experiment), record.seed)
}

/// A name with nothing in it that a file's name should not have.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// A series as CSV, with a line of names.
fn csv(rows: &[Row]) -> String {
    let mut out = Row::COLUMNS.join(",") + "\n";
    for row in rows {
        let values: Vec<String> = row.values().iter().map(|value| format!("{value:.6}")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", values.join(","));
    }
    out
}

fn parse_csv(path: &Path, text: &str) -> Result<Vec<Row>> {
    let bad = |line: usize| Error::Results { path: path.into(), why: format!("line {line} is no row of a series") };
    let mut lines = text.lines().zip(1..);
    if lines.next().is_none_or(|(names, _)| names != Row::COLUMNS.join(",")) {
        return Err(bad(1));
    }
    lines
        .map(|(line, number)| {
            let values: Vec<f64> = line.split(',').map_while(|field| field.parse().ok()).collect();
            let values = values.try_into().map_err(|_| bad(number))?;
            Ok(Row::from_values(values))
        })
        .collect()
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })
}

fn write(path: &Path, text: &str) -> Result<()> {
    // Never through a symlink: others may be able to write there.
    let written = steadyfs_device::create_file(path, 0o666).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| Error::File { path: path.into(), source })
}

/// Figures of runs by name: for each the values of all runs.
fn figures(runs: &[Run]) -> BTreeMap<&str, Vec<f64>> {
    let mut out: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|run| &run.record.metrics) {
        out.entry(name).or_default().push(*value);
    }
    out
}
