//! Collectors at their limits: many writers at the gate, slow writes of summaries, a full volume. And faults planted in
//! what they do, each of which one of these tests, the load or the crash explorer must find.

mod beds;
mod planted;

use beds::{a_full_volume, a_herd, slow_summaries};

#[test]
fn a_herd_of_writers_runs_few_rounds() {
    for gc in ["gc=scalelfs,gc.collectors=4,background_gc=off", "gc=f2fs-lfs"] {
        a_herd(gc).unwrap_or_else(|wrong| panic!("{gc}: {wrong}"));
    }
}

#[test]
fn two_writes_of_one_summary_are_never_under_way_together() {
    slow_summaries("").unwrap();
}

#[test]
fn a_full_volume_with_many_streams_can_still_be_overwritten() {
    a_full_volume("").unwrap();
}
