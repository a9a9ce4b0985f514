//! What was fsynced here is there after the crash, exactly, in every shape that a file can have.

use crate::recovery::support::{DIR, FEATURES, FILE, Volume, assert_same, at, complaints, recovered, seen, tree};
use std::sync::Arc;
use steadyfs_core::{FallocMode, SetAttr, SetTime, XattrFlags};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::inode::Time;

fn truncate(v: &Volume, file: &steadyfs_core::InodeRef, size: u64) {
    v.fs.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

fn punch(v: &Volume, file: &steadyfs_core::InodeRef, from: u64, pages: u64) {
    v.fs.fallocate(file, FallocMode::PunchHole, from * 4096, pages * 4096).unwrap();
}

/// The crashed volume shows what the one before the crash did: to readers, after a mount, and after the next one.
#[track_caller]
fn assert_recovers(v: &Volume, what: &str) -> MemDevice {
    let before = tree(&v.fs);
    let crashed = v.crash();
    assert_same(&before, &seen(crashed.fork()), what);
    let (after, whole) = recovered(crashed);
    assert_same(&before, &after, what);
    assert_eq!(complaints(&whole), [""; 0], "{what}");
    let (again, _) = recovered(whole.fork());
    assert_same(&before, &again, what);
    whole
}

/// Files that the checkpoint has.
fn old_files(v: &Volume) {
    v.make("d", DIR);
    for name in
        ["small", "inline", "punched", "cut", "regrown", "renewed", "labelled", "unlabelled", "mode", "replaced"]
    {
        v.file(&format!("d/{name}"), 12);
    }
    v.file("d/large", 2500);
    let inline = at(&v.fs, "d/inline");
    truncate(v, &inline, 0);
    let tiny = v.make("d/tiny", FILE);
    v.fs.write(&tiny, 0, b"fits the inode").unwrap();
    for name in ["labelled", "unlabelled"] {
        v.fs.setxattr(&at(&v.fs, &format!("d/{name}")), b"user.big", &[7; 3000], XattrFlags::default()).unwrap();
    }
    v.fs.sync().unwrap();
}

fn change_old_files(v: &Volume) {
    let open = |name: &str| at(&v.fs, &format!("d/{name}"));
    v.fill(&open("small"), 3, 4, b'S');
    punch(v, &open("punched"), 2, 5);
    truncate(v, &open("cut"), 5000);
    truncate(v, &open("regrown"), 100);
    truncate(v, &open("regrown"), 60_000);
    v.fs.fallocate(&open("renewed"), FallocMode::ZeroRange { keep_size: true }, 4096, 8192).unwrap();
    v.fs.fallocate(&open("renewed"), FallocMode::Allocate { keep_size: true }, 60_000, 90_000).unwrap();
    v.fs.setxattr(&open("labelled"), b"user.big", &[8; 2900], XattrFlags::default()).unwrap();
    v.fs.setxattr(&open("labelled"), b"user.more", b"x", XattrFlags::default()).unwrap();
    v.fs.removexattr(&open("unlabelled"), b"user.big").unwrap();
    v.fs.setattr(&open("mode"), &SetAttr { mode: Some(0o4711), uid: Some(7), gid: Some(8), ..SetAttr::default() })
        .unwrap();
    let past = SetTime::At(Time { secs: -5, nanos: 17 });
    v.fs.setattr(&open("mode"), &SetAttr { mtime: Some(past), ..SetAttr::default() }).unwrap();
    v.fill(&open("large"), 1000, 40, b'L');
    v.fill(&open("large"), 2600, 300, b'L');
    punch(v, &open("large"), 1100, 700);
    v.fs.write(&open("tiny"), 5, b"more").unwrap();
}

#[test]
fn files_of_the_checkpoint_are_as_of_their_last_fsync() {
    for features in [&[][..], FEATURES] {
        let v = Volume::new(features);
        old_files(&v);
        change_old_files(&v);
        for name in ["small", "punched", "cut", "regrown", "renewed", "labelled", "unlabelled", "mode", "large", "tiny"]
        {
            v.fsync(&at(&v.fs, &format!("d/{name}")));
        }
        assert!(v.fs.sync_stats().chained > 6, "{:?}", v.fs.sync_stats());
        assert_recovers(&v, "changed once");
        // Later nodes of the same files replace the earlier ones; inline contents leave the inode.
        v.fill(&at(&v.fs, "d/small"), 0, 20, b'T');
        v.fs.write(&at(&v.fs, "d/tiny"), 4000, &[9; 5000]).unwrap();
        v.fill(&at(&v.fs, "d/large"), 1000, 10, b'M');
        for name in ["small", "tiny", "large"] {
            v.fsync(&at(&v.fs, &format!("d/{name}")));
        }
        assert_recovers(&v, "changed twice");
    }
}

#[test]
fn new_files_have_their_names_back() {
    for features in [&[][..], FEATURES] {
        let v = Volume::new(features);
        old_files(&v);
        let sizes = [0, 1, 3, 900, 1900, 2100];
        for (n, pages) in sizes.into_iter().enumerate() {
            v.fsync(&v.file(&format!("d/new-{n}"), pages));
        }
        let sparse = v.make("d/sparse", FILE);
        v.fill(&sparse, 3000, 2, b'p');
        v.fs.setxattr(&sparse, b"user.a", &[1; 2000], XattrFlags::default()).unwrap();
        v.fsync(&sparse);
        let tiny = v.make("d/new-tiny", FILE);
        v.fs.write(&tiny, 0, b"inline").unwrap();
        v.fsync(&tiny);
        let whole = assert_recovers(&v, "new files");
        // The volume goes on, and its number space is as free as before.
        let next = Volume::on(whole);
        next.fsync(&next.file("d/after", 30));
        assert_recovers(&next, "after a recovery");
    }
}

#[test]
fn many_files_fill_directories_and_segments() {
    let v = Volume::new(&[]);
    v.make("d", DIR);
    v.fs.sync().unwrap();
    for n in 0..900 {
        v.fsync(&v.file(&format!("d/file-{n}"), n % 3));
    }
    assert_recovers(&v, "900 files");
}

#[test]
fn a_name_that_was_given_anew_is_the_new_file_and_the_old_one_is_gone() {
    let v = Volume::new(&[]);
    v.make("d", DIR);
    v.file("d/replaced", 20);
    v.fs.sync().unwrap();
    let free = v.fs.statfs().blocks_free;
    let dir = at(&v.fs, "d");
    v.fs.unlink(&dir, b"replaced").unwrap();
    v.fsync(&v.file("d/replaced", 5));
    // Made and replaced again, all in one chain.
    v.fs.unlink(&dir, b"replaced").unwrap();
    v.fsync(&v.file("d/replaced", 7));
    assert!(v.fs.sync_stats().chained >= 2, "{:?}", v.fs.sync_stats());
    let whole = assert_recovers(&v, "replaced twice");
    let fs = crate::recovery::support::mount(Arc::new(whole) as Arc<dyn Device>, "").unwrap();
    fs.reap().unwrap();
    assert_eq!(fs.statfs().blocks_free, free + 20 - 7, "nothing is left of the others");
}

#[test]
fn what_was_not_fsynced_is_as_of_the_checkpoint() {
    let v = Volume::new(FEATURES);
    old_files(&v);
    let before = tree(&v.fs);
    v.fill(&at(&v.fs, "d/small"), 0, 12, b'X');
    v.file("d/lost", 4);
    v.fs.unlink(&at(&v.fs, "d"), b"cut").unwrap();
    let kept = v.file("d/kept", 4);
    v.fsync(&kept);
    let (mut after, whole) = recovered(v.crash());
    assert_eq!(complaints(&whole), [""; 0]);
    assert!(after.remove("/d/kept").is_some());
    assert_same(&before, &after, "the rest");
}
