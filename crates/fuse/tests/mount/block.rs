//! A volume on a block device, mounted as such: `umount` returns when everything is written, and `sync` reaches the
//! file system.
//!
//! A test that opens a device for itself alone does that in a process that starts no other. A process that another test
//! is just starting has a copy of each file that is open here, until it executes its own program. A copy keeps the
//! device taken.

use crate::harness::{Place, is_mounted, make_volume, mount_line, umount};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use steadyfs_device::{FileDevice, OpenOptions};

/// A loop device over an image, taken apart when dropped.
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
}

impl Loop {
    pub(crate) fn over(image: &Path) -> Self {
        Self::with(&[], image)
    }

    pub(crate) fn with(options: &[&str], image: &Path) -> Self {
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .args(options)
            .arg(image)
            .output()
            .expect("losetup (package mount)");
        assert!(made.status.success(), "no loop device: {}", String::from_utf8_lossy(&made.stderr));
        Loop { path: String::from_utf8_lossy(&made.stdout).trim().into() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// A place whose source is a loop device with a volume. The first dropped comes first.
fn on_device() -> (Place, Loop) {
    let mut place = Place::empty();
    fs::File::create(&place.source).and_then(|file| file.set_len(256 << 20)).expect("an image");
    let device = Loop::over(&place.source);
    make_volume(&device.path, 256 << 20);
    place.source = device.path.clone();
    (place, device)
}

/// Set for the process that unmounts: mount point and device, one per line.
const UNMOUNT: &str = "STEADYFS_TEST_UNMOUNT";

/// What that process runs; in the test run itself it does nothing.
#[test]
fn unmount_and_open() {
    let Ok(what) = std::env::var(UNMOUNT) else {
        return;
    };
    let (dir, device) = what.split_once('\n').expect("two lines");
    umount(Path::new(dir));
    // At this moment, not a little later: nobody has it open.
    FileDevice::open(Path::new(device), OpenOptions::default()).map(drop).expect("the device is free");
}

#[test]
fn umount_returns_when_everything_is_written() {
    let (place, _device) = on_device();
    for round in 0..5u8 {
        let mut served = place.mount("");
        let line = mount_line(&served.dir).unwrap();
        assert!(line.starts_with(place.source.to_str().unwrap()) && line.contains(" fuseblk.steadyfs "), "{line}");
        for file in 0..100 {
            fs::write(place.at(&format!("file{file}")), vec![round; 50_000]).unwrap();
        }
        let unmounted = Command::new(std::env::current_exe().unwrap())
            .args(["block::unmount_and_open", "--exact", "--nocapture", "--test-threads=1"])
            .env(UNMOUNT, format!("{}\n{}", served.dir.display(), place.source.display()))
            .output()
            .unwrap();
        assert!(unmounted.status.success() && !is_mounted(&served.dir), "{unmounted:?}");
        // And it is whole.
        place.check();
        assert_eq!(served.end(), 0, "{}", served.log());
    }
}

#[test]
fn sync_of_the_whole_file_system_is_durable() {
    let (place, _device) = on_device();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("file")).unwrap();
    file.write_all(b"synced with all others").unwrap();
    rustix::fs::syncfs(&file).unwrap();
    fs::write(place.at("later"), b"").unwrap();
    served.kill();
    drop(file);
    umount(&served.dir);
    drop(served);
    place.check();
    place.mounted("", |_| {
        assert_eq!(fs::read(place.at("file")).unwrap(), b"synced with all others");
        assert!(!place.at("later").exists());
    });
}

#[test]
fn without_the_option_it_is_an_ordinary_mount() {
    let (place, _device) = on_device();
    place.mounted("noblkdev", |served| {
        let line = mount_line(&served.dir).unwrap();
        assert!(line.contains(" fuse.steadyfs "), "{line}");
        fs::write(place.at("file"), b"x").unwrap();
    });
    place.check();
}
