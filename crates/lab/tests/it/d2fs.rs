//! D2FS on the emulated SSD that moves blocks, small enough for every test run.

use crate::model::{Flash, greedy};
use std::sync::Arc;
use steadyfs_lab::{Progress, builtin, run_system};

#[test]
fn on_zones_the_host_moves_and_the_device_copies_nothing() {
    let experiment = builtin("zf2fs-fio").unwrap();
    let scale = "1/512".parse().unwrap();
    let run = run_system(&experiment, "", scale, 0, &Arc::new(Progress::default())).unwrap();
    let of = |name: &str| run.record.metrics[name];
    println!("{:?}", run.record.metrics);
    assert!(of("gc_moved_blocks") > 1000.0 && of("zones_reset") > of("gc_victims") / 2.0, "{:?}", run.record.metrics);
    assert!((3.0..=14.0).contains(&of("zones_most_active")), "{}", of("zones_most_active"));
    // Tables are overwritten in the conventional zones, which the device collects; they are few.
    assert!(of("flash_waf") < 1.05 && of("waf") > 1.2, "{} of the flash, {} of the host", of("flash_waf"), of("waf"));
    assert_eq!(run.record.checks["volume"], "clean");
    assert!(run.record.checks["contents"].contains("pages hold what was written last"), "{:?}", run.record.checks);
}

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
    // Of the device's memory all is accounted for, and of its map little depends on the size.
    let mib = |what: &str| of(&format!("flash_map_{what}mib"));
    assert_eq!(mib("peak_"), mib("metadata_") + mib("zones_") + mib("records_peak_"));
    assert!(mib("records_peak_") * 65_536.0 >= of("records_most") && mib("zones_") > 0.0);
    assert!((0.03..0.06).contains(&of("flash_map_fixed_over_flat")), "{}", of("flash_map_fixed_over_flat"));
    // Lines of 16 units on each of 16 chips: 30 us for a sense, 185 for a program, and transfers.
    let (copied, read, write) = (of("flash_line_copied"), of("flash_line_read_us"), of("flash_line_write_us"));
    assert!((0.3..0.6).contains(&copied), "{copied}");
    let programs = write / copied / 4.0;
    assert!((223.0..300.0).contains(&programs), "{programs} us for each unit of copies");
    assert!((0.2..0.8).contains(&(read / write)), "{read} and {write}");
    assert_eq!(run.record.checks["volume"], "clean");
    assert!(run.record.checks["contents"].contains("pages hold what was written last"), "{:?}", run.record.checks);
    let wrong = |change: &str, part: &str| {
        let mut experiment = builtin("d2fs-fio").unwrap();
        let refused = experiment.set(change).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|e| e.contains(part)), "{change}: {refused:?}");
    };
    wrong("device.preset=memory", "emulated SSD");
    wrong("device.map=zones", "map = \"flat\"");
    wrong("volume.kind=f2fs", "regular_ratio");
}

#[test]
fn after_ten_overwrites_no_record_is_left_and_the_host_has_moved_nothing() {
    let go = |bound: Option<&str>| {
        let mut experiment = builtin("d2fs-overwrites").unwrap();
        bound.into_iter().for_each(|setting| experiment.set(setting).unwrap());
        let run = run_system(&experiment, "d2fs", "1/2048".parse().unwrap(), 0, &Arc::new(Progress::default()));
        let record = run.unwrap().record;
        let of = |name: &str| record.metrics[name];
        println!("{bound:?}: {:?}", record.metrics);
        assert!(
            of("seconds") * of("write_mb_s") > 10.0 * 100.0,
            "ten times the 117 MiB that it holds, less what is kept"
        );
        assert_eq!((of("gc_moved_blocks"), of("gc_victims"), of("records_left")), (0.0, 0.0, 0.0));
        assert!(of("records_moved") > 10_000.0 && of("upcalls") > 10.0, "{}", of("records_moved"));
        assert_eq!(
            (record.checks["volume"].as_str(), record.metrics.contains_key("recovery_records")),
            ("clean", false)
        );
        (of("records_most"), of("records_most_share"))
    };
    let (free, few) = (go(None), go(Some("device.records=24K")));
    for (_, share) in [free, few] {
        assert!((0.1..=1.0).contains(&share), "{share} of the records that there is memory for");
    }
    assert!(free.0 > few.0 && few.0 <= 1536.0, "{free:?} {few:?}");
}

/// Points that are in no paper: size of the device and of the file, regular area, and the part of the run, in GiB.
const POINTS: [(f64, f64, f64, (f64, f64)); 3] =
    [(96.0, 60.0, 1.2, (150.0, 220.0)), (128.0, 90.0, 1.5, (200.0, 290.0)), (160.0, 128.0, 1.8, (250.0, 350.0))];

#[test]
fn a_model_foretells_what_the_device_copies() {
    for (size, file, ratio, (from, to)) in POINTS {
        let mut experiment = builtin("d2fs-fio").unwrap();
        (experiment.claims, experiment.plots, experiment.verify) = (Vec::new(), Vec::new(), false);
        for setting in [
            format!("workload.size={file}G"),
            // Some pages are overwritten before they are written back.
            format!("workload.io_size={}G", to * 1.3),
            format!("device.size={size}G"),
            // Else the device collects only after each commit, and for that time uses lines that it keeps.
            "device.records=16M".to_owned(),
            // The model's host names dead blocks at once; the threads that follow records here sleep until some come.
            "machine.costs.wake_up=0".to_owned(),
            format!("window=[{{name='late',from='{from}G',to='{to}G'}}]"),
        ] {
            experiment.set(&setting).unwrap();
        }
        experiment.set(&format!("volume.regular_ratio={ratio}")).unwrap();
        let run = run_system(&experiment, "d2fs", "1/256".parse().unwrap(), 0, &Arc::new(Progress::default()));
        let metrics = run.unwrap().record.metrics;
        let pages = |gib: f64| gib / 256.0 * f64::from(1 << 18);
        // What is set aside for metadata holds no data: as many pages as its map has entries.
        let capacity = pages(size) - metrics["flash_map_metadata_mib"] * f64::from(1 << 18);
        let needed = (capacity / 512.0).ceil() as usize;
        // Four lines of the collector's, and those for what a host writes until it has completed records. A small
        // device has as many more than it needs, and twelve of zones that are begun.
        let kept = 4 + 18 + needed / 512;
        let lines = ((capacity * 1.07 / 512.0).ceil() as usize).max(needed + kept + 12);
        let flash = Flash { lines, line: 512, kept };
        let expected = greedy(&flash, pages(file) as usize, &[(pages(from) as u64, pages(to) as u64)])[0];
        let ours = metrics["late_flash_waf"];
        println!("{file} of {size} GiB, {ratio} times: {ours}, and the model has {expected}");
        assert!((ours / expected - 1.0).abs() < 0.05, "{file} of {size} GiB: {ours}, not {expected}");
    }
}

#[test]
fn a_mount_after_a_power_cut_hears_what_was_outstanding() {
    let experiment = builtin("d2fs-recovery").unwrap();
    let go = |system: &str| {
        let run = run_system(&experiment, system, "1/32".parse().unwrap(), 0, &Arc::new(Progress::default()));
        run.unwrap().record.metrics
    };
    let (none, many) = (go("@0"), go("@10000"));
    assert!(none["recovery_records"] < 1000.0 && many["recovery_records"] >= 10_000.0, "{none:?} {many:?}");
    // All of them are heard anew, and each was applied by the old mount, but in no checkpoint.
    assert_eq!(many["recovery_again"], 0.0);
    assert!(many["recovery_applied_ms"] > none["recovery_applied_ms"], "{none:?} {many:?}");
    assert!(many["recovery_completed_ms"] >= many["recovery_applied_ms"], "{many:?}");
    let mut wrong = experiment.clone();
    wrong.sweep = None;
    let refused = wrong.set("cut.records=3000000").unwrap_err().to_string();
    assert!(refused.contains("twice as many"), "{refused}");
}

#[test]
fn files_come_and_go_and_the_host_moves_nothing() {
    let experiment = builtin("d2fs-fileserver").unwrap();
    for system in ["d2fs", "iplfs"] {
        let run =
            run_system(&experiment, system, "1/1024".parse().unwrap(), 0, &Arc::new(Progress::default())).unwrap();
        let of = |name: &str| run.record.metrics[name];
        assert!(of("gc_moved_blocks") == 0.0 && of("iops") > 100.0, "{system}: {:?}", run.record.metrics);
        assert_eq!(run.record.checks["volume"], "clean");
    }
}

/// Several fsyncs at a time, each with nodes of its own: who has placed the marked node, and waits with it for what it
/// relies on, does not wait for those whose nodes come behind it in the log.
#[test]
fn a_database_syncs_its_files_side_by_side() {
    let mut experiment = builtin("ycsb").unwrap();
    for setting in ["volume.mount=", "volume.kind=d2fs", "device.size=512M", "workload.operationcount=4000"] {
        experiment.set(setting).unwrap();
    }
    let run = run_system(&experiment, "", "1".parse().unwrap(), 0, &Arc::new(Progress::default())).unwrap();
    assert!(run.record.metrics["log_syncs"] > 100.0, "{:?}", run.record.metrics);
    assert_eq!(run.record.checks["volume"], "clean");
}
