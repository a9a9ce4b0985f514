//! From outcomes to tables, ratios and verdicts.
//!
//! A ratio is taken within a repetition, and the median of the repetitions' ratios is reported, as everywhere in this
//! program.

use super::peers::Who;
use super::write::Outcome;
use crate::machine::Machine;
use crate::report::{median, short};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use steadyfs_lab::{Curve, picture};

/// The outcomes of one repetition on one medium: by way of writing, then by peer.
pub(crate) type GcRepetition = BTreeMap<String, BTreeMap<Who, Outcome>>;

/// What one medium gave.
#[derive(Serialize)]
pub(crate) struct Medium {
    /// `memory` or `disk`.
    pub(crate) name: String,
    /// Bytes of each peer's file.
    pub(crate) file_bytes: BTreeMap<Who, u64>,
    /// What ageing took, by peer.
    pub(crate) aged: BTreeMap<Who, Outcome>,
    pub(crate) repetitions: Vec<GcRepetition>,
}

/// Everything about one run.
#[derive(Serialize)]
pub(crate) struct GcReport {
    pub(crate) machine: Machine,
    pub(crate) command: String,
    pub(crate) volume_mib: u64,
    pub(crate) seconds: f64,
    pub(crate) age: f64,
    pub(crate) guest: String,
    pub(crate) media: Vec<Medium>,
    /// The ways of writing, in order.
    pub(crate) ways: Vec<String>,
}

/// Ours over theirs, at least so much, in these ways (`None`: all).
pub(crate) struct Goal {
    ours: Who,
    theirs: Who,
    least: f64,
    ways: Option<&'static [&'static str]>,
}

const fn goal(ours: Who, theirs: Who, least: f64, ways: Option<&'static [&'static str]>) -> Goal {
    Goal { ours, theirs, least, ways }
}

const DIRECT: Option<&[&str]> = Some(&["direct", "direct, 16 writers"]);

/// The goals, in rates.
const GOALS: [Goal; 7] = [
    goal(Who::FuseScalelfs, Who::FuseF2fsLfs, 1.0, None),
    goal(Who::FuseScalelfs, Who::LinuxLfs, 1.0, None),
    goal(Who::FuseScalelfs, Who::LinuxDefault, 1.0, DIRECT),
    goal(Who::LibraryScalelfs, Who::LinuxLfs, 3.0, None),
    goal(Who::LibraryScalelfs, Who::LinuxDefault, 3.0, None),
    goal(Who::FuseIplfs, Who::FuseScalelfs, 1.0, None),
    goal(Who::LibraryIplfs, Who::LibraryScalelfs, 1.3, None),
];

/// Further ratios that are shown.
const SHOWN: [(Who, Who); 3] = [
    (Who::LibraryScalelfs, Who::LibraryF2fsLfs),
    (Who::FuseScalelfsOneCpu, Who::LinuxLfs),
    (Who::FuseScalelfsOneCpu, Who::LinuxDefault),
];

/// Collection by scalelfs writes at most this many times what F2FS' way of collection writes.
const AMPLIFICATION: [(Who, Who); 2] =
    [(Who::FuseScalelfs, Who::FuseF2fsLfs), (Who::LibraryScalelfs, Who::LibraryF2fsLfs)];
const MOST_AMPLIFICATION: f64 = 1.05;

/// Without collection at most this many blocks are written for each page.
const UNCOLLECTED: [Who; 2] = [Who::FuseIplfs, Who::LibraryIplfs];
const MOST_BLOCKS: f64 = 1.25;

/// Whether any goal can be judged when these are measured.
pub(crate) fn can_be_judged(who: &[Who]) -> bool {
    GOALS.iter().any(|goal| who.contains(&goal.ours) && who.contains(&goal.theirs))
}

impl Medium {
    fn all<'a>(&'a self, way: &'a str, who: Who) -> impl Iterator<Item = &'a Outcome> {
        self.repetitions.iter().filter_map(move |r| r.get(way)?.get(&who))
    }

    fn middle(&self, way: &str, who: Who, what: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        median(self.all(way, who).filter_map(what).collect())
    }

    fn ratio(&self, way: &str, of: Who, to: Who, what: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        let ratios = self.repetitions.iter().filter_map(|r| {
            let outcomes = r.get(way)?;
            Some(what(outcomes.get(&of)?)? / what(outcomes.get(&to)?)?)
        });
        median(ratios.collect())
    }

    fn peers(&self) -> Vec<Who> {
        self.file_bytes.keys().copied().collect()
    }

    /// A table for a way of writing.
    fn table(&self, way: &str) -> String {
        let mut out = format!(
            "| {way:<21} | writes/s | p50 us | p99 us | p99.9 us | max ms | CPU us | WAF  | slowest window MB/s | middle window MB/s |\n\
             |:----------------------|---------:|-------:|-------:|---------:|-------:|-------:|-----:|--------------------:|-------------------:|\n"
        );
        for who in self.peers() {
            let cell =
                |what: &dyn Fn(&Outcome) -> Option<f64>| self.middle(way, who, what).map_or_else(String::new, short);
            let _ = writeln!(
                out,
                "| {:<21} | {:>8} | {:>6} | {:>6} | {:>8} | {:>6} | {:>6} | {:>4} | {:>19} | {:>18} |",
                who.name(),
                cell(&|o| Some(o.rate())),
                cell(&|o| Some(o.p50_us)),
                cell(&|o| Some(o.p99_us)),
                cell(&|o| Some(o.p999_us)),
                cell(&|o| Some(o.longest_us / 1e3)),
                cell(&Outcome::cpu_us),
                cell(&Outcome::amplification),
                cell(&|o| Some(o.steadiness()?.0)),
                cell(&|o| Some(o.steadiness()?.1)),
            );
        }
        out
    }

    /// Where the written blocks come from, for each page written by the application.
    fn explained(&self, ways: &[String]) -> String {
        let mut out = "Blocks for each page written: file data (moved ones in it), nodes, other metadata; pages written for each victim and for each checkpoint\n\n\
            |                       | way                | data | nodes | meta | moved | moved/victim | pages/victim | pages/checkpoint |\n\
            |:----------------------|:-------------------|-----:|------:|-----:|------:|-------------:|-------------:|-----------------:|\n"
            .to_owned();
        for who in self.peers() {
            for way in ways {
                let per = |name: &'static str, of: &'static str| {
                    let value = self.middle(way, who, |o| {
                        let count = |name: &str| match name {
                            "page" => Some(o.writes),
                            name => o.counters.get(name).copied(),
                        };
                        let of = count(of)?;
                        (of > 0).then_some(count(name)? as f64 / of as f64)
                    });
                    value.map_or_else(String::new, short)
                };
                let _ = writeln!(
                    out,
                    "| {:<21} | {way:<18} | {:>4} | {:>5} | {:>4} | {:>5} | {:>12} | {:>12} | {:>16} |",
                    who.name(),
                    per("data", "page"),
                    per("node", "page"),
                    per("meta", "page"),
                    per("moved", "page"),
                    per("moved", "victims"),
                    per("page", "victims"),
                    per("page", "checkpoints"),
                );
            }
        }
        out
    }
}

impl GcReport {
    /// A picture of the bandwidth over time: the first way on the first medium, in the first repetition.
    pub(crate) fn picture(&self) -> String {
        let way = self.ways.first().map_or("", String::as_str);
        let outcomes = self.media.first().and_then(|medium| medium.repetitions.first()?.get(way));
        let curve = |(who, outcome): (&Who, &Outcome)| {
            let waf = outcome.amplification().map(|waf| format!(", WAF {waf:.2}"));
            Curve { name: format!("{}{}", who.meaning(), waf.unwrap_or_default()), points: outcome.course() }
        };
        let curves: Vec<Curve> = outcomes.into_iter().flatten().map(curve).collect();
        let title = format!("Random 4 KiB overwrites of a volume 93 % full: {way}");
        picture(&title, "seconds", "MB/s", &curves)
    }

    /// The whole report as text.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n{}\nguest: {}\n", self.machine.line(), self.command, self.guest);
        for medium in &self.media {
            let files: Vec<u64> = medium.file_bytes.values().map(|bytes| bytes >> 20).collect();
            let (least, most) = (files.iter().min().unwrap_or(&0), files.iter().max().unwrap_or(&0));
            let _ = writeln!(
                out,
                "\n## Image in {}: volume {} MiB, file {least}{} MiB; aged by {} times the volume, then {} s of each way; {} repetitions, medians\n",
                medium.name,
                self.volume_mib,
                if least == most { String::new() } else { format!(" to {most}") },
                self.age,
                self.seconds,
                medium.repetitions.len(),
            );
            for way in &self.ways {
                out += &medium.table(way);
                out += "\n";
            }
            out += &self.ratios(medium);
            out += "\n";
            out += &medium.explained(&self.ways);
        }
        out
    }

    fn ratios(&self, medium: &Medium) -> String {
        let mut pairs: Vec<(Who, Who)> = GOALS.iter().map(|goal| (goal.ours, goal.theirs)).collect();
        pairs.extend(SHOWN);
        let peers = medium.peers();
        let mut out = "Ratios of rates: median of the repetitions' ratios; above 1 the first is faster\n\n".to_owned();
        let _ = write!(out, "| {:<45} |", "");
        self.ways.iter().for_each(|way| {
            let _ = write!(out, " {way:>18} |");
        });
        out += "\n|:----------------------------------------------|";
        self.ways.iter().for_each(|_| out += "-------------------:|");
        out += "\n";
        for (of, to) in pairs.into_iter().filter(|(of, to)| peers.contains(of) && peers.contains(to)) {
            let _ = write!(out, "| {:<45} |", format!("{} / {}", of.name(), to.name()));
            for way in &self.ways {
                let ratio = medium.ratio(way, of, to, |o| Some(o.rate()));
                let _ = write!(out, " {:>18} |", ratio.map_or_else(String::new, short));
            }
            out += "\n";
        }
        out
    }

    /// A line for each goal, and how many are not met.
    pub(crate) fn judge(&self) -> (String, usize) {
        let mut lines = String::new();
        let (mut met, mut missed) = (0, 0);
        let mut line = |medium: &str, way: &str, what: String, ratio: f64, good: bool, bound: String| {
            *(if good { &mut met } else { &mut missed }) += 1;
            let verdict = if good { "met" } else { "not met" };
            let _ = writeln!(lines, "{medium:<7} {way:<19} {what:<45} {:>6}  goal {bound}: {verdict}", short(ratio));
        };
        for medium in &self.media {
            for Goal { ours, theirs, least, ways } in &GOALS {
                for way in self.ways.iter().filter(|way| ways.is_none_or(|ways| ways.contains(&way.as_str()))) {
                    let Some(ratio) = medium.ratio(way, *ours, *theirs, |o| Some(o.rate())) else { continue };
                    let what = format!("{} / {}", ours.name(), theirs.name());
                    line(&medium.name, way, what, ratio, ratio >= *least, format!("at least {least}"));
                }
            }
            for who in UNCOLLECTED {
                for way in &self.ways {
                    let Some(blocks) = medium.middle(way, who, Outcome::amplification) else { continue };
                    let (what, bound) = (format!("WAF of {}", who.name()), format!("at most {MOST_BLOCKS}"));
                    line(&medium.name, way, what, blocks, blocks <= MOST_BLOCKS, bound);
                }
            }
            for (ours, theirs) in AMPLIFICATION {
                for way in &self.ways {
                    let Some(ratio) = medium.ratio(way, ours, theirs, Outcome::amplification) else { continue };
                    let what = format!("WAF of {} / {}", ours.name(), theirs.name());
                    let good = ratio <= MOST_AMPLIFICATION;
                    line(&medium.name, way, what, ratio, good, format!("at most {MOST_AMPLIFICATION}"));
                }
            }
        }
        (format!("\nGoals: {met} met, {missed} not met\n\n{lines}"), missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(writes: u64, written: u64) -> Outcome {
        let counters = [("written".to_owned(), written)].into();
        Outcome { writes, seconds: 1.0, windows: vec![1, 2, 3], counters, ..Outcome::default() }
    }

    fn report(ours: Outcome, theirs: Outcome) -> GcReport {
        let peers = [Who::FuseScalelfs, Who::FuseF2fsLfs];
        let outcomes: BTreeMap<Who, Outcome> = peers.into_iter().zip([ours, theirs]).collect();
        let medium = Medium {
            name: "memory".to_owned(),
            file_bytes: peers.map(|who| (who, 5 << 20)).into(),
            aged: BTreeMap::new(),
            repetitions: vec![GcRepetition::from([("direct".to_owned(), outcomes)])],
        };
        GcReport {
            machine: Machine::default(),
            command: String::new(),
            volume_mib: 64,
            seconds: 1.0,
            age: 3.0,
            guest: String::new(),
            media: vec![medium],
            ways: vec!["direct".to_owned()],
        }
    }

    #[test]
    fn rates_and_amplification_are_judged_each_by_its_bound() {
        for (ours, theirs, missed) in [
            (outcome(1000, 5250), outcome(1000, 5000), 0),
            (outcome(1000, 5260), outcome(1000, 5000), 1),
            (outcome(999, 4000), outcome(1000, 5000), 1),
            (outcome(999, 9000), outcome(1000, 5000), 2),
        ] {
            let (text, count) = report(ours, theirs).judge();
            assert_eq!(count, missed, "{text}");
            assert!(text.contains(&format!("{} met, {missed} not met", 2 - missed)), "{text}");
        }
    }

    #[test]
    fn a_volume_without_collection_is_judged_by_what_it_writes_and_by_scalelfs() {
        let judged = |rate: u64, written: u64| {
            let mut report = report(outcome(1000, 5000), outcome(1000, 5000));
            let outcomes = report.media[0].repetitions[0].get_mut("direct").unwrap();
            outcomes.insert(Who::FuseIplfs, outcome(rate, written));
            report.judge()
        };
        for (rate, written, missed) in [(1000, 1250, 0), (1000, 1251, 1), (999, 1200, 1), (990, 1300, 2)] {
            let (text, count) = judged(rate, written);
            assert_eq!(count, missed, "{text}");
            assert!(text.contains("fuse-iplfs / fuse-scalelfs") && text.contains("WAF of fuse-iplfs "), "{text}");
        }
    }

    #[test]
    fn tables_show_what_was_measured_and_no_more() {
        let text = report(outcome(4000, 20_000), outcome(2000, 10_000)).text();
        assert!(text.contains("fuse-scalelfs / fuse-f2fs-lfs") && text.contains(" 2.00 |"), "{text}");
        assert!(text.contains(" 4000 |") && text.contains(" 5.00 |"), "{text}");
        assert!(!text.contains("linux-lfs") && !text.contains("library"), "{text}");
    }
}
