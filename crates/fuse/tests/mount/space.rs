//! A volume that runs full through the mount.

use crate::harness::Place;
use rustix::io::Errno;
use std::fs;
use std::io::Write;
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
