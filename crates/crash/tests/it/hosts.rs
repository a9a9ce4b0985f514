//! Devices in directories of files under power cuts of the host: what was promised is there, whatever pages and names
//! of its files the host has lost.

use steadyfs_crash::{CutCounts, CutKind, CutPlan, SessionHost};

#[track_caller]
fn is_sound(kind: CutKind) -> CutCounts {
    let mut sum = CutCounts::default();
    for (host, seed) in [(SessionHost::Alone, 0), (SessionHost::Crowd, 1), (SessionHost::Crowd, 2)] {
        let plan = CutPlan { cuts: 5, ..CutPlan::new(kind, host) };
        sum.add(plan.cut(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    }
    println!("{sum:?}");
    assert_eq!(sum.states, 45);
    sum
}

#[test]
fn no_cut_of_the_host_breaks_a_promise_of_a_chunk_directory() {
    is_sound(CutKind::IplfsDir);
}

#[test]
fn no_cut_of_the_host_breaks_a_promise_of_a_device_that_collects() {
    let sum = is_sound(CutKind::D2fsDir);
    assert!(sum.moved > 1000 && sum.outstanding > 5, "{sum:?}");
}

/// A write that is marked before it is done is left out by the flush after it.
#[test]
fn a_mark_before_the_write_is_found() {
    let plan = CutPlan { sessions: 2, planted: true, ..CutPlan::new(CutKind::IplfsDir, SessionHost::Crowd) };
    let (seed, what) = (0..200).find_map(|seed| plan.cut(seed).err().map(|what| (seed, what))).expect("it is found");
    println!("seed {seed}: {}", what.chars().take(300).collect::<String>());
    assert!(what.contains("cut at"), "{what}");
}
