//! D2FS on the emulated SSD that moves blocks, small enough for every test run.

use std::sync::Arc;
use steadyfs_lab::{Progress, builtin, run_system};

#[test]
fn a_device_that_tells_what_it_moves_leaves_the_host_nothing_to_move() {
    let experiment = builtin("d2fs-fio").unwrap();
    let scale = "1/512".parse().unwrap();
    let run = run_system(&experiment, "d2fs-1.4", scale, 0, &Arc::new(Progress::default())).unwrap();
    let of = |name: &str| run.record.metrics[name];
    println!("{:?}", run.record.metrics);
    assert_eq!((of("gc_moved_blocks"), of("gc_victims")), (0.0, 0.0));
    // The artifact has 1.42 at full scale; here the lines that are kept free are more of the device.
    assert!(of("records_moved") > 1000.0 && (1.4..1.7).contains(&of("flash_waf")), "{}", of("flash_waf"));
    // The device has 1.07 of the capacity, and the host 1.4.
    assert!((0.74..0.80).contains(&of("regular_used_at_collection")), "{}", of("regular_used_at_collection"));
    // 155 where each record's owner was read by itself.
    assert!(of("mb_s") > 600.0, "the host follows too slowly: {} MB/s", of("mb_s"));
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
