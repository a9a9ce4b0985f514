//! A volume whose journal was not replayed is opened by nobody but us, and by everybody once it was.

use super::{FEATURES, LIMIT, OPTIONS, all_agree, fields, fresh, open, our_manifest};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use steadyfs_core::NewInode;
use steadyfs_format::block::zeroed_block;
use steadyfs_format::{Block, SuperBlock};
use steadyfs_testkit::linux::{manifest_command, mount_command};
use steadyfs_testkit::{Manifest, Uml, linux_manifest};

/// A volume after a crash: with a directory, a file and a rename that only the journal has.
fn crashed(dir: &tempfile::TempDir) -> PathBuf {
    let image = fresh(dir, FEATURES, 128);
    let fs = open(&image, "journal=single,background_gc=off,commit=0");
    let root = fs.root().unwrap();
    let made = |mode| NewInode { mode, ..NewInode::default() };
    let sub = fs.create(&root, b"dir", &made(0o040_755)).unwrap();
    let file = fs.create(&sub, b"file", &made(0o100_644)).unwrap();
    fs.write(&file, 0, b"promised").unwrap();
    fs.fsync(&file, false).unwrap();
    fs.rename(&sub, b"file", &root, b"moved", steadyfs_core::RenameFlags::Replace).unwrap();
    fs.fsync(&root, false).unwrap();
    assert_eq!(fs.sync_stats().checkpoints.values().sum::<u64>(), 0);
    // What a power cut leaves now.
    let copy = dir.path().join("crashed.img");
    std::fs::copy(&image, &copy).unwrap();
    copy
}

fn hash(image: &Path) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(image).unwrap());
    hasher.finish()
}

#[test]
fn linux_and_its_checker_refuse_an_unreplayed_journal() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = crashed(&dir);
    let before = hash(&image);
    for args in [&[][..], &["-a"], &["-p"], &["-f"], &["-f", "-y"], &["-a", "-f"], &["--dry-run"]] {
        let output = Command::new("fsck.f2fs").args(args).arg(&image).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "fsck.f2fs {args:?}: {text}");
        assert!(text.contains("find a valid F2FS superblock"), "fsck.f2fs {args:?}: {text}");
        assert_eq!(hash(&image), before, "fsck.f2fs {args:?} wrote");
    }
    let error = linux_manifest(&image, "", &OPTIONS, LIMIT).expect_err("Linux mounts it");
    assert!(error.to_string().contains("mount"), "{error}");
    assert_eq!(hash(&image), before, "Linux wrote");
    // What `steadyfs recover` does.
    open(&image, "").unmount().unwrap();
    let linux = all_agree(&image);
    let names: Vec<&String> = linux.entries.keys().collect();
    assert!(names.iter().any(|name| name.ends_with("moved")), "{names:?}");
}

fn mark(image: &Path, copy: usize) {
    let mut bytes = std::fs::read(image).unwrap();
    let at = copy * 4096;
    let mut block: Block = zeroed_block();
    block.copy_from_slice(&bytes[at..at + 4096]);
    let mut superblock = SuperBlock::parse(&block).unwrap();
    superblock.set_journaled(true);
    superblock.encode_into(&mut block);
    bytes[at..at + 4096].copy_from_slice(&block);
    std::fs::write(image, bytes).unwrap();
}

#[test]
fn a_power_cut_between_the_copies_leaves_a_volume_of_everybody() {
    for copy in [0, 1] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = crashed(&dir);
        open(&image, "").unmount().unwrap();
        mark(&image, copy);
        let ours = our_manifest(&image, "ro");
        // It says what it finds, mounts by the other copy, and mends this one.
        let machine = Uml::new().disk(&image).timeout(LIMIT).script(mount_command("/dev/ubda", ""));
        let machine = ["Magic Mismatch", "find valid F2FS filesystem", "Try to recover"]
            .into_iter()
            .fold(machine, |machine, part| machine.expect(part));
        let out = machine.script(manifest_command("$MNT", "manifest.json", &OPTIONS).unwrap()).run().unwrap();
        let linux = Manifest::load(out.file("manifest.json")).unwrap();
        linux.assert_same(&ours, &fields());
        all_agree(&image);
    }
}
