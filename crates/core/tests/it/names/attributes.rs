//! Attributes, extended attributes and ACLs.

use crate::names::support::{DIR, FILE, FULL, Volume, errno, new};
use std::time::Duration;
use steadyfs_core::{InodeRef, NewInode, SetAttr, SetTime, XattrFlags};
use steadyfs_format::inode::{Time, flags};

const FULL_ARGS: &[&str] = &["-O", FULL];

#[test]
fn attributes_are_set_and_kept() {
    let mut v = Volume::new(64, FULL_ARGS, "");
    let root = v.fs.root().unwrap();
    let file = v.fs.create(&root, b"f", &new(FILE)).unwrap();
    let made = v.fs.attr(&file).unwrap();
    assert_eq!((made.atime, made.mtime, made.crtime), (made.ctime, made.ctime, Some(made.ctime)));
    let (early, late) = (Time { secs: -1_000_000_000, nanos: 5 }, Time { secs: 1 << 33, nanos: 999_999_999 });
    let set = SetAttr {
        mode: Some(0o7421),
        uid: Some(u32::MAX - 1),
        gid: Some(70_000),
        atime: Some(SetTime::At(early)),
        mtime: Some(SetTime::At(late)),
        flags: Some(flags::NODUMP),
        ..SetAttr::default()
    };
    // Times go by the kernel's tick, which is up to 10 ms.
    steadyfs_rt::sleep(Duration::from_millis(20));
    let after = v.fs.setattr(&file, &set).unwrap();
    assert!(after.ctime > made.ctime);
    drop(file);
    v.remount();
    let file = v.at("f");
    assert_eq!(v.fs.attr(&file).unwrap(), after);
    assert_eq!((after.mode, after.uid, after.gid), (0o107_421, u32::MAX - 1, 70_000));
    assert_eq!((after.atime, after.mtime, after.flags), (early, late, flags::NODUMP));
    assert_eq!(after.generation, made.generation);
    v.finish();
}

#[test]
fn projects_are_inherited_and_kept_apart() {
    let v = Volume::new(64, &["-O", "extra_attr,project_quota"], "");
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
    let bits = v.fs.attr(&dir).unwrap().flags | flags::PROJINHERIT;
    let set = SetAttr { project: Some(9), flags: Some(bits), ..SetAttr::default() };
    assert_eq!(v.fs.setattr(&dir, &set).unwrap().project, 9);
    let inside = v.fs.create(&dir, b"f", &new(FILE)).unwrap();
    let outside = v.fs.create(&root, b"f", &new(FILE)).unwrap();
    assert_eq!([&inside, &outside].map(|inode| v.fs.attr(inode).unwrap().project), [9, 0]);
    assert_eq!(errno(v.fs.link(&outside, &dir, b"l")), 18);
    assert_eq!(errno(v.fs.rename(&root, b"f", &dir, b"g", Default::default())), 18);
    v.fs.rename(&dir, b"f", &root, b"g", Default::default()).unwrap();
    let plain = Volume::new(64, &[], "");
    let set = SetAttr { project: Some(9), ..SetAttr::default() };
    assert_eq!(errno(plain.fs.setattr(&plain.fs.root().unwrap(), &set)), 95);
}

#[test]
fn protected_inodes_refuse_what_their_flags_forbid() {
    let v = Volume::new(64, FULL_ARGS, "");
    let root = v.fs.root().unwrap();
    let set = |inode: &InodeRef, bits: u32| {
        let keep = v.fs.attr(inode).unwrap().flags & flags::INDEX;
        v.fs.setattr(inode, &SetAttr { flags: Some(keep | bits), ..SetAttr::default() }).unwrap();
    };
    let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
    let file = v.fs.create(&dir, b"f", &new(FILE)).unwrap();
    let chmod = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    set(&file, flags::IMMUTABLE);
    assert_eq!(errno(v.fs.setattr(&file, &chmod)), 1);
    assert_eq!(errno(v.fs.unlink(&dir, b"f")), 1);
    assert_eq!(errno(v.fs.link(&file, &root, b"l")), 1);
    assert_eq!(errno(v.fs.rename(&dir, b"f", &dir, b"g", Default::default())), 1);
    assert_eq!(errno(v.fs.setxattr(&file, b"user.a", b"", XattrFlags::default())), 1);
    set(&file, 0);
    set(&dir, flags::APPEND);
    v.fs.create(&dir, b"g", &new(FILE)).unwrap();
    assert_eq!(errno(v.fs.unlink(&dir, b"f")), 1);
    assert_eq!(errno(v.fs.rename(&dir, b"f", &root, b"f", Default::default())), 1);
    set(&dir, flags::IMMUTABLE);
    assert_eq!(errno(v.fs.create(&dir, b"h", &new(FILE))), 1);
    assert_eq!(errno(v.fs.tmpfile(&dir, &new(FILE))), 1);
    set(&dir, 0);
    v.fs.unlink(&dir, b"f").unwrap();
    v.finish();
}

#[test]
fn xattrs_of_every_size_class() {
    for args in [FULL_ARGS, &[]] {
        for options in ["", "noinline_xattr"] {
            let mut v = Volume::new(64, args, options);
            let root = v.fs.root().unwrap();
            let file = v.fs.create(&root, b"f", &new(FILE)).unwrap();
            let any = XattrFlags::default();
            let sizes = [0usize, 1, 100, 1000, 2500];
            for size in sizes {
                v.fs.setxattr(&file, format!("user.{size}").as_bytes(), &vec![size as u8; size], any).unwrap();
            }
            assert_eq!(errno(v.fs.setxattr(&file, b"trusted.big", &[1; 700], any)), 7);
            assert_eq!(errno(v.fs.setxattr(&file, b"user.1", b"", XattrFlags { create: true, ..any })), 17);
            assert_eq!(errno(v.fs.setxattr(&file, b"user.2", b"", XattrFlags { replace: true, ..any })), 61);
            assert_eq!(v.fs.attr(&file).unwrap().blocks, 8, "one node for attributes");
            drop(file);
            v.remount();
            let file = v.at("f");
            for size in sizes {
                let name = format!("user.{size}");
                assert_eq!(v.fs.getxattr(&file, name.as_bytes()).unwrap(), vec![size as u8; size]);
            }
            assert_eq!(v.fs.listxattr(&file).unwrap().len(), sizes.len());
            for size in sizes {
                v.fs.removexattr(&file, format!("user.{size}").as_bytes()).unwrap();
            }
            assert_eq!((errno(v.fs.removexattr(&file, b"user.1")), v.fs.attr(&file).unwrap().blocks), (61, 0));
            assert_eq!(v.fs.listxattr(&file).unwrap(), Vec::<Vec<u8>>::new());
            v.fs.setxattr(&file, b"security.x", &[3; 4000], any).unwrap();
            drop(file);
            v.fs.unlink(&root, b"f").unwrap();
            v.finish();
        }
    }
}

#[test]
fn user_attributes_are_for_files_and_directories() {
    let v = Volume::new(64, &[], "");
    let root = v.fs.root().unwrap();
    let fifo = v.fs.create(&root, b"p", &new(0o010_644)).unwrap();
    let any = XattrFlags::default();
    assert_eq!(errno(v.fs.setxattr(&fifo, b"user.a", b"1", any)), 1);
    v.fs.setxattr(&fifo, b"trusted.a", b"1", any).unwrap();
    v.fs.setxattr(&root, b"user.a", b"1", any).unwrap();
    assert_eq!(v.fs.getxattr(&root, b"system.advise").unwrap(), [0]);
    let media = v.fs.create(&root, b"film.mp4", &new(FILE)).unwrap();
    assert_eq!(v.fs.getxattr(&media, b"system.advise").unwrap(), [1], "cold by its name");
    v.fs.setxattr(&media, b"system.advise", &[0x20], any).unwrap();
    assert_eq!(v.fs.getxattr(&media, b"system.advise").unwrap(), [0x20]);
    v.finish();
}

/// An ACL as setxattr(2) takes it, of (tag, permissions, id).
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

const NO_ID: u32 = u32::MAX;
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

#[test]
fn modes_and_access_lists_follow_each_other() {
    let v = Volume::new(64, FULL_ARGS, "");
    let root = v.fs.root().unwrap();
    let file = v.fs.create(&root, b"f", &new(0o102_644)).unwrap();
    let any = XattrFlags::default();
    let list = |mask| acl(&[(1, 6, NO_ID), (2, 7, 1000), (4, 5, NO_ID), (0x10, mask, NO_ID), (0x20, 0, NO_ID)]);
    v.fs.setxattr(&file, ACCESS, &list(7), any).unwrap();
    assert_eq!(v.fs.attr(&file).unwrap().mode, 0o102_670);
    v.fs.setattr(&file, &SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
    assert_eq!(v.fs.getxattr(&file, ACCESS).unwrap(), list(4));
    let plain = acl(&[(1, 7, NO_ID), (4, 1, NO_ID), (0x20, 1, NO_ID)]);
    v.fs.setxattr(&file, ACCESS, &plain, any).unwrap();
    assert_eq!((v.fs.attr(&file).unwrap().mode & 0o777, errno(v.fs.getxattr(&file, ACCESS))), (0o711, 61));
    assert_eq!(errno(v.fs.setxattr(&file, ACCESS, &acl(&[(1, 7, NO_ID)]), any)), 22);
    assert_eq!(errno(v.fs.setxattr(&file, DEFAULT, &plain, any)), 1);
    v.finish();
}

#[test]
fn default_lists_are_inherited_instead_of_the_umask() {
    let mut v = Volume::new(64, FULL_ARGS, "");
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
    let default = acl(&[(1, 7, NO_ID), (2, 6, 1000), (4, 5, NO_ID), (0x10, 7, NO_ID), (0x20, 4, NO_ID)]);
    v.fs.setxattr(&dir, DEFAULT, &default, XattrFlags::default()).unwrap();
    let order = |mode| NewInode { umask: 0o077, ..new(mode) };
    v.fs.create(&dir, b"f", &order(0o100_666)).unwrap();
    v.fs.create(&dir, b"sub", &order(0o040_777)).unwrap();
    v.fs.symlink(&dir, b"s", b"t", &order(0)).unwrap();
    v.fs.create(&root, b"g", &order(0o100_666)).unwrap();
    v.remount();
    let mode = |path: &str| v.fs.attr(&v.at(path)).unwrap().mode;
    assert_eq!((mode("d/f"), mode("d/sub"), mode("d/s"), mode("g")), (0o100_664, 0o040_774, 0o120_777, 0o100_600));
    let access = acl(&[(1, 6, NO_ID), (2, 6, 1000), (4, 5, NO_ID), (0x10, 6, NO_ID), (0x20, 4, NO_ID)]);
    assert_eq!(v.fs.getxattr(&v.at("d/f"), ACCESS).unwrap(), access);
    assert_eq!(v.fs.getxattr(&v.at("d/sub"), DEFAULT).unwrap(), default);
    assert_eq!(errno(v.fs.getxattr(&v.at("d/f"), DEFAULT)), 61);
    v.finish();
}
