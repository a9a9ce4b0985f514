//! Access times, also of contents that the kernel reads from its cache.

use crate::harness::{CACHES, Place};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Access, modification and change time.
fn times(path: &Path) -> [(i64, i64); 3] {
    let attr = fs::metadata(path).unwrap();
    [(attr.atime(), attr.atime_nsec()), (attr.mtime(), attr.mtime_nsec()), (attr.ctime(), attr.ctime_nsec())]
}

/// Longer than a tick of the clock that stamps files.
fn tick() {
    std::thread::sleep(Duration::from_millis(20));
}

fn read(options: &mut OpenOptions, path: &Path) {
    assert_eq!(options.read(true).open(path).unwrap().read(&mut [0; 100]).unwrap(), 4);
}

#[test]
fn reading_what_was_just_written_sets_the_access_time_once() {
    for cache in CACHES {
        let place = Place::new();
        place.mounted(cache, |_| {
            let path = place.at("file");
            for round in 0..2 {
                fs::write(&path, "aaa\n").unwrap();
                let written = times(&path);
                tick();
                drop(File::options().write(true).open(&path).unwrap());
                assert_eq!(times(&path), written, "{cache}, round {round}: not for reading");
                read(&mut File::options(), &path);
                let after = times(&path);
                assert!(after[0] > written[0], "{cache}, round {round}: {after:?}, {written:?}");
                assert_eq!(after[1..], written[1..], "{cache}, round {round}");
                tick();
                read(&mut File::options(), &path);
                assert_eq!(times(&path), after, "{cache}, round {round}: relatime");
                tick();
            }
        });
        let before = place.mounted(cache, |_| times(&place.at("file")));
        place.mounted(&format!("noatime,{cache}"), |_| {
            fs::write(place.at("file"), "bbb\n").unwrap();
            tick();
            read(&mut File::options(), &place.at("file"));
            assert_eq!(times(&place.at("file"))[0], before[0], "{cache}");
        });
    }
}

/// O_NOATIME counts for what the kernel has cached.
#[test]
fn who_asks_for_it_leaves_no_trace() {
    let place = Place::new();
    place.mounted("", |_| {
        let path = place.at("file");
        fs::write(&path, "aaa\n").unwrap();
        let written = times(&path);
        tick();
        read(File::options().custom_flags(OFlags::NOATIME.bits().cast_signed()), &path);
        assert_eq!(times(&path), written);
    });
}
