//! From rates to a report: medians, ratios within repetitions, and the goals.

use super::programs::PROGRAMS;
use crate::bed::Target;
use crate::machine::Machine;
use crate::report::{markdown, median, short};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Which ratios are shown.
const RATIOS: [(Target, Target); 6] = [
    (Target::FuseLoop, Target::Ext4),
    (Target::FuseLoop, Target::Xfs),
    (Target::FuseLoop, Target::MemfuseAcl),
    (Target::MemfuseAcl, Target::Ext4),
    (Target::Fuse, Target::Ext4),
    (Target::Fuse, Target::MemfuseAcl),
];

/// The least ratio of ours to the peer, which has the same way through the kernel.
const OF_THE_LIMIT: f64 = 0.7;

/// Everything about one run.
#[derive(Serialize)]
pub(super) struct RealReport {
    pub(super) machine: Machine,
    /// Files of the tree.
    pub(super) files: u64,
    /// Packages that are not installed.
    pub(super) missing: BTreeSet<&'static str>,
    /// Rates a second, by program and file system, of each repetition.
    pub(super) repetitions: Vec<BTreeMap<&'static str, BTreeMap<Target, f64>>>,
}

impl RealReport {
    fn ratio(&self, program: &str, of: Target, to: Target) -> Option<f64> {
        let within = |all: &BTreeMap<&str, BTreeMap<Target, f64>>| {
            let rates = all.get(program)?;
            Some(rates.get(&of)? / rates.get(&to)?)
        };
        median(self.repetitions.iter().filter_map(within).collect())
    }

    fn rate(&self, program: &str, target: Target) -> Option<f64> {
        median(self.repetitions.iter().filter_map(|all| all.get(program)?.get(&target).copied()).collect())
    }

    /// The report for people: two tables in Markdown.
    pub(super) fn text(&self) -> String {
        let targets: BTreeSet<Target> =
            self.repetitions.iter().flat_map(|all| all.values()).flat_map(|rates| rates.keys().copied()).collect();
        let mut out = format!("{}\n", self.machine.line());
        let _ = writeln!(out, "{} repetitions; a tree of {} files", self.repetitions.len(), self.files);
        if !self.missing.is_empty() {
            let packages = self.missing.iter().copied().collect::<Vec<_>>().join(" ");
            let _ = writeln!(out, "left out, for they are not installed: apt install {packages}");
        }
        let names: Vec<String> = targets.iter().map(|target| target.name()).collect();
        out += "\nRates a second; medians\n\n";
        out += &markdown(
            &names,
            PROGRAMS.iter().map(|program| {
                let name = format!("{}: {}", program.name, program.unit);
                (name, targets.iter().map(|target| self.rate(program.name, *target)).collect())
            }),
        );
        let shown: Vec<_> = RATIOS.iter().filter(|(of, to)| targets.contains(of) && targets.contains(to)).collect();
        let names: Vec<String> = shown.iter().map(|(of, to)| format!("{} / {}", of.name(), to.name())).collect();
        out += "\nRatios of rates: median of the repetitions' ratios; above 1 the first is faster\n\n";
        out += &markdown(
            &names,
            PROGRAMS.iter().map(|program| {
                let ratios = shown.iter().map(|(of, to)| self.ratio(program.name, *of, *to)).collect();
                (program.name.to_owned(), ratios)
            }),
        );
        out
    }

    /// A line for each goal, and how many are not met.
    pub(super) fn judge(&self) -> (String, usize) {
        let (mut out, mut missed) = ("\n".to_owned(), 0);
        for program in &PROGRAMS {
            let goals = [(Target::Ext4, program.goal), (Target::MemfuseAcl, Some(OF_THE_LIMIT))];
            for (to, goal) in goals {
                let (Some(goal), Some(ratio)) = (goal, self.ratio(program.name, Target::FuseLoop, to)) else {
                    continue;
                };
                let verdict = if ratio >= goal { "met" } else { "not met" };
                missed += usize::from(ratio < goal);
                let pair = format!("{} / {}", Target::FuseLoop.name(), to.name());
                let _ = writeln!(out, "{:<17} {pair:<23} {:>6}  goal {goal}: {verdict}", program.name, short(ratio));
            }
        }
        (out, missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_judged_beside_ext4_and_beside_the_limit() {
        let rates =
            |ours| BTreeMap::from([(Target::Ext4, 100.0), (Target::MemfuseAcl, 80.0), (Target::FuseLoop, ours)]);
        let report = |ours| RealReport {
            machine: Machine::default(),
            files: 1,
            missing: BTreeSet::from(["rsync"]),
            repetitions: vec![BTreeMap::from([("untar", rates(ours)), ("rm-rf", rates(56.0))])],
        };
        let (text, missed) = report(56.0).judge();
        assert_eq!((missed, text.matches(": met").count()), (0, 3), "{text}");
        let (text, missed) = report(49.0).judge();
        assert_eq!((missed, text.matches(": met").count()), (2, 1), "{text}");
        let text = report(56.0).text();
        assert!(text.contains("apt install rsync") && text.contains("| untar: entries"), "{text}");
        assert!(text.contains("0.56") && !text.contains("git-clone"), "{text}");
    }
}
