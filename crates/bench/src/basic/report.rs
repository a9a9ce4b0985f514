//! The basic comparison for people, and its goals.
//!
//! Our mount, with a real format on a device, is to be within a factor of two of a FUSE file system in memory, measured
//! in the same run. The library's sequential writing is to be as close to a raw write of the same device. The kernel
//! treats a mount differently with and without its write-back cache. So each of our two ways to mount is judged by the
//! peer in the same way, and the default one by the other as well.

use crate::bed::Target;
use crate::comparison::Findings;
use crate::measure::Sample;
use crate::report::{Bound, Samples, Verdicts, by_name, name_of_pair};
use crate::workload::{Amounts, MEASUREMENTS, Unit};
use serde::Serialize;

/// Everything about one run.
#[derive(Serialize)]
pub(super) struct BasicFindings {
    pub(super) amounts: Amounts,
    /// Mount options of our own file system.
    pub(super) options: String,
    pub(super) image_bytes: u64,
    /// By measurement and target.
    #[serde(serialize_with = "by_name")]
    pub(super) repetitions: Samples<&'static str, Target, Sample>,
}

/// Which ratios are shown: a target in units of another.
const RATIOS: [(Target, Target); 14] = [
    (Target::Fuse, Target::Memfuse),
    (Target::Fuse, Target::MemfuseWb),
    (Target::Fuse, Target::MemfusePerm),
    (Target::Fuse, Target::MemfuseAcl),
    (Target::FuseThrough, Target::Memfuse),
    (Target::Memfuse, Target::Ext4),
    (Target::Fuse, Target::Ext4),
    (Target::Fuse, Target::Xfs),
    (Target::FuseLoop, Target::Ext4),
    (Target::FuseLoop, Target::Xfs),
    (Target::Fuse, Target::FuseNosandbox),
    (Target::Fuse, Target::Library),
    (Target::Library, Target::Raw),
    (Target::LibraryLoop, Target::RawLoop),
];

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
pub(super) fn can_be_judged(targets: &[Target]) -> bool {
    GOALS.iter().any(|(ours, theirs, _)| targets.contains(ours) && targets.contains(theirs))
}

/// The pairs of targets, for people.
pub(super) fn pairs() -> String {
    GOALS.map(|(ours, theirs, _)| format!("{} and {}", ours.name(), theirs.name())).join(", or ")
}

/// Thousand operations, or million bytes, a second.
fn rate(measurement: &str, sample: &Sample) -> f64 {
    let unit = MEASUREMENTS.iter().find(|(what, ..)| *what == measurement).map(|(_, unit, _)| *unit);
    let amount = match unit {
        Some(Unit::Megabytes) => sample.bytes as f64 / 1e6,
        Some(Unit::Kops) | None => sample.operations as f64 / 1e3,
    };
    amount / sample.seconds
}

/// Microseconds of processor time per operation.
fn cpu_us(sample: &Sample) -> f64 {
    sample.cpu_seconds * 1e6 / sample.operations as f64
}

impl Findings for BasicFindings {
    /// Three tables in Markdown.
    fn text(&self) -> String {
        let Amounts { file_bytes, layout_bytes, names, .. } = self.amounts;
        let rows = MEASUREMENTS.map(|(what, ..)| (what, what.to_owned()));
        format!(
            "{} repetitions; file {} MiB, laid out by writes of {} KiB; {names} names; options of ours: {}\n\n\
             Rates: thousand operations a second (4K, names) or MB/s (1M); medians\n\n{}{}\n\
             Processor time, microseconds per operation, without threads of the kernel; medians\n\n{}",
            self.repetitions.repetitions(),
            file_bytes >> 20,
            layout_bytes >> 10,
            self.options,
            self.repetitions.medians(&rows, |what, sample| Some(rate(what, sample))),
            self.repetitions.ratios(&rows, &RATIOS, |what, sample| rate(what, sample)),
            self.repetitions.medians(&rows, |_, sample| Some(cpu_us(sample))),
        )
    }
}

impl BasicFindings {
    pub(super) fn judge(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for (ours, theirs, rows) in GOALS {
            for (what, ..) in MEASUREMENTS.iter().filter(|(what, ..)| rows.is_none_or(|rows| rows.contains(what))) {
                let ratio = self.repetitions.ratio(what, (ours, theirs), |sample| Some(rate(what, sample)));
                let pair = name_of_pair((ours, theirs));
                verdicts.goal(&format!("{what:<21} {pair:<22}"), ratio, Bound::AtLeast(GOAL));
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The mount takes this long, the peer a second.
    fn findings(fuse: f64) -> BasicFindings {
        let sample = |seconds| Sample { operations: 1000, bytes: 1 << 20, seconds, cpu_seconds: 0.5 };
        let samples = BTreeMap::from([(Target::Fuse, sample(fuse)), (Target::Memfuse, sample(1.0))]);
        let amounts = Amounts { file_bytes: 1 << 20, layout_bytes: 1 << 20, operations: 1, names: 1, sources: 1 };
        let repetitions = Samples(vec![vec![("create", samples)]]);
        BasicFindings { amounts, options: String::new(), image_bytes: 0, repetitions }
    }

    #[test]
    fn half_as_fast_is_enough_and_less_is_not() {
        for (seconds, missed, verdict) in
            [(2.0, 0, "goal at least 0.5: met"), (2.01, 1, "goal at least 0.5: not met"), (0.5, 0, "2.00")]
        {
            let verdicts = findings(seconds).judge();
            let text = verdicts.to_string();
            assert_eq!(verdicts.missed(), missed, "{text}");
            assert!(text.contains(verdict) && text.contains("create"), "{text}");
        }
    }

    #[test]
    fn tables_show_rates_ratios_and_processor_time_of_what_was_measured() {
        let text = findings(0.5).text();
        assert!(text.contains("fuse / memfuse") && text.contains(" 2.00 |") && text.contains(" 500 |"), "{text}");
        assert!(!text.contains("untar"), "{text}");
    }

    #[test]
    fn goals_need_both_sides() {
        assert!(can_be_judged(&[Target::Library, Target::Raw]));
        assert!(!can_be_judged(&[Target::Fuse, Target::Ext4, Target::Raw]));
    }
}
