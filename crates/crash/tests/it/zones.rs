//! Zoned devices under power cuts: no rule of zones is broken, and what was promised is there.

use steadyfs_crash::{CutCounts, CutKind, CutPlan, SessionHost};

#[test]
fn no_cut_of_a_zoned_device_breaks_a_promise() {
    let mut sum = CutCounts::default();
    for seed in 0..8 {
        let host = if seed % 2 == 0 { SessionHost::Alone } else { SessionHost::Crowd };
        let plan = CutPlan { sessions: 2, cuts: 4, ..CutPlan::new(CutKind::Zoned, host) };
        sum.add(plan.cut(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}")));
    }
    println!("{sum:?}");
    assert!(sum.states > 24 && sum.resets > 30 && sum.finishes > 20 && sum.most_active > 2, "{sum:?}");
}

/// A block that is taken twice is written behind its zone's write pointer.
#[test]
fn blocks_that_are_taken_twice_are_found_on_zones() {
    let mount = "canary=early-reuse".to_owned();
    let plan = CutPlan { sessions: 2, cuts: 3, mount, ..CutPlan::new(CutKind::Zoned, SessionHost::Alone) };
    let found = (0..40).find_map(|seed| plan.cut(seed).err());
    println!("{}", found.expect("early-reuse was not found").chars().take(300).collect::<String>());
}
