//! D2FS under power cuts: the device moves blocks by itself, and what was promised is there whatever it has moved.

use steadyfs_crash::{MovingStates, SessionHost, cut_while_moving};

#[test]
fn no_cut_breaks_a_promise() {
    let mut sum = MovingStates::default();
    for seed in 0..6 {
        let found =
            cut_while_moving(SessionHost::Alone, seed, 3, 5, "").unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        sum.states += found.states;
        sum.outstanding += found.outstanding;
        sum.moved += found.moved;
        sum.again += found.again;
        sum.between += found.between;
    }
    println!("{sum:?}");
    assert!(sum.moved > 1000 && sum.outstanding * 10 > sum.states * 3, "{sum:?}");
    assert!(sum.between * 20 > sum.states, "{sum:?}");
}

/// Several writers in schedules of their own, on devices that hold requests up.
#[test]
fn no_cut_breaks_a_promise_to_a_crowd() {
    let mut sum = MovingStates::default();
    for seed in 0..6 {
        let found =
            cut_while_moving(SessionHost::Crowd, seed, 2, 3, "").unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        sum.states += found.states;
        sum.outstanding += found.outstanding;
        sum.moved += found.moved;
    }
    println!("{sum:?}");
    assert!(sum.moved > 1000 && sum.outstanding * 10 > sum.states * 3, "{sum:?}");
}

/// The first seed under which a planted fault is found.
fn hunt(canary: &str) {
    let mount = format!("canary={canary}");
    let found = (0..40)
        .find_map(|seed| cut_while_moving(SessionHost::Alone, seed, 3, 3, &mount).err().map(|what| (seed, what)));
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
