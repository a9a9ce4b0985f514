//! The library as its users meet it: images on disk and volumes in memory, errors with their causes.

use std::error::Error as _;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use steadyfs_core::mkfs::format;
use steadyfs_core::{Error as Refusal, MountOptions};
use steadyfs_device::{MemDevice, OpenError};

use super::*;

const MIB: u64 = 1 << 20;

fn volume() -> Volume {
    let device = Arc::new(MemDevice::new(64 * MIB / 4096));
    format(&*device, &usual_format()).unwrap();
    Volume::mount(device, MountOptions::default()).unwrap()
}

/// The refusal of the file system below an error.
fn refusal<T>(result: Result<T>) -> Refusal {
    match result.map(drop).unwrap_err().cause() {
        Cause::Volume(refusal) => refusal.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn what_was_written_is_there_in_the_next_mount() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let volume = Volume::make(&image, 64 * MIB).unwrap();
    volume.create_dir("/a").unwrap();
    volume.write("a/b", b"one").unwrap();
    volume.write("a/b", b"2").unwrap();
    volume.rename("a/b", "/a/c/").unwrap();
    volume.unmount().unwrap();
    let volume = Volume::open_read_only(&image).unwrap();
    let names: Vec<_> = volume.list("/a").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!((names.as_slice(), volume.read("/a/../a/c").unwrap().as_slice()), (&["c".into()][..], &b"2"[..]));
    assert!(matches!(refusal(volume.write("/a/c", b"3")), Refusal::ReadOnly(_)));
    assert_eq!(volume.metadata("/a/c").unwrap().uid, rustix::process::geteuid().as_raw());
}

#[test]
fn a_volume_that_nobody_unmounted_is_unmounted_when_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let volume = Volume::make(&image, 64 * MIB).unwrap();
    volume.write("kept", b"as by unmount").unwrap();
    drop(volume);
    assert_eq!(Volume::open(&image).unwrap().read("kept").unwrap(), b"as by unmount");
}

#[test]
fn errors_say_what_where_and_why() {
    let volume = volume();
    let error = volume.read("/no/such").unwrap_err();
    assert_eq!((error.to_string(), error.errno()), ("cannot open /no/such".to_owned(), 2));
    assert_eq!(error.source().unwrap().to_string(), "no such file or directory");
    volume.create_dir("d").unwrap();
    volume.write("d/f", b"").unwrap();
    assert!(matches!(refusal(volume.read("d")), Refusal::IsDirectory));
    assert!(matches!(refusal(volume.list("d/f")), Refusal::NotDirectory));
    assert!(matches!(refusal(volume.create_dir("d/f/g")), Refusal::NotDirectory));
    assert!(matches!(refusal(volume.create_dir("d")), Refusal::Exists));
    assert!(matches!(refusal(volume.remove_dir("d")), Refusal::NotEmpty));
    assert!(matches!(refusal(volume.remove_file("d")), Refusal::IsDirectory));
    assert!(["/", "", "d/..", "."].iter().all(|path| matches!(refusal(volume.create_dir(path)), Refusal::Invalid)));
    volume.remove_file("d/f").unwrap();
    volume.remove_dir("d/").unwrap();
    assert_eq!(volume.list("/").unwrap(), []);
}

/// A refusal that comes through `io::Write` keeps its kind.
#[test]
fn a_full_volume_says_so() {
    let error = volume().write("big", vec![1; 96 << 20]).unwrap_err();
    assert!(matches!(error.cause(), Cause::Volume(Refusal::NoSpace)), "{error}: {}", error.cause());
    assert_eq!((error.to_string(), error.errno()), ("cannot write big".to_owned(), 28));
}

#[test]
fn an_image_is_made_once_and_used_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    assert!(Volume::make(&image, 1000).is_err());
    assert!(!image.exists(), "what no volume fits into is removed");
    let volume = Volume::make(&image, 64 * MIB).unwrap();
    assert_eq!(Volume::make(&image, 64 * MIB).err().unwrap().errno(), 17);
    let in_use = Volume::open(&image).err().unwrap();
    assert!(matches!(in_use.cause(), Cause::Open(OpenError::InUse { .. })), "{in_use}: {}", in_use.cause());
    volume.write("still", b"here").unwrap();
}

#[test]
fn files_are_read_written_and_sought() {
    let volume = volume();
    let mut file = volume.create_file("f").unwrap();
    file.write_all(b"0123456789").unwrap();
    assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
    file.write_all(b"six").unwrap();
    file.sync().unwrap();
    assert!(file.seek(SeekFrom::Current(-10)).is_err());
    let mut text = String::new();
    volume.open_file("f").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "012345six9");
    volume.create_file("f").unwrap();
    assert_eq!(volume.metadata("f").unwrap().size, 0);
}

#[test]
fn symlinks_are_followed_but_not_in_circles() {
    let volume = volume();
    let fs = volume.fs();
    let root = fs.root().unwrap();
    let new = new_inode(steadyfs_format::dir::FileType::Symlink, 0o777);
    volume.create_dir("d").unwrap();
    for (name, target) in [("to", "/d/../d"), ("round", "round"), ("out", "../../d")] {
        fs.symlink(&root, name.as_bytes(), target.as_bytes(), &new).unwrap();
    }
    volume.write("to/f", b"1").unwrap();
    volume.write("out/g", b"2").unwrap();
    assert_eq!([volume.read("d/f").unwrap(), volume.read("d/g").unwrap()], [b"1", b"2"]);
    assert!(matches!(refusal(volume.read("round")), Refusal::Invalid));
    assert_eq!(path::resolve(fs, b"round", false).unwrap().kind(), steadyfs_format::dir::FileType::Symlink);
    volume.remove_file("to").unwrap();
    assert_eq!(volume.list("d").unwrap().len(), 2);
}
