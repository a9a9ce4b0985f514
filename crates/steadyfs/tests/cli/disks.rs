//! `--partition`: volumes in partitions of whole disks with tables of sfdisk, and what is said of a disk without it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use steadyfs_testkit::fsck_f2fs;

use crate::inspect::fails;
use crate::run::{Output, finish, steadyfs, unless_busy};

#[path = "../../src/partitions/made.rs"]
mod made;

const DISK: u64 = 192 << 20;
/// Where the volume's partition starts in both tables, and how long it is.
const START: u64 = 10 << 20;
const LENGTH: u64 = 64 << 20;

struct Disk(tempfile::TempDir);

impl Disk {
    fn new(table: &[(u64, &str)]) -> Self {
        let disk = Disk(tempfile::tempdir().unwrap());
        File::create(disk.path("disk.img")).unwrap().set_len(DISK).unwrap();
        for (at, hex) in table {
            let byte = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).unwrap();
            disk.write(*at, &(0..hex.len()).step_by(2).map(byte).collect::<Vec<_>>());
        }
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        File::options().write(true).open(self.path("disk.img")).unwrap().write_all_at(bytes, at).unwrap();
    }

    fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        File::open(self.path("disk.img")).unwrap().read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// A command with the disk, `@`.
    fn run(&self, args: &[&str]) -> Output {
        let args = args.iter().map(|arg| if *arg == "@" { "disk.img" } else { arg });
        finish(steadyfs().args(args).current_dir(self.0.path()))
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.code, 0, "{args:?}: {out:?}");
        out.stdout
    }
}

#[test]
fn a_volume_in_a_partition_is_made_used_and_told() {
    for (table, number, told) in [
        (
            made::MBR,
            "5",
            "(MBR partition table) with 1 at 1.00 MiB (8.00 MiB, type 0x0c), 5 at 10.0 MiB (64.0 MiB, type 0x83, f2fs), 6 at",
        ),
        (
            made::GPT,
            "2",
            "(GPT partition table) with 1 at 1.00 MiB (8.00 MiB, `boot`), 2 at 10.0 MiB (64.0 MiB, type 0FC63DAF-8483-4772-8E79-3D69D8477DE4, f2fs); add",
        ),
    ] {
        let disk = Disk::new(table);
        let (before, after) = (disk.read(0, START), disk.read(START + LENGTH, DISK - START - LENGTH));
        disk.ok(&["mkfs", "-q", "--partition", number, "@"]);
        fs::write(disk.path("f"), "text").unwrap();
        disk.ok(&["put", "--partition", number, "f", "@", "/"]);
        assert_eq!(disk.ok(&["cat", "--partition", number, "@", "/f"]), "text");
        assert!(disk.ok(&["fsck", "--partition", number, "@"]).contains("no errors"));
        disk.ok(&["trim", "--partition", number, "@"]);
        disk.ok(&["recover", "--partition", number, "@"]);
        assert!(disk.read(0, START) == before && disk.read(START + LENGTH, DISK - START - LENGTH) == after);
        fs::write(disk.path("alone.img"), disk.read(START, LENGTH)).unwrap();
        fsck_f2fs(disk.path("alone.img")).unwrap();
        let hint = format!("add `--partition {number}`");
        for (command, code) in [
            (&["ls", "@"][..], 1),
            (&["ls", "--partition", "1", "@"], 1),
            (&["info", "@"], 1),
            (&["put", "f", "@", "/"], 1),
            (&["recover", "@"], 1),
            (&["fsck", "@"], 8),
        ] {
            fails(&disk.run(command), code, &["it is a whole disk", told, &hint]);
        }
    }
}

#[test]
fn a_partition_is_mounted_in_the_background() {
    let disk = Disk::new(made::GPT);
    disk.ok(&["mkfs", "-q", "--partition", "2", "@"]);
    for (how, name) in [(["--partition", "2"], "f"), (["-o", "partition=2"], "g")] {
        disk.ok(&["mount", "--background", how[0], how[1], "@", "mnt"]);
        fs::write(disk.path("mnt").join(name), "text").unwrap();
        let out = unless_busy(|| disk.run(&["umount", "mnt"]));
        assert_eq!(out.code, 0, "{out:?}");
        assert_eq!(disk.ok(&["cat", "--partition", "2", "@", name]), "text");
    }
    let both = disk.run(&["mount", "--background", "--partition", "1", "-o", "partition=2", "@", "mnt"]);
    fails(&both, 1, &["`partition=2`", "says otherwise"]);
}

#[test]
fn a_volume_is_not_larger_than_its_partition() {
    let disk = Disk::new(made::GPT);
    let larger = disk.run(&["mkfs", "-q", "--partition", "2", "@", "65M"]);
    fails(&larger, 8, &["the partition has 64.0 MiB", "leave SIZE out"]);
    disk.ok(&["mkfs", "-q", "--offset", "10M", "@", "96M"]);
    disk.ok(&["ls", "--offset", "10M", "@"]);
    fails(&disk.run(&["ls", "--partition", "2", "@"]), 1, &["the volume has", "blocks, the device only 16384"]);
}

#[test]
fn partitions_that_are_not_there_are_said_not_to_be() {
    let disk = Disk::new(made::MBR);
    fails(&disk.run(&["ls", "--partition", "2", "@"]), 2, &["cannot find partition 2 of disk.img", "has 1, 5, 6"]);
    fails(&disk.run(&["ls", "@"]), 1, &["no partition holds a volume"]);
    assert_eq!(disk.run(&["ls", "--partition", "5", "--offset", "1M", "@"]).code, 2);
    // Its last partition as long as can be.
    disk.write(77_595_071 - 5 + 16, &[0xFF; 4]);
    fails(&disk.run(&["ls", "--partition", "6", "@"]), 1, &["it ends beyond the disk"]);
    fails(&disk.run(&["ls", "@"]), 1, &["not all of it is there"]);
    let none = Disk::new(&[]);
    fails(&none.run(&["ls", "--partition", "1", "@"]), 2, &["there is no partition table"]);
    fails(&none.run(&["ls", "@"]), 1, &["there is no F2FS volume", "--partition"]);
}

#[test]
fn partitions_that_overlap_are_only_read() {
    let disk = Disk::new(made::MBR);
    disk.ok(&["mkfs", "-q", "--partition", "5", "@"]);
    // The first one reaches into it.
    disk.write(446 + 12, &40_000_u32.to_le_bytes());
    disk.ok(&["ls", "--partition", "5", "@"]);
    for command in [&["mkdir", "--partition", "5", "@", "/d"][..], &["trim", "--partition", "5", "@"]] {
        fails(&disk.run(command), 1, &["cannot change partition 5", "it shares bytes with partition 1"]);
    }
}
