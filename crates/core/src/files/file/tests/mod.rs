//! Files on volumes in memory that mkfs.f2fs made, checked by fsck.f2fs.

mod basics;
mod compressed;
mod growth;
mod lagging;
mod model;
mod moving;
mod operations;
mod own;
mod pressure;

use crate::gate::Want;
use crate::{Fs, InodeRef, MountOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::{DentriesMut, FileType, name_hash};
use steadyfs_format::inode::{DEFAULT_XATTR_WORDS, FULL_EXTRA_ISIZE, Inode as RawInode, NewInode, inline};
use steadyfs_format::{BLOCK_SIZE, PageIndex, ROOT_INO};

/// Features of the volumes: what a writer supports.
const FEATURES: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr";

/// A fresh volume of so many MiB.
fn volume(mib: u64, args: &[&str]) -> Arc<MemDevice> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("volume.img");
    steadyfs_testkit::mkfs_f2fs(&path, mib << 20, args).unwrap();
    let device = MemDevice::new((mib << 20) / BLOCK_SIZE as u64);
    let mut file = std::fs::File::open(&path).unwrap();
    let mut buffer = vec![0; BLOCK_SIZE];
    for lba in 0..device.info().blocks {
        file.read_exact(&mut buffer).unwrap();
        if buffer.iter().any(|byte| *byte != 0) {
            device.write(lba, vec![PageBuf::from_slice(&buffer)]).unwrap();
        }
    }
    Arc::new(device)
}

/// A fresh volume of 96 MiB, made once and copied.
fn fresh() -> Arc<MemDevice> {
    static MADE: OnceLock<Arc<MemDevice>> = OnceLock::new();
    Arc::new(MADE.get_or_init(|| volume(96, &["-O", FEATURES])).fork())
}

fn mount(device: &Arc<MemDevice>, options: &str) -> Arc<Fs> {
    Fs::mount(Arc::clone(device) as Arc<dyn Device>, MountOptions::parse(options).unwrap()).unwrap()
}

/// Unmounts and has fsck.f2fs look at what is left.
fn unmount_and_check(fs: Arc<Fs>, device: &MemDevice) {
    fs.unmount().unwrap();
    drop(fs);
    check(device);
}

fn check(device: &MemDevice) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("volume.img");
    save(device, &path);
    if let Err(e) = steadyfs_testkit::fsck_f2fs(&path) {
        panic!("{e}");
    }
}

fn save(device: &MemDevice, path: &Path) {
    use std::io::{Seek, SeekFrom};
    let mut file = std::fs::File::create(path).unwrap();
    file.set_len(device.info().blocks * BLOCK_SIZE as u64).unwrap();
    for lba in device.written_blocks() {
        file.seek(SeekFrom::Start(lba * BLOCK_SIZE as u64)).unwrap();
        file.write_all(&device.read_one(lba).unwrap().to_array()[..]).unwrap();
    }
}

/// Makes a file in the first block of the root directory.
fn create(fs: &Fs, name: &str) -> InodeRef {
    create_with(fs, name, inline::DATA | inline::XATTR)
}

fn create_with(fs: &Fs, name: &str, inline_bits: u8) -> InodeRef {
    let features = fs.vol.sb.features();
    let root = fs.root().unwrap();
    let _lock = root.inode.rwsem.write();
    let change = fs.files.gate.begin(Want::default()).unwrap();
    let node = fs.vol.new_inode_node(true).unwrap();
    let new = NewInode {
        ino: node.nid.as_ino(),
        pino: ROOT_INO,
        name: name.as_bytes(),
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        links: 1,
        time: crate::files::attr::times::clock(),
        generation: 1,
        flags: 0,
        inline: inline_bits,
        extra_isize: FULL_EXTRA_ISIZE,
        xattr_words: DEFAULT_XATTR_WORDS,
        project_id: 0,
    };
    let (raw, _) = new.build(features).unwrap();
    *RawInode::view_mut(node.write(&fs.vol.nodes).edit()) = raw;
    let mut page = fs.files.page(&root.inode, PageIndex(0)).unwrap().unwrap();
    let mut entries = DentriesMut::block(page.make_mut());
    entries.insert(name_hash(name.as_bytes()), name.as_bytes(), new.ino, FileType::Regular).unwrap();
    fs.files.put_page(&change, &root.inode, PageIndex(0), page).unwrap();
    fs.files.inodes.insert_new(&fs.files.budget, node, FileType::Regular)
}

/// The file of this name in the root directory's first block.
fn open(fs: &Fs, name: &str) -> InodeRef {
    let root = fs.root().unwrap();
    let page = fs.files.page(&root.inode, PageIndex(0)).unwrap().unwrap();
    let ino = page.with(|block| {
        let entries = steadyfs_format::dir::Dentries::block(block);
        entries.find(name_hash(name.as_bytes()), name.as_bytes()).map(|entry| entry.ino)
    });
    fs.inode(ino.unwrap()).unwrap()
}

fn size(file: &InodeRef) -> u64 {
    file.inode.read(RawInode::size).unwrap()
}

fn blocks(file: &InodeRef) -> u64 {
    file.inode.read(RawInode::blocks).unwrap()
}

fn read_all(fs: &Fs, file: &InodeRef) -> Vec<u8> {
    let mut out = vec![0xEE; size(file) as usize];
    assert_eq!(fs.read(file, 0, &mut out).unwrap(), out.len());
    out
}

/// Bytes that differ from page to page and from file to file.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    };
    (0..len).map(|_| next()).collect()
}
