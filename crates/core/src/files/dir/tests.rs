//! Directories that only another system can make: encrypted and case-insensitive ones, and damaged ones.

use super::{FoundEntry, Search};
use crate::error::Error;
use crate::files::inode::InodeRef;
use crate::fs::Fs;
use crate::gate::Want;
use crate::mkfs::{self, MkfsOptions};
use crate::options::MountOptions;
use crate::types::NewInode;
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_device::MemDevice;
use steadyfs_format::dir::{DentriesMut, FileType, bucket_of, name_hash};
use steadyfs_format::inode::{advise, flags};
use steadyfs_format::{Ino, PageIndex};

fn fresh() -> Arc<Fs> {
    let device = MemDevice::new((64 << 20) / 4096);
    mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
    Fs::mount(Arc::new(device), MountOptions::default()).unwrap()
}

fn make(fs: &Fs, name: &str, mode: u32) -> InodeRef {
    fs.create(&fs.root().unwrap(), name.as_bytes(), &NewInode { mode, ..NewInode::default() }).unwrap()
}

fn insert(fs: &Fs, dir: &InodeRef, name: &[u8], ino: Ino) {
    let change = fs.files.gate.begin(Want::default()).unwrap();
    let Search::Missing(room) = fs.files.dir_search(&dir.inode, name).unwrap() else { panic!("the name exists") };
    fs.files.dir_insert(&change, &dir.inode, room, name, ino, FileType::Regular).unwrap();
}

fn mark(fs: &Fs, dir: &InodeRef, advice: u8, bits: u32) {
    let change = fs.files.gate.begin(Want::default()).unwrap();
    fs.vol
        .edit_inode(&change, &dir.inode, |raw| {
            raw.set_advise(raw.advise() | advice);
            raw.set_flags(raw.flags() | bits);
        })
        .unwrap();
}

fn list(fs: &Fs, dir: &InodeRef) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    fs.readdir(dir, 2, &mut |entry| names.insert(entry.name.to_vec())).unwrap();
    names
}

/// Bytes that look like ciphertext; some contain what no name may.
fn ciphertext(n: u8) -> Vec<u8> {
    (0..16 + n as usize % 15 * 17).map(|i| (i as u8).wrapping_mul(n | 1).wrapping_add(n)).collect()
}

#[test]
fn encrypted_names_are_shown_as_stand_ins_and_found_by_them() {
    let fs = fresh();
    let (dir, file) = (make(&fs, "d", 0o040_755), make(&fs, "f", 0o100_644));
    for count in [8, 200] {
        for n in 0..count {
            if fs.files.dir_find(&dir.inode, &ciphertext(n)).unwrap().is_none() {
                insert(&fs, &dir, &ciphertext(n), file.ino());
            }
        }
        for also_folded in [0, flags::CASEFOLD] {
            mark(&fs, &dir, advise::ENCRYPT, also_folded);
            let names = list(&fs, &dir);
            assert_eq!(names.len(), count as usize);
            for name in &names {
                assert!(name.is_ascii() && name.len() <= 255);
                assert_eq!(fs.lookup(&dir, name).unwrap().ino(), file.ino());
            }
            assert!(matches!(fs.lookup(&dir, &ciphertext(1)), Err(Error::NotFound | Error::Invalid)));
            assert_eq!(fs.lookup(&dir, b"..").unwrap().ino(), fs.root().unwrap().ino());
            for refused in [
                fs.create(&dir, b"new", &NewInode { mode: 0o100_644, ..NewInode::default() }).map(drop),
                fs.unlink(&dir, names.first().unwrap()),
                fs.link(&file, &dir, b"l"),
            ] {
                assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
            }
        }
        let change = fs.files.gate.begin(Want::default()).unwrap();
        fs.vol
            .edit_inode(&change, &dir.inode, |raw| {
                raw.set_advise(0);
                raw.set_flags(0);
            })
            .unwrap();
    }
}

#[test]
fn folded_names_are_found_in_any_case() {
    let fs = fresh();
    let (dir, file) = (make(&fs, "d", 0o040_755), make(&fs, "f", 0o100_644));
    for name in ["ReadMe", "straße", "ÉCOLE"] {
        insert(&fs, &dir, name.as_bytes(), file.ino());
    }
    mark(&fs, &dir, 0, flags::CASEFOLD);
    let hits = ["readme", "README", "ReadMe", "STRASSE", "école", "École"];
    for name in hits {
        assert_eq!(fs.lookup(&dir, name.as_bytes()).unwrap().ino(), file.ino(), "{name}");
    }
    assert!(matches!(fs.lookup(&dir, b"readme.txt"), Err(Error::NotFound)));
    // In a directory of blocks an ASCII name is looked for in its bucket only: the one of its folded hash.
    let big = make(&fs, "big", 0o040_755);
    for n in 0..200 {
        insert(&fs, &big, format!("{n}").as_bytes(), file.ino());
    }
    let hash = name_hash(b"makefile");
    let page = bucket_of(hash, 1, 0).first;
    let change = fs.files.gate.begin(Want::default()).unwrap();
    let mut block = fs.files.page(&big.inode, page).unwrap().unwrap_or_default();
    DentriesMut::block(block.make_mut()).insert(hash, b"Makefile", file.ino(), FileType::Regular).unwrap();
    fs.files.put_page(&change, &big.inode, page, block).unwrap();
    fs.vol
        .edit_inode(&change, &big.inode, |raw| {
            raw.set_current_depth(2);
            raw.set_size(raw.size().max((page + 1).byte_offset()));
        })
        .unwrap();
    drop(change);
    mark(&fs, &big, 0, flags::CASEFOLD);
    for name in ["MAKEFILE", "makefile", "MakeFile", "17"] {
        assert_eq!(fs.lookup(&big, name.as_bytes()).unwrap().ino(), file.ino(), "{name}");
    }
    assert_eq!(list(&fs, &big).len(), 201);
}

#[test]
fn a_directory_that_lies_about_its_shape_is_searched_in_bounds() {
    let fs = fresh();
    let (dir, file) = (make(&fs, "d", 0o040_755), make(&fs, "f", 0o100_644));
    for n in 0..300 {
        insert(&fs, &dir, format!("{n}").as_bytes(), file.ino());
    }
    let limit = dir.inode.read(|raw| raw.shape(fs.vol.sb.features()).unwrap().addressing().max_pages()).unwrap();
    let change = fs.files.gate.begin(Want::default()).unwrap();
    fs.vol
        .edit_inode(&change, &dir.inode, |raw| {
            raw.set_current_depth(63);
            raw.set_size(PageIndex(limit).byte_offset());
        })
        .unwrap();
    drop(change);
    assert!(fs.files.dir_find(&dir.inode, b"nothing").unwrap().is_none());
    assert!(matches!(fs.files.dir_find(&dir.inode, b"77"), Ok(Some(FoundEntry { .. }))));
    assert_eq!(list(&fs, &dir).len(), 300, "holes of terabytes are passed over");
    assert!(!fs.files.dir_is_empty(&dir.inode).unwrap());
}

#[test]
fn cycles_of_directories_are_refused() {
    let fs = fresh();
    let outer = make(&fs, "outer", 0o040_755);
    let inner = fs.create(&outer, b"inner", &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap();
    // An entry that leads back up, and one that leads to its own directory.
    for (name, ino) in [(&b"up"[..], outer.ino()), (b"self", inner.ino())] {
        insert(&fs, &inner, name, ino);
        assert!(matches!(fs.rmdir(&inner, name), Err(Error::Corrupt(_))));
        assert!(matches!(fs.rename(&inner, name, &outer, b"x", Default::default()), Err(Error::Corrupt(_))));
    }
    // Directories that claim to be each other's parent.
    let change = fs.files.gate.begin(Want::default()).unwrap();
    fs.vol.edit_inode(&change, &outer.inode, |raw| raw.set_pino(inner.ino())).unwrap();
    drop(change);
    let other = make(&fs, "other", 0o040_755);
    drop(fs.create(&other, b"x", &NewInode { mode: 0o040_755, ..NewInode::default() }).unwrap());
    assert!(matches!(fs.rename(&other, b"x", &inner, b"y", Default::default()), Err(Error::Corrupt(_))));
    // An entry that leads to the root, which says that it is here.
    let root = fs.root().unwrap();
    let change = fs.files.gate.begin(Want::default()).unwrap();
    fs.vol.edit_inode(&change, &root.inode, |raw| raw.set_pino(other.ino())).unwrap();
    drop(change);
    insert(&fs, &other, b"root", root.ino());
    assert!(matches!(fs.rmdir(&other, b"root"), Err(Error::Corrupt(_))));
    assert!(matches!(fs.rename(&other, b"root", &other, b"x", Default::default()), Err(Error::Corrupt(_))));
}

#[test]
fn what_is_remembered_of_pages_changes_nothing_but_the_time() {
    let fs = fresh();
    let (dir, file) = (make(&fs, "d", 0o040_755), make(&fs, "f", 0o100_644));
    let name = |n: u32| format!("{n:0width$}", width = 1 + n as usize % 40).into_bytes();
    let mut there = BTreeSet::new();
    let mut random = 1_u32;
    for round in 0..12_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let name = name(random >> 8 & 0xfff);
        let found = fs.files.dir_find(&dir.inode, &name).unwrap();
        assert_eq!(found.is_some(), there.contains(&name), "round {round}");
        match found {
            Some(found) => {
                fs.files.dir_remove(&fs.files.gate.begin(Want::default()).unwrap(), &dir.inode, found.place).unwrap();
                there.remove(&name);
            }
            None => {
                insert(&fs, &dir, &name, file.ino());
                there.insert(name.clone());
            }
        }
        if round > 4000 && round % 100 == 0 {
            let place = |fs: &Fs| match fs.files.dir_search(&dir.inode, &name).unwrap() {
                Search::Found(found) => (Some(found), None),
                Search::Missing(room) => (None, Some(room)),
            };
            let remembered = place(&fs);
            assert!(dir.inode.names.clear() > 3, "nothing was remembered");
            assert_eq!(remembered, place(&fs), "round {round}");
        }
    }
}
