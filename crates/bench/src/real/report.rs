//! The rates of programs for people, and the goals.

use super::programs::PROGRAMS;
use crate::bed::Target;
use crate::comparison::Findings;
use crate::report::{Bound, Samples, Verdicts, by_name, name_of_pair};
use serde::Serialize;
use std::collections::BTreeSet;
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
pub(super) struct RealFindings {
    /// Files of the tree.
    pub(super) files: u64,
    /// Packages that are not installed.
    pub(super) missing: BTreeSet<&'static str>,
    /// Rates a second, by program and file system.
    #[serde(serialize_with = "by_name")]
    pub(super) repetitions: Samples<&'static str, Target, f64>,
}

impl Findings for RealFindings {
    /// Two tables in Markdown.
    fn text(&self) -> String {
        let mut out = format!("{} repetitions; a tree of {} files\n", self.repetitions.repetitions(), self.files);
        if !self.missing.is_empty() {
            let packages = self.missing.iter().copied().collect::<Vec<_>>().join(" ");
            let _ = writeln!(out, "left out, for they are not installed: apt install {packages}");
        }
        let rows = PROGRAMS.map(|program| (program.name, format!("{}: {}", program.name, program.unit)));
        out += "\nRates a second; medians\n\n";
        out += &self.repetitions.medians(&rows, |_, rate| Some(*rate));
        let rows = rows.map(|(name, _)| (name, name.to_owned()));
        out + &self.repetitions.ratios(&rows, &RATIOS, |_, rate| *rate)
    }
}

impl RealFindings {
    pub(super) fn judge(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for program in &PROGRAMS {
            for (to, goal) in [(Target::Ext4, program.goal), (Target::MemfuseAcl, Some(OF_THE_LIMIT))] {
                let pair = (Target::FuseLoop, to);
                let Some(goal) = goal else { continue };
                let ratio = self.repetitions.ratio(&program.name, pair, |rate| Some(*rate));
                let what = format!("{:<17} {:<23}", program.name, name_of_pair(pair));
                verdicts.goal(&what, ratio, Bound::AtLeast(goal));
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_program_is_judged_beside_ext4_and_beside_the_limit() {
        let rates =
            |ours| BTreeMap::from([(Target::Ext4, 100.0), (Target::MemfuseAcl, 80.0), (Target::FuseLoop, ours)]);
        let findings = |ours| RealFindings {
            files: 1,
            missing: BTreeSet::from(["rsync"]),
            repetitions: Samples(vec![vec![("untar", rates(ours)), ("rm-rf", rates(56.0))]]),
        };
        for (ours, met, missed) in [(56.0, 3, 0), (49.0, 1, 2)] {
            let verdicts = findings(ours).judge();
            let text = verdicts.to_string();
            assert_eq!((text.matches(": met").count(), verdicts.missed()), (met, missed), "{text}");
        }
        let text = findings(56.0).text();
        assert!(text.contains("apt install rsync") && text.contains("| untar: entries"), "{text}");
        assert!(text.contains("0.56") && !text.contains("git-clone"), "{text}");
    }
}
