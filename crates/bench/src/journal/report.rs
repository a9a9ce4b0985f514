//! The rates of patterns for people, and the bounds.

use super::System;
use super::System::{Ext4, LibraryOff, LibraryPercore, LibrarySingle, MountOff, MountSingle, Xfs};
use crate::comparison::Findings;
use crate::report::{Bound, Samples, Verdicts, markdown, name_of, name_of_pair};
use serde::Serialize;

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
    pub(super) fn name(&self) -> String {
        let beside = if self.dirty == 0 { String::new() } else { format!(", {} dirty", self.dirty) };
        let clients = if self.clients == 1 { "client" } else { "clients" };
        format!("{}, {} {clients}{beside}", self.pattern, self.clients)
    }
}

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
pub(super) struct PatternFindings {
    pub(super) repetitions: Samples<Row, System, Timing>,
}

impl PatternFindings {
    fn rows(&self) -> Vec<(Row, String)> {
        self.repetitions.0.first().into_iter().flatten().map(|(row, _)| (row.clone(), row.name())).collect()
    }

    pub(super) fn judge(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for (pattern, dirty, of, to, least) in BOUNDS {
            // One client where nothing is dirty, and all of them where something is.
            let about = |row: &Row| row.pattern == pattern && (row.dirty > 0) == dirty && (row.clients > 1) == dirty;
            for (row, name) in self.rows().into_iter().filter(|(row, _)| about(row)) {
                let ratio = self.repetitions.ratio(&row, (of, to), |timing| Some(timing.rate()));
                verdicts.goal(&format!("{name}: {}", name_of_pair((of, to))), ratio, Bound::AtLeast(least));
            }
        }
        verdicts
    }
}

impl Findings for PatternFindings {
    /// Three tables in Markdown.
    fn text(&self) -> String {
        let rows = self.rows();
        let mut out = format!("{} repetitions\n\n", self.repetitions.repetitions());
        out += "Rounds a second, all clients together; medians\n\n";
        out += &self.repetitions.medians(&rows, |_, timing| Some(timing.rate()));
        out += &self.repetitions.ratios(&rows, &RATIOS, |_, timing| timing.rate());
        let ours: Vec<System> = self.repetitions.systems().into_iter().filter(|system| system.is_library()).collect();
        let names: Vec<String> =
            ours.iter().flat_map(|s| [name_of(*s), "flushes".to_owned(), "durable".to_owned()]).collect();
        out += "\nCheckpoints that fsyncs made, flushes, and requests durable without one, for each round; medians\n\n";
        let counts: [fn(&Timing) -> Option<u64>; 3] = [|t| t.checkpoints, |t| t.flushes, |t| t.through];
        let lines = rows.iter().map(|(row, name)| {
            let each = |system: &System, count: fn(&Timing) -> Option<u64>| {
                self.repetitions.middle(row, *system, |timing| Some(count(timing)? as f64 / timing.rounds as f64))
            };
            let three = |system| counts.map(|count| each(system, count));
            ([name.clone()], ours.iter().flat_map(three).collect())
        });
        out + &markdown([""], &names, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_bound_holds_for_the_clients_that_it_is_about() {
        let sample = |seconds| Timing { rounds: 100, seconds, checkpoints: None, flushes: None, through: None };
        let row = |clients, dirty| Row { pattern: "safe-save", clients, dirty };
        let all = |fast| BTreeMap::from([(LibrarySingle, sample(fast)), (LibraryOff, sample(1.0))]);
        let findings = |idle, loaded| PatternFindings {
            repetitions: Samples(vec![vec![
                (row(1, 0), all(idle)),
                (row(16, 0), all(9.0)),
                (row(16, 20_000), all(loaded)),
            ]]),
        };
        for (idle, loaded, met, missed) in [(0.5, 0.03, 2, 0), (0.51, 0.04, 0, 2)] {
            let verdicts = findings(idle, loaded).judge();
            let text = verdicts.to_string();
            assert_eq!((text.matches(": met").count(), verdicts.missed()), (met, missed), "{text}");
        }
        assert!(findings(0.5, 0.1).text().contains("| safe-save, 16 clients, 20000 dirty"));
    }
}
