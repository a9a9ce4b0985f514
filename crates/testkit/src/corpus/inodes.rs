//! The subjects that are about what inodes say: links, devices, attributes, ACLs, modes, times, targets.

use super::tree::Tree;
use super::{CorpusOp, Special};
use crate::manifest::Time;

impl Tree<'_> {
    pub(super) fn links(&mut self) {
        self.dir("links");
        self.dir("links/sub");
        self.file("links/two", 10);
        self.link("links/two", "links/two-again");
        self.file("links/across", 10_000);
        self.link("links/across", "links/sub/across");
        self.link("links/sub/across", "links/sub/across-again");
        self.file("links/first-name-gone", 10);
        self.link("links/first-name-gone", "links/second-name");
        self.unlink("links/first-name-gone");
        self.mknod("links/fifo", Special::Fifo);
        self.link("links/fifo", "links/fifo-again");
        self.symlink("links/symlink", "two");
        self.link("links/symlink", "links/symlink-again");
        self.empty("links/many");
        self.dir("links/of-many");
        for n in 1..self.spec.links {
            self.link("links/many", format!("links/of-many/{n}"));
        }
    }

    pub(super) fn special(&mut self) {
        self.dir("special");
        self.mknod("special/fifo", Special::Fifo);
        self.mknod("special/socket", Special::Socket);
        // Numbers below 256 have one form on disk, others a second (format section 7.2); the largest are 12 and 20
        // bits.
        for (major, minor) in [(0, 0), (1, 3), (255, 255), (256, 0), (8, 256), (259, 131_073), (4095, 1_048_575)] {
            self.mknod(format!("special/char-{major}-{minor}"), Special::Char(major, minor));
            self.mknod(format!("special/block-{major}-{minor}"), Special::Block(major, minor));
        }
    }

    /// Attributes that stay in the inode, that go to a block, that straddle both; all namespaces; removals and
    /// replacements.
    pub(super) fn xattrs(&mut self) {
        self.dir("xattr");
        // An inline area of 200 bytes has a header of 24 and entries of 4 + name + value: 168 is the value of "user.v"
        // that fills it.
        for size in [0, 1, 100, 164, 165, 168, 169, 172, 173, 200, 1000, 2000, 3900] {
            let path = format!("xattr/value-{size}");
            self.empty(&path);
            self.xattr(&path, "user.v", vec![b'v'; size]);
        }
        self.file("xattr/many", 100);
        for n in 0..30 {
            self.xattr("xattr/many", format!("user.number-{n:02}"), format!("value {n}").repeat(n / 3 + 1));
        }
        for n in (0..30).step_by(3) {
            self.no_xattr("xattr/many", format!("user.number-{n:02}"));
        }
        self.file("xattr/replaced", 5000);
        for (name, value) in
            [("user.a", 10), ("user.b", 20), ("user.a", 90), ("user.b", 5), ("user.c", 600), ("user.c", 6)]
        {
            self.xattr("xattr/replaced", name, vec![b'r'; value]);
        }
        self.file("xattr/block-freed", 10);
        self.xattr("xattr/block-freed", "user.large", [1; 2000]);
        self.xattr("xattr/block-freed", "user.small", [2; 10]);
        self.no_xattr("xattr/block-freed", "user.large");
        self.file("xattr/all-removed", 10);
        self.xattr("xattr/all-removed", "user.a", [1; 500]);
        self.no_xattr("xattr/all-removed", "user.a");
        self.dir("xattr/dir");
        self.empty("xattr/file");
        self.symlink("xattr/symlink", "file");
        self.mknod("xattr/fifo", Special::Fifo);
        self.mknod("xattr/device", Special::Char(1, 3));
        for (path, namespaces) in [
            ("xattr/dir", &["user", "trusted", "security"][..]),
            ("xattr/file", &["user", "trusted", "security"]),
            ("xattr/symlink", &["trusted", "security"]),
            ("xattr/fifo", &["trusted", "security"]),
            ("xattr/device", &["trusted", "security"]),
        ] {
            for namespace in namespaces {
                self.xattr(path, format!("{namespace}.steadyfs"), format!("{namespace} of {path}"));
                self.xattr(path, format!("{namespace}.binary"), [0, 255, 0, 10]);
            }
        }
        self.xattr("xattr/file", [b"user.".as_slice(), &[b'n'; 250]].concat(), "the longest name");
        self.xattr("xattr/file", b"user.\xff\xc3".as_slice(), "a name that is not UTF-8");
    }

    pub(super) fn acls(&mut self) {
        self.dir("acl");
        let owner_group_other = |o, g, x| vec![(USER_OBJ, o, 0), (GROUP_OBJ, g, 0), (OTHER, x, 0)];
        let mut access = owner_group_other(6, 4, 0);
        access.extend([(USER, 7, 1000), (USER, 4, 70_000), (GROUP, 5, 1001), (MASK, 5, 0)]);
        self.file("acl/file", 10);
        self.xattr("acl/file", ACCESS, acl(access.clone()));
        self.dir("acl/dir");
        self.xattr("acl/dir", ACCESS, acl(access.clone()));
        self.xattr("acl/dir", DEFAULT, acl(access.clone()));
        self.file("acl/removed", 10);
        self.xattr("acl/removed", ACCESS, acl(access.clone()));
        self.no_xattr("acl/removed", ACCESS);
        let mut many = owner_group_other(7, 0, 0);
        many.extend((0..60).map(|n| (USER, n % 8, 2000 + u32::from(n))));
        many.push((MASK, 7, 0));
        self.file("acl/many", 10);
        self.xattr("acl/many", ACCESS, acl(many));
        if self.spec.inherit {
            self.dir("acl/inherited");
            self.xattr("acl/inherited", DEFAULT, acl(access));
            for (name, mode) in [("file", 0o666), ("private", 0o600), ("read-only", 0o444)] {
                self.made(format!("acl/inherited/{name}").as_bytes());
                self.ops.push(CorpusOp::CreateInherit { path: format!("acl/inherited/{name}").into(), mode });
            }
            self.made(b"acl/inherited/dir");
            self.ops.push(CorpusOp::MkdirInherit { path: b"acl/inherited/dir".to_vec(), mode: 0o777 });
            self.made(b"acl/inherited/dir/file");
            self.ops.push(CorpusOp::CreateInherit { path: b"acl/inherited/dir/file".to_vec(), mode: 0o666 });
        }
    }

    pub(super) fn modes(&mut self) {
        self.dir("modes");
        for mode in [0, 0o777, 0o4755, 0o2755, 0o1777, 0o6711, 0o7777, 0o001] {
            let (file, dir) = (format!("modes/file-{mode:04o}"), format!("modes/dir-{mode:04o}"));
            self.empty(&file);
            self.chmod(&file, mode);
            self.dir(&dir);
            self.chmod(&dir, mode);
        }
        for (uid, gid) in [(1000, 1000), (0, 5), (65_534, 65_534), (70_000, 4_000_000_000), (4_294_967_294, 0)] {
            let (file, dir, link) =
                (format!("modes/of-{uid}-{gid}"), format!("modes/d-{uid}-{gid}"), format!("modes/l-{uid}-{gid}"));
            self.file(&file, 10);
            self.dir(&dir);
            self.symlink(&link, "target");
            for path in [file, dir, link] {
                self.chown(path, uid, gid);
            }
        }
        self.empty("modes/setuid-of-1000");
        self.chown("modes/setuid-of-1000", 1000, 1000);
        self.chmod("modes/setuid-of-1000", 0o6755);
        if self.spec.inherit {
            self.dir("modes/setgid");
            self.chown("modes/setgid", 1000, 1234);
            self.chmod("modes/setgid", 0o2775);
            for (path, is_dir) in [("modes/setgid/file", false), ("modes/setgid/dir", true)] {
                self.made(path.as_bytes());
                let path = path.as_bytes().to_vec();
                let (mode, dir_mode) = (0o664, 0o775);
                self.ops.push(match is_dir {
                    true => CorpusOp::MkdirInherit { path, mode: dir_mode },
                    false => CorpusOp::CreateInherit { path, mode },
                });
            }
        }
    }

    pub(super) fn times(&mut self) {
        self.dir("times");
        let mut seconds =
            vec![0, 1, -1, -2, i64::from(i32::MIN), i64::from(i32::MAX), 1 << 31, (1 << 32) + 5, (1 << 33) + 7];
        if self.spec.far_times {
            seconds.extend([-62_135_596_800, 253_402_300_799, -(1 << 40), 1 << 40]);
        }
        for (n, sec) in seconds.into_iter().enumerate() {
            for (nsec, kind) in [(0, "file"), (1, "dir"), (999_999_999, "symlink")] {
                let path = format!("times/{n}-{kind}");
                match kind {
                    "file" => self.empty(&path),
                    "dir" => self.dir(&path),
                    _ => self.symlink(&path, "target"),
                }
                let path = path.into_bytes();
                self.timed.insert(path.clone());
                let (atime, mtime) =
                    (Time { sec: sec.saturating_add(3), nsec: 999_999_999 - nsec }, Time { sec, nsec });
                self.ops.push(CorpusOp::SetTimes { path, atime, mtime });
            }
        }
    }

    pub(super) fn symlinks(&mut self) {
        self.dir("symlinks");
        let lengths =
            [1, 7, 8, 100, 255, 3451, 3452, 3453, 3487, 3488, 3489, 3651, 3652, 3687, 3688, 3691, 4000, 4094, 4095];
        for len in lengths {
            self.symlink(format!("symlinks/length-{len}"), vec![b't'; len]);
        }
        for (name, target) in
            [("dangling", "no/such/file"), ("absolute", "/etc/passwd"), ("self", "self"), ("up", "../inline/size-1")]
        {
            self.symlink(format!("symlinks/{name}"), target);
        }
        self.symlink("symlinks/not-utf8", b"\xff\xfe/\x01\n");
    }
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An ACL in the form of the system call: version 2, then (tag, permissions, id) in the order of tags and ids.
fn acl(mut entries: Vec<(u16, u16, u32)>) -> Vec<u8> {
    entries.sort_by_key(|&(tag, _, id)| (tag, id));
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        let id = if matches!(tag, USER | GROUP) { id } else { u32::MAX };
        value.extend(id.to_le_bytes());
    }
    value
}
