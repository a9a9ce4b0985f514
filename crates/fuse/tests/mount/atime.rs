//! Access times, also of contents that the kernel reads from its cache.

use crate::harness::{CACHES, Place};
use rustix::fs::{
    AtFlags, CWD, IFlags, OFlags, Timespec, Timestamps, UTIME_NOW, ioctl_getflags, ioctl_setflags, utimensat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
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

/// Whether the access time moved, and whether it is behind the modification and the change time, at each step of what
/// happens to a file.
fn story(path: &Path) -> Vec<[bool; 3]> {
    fs::write(path, "aaa\n").unwrap();
    let mut last = times(path)[0];
    let mut look = || {
        let [access, modification, change] = times(path);
        let seen = [access != last, access > modification, access > change];
        last = access;
        tick();
        seen
    };
    let read = || read(&mut File::options(), path);
    let write = || File::options().write(true).open(path).unwrap().write_all(b"bbb\n").unwrap();
    let chmod = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mut seen = vec![look()];
    for act in
        [&read as &dyn Fn(), &read, &write, &read, &read, &|| chmod(0o600), &read, &write, &|| chmod(0o640), &read]
    {
        act();
        seen.push(look());
    }
    seen
}

/// A file system of the kernel's own, taken away when it goes.
struct Reference(std::path::PathBuf);

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn access_times_are_those_that_a_file_system_of_the_kernel_shows() {
    for cache in CACHES {
        let place = Place::new();
        let reference = Reference(place.source.with_file_name("reference"));
        fs::create_dir(&reference.0).unwrap();
        mount("tmpfs", &reference.0, "tmpfs", MountFlags::RELATIME, Some(c"size=1m")).expect("a tmpfs");
        let expected = story(&reference.0.join("file"));
        assert!(expected.iter().any(|step| step[0]) && expected.iter().any(|step| !step[0]), "{expected:?}");
        let before = place.mounted(cache, |_| {
            assert_eq!(story(&place.at("file")), expected, "{cache}");
            times(&place.at("file"))
        });
        assert_eq!(
            place.mounted(&format!("ro,{cache}"), |_| times(&place.at("file"))),
            before,
            "{cache}: after a remount"
        );
    }
}

/// Who touches an append-only file sets its times to now, as utime(NULL) and `touch` do.
#[test]
fn an_append_only_file_can_be_touched() {
    for cache in CACHES {
        let place = Place::new();
        let path = place.at("log");
        let touched = place.mounted(cache, |_| {
            fs::write(&path, "aaa\n").unwrap();
            let file = File::open(&path).unwrap();
            ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | IFlags::APPEND).unwrap();
            drop(file);
            let before = times(&path);
            tick();
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let touch = |time| {
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, &path, &times, AtFlags::empty())
            };
            assert_eq!(touch(now), Ok(()), "{cache}");
            let after = times(&path);
            assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{cache}: {after:?}, {before:?}");
            assert_eq!(touch(Timespec { tv_sec: 5, tv_nsec: 0 }), Err(Errno::PERM), "{cache}: a time of one's own");
            after
        });
        assert_eq!(place.mounted(&format!("ro,{cache}"), |_| times(&path)), touched, "{cache}: after a remount");
    }
}
