//! What a paper claims against what was measured, over all seeds.
//!
//! With several seeds the interval of the mean decides (`interval`): within the bounds the claim holds, outside it does
//! not, and where it reaches across one the seeds are too few to tell. One seed has no interval, so its figure decides.

use crate::interval;
use crate::record::Record;
use crate::spec::{Claim, Experiment, Others, Scale, Sweep};
use serde::{Deserialize, Serialize};

/// Whether a claim holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All of the interval of the mean is within the bounds; with one seed, its figure is.
    Holds,
    /// None of it is.
    DoesNotHold,
    /// The interval reaches across a bound.
    CannotBeTold,
    /// It means nothing at this scale, or was not measured.
    NotApplicable,
    /// The experiment was never checked at so small a scale.
    NotAtThisScale,
}

impl Verdict {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::CannotBeTold => "cannot be told",
            Verdict::NotApplicable => "not applicable",
            Verdict::NotAtThisScale => "not judged at this scale",
        }
    }
}

/// A claim and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The claim.
    pub claim: Claim,
    /// Its bounds at the scale of the runs: least and most.
    pub bounds: (Option<f64>, Option<f64>),
    /// Mean, least and most over the seeds; `None` if it was not measured.
    pub ours: Option<(f64, f64, f64)>,
    /// How many seeds that is of.
    pub seeds: usize,
    /// The interval of the mean ([`interval::CONFIDENCE`]); `None` with one seed.
    pub interval: Option<(f64, f64)>,
    /// What that means.
    pub verdict: Verdict,
}

impl Judgement {
    /// The verdict in words, with the number of seeds where they are too few.
    pub fn in_words(&self) -> String {
        match self.verdict {
            Verdict::CannotBeTold => format!("cannot be told with {} seeds", self.seeds),
            verdict => verdict.text().to_owned(),
        }
    }
}

/// Mean, least and most of a figure over runs; `None` if one of them does not have it.
pub fn spread(metric: &str, records: &[&Record]) -> Option<(f64, f64, f64)> {
    spread_of(records.iter().map(|record| record.metrics.get(metric).copied()).collect())
}

fn spread_of(values: Option<Vec<f64>>) -> Option<(f64, f64, f64)> {
    let values = values.filter(|values| !values.is_empty())?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((mean, least, most))
}

/// Judges every claim of an experiment by runs at one scale.
pub fn judge(experiment: &Experiment, scale: Scale, records: &[&Record]) -> Vec<Judgement> {
    experiment.claims.iter().map(|claim| judge_one(claim, scale, claimed(claim, records))).collect()
}

/// What a claim is about, for each seed: a figure of a system, or how many times that of another it is.
fn claimed(claim: &Claim, records: &[&Record]) -> Option<Vec<f64>> {
    let system = claim.system.as_deref().unwrap_or_default();
    let ours: Vec<&Record> = records.iter().copied().filter(|r| r.system == system).collect();
    let below: Vec<&Record> = match (&claim.over, claim.over_others) {
        (Some(over), _) => records.iter().copied().filter(|r| r.system == *over).collect(),
        (None, Some(_)) => records.iter().copied().filter(|r| stands_beside(&r.system, system)).collect(),
        (None, None) => return ours.iter().map(|record| record.metrics.get(&claim.metric).copied()).collect(),
    };
    let ratio = |record: &Record| {
        let others = below.iter().filter(|other| other.seed == record.seed);
        // What one of them does not have, the paper may have compared with.
        let others: Option<Vec<f64>> = others.map(|other| other.metrics.get(&claim.metric).copied()).collect();
        let pick = if claim.over_others == Some(Others::Highest) { f64::max } else { f64::min };
        let other = others?.into_iter().reduce(pick).filter(|value| *value != 0.0)?;
        Some(record.metrics.get(&claim.metric)? / other)
    };
    ours.into_iter().map(ratio).collect()
}

/// Whether a system is another than this one, and has the same value of the sweep if there is one.
fn stands_beside(other: &str, system: &str) -> bool {
    let value = |name| Sweep::split(name).map(|(_, value)| value);
    other != system && value(other) == value(system)
}

impl Claim {
    /// What is claimed, in words, or else the figure.
    pub fn subject(&self) -> &str {
        if self.says.is_empty() { &self.metric } else { &self.says }
    }

    /// The figure, with the systems that it is about.
    pub fn figure(&self) -> String {
        let of = self.system.as_ref().map_or_else(String::new, |system| format!(" of {system}"));
        let over = self.over.as_ref().map_or_else(String::new, |over| format!(", over that of {over}"));
        let others = match self.over_others {
            None => "",
            Some(Others::Lowest) => ", over the lowest of the others",
            Some(Others::Highest) => ", over the highest of the others",
        };
        format!("{}{of}{over}{others}", self.metric)
    }
}

impl Claim {
    /// Least and most that is accepted at a scale.
    pub(crate) fn bounds(&self, scale: Scale) -> (Option<f64>, Option<f64>) {
        let factor = if self.scales { scale.factor() } else { 1.0 };
        let around = self.value.map(|value| (value * factor, (value * factor * self.tolerance).abs()));
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        let smaller = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        let least = larger(self.at_least.map(|v| v * factor), around.map(|(value, off)| value - off));
        let most = smaller(self.at_most.map(|v| v * factor), around.map(|(value, off)| value + off));
        (least, most)
    }
}

fn judge_one(claim: &Claim, scale: Scale, values: Option<Vec<f64>>) -> Judgement {
    let bounds = claim.bounds(scale);
    let seeds = values.as_ref().map_or(0, Vec::len);
    let interval = values.as_deref().and_then(interval::of_mean);
    let ours = spread_of(values);
    let verdict = match ours {
        None => Verdict::NotApplicable,
        Some(_) if claim.full_scale && !scale.is_full() => Verdict::NotApplicable,
        Some((mean, ..)) => verdict(bounds, interval.unwrap_or((mean, mean))),
    };
    Judgement { claim: claim.clone(), bounds, ours, seeds, interval, verdict }
}

/// What an interval says of bounds.
fn verdict((least, most): (Option<f64>, Option<f64>), (from, to): (f64, f64)) -> Verdict {
    let below = |value: f64| least.is_some_and(|least| value < least);
    let above = |value: f64| most.is_some_and(|most| value > most);
    if below(to) || above(from) {
        Verdict::DoesNotHold
    } else if below(from) || above(to) {
        Verdict::CannotBeTold
    } else {
        Verdict::Holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(text: &str) -> Claim {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn up_to_so_many_times_is_over_the_lowest_or_the_highest_of_those_beside() {
        let record = |system: &str, seed, mb_s: f64| Record {
            system: system.to_owned(),
            seed,
            metrics: [("mb_s".to_owned(), mb_s)].into(),
            ..Record::default()
        };
        let records = [
            record("ours@4", 0, 12.0),
            record("a@4", 0, 3.0),
            record("b@4", 0, 4.0),
            // Another seed, and another value of the sweep.
            record("a@4", 1, 1.0),
            record("a@8", 0, 2.0),
        ];
        let records: Vec<&Record> = records.iter().collect();
        let of = |others: &str| claim(&format!("metric = 'mb_s'\nsystem = 'ours@4'\nover_others = '{others}'"));
        assert_eq!(claimed(&of("lowest"), &records), Some(vec![4.0]));
        assert_eq!(claimed(&of("highest"), &records), Some(vec![3.0]));
        assert_eq!(claimed(&of("highest"), &records[..1]), None, "there are no others");
        assert_eq!(of("lowest").figure(), "mb_s of ours@4, over the lowest of the others");
    }

    #[test]
    fn claims_hold_within_their_bounds_and_nowhere_else() {
        let full = Scale::FULL;
        let half: Scale = "1/2".parse().unwrap();
        for (text, scale, ours, verdict) in [
            ("value = 100\ntolerance = 0.3", full, 70.1, Verdict::Holds),
            ("value = 100\ntolerance = 0.3", full, 69.9, Verdict::DoesNotHold),
            ("value = 100\ntolerance = 0.3", full, 130.1, Verdict::DoesNotHold),
            ("value = 100\ntolerance = 0.3\nscales = true", half, 50.0, Verdict::Holds),
            ("value = 100\ntolerance = 0.3\nscales = true", half, 100.0, Verdict::DoesNotHold),
            ("value = 100\nfull_scale = true", half, 100.0, Verdict::NotApplicable),
            ("at_least = 3", full, 3.0, Verdict::Holds),
            ("at_least = 3", full, 2.9, Verdict::DoesNotHold),
            ("at_most = 3", full, 3.1, Verdict::DoesNotHold),
            ("at_least = 3\nat_most = 4", full, 3.5, Verdict::Holds),
        ] {
            let judged = judge_one(&claim(&format!("metric = 'x'\n{text}")), scale, Some(vec![ours]));
            assert_eq!(judged.verdict, verdict, "{text}, ours {ours}");
        }
        assert_eq!(judge_one(&claim("metric = 'x'"), full, None).verdict, Verdict::NotApplicable);
    }

    /// Three seeds around the bound say nothing, further off or closer together they do.
    #[test]
    fn several_seeds_are_judged_by_their_interval() {
        let two_sided = claim("metric = 'x'\nvalue = 10\ntolerance = 0.2");
        let judged = |values: &[f64]| judge_one(&two_sided, Scale::FULL, Some(values.to_vec()));
        for (values, verdict) in [
            ([9.0, 10.0, 11.0], Verdict::CannotBeTold),
            ([9.9, 10.0, 10.1], Verdict::Holds),
            ([11.7, 11.9, 12.1], Verdict::CannotBeTold),
            ([13.9, 14.0, 14.1], Verdict::DoesNotHold),
            ([6.0, 6.1, 6.2], Verdict::DoesNotHold),
            ([12.0, 12.0, 12.0], Verdict::Holds),
        ] {
            assert_eq!(judged(&values).verdict, verdict, "{values:?}");
        }
        assert_eq!(judged(&[9.0, 10.0, 11.0]).in_words(), "cannot be told with 3 seeds");
        assert_eq!((judged(&[10.0]).verdict, judged(&[10.0]).interval), (Verdict::Holds, None), "one seed");
    }
}
