//! A tree with something of everything that a volume, a directory of the host and a tar file can all hold.
//!
//! Also compiled into the unit tests of the command (`src/transfer/tests.rs`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, lsetxattr, makedev, mknodat,
    utimensat,
};

fn as_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn time(path: &Path, seconds: i64, nanos: i64) {
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanos };
    // Another one, so that nobody can mix them up unseen.
    let last_access = Timespec { tv_sec: seconds + 4321, tv_nsec: nanos };
    let times = Timestamps { last_access, last_modification };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn xattr(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Makes the tree in `top`, a directory. What only root can make is there only if root runs the test.
pub(crate) fn make_tree(top: &Path) {
    fs::write(top.join("plain"), "hello").unwrap();
    fs::write(top.join("empty"), "").unwrap();
    fs::write(top.join("suid"), "x").unwrap();
    fs::set_permissions(top.join("suid"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(top.join("plain"), top.join("z hard link")).unwrap();
    symlink("plain", top.join("link")).unwrap();
    symlink("t".repeat(4000), top.join("long target")).unwrap();
    fs::create_dir_all(top.join("dir/sub/deep")).unwrap();
    fs::write(top.join("dir/sub/deep/file"), vec![7; 100_000]).unwrap();
    fs::write(top.join("dir").join(OsStr::from_bytes(b"not utf-8 \xff\xfe\n=")), "odd").unwrap();
    fs::write(top.join("dir").join("n".repeat(255)), "long name").unwrap();
    fs::hard_link(top.join("dir").join("n".repeat(255)), top.join("other name of the long name")).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.write_all_at(&[5; 9000], 3 << 20).unwrap();
    sparse.set_len(10 << 20).unwrap();
    fs::File::create(top.join("hole only")).unwrap().set_len(1 << 33).unwrap();
    mknodat(CWD, top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    xattr(&top.join("plain"), "user.text", b"value");
    xattr(&top.join("plain"), "user.odd=%name", b"\0binary\n\xff=");
    xattr(&top.join("dir"), "user.on.directory", &[9; 900]);
    if as_root() {
        mknodat(CWD, top.join("char"), FileType::CharacterDevice, Mode::RUSR, makedev(5, 300)).unwrap();
        mknodat(CWD, top.join("block"), FileType::BlockDevice, Mode::WUSR, makedev(300, 70_000)).unwrap();
        let (uid, gid) = (Uid::from_raw(3_000_000_000), Gid::from_raw(12));
        chownat(CWD, top.join("empty"), Some(uid), Some(gid), AtFlags::empty()).unwrap();
        xattr(&top.join("link"), "trusted.on.link", b"t");
    }
    fs::create_dir(top.join("closed")).unwrap();
    fs::write(top.join("closed/inside"), "x").unwrap();
    time(&top.join("plain"), 1_000_000_000, 123_456_789);
    time(&top.join("empty"), -5_000_000_000, 250_000_000);
    time(&top.join("suid"), 10_000_000_000, 0);
    time(&top.join("link"), 77, 1);
    time(&top.join("closed/inside"), 1, 0);
    fs::set_permissions(top.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    time(&top.join("closed"), 1_234_567_890, 987_654_321);
    time(&top.join("dir"), 0, 0);
}
