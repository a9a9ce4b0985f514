//! Volumes that mkfs.f2fs and Linux made are whole in our eyes, too.

use crate::common::mkfs;
use crate::images::{fresh, plain, run, run_with};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_core::fsck::{CheckOptions, Issue, Phase, Report, Severity};
use steadyfs_core::raw::Image;
use steadyfs_device::{FileDevice, MemDevice, OpenOptions};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_testkit::Manifest;
use steadyfs_testkit::images::{crashed, matrix, try_each};
use steadyfs_testkit::manifest::Kind;

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
        (100, &["-O", "extra_attr,inode_checksum,sb_checksum,flexible_inline_xattr,inode_crtime,lost_found"]),
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

fn quota_files(path: &Path) -> u64 {
    let image = Image::open(Arc::new(open(path))).expect("a volume");
    QuotaKind::ALL.into_iter().filter(|kind| image.superblock().quota_ino(*kind).is_some()).count() as u64
}

/// What the manifest of a volume says that must be found: files, directories, symbolic links, special files, names.
/// (What Linux hides, quota files, is not in it.)
fn expected(manifest: &Manifest) -> [u64; 5] {
    let inodes = |kinds: &[Kind]| {
        // Of an inode with several names the first one counts.
        let firsts =
            manifest.entries.iter().filter(|(path, entry)| entry.same_as.as_ref().is_none_or(|first| first == *path));
        firsts.filter(|(_, entry)| kinds.contains(&entry.kind)).count() as u64
    };
    let specials = inodes(&[Kind::Fifo, Kind::Socket, Kind::Char, Kind::Block]);
    let names = manifest.entries.keys().filter(|path| *path != ".").count() as u64;
    [inodes(&[Kind::File]), inodes(&[Kind::Dir]), inodes(&[Kind::Symlink]), specials, names]
}

fn open(path: &Path) -> FileDevice {
    FileDevice::open(path, OpenOptions { read_only: true, ..OpenOptions::default() }).expect("the image can be opened")
}

fn found(report: &Report, quota_files: u64) -> [u64; 5] {
    let counts = report.counts.expect("walked");
    let files = counts.files - quota_files - counts.orphans;
    [files, counts.dirs, counts.symlinks, counts.specials, counts.links]
}

#[test]
fn what_linux_wrote_is_clean() {
    try_each(&matrix(), |recipe| {
        let image = recipe.image().expect("Linux makes the volume");
        let report = run(open(&image.path));
        if recipe.name == "checkpoint-disabled" {
            // Linux marks the state that such a mount leaves behind.
            assert!(matches!(report.issues[..], [.., Issue::MarkedFsck { .. }]), "{:?}", report.issues);
        } else {
            assert_eq!(complaints(&report), [""; 0], "{}", recipe.name);
            let quotas = quota_files(&image.path);
            assert_eq!(found(&report, quotas), expected(&image.manifest), "{}", recipe.name);
        }
        let many = run_with(open(&image.path), &CheckOptions { threads: 4, ..CheckOptions::default() });
        assert_eq!((many.issues, many.counts), (report.issues, report.counts), "threads do not change the result");
    });
}

/// A crash loses what came after the checkpoint, and leaves no damage behind.
#[test]
fn what_a_power_failure_left_behind_is_clean() {
    let chains_and_orphans = try_each(&crashed(), |recipe| {
        let image = recipe.image().expect("Linux makes the volume");
        let report = run(open(&image.path));
        assert_eq!(complaints(&report), [""; 0], "{}", recipe.name);
        let left = (u64::from(report.roll_forward.is_some()), report.counts.expect("walked").orphans);
        if recipe.name.starts_with("fsync-chain") {
            let found = report.roll_forward.expect("the workload leaves a chain");
            assert!(found.files > 0 && found.nodes >= found.files, "{found:?}");
        }
        if report.counts.expect("walked").orphans == 0 {
            let at_checkpoint = image.at_checkpoint.expect("Linux has seen the checkpoint");
            let quotas = quota_files(&image.path);
            assert_eq!(found(&report, quotas), expected(&at_checkpoint), "{}", recipe.name);
        }
        left
    });
    let (chains, orphans) = chains_and_orphans.iter().fold((0, 0), |sum, left| (sum.0 + left.0, sum.1 + left.1));
    assert!(chains >= 4 && orphans > 1000, "{chains} chains, {orphans} orphans");
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
