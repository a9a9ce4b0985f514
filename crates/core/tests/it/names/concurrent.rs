//! Many threads in the same few directories: nothing deadlocks, nothing is lost, and fsck.f2fs agrees with what is
//! left.

use crate::names::support::{DIR, FILE, FULL, Volume, new};
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_core::{Error, Fs, InodeRef, RenameFlags, Result};
use steadyfs_format::dir::FileType;
use steadyfs_testkit::Rng;

fn any_name(random: &mut Rng) -> Vec<u8> {
    match random.below(4) {
        0 => [&[b'n'; 250][..], format!("{:02}", random.below(12)).as_bytes()].concat(),
        _ => format!("{}", random.below(10)).into_bytes(),
    }
}

/// A directory somewhere in the tree: from the root some random steps down.
fn wander(fs: &Fs, random: &mut Rng) -> InodeRef {
    let mut at = fs.root().unwrap();
    for _ in 0..random.below(4) {
        match fs.lookup(&at, &any_name(random)) {
            Ok(next) if next.kind() == FileType::Dir => at = next,
            _ => break,
        }
    }
    at
}

fn one(fs: &Fs, random: &mut Rng) -> Result<()> {
    let (dir, name) = (wander(fs, random), any_name(random));
    match random.below(16) {
        0..4 => fs.create(&dir, &name, &new(FILE)).map(drop),
        4..7 => fs.create(&dir, &name, &new(DIR)).map(drop),
        7 => fs.symlink(&dir, &name, &[b't'; 3900], &new(0)).map(drop),
        8 => fs.link(&fs.lookup(&wander(fs, random), &any_name(random))?, &dir, &name),
        9..11 => fs.unlink(&dir, &name),
        11 => fs.rmdir(&dir, &name),
        12 => fs.readdir(&dir, 0, &mut |_| true),
        13 => fs.link(&fs.tmpfile(&dir, &new(FILE))?, &dir, &name),
        n => {
            let how = if n == 14 { RenameFlags::Replace } else { RenameFlags::Exchange };
            fs.rename(&dir, &name, &wander(fs, random), &any_name(random), how)
        }
    }
}

/// What the rules of names allow to go wrong here; anything else is a fault.
fn is_expected(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound
            | Error::Exists
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::NotEmpty
            | Error::Invalid
            | Error::NotPermitted
    )
}

/// Counts inodes and checks that each directory's link count is right.
fn count(fs: &Fs, dir: &InodeRef, seen: &mut BTreeSet<u32>) {
    let (mut entries, mut subdirectories) = (Vec::new(), 0);
    fs.readdir(dir, 2, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.kind));
        true
    })
    .unwrap();
    for (name, kind) in entries {
        let child = fs.lookup(dir, &name).unwrap();
        assert_eq!(child.kind(), kind);
        seen.insert(child.ino().get());
        if kind == FileType::Dir {
            subdirectories += 1;
            assert_eq!(fs.lookup(&child, b"..").unwrap().ino(), dir.ino());
            count(fs, &child, seen);
        }
    }
    assert_eq!(fs.attr(dir).unwrap().nlink, 2 + subdirectories);
}

#[test]
fn threads_share_directories() {
    let mut v = Volume::new(128, &["-O", FULL], "");
    let threads: Vec<_> = (0..6)
        .map(|seed| {
            let fs = Arc::clone(&v.fs);
            steadyfs_rt::spawn("names", move || {
                let mut random = Rng(seed);
                for n in 0..4000 {
                    if let Err(error) = one(&fs, &mut random) {
                        assert!(is_expected(&error), "{error}");
                    }
                    if n % 500 == 499 {
                        fs.sync().unwrap();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    v.fs.reap().unwrap();
    // A mount deletes inodes without names, if any are left.
    let before = v.fs.statfs();
    v.remount();
    assert_eq!(v.fs.statfs(), before);
    let (root, mut seen) = (v.fs.root().unwrap(), BTreeSet::new());
    count(&v.fs, &root, &mut seen);
    assert!(seen.len() > 100, "{} inodes", seen.len());
    drop(root);
    v.finish();
}
