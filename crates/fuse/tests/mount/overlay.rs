//! A mount holds the upper layer of an overlay, as container engines use it: changes of the merged view become
//! whiteouts, opaque directories and copies here.

use crate::harness::{Place, umount};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An overlay over directories of the mount; unmounted at its end.
struct Overlay(PathBuf);

impl Overlay {
    fn mount(place: &Place) -> Self {
        let merged = place.dir().with_file_name("merged");
        fs::create_dir_all(&merged).unwrap();
        let layer = |name: &str| place.at(name).display().to_string();
        let options = format!("lowerdir={},upperdir={},workdir={}", layer("lower"), layer("upper"), layer("work"));
        let status = Command::new("mount").args(["-t", "overlay", "-o", &options, "none"]).arg(&merged).status();
        assert!(status.expect("mount(8)").success(), "the overlay is refused; dmesg says why");
        Overlay(merged)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        umount(&self.0);
    }
}

/// Whether the kernel has overlays.
fn has_overlays() -> bool {
    drop(Command::new("modprobe").args(["-q", "overlay"]).status());
    let types = fs::read_to_string("/proc/filesystems").unwrap();
    types.lines().any(|line| line.ends_with("\toverlay"))
}

fn is_whiteout(path: &Path) -> bool {
    let found = fs::symlink_metadata(path).unwrap();
    found.file_type().is_char_device() && found.rdev() == 0
}

#[test]
fn renames_leave_whiteouts() {
    let place = Place::new();
    place.mounted("", |_| {
        let (a, b) = (place.at("a"), place.at("b"));
        fs::write(&a, b"contents").unwrap();
        let leave = |from: &Path, to: &Path, how| renameat_with(CWD, from, CWD, to, how | RenameFlags::WHITEOUT);
        assert_eq!(leave(&a, &b, RenameFlags::EXCHANGE), Err(Errno::INVAL));
        leave(&a, &b, RenameFlags::NOREPLACE).unwrap();
        assert!(is_whiteout(&a) && fs::read(&b).unwrap() == b"contents");
        assert_eq!(leave(&b, &a, RenameFlags::NOREPLACE), Err(Errno::EXIST));
        leave(&b, &a, RenameFlags::empty()).unwrap();
        assert!(is_whiteout(&b) && fs::read(&a).unwrap() == b"contents");
    });
    place.mounted("", |_| assert!(is_whiteout(&place.at("b"))));
    place.check();
}

#[test]
fn it_can_be_the_upper_layer_of_an_overlay() {
    if !has_overlays() {
        eprintln!("not tested: this kernel has no overlay file systems");
        return;
    }
    let place = Place::new();
    place.mounted("", |_| {
        for dir in ["lower/dir", "lower/opaque", "upper", "work"] {
            fs::create_dir_all(place.at(dir)).unwrap();
        }
        for file in ["changed", "deleted", "renamed", "dir/inside", "opaque/hidden"] {
            fs::write(place.at("lower").join(file), b"lower").unwrap();
        }
        let overlay = Overlay::mount(&place);
        fs::write(overlay.at("changed"), b"upper").unwrap();
        fs::remove_file(overlay.at("deleted")).unwrap();
        fs::rename(overlay.at("renamed"), overlay.at("dir/moved")).unwrap();
        fs::remove_file(overlay.at("dir/inside")).unwrap();
        fs::remove_dir_all(overlay.at("opaque")).unwrap();
        fs::create_dir(overlay.at("opaque")).unwrap();
        check_merged(&overlay);
        for name in ["deleted", "renamed", "dir/inside"] {
            assert!(is_whiteout(&place.at("upper").join(name)), "{name}");
        }
        assert_eq!(fs::read(place.at("lower/changed")).unwrap(), b"lower");
    });
    // What the volume says, not what the kernel remembers.
    place.mounted("", |_| check_merged(&Overlay::mount(&place)));
    place.check();
}

fn check_merged(overlay: &Overlay) {
    let names = |name: &str| {
        let entries = fs::read_dir(overlay.at(name)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["changed", "dir", "opaque"]);
    assert_eq!(names("dir"), ["moved"]);
    assert!(names("opaque").is_empty(), "{:?}", names("opaque"));
    assert_eq!(fs::read(overlay.at("changed")).unwrap(), b"upper");
    assert_eq!(fs::read(overlay.at("dir/moved")).unwrap(), b"lower");
}
