//! A volume that runs full through the mount.

use crate::harness::{CACHES, Place, as_member_of, as_nobody, until};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

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

/// Writes pieces of 64 KiB until one is refused; how many bytes were taken.
fn write_on(file: &mut fs::File) -> u64 {
    const PIECE: usize = 1 << 16;
    for taken in 0.. {
        match file.write_all(&[3; PIECE]) {
            Ok(()) => assert!(taken * PIECE < 4 << 30, "takes writes for ever"),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                return (taken * PIECE) as u64;
            }
        }
    }
    0
}

fn free(place: &Place) -> u64 {
    let stat = rustix::fs::statvfs(place.dir()).expect("statfs");
    stat.f_bavail * stat.f_frsize
}

/// As `dd if=/dev/zero of=file` does it: write(2) itself fails, and not long after the room is used up.
#[test]
fn cached_writes_end_where_the_room_ends() {
    for (options, most_too_much) in [("", 24 << 20), ("noblkdev", 24 << 20), ("notune", u64::MAX)] {
        let place = Place::sized(256 << 20);
        place.mounted(options, |_| {
            let before = vec![1; 1 << 20];
            fs::write(place.at("before"), &before).unwrap();
            let there = free(&place);
            let mut file = fs::File::options().create_new(true).read(true).write(true).open(place.at("fill")).unwrap();
            let taken = write_on(&mut file);
            assert!(taken > there * 9 / 10 && taken - there.min(taken) < most_too_much, "{taken} bytes of {there}");
            // Who goes on is refused again; who reads and looks is not, with the same open file and at the end, too.
            for _ in 0..3 {
                assert!(is_full(&file.write_all(&[4; 5000]).unwrap_err()));
                let mut buf = [0; 5000];
                assert_eq!(file.read_at(&mut buf, 0).unwrap(), buf.len());
                file.read_at(&mut buf, file.metadata().unwrap().len()).unwrap();
                assert!(fs::metadata(place.at("fill")).is_ok());
            }
            // Whatever is there is overwritten in place.
            let old = fs::File::options().write(true).open(place.at("before")).unwrap();
            old.write_all_at(&before, 0).unwrap();
            old.sync_all().unwrap();
            drop(old);
            assert!(is_full(&file.sync_all().unwrap_err()));
            drop(file);
            assert_eq!(fs::read(place.at("before")).unwrap(), before);
            // With room again everything goes on at once.
            let mut file = fs::File::options().append(true).open(place.at("fill")).unwrap();
            fs::remove_file(place.at("before")).unwrap();
            file.write_all(&[6; 1 << 18]).unwrap();
            drop(file);
            fs::remove_file(place.at("fill")).unwrap();
            fs::write(place.at("after"), vec![2; 100 << 20]).unwrap();
            fs::File::open(place.at("after")).unwrap().sync_all().unwrap();
        });
        place.check();
        place.mounted("", |_| assert_eq!(fs::read(place.at("after")).unwrap(), vec![2; 100 << 20]));
    }
}

/// Pages that are written again take no room, so the kernel may hold many of them; but a file that is opened then grows
/// no further than others.
#[test]
fn a_new_file_ends_where_the_room_ends_after_long_overwriting() {
    let place = Place::sized(256 << 20);
    place.mounted("", |_| {
        let many = vec![1; 100 << 20];
        let old = fs::File::create(place.at("old")).unwrap();
        // Not `max_bytes`: the kernel computes the figure anew from the memory that is free when it is read.
        let limited = || {
            let dev = fs::metadata(place.dir()).unwrap().dev();
            let device = format!("/sys/class/bdi/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
            let knob = |suffix| fs::read_to_string(format!("{device}{suffix}/strict_limit"));
            knob("-fuseblk").or_else(|_| knob("")).unwrap().trim() == "1"
        };
        old.write_all_at(&many, 0).unwrap();
        old.sync_all().unwrap();
        assert!(limited());
        until("the limit is lifted", || {
            old.write_all_at(&many[..1 << 20], 0).unwrap();
            old.sync_data().unwrap();
            !limited()
        });
        old.write_all_at(&many, 0).unwrap();
        let there = free(&place);
        let mut file = fs::File::create(place.at("fill")).unwrap();
        assert!(limited());
        let taken = write_on(&mut file);
        assert!(taken > there * 9 / 10 && taken < there + (24 << 20), "{taken} bytes of {there}");
        drop(file);
        fs::remove_file(place.at("fill")).unwrap();
        old.sync_all().unwrap();
    });
    place.check();
}

/// The kernel takes one write whole, whatever is free. When the file is closed its size is what found room.
#[test]
fn a_file_that_found_no_room_is_as_long_as_what_did() {
    let place = Place::sized(100 << 20);
    place.mounted("", |_| {
        let (there, much) = (free(&place), vec![3; 200 << 20]);
        let mut file = fs::File::create(place.at("fill")).unwrap();
        file.write_all(&much).unwrap();
        assert_eq!(file.metadata().unwrap().len(), much.len() as u64);
        drop(file);
        until("the size is that of what there is", || {
            let meta = fs::metadata(place.at("fill")).unwrap();
            meta.len() <= there + (32 << 20) && meta.blocks() * 512 <= there
        });
        let sized = fs::metadata(place.at("fill")).unwrap().len();
        assert_eq!(fs::read(place.at("fill")).unwrap().len() as u64, sized);
    });
    place.check();
}

/// Though the kernel asks nobody at a close (FLUSH): it writes back before, and knows itself what was refused.
#[test]
fn with_write_back_a_close_says_that_the_volume_is_full() {
    let place = Place::sized(100 << 20);
    place.mounted("writeback_cache", |_| {
        fs::write(place.at("before"), b"closed").unwrap();
        let large = format!("of={}", place.at("large").display());
        let written = Command::new("dd")
            .env("LC_ALL", "C")
            .args(["if=/dev/zero", "bs=200M", "count=1", &large])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&written.stderr);
        assert!(!written.status.success() && said.contains("No space left on device"), "{said}");
        assert!(said.contains("closing output file"), "not by the write: {said}");
    });
    place.check();
}

#[test]
fn several_who_fill_a_volume_are_all_stopped() {
    const WRITERS: u64 = 4;
    let place = Place::sized(256 << 20);
    place.mounted("", |_| {
        let there = free(&place);
        let taken: u64 = std::thread::scope(|threads| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|n| {
                    let path = place.at(&format!("fill{n}"));
                    threads.spawn(move || write_on(&mut fs::File::create(path).unwrap()))
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert!(taken > there * 9 / 10 && taken < there + (48 << 20), "{taken} bytes of {there}");
    });
    place.check();
}

/// Allocates all that is free, piece by piece.
fn allocate_all(path: &Path) {
    let file = fs::File::create(path).expect("a file");
    let (mut at, mut piece) = (0, 1 << 30);
    while piece >= 4096 {
        match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, at, piece) {
            Ok(()) => at += piece,
            Err(errno) => {
                assert_eq!(errno, Errno::NOSPC);
                piece /= 2;
            }
        }
    }
    assert!(at > 16 << 20, "{at} bytes were allocated");
}

/// Writes all that is free past the kernel's cache, into a file of this length.
fn write_all_directly(path: &Path, len: u64) {
    let mut options = fs::File::options();
    options.write(true).create_new(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    let file = options.open(path).expect("a file");
    file.set_len(len).unwrap();
    let (piece, mut at) = (vec![3; 1 << 20], 0);
    loop {
        match file.write_at(&piece, at) {
            Ok(written) => at += written as u64,
            Err(error) => {
                assert!(is_full(&error) && at > 16 << 20, "{error} after {at} bytes");
                return;
            }
        }
    }
}

#[test]
fn nobody_takes_the_room_of_what_others_have_written() {
    let direct = |path: &Path| write_all_directly(path, 0);
    let into_a_hole = |path: &Path| write_all_directly(path, 1 << 30);
    for take_all in [&allocate_all as &(dyn Fn(&Path) + Sync), &direct, &into_a_hole] {
        let place = Place::sized(200 << 20);
        place.open_to_all();
        place.mounted("allow_other", |_| {
            fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
            let data = vec![7; 30 << 20];
            let mut file = fs::File::create(place.at("file")).unwrap();
            file.write_all(&data).unwrap();
            as_nobody(|| take_all(&place.at("taken")));
            file.sync_all().expect("there was room when it was written");
            drop(file);
            assert!(fs::read(place.at("file")).unwrap() == data, "other contents");
            fs::remove_file(place.at("taken")).unwrap();
        });
        place.check();
    }
}

/// Bytes of a file that are in the kernel's cache.
fn cached(path: &Path) -> u64 {
    let output = Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    let said = String::from_utf8(output.expect("fincore of util-linux").stdout).unwrap();
    said.trim().parse().unwrap_or_else(|_| panic!("fincore said {said:?}"))
}

#[test]
fn an_allocation_that_leaves_room_drops_nothing_from_the_cache() {
    let place = Place::sized(2 << 30);
    place.mounted("", |_| {
        let mut file = fs::File::create(place.at("file")).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(cached(&place.at("file")), 1 << 20);
        let taken = fs::File::create(place.at("taken")).unwrap();
        rustix::fs::fallocate(&taken, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert_eq!(cached(&place.at("file")), 1 << 20, "there was room for all that the host holds");
    });
    place.check();
}

/// Free bytes, and those that anybody may take.
fn free_bytes(place: &Place) -> (u64, u64) {
    let stat = rustix::fs::statvfs(place.dir()).unwrap();
    (stat.f_bfree * stat.f_frsize, stat.f_bavail * stat.f_frsize)
}

#[test]
fn what_is_set_aside_is_for_root() {
    const ASIDE: u64 = 10 << 20;
    for cache in CACHES {
        let place = Place::sized(200 << 20);
        place.open_to_all();
        place.mounted(&format!("allow_other,reserve_root={},resgid=1234,{cache}", ASIDE >> 12), |_| {
            fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
            let (all, available) = free_bytes(&place);
            assert_eq!(all - available, ASIDE, "{cache}");
            let lines = fs::File::create(place.at("log")).unwrap();
            as_nobody(|| {
                allocate_all(&place.at("taken"));
                let error = fs::create_dir(place.at("more")).unwrap_err();
                assert!(is_full(&error), "{cache}: {error}");
            });
            let (all, available) = free_bytes(&place);
            assert!(available == 0 && all > ASIDE - (1 << 20), "{cache}: {all} {available}");
            (&lines).write_all(&vec![3; 4 << 20]).unwrap();
            lines.sync_all().expect("root has room");
            fs::create_dir(place.at("roots")).unwrap();
            assert!(free_bytes(&place).0 < ASIDE - (4 << 20), "{cache}: root took it from there");
            as_member_of(1234, || fs::create_dir(place.at("members")).unwrap());
            let error = as_nobody(|| fs::create_dir(place.at("more")).unwrap_err());
            assert!(is_full(&error), "{cache}: {error}");
        });
        place.check();
    }
}

#[test]
fn df_tells_the_truth_right_after_rm() {
    let place = Place::sized(200 << 20);
    place.mounted("", |_| {
        let before = free_bytes(&place).0;
        for round in 0..20 {
            for name in 0..10 {
                let file = fs::File::create(place.at(&name.to_string())).unwrap();
                rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4 << 20).unwrap();
            }
            (0..10).for_each(|name| fs::remove_file(place.at(&name.to_string())).unwrap());
            let after = free_bytes(&place).0;
            // One may be just being freed.
            assert!(before.abs_diff(after) < 8 << 20, "round {round}: {before} before, {after} now");
        }
    });
    place.check();
}
