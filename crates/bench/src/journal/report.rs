//! From samples to figures: rates, ratios within repetitions, and which of the bounds hold.

use super::System;
use super::System::{Ext4, LibraryOff, LibraryPercore, LibrarySingle, MountOff, MountSingle, Xfs};
use crate::machine::Machine;
use crate::report::{markdown, median, short};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Timing {
    /// Rounds of the pattern, of all clients together.
    pub(super) rounds: u64,
    pub(super) seconds: f64,
    /// Checkpoints that fsyncs made, flushes, and requests that were durable without one, where that can be told.
    pub(super) checkpoints: Option<u64>,
    pub(super) flushes: Option<u64>,
    pub(super) through: Option<u64>,
}

impl Timing {
    fn rate(&self) -> f64 {
        self.rounds as f64 / self.seconds
    }
}

/// A pattern, a number of clients, and a number of dirty inodes beside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Row {
    pub(super) pattern: &'static str,
    pub(super) clients: u64,
    pub(super) dirty: u64,
}

impl Row {
    fn name(&self) -> String {
        let beside = if self.dirty == 0 { String::new() } else { format!(", {} dirty", self.dirty) };
        let clients = if self.clients == 1 { "client" } else { "clients" };
        format!("{}, {} {clients}{beside}", self.pattern, self.clients)
    }
}

/// The samples of one repetition.
pub(super) type PatternTimings = Vec<(Row, BTreeMap<System, Timing>)>;

/// Which systems are compared.
const RATIOS: [(System, System); 7] = [
    (LibrarySingle, LibraryOff),
    (LibraryPercore, LibraryOff),
    (MountSingle, MountOff),
    (LibrarySingle, Xfs),
    (LibraryPercore, Xfs),
    (MountSingle, Xfs),
    (MountSingle, Ext4),
];

/// A bound: the pattern, whether others dirty inodes, which systems, and the least ratio.
const BOUNDS: [(&str, bool, System, System, f64); 4] = [
    ("safe-save", false, LibrarySingle, LibraryOff, 2.0),
    ("safe-save", true, LibrarySingle, LibraryOff, 30.0),
    ("safe-save", false, LibrarySingle, Xfs, 1.2),
    ("safe-save", false, MountSingle, Xfs, 0.8),
];

/// Everything about one run.
#[derive(Serialize)]
pub(super) struct PatternReport {
    pub(super) machine: Machine,
    pub(super) repetitions: Vec<PatternTimings>,
}

impl PatternReport {
    fn rows(&self) -> Vec<&Row> {
        self.repetitions.first().into_iter().flatten().map(|(row, _)| row).collect()
    }

    fn samples<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a BTreeMap<System, Timing>> {
        self.repetitions.iter().flatten().filter(move |(other, _)| other == row).map(|(_, samples)| samples)
    }

    fn ratio(&self, row: &Row, of: System, to: System) -> Option<f64> {
        let ratios = self.samples(row).filter_map(|all| Some(all.get(&of)?.rate() / all.get(&to)?.rate()));
        median(ratios.collect())
    }

    fn systems(&self) -> Vec<System> {
        let known = |system: &System| self.repetitions.iter().flatten().any(|(_, all)| all.contains_key(system));
        System::ALL.into_iter().filter(known).collect()
    }

    /// The report for people: three tables in Markdown.
    pub(super) fn text(&self) -> String {
        let systems = self.systems();
        let mut out = format!("{}\n{} repetitions\n\n", self.machine.line(), self.repetitions.len());
        let names: Vec<String> = systems.iter().map(|s| s.name()).collect();
        out += "Rounds a second, all clients together; medians\n\n";
        out += &self.table(&names, |row| {
            let rate = |s| median(self.samples(row).filter_map(|all| Some(all.get(s)?.rate())).collect());
            systems.iter().map(rate).collect()
        });
        let ratios: Vec<_> = RATIOS.iter().filter(|(of, to)| systems.contains(of) && systems.contains(to)).collect();
        let names: Vec<String> = ratios.iter().map(|(of, to)| format!("{} / {}", of.name(), to.name())).collect();
        out += "\nRatios of rates: median of the repetitions' ratios; above 1 the first is faster\n\n";
        out += &self.table(&names, |row| ratios.iter().map(|(of, to)| self.ratio(row, *of, *to)).collect());
        let ours: Vec<System> = systems.into_iter().filter(|system| system.is_library()).collect();
        let names: Vec<String> =
            ours.iter().flat_map(|s| [s.name(), "flushes".to_owned(), "durable".to_owned()]).collect();
        out += "\nCheckpoints that fsyncs made, flushes, and requests durable without one, for each round; medians\n\n";
        out += &self.table(&names, |row| {
            let each = |s: &System, what: fn(&Timing) -> Option<u64>| {
                let per_round = |sample: &Timing| Some(what(sample)? as f64 / sample.rounds as f64);
                median(self.samples(row).filter_map(|all| per_round(all.get(s)?)).collect())
            };
            let three = |s| [each(s, |t| t.checkpoints), each(s, |t| t.flushes), each(s, |t| t.through)];
            ours.iter().flat_map(three).collect()
        });
        out
    }

    fn table(&self, columns: &[String], figures: impl Fn(&Row) -> Vec<Option<f64>>) -> String {
        markdown(columns, self.rows().into_iter().map(|row| (row.name(), figures(row))))
    }

    /// A line for each bound and each row that it is about, and how many do not hold.
    pub(super) fn judge(&self) -> (String, usize) {
        let (mut out, mut missed) = ("\n".to_owned(), 0);
        for (pattern, dirty, of, to, least) in BOUNDS {
            // One client where nothing is dirty, and all of them where something is.
            let about = |row: &&Row| row.pattern == pattern && (row.dirty > 0) == dirty && (row.clients > 1) == dirty;
            for row in self.rows().into_iter().filter(about) {
                let Some(ratio) = self.ratio(row, of, to) else { continue };
                let verdict = if ratio >= least { "met" } else { "not met" };
                missed += usize::from(ratio < least);
                let _ = writeln!(
                    out,
                    "{}: {} / {} {}, bound {least}: {verdict}",
                    row.name(),
                    of.name(),
                    to.name(),
                    short(ratio)
                );
            }
        }
        (out, missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_for_the_clients_that_it_is_about() {
        let sample = |seconds| Timing { rounds: 100, seconds, checkpoints: None, flushes: None, through: None };
        let row = |clients, dirty| Row { pattern: "safe-save", clients, dirty };
        let all = |fast| BTreeMap::from([(LibrarySingle, sample(fast)), (LibraryOff, sample(1.0))]);
        let report = |idle, loaded| PatternReport {
            machine: Machine::default(),
            repetitions: vec![vec![(row(1, 0), all(idle)), (row(16, 0), all(9.0)), (row(16, 20_000), all(loaded))]],
        };
        let (text, missed) = report(0.5, 0.03).judge();
        assert_eq!((missed, text.matches(": met").count()), (0, 2), "{text}");
        let (text, missed) = report(0.51, 0.04).judge();
        assert_eq!((missed, text.matches("not met").count()), (2, 2), "{text}");
        assert!(report(0.5, 0.1).text().contains("| safe-save, 16 clients, 20000 dirty"));
    }
}
