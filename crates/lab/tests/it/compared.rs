//! ScaleLFS' Figures 10 and 11, small enough for every test run: all systems that are compared do the whole workload on
//! a nearly full volume, what they leave is right, and every claim is judged.

use steadyfs_lab::{Experiment, Record, Run, Verdict, builtin, judge, run_seeds};

/// Runs all systems of an experiment, and prints what is claimed of them and what came of it.
fn compared(experiment: &Experiment, scale: &str) -> Vec<Run> {
    let scale = scale.parse().unwrap();
    let runs = run_seeds(experiment, scale, &[0], 2, |_| ()).unwrap();
    assert_eq!(runs.iter().map(|run| run.record.system.clone()).collect::<Vec<_>>(), experiment.system_names());
    for Run { record, .. } in &runs {
        let metric = |name: &str| record.metrics[name];
        println!("{} {}: {:.0} a second, waf {:.2}", record.experiment, record.system, metric("iops"), metric("waf"));
        assert_eq!(record.checks["volume"], "clean", "{}", record.system);
        let contents = &record.checks["contents"];
        assert!(contents.contains("files") || contents.contains("records"), "{}: {contents}", record.system);
    }
    let records: Vec<&Record> = runs.iter().map(|run| &run.record).collect();
    for judged in judge(experiment, scale, &records) {
        println!("{}: {:?} {}", judged.claim.figure(), judged.ours, judged.verdict.text());
        assert_ne!(judged.verdict, Verdict::NotApplicable, "nothing was measured for {}", judged.claim.figure());
        let is_of_the_start = judged.claim.metric == "utilisation_before";
        assert!(!is_of_the_start || judged.verdict == Verdict::Holds, "not the paper's volume: {judged:?}");
    }
    runs
}

fn reduced(name: &str, settings: &[&str]) -> Experiment {
    let mut experiment = builtin(name).unwrap();
    settings.iter().for_each(|setting| experiment.set(setting).unwrap());
    experiment
}

#[test]
fn file_servers_on_nearly_full_volumes() {
    let runs = compared(&reduced("scalelfs-fig10-fileserver", &["workload.runtime=10"]), "1/64");
    let iops = |system: &str| runs.iter().find(|run| run.record.system == system).unwrap().record.metrics["iops"];
    assert!(iops("scalelfs") > 1.1 * iops("f2fs-lfs"), "{} and {}", iops("scalelfs"), iops("f2fs-lfs"));
}

#[test]
fn mail_on_nearly_full_volumes() {
    compared(&reduced("scalelfs-fig10-varmail", &["workload.runtime=5"]), "1/64");
}

#[test]
fn transactions_on_nearly_full_volumes() {
    compared(&reduced("scalelfs-fig10-oltp", &["workload.runtime=20"]), "1/64");
}

#[test]
fn databases_under_three_loads() {
    for name in ["scalelfs-fig11-a", "scalelfs-fig11-b", "scalelfs-fig11-update"] {
        compared(&reduced(name, &["workload.operationcount=500000"]), "1/64");
    }
}

#[test]
fn a_database_on_more_and_more_cores() {
    compared(&reduced("scalelfs-fig11-a-cores", &["workload.operationcount=1000000"]), "1/128");
}
