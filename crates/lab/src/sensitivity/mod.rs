//! On which prices and assumptions the claims of an experiment rest.
//!
//! Each price of the table of costs is halved and doubled, each assumption of `switches` is switched, one at a time. A
//! claim is robust if its verdict is everywhere that of the experiment as it is, and else fragile, on what changed it.
//!
//! Kept true: the experiment as it is runs once. A price that moves nothing when it is doubled is not charged there,
//! so it is not halved. A system that a change leaves as it is does not run again: the same settings with the same seed
//! give the same figures.

mod switches;

use crate::claims::{Judgement, Verdict, judge};
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::record::{Record, Run};
use crate::run::{Errand, run_jobs};
use crate::spec::{Claim, Experiment, Scale, Sweep, System, cost_name};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_rt::Cost;
use switches::SWITCHES;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The experiment.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// The scale of all runs.
    pub scale: String,
    /// Their seeds.
    pub seeds: Vec<u64>,
    /// What the program was built from.
    pub commit: String,
    /// How many runs there were, those of the experiment as it is among them.
    pub runs: usize,
    /// The changes that were tried.
    pub changes: Vec<Change>,
    /// Prices that move nothing: the experiment does not charge them.
    pub unmoved: Vec<String>,
    /// Switches that have nothing to switch here.
    pub idle: Vec<String>,
    /// What came of each claim.
    pub findings: Vec<Finding>,
}

/// One change of the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// What it is called.
    pub name: String,
    /// What is then so.
    pub what: String,
    /// The systems that it changes.
    pub systems: Vec<String>,
    /// Why it could not be run, if it could not.
    pub failed: Option<String>,
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its verdict is the same with every change.
    Robust,
    /// It is another with one of them.
    Fragile,
    /// The experiment as it is does not tell whether it holds.
    NotJudged,
}

impl Standing {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Standing::Robust => "robust",
            Standing::Fragile => "fragile",
            Standing::NotJudged => "not judged",
        }
    }
}

/// A claim with a change.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The change, by its name.
    pub change: String,
    /// What came of the claim with it.
    pub judgement: Judgement,
}

/// What came of one claim.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// What comes of it in the experiment as it is.
    pub as_it_is: Judgement,
    /// How it stands.
    pub standing: Standing,
    /// What comes of it with each change.
    pub told: Vec<Told>,
}

impl Finding {
    /// The changes that give another verdict.
    pub fn fragile_on(&self) -> impl Iterator<Item = &Told> {
        self.told.iter().filter(|told| told.judgement.verdict != self.as_it_is.verdict)
    }

    /// The changes with the least and the most of the claim's value.
    pub fn extremes(&self) -> Option<(&Told, &Told)> {
        let value = |told: &&Told| told.judgement.ours.map_or(f64::NAN, |(mean, ..)| mean);
        let measured = || self.told.iter().filter(|told| told.judgement.ours.is_some());
        let by_value = |a: &&Told, b: &&Told| value(a).total_cmp(&value(b));
        measured().min_by(by_value).zip(measured().max_by(by_value))
    }
}

/// What a change is about.
#[derive(Clone, Copy)]
enum About {
    /// A price, times two or halved.
    Price(Cost, Factor),
    /// A row of [`SWITCHES`].
    Switch(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    Half,
    Double,
}

impl About {
    /// All changes, doubled prices first.
    fn all() -> Vec<About> {
        let prices = |factor| Cost::ALL.into_iter().map(move |cost| About::Price(cost, factor));
        let switches = (0..SWITCHES.len()).map(About::Switch);
        prices(Factor::Double).chain(prices(Factor::Half)).chain(switches).collect()
    }

    fn name(self) -> String {
        match self {
            About::Price(cost, Factor::Double) => format!("{} x 2", cost_name(cost)),
            About::Price(cost, Factor::Half) => format!("{} / 2", cost_name(cost)),
            About::Switch(row) => SWITCHES[row].name(),
        }
    }

    fn what(self) -> String {
        match self {
            About::Price(cost, Factor::Double) => format!("the price {} is doubled", cost_name(cost)),
            About::Price(cost, Factor::Half) => format!("the price {} is halved", cost_name(cost)),
            About::Switch(row) => SWITCHES[row].what.to_owned(),
        }
    }

    /// Whether somebody who asks for this name means it: the whole name, or that of the price or setting.
    fn is_meant_by(self, asked: &str) -> bool {
        let name = self.name();
        name == asked || name.split([' ', '=']).next() == Some(asked)
    }

    /// The setting that makes the change in an experiment with one system; `None` where it changes nothing.
    fn setting(self, one: &Experiment) -> Option<String> {
        let (cost, factor) = match self {
            About::Switch(row) => return SWITCHES[row].setting(one),
            About::Price(cost, factor) => (cost, factor),
        };
        let price = u32::try_from(one.costs().ok()?.of(cost)).ok()?;
        let changed = if factor == Factor::Half { price / 2 } else { price.saturating_mul(2) };
        (changed != price).then(|| format!("machine.costs.{}={changed}", cost_name(cost)))
    }
}

/// The systems of an experiment without the values of a sweep, each as an experiment of its own.
fn each_system(experiment: &Experiment) -> Result<Vec<(String, Experiment)>> {
    let without = Experiment { sweep: None, ..experiment.clone() };
    let names = without.systems.iter().map(|system| system.name.clone()).collect::<Vec<_>>();
    let names = if names.is_empty() { vec![String::new()] } else { names };
    names.into_iter().map(|name| without.with_system(&name).map(|one| (name, one))).collect()
}

/// The experiment with a change, and the names of what it changes, a sweep's values included; none if it changes
/// nothing.
fn changed(experiment: &Experiment, about: About) -> Result<(Experiment, Vec<String>)> {
    let mut out = experiment.clone();
    let mut touched = Vec::new();
    for (name, one) in each_system(experiment)? {
        let Some(setting) = about.setting(&one) else { continue };
        match out.systems.iter_mut().find(|system| system.name == name) {
            Some(System { set, .. }) => set.push(setting),
            None => out.set(&setting)?,
        }
        touched.push(name);
    }
    // A sweep may set the same key, and then has the last word.
    let base = |name: &str| match &experiment.sweep {
        Some(_) => Sweep::split(name).map_or_else(String::new, |(system, _)| system.to_owned()),
        None => name.to_owned(),
    };
    let mut names = experiment.system_names();
    names.retain(|name| touched.contains(&base(name)));
    out.check().map_err(|why| Error::spec(about.name(), why))?;
    Ok((out, names))
}

/// A change with what it makes of the experiment.
struct Planned {
    about: About,
    experiment: Experiment,
    systems: Vec<String>,
    jobs: Vec<Errand>,
}

/// A change with what came of it.
struct Tried {
    about: About,
    experiment: Experiment,
    systems: Vec<String>,
    runs: BTreeMap<Place, Result<Run>>,
}

/// A system and a seed.
type Place = (String, u64);

/// Runs an experiment as it is and with each change, and finds on which of them its claims rest. `only` names the
/// changes that are tried; all of them if it is empty. `watch` is called as by [`crate::run_seeds`], with the runs of
/// all changes.
///
/// # Errors
/// A name in `only` that no change has, or the experiment as it is cannot be run.
pub fn sensitivity(
    experiment: &Experiment,
    scale: Scale,
    seeds: &[u64],
    jobs: usize,
    only: &[String],
    mut watch: impl FnMut(&[Arc<Progress>]),
) -> Result<Sensitivity> {
    let (planned, idle) = plan(experiment, seeds, only)?;
    let first = Errand::of(&experiment.system_names(), seeds);
    let every = first.iter().chain(planned.iter().flat_map(|planned| &planned.jobs));
    let progress: Vec<Arc<Progress>> = every.map(|job| Arc::clone(&job.progress)).collect();
    let mut run = |experiment: &Experiment, wanted: Vec<Errand>| {
        let places: Vec<Place> = wanted.iter().map(|job| (job.system.clone(), job.seed)).collect();
        let runs = run_jobs(experiment, scale, wanted, jobs, || watch(&progress));
        places.into_iter().zip(runs).collect::<Vec<_>>()
    };
    let as_it_is = run(experiment, first).into_iter().map(|(place, run)| Ok((place, run?)));
    let as_it_is: BTreeMap<Place, Run> = as_it_is.collect::<Result<_>>()?;
    let mut count = as_it_is.len();
    let (mut tried, mut unmoved) = (Vec::new(), Vec::new());
    for Planned { about, experiment, systems, jobs } in planned {
        if matches!(about, About::Price(cost, _) if unmoved.contains(&cost_name(cost))) {
            jobs.iter().for_each(|job| job.progress.enter(Phase::Done));
            continue;
        }
        let runs: BTreeMap<Place, Result<Run>> = run(&experiment, jobs).into_iter().collect();
        count += runs.len();
        let same = |(place, run): (&Place, &Result<Run>)| {
            run.as_ref().is_ok_and(|run| is_same(&run.record, &as_it_is[place].record))
        };
        match about {
            About::Price(cost, _) if runs.iter().all(same) => unmoved.push(cost_name(cost)),
            _ => tried.push(Tried { about, experiment, systems, runs }),
        }
    }
    Ok(Sensitivity {
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        scale: scale.to_string(),
        seeds: seeds.to_vec(),
        commit: as_it_is.values().next().map_or_else(String::new, |run| run.cost.commit.clone()),
        runs: count,
        changes: tried.iter().map(Tried::told).collect(),
        unmoved,
        idle,
        findings: findings(experiment, scale, &as_it_is, &tried),
    })
}

/// The changes that are asked for with their runs, and the names of those that change nothing.
fn plan(experiment: &Experiment, seeds: &[u64], only: &[String]) -> Result<(Vec<Planned>, Vec<String>)> {
    let (mut planned, mut idle) = (Vec::new(), Vec::new());
    for about in wanted(only)? {
        let (changed, systems) = changed(experiment, about)?;
        if systems.is_empty() {
            idle.push(about.name());
            continue;
        }
        planned.push(Planned { about, experiment: changed, jobs: Errand::of(&systems, seeds), systems });
    }
    Ok((planned, idle))
}

/// The changes that are asked for.
fn wanted(only: &[String]) -> Result<Vec<About>> {
    let mut all = About::all();
    if let Some(unknown) = only.iter().find(|asked| !all.iter().any(|about| about.is_meant_by(asked))) {
        let names: Vec<String> = all.iter().map(|about| about.name()).collect();
        return Err(Error::spec("--only", format!("there is no change '{unknown}'; there are {}", names.join(", "))));
    }
    all.retain(|about| only.is_empty() || only.iter().any(|asked| about.is_meant_by(asked)));
    Ok(all)
}

/// Whether two runs came to the same, whatever their settings say.
fn is_same(a: &Record, b: &Record) -> bool {
    (&a.metrics, &a.trace, a.events) == (&b.metrics, &b.trace, b.events)
}

impl Tried {
    fn failure(&self) -> Option<String> {
        self.runs.values().find_map(|run| run.as_ref().err()).map(ToString::to_string)
    }

    fn told(&self) -> Change {
        let Tried { about, systems, .. } = self;
        Change { name: about.name(), what: about.what(), systems: systems.clone(), failed: self.failure() }
    }

    /// The records with the change, those of systems that it leaves alone from the experiment as it is.
    fn records<'a>(&'a self, all: &'a BTreeMap<Place, Run>) -> Option<Vec<&'a Record>> {
        let of = |(place, run): (&'a Place, &'a Run)| match self.runs.get(place) {
            Some(changed) => changed.as_ref().ok().map(|run| &run.record),
            None => Some(&run.record),
        };
        all.iter().map(of).collect()
    }
}

/// What came of each claim.
fn findings(experiment: &Experiment, scale: Scale, all: &BTreeMap<Place, Run>, tried: &[Tried]) -> Vec<Finding> {
    let as_it_is = judge(experiment, scale, &all.values().map(|run| &run.record).collect::<Vec<_>>());
    let with = |tried: &Tried| Some((tried.about.name(), judge(&tried.experiment, scale, &tried.records(all)?)));
    let with: Vec<(String, Vec<Judgement>)> = tried.iter().filter_map(with).collect();
    let finding = |(number, as_it_is): (usize, Judgement)| {
        let told = |(change, judged): &(String, Vec<Judgement>)| Told {
            change: change.clone(),
            judgement: judged[number].clone(),
        };
        let told: Vec<Told> = with.iter().map(told).collect();
        let standing = match as_it_is.verdict {
            Verdict::NotApplicable | Verdict::NotAtThisScale | Verdict::CannotBeTold => Standing::NotJudged,
            verdict if told.iter().all(|told| told.judgement.verdict == verdict) => Standing::Robust,
            _ => Standing::Fragile,
        };
        Finding { claim: as_it_is.claim.clone(), as_it_is, standing, told }
    };
    as_it_is.into_iter().enumerate().map(finding).collect()
}
