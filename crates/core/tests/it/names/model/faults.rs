//! Read errors in the middle of operations: each is taken back whole, or the volume stops and falls back to its last
//! checkpoint.

use super::ops::{self, Op};
use super::run::Run;
use super::{VOLUMES, config};
use proptest::prelude::*;
use steadyfs_device::{Fault, OpKind, errno};

fn cases() -> ProptestConfig {
    ProptestConfig { cases: config().cases / 2, ..config() }
}

fn stays_mounted(op: &Op) -> bool {
    !matches!(op, Op::Remount)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn read_errors_take_operations_back(
        which in 0..VOLUMES.len(),
        before in prop::collection::vec(ops::any_op(), 50..200),
        rounds in prop::collection::vec((0u64..6, prop::collection::vec(ops::any_op().prop_filter("mounted", stays_mounted), 1..20)), 1..6),
    ) {
        let (device, options) = &VOLUMES[which];
        let mut run = Run::start(device.fork(), options)?;
        for op in &before {
            run.step(op)?;
        }
        for (nth, ops) in rounds {
            // Nothing is cached but the inodes themselves.
            run.remount();
            run.begin_faults();
            run.volume.dev.inner().add(Fault::fail(errno::EIO).on(OpKind::Read).nth(nth));
            for op in &ops {
                run.step(op)?;
            }
            run.volume.dev.inner().heal();
            run.end_faults()?;
        }
        run.finish()?;
    }
}
