//! An image file mounted by the name of a loop device: `sync` reaches the volume, `umount` waits, and nobody gets at
//! the image by another way.

use crate::block::Loop;
use crate::harness::{Place, is_mounted, mount_line, retried_while_busy, umount, until};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use steadyfs_device::{FileDevice, OpenError, OpenOptions};

/// The device that the mount table names.
fn device(dir: &Path) -> PathBuf {
    mount_line(dir).and_then(|line| line.split(' ').next().map(PathBuf::from)).expect("mounted")
}

/// The file behind a loop device, if it is one now.
fn behind(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?.to_str()?;
    let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(file.trim_end().into())
}

fn make_files(place: &Place, count: usize) {
    for n in 0..count {
        File::create(place.at(&format!("file{n}"))).expect("a file");
    }
}

/// Mounts a copy of the image elsewhere and counts the names in it.
fn names_in_copy(place: &Place) -> usize {
    let mut copy = Place::empty();
    copy.source = place.source.with_file_name("copy");
    fs::copy(&place.source, &copy.source).expect("a copy");
    copy.check();
    copy.mounted("", |_| fs::read_dir(copy.dir()).expect("a directory").count())
}

#[test]
fn a_copy_right_after_umount_is_whole() {
    let place = Place::new();
    for round in 1..=3 {
        let mut served = place.mount("");
        fs::create_dir(place.at(&format!("dir{round}"))).unwrap();
        make_files(&place, 1000);
        umount(&served.dir);
        // Now, not a moment later: the copy would take long enough for a server that is not done yet.
        let lock = FileDevice::open(&place.source, OpenOptions { read_only: true, ..OpenOptions::default() }).map(drop);
        assert!(lock.is_ok(), "round {round}: umount returned while the image was in use: {lock:?}");
        assert_eq!(names_in_copy(&place), 1000 + round, "round {round}");
        assert_eq!(served.end(), 0, "{}", served.log());
    }
}

#[test]
fn sync_reaches_the_volume() {
    let place = Place::new();
    let mut served = place.mount("");
    make_files(&place, 500);
    assert!(Command::new("sync").arg("-f").arg(place.dir()).status().unwrap().success());
    served.kill();
    assert_eq!(names_in_copy(&place), 500);
    drop(served);
    let mut served = place.mount("");
    fs::create_dir(place.at("dir")).unwrap();
    rustix::fs::sync();
    served.kill();
    assert_eq!(names_in_copy(&place), 501);
}

#[test]
fn the_loop_device_is_a_name_and_goes_with_the_mount() {
    let place = Place::new();
    let mut served = place.mount("");
    let line = mount_line(&served.dir).unwrap();
    assert!(line.starts_with("/dev/loop") && line.contains(" fuseblk.steadyfs rw,"), "{line}");
    let name = device(&served.dir);
    let image = place.source.canonicalize().unwrap();
    assert_eq!(behind(&name).as_ref(), Some(&image));
    assert_eq!(steadyfs_fuse::mounted_at(&place.source), Some(served.dir.clone()));
    // By the name of the image, as a loop mount of the kernel's.
    retried_while_busy(|| match Command::new("umount").arg(&image).status().unwrap().success() {
        true => Ok(()),
        false => Err(steadyfs_fuse::Error::Unmount {
            dir: served.dir.clone(),
            source: std::io::ErrorKind::ResourceBusy.into(),
        }),
    });
    assert!(!is_mounted(&served.dir));
    assert_eq!(served.end(), 0, "{}", served.log());
    until("the loop device is gone", || behind(&name).as_ref() != Some(&image));
    // A killed server leaves a dead mount, and that keeps the name; the image is free.
    let mut served = place.mount("");
    let name = device(&served.dir);
    served.kill();
    assert_eq!(behind(&name).as_ref(), Some(&image));
    FileDevice::open(&place.source, OpenOptions::default()).map(drop).expect("free");
    drop(served);
    until("the loop device is gone", || behind(&name).as_ref() != Some(&image));
}

#[test]
fn a_lazy_umount_keeps_it_until_the_last_user_is_gone() {
    let place = Place::new();
    let mut served = place.mount("");
    let file = File::create(place.at("open")).unwrap();
    let name = device(&served.dir);
    rustix::mount::unmount(&served.dir, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(behind(&name).is_some());
    drop(file);
    assert_eq!(served.end(), 0, "{}", served.log());
    assert_eq!(names_in_copy(&place), 1);
}

fn in_use(path: &Path, read_only: bool) -> bool {
    match FileDevice::open(path, OpenOptions { read_only, ..OpenOptions::default() }) {
        Err(OpenError::InUse { .. }) => true,
        Ok(_) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_loop_device_of_the_image_is_no_way_around_the_lock() {
    let place = Place::new();
    let other = Loop::over(&place.source);
    place.mounted("", |served| {
        assert!(in_use(&other.path, false) && in_use(&other.path, true));
        assert!(in_use(&device(&served.dir), true));
    });
    // And the other way round.
    let held = FileDevice::open(&other.path, OpenOptions::default()).unwrap();
    assert!(in_use(&place.source, false) && in_use(&place.source, true));
    let refused = place.try_mount("").map(drop).unwrap_err();
    assert!(refused.contains("in use"), "{refused}");
    // A second device of the same bytes.
    let second = Loop::over(&place.source);
    assert!(in_use(&second.path, false) && in_use(&second.path, true));
    drop(held);
    // Readers share.
    let _held = FileDevice::open(&other.path, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    assert!(!in_use(&place.source, true) && in_use(&place.source, false));
    assert!(!in_use(&second.path, true) && in_use(&second.path, false));
}

#[test]
fn parts_of_an_image_are_locked_each_for_itself() {
    let place = Place::new();
    let part = |offset: &str| Loop::with(&["--offset", offset, "--sizelimit", "64M"], &place.source);
    let (first, second, overlap) = (part("0"), part("64M"), part("96M"));
    let _held = FileDevice::open(&first.path, OpenOptions::default()).unwrap();
    let _also = FileDevice::open(&second.path, OpenOptions::default()).unwrap();
    assert!(in_use(&overlap.path, false) && in_use(&place.source, true));
}

/// The kernel makes no mount writable whose device is not.
#[test]
fn read_only_mounts_take_a_loop_device_that_can_be_written() {
    let place = Place::new();
    place.mounted("", |_| make_files(&place, 3));
    let before = fs::read(&place.source).unwrap();
    place.mounted("ro", |served| {
        let line = mount_line(&served.dir).unwrap();
        assert!(line.starts_with("/dev/loop") && line.contains(" fuseblk.steadyfs ro,"), "{line}");
        let name = device(&served.dir).file_name().unwrap().to_owned();
        assert_eq!(fs::read_to_string(Path::new("/sys/block").join(name).join("ro")).unwrap(), "0\n");
        assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 3);
    });
    assert!(fs::read(&place.source).unwrap() == before, "the image has changed");
}

/// Without a loop device's name it is the mount that it was, only that little is lost with the server.
#[test]
fn without_a_loop_device_commits_come_every_five_seconds() {
    let place = Place::new();
    let mut served = place.mount("noblkdev");
    let line = mount_line(&served.dir).unwrap();
    assert!(line.starts_with(place.source.to_str().unwrap()) && line.contains(" fuse.steadyfs rw,"), "{line}");
    File::create(place.at("file")).unwrap();
    std::thread::sleep(Duration::from_millis(6500));
    let idle = fs::metadata(&place.source).unwrap().modified().unwrap();
    std::thread::sleep(Duration::from_millis(5500));
    assert_eq!(fs::metadata(&place.source).unwrap().modified().unwrap(), idle, "an idle volume is written to");
    served.kill();
    assert_eq!(names_in_copy(&place), 1);
}
