//! Volumes that want something of the host: rights for what `get` makes, and a terminal that shows what they like.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lgetxattr, lsetxattr, makedev, mknodat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::run::{Output, finish, steadyfs};

/// Bytes that must not reach a terminal: an escape sequence, a bell, DEL, C1 as UTF-8 and as a byte, an override of the
/// order of reading.
const PAYLOADS: [&[u8]; 6] = [b"\x1b]0;", b"\x07", b"\x7f", b"\xc2\x9b", b"\x9b31m", b"\xe2\x80\xae"];
/// How a line would begin that a newline in a name has faked.
const FAKE: &str = "FAKE no errors";

fn names() -> [Vec<u8>; 2] {
    let line = format!("line\n{FAKE}");
    [PAYLOADS.concat(), line.into_bytes()]
}

struct Hostile {
    dir: tempfile::TempDir,
}

impl Hostile {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A volume with what `fill` makes of a directory.
    fn new(label: &[u8], fill: impl Fn(&Path)) -> Self {
        let hostile = Hostile { dir: tempfile::tempdir().unwrap() };
        fs::set_permissions(hostile.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(hostile.path("tree")).unwrap();
        fill(&hostile.path("tree"));
        let made = hostile.run(&["mkfs", "-q", "-l", &String::from_utf8_lossy(label), "img", "64M"], 0);
        assert_eq!(made.code, 0, "{made:?}");
        let put = hostile.run(&["put", "tree/.", "img", "/"], 0);
        assert_eq!(put.code, 0, "{put:?}");
        fs::set_permissions(hostile.path("img"), fs::Permissions::from_mode(0o644)).unwrap();
        hostile
    }

    /// Runs a command as a user.
    fn run(&self, args: &[&str], uid: u32) -> Output {
        let mut command = steadyfs();
        command.args(args).current_dir(self.dir.path());
        if uid != 0 {
            command.uid(uid).gid(uid);
        }
        finish(&mut command)
    }

    /// All that a run prints on a terminal.
    fn on_terminal(&self, args: &[impl AsRef<OsStr>]) -> Vec<u8> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(slave.to_str().unwrap()).unwrap();
        let mut command = steadyfs();
        command.args(args).current_dir(self.dir.path());
        command.stdout(slave.try_clone().unwrap()).stderr(slave);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut seen = Vec::new();
        // Ends with EIO when the last user of the other side has gone.
        let _ = File::from(master).read_to_end(&mut seen);
        child.wait().unwrap();
        seen
    }
}

/// What of the payloads is in a text.
fn found(text: &[u8]) -> Vec<String> {
    let raw = PAYLOADS.iter().filter(|payload| text.windows(payload.len()).any(|window| window == **payload));
    let mut found: Vec<String> = raw.map(|payload| format!("{payload:?}")).collect();
    if text.split(|b| *b == b'\n').any(|line| line.starts_with(FAKE.as_bytes())) {
        found.push(FAKE.to_owned());
    }
    found
}

fn set_id_tree(top: &Path) {
    fs::write(top.join("suid"), "x").unwrap();
    chown(top.join("suid"), Some(12), Some(34)).unwrap();
    fs::set_permissions(top.join("suid"), fs::Permissions::from_mode(0o6777)).unwrap();
    fs::create_dir(top.join("dir")).unwrap();
    fs::set_permissions(top.join("dir"), fs::Permissions::from_mode(0o2777)).unwrap();
    mknodat(CWD, top.join("null"), FileType::CharacterDevice, Mode::RUSR, makedev(1, 3)).unwrap();
    fs::hard_link(top.join("null"), top.join("null2")).unwrap();
    // cap_net_raw, permitted and effective.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    lsetxattr(top.join("suid"), "security.capability", &capability, XattrFlags::empty()).unwrap();
    lsetxattr(top.join("suid"), "trusted.t", b"t", XattrFlags::empty()).unwrap();
    lsetxattr(top.join("suid"), "user.kept", b"u", XattrFlags::empty()).unwrap();
}

/// What `get` made of the tree: mode and owner of the file, mode of the directory, whether there are devices and
/// privileged attributes.
fn made(out: &Path) -> (u32, (u32, u32), u32, bool, bool) {
    let file = fs::symlink_metadata(out.join("suid")).unwrap();
    let dir = fs::symlink_metadata(out.join("dir")).unwrap();
    let device = |name: &str| fs::symlink_metadata(out.join(name)).is_ok_and(|meta| meta.file_type().is_char_device());
    let attribute = |name: &str| lgetxattr(out.join("suid"), name, &mut [0; 64][..]).is_ok();
    assert!(attribute("user.kept"));
    assert_eq!(device("null"), device("null2"));
    assert_eq!(attribute("security.capability"), attribute("trusted.t"));
    let owner = (file.uid(), file.gid());
    (file.mode() & 0o7777, owner, dir.mode() & 0o7777, device("null"), attribute("trusted.t"))
}

#[test]
fn only_root_gets_what_gives_rights() {
    let volume = Hostile::new(b"", set_id_tree);
    let nobody = (65534, 65534);
    let masked = 0o777 & !umask();
    for (args, uid, expected) in [
        (&["get"][..], 65534, (masked, nobody, masked, false, false)),
        (&["get", "--no-same-permissions", "--no-same-owner"], 65534, (masked, nobody, masked, false, false)),
        (&["get", "-p"], 65534, (0o6777, nobody, 0o2777, false, false)),
        (&["get"], 0, (0o6777, (12, 34), 0o2777, true, true)),
        (&["get", "--no-devices"], 0, (0o6777, (12, 34), 0o2777, false, true)),
        (&["get", "--no-same-owner"], 0, (0o777, (0, 0), 0o777, true, false)),
        (&["get", "--no-same-permissions"], 0, (masked, (12, 34), masked, true, false)),
    ] {
        let out = volume.path("out");
        let run = volume.run(&[args, &["img", "/", "out"]].concat(), uid);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(made(&out), expected, "{args:?} as {uid}");
        let (mode, _, _, devices, attributes) = expected;
        for (left_out, word) in [
            (mode & 0o6000 == 0, "left out 2 set-id bits of files; -p"),
            (!devices, "left out 2 device nodes"),
            (!attributes, "left out 2 security.* and trusted.* attributes"),
        ] {
            assert_eq!(run.stderr.contains(word), left_out, "{args:?} as {uid}: {}", run.stderr);
        }
        fs::remove_dir_all(out).unwrap();
    }
    // The stream has everything, and takes no such options.
    let run = volume.run(&["get", "--tar", "all.tar", "img"], 65534);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let listed = std::process::Command::new("tar")
        .args(["-t", "-v", "--numeric-owner", "-f"])
        .arg(volume.path("all.tar"))
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(["-rwsrwsrwx", " 12/34 ", "cr--------"].iter().all(|part| listed.contains(part)), "{listed}");
    assert_eq!(volume.run(&["get", "--no-devices", "--tar", "all.tar", "img"], 0).code, 2);
}

/// Makes the count of a segment's valid blocks contradict its map, in the SIT.
fn damage_sit(path: &Path) {
    let options = steadyfs_device::OpenOptions { read_only: true, ..Default::default() };
    let image = steadyfs_core::raw::Image::open(steadyfs_device::open_image(path, options).unwrap()).unwrap();
    let in_table = |seg: &steadyfs_format::SegNo| image.sit_journal().iter().all(|(other, _)| other != seg);
    let (block, index) = image.layout().sit_place(image.layout().segments().find(in_table).unwrap());
    let at = image.sit_lba(block).get() * 4096 + index as u64 * 74;
    drop(image);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut count = [0];
    file.read_exact_at(&mut count, at).unwrap();
    file.write_all_at(&[count[0] ^ 1], at).unwrap();
}

#[test]
fn one_wrong_counter_keeps_nobody_from_reading() {
    let volume = Hostile::new(b"", |top| fs::write(top.join("file"), "contents").unwrap());
    damage_sit(&volume.path("img"));
    let (said, step) = ("the volume is read without its segment information", "at mount step segments and logs: ");
    for (args, shown) in [
        (&["ls", "img"][..], "file\n"),
        (&["find", "img", "/file"], "/file\n"),
        (&["cat", "img", "/file"], "contents"),
        (&["stat", "img", "/file"], "regular file"),
        (&["get", "img", "/file", "copy"], ""),
    ] {
        let out = volume.run(args, 0);
        assert_eq!(out.code, 0, "{out:?}");
        assert!(out.stdout.contains(shown) && out.stderr.contains(said), "{out:?}");
    }
    assert_eq!(fs::read_to_string(volume.path("copy")).unwrap(), "contents");
    let tells = |refused: &Output| refused.stderr.contains("steadyfs fsck") && refused.stderr.contains(step);
    let refused = volume.run(&["mkdir", "img", "/new"], 0);
    assert!(refused.code == 1 && tells(&refused), "{refused:?}");
    fs::create_dir(volume.path("mnt")).unwrap();
    for options in ["ro", "ro,norecovery"] {
        let out = volume.run(&["mount", "-b", "-o", options, "img", "mnt"], 0);
        assert_eq!(out.code, 0, "{out:?}");
        assert_eq!(fs::read_to_string(volume.path("mnt/file")).unwrap(), "contents");
        crate::run::umount(&volume.path("mnt"));
    }
    let refused = volume.run(&["mount", "-b", "img", "mnt"], 0);
    assert!(refused.code == 32 && tells(&refused), "{refused:?}");
}

/// Gives the youngest node of the NAT journal an address that none can have; its id.
fn damage_nat_journal(path: &Path) -> u32 {
    const RECORD: usize = 13;
    // In a summary block of its own the journal comes behind 512 entries of 7 bytes.
    const BEHIND_ENTRIES: u64 = 512 * 7;
    let options = steadyfs_device::OpenOptions { read_only: true, ..Default::default() };
    let image = steadyfs_core::raw::Image::open(steadyfs_device::open_image(path, options).unwrap()).unwrap();
    let compact = image.checkpoint().header().flags().contains(steadyfs_format::checkpoint::CpFlags::COMPACT_SUM);
    let block = image.layout().pack(image.pack()) + u64::from(image.checkpoint().pack_map().data_summaries.start);
    let (index, nid) = image.nat_journal().iter().map(|(nid, _)| nid.get()).enumerate().max_by_key(|e| e.1).unwrap();
    drop(image);
    let journal = block.get() * 4096 + if compact { 0 } else { BEHIND_ENTRIES };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut record = [0; RECORD];
    let at = journal + 2 + (index * RECORD) as u64;
    file.read_exact_at(&mut record, at).unwrap();
    assert_eq!(record[..4], nid.to_le_bytes());
    file.write_all_at(&[0xff; 4], at + 9).unwrap();
    nid
}

#[test]
fn a_damaged_entry_of_the_nat_journal_costs_its_node_and_nothing_else() {
    let volume = Hostile::new(b"", |top| {
        fs::write(top.join("file"), "contents").unwrap();
        fs::write(top.join("victim"), "gone").unwrap();
    });
    let nid = damage_nat_journal(&volume.path("img"));
    let said = format!("node {nid} has the impossible address");
    for (args, code, shown) in [
        (&["ls", "img"][..], 1, "file\n"),
        (&["cat", "img", "/file"], 0, "contents"),
        (&["cat", "img", "/victim"], 1, ""),
    ] {
        let out = volume.run(args, 0);
        assert_eq!((out.code, out.stdout.as_str()), (code, shown), "{out:?}");
        assert!(out.stderr.contains(&said) && out.stderr.contains("left out"), "{out:?}");
    }
    fs::create_dir(volume.path("mnt")).unwrap();
    let out = volume.run(&["mount", "-b", "-o", "ro", "img", "mnt"], 0);
    assert_eq!(out.code, 0, "{out:?}");
    assert_eq!(fs::read_to_string(volume.path("mnt/file")).unwrap(), "contents");
    assert!(fs::read_to_string(volume.path("mnt/victim")).is_err());
    crate::run::umount(&volume.path("mnt"));
    let refused = volume.run(&["mount", "-b", "img", "mnt"], 0);
    assert!(refused.code == 32 && refused.stderr.contains(&said), "{refused:?}");
    assert!(volume.run(&["mkdir", "img", "/new"], 0).code == 1);
}

/// Makes the NAT journal in force count more entries than there can be.
fn damage_count_of_nat_journal(path: &Path) {
    let options = steadyfs_device::OpenOptions { read_only: true, ..Default::default() };
    let image = steadyfs_core::raw::Image::open(steadyfs_device::open_image(path, options).unwrap()).unwrap();
    let compact = image.checkpoint().header().flags().contains(steadyfs_format::checkpoint::CpFlags::COMPACT_SUM);
    let block = image.layout().pack(image.pack()) + u64::from(image.checkpoint().pack_map().data_summaries.start);
    let at = block.get() * 4096 + if compact { 0 } else { 512 * 7 };
    File::options().write(true).open(path).unwrap().write_all_at(&[0xff; 2], at).unwrap();
}

#[test]
fn a_nat_journal_that_cannot_be_used_stops_changes_and_not_readers() {
    let volume = Hostile::new(b"", |top| {
        (0..60).for_each(|i| fs::write(top.join(format!("file{i}")), "contents").unwrap());
    });
    // The nodes of the files are in the table by now, and the journal is empty.
    damage_count_of_nat_journal(&volume.path("img"));
    let said = "the NAT journal of the last checkpoint cannot be used";
    for (args, part) in
        [(&["cat", "img", "/file7"][..], "contents"), (&["info", "img"], "label"), (&["ls", "img"], "file59")]
    {
        let out = volume.run(args, 0);
        assert!(out.code == 0 && out.stdout.contains(part) && out.stderr.contains(said), "{out:?}");
    }
    let checked = volume.run(&["fsck", "--json", "img"], 0);
    assert!(checked.code == 4 && checked.stdout.contains("NatJournalDamaged"), "{checked:?}");
    for args in [&["mkdir", "img", "/new"][..], &["trim", "img"]] {
        let refused = volume.run(args, 0);
        assert!(refused.code == 1 && refused.stderr.contains(said), "{refused:?}");
    }
}

#[test]
fn a_sound_read_only_volume_of_f2fs_tools_has_no_errors() {
    let volume = Hostile::new(b"", |top| {
        fs::create_dir(top.join("dir")).unwrap();
        (0..40).for_each(|i| fs::write(top.join(format!("dir/file{i}")), vec![i; 20_000]).unwrap());
    });
    let tool = |name: &str, args: &[&str]| {
        let out = finish(std::process::Command::new(name).args(args).current_dir(volume.dir.path()));
        assert_eq!(out.code, 0, "{out:?}");
    };
    File::create(volume.path("ro.img")).unwrap().set_len(64 << 20).unwrap();
    tool("mkfs.f2fs", &["-q", "-O", "ro", "ro.img"]);
    tool("sload.f2fs", &["-f", "tree", "ro.img"]);
    let out = volume.run(&["fsck", "-f", "ro.img"], 0);
    assert!(out.code == 0 && out.stdout.ends_with("no errors\n"), "{out:?}");
    assert_eq!(volume.run(&["find", "--type", "f", "ro.img"], 0).stdout.lines().count(), 40);
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    u32::from_str_radix(status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim(), 8).unwrap()
}

fn payload_tree(top: &Path) {
    for name in names() {
        let dir = top.join(OsStr::from_bytes(&name));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(OsStr::from_bytes(&[b"f", name.as_slice()].concat())), vec![1; 5000]).unwrap();
        symlink(OsStr::from_bytes(&name), dir.join("link")).unwrap();
        let attribute = [b"user.", name.as_slice()].concat();
        lsetxattr(dir.join("link").parent().unwrap(), attribute.as_slice(), b"v", XattrFlags::empty()).unwrap();
    }
}

/// Changes a letter of every name in the image, so that no hash is right.
fn break_hashes(image: &Path) {
    let mut bytes = fs::read(image).unwrap();
    let mut changed = 0;
    for name in names() {
        let at: Vec<usize> = (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(&name)).collect();
        for at in at {
            let last = at + name.len() - 1;
            bytes[last] = if name.last() == Some(&b's') { b'z' } else { 0xad };
            changed += 1;
        }
    }
    assert!(changed >= 4, "{changed} names");
    fs::write(image, bytes).unwrap();
}

#[test]
fn no_command_shows_what_a_volume_wants_the_terminal_to_do() {
    let label = format!("\u{1b}]0;\u{7}\u{7f}\u{9b}\u{202e}\n{FAKE}");
    let volume = Hostile::new(label.as_bytes(), payload_tree);
    let [first, second] = names();
    let below = |name: &[u8], rest: &[u8]| [b"/", name, b"/", rest].concat();
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut commands: Vec<Vec<Vec<u8>>> = [
        &["ls", "img"][..],
        &["ls", "-lR", "img"],
        &["find", "img"],
        &["info", "img"],
        &["info", "--json", "img"],
        &["dump", "superblock", "img"],
        &["dump", "dir", "3", "img"],
        &["fsck", "img"],
        &["get", "img", "/", "out"],
        // Names exist already where a directory is wanted.
        &["get", "img", "/", "files"],
    ]
    .iter()
    .map(|command| words(command))
    .collect();
    fs::create_dir(volume.path("files")).unwrap();
    for name in [&first, &second] {
        fs::write(volume.path("files").join(OsStr::from_bytes(name)), "").unwrap();
        for command in [&["stat", "img"][..], &["stat", "--json", "img"], &["cat", "img"], &["ls", "-ld", "img"]] {
            for path in [below(name, b""), below(name, b"link"), below(name, b"missing"), below(b"missing", name)] {
                commands.push([words(command), vec![path]].concat());
            }
        }
    }
    let check = |commands: &[Vec<Vec<u8>>]| {
        for command in commands {
            let args: Vec<&OsStr> = command.iter().map(|arg| OsStr::from_bytes(arg)).collect();
            let seen = volume.on_terminal(&args);
            assert!(!seen.is_empty(), "{args:?} says nothing");
            assert_eq!(found(&seen), [""; 0], "{args:?}: {}", String::from_utf8_lossy(&seen));
            let piped = steadyfs().args(&args).current_dir(volume.dir.path()).output().unwrap();
            assert_eq!(found(&piped.stderr), [""; 0], "{args:?} in a pipe: {}", String::from_utf8_lossy(&piped.stderr));
            // Lists are for programs there, one name a line.
            let list = matches!(&*command[0], b"ls" | b"find");
            assert!(list || found(&piped.stdout).is_empty(), "{}", String::from_utf8_lossy(&piped.stdout));
            let _ = fs::remove_dir_all(volume.path("out"));
        }
    };
    check(&commands);
    break_hashes(&volume.path("img"));
    let fsck = [words(&["fsck", "-f", "img"]), words(&["fsck", "--json", "-f", "img"])];
    assert!(volume.run(&["fsck", "-f", "img"], 0).stdout.contains("the hash of"), "the names are told");
    check(&fsck);
}
