//! What a second user may do: a program that he changes no longer runs with the rights of its owner, in every way to
//! change it and every way to cache.
//!
//! As on Linux' own file systems, pages written through a mapping count as no change: no file system of Linux looks at
//! who writes those.

use crate::harness::{CACHES, Place, as_nobody};
use rustix::fs::{FallocateFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::iter;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The program says with whose rights it runs, and does not mind zeros behind its end.
const PROGRAM: &str = "/usr/bin/id";
const NOBODY: u32 = 65_534;
const BEHIND: u64 = 1 << 20;

type Way = (&'static str, fn(&Path));

/// Each leaves the program able to run, or cuts it to nothing.
const WAYS: [Way; 11] = [
    ("write", |path| writer(path).write_all_at(b"\x7f", 0).unwrap()),
    ("write at the end", |path| OpenOptions::new().append(true).open(path).unwrap().write_all_at(b"x", 0).unwrap()),
    ("write with O_DIRECT", |path| {
        let direct = OpenOptions::new().write(true).custom_flags(0o40000).open(path).unwrap();
        direct
            .write_all_at(&vec![0; 8192][..4096], BEHIND)
            .or_else(|_| writer(path).write_all_at(b"x", BEHIND))
            .unwrap();
    }),
    ("truncate", |path| writer(path).set_len(BEHIND / 2).unwrap()),
    ("truncate by name", |path| {
        let status = Command::new("truncate").args(["-s", "600000"]).arg(path).uid(NOBODY).gid(NOBODY).status();
        assert!(status.unwrap().success());
    }),
    ("O_TRUNC", |path| drop(OpenOptions::new().write(true).truncate(true).open(path).unwrap())),
    ("copy_file_range", |path| {
        let (mut from, mut to) = (0, BEHIND);
        let source = File::open(path.with_file_name("source")).unwrap();
        assert_eq!(rustix::fs::copy_file_range(&source, Some(&mut from), writer(path), Some(&mut to), 4096), Ok(4096));
    }),
    ("fallocate", |path| allocate(path, FallocateFlags::empty())),
    ("fallocate that keeps the size", |path| allocate(path, FallocateFlags::KEEP_SIZE)),
    ("punch", |path| allocate(path, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)),
    ("zero range", |path| allocate(path, FallocateFlags::ZERO_RANGE)),
];

fn writer(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).expect("everybody may write")
}

fn allocate(path: &Path, how: FallocateFlags) {
    rustix::fs::fallocate(writer(path), how, BEHIND, 8192).unwrap();
}

fn program(path: &Path, mode: u32) {
    let mut contents = fs::read(PROGRAM).unwrap();
    contents.resize(BEHIND as usize + 4096, 0);
    fs::write(path, contents).unwrap();
    std::os::unix::fs::chown(path, None, Some(0)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// User and group as which the program runs when a user without rights starts it.
fn runs_as(path: &Path) -> [String; 2] {
    ["-u", "-g"].map(|what| {
        let run = || Command::new(path).arg(what).uid(NOBODY).gid(NOBODY).output();
        // A process that another test has just forked holds what was open for writing then, until it runs its own
        // program.
        let busy = |output: &std::io::Result<_>| matches!(output, Err(e) if e.kind() == ErrorKind::ExecutableFileBusy);
        let output =
            iter::repeat_with(run).take(500).find(|output| !busy(output)).expect("nobody writes it").expect("it runs");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_program_that_a_user_changed_runs_with_his_own_rights() {
    for cache in CACHES {
        let place = Place::new();
        place.open_to_all();
        place.mounted(cache, |_| {
            fs::write(place.at("source"), vec![0; 4096]).unwrap();
            for (way, change) in WAYS {
                let path = place.at(&way.replace(' ', "_"));
                program(&path, 0o6777);
                assert_eq!(runs_as(&path), ["0", "0"], "{cache}: set-id programs do not work, so this shows nothing");
                as_nobody(|| change(&path));
                if way == "O_TRUNC" {
                    // By root, which takes nothing away.
                    fs::write(&path, fs::read(PROGRAM).unwrap()).unwrap();
                }
                // At once, before anybody has asked for the mode.
                assert_eq!(runs_as(&path), [NOBODY.to_string(), NOBODY.to_string()], "{cache}: {way}");
                assert_eq!(mode(&path), 0o777, "{cache}: {way}");
            }
        });
        // What the volume says, not what the kernel remembers.
        place.mounted(cache, |_| {
            WAYS.iter().for_each(|(way, _)| assert_eq!(mode(&place.at(&way.replace(' ', "_"))), 0o777))
        });
        place.check();
    }
}

#[test]
fn what_root_changes_keeps_its_bits_and_a_group_bit_without_execution_stays_for_members() {
    for cache in CACHES {
        let place = Place::new();
        place.open_to_all();
        place.mounted(cache, |_| {
            fs::write(place.at("source"), vec![0; 4096]).unwrap();
            for (way, change) in WAYS {
                let path = place.at("program");
                program(&path, 0o6777);
                // A command that the way starts is nobody's anyway.
                if way != "truncate by name" {
                    change(&path);
                    assert_eq!(mode(&path), 0o6777, "{cache}: {way} by root");
                }
                // Of a group that may not run it, the bit means mandatory locking; the group's members do not take it
                // away.
                program(&path, 0o2767);
                as_nobody(|| change(&path));
                assert_eq!(mode(&path), 0o767, "{cache}: {way} by somebody outside of the group");
                program(&path, 0o2767);
                std::os::unix::fs::chown(&path, None, Some(NOBODY)).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o2767)).unwrap();
                as_nobody(|| change(&path));
                assert_eq!(mode(&path), 0o2767, "{cache}: {way} by a member of the group");
            }
        });
    }
}

#[test]
fn capabilities_go_with_the_first_change_by_anybody() {
    // As the kernel writes cap_net_raw+ep.
    let capability = [0x01, 0, 0, 0x02, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for cache in CACHES {
        let place = Place::new();
        place.open_to_all();
        place.mounted(cache, |_| {
            fs::write(place.at("source"), vec![0; 4096]).unwrap();
            for (way, change) in WAYS {
                let path = place.at("program");
                let value = || rustix::fs::getxattr(&path, "security.capability", &mut [0; 64]);
                for by_root in [false, true] {
                    program(&path, 0o777);
                    rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty()).unwrap();
                    assert_eq!(value(), Ok(capability.len()));
                    if by_root {
                        change(&path)
                    } else {
                        as_nobody(|| change(&path))
                    }
                    assert_eq!(value(), Err(Errno::NODATA), "{cache}: {way}, by root: {by_root}");
                }
            }
        });
    }
}

#[test]
fn advice_is_the_owners_to_give() {
    let place = Place::new();
    place.open_to_all();
    place.mounted("", |_| {
        let (path, own) = (place.at("roots"), place.at("own"));
        let advise = |path: &Path| rustix::fs::setxattr(path, "system.advise", &[1], XattrFlags::empty());
        program(&path, 0o600);
        program(&own, 0o600);
        std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
        assert_eq!(as_nobody(|| advise(&path)), Err(Errno::PERM));
        let ctime = |path: &Path| fs::metadata(path).map(|meta| (meta.ctime(), meta.ctime_nsec())).unwrap();
        let before = ctime(&own);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(as_nobody(|| advise(&own)), Ok(()));
        assert!(ctime(&own) > before);
        assert_eq!(advise(&path), Ok(()));
    });
}

#[test]
fn append_only_files_are_touched_and_not_backdated() {
    for cache in CACHES {
        let place = Place::new();
        place.mounted(cache, |_| {
            let path = place.at("log");
            fs::write(&path, b"line\n").unwrap();
            let run =
                |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(&path).output().unwrap().status.success();
            assert!(run(&["chattr", "+a"]));
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(run(&["touch"]) && run(&["touch", "-a"]) && run(&["touch", "-m"]), "{cache}");
            assert!(fs::metadata(&path).unwrap().modified().unwrap() > before, "{cache}");
            assert!(!run(&["touch", "-d", "2001-01-01"]) && !run(&["touch", "-m", "-d", "2001-01-01"]), "{cache}");
            assert!(run(&["chattr", "-a"]));
        });
    }
}

#[test]
fn what_is_changed_later_is_never_older() {
    let place = Place::new();
    place.mounted("writeback_cache", |_| {
        let mut swapped = [0; 2];
        for round in 0..2000 {
            let [a, b] = ["a", "b"].map(|name| place.at(&format!("{name}{round}")));
            let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
            if round % 2 == 0 {
                fs::create_dir(&a).unwrap()
            } else {
                drop(File::create(&a).unwrap())
            }
            fs::write(&b, b"x").unwrap();
            swapped[round % 2] += u32::from(modified(&b) < modified(&a));
        }
        assert_eq!(
            swapped, [0; 2],
            "of 1000 each, directories and empty files, that look newer than a file written after them"
        );
    });
}
