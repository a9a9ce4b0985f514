//! Random operations against a reference: results, error numbers and whole trees must agree, also after remounts.

mod crash;
mod faults;
mod ops;
mod run;
mod tree;

use crate::names::support::FULL;
use ops::Op;
use proptest::prelude::*;
use std::sync::LazyLock;
use steadyfs_device::MemDevice;

/// Fresh volumes and mount options to run on.
static VOLUMES: LazyLock<[(MemDevice, &str); 6]> = LazyLock::new(|| {
    let full = crate::common::mkfs(64, &["-O", FULL]);
    let plain = crate::common::mkfs(64, &[]);
    let poisoned = full.fork().poisoning_discards();
    [
        (plain, ""),
        (full.fork(), ""),
        (full, "noinline_dentry,noinline_data,noinline_xattr"),
        (poisoned.fork(), "discard=blocks,noinline_data"),
        (poisoned, "discard=blocks,mode=adaptive,ssr=eager,noinline_dentry"),
        (crate::infinite::Volume::of(1 << 14).below.fork(), ""),
    ]
});

/// Some cases in everyday runs, as many as `PROPTEST_CASES` says in others.
fn config() -> ProptestConfig {
    let default = ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { default } else { ProptestConfig { cases: 150, ..default } }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn operations_agree_with_the_reference(which in 0..VOLUMES.len(), ops in prop::collection::vec(ops::any_op(), 1..150)) {
        let (device, options) = &VOLUMES[which];
        run::run(device.fork(), options, &ops)?;
    }
}

/// One long run per volume: many inodes, deep trees, directories of every form.
#[test]
fn a_long_run_agrees_with_the_reference() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    for (device, options) in VOLUMES.iter() {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let ops: Vec<Op> = prop::collection::vec(ops::any_op(), 6000).new_tree(&mut runner).unwrap().current();
        run::run(device.fork(), options, &ops).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    }
}
