//! IPLFS on the emulated SSD, small enough for every test run: what the host leaves to the device, and what the device
//! makes of it.

use crate::model::{Flash, greedy};
use std::sync::Arc;
use steadyfs_lab::{Experiment, Progress, Run, Scale, builtin, run, run_system};

fn go(name: &str, system: &str, scale: &str, changes: &[&str]) -> Run {
    let mut experiment = builtin(name).unwrap();
    for change in changes {
        experiment.set(change).unwrap();
    }
    run_system(&experiment, system, scale.parse().unwrap(), 0, &Arc::new(Progress::default())).unwrap()
}

#[test]
fn logs_without_an_end_leave_the_host_nothing_to_move() {
    let [iplfs, f2fs] =
        ["iplfs", "f2fs-lfs"].map(|system| go("iplfs-fio-30", system, "1/256", &["workload.io_size=16G"]));
    let of = |run: &Run, name: &str| run.record.metrics[name];
    assert_eq!((of(&iplfs, "gc_moved_blocks"), of(&iplfs, "gc_victims")), (0.0, 0.0));
    assert!(of(&f2fs, "gc_moved_blocks") > 1000.0, "{}", of(&f2fs, "gc_moved_blocks"));
    assert!(of(&iplfs, "waf") < 1.2 && of(&f2fs, "waf") > 1.3, "{} and {}", of(&iplfs, "waf"), of(&f2fs, "waf"));
    // A small part of a drive: the device has next to nothing to collect.
    assert!(of(&iplfs, "flash_waf") < 1.02, "{}", of(&iplfs, "flash_waf"));
    // The check looks for blocks that the device holds and nobody needs, too.
    for run in [&iplfs, &f2fs] {
        assert_eq!(run.record.checks["volume"], "clean");
        assert!(run.record.checks["contents"].contains("pages hold what was written last"), "{:?}", run.record.checks);
    }
    assert!(of(&iplfs, "discarded_blocks") > of(&iplfs, "data_blocks") / 2.0, "what is dead is given back");
}

#[test]
fn the_device_below_infinite_logs_copies_what_greedy_collection_must() {
    let scale = 1.0 / 1024.0;
    let Run { record, rows, .. } = go("iplfs-amplification", "iplfs", "1/1024", &["interval=0.5"]);
    let pages = |gib: f64| (gib * scale * f64::from(1 << 18)) as u64;
    let windows = [(263.0, 320.0), (320.0, 455.0), (455.0, 635.0)].map(|(from, to)| (pages(from), pages(to)));
    // Lines of one page of 32 KiB of each of 16 chips.
    let (line, file) = (128, pages(180.0) as usize);
    let flash = Flash { lines: pages(256.0) as usize / line, line, kept: 4 };
    let expected = greedy(&flash, file, &windows);
    for (name, expected) in ["w263", "w320", "w455"].into_iter().zip(expected) {
        let ours = record.metrics[&format!("{name}_flash_waf")];
        assert!((ours / expected - 1.0).abs() < 0.06, "{name}: {ours}, and a model has {expected}");
    }
    assert!(record.metrics["first_flash_waf"] < 1.01, "{}", record.metrics["first_flash_waf"]);
    assert!(rows.iter().all(|row| row.map_mib > 0.0), "the memory of the map is in the series");
    assert!(rows.iter().any(|row| row.flash_waf > 1.5), "what the device copies is in the series");
}

#[test]
fn compaction_at_a_stop_takes_longer_than_node_by_node() {
    let of = |(system, amount): (&str, &str)| {
        go("iplfs-compaction", system, "1/1024", &[&format!("workload.io_size={amount}")]).record.metrics
    };
    let [artifact, paper, none] = [("artifact", "737G"), ("paper", "400G"), ("none", "737G")].map(of);
    let stalls = [&artifact, &paper, &none].map(|figures| figures["flash_map_longest_stall_ms"]);
    // A node of the paper's has 4096 pages, and 2^20 take 7.1 ms.
    assert!(stalls[0] > 0.3 && (0.02..0.03).contains(&stalls[1]) && stalls[2] == 0.0, "{stalls:?}");
    assert!(artifact["seconds"] > none["seconds"], "{artifact:?}");
    assert!(artifact["flash_longest_write_ms"] >= stalls[0], "whoever writes meanwhile waits for that long");
    let shares = [&artifact, &none].map(|figures| figures["flash_map_share"]);
    assert!(shares[0] < 0.95 && shares[1] == 1.0, "what is not compacted takes what it takes: {shares:?}");
}

#[test]
fn files_fill_the_share_of_the_users_space_that_was_asked_for() {
    for (system, percent) in [("iplfs", 60.0), ("scalelfs", 85.0)] {
        let changes = ["workload.io_size=1M"];
        let run = go("d2fs-against", &format!("{system}@{percent}"), "1/256", &changes);
        let filled = run.record.metrics["utilisation_before"] * 100.0;
        assert!((filled - percent).abs() < 1.5, "{system}: {filled} of {percent}");
    }
}

#[test]
fn what_makes_no_infinite_volume_is_refused() {
    let refused = |changes: &[&str]| {
        let mut smoke = builtin("smoke").unwrap();
        changes.iter().try_for_each(|change| smoke.set(change)).unwrap_err().to_string()
    };
    for (changes, part) in [
        (&["device.preset=970pro", "volume.kind=iplfs"][..], "device.map"),
        (&["volume.capacity=100M"], "volume.capacity"),
        (&["volume.kind=iplfs", "volume.segs_per_sec=2"], "segs_per_sec"),
        (&["volume.kind=d3fs"], "d3fs"),
        (&["workload.fill=101"], "workload.fill"),
        (&["window=[{name='a',from='2M',to='1M'}]"], "ends before"),
        (&["window=[{name='a',from='1M',to='2M'},{name='a',from='1M',to='2M'}]"], "two"),
    ] {
        let message = refused(changes);
        assert!(message.contains(part), "{changes:?}: {message}");
    }
    // Without time: an address space is all that it needs.
    let mut smoke: Experiment = builtin("smoke").unwrap();
    ["volume.kind=iplfs", "workload.io_size=4M", "volume.mount="].iter().for_each(|change| smoke.set(change).unwrap());
    smoke.claims.clear();
    let ran = run(&smoke, Scale::FULL, 0, &Arc::new(Progress::default())).unwrap();
    assert_eq!(ran.record.checks["volume"], "clean");
}
