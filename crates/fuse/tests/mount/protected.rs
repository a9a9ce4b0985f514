//! Files that only grow (`chattr +a`) or stand still (`chattr +i`), through the kernel's cache: what it took reaches
//! the volume, and nothing else does.

use crate::harness::Place;
use rustix::fs::{IFlags, OFlags, fcntl_setfl, ioctl_getflags, ioctl_setflags};
use std::fs::{File, OpenOptions, read, write};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CACHES: [&str; 3] = ["writeback_cache", "writethrough", "direct_io"];

fn mark(path: &Path, flags: IFlags) {
    let file = File::open(path).expect("it opens");
    let others = ioctl_getflags(&file).expect("flags").difference(IFlags::APPEND | IFlags::IMMUTABLE);
    ioctl_setflags(&file, others | flags).expect("flags can be set");
}

fn appending(path: &Path) -> File {
    OpenOptions::new().read(true).append(true).open(path).expect("it opens to append")
}

#[test]
fn appends_to_an_append_only_file_survive_a_remount() {
    for cache in CACHES {
        let place = Place::sized(100 << 20);
        let mut model = b"first line\n".to_vec();
        let log = || place.at("log");
        for round in 0..3 {
            place.mounted(cache, |_| {
                if round == 0 {
                    write(log(), &model).unwrap();
                    mark(&log(), IFlags::APPEND);
                }
                // Within a page, up to its end, whole pages, and across many; synced or not.
                for (number, len) in [7, 4096 - model.len() % 4096 - 7, 4096, 30_000].into_iter().enumerate() {
                    let line: Vec<u8> = (0..len).map(|at| b'a' + (at % 23 + round) as u8).collect();
                    let mut file = appending(&log());
                    file.write_all(&line).unwrap();
                    if number % 2 == 0 {
                        file.sync_all().unwrap_or_else(|error| panic!("{cache}: {error}"));
                    }
                    model.extend(line);
                }
                assert!(read(log()).unwrap() == model, "{cache}, round {round}, before");
            });
            place.mounted(cache, |_| assert!(read(log()).unwrap() == model, "{cache}, round {round}"));
        }
    }
}

/// A descriptor to append with can be made one to write with: the kernel does not know that it may not.
#[test]
fn what_an_append_only_file_holds_does_not_change() {
    for cache in CACHES {
        let place = Place::sized(100 << 20);
        let old = [b'x'; 10_000];
        place.mounted(cache, |_| {
            write(place.at("log"), old).unwrap();
            File::open(place.at("log")).unwrap().sync_all().unwrap();
            mark(&place.at("log"), IFlags::APPEND);
            let file = appending(&place.at("log"));
            fcntl_setfl(&file, OFlags::empty()).unwrap();
            let tampered = file.write_all_at(b"y", 5000).and_then(|()| file.sync_all());
            assert!(tampered.is_err(), "{cache}");
        });
        place.mounted(cache, |_| assert!(read(place.at("log")).unwrap() == old, "{cache}"));
    }
}

#[test]
fn what_was_written_before_a_file_became_immutable_survives() {
    for cache in CACHES {
        let place = Place::sized(100 << 20);
        place.mounted(cache, |_| {
            let mut file = File::create(place.at("file")).unwrap();
            file.write_all(&[7; 5000]).unwrap();
            mark(&place.at("file"), IFlags::IMMUTABLE);
            file.sync_all().unwrap_or_else(|error| panic!("{cache}: {error}"));
            drop(file);
            assert!(File::create(place.at("file")).is_err(), "{cache}: it is immutable");
        });
        place.mounted(cache, |_| {
            assert!(read(place.at("file")).unwrap() == [7; 5000], "{cache}");
            mark(&place.at("file"), IFlags::empty());
        });
    }
}
