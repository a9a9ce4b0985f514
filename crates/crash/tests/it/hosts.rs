//! Devices in directories of files under power cuts of the host: what was promised is there, whatever pages and names
//! of its files the host has lost.

use steadyfs_crash::{HostKind, HostStates, SessionHost, cut_host};

#[track_caller]
fn is_sound(kind: HostKind) -> HostStates {
    let mut sum = HostStates::default();
    for (host, seed) in [(SessionHost::Alone, 0), (SessionHost::Crowd, 1), (SessionHost::Crowd, 2)] {
        let found = cut_host(kind, host, seed, 3, 5, "", false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        sum.states += found.states;
        sum.killed += found.killed;
        sum.outstanding += found.outstanding;
        sum.moved += found.moved;
    }
    println!("{sum:?}");
    assert_eq!(sum.states, 45);
    sum
}

#[test]
fn no_cut_of_the_host_breaks_a_promise_of_a_chunk_directory() {
    is_sound(HostKind::Chunks);
}

#[test]
fn no_cut_of_the_host_breaks_a_promise_of_a_device_that_collects() {
    let sum = is_sound(HostKind::Coupled);
    assert!(sum.moved > 1000 && sum.outstanding > 5, "{sum:?}");
}

/// A write that is marked before it is done is left out by the flush after it.
#[test]
fn a_mark_before_the_write_is_found() {
    let planted = |seed| cut_host(HostKind::Chunks, SessionHost::Crowd, seed, 2, 8, "", true).err();
    let (seed, what) = (0..200).find_map(|seed| planted(seed).map(|what| (seed, what))).expect("it is found");
    println!("seed {seed}: {}", what.chars().take(300).collect::<String>());
    assert!(what.contains("cut at"), "{what}");
}
