//! From samples to figures: medians, ratios, the table and the JSON.
//!
//! A ratio is taken within each repetition, between measurements made shortly after one another, and the median of
//! those is reported: what else the machine does then disturbs both sides alike.

use crate::bed::Target;
use crate::machine::Machine;
use crate::measure::Sample;
use crate::workload::{Amounts, MEASUREMENTS, Unit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything about one run of the program.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) amounts: Amounts,
    /// Mount options of our own file system.
    pub(crate) options: String,
    pub(crate) image_bytes: u64,
    pub(crate) repetitions: Vec<Repetition>,
}

/// The samples of one repetition, by measurement and target.
pub(crate) type Repetition = BTreeMap<&'static str, BTreeMap<Target, Sample>>;

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

impl Sample {
    /// Thousand operations, or million bytes, a second.
    fn rate(&self, unit: Unit) -> f64 {
        let amount = match unit {
            Unit::Kops => self.operations as f64 / 1e3,
            Unit::Megabytes => self.bytes as f64 / 1e6,
        };
        amount / self.seconds
    }

    /// Microseconds of processor time per operation.
    fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.operations as f64
    }
}

/// The middle of some numbers; the mean of the middle two if their count is even.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    let lower = *numbers.get((numbers.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Three significant digits.
pub(crate) fn short(number: f64) -> String {
    let digits = match number.abs() {
        n if n < 10.0 => 2,
        n if n < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}

impl Report {
    fn each<'a>(&'a self, what: &'a str, target: Target) -> impl Iterator<Item = &'a Sample> {
        self.repetitions.iter().filter_map(move |r| r.get(what)?.get(&target))
    }

    /// How many times as fast `of` is as `to`: the median of the repetitions' ratios.
    pub(crate) fn ratio(&self, what: &str, unit: Unit, of: Target, to: Target) -> Option<f64> {
        let ratios = self.repetitions.iter().filter_map(|r| {
            let samples = r.get(what)?;
            Some(samples.get(&of)?.rate(unit) / samples.get(&to)?.rate(unit))
        });
        median(ratios.collect())
    }

    /// Targets with any sample, in the order in which they are declared.
    fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> =
            self.repetitions.iter().flat_map(|r| r.values()).flat_map(|t| t.keys().copied()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// The whole report as text: three tables in Markdown.
    pub(crate) fn text(&self) -> String {
        let targets = self.targets();
        let mut out = format!("{}\n", self.machine.line());
        let _ = writeln!(
            out,
            "{} repetitions; file {} MiB, laid out by writes of {} KiB; {} names; options of ours: {}\n",
            self.repetitions.len(),
            self.amounts.file_bytes >> 20,
            self.amounts.layout_bytes >> 10,
            self.amounts.names,
            self.options
        );
        let names: Vec<String> = targets.iter().map(|t| t.name()).collect();
        out += "Rates: thousand operations a second (4K, names) or MB/s (1M); medians\n\n";
        out += &table(&names, |what, unit| {
            targets.iter().map(|t| median(self.each(what, *t).map(|s| s.rate(unit)).collect())).collect()
        });
        let ratios: Vec<_> = RATIOS.iter().filter(|(of, to)| targets.contains(of) && targets.contains(to)).collect();
        let names: Vec<String> = ratios.iter().map(|(of, to)| format!("{} / {}", of.name(), to.name())).collect();
        out += "\nRatios of rates: median of the repetitions' ratios; above 1 the first is faster\n\n";
        out += &table(&names, |what, unit| ratios.iter().map(|(of, to)| self.ratio(what, unit, *of, *to)).collect());
        let names: Vec<String> = targets.iter().map(|t| t.name()).collect();
        out += "\nProcessor time, microseconds per operation, without threads of the kernel; medians\n\n";
        out += &table(&names, |what, _| {
            targets.iter().map(|t| median(self.each(what, *t).map(Sample::cpu_us).collect())).collect()
        });
        out
    }
}

/// A Markdown table with a line for each row that has any figure.
pub(crate) fn markdown(columns: &[String], rows: impl Iterator<Item = (String, Vec<Option<f64>>)>) -> String {
    let rows: Vec<_> = rows.filter(|(_, figures)| figures.iter().any(Option::is_some)).collect();
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let widths: Vec<usize> = columns.iter().map(|column| column.len().max(7)).collect();
    let mut out = format!("| {:<first$} |", "");
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(out, " {column:>width$} |");
    }
    let _ = write!(out, "\n|:{:-<1$}|", "", first + 1);
    for width in &widths {
        let _ = write!(out, "{:->1$}:|", "", width + 1);
    }
    out += "\n";
    for (name, figures) in rows {
        let _ = write!(out, "| {name:<first$} |");
        for (figure, width) in figures.into_iter().zip(&widths) {
            let _ = write!(out, " {:>width$} |", figure.map_or_else(String::new, short));
        }
        out += "\n";
    }
    out
}

/// A row for each measurement.
fn table(columns: &[String], row: impl Fn(&str, Unit) -> Vec<Option<f64>>) -> String {
    markdown(columns, MEASUREMENTS.iter().map(|(what, unit, _)| ((*what).to_owned(), row(what, *unit))))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Report {
        /// A report of nothing but samples.
        pub(crate) fn of(repetitions: Vec<Repetition>) -> Self {
            let amounts = Amounts { file_bytes: 1 << 20, layout_bytes: 1 << 20, operations: 1, names: 1, sources: 1 };
            Report { machine: Machine::default(), amounts, options: String::new(), image_bytes: 0, repetitions }
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn ratios_are_taken_within_repetitions() {
        let sample = |seconds| Sample { operations: 1000, bytes: 4_096_000, seconds, cpu_seconds: 0.5 };
        let repetition = |fuse, ext4| {
            let samples = BTreeMap::from([(Target::Fuse, sample(fuse)), (Target::Ext4, sample(ext4))]);
            Repetition::from([("write 4K cached", samples)])
        };
        // The mount is twice as fast each time, however slow the machine was.
        let report = Report::of(vec![repetition(1.0, 2.0), repetition(10.0, 20.0), repetition(0.1, 0.2)]);
        let ratio = report.ratio("write 4K cached", Unit::Kops, Target::Fuse, Target::Ext4);
        assert!(ratio.is_some_and(|r| (r - 2.0).abs() < 1e-9), "{ratio:?}");
        let text = report.text();
        assert!(text.contains("fuse / ext4") && text.contains(" 2.00 |") && text.contains(" 500 |"), "{text}");
        assert!(!text.contains("untar"), "{text}");
    }
}
