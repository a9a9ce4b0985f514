//! `mount -o remount,rw` of what was mounted read-only.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};

use crate::inspect::fails;
use crate::metrics::scrape;
use crate::mount::{Place, as_helper};
use crate::protected::{crashed, system};
use crate::run::{Output, finish, run_as, steadyfs, unless_busy};

pub(crate) fn mount(device: &Path, place: &Place, options: &str) -> Output {
    run_as("mount.steadyfs", &[device.to_str().unwrap(), place.mnt().to_str().unwrap(), "-o", options])
}

/// A loop device of the image, taken away when it goes.
struct Loop(PathBuf);

impl Loop {
    fn over(place: &Place) -> Self {
        Loop(system("losetup", &["-f", "--show", place.image().to_str().unwrap()]).stdout.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let path = self.0.to_str().unwrap();
        system("blockdev", &["--setrw", path]);
        system("losetup", &["-d", path]);
    }
}

#[test]
fn a_read_only_mount_becomes_writable() {
    // By an image with and without a loop device's name, and by a block device.
    for (options, by_device) in [("ro", false), ("ro,noblkdev", false), ("ro", true)] {
        let place = crashed();
        let device = by_device.then(|| Loop::over(&place));
        let path = device.as_ref().map_or(place.image(), |device| device.0.clone());
        assert_eq!(mount(&path, &place, options).code, 0);
        let before = fs::read(place.image()).unwrap();
        let dir = File::open(place.mnt()).unwrap();
        let mut reader = File::open(place.mnt().join("file")).unwrap();
        let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
        assert!(before == fs::read(place.image()).unwrap(), "recovery wrote to a read-only mount");
        let out = mount(&path, &place, "remount,rw");
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        // What was recovered in memory is on the device now, and nothing else was done.
        assert!(before != fs::read(place.image()).unwrap(), "nothing was recovered");
        // What was open is.
        assert_eq!(rustix::fs::fstat(&reader).unwrap().st_ino, inode);
        let create = OFlags::CREATE | OFlags::WRONLY;
        let new = File::from(openat(&dir, "new", create, Mode::from_raw_mode(0o644)).unwrap());
        fs::write(place.mnt().join("file"), "text").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        new.sync_all().unwrap();
        drop((new, reader, dir));
        // Back and forth again.
        assert_eq!(unless_busy(|| mount(&path, &place, "remount,ro")).code, 0);
        let refused = fs::write(place.mnt().join("more"), "").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(mount(&path, &place, "remount,rw").code, 0);
        fs::write(place.mnt().join("more"), "").unwrap();
        place.umount();
        drop(device);
        let names = finish(steadyfs().arg("ls").arg(place.image())).stdout;
        assert_eq!(names, "file\nmore\nnew\n");
        place.judge();
    }
}

#[test]
fn what_cannot_be_written_stays_read_only_and_is_served() {
    let place = crashed();
    assert_eq!(as_helper("mount.steadyfs", &place, &["-o", "ro"]).code, 0);
    let mut reader = File::open(place.mnt().join("file")).unwrap();
    let lock = File::open(place.image()).unwrap();
    flock(&lock, FlockOperation::LockShared).unwrap();
    let before = fs::read(place.image()).unwrap();
    for _ in 0..2 {
        let out = as_helper("mount.steadyfs", &place, &["-o", "remount,rw"]);
        fails(&out, 32, &["cannot remount", "for writing", "another process uses what is mounted"]);
        // Still what was recovered in memory.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert!(fs::read_dir(place.mnt()).unwrap().count() == 1 && before == fs::read(place.image()).unwrap());
        assert!(fs::write(place.mnt().join("more"), "").is_err());
    }
    drop(lock);
    assert_eq!(as_helper("mount.steadyfs", &place, &["-o", "remount,rw"]).code, 0);
    fs::write(place.mnt().join("more"), "").unwrap();
    drop(reader);
    place.umount();
    place.judge();

    let device = Loop::over(&place);
    let protect = |how: &str| system("blockdev", &[how, device.0.to_str().unwrap()]);
    protect("--setro");
    assert_eq!(mount(&device.0, &place, "rw").code, 0);
    fails(&mount(&device.0, &place, "remount,rw"), 32, &["for writing", "the device is set read-only"]);
    assert!(place.mnt().join("more").exists());
    protect("--setrw");
    assert_eq!(mount(&device.0, &place, "remount,rw").code, 0);
    fs::write(place.mnt().join("later"), "").unwrap();
    place.umount();
    drop(device);
    place.judge();
}

/// Counters and metrics are those of the volume that is served.
#[test]
fn metrics_go_on() {
    let place = Place::formatted();
    let socket = place.dir.path().join("socket");
    let option = format!("ro,metrics={}", socket.display());
    assert_eq!(as_helper("mount.steadyfs", &place, &["-o", &option]).code, 0);
    let read_only = || scrape(&mut UnixStream::connect(&socket).unwrap())["steadyfs_read_only"];
    assert_eq!(read_only(), 1.0);
    assert_eq!(as_helper("mount.steadyfs", &place, &["-o", "remount,rw"]).code, 0);
    assert_eq!(read_only(), 0.0);
    place.umount();
}
