//! From rows to a report: tables, and which of the bounds hold.
//!
//! A bound is about each kind of operation and about all of them: nobody does a mean of everything.

use super::VolumeKind;
use super::attack::Tally;
use super::victim::{ALL, OPERATIONS, Suffered, Waits};
use crate::comparison::Findings;
use crate::report::{markdown, short};
use serde::Serialize;
use std::fmt::Write;

/// How many times as long as beside as many honest users a median may be.
const SLOWDOWN: f64 = 2.0;
/// What 99.9 % of the operations may take, microseconds.
const LONG_US: f64 = 100_000.0;
/// Of fewer operations nobody can say what 99.9 % of them took.
const ENOUGH: u64 = 1_000;
/// What `memory=low` promises (docs/SERVICE.md), bytes.
const LOW: u64 = 128 << 20;

/// Figures of all operations together.
const COLUMNS: [&str; 10] =
    ["ops/s", "p50 us", "/ alone", "/ spin", "/ users", "p99.9 ms", "worst ms", "refused %", "attacks/s", "server MiB"];

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct VictimRow {
    pub(super) name: String,
    /// Who are beside the victim.
    pub(super) processes: u64,
    pub(super) victim: Suffered,
    pub(super) attacks: Tally,
    /// The most memory that the server has had, bytes: before the victim began, and at the end.
    pub(super) memory_before: Option<u64>,
    pub(super) memory: Option<u64>,
}

impl VictimRow {
    fn waits(&self, operation: &str) -> Option<&Waits> {
        self.victim.waits.get(operation).filter(|waits| waits.done + waits.refused > 0)
    }

    fn median(&self, operation: &str) -> Option<f64> {
        self.waits(operation).filter(|waits| waits.done > 0).map(|waits| waits.p50_us)
    }

    /// How many times as long as in another row the median of an operation is.
    fn slowdown(&self, of: &str, other: &VictimRow) -> Option<f64> {
        Some(self.median(of)? / other.median(of)?)
    }
}

/// Everything about one run.
#[derive(Serialize)]
pub(super) struct HostileFindings {
    /// All mount options.
    pub(super) options: String,
    pub(super) kind: VolumeKind,
    pub(super) seconds: f64,
    /// MiB of the volume.
    pub(super) size: u64,
    /// What the mount promises of its memory, bytes; nothing without `memory=low`.
    pub(super) memory_limit: Option<u64>,
    pub(super) rows: Vec<VictimRow>,
}

/// The name of the row of the fair peer.
pub(super) fn spinning(processes: u64) -> String {
    format!("spin-{processes}")
}

/// The name of the row of as many honest users.
pub(super) fn working(processes: u64) -> String {
    format!("users-{processes}")
}

/// What mount options promise of the server's memory.
pub(super) fn memory_limit(options: &str) -> Option<u64> {
    let last = options.split(',').filter_map(|option| option.strip_prefix("memory=")).next_back();
    let others = options.split(',').any(|option| option.starts_with("cache=") || option.starts_with("node_cache="));
    (last == Some("low") && !others).then_some(LOW)
}

impl Findings for HostileFindings {
    /// Tables in Markdown.
    fn text(&self) -> String {
        let kind = format!("{:?}", self.kind).to_lowercase();
        let mut out = format!("{} MiB, {kind}, -o {}; {} s for each row\n\n", self.size, self.options, self.seconds);
        out += "All operations of the victim\n\n";
        out += &markdown([""], &COLUMNS, self.rows.iter().map(|row| ([row.name.clone()], self.figures(row))));
        let mut table = |title: &str, figure: &dyn Fn(&VictimRow, &str) -> Option<f64>| {
            let figures = |row| OPERATIONS.iter().map(|operation| figure(row, operation)).collect();
            let rows = self.rows.iter().map(|row| ([row.name.clone()], figures(row)));
            let _ = write!(out, "\n{title}\n\n{}", markdown([""], &OPERATIONS, rows));
        };
        table("Medians, us", &|row, operation| row.median(operation));
        table("Medians over those beside as many spinning processes", &|row, operation| {
            row.slowdown(operation, self.peer(row)?)
        });
        table("Medians over those beside as many honest users", &|row, operation| {
            row.slowdown(operation, self.beside(row, working)?)
        });
        table("99.9 %, ms", &|row, operation| Some(row.waits(operation)?.p999_us / 1e3));
        for row in &self.rows {
            for (error, count) in &row.victim.errors {
                let _ = writeln!(out, "{}: {count} times {error}", row.name);
            }
        }
        out
    }
}

impl HostileFindings {
    /// The row of this name that an attacker's row is compared with.
    fn beside(&self, row: &VictimRow, name: fn(u64) -> String) -> Option<&VictimRow> {
        let is_attacked = ![spinning, working].iter().any(|peer| row.name == peer(row.processes));
        self.rows.iter().find(|other| is_attacked && other.name == name(row.processes))
    }

    /// The fair peer of an attacker's row.
    fn peer(&self, row: &VictimRow) -> Option<&VictimRow> {
        self.beside(row, spinning)
    }

    fn figures(&self, row: &VictimRow) -> Vec<Option<f64>> {
        let alone = self.rows.first().filter(|alone| alone.processes == 0 && alone.name != row.name);
        let all = row.waits(ALL);
        let refused = all.map(|waits| 100.0 * waits.refused as f64 / (waits.done + waits.refused) as f64);
        let attacks = (row.attacks != Tally::default() && self.peer(row).is_some())
            .then(|| row.attacks.done as f64 / row.victim.seconds);
        vec![
            all.map(|waits| waits.done as f64 / row.victim.seconds),
            row.median(ALL),
            alone.and_then(|alone| row.slowdown(ALL, alone)),
            self.peer(row).and_then(|peer| row.slowdown(ALL, peer)),
            self.beside(row, working).and_then(|peer| row.slowdown(ALL, peer)),
            all.map(|waits| waits.p999_us / 1e3),
            all.map(|waits| waits.worst_us / 1e3),
            refused,
            attacks,
            row.memory.map(|bytes| bytes as f64 / f64::from(1 << 20)),
        ]
    }

    /// A line for each bound of each attacker, and how many are broken.
    pub(super) fn judge(&self) -> (String, usize) {
        let (mut out, mut broken) = ("\n".to_owned(), 0);
        let mut say = |row: &VictimRow, what: String, holds: bool| {
            broken += usize::from(!holds);
            let _ = writeln!(out, "{:<10} {what}: {}", row.name, if holds { "holds" } else { "BROKEN" });
        };
        for row in &self.rows {
            let Some(peer) = self.beside(row, working) else { continue };
            let slowdowns = OPERATIONS.iter().filter_map(|of| Some((row.slowdown(of, peer)?, *of)));
            if let Some((times, of)) = slowdowns.max_by(|one, other| one.0.total_cmp(&other.0)) {
                let what = format!("median of {of} {} times that of {}, bound {SLOWDOWN}", short(times), peer.name);
                say(row, what, times <= SLOWDOWN);
            }
            let counted = |of: &str| row.waits(of).filter(|w| of == ALL || w.done + w.refused >= ENOUGH);
            let longest = OPERATIONS.iter().filter_map(|of| Some((counted(of)?.p999_us, *of)));
            if let Some((us, of)) = longest.max_by(|one, other| one.0.total_cmp(&other.0)) {
                let what = format!("99.9 % of {of} within {} ms, bound {}", short(us / 1e3), short(LONG_US / 1e3));
                say(row, what, us <= LONG_US);
            }
            if let (Some(limit), Some(memory)) = (self.memory_limit, row.memory) {
                let most = limit + limit / 10;
                let mib = |bytes: u64| short(bytes as f64 / f64::from(1 << 20));
                let what = format!("server at most {} MiB, bound {}", mib(memory), mib(most));
                say(row, what, memory <= most);
            }
        }
        (out, broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    fn row(name: &str, processes: u64, medians: [f64; 2], p999_us: f64, memory: u64) -> VictimRow {
        let waits = |p50_us| Waits { done: 5_000, refused: 0, p50_us, p999_us, worst_us: 2.0 * p999_us };
        let waits = BTreeMap::from([("fsync".to_owned(), waits(medians[0])), (ALL.to_owned(), waits(medians[1]))]);
        let victim = Suffered { seconds: 10.0, waits, errors: BTreeMap::new() };
        let attacks = Tally { done: 7, refused: 1 };
        VictimRow { name: name.to_owned(), processes, victim, attacks, memory_before: Some(0), memory: Some(memory) }
    }

    fn report(attacked: VictimRow) -> HostileFindings {
        let alone = row("alone", 0, [10.0, 5.0], 100.0, 50 * MIB);
        // No bound is about the peer.
        let peer = row("users-4", 4, [100.0, 50.0], 900_000.0, 300 * MIB);
        HostileFindings {
            options: "memory=low".to_owned(),
            kind: VolumeKind::F2fs,
            seconds: 10.0,
            size: 64,
            memory_limit: memory_limit("allow_other,memory=low"),
            rows: vec![alone, peer, attacked],
        }
    }

    #[test]
    fn a_bound_holds_to_its_end_and_no_further() {
        let most = 128 * MIB + 128 * MIB / 10;
        for (medians, p999_us, memory, broken) in [
            ([200.0, 100.0], 100_000.0, most, ""),
            ([201.0, 50.0], 1.0, 0, "median of fsync 2.01 times that of users-4, bound 2: BROKEN"),
            ([1.0, 101.0], 1.0, 0, "median of all 2.02 times"),
            ([1.0, 1.0], 100_200.0, 0, "within 100 ms, bound 100: BROKEN"),
            ([1.0, 1.0], 1.0, most + 1, "server at most 141 MiB, bound 141: BROKEN"),
        ] {
            let (text, count) = report(row("deep", 4, medians, p999_us, memory)).judge();
            assert_eq!((count, text.lines().count()), (usize::from(!broken.is_empty()), 4), "{text}");
            assert!(text.contains(broken), "{text}");
        }
    }

    #[test]
    fn few_operations_say_nothing_of_a_thousandth_but_as_a_part_of_all() {
        let mut attacked = row("deep", 4, [1.0, 1.0], 1.0, 0);
        let few = Waits { done: 998, refused: 1, p50_us: 1.0, p999_us: 1e9, worst_us: 1e9 };
        attacked.victim.waits.insert("fsync".to_owned(), few.clone());
        assert_eq!(report(attacked).judge().1, 0);
        let mut attacked = row("deep", 4, [1.0, 1.0], 1.0, 0);
        attacked.victim.waits.insert("fsync".to_owned(), Waits { refused: 2, ..few });
        assert_eq!(report(attacked).judge().1, 1);
    }

    #[test]
    fn what_was_refused_has_no_median_and_is_told() {
        let mut attacked = row("fill", 4, [1.0, 1.0], 1.0, 0);
        attacked.victim.waits.insert("create".to_owned(), Waits { refused: 5_000, ..Waits::default() });
        attacked.victim.errors.insert("create: no room".to_owned(), 5_000);
        let report = report(attacked);
        assert_eq!(report.judge().1, 0);
        let text = report.text();
        assert!(text.contains("fill: 5000 times create: no room") && text.contains("| users-4 "), "{text}");
    }

    #[test]
    fn memory_is_bounded_where_the_mount_promises_it() {
        assert_eq!(memory_limit("allow_other,memory=low,journal=percore"), Some(LOW));
        assert_eq!(memory_limit("memory=low,memory=normal"), None);
        assert_eq!(memory_limit("memory=low,cache=1G"), None);
    }
}
