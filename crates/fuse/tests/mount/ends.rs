//! The ways in which a mount ends: signals, umount, a kill. What was synced is there afterwards; what was not, after an
//! orderly end.

use crate::harness::{Place, is_mounted, make_volume, retried_while_busy, umount, until};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::time::Duration;

#[test]
fn every_signal_that_says_stop_ends_with_a_checkpoint() {
    let place = Place::new();
    for (index, signal) in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().enumerate() {
        let mut served = place.mount("");
        fs::write(place.at(&format!("file{index}")), vec![index as u8; 100_000]).unwrap();
        served.signal(signal);
        assert_eq!(served.end(), 0, "{signal:?}: {}", served.log());
        assert!(!is_mounted(&served.dir));
        place.check();
    }
    place.mounted("", |_| {
        for index in 0..3 {
            assert_eq!(fs::read(place.at(&format!("file{index}"))).unwrap(), vec![index as u8; 100_000]);
        }
    });
}

#[test]
fn umount_ends_with_a_checkpoint() {
    let place = Place::new();
    let mut served = place.mount("");
    fs::write(place.at("file"), b"by the system's umount").unwrap();
    umount(&served.dir);
    assert_eq!(served.end(), 0, "{}", served.log());
    place.check();
    place.mounted("", |_| assert_eq!(fs::read(place.at("file")).unwrap(), b"by the system's umount"));
}

/// The crate's own unmount waits for what umount(2) does not wait for on an image file.
#[test]
fn unmount_returns_when_the_image_is_free() {
    let place = Place::new();
    for round in 0..5u8 {
        let mut served = place.mount("");
        for file in 0..50 {
            fs::write(place.at(&format!("file{file}")), vec![round; 40_000]).unwrap();
        }
        retried_while_busy(|| steadyfs_fuse::unmount(&served.dir));
        place.check();
        assert_eq!(served.end(), 0, "{}", served.log());
    }
    let error = steadyfs_fuse::unmount(&place.dir()).unwrap_err();
    assert!(error.to_string().contains("Invalid argument"), "{error}");
}

/// Whoever unmounts hears why the last checkpoint failed, by whichever name the mount table knows the volume.
#[test]
fn an_unmount_says_that_the_last_checkpoint_failed() {
    for options in ["", "noblkdev", "fsname=other"] {
        let mut place = Place::empty();
        let disk = place.source.with_file_name("disk");
        fs::create_dir(&disk).unwrap();
        rustix::mount::mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), Some(c"size=24m")).unwrap();
        place.source = disk.join("image");
        make_volume(&place.source, 256 << 20);
        let mut served = place.mount(options);
        let file = fs::File::create(place.at("full")).unwrap();
        let write = |_| (&file).write_all(&[7; 1 << 20]).and_then(|()| file.sync_all());
        assert!((0..64).try_for_each(write).is_err(), "64 MiB do not fit into 24");
        drop(file);
        fs::write(place.at("late"), b"x").unwrap();
        let mut ended = Ok(());
        retried_while_busy(|| match steadyfs_fuse::unmount(&served.dir) {
            Err(error @ steadyfs_fuse::Error::Ended { .. }) => {
                ended = Err(error.to_string());
                Ok(())
            }
            done => done,
        });
        let said = ended.unwrap_err();
        assert!(said.contains("is unmounted, but") && said.contains("No space left on device"), "{options}: {said}");
        assert_eq!(served.end(), 3, "{}", served.log());
        assert!(!is_mounted(&served.dir));
        rustix::mount::unmount(&disk, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn an_unmount_says_that_the_server_was_killed() {
    let place = Place::new();
    let mut served = place.mount("");
    served.kill();
    let said = steadyfs_fuse::unmount(&served.dir).unwrap_err().to_string();
    assert!(said.contains("the process that served it is gone"), "{said}");
    assert!(!is_mounted(&served.dir));
}

/// The third signal ends a mount whoever uses it: also while a rename waits for the kernel to write back what it has of
/// the file.
#[test]
fn a_third_signal_ends_a_mount_in_the_middle_of_a_rename() {
    // A rename that the kernel has written everything back for is over at once, and shows nothing.
    assert!((0..10).any(|_| three_signals_meet_a_rename()), "no rename lasted until the third signal");
}

/// False if the rename was over before the third signal.
fn three_signals_meet_a_rename() -> bool {
    let place = Place::sized(1 << 30);
    let mut served = place.mount("");
    fs::write(place.at("old"), b"old").unwrap();
    let mut file = fs::File::create(place.at("new")).unwrap();
    let many = vec![7; 64 << 20];
    for _ in 0..4 {
        file.write_all(&many).unwrap();
    }
    // By the directory: the second signal takes the mount out of sight, maybe between the look-ups of two paths.
    let dir = fs::File::open(place.dir()).unwrap();
    let renamed = std::thread::scope(|threads| {
        let renamed = threads.spawn(|| rustix::fs::renameat(&dir, "new", &dir, "old"));
        std::thread::sleep(Duration::from_millis(20));
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            served.signal(signal);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(served.end(), 0, "{}", served.log());
        renamed.join().unwrap()
    });
    drop((file, dir));
    place.check();
    let Err(error) = renamed else { return false };
    let refused = [Errno::NODEV, Errno::NOTCONN, Errno::CONNABORTED].contains(&error);
    assert!(refused, "answered when there was an end: {error}");
    place.mounted("", |_| assert_eq!(fs::read(place.at("old")).unwrap(), b"old"));
    true
}

#[test]
fn a_killed_mount_leaves_what_was_synced_and_can_be_mounted_again() {
    let place = Place::new();
    for round in 0..4u8 {
        // From the second round on the mount point is still occupied by the dead mount.
        let mut served = place.mount("");
        if round > 0 {
            assert!(served.log().contains("was left mounted by a process that is gone"), "{}", served.log());
            assert_eq!(fs::read(place.at("synced")).unwrap(), vec![round - 1; 70_000]);
            assert!(!place.at("later").exists());
        }
        let mut file = fs::File::create(place.at("new")).unwrap();
        file.write_all(&vec![round; 70_000]).unwrap();
        fs::rename(place.at("new"), place.at("synced")).unwrap();
        file.sync_all().unwrap();
        fs::write(place.at("later"), b"not synced").unwrap();
        served.kill();
        // Of a ring the kernel lets go a little after its process: what is asked until then is broken off.
        let dead = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
        let error = fs::metadata(place.dir()).unwrap_err();
        assert!(error.raw_os_error().is_some_and(|error| dead.contains(&error)), "{error}");
        place.check_copy();
        std::mem::forget(served); // leave the dead mount where it is
    }
    let served = place.mount("");
    assert_eq!(fs::read(place.at("synced")).unwrap(), vec![3; 70_000]);
    served.stop();
}

/// A program that lives on hears errors of what it wrote before, and of fsync most of all, also when the volume is
/// mounted again and the file is there.
#[test]
fn files_of_a_killed_mount_never_say_that_they_are_safe() {
    let place = Place::new();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("file")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    let (dir, created) = (fs::File::open(place.dir()).unwrap(), fs::File::create(place.at("created")).unwrap());
    file.write_all(b" and not synced").unwrap();
    served.kill();
    std::mem::forget(served); // leave the dead mount where it is
    let again = place.mount("");
    assert_eq!(fs::read(place.at("file")).unwrap(), b"synced");
    for old in [&file, &dir, &created] {
        for _ in 0..2 {
            assert!(old.sync_all().is_err() && old.sync_data().is_err());
        }
    }
    assert!(file.write_all(b"more").and_then(|()| file.sync_all()).is_err());
    assert!(!place.at("created").exists());
    drop((file, dir, created));
    again.stop();
    place.check();
}

#[test]
fn a_lazy_umount_serves_until_the_last_user_is_gone() {
    let place = Place::new();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("open")).unwrap();
    rustix::mount::unmount(&served.dir, UnmountFlags::DETACH).unwrap();
    assert_eq!(fs::read_dir(place.dir()).unwrap().count(), 0);
    file.write_all(b"written after the umount").unwrap();
    file.sync_all().unwrap();
    assert!(!served.has_ended());
    drop(file);
    assert_eq!(served.end(), 0, "{}", served.log());
    place.check();
    place.mounted("", |_| assert_eq!(fs::read(place.at("open")).unwrap(), b"written after the umount"));
}

#[test]
fn signals_that_were_ignored_stay_ignored() {
    let place = Place::new();
    let script = format!("trap '' HUP; exec {}", std::env::current_exe().unwrap().display());
    let mut child = std::process::Command::new("sh")
        .args(["-c", &format!("{script} harness::serve --exact --nocapture --test-threads=1")])
        .env(crate::harness::SERVE, format!("{}\n{}\n", place.source.display(), place.dir().display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until("mounted", || is_mounted(&place.dir()));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    fs::write(place.at("file"), b"it goes on").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(fs::read(place.at("file")).unwrap(), b"it goes on");
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!is_mounted(&place.dir()));
}
