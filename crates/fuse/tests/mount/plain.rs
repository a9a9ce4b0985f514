//! One user, ordinary system calls, in every way to cache; then a remount, and everything is still there.

use crate::harness::{CACHES, Place, mount_line};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, StatxFlags, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) ^ (at >> 8) as u8).collect()
}

/// Through io_uring, the kernel's requests for a megabyte each are served on another processor than the reader's, and
/// what comes after them on its own again.
#[test]
fn a_file_that_is_read_by_megabytes_is_what_was_written() {
    const MIB: usize = 1 << 20;
    let place = Place::new();
    let words: Vec<u8> = (0..(24 * MIB + 1000) as u64 / 8).flat_map(u64::to_le_bytes).collect();
    place.mounted("", |_| fs::write(place.at("file"), &words).unwrap());
    place.mounted("", |served| {
        let has = |home| served.at_home(0).is_none_or(|lanes| lanes.contains(&home));
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                // On one processor, so that all its requests come in one queue.
                assert!(steadyfs_rt::pin(0));
                let (mut file, mut part) = (fs::File::open(place.at("file")).unwrap(), vec![0; MIB]);
                for expected in words.chunks(MIB) {
                    file.read_exact(&mut part[..expected.len()]).unwrap();
                    assert!(part[..expected.len()] == *expected);
                }
                assert!(has(false) || steadyfs_rt::cpus() == 1, "nobody left");
                (0..200).for_each(|n| assert!(!place.at(&format!("name {n}")).exists()));
                assert!(has(true), "nobody came back");
            });
            reader.join().expect("read as it was written");
        });
    });
}

#[test]
fn contents_survive_a_remount_however_they_are_cached() {
    for cache in CACHES {
        let place = Place::new();
        let big = bytes(5_000_001, 3);
        place.mounted(cache, |_| {
            fs::write(place.at("big"), &big).unwrap();
            let mut file = fs::OpenOptions::new().read(true).append(true).open(place.at("big")).unwrap();
            file.write_all(b"tail").unwrap();
            file.write_all_at(b"more", 0).unwrap(); // O_APPEND counts, as on Linux
            file.seek(std::io::SeekFrom::Start(5_000_000)).unwrap();
            let mut end = Vec::new();
            file.read_to_end(&mut end).unwrap();
            assert_eq!(end, [&big[5_000_000..], b"tailmore"].concat(), "{cache}");
            let sparse = fs::File::create(place.at("sparse")).unwrap();
            sparse.write_all_at(b"x", 3 << 40).unwrap();
            sparse.set_len((3 << 40) + 4097).unwrap();
            assert!(sparse.metadata().unwrap().blocks() < 200);
        });
        place.check();
        place.mounted(cache, |_| {
            assert_eq!(fs::read(place.at("big")).unwrap(), [&big[..], b"tailmore"].concat(), "{cache}");
            let sparse = fs::File::open(place.at("sparse")).unwrap();
            assert_eq!(sparse.metadata().unwrap().len(), (3 << 40) + 4097);
            let mut near = [9; 3];
            sparse.read_exact_at(&mut near, (3 << 40) - 1).unwrap();
            assert_eq!(near, [0, b'x', 0]);
        });
    }
}

#[test]
fn direct_io_goes_through_and_changes_times() {
    for cache in CACHES {
        let place = Place::new();
        place.mounted(cache, |_| {
            let path = place.at("direct");
            let mut options = fs::OpenOptions::new();
            options.read(true).write(true).create(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
            let file = options.open(&path).unwrap();
            // Page-aligned memory without unsafe code: the aligned part of something larger.
            let memory = bytes(64 << 10, 5);
            let start = memory.as_ptr().align_offset(4096);
            let page = &memory[start..start + 16384];
            file.write_all_at(page, 0).unwrap();
            let before = fs::metadata(&path).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            file.write_all_at(&page[..4096], 8192).unwrap();
            let after = fs::metadata(&path).unwrap();
            assert!(
                (after.mtime(), after.mtime_nsec()) > (before.mtime(), before.mtime_nsec()),
                "{cache}: mtime stands still"
            );
            assert_eq!(fs::read(&path).unwrap(), [&page[..8192], &page[..4096], &page[12288..]].concat(), "{cache}");
        });
    }
}

#[test]
fn names_of_all_kinds() {
    let place = Place::new();
    place.mounted("", |_| {
        let dir = place.at("dir");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), b"a").unwrap();
        fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
        symlink("a", dir.join("link")).unwrap();
        rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
        rustix::fs::mknodat(
            CWD,
            dir.join("null"),
            FileType::CharacterDevice,
            Mode::from(0o666),
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
        fs::set_permissions(dir.join("null"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(dir.join("null"), b"gone").unwrap();
        assert_eq!(fs::metadata(dir.join("a")).unwrap().nlink(), 2);
        let exchange =
            |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, dir.join(from), CWD, dir.join(to), flags);
        assert_eq!(exchange("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
        exchange("link", "fifo", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read(dir.join("fifo")).unwrap(), b"a");
        fs::rename(dir.join("b"), dir.join("a")).unwrap(); // the same inode: nothing happens
        fs::remove_file(dir.join("b")).unwrap();
        assert_eq!(fs::remove_dir(&dir).unwrap_err().raw_os_error(), Some(Errno::NOTEMPTY.raw_os_error()));
        for n in 0..2000 {
            fs::create_dir(dir.join(format!("{n:0100}"))).unwrap();
        }
        assert_eq!(fs::metadata(&dir).unwrap().nlink(), 2002);
    });
    place.check();
    place.mounted("", |_| {
        let mut names: Vec<_> =
            fs::read_dir(place.at("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!((names.len(), names[0].len()), (2004, 100));
        let device = fs::metadata(place.at("dir/null")).unwrap();
        assert_eq!((device.rdev(), device.mode()), (rustix::fs::makedev(1, 3), 0o020_644));
        for entry in fs::read_dir(place.at("dir")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir(path).unwrap();
            }
        }
        assert_eq!(fs::read_dir(place.at("dir")).unwrap().count(), 4);
    });
    place.check();
}

#[test]
fn files_without_names() {
    let place = Place::new();
    place.mounted("", |_| {
        // Unlinked while open.
        let mut open =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(place.at("gone")).unwrap();
        open.write_all(&bytes(100_000, 1)).unwrap();
        fs::remove_file(place.at("gone")).unwrap();
        open.write_all(b"!").unwrap();
        open.rewind().unwrap();
        let mut all = Vec::new();
        open.read_to_end(&mut all).unwrap();
        assert_eq!((all.len(), open.metadata().unwrap().nlink()), (100_001, 0));
        // Replaced while open.
        fs::write(place.at("old"), b"old").unwrap();
        fs::write(place.at("new"), b"new").unwrap();
        let old = fs::File::open(place.at("old")).unwrap();
        fs::rename(place.at("new"), place.at("old")).unwrap();
        let mut text = [0; 3];
        old.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"old");
        // Removed while it is somebody's directory.
        fs::create_dir(place.at("dir")).unwrap();
        let dir = rustix::fs::open(place.at("dir"), OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).unwrap();
        fs::remove_dir(place.at("dir")).unwrap();
        assert_eq!(rustix::fs::fstat(&dir).unwrap().st_nlink, 0);
        assert_eq!(rustix::fs::mkdirat(&dir, "sub", Mode::from(0o755)), Err(Errno::NOENT));
        // Made without a name, and given one.
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let made = rustix::fs::open(place.dir(), flags, Mode::from(0o600)).unwrap();
        rustix::io::write(&made, b"now it has a name").unwrap();
        let via = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&made));
        rustix::fs::linkat(CWD, via, CWD, place.at("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
        let lost = rustix::fs::open(place.dir(), flags, Mode::from(0o600)).unwrap();
        rustix::io::write(&lost, &bytes(50_000, 2)).unwrap();
    });
    place.check();
    place.mounted("", |_| {
        let mut names: Vec<_> = fs::read_dir(place.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["named", "old"]);
        assert_eq!(fs::read(place.at("named")).unwrap(), b"now it has a name");
    });
}

#[test]
fn attributes() {
    let place = Place::new();
    place.mounted("", |_| {
        let path = place.at("file");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2640)).unwrap();
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(-1_000_000, 5), last_modification: time(1 << 34, 999_999_999) };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        rustix::fs::setxattr(&path, "user.note", b"value", XattrFlags::CREATE).unwrap();
        rustix::fs::setxattr(&path, "security.other", &bytes(3000, 9), XattrFlags::empty()).unwrap();
        assert_eq!(rustix::fs::setxattr(&path, "user.note", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    });
    place.check();
    let line = place.mounted("", |served| {
        let path = place.at("file");
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.mode(), meta.uid(), meta.gid()), (0o102_640, 12, 34));
        assert_eq!(
            (meta.atime(), meta.atime_nsec(), meta.mtime(), meta.mtime_nsec()),
            (-1_000_000, 5, 1 << 34, 999_999_999)
        );
        let mut value = [0; 4000];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value), Ok(5));
        assert_eq!(rustix::fs::getxattr(&path, "security.other", &mut value), Ok(3000));
        assert_eq!(value[..3000], bytes(3000, 9));
        let x = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::ALL).unwrap();
        assert!(x.stx_mask & StatxFlags::BTIME.bits() != 0 && x.stx_btime.tv_sec > 1_700_000_000);
        let vfs = rustix::fs::statvfs(place.dir()).unwrap();
        assert_eq!((vfs.f_bsize, vfs.f_namemax), (4096, 255));
        assert!(vfs.f_bfree < vfs.f_blocks && vfs.f_bfree * 2 > vfs.f_blocks && vfs.f_ffree > 1000);
        mount_line(&served.dir).unwrap()
    });
    assert!(line.contains(" fuseblk.steadyfs rw,"), "{line}");
}

#[test]
fn ranges() {
    for cache in CACHES {
        let place = Place::new();
        place.mounted(cache, |_| {
            let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(place.at("file")).unwrap();
            file.write_all_at(&[7; 3 * 4096], 0).unwrap();
            file.write_all_at(&[8; 4096], 1 << 20).unwrap();
            // What is written and not written back yet counts.
            let seek = |from| rustix::fs::seek(&file, from);
            assert_eq!(seek(SeekFrom::Hole(0)), Ok(3 * 4096), "{cache}");
            assert_eq!(seek(SeekFrom::Data(3 * 4096)), Ok(1 << 20), "{cache}");
            assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096), "{cache}");
            assert_eq!(seek(SeekFrom::Data((1 << 20) + 4096)), Err(Errno::NXIO), "{cache}");
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, punch, 4096, 4096).unwrap();
            assert_eq!(seek(SeekFrom::Hole(0)), Ok(4096), "{cache}");
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 2 << 20);
            rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 100).unwrap();
            assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
            let copy = fs::File::create(place.at("copy")).unwrap();
            let (mut from, mut to) = (50, 5);
            while rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 1 << 30).unwrap() > 0 {}
            assert_eq!((from, to), (2 << 20, (2 << 20) - 45));
            let (whole, copied) = (fs::read(place.at("file")).unwrap(), fs::read(place.at("copy")).unwrap());
            assert_eq!((&whole[..100], whole[100], whole[4096], whole[1 << 20]), (&[0; 100][..], 7, 0, 8));
            assert!(copied[5..] == whole[50..], "{cache}");
        });
        place.check();
    }
}

#[test]
fn mount_options_are_honoured() {
    let place = Place::new();
    place.mounted("uid=77,gid=88,umask=027", |_| {
        fs::write(place.at("file"), b"x").unwrap();
        let meta = fs::metadata(place.at("file")).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (77, 88, 0o750));
    });
    place.mounted("ro,noexec,nosuid,nodev,fsname=elsewhere", |served| {
        assert_eq!(fs::metadata(place.at("file")).unwrap().uid(), 0);
        let refused = fs::write(place.at("file"), b"y").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
        assert_eq!(fs::read(place.at("file")).unwrap(), b"x");
        let line = mount_line(&served.dir).unwrap();
        assert!(line.starts_with("elsewhere ") && line.contains("ro,nosuid,nodev,noexec"), "{line}");
    });
    let missing = place.try_mount("uid=x").map(drop).unwrap_err();
    assert!(missing.contains("uid=x"), "{missing}");
}

#[test]
fn the_mount_table_shows_the_type_that_subtype_names() {
    let place = Place::new();
    for (options, kind) in [
        ("subtype=photos", " fuseblk.photos "),
        ("subtype=photos,noblkdev", " fuse.photos "),
        ("subtype=photos,fsname=other", " fuse.photos "),
    ] {
        place.mounted(options, |served| {
            let line = mount_line(&served.dir).unwrap();
            assert!(line.contains(kind), "{options}: {line}");
        });
    }
}

#[test]
fn a_place_that_cannot_be_mounted_at_is_named() {
    let place = Place::new();
    fs::remove_dir(place.dir()).unwrap();
    let said = place.try_mount("").map(drop).unwrap_err();
    assert!(said.contains("failed: cannot mount at ") && said.contains("No such file"), "{said}");
    fs::write(place.dir(), b"a file").unwrap();
    let said = place.try_mount("").map(drop).unwrap_err();
    assert!(said.contains("Not a directory"), "{said}");
    fs::remove_file(place.dir()).unwrap();
    fs::create_dir(place.dir()).unwrap();
    place.mounted("", |_| {
        let second = place.try_mount("").map(drop).unwrap_err();
        assert!(second.contains("in use"), "{second}");
        assert!(Path::new(&place.dir()).is_dir());
    });
}
