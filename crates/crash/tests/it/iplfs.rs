//! IPLFS volumes: no promise is broken, no block is written twice, and no crash leaves a block that nobody knows of.
//! Faults planted in the core are found, each within a minute.

use std::time::{Duration, Instant};
use steadyfs_crash::lang::{Op, Schedule};
use steadyfs_crash::{Effort, Outcome, Plan, Rule, VolumeKind, Workload, explore, generate};

fn explored(workloads: impl Iterator<Item = Workload> + Send + 'static, effort: Effort) -> Outcome {
    let plan = Plan { effort, jobs: 2, ..Plan::default() };
    let infinite = workloads.map(|workload| workload.on(VolumeKind::Iplfs));
    explore(infinite, &plan, |sum| sum.violations.is_empty()).expect("the workloads make sense")
}

#[track_caller]
fn is_sound(workloads: impl Iterator<Item = Workload> + Send + 'static, effort: Effort) {
    let outcome = explored(workloads, effort);
    println!("{} workloads, {} states", outcome.workloads, outcome.states);
    outcome.violations.iter().for_each(|violation| eprintln!("{violation}"));
    assert_eq!(outcome.violations.len(), 0);
    assert!(outcome.states > 2 * outcome.workloads, "{outcome:?}");
}

#[test]
fn one_operation_and_every_prefix() {
    is_sound(generate::exhaustive(1, "", 1).step_by(3), Effort::PREFIXES);
}

#[test]
fn two_operations_out_of_order_and_torn_anywhere() {
    is_sound(generate::exhaustive(2, "", 7).take(25), Effort { tears: 6, ..Effort::USUAL });
}

#[test]
fn several_writers_at_random() {
    let workloads = (0..).map(|seed| generate::scheduled("", seed)).filter(|workload| workload.fail.is_none());
    is_sound(workloads.take(3), Effort::LIGHT);
}

#[test]
fn logs_that_come_to_their_limits() {
    is_sound((0..3).map(|seed| generate::leaping("", seed)), Effort::LIGHT);
}

#[track_caller]
fn is_caught(canary: &str, rules: &[Rule], workloads: impl Iterator<Item = Workload> + Send + 'static) {
    let mount = format!("canary={canary}");
    let planted = workloads.map(move |workload| {
        let options = [workload.mount.as_str(), mount.as_str()];
        let options: Vec<&str> = options.into_iter().filter(|option| !option.is_empty()).collect();
        Workload { mount: options.join(","), ..workload }
    });
    let began = Instant::now();
    let outcome = explored(planted, Effort { subsets: 12, tears: 1 });
    let found = outcome.violations.first().unwrap_or_else(|| panic!("{canary} was not found: {outcome:?}"));
    println!("{canary}: after {} states, {:?}\n{found}", outcome.states, began.elapsed());
    assert!(rules.contains(&found.rule), "{found}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

fn short() -> impl Iterator<Item = Workload> + Send {
    generate::exhaustive(1, "", 1).chain(generate::exhaustive(2, "", 1).take(2000))
}

#[test]
fn a_block_discarded_before_its_checkpoint_is_caught() {
    let rules = [Rule::Legal, Rule::Consistent, Rule::Mounts, Rule::Works, Rule::NoPanic];
    is_caught("early-discard", &rules, short());
}

#[test]
fn a_discard_log_without_what_died_last_is_caught() {
    is_caught("skip-log", &[Rule::Leaks], short());
}

#[test]
fn a_discard_log_without_what_is_at_the_device_is_caught() {
    // Checkpoints follow one another so closely that discards are at the device while the next one freezes.
    let late = |seed| {
        let mut steps = Vec::new();
        for number in 0..12 {
            steps.push(Op::Write { path: "a".to_owned(), off: number % 3 * 4096, len: 20_000 });
            steps.push(Op::Sync);
        }
        let workload = Workload::new(vec![Op::Creat { path: "a".to_owned() }], steps);
        Workload { late: Some(seed), schedule: Some(Schedule { cores: 4, seed }), ..workload }
    };
    is_caught("forget-in-flight", &[Rule::Leaks], (0..2000).map(late));
}

#[test]
fn a_log_that_runs_past_its_limit_is_caught() {
    is_caught("past-limit", &[Rule::Leaks, Rule::NoPanic], (0..200).map(|seed| generate::leaping("", seed)));
}

#[test]
fn a_block_that_is_used_again_is_caught() {
    is_caught("reuse", &[Rule::Works, Rule::NoPanic], (0..2000).map(|seed| generate::scheduled("", seed)));
}
