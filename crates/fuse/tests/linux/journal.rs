//! A volume whose journal was not replayed is opened by nobody but us, and by everybody once it was.

use super::{FEATURES, LIMIT, OPTIONS, all_agree, fields, open, our_manifest};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use steadyfs_core::NewInode;
use steadyfs_format::block::zeroed_block;
use steadyfs_format::{Block, SuperBlock};
use steadyfs_testkit::linux::{manifest_command, mount_command};
use steadyfs_testkit::{Manifest, Uml, linux_manifest, mkfs_f2fs};

/// A volume after a crash: with a directory, a file and a rename that only the journal has.
fn crashed(dir: &tempfile::TempDir) -> PathBuf {
    let image = dir.path().join("volume.img");
    mkfs_f2fs(&image, 128 << 20, &["-O", FEATURES, "-l", "found"]).unwrap();
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

/// Whether no byte of an image has changed since it was copied.
fn is_untouched(image: &Path, copy: &Path) -> bool {
    Command::new("cmp").arg("-s").args([image, copy]).status().unwrap().success()
}

fn copy_of(image: &Path) -> PathBuf {
    let copy = image.with_extension("copy");
    let done = Command::new("cp").arg("--sparse=always").args([image, &copy]).status().unwrap();
    assert!(done.success());
    copy
}

/// What a command says, with an answer of no to whatever it asks; `@` stands for the image.
fn told(command: &str, image: &Path) -> (bool, String) {
    let line = command.replace('@', image.to_str().unwrap());
    // With a terminal: some ask only then.
    let mut run = Command::new("script");
    run.args(["-qec", &line, "/dev/null"]).current_dir(image.parent().unwrap());
    let output = {
        let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Whoever asks nothing has gone by then.
        let _ = child.stdin.take().unwrap().write_all(b"n\n");
        child.wait_with_output().unwrap()
    };
    // The terminal shows the answer, too: before what a command says that asks nothing, or behind it.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said.split_inclusive('\n').filter(|line| line.trim_end() != "n").collect())
}

/// What finds volumes finds it as before; what would change or read it as F2FS does not touch it.
#[test]
fn others_know_what_it_is_and_leave_it_alone() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = crashed(&dir);
    let copy = copy_of(&image);
    std::fs::create_dir(dir.path().join("tree")).unwrap();
    for command in [
        "resize.f2fs -t 400000 @",
        "resize.f2fs -s -t 200000 @",
        "sload.f2fs -f tree @",
        "dump.f2fs -i 3 @",
        "defrag.f2fs @",
        "f2fslabel @ other",
        "mkfs.f2fs @",
        "mkfs.ext4 @",
    ] {
        let (_, said) = told(command, &image);
        let reason = ["valid F2FS superblock", "contains a f2fs file system", "existing filesystem (f2fs)"];
        assert!(reason.iter().any(|reason| said.contains(reason)), "{command}: {said}");
        assert!(is_untouched(&image, &copy), "{command} wrote: {said}");
    }
    for (command, parts) in [
        ("blkid -p -o export @", &["TYPE=f2fs", "UUID=", "LABEL=found", "USAGE=filesystem"][..]),
        ("wipefs -n @", &["f2fs", "found"]),
    ] {
        let (works, said) = told(command, &image);
        assert!(works && parts.iter().all(|part| said.contains(part)), "{command}: {said}");
    }
    // All that is told of it is as on a stock volume.
    let marked = told("blkid -p -o export @", &image);
    open(&image, "").unmount().unwrap();
    assert_eq!(told("blkid -p -o export @", &image), marked);
    assert!(!is_untouched(&image, &copy));
}

#[test]
fn linux_and_its_checker_refuse_an_unreplayed_journal() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = crashed(&dir);
    let copy = copy_of(&image);
    for args in [&[][..], &["-a"], &["-p"], &["-f"], &["-f", "-y"], &["-a", "-f"], &["--dry-run"]] {
        let output = Command::new("fsck.f2fs").args(args).arg(&image).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "fsck.f2fs {args:?}: {text}");
        assert!(text.contains("find a valid F2FS superblock"), "fsck.f2fs {args:?}: {text}");
        assert!(is_untouched(&image, &copy), "fsck.f2fs {args:?} wrote");
    }
    let error = linux_manifest(&image, "", &OPTIONS, LIMIT).expect_err("Linux mounts it");
    assert!(error.to_string().contains("mount"), "{error}");
    assert!(is_untouched(&image, &copy), "Linux wrote");
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
        let machine = ["Invalid log sectorsize", "find valid F2FS filesystem", "Try to recover"]
            .into_iter()
            .fold(machine, |machine, part| machine.expect(part));
        let out = machine.script(manifest_command("$MNT", "manifest.json", &OPTIONS).unwrap()).run().unwrap();
        let linux = Manifest::load(out.file("manifest.json")).unwrap();
        linux.assert_same(&ours, &fields());
        all_agree(&image);
    }
}
