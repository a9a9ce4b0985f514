//! Volumes without room: an operation that fails leaves everything as it was.

use crate::names::support::{DIR, FILE, FULL, Volume, errno, names, new};
use steadyfs_core::{FallocMode, Fs, InodeRef, RenameFlags, Result, XattrFlags};

const NO_SPACE: i32 = 28;

/// Fills a volume with small files until nothing more can be made.
fn fill(v: &Volume) -> u32 {
    let root = v.fs.root().unwrap();
    for n in 0.. {
        let before = v.fs.statfs();
        match v.fs.create(&root, format!("fill {n}").as_bytes(), &new(FILE)) {
            Ok(_) => {}
            Err(e) => {
                assert_eq!((e.errno(), v.fs.statfs()), (NO_SPACE, before));
                return n;
            }
        }
    }
    unreachable!("a volume has an end")
}

#[test]
fn a_full_volume_refuses_cleanly_and_can_be_emptied() {
    for args in [&[][..], &["-O", FULL][..]] {
        let mut v = Volume::new(64, args, "");
        let root = v.fs.root().unwrap();
        let dir = v.fs.create(&root, b"dir", &new(DIR)).unwrap();
        for n in 0..150 {
            v.fs.create(&dir, format!("{n}").as_bytes(), &new(FILE)).unwrap();
        }
        let made = fill(&v);
        assert!(made > 500, "{made}");
        // Every operation that needs a block fails and leaves no trace; this needs every kind of undoing.
        let before = (v.fs.statfs(), names(&v.fs, &dir), v.fs.attr(&dir).unwrap());
        let fs = &v.fs;
        let file = v.at("dir/0");
        assert_eq!(errno(fs.create(&dir, b"file", &new(FILE))), NO_SPACE);
        assert_eq!(errno(fs.create(&dir, b"sub", &new(DIR))), NO_SPACE);
        assert_eq!(errno(fs.symlink(&dir, b"link", &[b't'; 4000], &new(0))), NO_SPACE);
        assert_eq!(errno(fs.tmpfile(&dir, &new(FILE))), NO_SPACE);
        assert_eq!(errno(fs.setxattr(&file, b"user.big", &[1; 3000], XattrFlags::default())), NO_SPACE);
        // Names too long for what is left inline need a block for the directory.
        let long = [b'l'; 255];
        assert_eq!(errno(fs.link(&file, &dir, &long)), NO_SPACE);
        assert_eq!(errno(fs.rename(&dir, b"0", &dir, &long, RenameFlags::Replace)), NO_SPACE);
        assert_eq!((fs.statfs(), names(fs, &dir)), (before.0, before.1));
        assert_eq!(fs.attr(&dir).unwrap(), before.2);
        drop((root, dir, file));
        v.remount();
        let root = v.fs.root().unwrap();
        for n in 0..made {
            v.fs.unlink(&root, format!("fill {n}").as_bytes()).unwrap();
        }
        let again = fill(&v);
        assert!(again >= made, "{again} files fit where {made} did before");
        v.finish();
    }
}

/// Leaves exactly `spare` blocks free, by the size of a filler file.
fn leave(v: &Volume, spare: u64) {
    let root = v.fs.root().unwrap();
    let filler = v.fs.lookup(&root, b"filler").or_else(|_| v.fs.create(&root, b"filler", &new(FILE))).unwrap();
    let take =
        |blocks: u64, at: u64| v.fs.fallocate(&filler, FallocMode::Allocate { keep_size: false }, at, blocks << 12);
    let free = || v.fs.statfs().blocks_free;
    let size = || v.fs.attr(&filler).unwrap().size;
    // Most of it in one go, less what its nodes may need; then block by block.
    if free() > spare + 100 {
        take(free() - spare - 100, size()).unwrap();
    }
    while free() > spare {
        take(1, size()).unwrap();
    }
    assert_eq!(free(), spare);
}

/// An operation that needs blocks, and one that undoes it.
type Attempt = (&'static str, fn(&Fs, &InodeRef) -> Result<()>, fn(&Fs, &InodeRef));

const ATTEMPTS: [Attempt; 8] = [
    ("mkdir", |fs, dir| fs.create(dir, b"new", &new(DIR)).map(drop), |fs, dir| fs.rmdir(dir, b"new").unwrap()),
    ("create", |fs, dir| fs.create(dir, b"new", &new(FILE)).map(drop), |fs, dir| fs.unlink(dir, b"new").unwrap()),
    (
        "symlink",
        |fs, dir| fs.symlink(dir, b"new", &[b't'; 4000], &new(0)).map(drop),
        |fs, dir| fs.unlink(dir, b"new").unwrap(),
    ),
    (
        "link",
        |fs, dir| fs.link(&fs.lookup(dir, b"0")?, dir, &[b'l'; 255]),
        |fs, dir| fs.unlink(dir, &[b'l'; 255]).unwrap(),
    ),
    (
        "rename",
        |fs, dir| fs.rename(dir, b"0", dir, &[b'r'; 255], RenameFlags::NoReplace),
        |fs, dir| fs.rename(dir, &[b'r'; 255], dir, b"0", RenameFlags::NoReplace).unwrap(),
    ),
    (
        "rename with a whiteout",
        |fs, dir| fs.rename_whiteout(dir, b"0", dir, &[b'r'; 255], RenameFlags::NoReplace, &new(0)),
        |fs, dir| fs.rename(dir, &[b'r'; 255], dir, b"0", RenameFlags::Replace).unwrap(),
    ),
    (
        "setxattr",
        |fs, dir| fs.setxattr(&fs.lookup(dir, b"0")?, b"user.a", &[1; 3000], XattrFlags::default()),
        |fs, dir| fs.removexattr(&fs.lookup(dir, b"0").unwrap(), b"user.a").unwrap(),
    ),
    (
        "acl",
        |fs, dir| fs.create(&fs.lookup(dir, b"with acl")?, b"new", &new(FILE)).map(drop),
        |fs, dir| fs.unlink(&fs.lookup(dir, b"with acl").unwrap(), b"new").unwrap(),
    ),
];

/// A directory that needs a block for each new name, and one whose default ACL needs a node in each new inode.
fn cramped(v: &Volume) -> InodeRef {
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"dir", &new(DIR)).unwrap();
    let lists = v.fs.create(&dir, b"with acl", &new(DIR)).unwrap();
    let mut list = 2u32.to_le_bytes().to_vec();
    let users = (0..100u32).map(|id| (2u16, id));
    let none = u32::MAX;
    for (tag, id) in [(1, none)].into_iter().chain(users).chain([(4, none), (0x10, none), (0x20, none)]) {
        list.extend([tag.to_le_bytes(), 7u16.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    v.fs.setxattr(&lists, b"system.posix_acl_default", &list, XattrFlags::default()).unwrap();
    // Names of one slot each, until all slots of the inode or of the first two blocks are taken.
    let slots = if v.fs.attr(&dir).unwrap().blocks > 0 { 2 * 214 } else { 180 };
    for n in 3..slots {
        v.fs.create(&dir, format!("{}", n - 3).as_bytes(), &new(FILE)).unwrap();
    }
    dir
}

#[test]
fn an_operation_that_fails_half_way_is_taken_back() {
    // To look at a directory changes its time of access.
    for options in ["noatime,noinline_dentry,noinline_data,noinline_xattr", "noatime"] {
        for (what, attempt, undo) in ATTEMPTS {
            // Or a look at a directory would change it.
            let v = Volume::new(64, &["-O", FULL], &format!("noatime,{options}"));
            let dir = cramped(&v);
            let (mut failures, mut spare) = (0, 0);
            loop {
                leave(&v, spare);
                let state = || {
                    let all = |dir: &InodeRef| (names(&v.fs, dir), v.fs.attr(dir).unwrap());
                    (v.fs.statfs(), all(&dir), all(&v.at("dir/with acl")))
                };
                let before = state();
                match attempt(&v.fs, &dir) {
                    Ok(()) => break,
                    Err(e) => assert_eq!((e.errno(), state()), (NO_SPACE, before), "{what}, {spare} blocks left"),
                }
                failures += 1;
                spare += 1;
                let root = v.fs.root().unwrap();
                v.fs.unlink(&root, b"filler").unwrap();
            }
            assert!((1..=6).contains(&failures), "{what} needs {failures} blocks");
            println!("{what} with {options:?} needs {failures} blocks");
            undo(&v.fs, &dir);
            drop(dir);
            v.finish();
        }
    }
}
