//! The goals, and which rows of a report reach it.
//!
//! Our mount, with a real format on a device, is to be within a factor of two of a FUSE file system in memory, measured
//! in the same run. The library's sequential writing is to be as close to a raw write of the same device. The kernel
//! treats a mount differently with and without its write-back cache. So each of our two ways to mount is judged by the
//! peer in the same way, and the default one by the other as well.

use crate::bed::Target;
use crate::report::{Report, short};
use crate::workload::MEASUREMENTS;
use std::fmt::Write;

/// The least ratio of ours to theirs.
const GOAL: f64 = 0.5;

/// Which targets are compared, and in which measurements; `None` means all.
const GOALS: [(Target, Target, Option<&[&str]>); 4] = [
    (Target::Fuse, Target::Memfuse, None),
    (Target::Fuse, Target::MemfuseWb, None),
    (Target::FuseThrough, Target::Memfuse, None),
    (Target::Library, Target::Raw, Some(&["write 1M + fsync", "write 1M direct"])),
];

/// Whether any goal can be judged when these are measured.
pub(crate) fn can_be_judged(targets: &[Target]) -> bool {
    GOALS.iter().any(|(ours, theirs, _)| targets.contains(ours) && targets.contains(theirs))
}

/// The pairs of targets, for people.
pub(crate) fn pairs() -> String {
    GOALS.map(|(ours, theirs, _)| format!("{} and {}", ours.name(), theirs.name())).join(", or ")
}

/// A line for every row and goal, and how many are not met.
pub(crate) fn judge(report: &Report) -> (String, usize) {
    let (mut out, mut met, mut missed) = (String::new(), 0, 0);
    for (ours, theirs, rows) in GOALS {
        let rows = MEASUREMENTS.iter().filter(|(what, ..)| rows.is_none_or(|rows| rows.contains(what)));
        for (what, unit, _) in rows {
            let Some(ratio) = report.ratio(what, *unit, ours, theirs) else { continue };
            let verdict = if ratio >= GOAL { "met" } else { "not met" };
            *(if ratio >= GOAL { &mut met } else { &mut missed }) += 1;
            let pair = format!("{} / {}", ours.name(), theirs.name());
            let _ = writeln!(out, "{what:<21} {pair:<22} {:>6}  goal {GOAL}: {verdict}", short(ratio));
        }
    }
    (format!("\nGoals: {met} met, {missed} not met\n\n{out}"), missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;
    use crate::report::Repetition;
    use std::collections::BTreeMap;

    fn report(fuse: f64) -> Report {
        let sample = |seconds| Sample { operations: 1000, bytes: 1 << 20, seconds, cpu_seconds: 0.5 };
        let samples = BTreeMap::from([(Target::Fuse, sample(fuse)), (Target::Memfuse, sample(1.0))]);
        Report::of(vec![Repetition::from([("create", samples)])])
    }

    #[test]
    fn half_as_fast_is_enough_and_less_is_not() {
        for (seconds, missed, verdict) in [(2.0, 0, "goal 0.5: met"), (2.01, 1, "goal 0.5: not met"), (0.5, 0, "2.00")]
        {
            let (text, count) = judge(&report(seconds));
            assert_eq!(count, missed, "{text}");
            assert!(text.contains(verdict) && text.contains("create"), "{text}");
        }
    }

    #[test]
    fn goals_need_both_sides() {
        assert!(can_be_judged(&[Target::Library, Target::Raw]));
        assert!(!can_be_judged(&[Target::Fuse, Target::Ext4, Target::Raw]));
    }
}
