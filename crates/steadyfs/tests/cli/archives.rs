//! Archives of GNU tar and bsdtar in both directions, with each option of theirs that keeps more than modes, and with
//! each of their formats.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, makedev, mknodat, utimensat};
use steadyfs_testkit::Manifest;
use steadyfs_testkit::manifest::{Fields, Options};

use crate::run::{Output, finish, run, steadyfs};

fn setfacl(list: &str, path: &Path) {
    let out = finish(Command::new("setfacl").args(["-m", list]).arg(path));
    assert_eq!(out.code, 0, "{out:?}");
}

/// What every format holds: times without fractions, small owners.
fn plain_tree(top: &Path) {
    fs::create_dir_all(top.join("dir/sub")).unwrap();
    fs::write(top.join("plain"), "text").unwrap();
    fs::hard_link(top.join("plain"), top.join("plain too")).unwrap();
    fs::write(top.join("dir/sub/mode"), "").unwrap();
    fs::set_permissions(top.join("dir/sub/mode"), fs::Permissions::from_mode(0o6751)).unwrap();
    symlink("plain", top.join("link")).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.write_all_at(&[5; 9000], 3 << 20).unwrap();
    sparse.set_len(10 << 20).unwrap();
}

/// And what only some do.
fn rich_tree(top: &Path) {
    plain_tree(top);
    for (name, list) in [("list", "u:daemon:rw,g::-,g:54321:r,o::r"), ("dir", "u:54321:rwx,d:u:2:rwx,d:g:bin:r")] {
        if name == "list" {
            fs::write(top.join(name), "x").unwrap();
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(0o640)).unwrap();
        }
        setfacl(list, &top.join(name));
    }
    let set = |name: &str, key: &str, value: &[u8]| {
        lsetxattr(top.join(name), key, value, XattrFlags::empty()).unwrap();
    };
    set("plain", "user.odd=%name", b"\0binary\n\xff=");
    set("dir", "user.on.directory", &[9; 300]);
    set("dir/sub/mode", "security.capability", &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    set("plain", "security.selinux", b"system_u:object_r:etc_t:s0\0");
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    mknodat(CWD, top.join("device"), FileType::CharacterDevice, Mode::RUSR, makedev(300, 70_000)).unwrap();
    fs::write(top.join("n".repeat(200)), "").unwrap();
    chown(top.join("n".repeat(200)), Some(3_000_000_000), Some(12)).unwrap();
    // Without a fraction: of a time before 1970 bsdtar takes it the wrong way round.
    let time = Timespec { tv_sec: -5_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, top.join("dir/sub"), &times, rustix::fs::AtFlags::empty()).unwrap();
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        for (name, make) in [("plain", plain_tree as fn(&Path)), ("rich", rich_tree)] {
            fs::create_dir(place.path(name)).unwrap();
            make(&place.path(name));
        }
        place.ok(steadyfs().args(["mkfs", "-q", "-O", "extra_attr,flexible_inline_xattr", "img", "64M"]));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, command: &mut Command) -> Output {
        finish(command.current_dir(self.dir.path()))
    }

    #[track_caller]
    fn ok(&self, command: &mut Command) {
        let out = self.run(command);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{command:?}");
    }
}

/// All but what no archive keeps, and of the attributes those that do not begin so.
fn fields(without: &[&str]) -> Fields {
    let ignored_xattrs = without.iter().map(|name| (*name).to_owned()).collect();
    Fields { dir_nlink: false, ignored_xattrs, ..Fields::portable() }
}

#[track_caller]
fn compare(tree: &Path, copy: &Path, fields: &Fields, what: &str) {
    let manifest = |top: &Path| {
        let mut manifest = Manifest::of(top, &Options::default()).unwrap();
        // bsdtar does not set the times of where it unpacks to.
        manifest.entries.remove(".");
        manifest
    };
    println!("{what}");
    manifest(tree).assert_same(&manifest(copy), fields);
}

/// Attributes but for lists.
const OTHERS: [&str; 2] = ["user.", "security."];
const ALL: [&str; 3] = ["user.", "security.", "system."];

/// Name, whose options, whether holes are kept, what is not kept of the attributes.
const RICH: &[(&str, &[&str], bool, &[&str])] = &[
    ("tar", &["--acls", "--xattrs", "--xattrs-include=*", "--selinux", "-S"], true, &[]),
    ("tar", &["--acls"], false, &OTHERS),
    ("tar", &["--acls", "--numeric-owner", "-S", "--sparse-version=0.0"], true, &OTHERS),
    ("tar", &["--xattrs", "--xattrs-include=*", "-S", "--sparse-version=0.1"], true, &["security.selinux"]),
    ("tar", &["--selinux", "--acls", "-S", "--sparse-version=1.0"], true, &["user.", "security.capability"]),
    (
        "tar",
        &["--acls", "--pax-option=delete=atime,delete=ctime", "-V", "a label", "--level=0", "-g", "snapshot"],
        false,
        &OTHERS,
    ),
    ("bsdtar", &["--format=pax", "--acls", "--xattrs", "--fflags"], true, &[]),
    ("bsdtar", &["--format=pax", "--acls", "--xattrs", "--options", "pax:xattrheader=LIBARCHIVE"], true, &[]),
    ("bsdtar", &["--format=pax", "--acls", "--xattrs", "--options", "pax:xattrheader=SCHILY"], true, &[]),
    ("bsdtar", &["--format=pax", "--acls", "--no-xattrs", "--no-read-sparse"], false, &OTHERS),
];

const PLAIN: &[(&str, &[&str], bool)] = &[
    ("tar", &["--format=gnu", "-S"], true),
    ("tar", &["--format=oldgnu", "-S"], true),
    ("tar", &["--format=gnu", "--level=0", "-g", "snapshot"], false),
    ("tar", &["--format=ustar"], false),
    ("tar", &["--format=v7"], false),
    ("bsdtar", &["--format=gnutar"], false),
    ("bsdtar", &["--format=ustar"], false),
    ("bsdtar", &["--format=paxr", "--acls", "--xattrs"], true),
];

#[test]
fn what_others_archive_comes_into_a_volume() {
    let place = Place::new();
    let rich = RICH.iter().map(|(program, options, holes, without)| ("rich", program, options, holes, *without));
    let plain = PLAIN.iter().map(|(program, options, holes)| ("plain", program, options, holes, &ALL[..]));
    let rows: Vec<_> = rich.chain(plain).collect();
    for (at, (tree, program, options, ..)) in rows.iter().enumerate() {
        let posix: &[&str] = if *tree == "rich" && **program == "tar" { &["--format=posix"] } else { &[] };
        let mut archive = Command::new(program);
        archive.args(posix).args(**options).args(["-c", "-f", "archive", "-C", tree, "."]);
        let made = place.run(&mut archive);
        assert_eq!(made.code, 0, "{archive:?}: {made:?}");
        place.ok(steadyfs().args(["mkdir", "img"]).arg(format!("/{at}")));
        place.ok(steadyfs().args(["put", "--tar", "archive", "img"]).arg(format!("/{at}")));
    }
    place.ok(steadyfs().args(["get", "img", "/", "out"]));
    for (at, (tree, program, options, holes, without)) in rows.iter().enumerate() {
        let (copy, what) = (place.path("out").join(at.to_string()), format!("{program} {options:?}"));
        let whole = *tree == "rich";
        // What keeps no fractions of a second keeps the seconds.
        let fields = Fields { mtime: whole, dir_times: whole, ..fields(without) };
        compare(&place.path(tree), &copy, &fields, &what);
        let sparse = |top: &Path| fs::metadata(top.join("sparse")).unwrap();
        assert!(!**holes || sparse(&copy).blocks() <= 64, "{what}: holes are filled");
        assert_eq!(sparse(&copy).mtime(), sparse(&place.path(tree)).mtime(), "{what}");
    }
}

#[test]
fn others_unpack_what_a_volume_gives() {
    let place = Place::new();
    place.ok(steadyfs().args(["put", "rich/.", "img", "/"]));
    place.ok(steadyfs().args(["get", "--tar", "archive", "img"]));
    for (at, (program, options, without)) in [
        ("tar", &["--acls", "--xattrs", "--xattrs-include=*", "--selinux"][..], &[][..]),
        ("tar", &["--acls"], &OTHERS),
        // bsdtar takes a label without its NUL, and leaves `=` in names as it is written in a key.
        ("bsdtar", &["--acls", "--xattrs"], &["security.selinux", "user.odd"]),
        ("bsdtar", &["--acls", "--no-xattrs"], &OTHERS),
    ]
    .into_iter()
    .enumerate()
    {
        let out = place.path(&format!("out{at}"));
        fs::create_dir(&out).unwrap();
        let mut unpack = Command::new(program);
        unpack.args(options).args(["-x", "-p", "--same-owner", "-f", "archive", "-C"]).arg(&out);
        let done = place.run(&mut unpack);
        assert_eq!(done.code, 0, "{unpack:?}: {done:?}");
        compare(&place.path("rich"), &out, &fields(without), &format!("{unpack:?}"));
    }
}

#[test]
fn a_member_that_is_a_link_to_itself_takes_nothing_away() {
    let place = Place::new();
    let tree = place.path("plain");
    place.ok(Command::new("tar").args(["-c", "-f", "archive", "-C"]).arg(tree).args(["plain", "plain"]));
    for _ in 0..2 {
        place.ok(steadyfs().args(["put", "--tar", "archive", "img", "/"]));
        assert_eq!(place.run(steadyfs().args(["cat", "img", "/plain"])).stdout, "text");
    }
}

#[test]
fn what_a_directory_of_a_volume_gives_no_copy_gets() {
    let place = Place::new();
    place.ok(steadyfs().args(["put", "rich/dir", "img", "/"]));
    fs::set_permissions(place.path("plain/plain"), fs::Permissions::from_mode(0o640)).unwrap();
    place.ok(Command::new("tar").args(["-c", "-f", "archive", "-C", "plain", "plain", "dir"]));
    place.ok(steadyfs().args(["put", "--tar", "archive", "img", "/dir"]));
    place.ok(steadyfs().args(["get", "img", "/dir", "out"]));
    for name in ["plain", "dir", "dir/sub"] {
        let out = finish(Command::new("getfacl").args(["-c", "-p"]).arg(place.path("out").join(name)));
        assert_eq!(out.stdout.lines().filter(|line| !line.is_empty()).count(), 3, "{name}: {out:?}");
    }
}

#[test]
fn what_is_not_kept_is_told() {
    let place = Place::new();
    let more = "--pax-option=SCHILY.fflags:=nodump,LIBARCHIVE.creationtime:=5,SCHILY.dev:=7";
    let archive = ["--format=posix", more, "-c", "-f", "archive", "-C", "plain", "plain", "dir"];
    place.ok(Command::new("tar").args(archive));
    let out = place.run(steadyfs().args(["put", "--tar", "archive", "img", "/"]));
    let words = [
        "steadyfs: left out LIBARCHIVE.creationtime of 4 members; a volume has no place for it",
        "steadyfs: left out SCHILY.fflags of 4 members; a volume has no place for it",
    ];
    assert_eq!((out.code, out.stderr.lines().collect::<Vec<_>>()), (0, words.to_vec()));
    for (key, word, mode) in [
        (
            "SCHILY.acl.access:=user::rw-,user:nobody of that name:r--,group::---,mask::r--,other::---",
            "`nobody of",
            "-rw-r-----",
        ),
        ("SCHILY.acl.access:=nonsense", "its group gets no rights", "-rw----r--"),
        ("SCHILY.xattr.system.posix_acl_access:=nonsense", "attribute system.posix_acl_access left out", "-rw----r--"),
        ("SCHILY.acl.ace:=owner@:rwx::allow", "NFS version 4", "-rw-r--r--"),
        ("uid:=1099511627776", "no volume has its owner", ""),
    ] {
        let option = format!("--pax-option={}", key.replace(',', "\n"));
        let _ = place.run(steadyfs().args(["rm", "-f", "img", "/file"]));
        fs::write(place.path("file"), "x").unwrap();
        fs::set_permissions(place.path("file"), fs::Permissions::from_mode(0o644)).unwrap();
        place.ok(Command::new("tar").args(["--format=posix", &option, "-c", "-f", "archive", "file"]));
        let out = place.run(steadyfs().args(["put", "--tar", "archive", "img", "/"]));
        assert!(out.code == 1 && out.stderr.contains(word), "{key}: {out:?}");
        let listed = run(&["ls".as_ref(), "-l".as_ref(), place.path("img").as_os_str(), "/file".as_ref()]);
        assert!(listed.stdout.starts_with(mode), "{key}: {listed:?}");
    }
}
