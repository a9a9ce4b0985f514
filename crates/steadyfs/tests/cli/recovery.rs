//! What the commands make of a volume whose last files were fsynced before a crash.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_testkit::mkfs_f2fs;

use crate::inspect::{fails, value};
use crate::run::{Output, run, run_as, umount};

struct Crashed {
    dir: tempfile::TempDir,
}

impl Crashed {
    /// A volume with one file of the checkpoint and one that was fsynced after it.
    fn new() -> Self {
        Self::made(false)
    }

    /// The same, with a file that was deleted while it was open.
    fn with_orphan() -> Self {
        Self::made(true)
    }

    fn made(with_orphan: bool) -> Self {
        let crashed = Crashed { dir: tempfile::tempdir().unwrap() };
        mkfs_f2fs(crashed.path(), 64 << 20, &["-q"]).unwrap();
        let dev = FileDevice::open(crashed.path(), OpenOptions::default()).unwrap();
        let fs = Fs::mount(Arc::new(dev), MountOptions { background_gc: false, ..MountOptions::default() }).unwrap();
        let root = fs.root().unwrap();
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        fs.create(&root, b"old", &new).unwrap();
        let gone = with_orphan.then(|| fs.create(&root, b"gone", &new).unwrap());
        gone.iter().for_each(|_| fs.unlink(&root, b"gone").unwrap());
        fs.sync().unwrap();
        let file = fs.create(&root, b"new", &new).unwrap();
        fs.write(&file, 0, b"was promised\n").unwrap();
        fs.fsync(&file, false).unwrap();
        // The process dies here, as far as the volume is concerned: nothing unmounts it.
        drop((root, file, gone, fs));
        crashed
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("volume.img")
    }

    fn run(&self, command: &[&str], rest: &[&str]) -> Output {
        let path = self.path();
        run(&[command, &[path.to_str().unwrap()], rest].concat())
    }

    fn image(&self) -> Image {
        let dev = FileDevice::open(self.path(), OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        Image::open(Arc::new(dev)).unwrap()
    }

    /// Makes the fsynced inode one that nobody can recover: no regular file.
    fn damage(&self) {
        let image = self.image();
        let node = image.fsync_chain().next().unwrap().unwrap();
        drop(image);
        let file = File::options().write(true).open(self.path()).unwrap();
        file.write_all_at(&0o040_755u16.to_le_bytes(), node.lba.get() * 4096).unwrap();
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Whoever mounts hears of what was recovered, once; mount(8) does not.
#[test]
fn a_mount_says_what_it_recovered() {
    let mount = |volume: &Crashed, program: &str, option: Option<&str>| {
        let (path, mnt) = (volume.path(), volume.dir.path().join("mnt"));
        std::fs::create_dir_all(&mnt).unwrap();
        let args = [path.to_str().unwrap(), mnt.to_str().unwrap()];
        let words = ["mount"].into_iter().filter(|_| program == "steadyfs").chain(option).chain(args);
        let out = run_as(program, &words.collect::<Vec<_>>());
        assert_eq!(out.code, 0, "{}", out.stderr);
        umount(&mnt);
        out.stdout
    };
    let volume = Crashed::new();
    let said = mount(&volume, "steadyfs", Some("--background"));
    let line = "recovered 1 files that were fsynced before a crash (1 nodes, 0 blocks of data, ";
    assert!(said.starts_with(line) && said.ends_with(" ms)\n"), "{said}");
    assert_eq!(mount(&volume, "steadyfs", Some("--background")), "");
    assert_eq!(mount(&Crashed::new(), "mount.steadyfs", None), "");
}

#[test]
fn readers_see_what_was_fsynced_and_write_nothing() {
    let volume = Crashed::new();
    let before = bytes(&volume.path());
    let info = volume.run(&["info"], &[]);
    assert!(value(&info.stdout, "to recover").starts_with("1 files"), "{}", info.stdout);
    let json: serde_json::Value = serde_json::from_str(&volume.run(&["info", "--json"], &[]).stdout).unwrap();
    assert_eq!((&json["checkpoint"]["fsynced_files"], &json["checkpoint"]["clean"]), (&1.into(), &false.into()));
    let listed = volume.run(&["ls"], &["/"]);
    assert_eq!((listed.stdout.as_str(), listed.stderr.as_str()), ("new\nold\n", ""));
    assert_eq!(volume.run(&["cat"], &["/new"]).stdout, "was promised\n");
    assert!(volume.run(&["find"], &["/"]).stdout.lines().any(|line| line == "/new"));
    assert!(volume.run(&["stat"], &["/new"]).stdout.contains("13"));
    let checked = volume.run(&["fsck"], &[]);
    assert!(checked.code == 0 && checked.stdout.contains("wait to be recovered"), "{}", checked.stdout);
    assert!(bytes(&volume.path()) == before, "the image has changed");
    // A command that changes the volume recovers it first.
    assert_eq!(volume.run(&["mkdir"], &["/dir"]).code, 0);
    assert_eq!(volume.run(&["ls"], &["/"]).stdout, "dir\nnew\nold\n");
    assert!(!volume.run(&["info"], &[]).stdout.contains("to recover"));
    steadyfs_testkit::fsck_f2fs(volume.path()).unwrap();
}

/// The journal is named by those who look, and replayed by `recover`, which leaves a volume for everybody.
#[test]
fn recover_replays_a_journal_and_leaves_a_stock_volume() {
    let volume = Crashed { dir: tempfile::tempdir().unwrap() };
    mkfs_f2fs(volume.path(), 64 << 20, &["-q"]).unwrap();
    let dev = FileDevice::open(volume.path(), OpenOptions::default()).unwrap();
    let options = MountOptions { background_gc: false, ..MountOptions::parse("journal=single").unwrap() };
    let fs = Fs::mount(Arc::new(dev), options).unwrap();
    let root = fs.root().unwrap();
    fs.create(&root, b"dir", &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap();
    fs.fsync(&root, false).unwrap();
    drop((root, fs));
    let info = volume.run(&["info"], &[]);
    assert!(value(&info.stdout, "journal").starts_with("1 batches with "), "{}", info.stdout);
    let checked = volume.run(&["fsck"], &[]);
    let named = checked.stdout.lines().filter(|line| line.contains("1 batches of the metadata journal")).count();
    assert_eq!((checked.code, named), (0, 1), "{}", checked.stdout);
    let dumped = volume.run(&["dump", "sb"], &[]);
    assert!(dumped.stdout.contains("there may be a metadata journal"), "{}{}", dumped.stdout, dumped.stderr);
    let recovered = volume.run(&["recover"], &[]);
    assert!(recovered.stdout.contains("and 1 batches of the journal"), "{}{}", recovered.stdout, recovered.stderr);
    let again = volume.run(&["recover"], &[]);
    assert!(again.stdout.contains("nothing to recover"), "{}", again.stdout);
    assert_eq!(volume.run(&["ls"], &["/"]).stdout, "dir\n");
    assert!(!volume.run(&["info"], &[]).stdout.contains("journal"));
    steadyfs_testkit::fsck_f2fs(volume.path()).unwrap();
}

#[test]
fn what_cannot_be_recovered_is_said_and_the_checkpoint_shown() {
    let volume = Crashed::new();
    volume.damage();
    let before = bytes(&volume.path());
    let listed = volume.run(&["ls"], &["/"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, "old\n"));
    let said = |stderr: &str| stderr.contains("is not shown: ") && stderr.contains("`steadyfs fsck`");
    assert!(said(&listed.stderr) && listed.stderr.lines().count() == 1, "{}", listed.stderr);
    let mnt = volume.dir.path().join("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let mount = |options| {
        let (path, mnt) = (volume.path(), mnt.to_str().unwrap().to_owned());
        run(&["mount", "--background", "-o", options, path.to_str().unwrap(), &mnt])
    };
    let mounted = mount("ro");
    assert!(mounted.code == 0 && said(&mounted.stderr), "{mounted:?}");
    assert!(std::fs::read(mnt.join("old")).is_ok() && std::fs::read(mnt.join("new")).is_err());
    umount(&mnt);
    let refused = mount("rw");
    assert!(refused.code == 32 && refused.stderr.contains("disable_roll_forward"), "{refused:?}");
    fails(&volume.run(&["mkdir"], &["/dir"]), 1, &["cannot be recovered", "disable_roll_forward"]);
    assert!(bytes(&volume.path()) == before, "the image has changed");
}

/// The list of orphans counts more than a block of it holds.
#[test]
fn a_damaged_list_of_orphans_keeps_nobody_from_reading() {
    let volume = Crashed::with_orphan();
    let image = volume.image();
    let at = image.orphan_blocks().next().expect("there is an orphan").get() * 4096;
    drop(image);
    // The count of a block's entries stands behind them and their number among the blocks.
    const COUNT: u64 = 4088;
    let file = File::options().write(true).open(volume.path()).unwrap();
    file.write_all_at(&u32::MAX.to_le_bytes(), at + COUNT).unwrap();
    let before = bytes(&volume.path());
    let listed = volume.run(&["ls"], &["/"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, "old\n"));
    assert!(listed.stderr.contains("orphan") && listed.stderr.contains("`steadyfs fsck`"), "{}", listed.stderr);
    let info = volume.run(&["info"], &[]);
    assert!(info.code == 0 && info.stderr.contains("`steadyfs fsck`"), "{info:?}");
    assert!(value(&info.stdout, "inodes").ends_with("not known how many orphans"), "{}", info.stdout);
    let json: serde_json::Value = serde_json::from_str(&volume.run(&["info", "--json"], &[]).stdout).unwrap();
    assert_eq!((&json["checkpoint"]["fsynced_files"], json["checkpoint"]["orphans"].is_null()), (&1.into(), true));
    fails(&volume.run(&["mkdir"], &["/dir"]), 1, &["steadyfs fsck"]);
    assert!(bytes(&volume.path()) == before, "the image has changed");
}
