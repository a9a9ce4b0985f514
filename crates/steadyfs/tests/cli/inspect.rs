//! `info` and `dump` on volumes that mkfs.f2fs made, whole and damaged; and what every command says to a bad DEVICE.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use steadyfs_testkit::mkfs_f2fs;

use crate::run::{Output, finish, run};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const SIZE: u64 = 64 << 20;

pub(crate) struct Image {
    dir: tempfile::TempDir,
}

impl Image {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let features = "extra_attr,inode_checksum,sb_checksum,inode_crtime,lost_found";
        mkfs_f2fs(dir.path().join("f2fs.img"), SIZE, &["-l", "näme", "-U", UUID, "-O", features]).unwrap();
        Image { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("f2fs.img")
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) {
        File::options().write(true).open(self.path()).unwrap().write_all_at(bytes, offset).unwrap();
    }

    pub(crate) fn cut(&self, size: u64) {
        File::options().write(true).open(self.path()).unwrap().set_len(size).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let path = self.path();
        run(&args.iter().copied().chain([path.to_str().unwrap()]).collect::<Vec<_>>())
    }

    /// The output of a run that succeeds.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        out.stdout
    }
}

/// The value on the line of `name`.
#[track_caller]
pub(crate) fn value(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no `{name}` in:\n{text}")).trim().to_owned()
}

/// Asserts that a run failed with `code` and one line that has all of `parts`.
#[track_caller]
pub(crate) fn fails(out: &Output, code: i32, parts: &[&str]) {
    assert_eq!(out.code, code, "{out:?}");
    assert!(out.stderr.starts_with("steadyfs: ") && out.stderr.lines().count() == 1, "{:?}", out.stderr);
    assert!(out.stderr.contains("; "), "what to do is missing: {:?}", out.stderr);
    for part in parts {
        assert!(out.stderr.contains(part), "no `{part}` in {:?}", out.stderr);
    }
}

#[test]
fn info_for_people_and_scripts() {
    let image = Image::new();
    let text = image.ok(&["info"]);
    assert_eq!(value(&text, "label"), "näme");
    assert_eq!(value(&text, "uuid"), UUID);
    assert_eq!(value(&text, "state"), "clean");
    assert!(value(&text, "size").starts_with("64.0 MiB"));

    let json: serde_json::Value = serde_json::from_str(&image.ok(&["info", "--json"])).unwrap();
    assert_eq!(json["label"], "näme");
    assert_eq!(json["size"], SIZE);
    let features = ["extra_attr", "inode_checksum", "inode_crtime", "lost_found", "sb_checksum"];
    assert_eq!(json["features"], serde_json::json!(features));
    assert_eq!((&json["space"]["inodes"], &json["main_segments"]), (&2.into(), &24.into()));
    assert_eq!(json["logs"].as_array().unwrap().len(), 6);
}

#[test]
fn the_tables_of_a_fresh_volume() {
    let image = Image::new();
    let sb = image.ok(&["dump", "sb"]);
    assert_eq!((value(&sb, "magic"), value(&sb, "main_blkaddr")), ("0xf2f52010".into(), "4096".into()));
    let cp = image.ok(&["dump", "cp"]);
    assert_eq!((value(&cp, "valid_inode_count"), value(&cp, "cp_pack_total_block_count")), ("2".into(), "6".into()));
    // mkfs leaves these in the journals of the checkpoint.
    let nat = image.ok(&["dump", "nat", "3"]);
    assert_eq!((value(&nat, "ino"), value(&nat, "block_addr")), ("3".into(), "4096".into()));
    assert_eq!(value(&nat, "found in"), "journal");
    assert_eq!(value(&image.ok(&["dump", "nat", "100"]), "free"), "true");
    let sit = image.ok(&["dump", "sit", "0"]);
    assert_eq!((value(&sit, "type"), value(&sit, "valid blocks")), ("3 (hot node)".into(), "2".into()));
    assert_eq!(value(&sit, "valid map   0"), "c0000000000000000000000000000000");
    assert!(image.ok(&["dump", "ssa", "3"]).contains("segment"));
    let block = image.ok(&["dump", "block", "4096"]);
    assert_eq!((value(&block, "area"), value(&block, "valid")), ("main".into(), "true".into()));
    assert!(block.contains("\n0000  ed 41 "), "{block}");
}

#[test]
fn inodes_and_directories() {
    let image = Image::new();
    let root = image.ok(&["dump", "inode", "3"]);
    assert_eq!((value(&root, "i_mode"), value(&root, "i_links")), ("0o40755 (drwxr-xr-x)".into(), "3".into()));
    assert_eq!(value(&root, "page 0"), "block 5632");
    assert!(!root.contains("problem"), "{root}");
    let entries = image.ok(&["dump", "dir", "3"]);
    assert!(entries.lines().any(|line| line.ends_with("lost+found")), "{entries}");
    let mut broken = [0; 4];
    File::open(image.path()).unwrap().read_exact_at(&mut broken, 4096 * 4096 + 4).unwrap();
    image.write_at(4096 * 4096 + 4, &[broken[0] ^ 1]);
    assert!(value(&image.ok(&["dump", "inode", "3"]), "problem").contains("checksum"));
}

#[test]
fn numbers_that_the_volume_does_not_have() {
    let image = Image::new();
    fails(&image.run(&["dump", "nat", "4000000000"]), 1, &["no node id 4000000000"]);
    fails(&image.run(&["dump", "sit", "24"]), 1, &["no segment 24", "0 to 23"]);
    fails(&image.run(&["dump", "ssa", "24"]), 1, &["no segment 24"]);
    fails(&image.run(&["dump", "inode", "100"]), 1, &["no node 100"]);
    fails(&image.run(&["dump", "block", "16384"]), 1, &["block 16384"]);
    fails(&image.run(&["dump", "inode", "x"]), 1, &["cannot find /x"]);
}

#[test]
fn the_second_superblock_stands_in_for_the_first() {
    let image = Image::new();
    image.write_at(1024, &[0xFF; 4]);
    assert!(value(&image.ok(&["info"]), "note").contains("second"));
    assert_eq!(value(&image.ok(&["dump", "sb"]), "copy"), "1");
    image.write_at(4096 + 1024 + 100, &[0xFF]);
    fails(&image.run(&["info"]), 1, &["superblock"]);
}

#[test]
fn the_older_checkpoint_stands_in_for_a_broken_one() {
    let image = Image::new();
    image.write_at(512 * 4096, &[0xFF; 8]);
    assert!(value(&image.ok(&["info"]), "checkpoint").ends_with("in pack 1"), "its last block is a copy of the first");
    image.write_at(512 * 4096, &[0xFF; 64 * 4096]);
    assert_eq!(value(&image.ok(&["info"]), "checkpoint"), "version 0 in pack 2");
    image.write_at(1024 * 4096, &[0xFF; 64 * 4096]);
    fails(&image.run(&["info"]), 1, &["checkpoint", "fsck"]);
}

#[test]
fn an_image_inside_another_file() {
    let image = Image::new();
    let inner = fs::read(image.path()).unwrap();
    image.write_at(1 << 20, &inner);
    image.write_at(0, &vec![0; 1 << 20]);
    fails(&image.run(&["info"]), 1, &["no F2FS volume", "--offset"]);
    assert_eq!(value(&image.ok(&["info", "--offset", "1M"]), "label"), "näme");
}

#[test]
fn images_from_the_future_or_from_elsewhere() {
    let image = Image::new();
    image.write_at(1024, &0x4F2F_2010u32.to_le_bytes());
    image.write_at(4096 + 1024, &0x4F2F_2010u32.to_le_bytes());
    fails(&image.run(&["info"]), 1, &["no F2FS volume"]);
}

#[test]
fn images_that_are_cut_short() {
    let image = Image::new();
    image.cut(SIZE / 2);
    fails(&image.run(&["info"]), 1, &["16384 blocks", "only 8192", "whole image"]);
    image.cut(4096);
    fails(&image.run(&["info"]), 1, &["block"]);
    image.cut(0);
    fails(&image.run(&["info"]), 1, &["0 bytes"]);
}

/// Commands that open DEVICE, with other arguments that make them do it.
const OPENERS: [&[&str]; 2] = [&["info"], &["dump", "sb"]];

#[test]
fn devices_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    for args in OPENERS {
        let on = |path: &Path| run(&args.iter().copied().chain([path.to_str().unwrap()]).collect::<Vec<_>>());
        fails(&on(&dir.path().join("missing")), 1, &["no such file", "check the name"]);
        // `info` also takes the directory of a mount.
        let hint = if args == ["info"] { "name an image, a device" } else { "a chunk directory or a block device" };
        fails(&on(dir.path()), 1, &["a directory", hint]);
        fails(&on(Path::new("/dev/null")), 1, &["a character device"]);
    }
}

#[test]
fn files_that_may_not_be_read() {
    let image = Image::new();
    fs::set_permissions(image.path(), fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything, so the command runs as nobody, from a place that nobody can reach.
    let program = image.dir.path().join("steadyfs");
    fs::copy(env!("CARGO_BIN_EXE_steadyfs"), &program).unwrap();
    fs::set_permissions(image.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.arg("info").arg(image.path());
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    fails(&finish(&mut command), 1, &["permission denied", "permissions"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_to_print() {
    let image = Image::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_steadyfs"));
    child.args(["dump", "block", "0"]).arg(image.path());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = finish(child.stdout(writer));
    assert_eq!((out.code, out.stderr.as_str()), (141, ""));
}

#[test]
fn by_the_name_of_the_tool() {
    let image = Image::new();
    let out = crate::run::run_as("/usr/sbin/dump.steadyfs", &["sb", image.path().to_str().unwrap()]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(value(&out.stdout, "copy"), "0");
}
