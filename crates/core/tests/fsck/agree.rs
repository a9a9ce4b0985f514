//! Volumes that mkfs.f2fs and Linux made are whole in our eyes, too.

use crate::common::mkfs;
use crate::images::{FEATURES, by_linux, fresh, plain, run, run_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_core::fsck::{CheckOptions, Issue, Phase, Report, Severity};
use steadyfs_device::MemDevice;
use steadyfs_testkit::corpus::Spec;

/// The issues worth more than a note.
fn complaints(report: &Report) -> Vec<String> {
    let worse = report.issues.iter().filter(|issue| issue.severity() > Severity::Note);
    worse.map(|issue| format!("{}: {issue}", issue.code())).collect()
}

#[track_caller]
fn assert_clean(dev: MemDevice, what: &str) -> Report {
    let report = run(dev);
    assert_eq!(complaints(&report), [""; 0], "{what}");
    assert!(report.is_clean() && report.exit_code() == 0 && report.dropped == 0);
    report
}

#[test]
fn fresh_volumes_of_every_geometry_are_clean() {
    let cases: [(u64, &[&str]); 9] = [
        (64, &[]),
        (300, &["-s", "4"]),
        (512, &["-s", "2", "-z", "3"]),
        (700, &["-s", "4", "-z", "2", "-o", "12"]),
        (128, &["-i"]),
        (100, &["-O", FEATURES]),
        (200, &["-O", "extra_attr,project_quota,quota,verity,encrypt"]),
        (64, &["-O", "ro"]),
        (1500, &["-l", "label", "-E", "mp4"]),
    ];
    for (mib, args) in cases {
        let report = assert_clean(mkfs(mib, args), &format!("{mib} MiB {args:?}"));
        let counts = report.counts.expect("walked");
        assert!(counts.dirs >= 1 && counts.nodes >= 1 && counts.blocks >= 2, "{counts:?}");
    }
}

#[test]
fn the_end_of_the_device_that_mkfs_counts_as_free_is_noted() {
    let report = run(mkfs(300, &["-s", "4"]));
    assert!(matches!(report.issues[..], [Issue::FreeSegmentTail { stored: 132, found: 130 }]), "{:?}", report.issues);
}

#[test]
fn what_linux_wrote_is_clean() {
    let spec = Spec { big_dir: 3000, ..Spec::small() };
    let cases: [(u64, &[&str], &str); 5] = [
        (512, &[], ""),
        (512, &["-O", FEATURES], "mode=lfs"),
        (800, &["-s", "4", "-z", "2"], ""),
        (512, &["-i", "-O", "extra_attr"], "noinline_dentry,noinline_data,active_logs=2"),
        (600, &["-s", "2", "-O", "extra_attr,flexible_inline_xattr,inode_checksum"], "inline_xattr_size=100"),
    ];
    for (mib, args, mount) in cases {
        let dev = by_linux(mib, args, mount, &spec);
        let many = run_with(dev.fork(), &CheckOptions { threads: 4, ..CheckOptions::default() });
        let report = assert_clean(dev, &format!("{args:?} {mount}"));
        let counts = report.counts.expect("walked");
        assert!(counts.files > 4000 && counts.dirs > 60 && counts.symlinks > 10 && counts.specials > 10, "{counts:?}");
        assert_eq!((many.issues, many.counts), (report.issues, report.counts), "threads do not change the result");
    }
}

#[test]
fn a_clean_volume_is_walked_only_if_forced() {
    let lazy = CheckOptions { force: false, ..CheckOptions::default() };
    let report = run_with(fresh(), &lazy);
    assert!(report.checked.is_some_and(|checked| !checked.walked) && report.counts.is_none());
    let report = run(fresh());
    assert!(
        report.checked.is_some_and(|checked| checked.walked && checked.pack.number() == 1) && report.counts.is_some()
    );
}

#[test]
fn progress_reaches_the_end_of_every_phase() {
    let done: Arc<[AtomicU64; 6]> = Arc::default();
    let total: Arc<[AtomicU64; 6]> = Arc::default();
    let (done_, total_) = (Arc::clone(&done), Arc::clone(&total));
    let progress = move |now: steadyfs_core::fsck::Progress| {
        assert!(now.done <= now.total, "{now:?}");
        done_[now.phase as usize].fetch_max(now.done, Relaxed);
        total_[now.phase as usize].store(now.total, Relaxed);
    };
    run_with(plain(), &CheckOptions { threads: 3, progress: Some(Arc::new(progress)), ..CheckOptions::default() });
    for phase in [Phase::Volume, Phase::Nat, Phase::Sit, Phase::Nodes, Phase::Directories, Phase::Totals] {
        let (done, total) = (done[phase as usize].load(Relaxed), total[phase as usize].load(Relaxed));
        assert!(total > 0 && done == total, "{}: {done} of {total}", phase.name());
    }
}

#[test]
fn a_device_without_a_volume_cannot_be_checked() {
    let report = run(MemDevice::new(1000));
    assert!(matches!(report.issues[..], [Issue::NoSuperblock { .. }]));
    assert_eq!((report.exit_code(), report.worst(), report.checked), (8, Some(Severity::Fatal), None));
    assert!(steadyfs_core::fsck::check(Arc::new(MemDevice::new(0)), &CheckOptions::default()).is_err());
}
