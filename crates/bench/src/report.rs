//! From samples to figures: repetitions by turns, medians, ratios, tables, and verdicts.
//!
//! A ratio is taken within each repetition, between measurements made shortly after one another, and the median of
//! those is reported: what else the machine does then disturbs both sides alike.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter, Write};

/// The samples of one repetition, by row and system; the rows are in the order in which they were measured.
pub(crate) type Repetition<R, W, S> = Vec<(R, BTreeMap<W, S>)>;

/// The samples of a comparison: those of each repetition.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Samples<R, W: Ord, S>(pub(crate) Vec<Repetition<R, W, S>>);

/// Writes samples as maps by the names of rows.
pub(crate) fn by_name<R, W, S, Z>(samples: &Samples<R, W, S>, to: Z) -> Result<Z::Ok, Z::Error>
where
    R: Serialize + Ord,
    W: Serialize + Ord,
    S: Serialize,
    Z: Serializer,
{
    to.collect_seq(samples.0.iter().map(|rows| rows.iter().map(|(row, all)| (row, all)).collect::<BTreeMap<_, _>>()))
}

impl<R: PartialEq, W: ValueEnum + Copy + Ord, S> Samples<R, W, S> {
    /// Measures by turns: in each repetition each task on all of its systems, one directly after the other. A
    /// measurement gives samples of some rows.
    pub(crate) fn by_turns<T>(
        reps: u64,
        tasks: &[T],
        systems: impl Fn(&T) -> Vec<W>,
        name: impl Fn(&T) -> String,
        mut measure: impl FnMut(u64, &T, W) -> Result<Vec<(R, S)>>,
    ) -> Result<Self> {
        let mut repetitions = Vec::new();
        for number in 1..=reps {
            let mut repetition = Repetition::new();
            for task in tasks {
                for system in systems(task) {
                    let what = format!("{} on {}", name(task), name_of(system));
                    eprintln!("repetition {number}: {what}");
                    for (row, sample) in measure(number, task, system).context(what)? {
                        let at = repetition.iter().position(|(known, _)| *known == row).unwrap_or_else(|| {
                            repetition.push((row, BTreeMap::new()));
                            repetition.len() - 1
                        });
                        repetition[at].1.insert(system, sample);
                    }
                }
            }
            repetitions.push(repetition);
        }
        Ok(Samples(repetitions))
    }

    /// How often everything was measured.
    pub(crate) fn repetitions(&self) -> usize {
        self.0.len()
    }

    fn each<'a>(&'a self, row: &'a R) -> impl Iterator<Item = &'a BTreeMap<W, S>> {
        self.0.iter().filter_map(move |rows| rows.iter().find(|(known, _)| known == row)).map(|(_, all)| all)
    }

    /// The median of a figure.
    pub(crate) fn middle(&self, row: &R, of: W, figure: impl Fn(&S) -> Option<f64>) -> Option<f64> {
        median(self.each(row).filter_map(|all| figure(all.get(&of)?)).collect())
    }

    /// How many times a figure of one system is that of another: the median of the repetitions' ratios.
    pub(crate) fn ratio(&self, row: &R, (of, to): (W, W), figure: impl Fn(&S) -> Option<f64>) -> Option<f64> {
        median(self.each(row).filter_map(|all| Some(figure(all.get(&of)?)? / figure(all.get(&to)?)?)).collect())
    }

    /// Systems with any sample, in the order in which they are declared.
    pub(crate) fn systems(&self) -> Vec<W> {
        let systems: BTreeSet<W> = self.0.iter().flatten().flat_map(|(_, all)| all.keys().copied()).collect();
        systems.into_iter().collect()
    }

    /// A table of medians: a line for each of the named rows, a column for each system.
    pub(crate) fn medians(&self, rows: &[(R, String)], figure: impl Fn(&R, &S) -> Option<f64>) -> String {
        let systems = self.systems();
        let line = |row: &R| systems.iter().map(|system| self.middle(row, *system, |s| figure(row, s))).collect();
        let names: Vec<String> = systems.iter().map(|system| name_of(*system)).collect();
        markdown([""], &names, rows.iter().map(|(row, name)| ([name.clone()], line(row))))
    }

    /// A table of ratios of rates, under its title: a column for each of the pairs that were measured.
    pub(crate) fn ratios(&self, rows: &[(R, String)], pairs: &[(W, W)], rate: impl Fn(&R, &S) -> f64) -> String {
        let pairs = self.measured(pairs);
        let line = |row: &R| pairs.iter().map(|pair| self.ratio(row, *pair, |s| Some(rate(row, s)))).collect();
        let names: Vec<String> = pairs.iter().map(|pair| name_of_pair(*pair)).collect();
        RATIOS.to_owned() + &markdown([""], &names, rows.iter().map(|(row, name)| ([name.clone()], line(row))))
    }

    /// The pairs of which both sides were measured.
    pub(crate) fn measured(&self, pairs: &[(W, W)]) -> Vec<(W, W)> {
        let systems = self.systems();
        pairs.iter().copied().filter(|(of, to)| systems.contains(of) && systems.contains(to)).collect()
    }
}

/// The title of a table of ratios.
pub(crate) const RATIOS: &str = "\nRatios of rates: median of the repetitions' ratios; above 1 the first is faster\n\n";

/// The name that options and reports use.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The name of a ratio.
pub(crate) fn name_of_pair((of, to): (impl ValueEnum, impl ValueEnum)) -> String {
    format!("{} / {}", name_of(of), name_of(to))
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

/// A Markdown table with a line for each row that has any figure. Each row has a name in each of the first columns.
pub(crate) fn markdown<const N: usize>(
    heads: [&str; N],
    columns: &[impl AsRef<str>],
    rows: impl Iterator<Item = ([String; N], Vec<Option<f64>>)>,
) -> String {
    let rows: Vec<_> = rows.filter(|(_, figures)| figures.iter().any(Option::is_some)).collect();
    let longest = |at: usize| rows.iter().map(|(names, _)| names[at].len()).chain([heads[at].len()]).max();
    let firsts: [usize; N] = std::array::from_fn(|at| longest(at).unwrap_or_default());
    let widths: Vec<usize> = columns.iter().map(|column| column.as_ref().len().max(7)).collect();
    let mut out = String::new();
    let mut line = |names: [&str; N], cells: &mut dyn Iterator<Item = String>| {
        out += "|";
        names.iter().zip(firsts).for_each(|(name, first)| _ = write!(out, " {name:<first$} |"));
        cells.zip(&widths).for_each(|(cell, width)| _ = write!(out, " {cell:>width$} |"));
        out += "\n";
    };
    line(heads, &mut columns.iter().map(|column| column.as_ref().to_owned()));
    for (names, figures) in &rows {
        let names = std::array::from_fn(|at| names[at].as_str());
        line(names, &mut figures.iter().map(|figure| figure.map_or_else(String::new, short)));
    }
    let mut rule = "|".to_owned();
    firsts.iter().for_each(|first| _ = write!(rule, ":{:-<1$}|", "", first + 1));
    widths.iter().for_each(|width| _ = write!(rule, "{:->1$}:|", "", width + 1));
    let (head, body) = out.split_once('\n').unwrap_or_default();
    format!("{head}\n{rule}\n{body}")
}

/// A bound of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Which goals are met.
#[derive(Default)]
pub(crate) struct Verdicts {
    lines: String,
    met: usize,
    missed: usize,
}

impl Verdicts {
    /// Holds the figure of `what` against its bound, if there is one.
    pub(crate) fn goal(&mut self, what: &str, figure: Option<f64>, bound: Bound) {
        let Some(figure) = figure else { return };
        let (holds, bound) = match bound {
            Bound::AtLeast(least) => (figure >= least, format!("at least {least}")),
            Bound::AtMost(most) => (figure <= most, format!("at most {most}")),
        };
        *(if holds { &mut self.met } else { &mut self.missed }) += 1;
        let verdict = if holds { "met" } else { "not met" };
        let _ = writeln!(self.lines, "{what} {:>6}  goal {bound}: {verdict}", short(figure));
    }

    /// How many are not met.
    pub(crate) fn missed(&self) -> usize {
        self.missed
    }
}

/// A line for each goal.
impl Display for Verdicts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\nGoals: {} met, {} not met\n\n{}", self.met, self.missed, self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::Target::{Ext4, Fuse};

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn ratios_are_taken_within_repetitions() {
        let repetition = |fuse, ext4| vec![("create", BTreeMap::from([(Fuse, fuse), (Ext4, ext4)]))];
        // The mount is twice as fast each time, however slow the machine was.
        let samples = Samples(vec![repetition(2.0, 1.0), repetition(20.0, 10.0), repetition(0.2, 0.1)]);
        let ratio = samples.ratio(&"create", (Fuse, Ext4), |rate| Some(*rate));
        assert!(ratio.is_some_and(|r| (r - 2.0).abs() < 1e-9), "{ratio:?}");
    }

    #[test]
    fn each_system_has_its_turn_in_each_repetition() {
        let mut turns = Vec::new();
        let measured = Samples::by_turns(
            2,
            &["names"],
            |_| vec![Ext4, Fuse],
            ToString::to_string,
            |number, _, system| {
                turns.push((number, system));
                Ok(vec![("create", number as f64), ("unlink", 1.0)])
            },
        );
        assert_eq!(turns, [(1, Ext4), (1, Fuse), (2, Ext4), (2, Fuse)]);
        let samples = measured.unwrap();
        assert_eq!(samples.middle(&"create", Fuse, |rate| Some(*rate)), Some(1.5));
        assert_eq!((samples.repetitions(), samples.systems()), (2, vec![Ext4, Fuse]));
    }

    #[test]
    fn a_table_has_a_line_for_each_row_with_figures() {
        let rows = [("one", Some(2.0)), ("other", None)].map(|(name, figure)| ([name.to_owned()], vec![figure]));
        let text = markdown(["name"], &["rate"], rows.into_iter());
        assert_eq!(text, "| name |    rate |\n|:-----|--------:|\n| one  |    2.00 |\n");
    }
}
