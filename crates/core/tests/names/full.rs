//! Volumes without room: an operation that fails leaves everything as it was.

use crate::support::{DIR, FILE, FULL, Volume, errno, names, new};
use steadyfs_core::{RenameFlags, XattrFlags};

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

#[test]
fn an_operation_that_fails_half_way_is_taken_back() {
    // Leave a few blocks, so that failures come at later and later steps of the same operation.
    let v = Volume::new(64, &["-O", FULL], "noinline_dentry,noinline_data");
    let root = v.fs.root().unwrap();
    let dir = v.fs.create(&root, b"dir", &new(DIR)).unwrap();
    let made = fill(&v);
    for spare in 0..4u32 {
        let before = (v.fs.statfs(), names(&v.fs, &dir));
        let outcome = v.fs.create(&dir, b"sub", &new(DIR));
        let link = v.fs.symlink(&dir, b"link", &[b't'; 4000], &new(0));
        for (name, done) in [(&b"sub"[..], outcome.is_ok()), (b"link", link.is_ok())] {
            if done {
                assert!(spare >= 2, "two blocks are needed");
            } else {
                assert_eq!(errno(v.fs.lookup(&dir, name)), 2);
            }
        }
        if outcome.is_ok() {
            v.fs.rmdir(&dir, b"sub").unwrap();
        }
        if link.is_ok() {
            drop(link);
            v.fs.unlink(&dir, b"link").unwrap();
        }
        drop(outcome);
        v.fs.reap().unwrap();
        assert_eq!((v.fs.statfs(), names(&v.fs, &dir)), before);
        v.fs.unlink(&root, format!("fill {}", made - 1 - spare).as_bytes()).unwrap();
    }
    v.finish();
}
