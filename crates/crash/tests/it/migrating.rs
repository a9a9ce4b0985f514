//! D2FS under power cuts: the device moves blocks by itself, and what was promised is there whatever it has moved.

use steadyfs_crash::{CutCounts, CutKind, CutPlan, SessionHost};

fn plan(host: SessionHost, sessions: u64, cuts: u64) -> CutPlan {
    CutPlan { sessions, cuts, ..CutPlan::new(CutKind::D2fs, host) }
}

/// What six seeds come to, in which the device has moved much.
fn sum_of(plan: &CutPlan) -> CutCounts {
    let mut sum = CutCounts::default();
    for seed in 0..6 {
        sum.add(plan.cut(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    }
    println!("{sum:?}");
    assert!(sum.moved > 1000 && sum.outstanding * 10 > sum.states * 3, "{sum:?}");
    sum
}

#[test]
fn no_cut_breaks_a_promise() {
    let sum = sum_of(&plan(SessionHost::Alone, 3, 5));
    assert!(sum.between * 20 > sum.states, "{sum:?}");
}

/// Several writers in schedules of their own, on devices that hold requests up.
#[test]
fn no_cut_breaks_a_promise_to_a_crowd() {
    sum_of(&plan(SessionHost::Crowd, 2, 3));
}

/// The first seed under which a planted fault is found.
fn hunt(canary: &str) {
    let plan = CutPlan { mount: format!("canary={canary}"), ..plan(SessionHost::Alone, 3, 3) };
    let found = (0..40).find_map(|seed| plan.cut(seed).err().map(|what| (seed, what)));
    let (seed, what) = found.unwrap_or_else(|| panic!("{canary} was not found"));
    println!("{canary}: seed {seed}: {}", what.chars().take(300).collect::<String>());
}

#[test]
fn records_completed_before_the_commit_are_found() {
    hunt("complete-early");
}

#[test]
fn discards_of_what_a_record_led_to_are_found() {
    hunt("stale-discards-new");
}

#[test]
fn sections_that_are_taken_again_too_early_are_found() {
    hunt("reuse-early");
}

#[test]
fn records_that_are_passed_over_are_found() {
    hunt("skip-record");
}

#[test]
fn summaries_that_are_not_saved_are_found() {
    hunt("trust-ssa");
}

#[test]
fn records_of_which_a_checkpoint_has_half_are_found() {
    hunt("half-record");
}
