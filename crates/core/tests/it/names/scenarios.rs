//! Single operations and what they leave, checked by hand, after a remount, and by fsck.f2fs.

use crate::names::support::{DIR, FILE, FULL, Volume, errno, names, new};
use steadyfs_core::{NewInode, RenameFlags};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::DeviceNumber;

const PLAIN: &[&str] = &[];
const ALL: &[&str] = &["-O", FULL];

fn on_both(options: &str, f: impl Fn(&mut Volume)) {
    for args in [PLAIN, ALL] {
        let mut volume = Volume::new(64, args, options);
        f(&mut volume);
        volume.finish();
    }
}

#[test]
fn every_kind_of_inode_is_made_and_found_again() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let kinds = [
            (0o100_640, FileType::Regular),
            (0o040_711, FileType::Dir),
            (0o010_600, FileType::Fifo),
            (0o140_777, FileType::Socket),
            (0o020_620, FileType::CharDevice),
            (0o060_660, FileType::BlockDevice),
        ];
        let rdev = DeviceNumber { major: 259, minor: 70_000 };
        for (mode, kind) in kinds {
            let order = NewInode { mode, uid: 1, gid: 2, rdev, umask: 0o002 };
            let made = v.fs.create(&root, format!("{kind:?}").as_bytes(), &order).unwrap();
            assert_eq!(made.kind(), kind);
        }
        let long = vec![b't'; 4095];
        v.fs.symlink(&root, b"short", b"a/b", &new(0)).unwrap();
        v.fs.symlink(&root, b"long", &long, &new(0)).unwrap();
        v.remount();
        for (mode, kind) in kinds {
            let attr = v.fs.attr(&v.at(&format!("{kind:?}"))).unwrap();
            let links = if kind == FileType::Dir { 2 } else { 1 };
            assert_eq!((attr.kind, attr.mode, attr.uid, attr.gid, attr.nlink), (kind, mode & !0o002, 1, 2, links));
            let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
            assert_eq!(attr.rdev, if is_device { rdev } else { DeviceNumber::default() });
        }
        assert_eq!(v.fs.readlink(&v.at("short")).unwrap(), b"a/b");
        assert_eq!(v.fs.readlink(&v.at("long")).unwrap(), long);
        assert_eq!(v.fs.attr(&v.at("long")).unwrap().blocks, 8);
        assert_eq!(errno(v.fs.readlink(&v.at("Regular"))), 22);
    });
}

#[test]
fn impossible_requests_are_refused_and_change_nothing() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
        let file = v.fs.create(&dir, b"f", &new(FILE)).unwrap();
        let before = (v.fs.statfs(), v.fs.attr(&dir).unwrap(), v.fs.attr(&root).unwrap());
        let fs = &v.fs;
        assert_eq!(errno(fs.create(&dir, b"f", &new(FILE))), 17);
        assert_eq!(errno(fs.create(&dir, b"..", &new(DIR))), 17);
        assert_eq!(errno(fs.create(&dir, &[b'n'; 256], &new(FILE))), 36);
        assert_eq!(errno(fs.create(&dir, b"a/b", &new(FILE))), 22);
        assert_eq!(errno(fs.create(&dir, b"x", &new(0o644))), 22);
        assert_eq!(errno(fs.create(&file, b"x", &new(FILE))), 20);
        let huge = NewInode { rdev: DeviceNumber { major: 1 << 12, minor: 0 }, ..new(0o020_600) };
        assert_eq!(errno(fs.create(&dir, b"x", &huge)), 22);
        assert_eq!(errno(fs.symlink(&dir, b"x", &[b't'; 4096], &new(0))), 36);
        assert_eq!(errno(fs.lookup(&dir, b"x")), 2);
        assert_eq!(errno(fs.lookup(&file, b"x")), 20);
        assert_eq!(errno(fs.unlink(&dir, b"x")), 2);
        assert_eq!(errno(fs.unlink(&root, b"d")), 21);
        assert_eq!(errno(fs.rmdir(&root, b"d")), 39);
        assert_eq!(errno(fs.rmdir(&dir, b"f")), 20);
        assert_eq!(errno(fs.rmdir(&dir, b".")), 22);
        assert_eq!(errno(fs.link(&dir, &root, b"x")), 1);
        assert_eq!(errno(fs.link(&file, &dir, b"f")), 17);
        assert_eq!(errno(fs.rename(&root, b"d", &dir, b"x", RenameFlags::Replace)), 22);
        assert_eq!(errno(fs.rename(&dir, b"f", &root, b"d", RenameFlags::Replace)), 39, "its own parent is not empty");
        assert_eq!(errno(fs.rename(&root, b"d", &root, b"x", RenameFlags::Exchange)), 2);
        assert_eq!(errno(fs.rename(&root, b".", &root, b"x", RenameFlags::Replace)), 22);
        assert_eq!((fs.statfs(), fs.attr(&dir).unwrap(), fs.attr(&root).unwrap()), before);
    });
}

#[test]
fn moving_directories_keeps_links_and_parents_right() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let links = |v: &Volume, path: &str| v.fs.attr(&v.at(path)).unwrap().nlink;
        let [a, b] = [b"a", b"b"].map(|name| v.fs.create(&root, name, &new(DIR)).unwrap());
        let base = links(v, "");
        let child = v.fs.create(&a, b"child", &new(DIR)).unwrap();
        let grandchild = v.fs.create(&child, b"grandchild", &new(DIR)).unwrap();
        v.fs.rename(&a, b"child", &b, b"moved", RenameFlags::Replace).unwrap();
        assert_eq!((links(v, "a"), links(v, "b"), links(v, "b/moved"), links(v, "")), (2, 3, 3, base));
        assert_eq!(v.fs.lookup(&child, b"..").unwrap().ino(), b.ino());
        for below in [&child, &grandchild] {
            assert_eq!(errno(v.fs.rename(&root, b"b", below, b"loop", RenameFlags::Replace)), 22);
        }
        // Over an empty directory, and an exchange of directories at different depths.
        v.fs.create(&a, b"empty", &new(DIR)).unwrap();
        v.fs.rename(&b, b"moved", &a, b"empty", RenameFlags::Replace).unwrap();
        assert_eq!((links(v, "a"), links(v, "b"), links(v, "a/empty")), (3, 2, 3));
        v.fs.create(&b, b"file", &new(FILE)).unwrap();
        v.fs.rename(&a, b"empty", &b, b"file", RenameFlags::Exchange).unwrap();
        assert_eq!((links(v, "a"), links(v, "b")), (2, 3));
        assert_eq!(v.at("a/empty").kind(), FileType::Regular);
        assert_eq!(errno(v.fs.rename(&root, b"a", &grandchild, b"x", RenameFlags::NoReplace)), 0);
        assert_eq!(errno(v.fs.rename(&root, b"b", &grandchild, b"x", RenameFlags::Exchange)), 22);
        v.remount();
        assert_eq!(v.at("b/file/grandchild/x/empty").kind(), FileType::Regular);
        assert_eq!(v.at("b/file/grandchild/x/..").ino(), grandchild.ino());
        assert_eq!(links(v, ""), base - 1);
    });
}

#[test]
fn a_whiteout_takes_the_name_of_what_is_renamed() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let owner = NewInode { uid: 7, gid: 8, ..new(0o100_777) };
        let leave = |from: &[u8], to: &[u8], how| v.fs.rename_whiteout(&root, from, &root, to, how, &owner);
        let (file, dir) =
            (v.fs.create(&root, b"file", &new(FILE)).unwrap(), v.fs.create(&root, b"dir", &new(DIR)).unwrap());
        let links = v.fs.attr(&root).unwrap().nlink;
        assert_eq!(errno(leave(b"file", b"dir", RenameFlags::Exchange)), 22);
        assert_eq!(errno(leave(b"file", b"dir", RenameFlags::NoReplace)), 17);
        assert_eq!(errno(leave(b"file", b"dir", RenameFlags::Replace)), 21);
        leave(b"file", b"moved", RenameFlags::NoReplace).unwrap();
        // Over a whiteout, as overlayfs does, and a directory from its place.
        leave(b"moved", b"file", RenameFlags::Replace).unwrap();
        leave(b"dir", b"inner", RenameFlags::Replace).unwrap();
        assert_eq!(v.fs.attr(&root).unwrap().nlink, links);
        let (file, dir) = (file.ino(), dir.ino());
        drop(root);
        v.remount();
        assert_eq!((v.at("file").ino(), v.at("inner").ino()), (file, dir));
        for name in ["moved", "dir"] {
            let attr = v.fs.attr(&v.at(name)).unwrap();
            assert_eq!((attr.kind, attr.mode, attr.nlink), (FileType::CharDevice, 0o020_000, 1), "{name}");
            assert_eq!((attr.rdev, attr.uid, attr.gid), (DeviceNumber::default(), 7, 8), "{name}");
        }
    });
}

#[test]
fn an_unlinked_inode_lives_until_its_last_user_goes() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let free = v.fs.statfs();
        let file = v.fs.create(&root, b"f", &new(FILE)).unwrap();
        v.fs.symlink(&root, b"s", &[b't'; 4000], &new(0)).unwrap();
        let link = v.at("s");
        v.fs.unlink(&root, b"f").unwrap();
        v.fs.unlink(&root, b"s").unwrap();
        assert_eq!((v.fs.attr(&file).unwrap().nlink, v.fs.readlink(&link).unwrap().len()), (0, 4000));
        assert_eq!(errno(v.fs.link(&file, &root, b"again")), 2, "its last name is gone for good");
        v.fs.sync().unwrap();
        assert_ne!(v.fs.statfs(), free);
        let ino = file.ino();
        drop((file, link));
        v.fs.reap().unwrap();
        assert_eq!(errno(v.fs.inode(ino)), 2);
        assert_eq!(v.fs.statfs(), free);
        let dir = v.fs.create(&root, b"d", &new(DIR)).unwrap();
        v.fs.rmdir(&root, b"d").unwrap();
        assert_eq!(errno(v.fs.create(&dir, b"x", &new(FILE))), 2);
        assert_eq!(errno(v.fs.readdir(&dir, 2, &mut |_| true)), 2);
    });
}

#[test]
fn orphans_of_a_crash_are_deleted_by_the_next_mount() {
    let mut volume = Volume::new(64, ALL, "");
    let root = volume.fs.root().unwrap();
    let free = volume.fs.statfs();
    let kept: Vec<_> = (0..1500)
        .map(|n| {
            let name = format!("orphan {n}");
            let file = volume.fs.create(&root, name.as_bytes(), &new(FILE)).unwrap();
            volume.fs.unlink(&root, name.as_bytes()).unwrap();
            file
        })
        .collect();
    let unnamed = volume.fs.tmpfile(&root, &new(FILE)).unwrap();
    volume.fs.sync().unwrap();
    // What a crash after the checkpoint leaves.
    let crashed = Volume::on(volume.dev.fork(), "");
    assert_eq!(crashed.fs.statfs().files_free, free.files_free);
    for inode in kept.iter().chain([&unnamed]) {
        assert_eq!(errno(crashed.fs.inode(inode.ino())), 2);
    }
    crashed.finish();
    volume.fs.link(&unnamed, &root, b"named").unwrap();
    drop((kept, unnamed));
    volume.remount();
    assert_eq!(volume.fs.attr(&volume.at("named")).unwrap().nlink, 1);
    assert_eq!(volume.fs.statfs().files_free, free.files_free - 1);
    volume.finish();
}

#[test]
fn names_of_all_bytes_and_lengths() {
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let mut wanted = Vec::new();
        for length in [1, 7, 8, 9, 16, 17, 127, 255] {
            for byte in [b'a', 0xff, 1, b'.'] {
                let name = vec![byte; length];
                if name != b"." {
                    v.fs.create(&root, &name, &new(FILE)).unwrap();
                    wanted.push(name);
                }
            }
        }
        v.remount();
        let root = v.fs.root().unwrap();
        let mut found = names(&v.fs, &root);
        found.retain(|name| name != b"." && name != b".." && name != b"lost+found");
        // ".." cannot be made: a name of two dots is not in the list.
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    });
}

#[test]
fn flags_and_groups_are_inherited() {
    use steadyfs_core::SetAttr;
    use steadyfs_format::inode::flags;
    on_both("", |v| {
        let root = v.fs.root().unwrap();
        let dir = v.fs.create(&root, b"d", &NewInode { gid: 77, ..new(0o042_775) }).unwrap();
        let bits = v.fs.attr(&dir).unwrap().flags | flags::NOATIME | flags::DIRSYNC | flags::NODUMP;
        v.fs.setattr(&dir, &SetAttr { flags: Some(bits), ..SetAttr::default() }).unwrap();
        let file = v.fs.create(&dir, b"f", &NewInode { gid: 5, ..new(FILE) }).unwrap();
        let sub = v.fs.create(&dir, b"sub", &NewInode { gid: 5, ..new(DIR) }).unwrap();
        let (file, sub) = (v.fs.attr(&file).unwrap(), v.fs.attr(&sub).unwrap());
        assert_eq!((file.gid, file.mode, sub.gid, sub.mode), (77, FILE, 77, DIR | 0o2000));
        assert_eq!(file.flags, flags::NOATIME | flags::NODUMP);
        assert_eq!(sub.flags, flags::NOATIME | flags::NODUMP | flags::DIRSYNC | flags::INDEX);
    });
}
