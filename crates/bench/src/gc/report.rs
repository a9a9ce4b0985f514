//! The outcomes for people, and the goals.

use super::peers::Who;
use super::write::Outcome;
use crate::comparison::Findings;
use crate::report::{Bound, RATIOS, Samples, Verdicts, by_name, markdown, name_of_pair};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use steadyfs_lab::{Curve, picture};

/// What one medium gave.
#[derive(Serialize)]
pub(crate) struct Medium {
    /// `memory` or `disk`.
    pub(crate) name: String,
    /// Bytes of each peer's file.
    pub(crate) file_bytes: BTreeMap<Who, u64>,
    /// What ageing took, by peer.
    pub(crate) aged: BTreeMap<Who, Outcome>,
    /// By way of writing and peer.
    #[serde(serialize_with = "by_name")]
    pub(crate) repetitions: Samples<&'static str, Who, Outcome>,
}

/// Everything about one run.
#[derive(Serialize)]
pub(crate) struct GcFindings {
    pub(crate) command: String,
    pub(crate) volume_mib: u64,
    pub(crate) seconds: f64,
    pub(crate) age: f64,
    pub(crate) guest: String,
    pub(crate) media: Vec<Medium>,
    /// The ways of writing, in order.
    pub(crate) ways: Vec<&'static str>,
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

/// A column of the table of a way of writing.
type Column = (&'static str, fn(&Outcome) -> Option<f64>);

const COLUMNS: [Column; 9] = [
    ("writes/s", |o| Some(o.rate())),
    ("p50 us", |o| Some(o.p50_us)),
    ("p99 us", |o| Some(o.p99_us)),
    ("p99.9 us", |o| Some(o.p999_us)),
    ("max ms", |o| Some(o.longest_us / 1e3)),
    ("CPU us", Outcome::cpu_us),
    ("WAF", Outcome::amplification),
    ("slowest window MB/s", |o| Some(o.steadiness()?.0)),
    ("middle window MB/s", |o| Some(o.steadiness()?.1)),
];

/// Where the written blocks come from: a counter for each of another one, or of the pages that were written.
const PARTS: [(&str, &str, &str); 7] = [
    ("data", "data", "page"),
    ("nodes", "node", "page"),
    ("meta", "meta", "page"),
    ("moved", "moved", "page"),
    ("moved/victim", "moved", "victims"),
    ("pages/victim", "page", "victims"),
    ("pages/checkpoint", "page", "checkpoints"),
];

/// How many of one counter there were for each of another.
fn per(outcome: &Outcome, name: &str, of: &str) -> Option<f64> {
    let count = |name: &str| if name == "page" { Some(outcome.writes) } else { outcome.counters.get(name).copied() };
    let of = count(of)?;
    (of > 0).then_some(count(name)? as f64 / of as f64)
}

impl Medium {
    fn rate(&self, way: &'static str, pair: (Who, Who)) -> Option<f64> {
        self.repetitions.ratio(&way, pair, |outcome| Some(outcome.rate()))
    }

    /// A table for a way of writing.
    fn table(&self, way: &'static str) -> String {
        let line = |who| COLUMNS.map(|(_, what)| self.repetitions.middle(&way, who, what)).to_vec();
        let lines = self.file_bytes.keys().map(|who| ([who.name()], line(*who)));
        markdown([way], &COLUMNS.map(|(name, _)| name), lines)
    }

    /// Where the written blocks come from, for each page written by the application.
    fn explained(&self, ways: &[&'static str]) -> String {
        let title = "Blocks for each page written: file data (moved ones in it), nodes, other metadata; pages written for \
                     each victim and for each checkpoint\n\n";
        let line = |who, way: &'static str| {
            PARTS.map(|(_, name, of)| self.repetitions.middle(&way, who, |o| per(o, name, of))).to_vec()
        };
        let both = self.file_bytes.keys().flat_map(|who| ways.iter().map(move |way| (*who, *way)));
        let lines = both.map(|(who, way)| ([who.name(), way.to_owned()], line(who, way)));
        title.to_owned() + &markdown(["", "way"], &PARTS.map(|(name, ..)| name), lines)
    }

    /// Ratios, a column for each way of writing.
    fn ratios(&self, ways: &[&'static str]) -> String {
        let pairs: Vec<(Who, Who)> = GOALS.iter().map(|goal| (goal.ours, goal.theirs)).chain(SHOWN).collect();
        let line = |pair| ways.iter().map(|way| self.rate(way, pair)).collect();
        let lines = self.repetitions.measured(&pairs).into_iter().map(|pair| ([name_of_pair(pair)], line(pair)));
        RATIOS.to_owned() + &markdown([""], ways, lines)
    }
}

impl GcFindings {
    /// A picture of the bandwidth over time: the first way on the first medium, in the first repetition.
    pub(crate) fn picture(&self) -> String {
        let way = self.ways.first().copied().unwrap_or_default();
        let rows = self.media.first().and_then(|medium| medium.repetitions.0.first());
        let outcomes = rows.into_iter().flatten().filter(|(row, _)| *row == way).flat_map(|(_, outcomes)| outcomes);
        let curve = |(who, outcome): (&Who, &Outcome)| {
            let waf = outcome.amplification().map(|waf| format!(", WAF {waf:.2}"));
            Curve { name: format!("{}{}", who.meaning(), waf.unwrap_or_default()), points: outcome.course() }
        };
        let curves: Vec<Curve> = outcomes.map(curve).collect();
        let title = format!("Random 4 KiB overwrites of a volume 93 % full: {way}");
        picture(&title, "seconds", "MB/s", &curves)
    }

    pub(crate) fn judge(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for medium in &self.media {
            let mut goal = |way: &str, what: String, figure: Option<f64>, bound: Bound| {
                verdicts.goal(&format!("{:<7} {way:<19} {what:<45}", medium.name), figure, bound);
            };
            for Goal { ours, theirs, least, ways } in &GOALS {
                for way in self.ways.iter().filter(|way| ways.is_none_or(|ways| ways.contains(way))) {
                    let pair = (*ours, *theirs);
                    goal(way, name_of_pair(pair), medium.rate(way, pair), Bound::AtLeast(*least));
                }
            }
            for (who, way) in UNCOLLECTED.iter().flat_map(|who| self.ways.iter().map(move |way| (*who, way))) {
                let blocks = medium.repetitions.middle(way, who, Outcome::amplification);
                goal(way, format!("WAF of {}", who.name()), blocks, Bound::AtMost(MOST_BLOCKS));
            }
            for (pair, way) in AMPLIFICATION.iter().flat_map(|pair| self.ways.iter().map(move |way| (*pair, way))) {
                let ratio = medium.repetitions.ratio(way, pair, Outcome::amplification);
                goal(way, format!("WAF of {}", name_of_pair(pair)), ratio, Bound::AtMost(MOST_AMPLIFICATION));
            }
        }
        verdicts
    }
}

impl Findings for GcFindings {
    fn text(&self) -> String {
        let mut out = format!("{}\nguest: {}\n", self.command, self.guest);
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
                medium.repetitions.repetitions(),
            );
            self.ways.iter().for_each(|way| out += &(medium.table(way) + "\n"));
            out += medium.ratios(&self.ways).trim_start();
            out += "\n";
            out += &medium.explained(&self.ways);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(writes: u64, written: u64) -> Outcome {
        let counters = [("written".to_owned(), written)].into();
        Outcome { writes, seconds: 1.0, windows: vec![1, 2, 3], counters, ..Outcome::default() }
    }

    fn findings(ours: Outcome, theirs: Outcome) -> GcFindings {
        let peers = [Who::FuseScalelfs, Who::FuseF2fsLfs];
        let outcomes: BTreeMap<Who, Outcome> = peers.into_iter().zip([ours, theirs]).collect();
        let medium = Medium {
            name: "memory".to_owned(),
            file_bytes: peers.map(|who| (who, 5 << 20)).into(),
            aged: BTreeMap::new(),
            repetitions: Samples(vec![vec![("direct", outcomes)]]),
        };
        GcFindings {
            command: String::new(),
            volume_mib: 64,
            seconds: 1.0,
            age: 3.0,
            guest: String::new(),
            media: vec![medium],
            ways: vec!["direct"],
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
            let verdicts = findings(ours, theirs).judge();
            let text = verdicts.to_string();
            assert_eq!(verdicts.missed(), missed, "{text}");
            assert!(text.contains(&format!("{} met, {missed} not met", 2 - missed)), "{text}");
        }
    }

    #[test]
    fn a_volume_without_collection_is_judged_by_what_it_writes_and_by_scalelfs() {
        let judged = |rate: u64, written: u64| {
            let mut findings = findings(outcome(1000, 5000), outcome(1000, 5000));
            let (_, outcomes) = &mut findings.media[0].repetitions.0[0][0];
            outcomes.insert(Who::FuseIplfs, outcome(rate, written));
            findings.judge()
        };
        for (rate, written, missed) in [(1000, 1250, 0), (1000, 1251, 1), (999, 1200, 1), (990, 1300, 2)] {
            let verdicts = judged(rate, written);
            let text = verdicts.to_string();
            assert_eq!(verdicts.missed(), missed, "{text}");
            assert!(text.contains("fuse-iplfs / fuse-scalelfs") && text.contains("WAF of fuse-iplfs "), "{text}");
        }
    }

    #[test]
    fn tables_show_what_was_measured_and_no_more() {
        let text = findings(outcome(4000, 20_000), outcome(2000, 10_000)).text();
        assert!(text.contains("fuse-scalelfs / fuse-f2fs-lfs") && text.contains(" 2.00 |"), "{text}");
        assert!(text.contains(" 4000 |") && text.contains(" 5.00 |"), "{text}");
        assert!(!text.contains("linux-lfs") && !text.contains("library"), "{text}");
    }
}
