//! D2FS on the emulated SSD that moves blocks, small enough for every test run.

use std::sync::Arc;
use steadyfs_lab::{Progress, builtin, run_system};

#[test]
fn a_device_that_tells_what_it_moves_leaves_the_host_nothing_to_move() {
    let mut experiment = builtin("d2fs-fio").unwrap();
    experiment.set("workload.io_size=400G").unwrap();
    let scale = "1/512".parse().unwrap();
    let run = run_system(&experiment, "d2fs-1.4", scale, 0, &Arc::new(Progress::default())).unwrap();
    let of = |name: &str| run.record.metrics[name];
    println!("{:?}", run.record.metrics);
    assert_eq!((of("gc_moved_blocks"), of("gc_victims")), (0.0, 0.0));
    assert!(of("records_moved") > 1000.0 && of("flash_waf") > 1.02, "the device was idle");
    assert_eq!(run.record.checks["volume"], "clean");
    assert!(run.record.checks["contents"].contains("pages hold what was written last"), "{:?}", run.record.checks);
    let wrong = |change: &str, part: &str| {
        let mut experiment = builtin("d2fs-fio").unwrap();
        let refused = experiment.set(change).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|e| e.contains(part)), "{change}: {refused:?}");
    };
    wrong("device.preset=memory", "emulated SSD");
    wrong("volume.kind=f2fs", "regular_ratio");
}
