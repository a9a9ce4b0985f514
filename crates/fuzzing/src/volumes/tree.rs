//! A small tree with one of everything: what the sound volumes of our own hold.

use std::sync::Arc;
use steadyfs_core::mkfs::{Infinite, MkfsOptions, format};
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode, Result, XattrFlags};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::Features;
use steadyfs_format::inode::DeviceNumber;

/// Offsets of pages that lie in the inode, in each kind of node below it, and at the borders between them.
const PAGES: [u64; 12] = [0, 1, 800, 873, 923, 1900, 2960, 3000, 1_040_000, 1_050_000, 2_090_000, 1_057_000_000];

/// How a volume is made.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) features: Features,
    pub(crate) segs_per_sec: u32,
    /// Mount options.
    pub(crate) mount: &'static str,
    /// Left as after a power failure, with deleted files open, not unmounted.
    pub(crate) crashed: bool,
    /// An IPLFS volume that may hold this many blocks.
    pub(crate) infinite: Option<Infinite>,
}

/// Makes the volume.
pub(crate) fn make(plan: Plan) -> Result<MemDevice> {
    let blocks = plan.infinite.map_or(u64::from(plan.segs_per_sec) * (64 << 20) / 4096, |plan| plan.device_blocks());
    let device = Arc::new(MemDevice::new(blocks));
    let uuid = *b"steadyfs fuzzing";
    let options = MkfsOptions {
        features: plan.features,
        segs_per_sec: plan.segs_per_sec,
        infinite: plan.infinite,
        ..MkfsOptions::new(uuid, 1_700_000_000)
    };
    format(&*device, &options)?;
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::parse(plan.mount)?)?;
    let root = fs.root()?;
    // Wide addresses reach half as far.
    let end = if plan.infinite.is_some() { u64::MAX >> 35 } else { u64::MAX };
    files(&fs, &root, end)?;
    directories(&fs, &root)?;
    attributes(&fs, &root)?;
    fs.sync()?;
    if !plan.crashed {
        fs.unmount()?;
        return Ok(device.fork());
    }
    let open = (0..5).map(|n| fs.create(&root, &[b'o', b'0' + n], &new(0o100_600))).collect::<Result<Vec<_>>>()?;
    open.iter().try_for_each(|file| fs.write(file, 0, &[3; 5000]).map(drop))?;
    (0..5).try_for_each(|n| fs.unlink(&root, &[b'o', b'0' + n]))?;
    fs.sync()?;
    let left = device.fork();
    drop(open);
    fs.unmount()?;
    Ok(left)
}

fn new(mode: u32) -> NewInode {
    NewInode { mode, uid: 1000, gid: 1000, rdev: DeviceNumber { major: 8, minor: 300 }, umask: 0 }
}

fn files(fs: &Fs, root: &InodeRef, end: u64) -> Result<()> {
    for (number, length) in [0, 1, 100, 3400, 3700, 4096, 5000, 20_000].into_iter().enumerate() {
        let file = fs.create(root, format!("file {number}").as_bytes(), &new(0o100_644))?;
        fs.write(&file, 0, &vec![number as u8 + 1; length])?;
    }
    let sparse = fs.create(root, b"sparse", &new(0o100_600))?;
    for page in PAGES.into_iter().filter(|page| *page < end) {
        fs.write(&sparse, page * 4096, &[page as u8 | 1; 4096])?;
    }
    let link = fs.create(root, b"linked", &new(0o100_644))?;
    fs.write(&link, 3 << 20, b"behind a hole")?;
    (0..3).try_for_each(|n| fs.link(&link, root, &[b'l', b'0' + n]))?;
    let reserved = fs.create(root, b"reserved", &new(0o100_644))?;
    let mode = steadyfs_core::FallocMode::Allocate { keep_size: true };
    fs.fallocate(&reserved, mode, 0, 300_000)?;
    fs.write(&reserved, 8192, &[1; 4096])?;
    fs.symlink(root, b"short link", b"file 1", &new(0))?;
    fs.symlink(root, b"long link", &[b'x'; 4000], &new(0))?;
    for (name, mode) in [(b"chr", 0o020_600), (b"blk", 0o060_600), (b"fif", 0o010_600), (b"soc", 0o140_600)] {
        fs.create(root, name, &new(mode))?;
    }
    Ok(())
}

fn directories(fs: &Fs, root: &InodeRef) -> Result<()> {
    for (number, entries) in [0, 3, 30, 80].into_iter().enumerate() {
        let dir = fs.create(root, format!("dir {number}").as_bytes(), &new(0o040_755))?;
        for entry in 0..entries {
            // Long names need many slots, so that few inodes make a large directory.
            let length = if number == 3 { 200 } else { 9 };
            let name: Vec<u8> = format!("{entry:03}").bytes().cycle().take(length).collect();
            match entry % 16 {
                1 => fs.create(&dir, &name, &new(0o040_755)).map(drop)?,
                0 => fs.create(&dir, &name, &new(0o100_644)).map(drop)?,
                _ => fs.link(&fs.lookup(&dir, &first_name(length))?, &dir, &name)?,
            }
        }
    }
    let mut deep = fs.create(root, b"deep", &new(0o040_755))?;
    for _ in 0..6 {
        deep = fs.create(&deep, b"d", &new(0o040_755))?;
    }
    Ok(())
}

/// The name of a directory's first file.
fn first_name(length: usize) -> Vec<u8> {
    b"000".iter().copied().cycle().take(length).collect()
}

fn attributes(fs: &Fs, root: &InodeRef) -> Result<()> {
    let any = XattrFlags::default();
    let names = [b"file 1", b"file 2", b"file 4", b"sparse"];
    for (name, length) in names.iter().zip([10, 150, 1000, 3000]) {
        let file = fs.lookup(root, &name[..])?;
        fs.setxattr(&file, b"user.colour", &vec![b'c'; length], any)?;
        fs.setxattr(&file, b"security.label", &vec![b's'; length / 8], any)?;
    }
    // Owner rwx, user 7 r-x, group r-x, mask r-x, others none: the form of the system call.
    let entries = [(1u16, 7u16, u32::MAX), (2, 5, 7), (4, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 0, u32::MAX)];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        acl.extend([&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let dir = fs.lookup(root, b"dir 1")?;
    fs.setxattr(&dir, b"system.posix_acl_access", &acl, any)?;
    fs.setxattr(&dir, b"system.posix_acl_default", &acl, any)?;
    fs.create(&dir, b"heir", &new(0o100_666)).map(drop)
}
