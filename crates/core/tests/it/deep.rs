//! Names at a great depth: what an operation costs does not depend on how deep it works. The nodes of the chain fit the
//! cache of nodes ten times over, so whoever walks up to the root has to read them.

use crate::common::make;
use std::sync::Arc;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::{Error, Fs, InodeRef, RenameFlags};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::Ino;

const DEPTH: usize = 10_000;
const REPLACE: RenameFlags = RenameFlags::Replace;

fn mount(device: &Arc<MemDevice>) -> Arc<Fs> {
    crate::common::mount(Arc::clone(device) as Arc<dyn Device>, "node_cache=4M,background_gc=off,commit=0")
}

fn mkdir(fs: &Fs, dir: &InodeRef, name: &[u8]) -> InodeRef {
    make(fs, dir, name, 0o040_755)
}

/// A volume with so many directories in each other, freshly mounted; their numbers from the top.
fn chain(depth: usize) -> (Arc<Fs>, Vec<Ino>) {
    let device = Arc::new(MemDevice::new((256 << 20) / 4096));
    format(&*device, &MkfsOptions::new([7; 16], 0)).unwrap();
    let fs = mount(&device);
    let mut at = fs.root().unwrap();
    let mut inos = vec![at.ino()];
    for n in 0..depth {
        at = mkdir(&fs, &at, b"d");
        inos.push(at.ino());
        if n % 1000 == 0 {
            fs.sync().unwrap();
        }
    }
    drop(at);
    fs.unmount().unwrap();
    (mount(&device), inos)
}

/// Blocks that `work` reads from the device.
fn reads(fs: &Fs, work: impl FnOnce()) -> u64 {
    let before = fs.stats().device_read_bytes();
    work();
    (fs.stats().device_read_bytes() - before) / 4096
}

#[test]
fn names_change_at_any_depth_for_a_few_reads() {
    let (fs, inos) = chain(DEPTH);
    let deep = fs.inode(inos[DEPTH]).unwrap();
    let few = reads(&fs, || {
        let (x, y) = (mkdir(&fs, &deep, b"x"), mkdir(&fs, &deep, b"y"));
        drop(make(&fs, &x, b"file", 0o100_644));
        fs.rename(&x, b"file", &y, b"file", REPLACE).unwrap();
        fs.rename(&y, b"file", &deep, b"file", REPLACE).unwrap();
        fs.rename(&deep, b"x", &y, b"x", REPLACE).unwrap();
        fs.rename(&y, b"x", &deep, b"x", REPLACE).unwrap();
        fs.rename(&deep, b"x", &deep, b"z", REPLACE).unwrap();
        drop(mkdir(&fs, &y, b"x"));
        fs.rename(&deep, b"z", &y, b"x", REPLACE).unwrap();
        drop(mkdir(&fs, &deep, b"x"));
        fs.rename(&deep, b"x", &y, b"x", RenameFlags::Exchange).unwrap();
        fs.rmdir(&deep, b"x").unwrap();
        fs.rmdir(&y, b"x").unwrap();
        fs.rmdir(&deep, b"y").unwrap();
        fs.unlink(&deep, b"file").unwrap();
    });
    assert!(few <= 40, "{few} blocks were read at a depth of {DEPTH}");
    // Files go any way.
    let root = fs.root().unwrap();
    drop(make(&fs, &root, b"file", 0o100_644));
    let few = reads(&fs, || {
        fs.rename(&root, b"file", &deep, b"file", REPLACE).unwrap();
        fs.rename(&deep, b"file", &root, b"file", REPLACE).unwrap();
    });
    assert!(few <= 40, "{few} blocks were read to move a file");
}

#[test]
fn a_chain_of_directories_is_removed_in_linear_time() {
    let (fs, inos) = chain(DEPTH);
    let all = reads(&fs, || {
        for pair in inos.windows(2).rev() {
            let dir = fs.inode(pair[0]).unwrap();
            fs.rmdir(&dir, b"d").unwrap();
        }
    });
    assert!(all <= 4 * DEPTH as u64, "{all} blocks were read to remove {DEPTH} directories");
}

#[test]
fn directories_move_over_hundreds_of_levels_and_never_below_themselves() {
    let (fs, inos) = chain(5000);
    let at = |level: usize| fs.inode(inos[level]).unwrap();
    let errno = |result: Result<(), Error>| result.map_err(|error| error.errno());
    for level in [999, 1000, 1200, 1255] {
        let below = at(level);
        assert_eq!(errno(fs.rename(&at(998), b"d", &below, b"x", REPLACE)), Err(22), "level {level}");
        drop(mkdir(&fs, &below, b"x"));
        assert_eq!(errno(fs.rename(&at(998), b"d", &below, b"x", REPLACE)), Err(22), "level {level}");
        for (a, b) in [((at(998), b"d"), (at(level), b"x")), ((at(level), b"x"), (at(998), b"d"))] {
            let exchanged = errno(fs.rename(&a.0, a.1, &b.0, b.1, RenameFlags::Exchange));
            assert_eq!(exchanged, Err(22), "level {level}");
        }
        assert_eq!(errno(fs.rename(&at(level), b"x", &at(998), b"d", REPLACE)), Err(39), "level {level}");
        fs.rmdir(&below, b"x").unwrap();
    }
    // Whoever looks farther up finds no end within reach: a copy goes there.
    let (root, deep) = (fs.root().unwrap(), at(5000));
    drop(mkdir(&fs, &root, b"moved"));
    for (dir, to) in [(&root, &deep), (&deep, &root)] {
        if dir.ino() == deep.ino() {
            drop(mkdir(&fs, &deep, b"moved"));
        }
        assert_eq!(errno(fs.rename(dir, b"moved", to, b"to", REPLACE)), Err(18));
        fs.lookup(dir, b"moved").unwrap();
    }
    assert_eq!(errno(fs.rename(&at(998), b"d", &deep, b"x", REPLACE)), Err(18), "below itself, and far");
    fs.rename(&root, b"moved", &at(255), b"moved", REPLACE).unwrap();
    fs.rename(&at(255), b"moved", &root, b"moved", REPLACE).unwrap();
}
