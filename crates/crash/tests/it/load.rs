//! Load on nearly full volumes in virtual time: contents right and volumes whole under every schedule, and a seed is a
//! schedule.

use steadyfs_crash::load::schedules::{Case, run_case, run_seeds, volumes};
use steadyfs_testkit::sampled;

#[test]
fn every_schedule_keeps_contents_and_volume_whole() {
    let seeds = sampled(16, 32);
    let (sum, wrong) = run_seeds(0..seeds, "", 2, |_| true).expect("volumes");
    println!("{sum:?}");
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    assert!(wrong.is_empty());
    assert!(sum.collected.data_moved > seeds * 10_000, "collectors had little to do: {sum:?}");
    assert!(sum.worked > 2 * seeds && sum.worked * 10 >= sum.collectors * 9, "few collectors worked: {sum:?}");
    assert!(sum.figures.verified > 10 * sum.figures.written, "{sum:?}");
}

/// A collector puts the pages that it reads into the cache of their file, also beside a punch, a truncation or a zeroed
/// range: what is freed then must not stay readable.
#[test]
fn pages_that_collectors_cache_go_with_their_blocks() {
    let seeds = sampled(16, 32);
    let (sum, wrong) = run_seeds(0..seeds, "gc.buffer=cache", 2, |_| true).expect("volumes");
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    assert!(wrong.is_empty());
    assert!(sum.collected.data_moved > seeds * 10_000, "collectors had little to do: {sum:?}");
}

#[test]
fn a_seed_is_a_schedule() {
    let volumes = volumes().expect("volumes");
    let run = |seed| run_case(&Case::new(seed, ""), &volumes).expect("nothing is wrong");
    let (first, second) = (run(8), run(17));
    assert_eq!((&first, &second), (&run(8), &run(17)));
    assert_ne!(first.trace, second.trace);
}

#[test]
fn what_is_wrong_is_told_with_its_seed() {
    let (_, wrong) = run_seeds(3..5, "ro", 1, |_| true).expect("volumes");
    assert_eq!(wrong.iter().map(|wrong| wrong.seed()).collect::<Vec<_>>(), [3, 4]);
    let text = wrong[0].to_string();
    assert!(
        text.starts_with("seed 3: ") && text.contains("read-only") && text.contains(" cores, mounted with "),
        "{text}"
    );
}
