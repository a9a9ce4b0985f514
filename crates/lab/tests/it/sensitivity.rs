//! What claims rest on: a claim that a price decides is fragile on it, one that no price decides is robust.

use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Scale, Sensitivity, Standing, builtin, run, save_sensitivity, sensitivity};

/// A device without time, so that prices decide how long everything takes.
fn quick(claims: &str) -> Experiment {
    let text = include_str!("../../experiments/smoke.toml").split("[[claim]]").next().unwrap().to_owned();
    let mut experiment = Experiment::parse("quick.toml", &(text + claims)).unwrap();
    for setting in ["workload.io_size=4M", "workload.numjobs=4", "verify=false"] {
        experiment.set(setting).unwrap();
    }
    experiment
}

fn found(experiment: &Experiment, only: &[&str]) -> Sensitivity {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    sensitivity(experiment, Scale::FULL, &[0], 1, &only, |_| ()).unwrap()
}

/// The claim that a run takes no longer than it does as it is, and one of a count.
fn planted() -> Experiment {
    let mut experiment = quick("[[claim]]\nmetric = 'seconds'\nat_most = 0\n[[claim]]\nmetric = 'ios'\nvalue = 4096\n");
    let as_it_is = run(&experiment, Scale::FULL, 0, &Arc::default()).unwrap().record.metrics["seconds"];
    experiment.claims[0].at_most = Some(as_it_is * 1.001);
    experiment
}

#[test]
fn a_claim_that_a_price_decides_is_fragile_on_it_and_no_other_claim_is() {
    let found = found(&planted(), &["page_copy", "syscall_entry / 2", "log_record"]);
    let [seconds, ios] = &found.findings[..] else { panic!("{found:?}") };
    assert_eq!((seconds.standing, ios.standing), (Standing::Fragile, Standing::Robust), "{found:?}");
    let on: Vec<&str> = seconds.fragile_on().map(|told| &told.change[..]).collect();
    assert_eq!(on, ["page_copy x 2"]);
    let (least, most) = seconds.extremes().unwrap();
    assert_eq!((&most.change[..], least.change.ends_with("/ 2")), ("page_copy x 2", true));
    let value = seconds.fragile_on().next().unwrap().judgement.ours.unwrap().0;
    assert!(value > seconds.as_it_is.ours.unwrap().0 * 1.01, "{value} where the claim is fragile");
    // Without a journal nothing is logged: that is seen when the price is doubled, and it is not halved.
    assert_eq!((&found.unmoved[..], found.runs), (&["log_record".to_owned()][..], 5));
}

#[test]
fn switches_change_the_systems_that_have_what_they_replace_and_no_other_runs_again() {
    let systems =
        "[[system]]\nname = 'writers'\n[[system]]\nname = 'linux'\nset = ['volume.mount=mode=lfs,writeback=linux']\n";
    let mut experiment =
        quick(&format!("{systems}[[claim]]\nmetric = 'seconds'\nsystem = 'writers'\nover = 'linux'\nat_least = 0\n"));
    // So much is dirty that writers come to the limit.
    for setting in ["workload.rwmixread=0", "workload.fsync=0", "volume.cache=1M"] {
        experiment.set(setting).unwrap();
    }
    let found = found(&experiment, &["writeback=linux", "gc.buffer"]);
    assert_eq!((found.changes.len(), &found.changes[0].systems[..]), (1, &["writers".to_owned()][..]), "{found:?}");
    assert_eq!((&found.idle[..], found.runs), (&["gc.buffer=dedicated".to_owned()][..], 3));
    let told = &found.findings[0].told[0].judgement;
    assert_eq!(told.ours, Some((1.0, 1.0, 1.0)), "both are the same then");
    assert_ne!(found.findings[0].as_it_is.ours, told.ours);
}

#[test]
fn how_far_it_is_covers_the_runs_of_all_changes() {
    let mut seen = Vec::new();
    let watch = |runs: &[Arc<Progress>]| seen.push((runs.len(), runs.iter().map(|run| run.share()).sum::<f64>()));
    let only = ["log_record".to_owned()];
    sensitivity(&quick(""), Scale::FULL, &[0, 1], 2, &only, watch).unwrap();
    assert!(seen.iter().all(|(runs, _)| *runs == 6), "{seen:?}");
}

#[test]
fn a_name_that_no_change_has_is_an_error_that_lists_them() {
    let only = ["page_copies".to_owned()];
    let e = sensitivity(&builtin("smoke").unwrap(), Scale::FULL, &[0], 1, &only, |_| ()).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("page_copy x 2, "), "{e}");
}

#[test]
fn the_page_stands_alone_and_names_what_claims_are_fragile_on() {
    let dir = tempfile::tempdir().unwrap();
    save_sensitivity(dir.path(), &found(&planted(), &["page_copy"])).unwrap();
    let html = std::fs::read_to_string(dir.path().join("sensitivity-smoke.html")).unwrap();
    for part in [
        "1 robust, 1 fragile, 0 not judged",
        "page_copy x 2: ",
        "<dt>Seeds</dt><dd>0</dd>",
        "the price page_copy is halved",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    for outside in ["http:", "https:", "<script", " src=", "@import", "url("] {
        assert!(!html.contains(outside), "the page refers to {outside}");
    }
    let json = std::fs::read_to_string(dir.path().join("sensitivity-smoke.json")).unwrap();
    assert!(json.contains("\"standing\": \"fragile\""), "{json}");
}
