//! What was fsynced on a volume without room: recovery repeats no removal, and still has room for every name.

use crate::recovery::support::{DIR, FILE, Volume, assert_same, at, complaints, edit, mount, recovered, seen, tree};
use std::collections::VecDeque;
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, SetAttr};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::Inode;

/// Fills the volume with one file but for `free` blocks, durably.
fn fill(v: &Volume, free: u64) {
    let ballast = v.make("ballast", FILE);
    let (chunk, mut size) = (vec![1; 1 << 20], 0);
    while let Ok(wrote) = v.fs.write(&ballast, size, &chunk) {
        size += wrote as u64;
    }
    v.fs.sync().unwrap();
    while v.fs.statfs().blocks_free < free {
        size -= 4096;
        v.fs.setattr(&ballast, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    }
    v.fs.sync().unwrap();
    assert_eq!(v.fs.statfs().blocks_free, free);
}

fn remove(fs: &Fs, path: &str) {
    let (dir, name) = path.rsplit_once('/').unwrap();
    fs.unlink(&at(fs, dir), name.as_bytes()).unwrap();
}

/// How many files an inline directory takes.
fn inline_entries() -> usize {
    let v = Volume::new(&[]);
    let dir = v.make("probe", DIR);
    let inline = v.fs.attr(&dir).unwrap().size;
    let full = |n: &usize| {
        v.make(&format!("probe/{n:04}"), FILE);
        v.fs.attr(&dir).unwrap().size != inline
    };
    (0..).find(full).unwrap()
}

fn survives(v: &Volume, names: &[&str], what: &str) {
    // Collectors may commit a checkpoint between two looks.
    let image = v.crash();
    let shown = seen(image.fork());
    let (after, whole) = recovered(image);
    assert_same(&shown, &after, what);
    for name in names {
        assert!(after.contains_key(*name), "{what}: {name} is lost");
    }
    assert_eq!(complaints(&whole), [""; 0], "{what}");
    // What a full volume is left with can be cleaned up.
    let fs = mount(Arc::new(whole) as Arc<dyn Device>, "").unwrap();
    fs.unlink(&fs.root().unwrap(), b"ballast").unwrap();
    fs.unmount().unwrap();
}

#[test]
fn a_name_in_a_full_inline_directory_is_recovered() {
    let entries = inline_entries();
    for (mib, free) in [(128, 1), (128, 2), (1024, 1), (128, 7)] {
        let v = Volume::on(crate::common::mkfs(mib, &[]));
        v.make("d", DIR);
        for n in 0..entries {
            v.make(&format!("d/{n:04}"), FILE);
        }
        fill(&v, free);
        remove(&v.fs, "/d/0000");
        let file = v.make("d/fresh", FILE);
        v.fsync(&file);
        survives(&v, &["/d/fresh"], &format!("{mib} MiB, {free} free"));
    }
}

/// A hash table that begins with many buckets: each entry of the inode goes to a page of its own.
#[test]
fn a_full_inline_directory_of_a_higher_level_is_recovered() {
    let entries = inline_entries();
    let v = Volume::on(crate::common::mkfs(128, &[]));
    let dir = v.make("d", DIR).ino();
    for n in 0..entries {
        v.make(&format!("d/{n:04}"), FILE);
    }
    v.fs.unmount().unwrap();
    let dev = v.crash();
    let at_inode = Image::open(Arc::new(dev.fork())).unwrap().nat(dir.nid()).unwrap().lba;
    edit(&dev, at_inode, |block| Inode::view_mut(block).set_dir_level(7));
    let v = Volume::on(dev);
    fill(&v, 60);
    remove(&v.fs, "/d/0000");
    let file = v.make("d/fresh", FILE);
    v.fsync(&file);
    survives(&v, &["/d/fresh"], "level 7");
}

/// Batches need room that no file has: where there is little, checkpoints give it back, and nothing is lost.
#[test]
fn a_journal_on_a_nearly_full_volume_loses_nothing() {
    let mut batches = 0;
    for options in ["journal=single", "journal=percore,mode=adaptive,ssr=eager"] {
        let v = Volume::on(crate::common::mkfs(256, &[]));
        v.make("d", DIR);
        for n in 0..10 {
            v.make(&format!("d/{n:04}"), FILE);
        }
        fill(&v, 600);
        v.fs.unmount().unwrap();
        let fs = mount(Arc::clone(&v.dev) as Arc<dyn Device>, options).unwrap();
        let v = Volume { dev: Arc::clone(&v.dev), fs };
        let dir = at(&v.fs, "d");
        for round in 0..300u32 {
            let set = SetAttr { mode: Some(0o600 + round % 64), ..SetAttr::default() };
            for n in 0..10 {
                v.fs.setattr(&at(&v.fs, &format!("d/{n:04}")), &set).unwrap();
            }
            v.fsync(&dir);
            if round % 60 == 0 {
                let (after, whole) = recovered(v.crash());
                assert_same(&tree(&v.fs), &after, &format!("{options}, round {round}"));
                assert_eq!(complaints(&whole), [""; 0], "{options}, round {round}");
            }
        }
        println!("{options}: {:?} {:?}", v.fs.sync_stats(), v.fs.journal_stats());
        batches += v.fs.journal_stats().batches;
        survives(&v, &["/d/0007"], options);
    }
    assert!(batches > 100, "{batches}");
}

/// A mail directory: the oldest goes, a new one comes, again and again between two checkpoints.
#[test]
fn files_that_replace_others_are_recovered_at_every_point() {
    let v = Volume::on(crate::common::mkfs(256, &[]));
    v.make("mail", DIR);
    let mut names: VecDeque<String> = (0..400).map(|n| format!("mail/message-{n:05}")).collect();
    names.iter().for_each(|name| drop(v.file(name, 1)));
    fill(&v, 600);
    for n in 400..640 {
        remove(&v.fs, &format!("/{}", names.pop_front().unwrap()));
        let name = format!("mail/message-{n:05}");
        let file = v.file(&name, 1);
        v.fsync(&file);
        names.push_back(name);
        let image: MemDevice = v.crash();
        let fs = mount(Arc::new(image) as Arc<dyn Device>, "").unwrap_or_else(|e| panic!("after message {n}: {e}"));
        for name in &names {
            at(&fs, name);
        }
    }
    let stats = v.fs.sync_stats();
    assert!(stats.chained > 200, "checkpoints for room stay rare: {stats:?}");
    assert_eq!(complaints(&recovered(v.crash()).1), [""; 0]);
    assert!(!tree(&v.fs).is_empty());
}
