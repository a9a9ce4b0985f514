//! Policies of one's own for victims: one takes one file, this one, which cleans the fullest sections first; one is a
//! formula in an experiment; and the example that the page names does what it says.

use std::sync::Arc;
use steadyfs_core::{CostBenefit, GcOptions, Greedy, Own, Reach, SectionState, System, VictimPolicy, VictimStand};
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run, run_system, run_with_victims};

#[path = "../../examples/own_policy.rs"]
#[allow(dead_code, reason = "the main function is for the example")]
mod example;

/// The worst that there is: what has most valid blocks.
#[derive(Debug)]
struct Fullest;

static FULLEST: Fullest = Fullest;

impl VictimPolicy for Fullest {
    fn cost(&self, section: &SectionState) -> u64 {
        assert!(section.urgent && section.valid > 0 && section.valid < section.blocks, "{section:?}");
        section.blocks - section.valid
    }
}

/// Valid blocks of the victims of one collector, in their order.
fn victims(options: &GcOptions) -> Vec<u64> {
    const SEGMENTS: u32 = 64;
    let stand = VictimStand::new(SEGMENTS, options, Reach::of(SEGMENTS as usize), 1);
    (0..10).for_each(|segment| stand.fill(segment, 10 + 37 * (segment * 7 % 10)));
    (0..10).map(|_| u64::from(stand.take(0).unwrap().valid)).collect()
}

#[test]
fn a_victim_policy_takes_one_file() {
    for system in [System::F2fsLfs, System::ScaleLfs] {
        let usual = GcOptions::of(system);
        let own = GcOptions { victims_by: Some(Own(&FULLEST)), ..usual };
        let (usual, own) = (victims(&usual), victims(&own));
        assert!(usual.is_sorted() && usual[0] < usual[9], "greedy: {usual:?}");
        assert!(own.iter().rev().is_sorted() && own[0] == usual[9], "{own:?}");
    }
}

/// The load of the built-in experiment, less of it.
fn load() -> Experiment {
    let mut load = builtin("victim-formulas").unwrap();
    load.set("workload.io_size=40M").unwrap();
    load
}

/// The same without its systems.
fn alone() -> Experiment {
    let mut load = load();
    load.systems.clear();
    load.claims.clear();
    load
}

/// All that a run says but settings and system: figures, schedule and series.
fn outcome(run: Run) -> (String, Vec<steadyfs_lab::Row>) {
    let mut record = run.record;
    record.settings = serde_json::Value::Null;
    record.system.clear();
    (serde_json::to_string(&record).unwrap(), run.rows)
}

fn scored(score: &str) -> (String, Vec<steadyfs_lab::Row>) {
    let mut alone = alone();
    alone.set(&format!("gc.score={score}")).unwrap();
    outcome(run(&alone, Scale::FULL, 0, &Arc::default()).unwrap())
}

/// Not only the figures: every event happens at the same time.
#[test]
fn a_formula_of_a_built_in_policy_gives_the_same_run() {
    let of = |system: &str| outcome(run_system(&load(), system, Scale::FULL, 0, &Arc::default()).unwrap());
    let with = |policy: &'static dyn VictimPolicy| {
        outcome(run_with_victims(&alone(), "own", policy, Scale::FULL, 0, &Arc::new(Progress::default())).unwrap())
    };
    let built_in = of("built-in");
    assert!(built_in == of("the-same-as-a-formula"), "the experiment's own claim");
    assert!(built_in == with(&Greedy) && built_in == scored("1 - u") && built_in == scored("-valid"));
    let f2fs = "(age + 1) * floor((1000 - floor(1000 * u)) * 1000 / (1000 + floor(1000 * u)))";
    let benefit = with(&CostBenefit);
    assert!(benefit == scored(f2fs), "F2FS' cost-benefit");
    // Many collectors that search at the same time keep several victims each.
    let scalelfs = |scores: &[&str]| {
        let mut alone = alone();
        alone.set("volume.mount=as=scalelfs").unwrap();
        scores.iter().for_each(|score| alone.set(&format!("gc.score={score}")).unwrap());
        outcome(run(&alone, Scale::FULL, 0, &Arc::default()).unwrap())
    };
    assert!(scalelfs(&[]) == scalelfs(&["1 - u"]), "ScaleLFS' search");
    assert!(built_in != benefit && built_in != scored("u") && benefit != of("oldest"), "policies differ");
}

#[test]
fn a_score_that_no_host_uses_and_one_that_is_none_are_refused() {
    let mut infinite = builtin("smoke").unwrap();
    infinite.set("volume.kind=iplfs").unwrap();
    let refused = |mut experiment: Experiment, setting: &str, part: &str| {
        let e = experiment.set(setting).unwrap_err();
        assert!(e.is_usage() && e.to_string().contains(part), "{setting}: {e}");
    };
    let smoke = || builtin("smoke").unwrap();
    refused(smoke(), "gc.score=(1 - u", "gc.score: column 7: expected an operator or ')', found the end");
    refused(smoke(), "gc.score=1 + w", "column 5: unknown name 'w'");
    refused(smoke(), "gc.cost=u", "unknown field `cost`, expected `score`");
    refused(infinite, "gc.score=u", "no host chooses victims here");
    refused(builtin("scalexfs-commit").unwrap(), "gc.score=u", "no host chooses victims here");
    let text = include_str!("../../experiments/smoke.toml");
    let e = Experiment::parse("own.toml", &format!("{text}\n[gc]\nscore = \"2 * (u\"\n")).unwrap_err();
    let line = text.lines().count() + 3;
    assert!(e.to_string().contains(&format!("own.toml: line {line}: gc.score: column 7: expected")), "{e}");
    assert!(builtin("scalelfs-fig9f-victims").unwrap().set("gc.score=1 - u").is_ok());
}

#[test]
fn the_example_compares_four_policies_and_draws_a_picture() {
    let runs = example::compare("25M").unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run.record.system.as_str()).collect();
    assert_eq!(names, ["greedy", "cost-benefit", "patient", "(1 - u) * sqrt(age)"]);
    assert!(runs.iter().all(|run| run.record.metrics["gc_victims"] > 0.0 && run.record.checks["volume"] == "clean"));
    let moved: Vec<u64> = runs.iter().map(|run| run.record.metrics["gc_moved_blocks"].to_bits()).collect();
    assert!(moved[0] != moved[1] && moved[0] != moved[2] && moved[0] != moved[3], "they differ: {moved:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("picture.svg");
    example::report(&runs, &path).unwrap();
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(picture.starts_with("<svg") && names.iter().all(|name| picture.contains(name)), "{picture}");
}
