//! What many tests of this crate need: devices in memory, volumes mounted, and files on them.

mod images;

pub(crate) use images::{load, mkfs};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::Block;
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_testkit::Rng;

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const DIR: u32 = 0o040_755;

/// What a device holds, as a file.
pub(crate) fn save(device: &MemDevice, path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(device.info().blocks * 4096).unwrap();
    for lba in device.written_blocks() {
        device.read_one(lba).unwrap().with(|bytes| file.write_all_at(bytes, lba * 4096)).unwrap();
    }
}

/// fsck.f2fs has nothing against what the device holds.
#[track_caller]
pub(crate) fn assert_stock(device: &MemDevice) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("volume.img");
    save(device, &path);
    steadyfs_testkit::fsck_f2fs(&path).unwrap_or_else(|error| panic!("{error}"));
}

/// Our checker has nothing against what the device holds.
#[track_caller]
pub(crate) fn assert_sound(device: Arc<dyn Device>, what: &str) {
    let found = check(device, &CheckOptions::default()).unwrap();
    assert!(found.is_clean(), "{what}: {:?}", found.issues);
}

/// Work in virtual time on some cores.
#[track_caller]
pub(crate) fn in_virtual_time<T: 'static>(cores: usize, work: impl FnOnce() -> T + 'static) -> T {
    run(SimConfig { cores, ..SimConfig::default() }, work).unwrap_or_else(|failure| panic!("{failure}")).value
}

/// The volume on a device, as it is read without a mount.
#[track_caller]
pub(crate) fn image(device: Arc<dyn Device>) -> Image {
    Image::open(device).unwrap()
}

/// Changes a block of a device.
pub(crate) fn change(device: &MemDevice, lba: u64, change: impl FnOnce(&mut Block)) {
    let mut page = device.read_one(lba).unwrap();
    change(page.make_mut());
    device.write(lba, vec![page]).unwrap();
}

#[track_caller]
pub(crate) fn mount(device: Arc<dyn Device>, options: &str) -> Arc<Fs> {
    Fs::mount(device, MountOptions::parse(options).unwrap()).unwrap()
}

/// A new inode of root's with this type and these permissions.
pub(crate) fn new(mode: u32) -> NewInode {
    NewInode { mode, ..NewInode::default() }
}

/// A new inode in a directory.
#[track_caller]
pub(crate) fn make(fs: &Fs, dir: &InodeRef, name: impl AsRef<[u8]>, mode: u32) -> InodeRef {
    fs.create(dir, name.as_ref(), &new(mode)).unwrap()
}

/// A new file in the root directory.
#[track_caller]
pub(crate) fn create(fs: &Fs, name: impl AsRef<[u8]>) -> InodeRef {
    make(fs, &fs.root().unwrap(), name, FILE)
}

/// The file of this name in the root directory: a new one if there is none.
#[track_caller]
pub(crate) fn file(fs: &Fs, name: &str) -> InodeRef {
    let root = fs.root().unwrap();
    fs.lookup(&root, name.as_bytes()).unwrap_or_else(|_| make(fs, &root, name, FILE))
}

/// The byte that each page of a file holds.
pub(crate) type Known = BTreeMap<u64, u8>;

/// Overwrites pages of a file at random, and remembers with what.
pub(crate) fn overwrite(fs: &Fs, file: &InodeRef, pages: u64, count: u64, random: &mut Rng, known: &mut Known) {
    for _ in 0..count {
        let (page, byte) = (random.below(pages), random.below(255) as u8 + 1);
        fs.write(file, page * 4096, &[byte; 4096]).unwrap();
        known.insert(page, byte);
    }
}

#[track_caller]
pub(crate) fn assert_contents(fs: &Fs, file: &InodeRef, known: &Known) {
    let mut buffer = vec![0; 4096];
    for (page, byte) in known {
        assert_eq!(fs.read(file, page * 4096, &mut buffer).unwrap(), 4096, "page {page}");
        assert!(buffer.iter().all(|found| found == byte), "page {page} holds {} and not {byte}", buffer[0]);
    }
}

/// Overwrites a large file at random, while small ones come and go. Returns the large one.
pub(crate) fn files_come_and_go(fs: &Fs, random: &mut Rng, known: &mut Known) -> InodeRef {
    let data = file(fs, "data");
    assert_contents(fs, &data, known);
    for part in 0..6 {
        overwrite(fs, &data, 700, 150, random, known);
        let name = format!("small{}", random.below(20));
        fs.write(&file(fs, &name), 0, &[part; 3 * 4096]).unwrap();
        match random.below(4) {
            0 => fs.sync().unwrap(),
            1 => fs.fsync(&data, false).unwrap(),
            2 => drop(fs.unlink(&fs.root().unwrap(), name.as_bytes())),
            _ => {}
        }
    }
    assert_contents(fs, &data, known);
    data
}
