//! A volume that runs full through the mount.

use crate::harness::{CACHES, Place};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOSPC.raw_os_error())
}

/// Writes until there is no space, and closes; how much was taken.
fn fill(path: &Path) -> u64 {
    let mut file = fs::File::create(path).expect("a file");
    loop {
        match file.write(&[5; 1 << 16]) {
            Ok(len) => assert!(len > 0),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                return file.metadata().expect("attributes").len();
            }
        }
    }
}

#[test]
fn a_full_volume_says_so_and_takes_more_after_a_deletion() {
    let place = Place::sized(100 << 20);
    place.mounted("writethrough", |_| {
        let first = fill(&place.at("first"));
        let free = rustix::fs::statvfs(place.dir()).unwrap();
        assert_eq!(free.f_bavail, 0, "blocks left after {first} bytes");
        for round in 0..5 {
            fs::remove_file(place.at("first")).unwrap();
            // At once: what was deleted is being freed.
            let again = fill(&place.at("first"));
            assert!(again > first * 9 / 10, "round {round}: {again} of {first} bytes");
        }
        fs::remove_file(place.at("first")).unwrap();
        fs::write(place.at("last"), b"fits").unwrap();
    });
    place.check();
}

#[test]
fn with_write_back_a_full_volume_is_found_at_fsync() {
    let place = Place::sized(100 << 20);
    place.mounted("writeback_cache", |_| {
        fs::write(place.at("before"), vec![1; 1 << 20]).unwrap();
        let mut file = fs::File::create(place.at("large")).unwrap();
        let written = (0..150).try_for_each(|_| file.write_all(&[5; 1 << 20]));
        let error = written.and_then(|()| file.sync_all()).unwrap_err();
        assert!(is_full(&error), "{error}");
        drop(file);
        fs::remove_file(place.at("large")).unwrap();
        let mut file = fs::File::create(place.at("after")).unwrap();
        file.write_all(&[2; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(fs::read(place.at("before")).unwrap(), vec![1; 1 << 20]);
    });
    place.check();
}

/// Writes to the kernel's cache more than there is room for; how much room that was.
fn overfill(place: &Place, file: &fs::File, byte: u8) -> Vec<u8> {
    let free = rustix::fs::statvfs(place.dir()).unwrap();
    let len = (free.f_bavail * free.f_frsize) as usize;
    let ballast = fs::File::create(place.at("ballast")).unwrap();
    (&ballast).write_all(&vec![7; len / 2]).unwrap();
    ballast.sync_all().unwrap();
    let data = vec![byte; len / 4 * 3];
    file.write_all_at(&data, 0).unwrap();
    let error = file.sync_all().unwrap_err();
    assert!(is_full(&error), "{error}");
    fs::remove_file(place.at("ballast")).unwrap();
    data
}

#[test]
fn no_fsync_succeeds_over_contents_that_found_no_room() {
    let place = Place::sized(100 << 20);
    place.mounted("", |_| {
        let file = fs::File::create(place.at("file")).unwrap();
        let data = overfill(&place, &file, 1);
        // There is room now, but what the kernel dropped it sends never again.
        for file in [&file, &file, &fs::File::open(place.at("file")).unwrap()] {
            let error = file.sync_all().unwrap_err();
            assert!(is_full(&error), "{error}");
        }
        file.write_all_at(&data, 0).unwrap();
        file.sync_all().unwrap();
        overfill(&place, &fs::File::create(place.at("cut")).unwrap(), 2);
        let cut = fs::File::options().write(true).open(place.at("cut")).unwrap();
        assert!(is_full(&cut.sync_all().unwrap_err()));
        cut.set_len(0).unwrap();
        cut.sync_all().unwrap();
    });
    place.check();
    place.mounted("", |_| {
        let kept = fs::read(place.at("file")).unwrap();
        assert!(!kept.is_empty() && kept.iter().all(|byte| *byte == 1), "{} bytes", kept.len());
    });
}

#[test]
fn an_allocation_of_all_that_is_free_takes_nothing() {
    use std::os::unix::fs::MetadataExt;
    for cache in CACHES {
        let place = Place::sized(100 << 20);
        place.mounted(cache, |_| {
            let file = fs::File::create(place.at("file")).expect("a file");
            let state = || {
                let meta = file.metadata().expect("attributes");
                (rustix::fs::statvfs(place.dir()).expect("statfs").f_bfree, meta.blocks(), meta.len())
            };
            let before = state();
            for flags in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE, FallocateFlags::ZERO_RANGE] {
                // As `fallocate -l $(df avail)` does: the nodes that would map it have no room.
                let refused = rustix::fs::fallocate(&file, flags, 0, before.0 * 4096);
                assert_eq!((refused, state()), (Err(Errno::NOSPC), before), "{cache}, {flags:?}");
            }
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, before.0 * 4000).expect("nodes have room, too");
        });
        place.check();
    }
}
