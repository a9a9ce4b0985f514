//! Volumes with chains, the trees on them, and changes to chain nodes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use steadyfs_core::fsck::{self, CheckOptions, Severity};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, InodeRef, MountOptions, NewInode, Result};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode;
use steadyfs_format::node::{NodeBlock, NodeOfs};
use steadyfs_format::{Block, Lba};

/// Features whose inodes carry checksums.
pub(crate) const FEATURES: &[&str] =
    &["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr"];

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const DIR: u32 = 0o040_755;

/// A path and what is to be seen there.
pub(crate) type Tree = BTreeMap<String, String>;

/// A volume of mkfs.f2fs, in memory.
pub(crate) fn fresh(args: &[&str]) -> MemDevice {
    crate::common::mkfs(128, args)
}

pub(crate) fn mount(dev: Arc<dyn Device>, options: &str) -> Result<Arc<Fs>> {
    // Nothing happens but what the test says.
    let options = MountOptions::parse(options)?;
    let quiet = MountOptions { background_gc: false, commit_seconds: Some(0), journal_commit_seconds: 0, ..options };
    Fs::mount(dev, quiet)
}

/// A volume under work: its device, and the file system on it.
pub(crate) struct Volume {
    pub(crate) dev: Arc<MemDevice>,
    pub(crate) fs: Arc<Fs>,
}

impl Volume {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::on(fresh(args))
    }

    pub(crate) fn on(dev: MemDevice) -> Self {
        Self::on_with(dev, "")
    }

    pub(crate) fn on_with(dev: MemDevice, options: &str) -> Self {
        let dev = Arc::new(dev);
        let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, options).unwrap();
        Volume { dev, fs }
    }

    pub(crate) fn make(&self, path: &str, mode: u32) -> InodeRef {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.fs.create(&at(&self.fs, dir), name.as_bytes(), &NewInode { mode, ..NewInode::default() }).unwrap()
    }

    /// A file of `pages` pages, which say whose they are.
    pub(crate) fn file(&self, path: &str, pages: u64) -> InodeRef {
        let file = self.make(path, FILE);
        self.fill(&file, 0, pages, path.as_bytes()[0]);
        file
    }

    pub(crate) fn fill(&self, file: &InodeRef, first: u64, pages: u64, byte: u8) {
        for page in first..first + pages {
            let mut block = [byte; 4096];
            block[..8].copy_from_slice(&page.to_le_bytes());
            self.fs.write(file, page * 4096, &block).unwrap();
        }
    }

    pub(crate) fn fsync(&self, file: &InodeRef) {
        self.fs.fsync(file, false).unwrap();
    }

    /// What a power cut leaves now.
    pub(crate) fn crash(&self) -> MemDevice {
        self.dev.fork()
    }
}

pub(crate) fn at(fs: &Fs, path: &str) -> InodeRef {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(fs.root().unwrap(), |dir, name| fs.lookup(&dir, name.as_bytes()).unwrap())
}

/// Everything that can be seen, but for the times of directories, which recovery sets when it makes a name.
pub(crate) fn tree(fs: &Fs) -> Tree {
    let mut out = Tree::new();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, inode)) = todo.pop() {
        out.insert(path.clone(), describe(fs, &inode).unwrap_or_else(|e| panic!("{path}: {e}")));
        if inode.kind() == FileType::Dir {
            let mut names = Vec::new();
            fs.readdir(&inode, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })
            .unwrap();
            for name in names.into_iter().filter(|name| name != b"." && name != b"..") {
                let child = fs.lookup(&inode, &name).unwrap();
                todo.push((format!("{path}/{}", String::from_utf8_lossy(&name)), child));
            }
        }
    }
    out
}

fn describe(fs: &Fs, inode: &InodeRef) -> Result<String> {
    let attr = fs.attr(inode)?;
    let mut xattrs = Vec::new();
    for name in fs.listxattr(inode)? {
        xattrs.push((name.clone(), digest(&fs.getxattr(inode, &name)?)));
    }
    xattrs.sort();
    let contents = match inode.kind() {
        FileType::Regular => digest(&read(fs, inode)?),
        FileType::Symlink => digest(&fs.readlink(inode)?),
        _ => 0,
    };
    let times = if inode.kind() == FileType::Dir { None } else { Some((attr.mtime, attr.ctime, attr.crtime)) };
    let own = (attr.ino, attr.mode, attr.uid, attr.gid, attr.nlink, attr.generation, attr.flags, attr.project);
    Ok(format!("{own:?} {} bytes, {} sectors, {contents:x} {times:?} {xattrs:?}", attr.size, attr.blocks))
}

pub(crate) fn read(fs: &Fs, inode: &InodeRef) -> Result<Vec<u8>> {
    let mut out = vec![0; fs.attr(inode)?.size as usize];
    let got = fs.read(inode, 0, &mut out)?;
    assert_eq!(got, out.len());
    Ok(out)
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The tree that a read-only mount shows.
pub(crate) fn seen(dev: MemDevice) -> Tree {
    tree(&mount(Arc::new(dev.into_read_only()), "ro").unwrap())
}

/// Mounts for changes, as after a crash, and gives the tree and the device as the mount's first checkpoint left it.
pub(crate) fn recovered(dev: MemDevice) -> (Tree, MemDevice) {
    let dev = Arc::new(dev);
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, "").unwrap();
    (tree(&fs), dev.fork())
}

/// What the checker finds, apart from notes and from a volume not being unmounted.
pub(crate) fn complaints(dev: &MemDevice) -> Vec<String> {
    let report = fsck::check(Arc::new(dev.fork()), &CheckOptions::default()).unwrap();
    let worse = report.issues.iter().filter(|issue| issue.severity() > Severity::Note);
    worse.map(|issue| format!("{}: {issue}", issue.code())).collect()
}

#[track_caller]
pub(crate) fn assert_same(left: &Tree, right: &Tree, what: &str) {
    for path in left.keys().chain(right.keys()) {
        assert_eq!(left.get(path), right.get(path), "{what}: {path:?}");
    }
}

/// The chain's nodes, in order.
pub(crate) fn chain(dev: &MemDevice) -> Vec<(Lba, Block)> {
    let image = Image::open(Arc::new(dev.fork())).unwrap();
    image.fsync_chain().map(|node| node.unwrap()).map(|node| (node.lba, *node.page.to_array())).collect()
}

/// Changes a node of the chain, and puts the inode's checksum right.
pub(crate) fn edit<R>(dev: &MemDevice, lba: Lba, f: impl FnOnce(&mut Block) -> R) -> R {
    let image = Image::open(Arc::new(dev.fork())).unwrap();
    let (features, seed) = (image.superblock().features(), image.superblock().inode_checksum_seed());
    let mut block = *dev.read_one(lba.get()).unwrap().to_array();
    let out = f(&mut block);
    if NodeBlock::view(&block).footer.ofs() == NodeOfs::INODE {
        Inode::view_mut(&mut block).update_checksum(features, seed);
    }
    dev.write(lba.get(), vec![PageBuf::from_slice(&block)]).unwrap();
    out
}

/// Why a mount for changes fails; nothing has been written then.
#[track_caller]
pub(crate) fn refused(dev: MemDevice) -> String {
    let checkpoint = tree(&mount(Arc::new(dev.fork().into_read_only()), "ro,norecovery").unwrap());
    let recording = Arc::new(steadyfs_device::RecordingDevice::new(dev));
    let result = mount(Arc::clone(&recording) as Arc<dyn Device>, "");
    let Err(error @ Error::Recovery(_)) = result else { panic!("mounted, or {:?}", result.err()) };
    assert!(recording.log().is_empty(), "something was written before {error}");
    assert_same(&checkpoint, &seen(recording.inner().fork()), "a reader sees the checkpoint, and nothing of the chain");
    // The way out.
    let dropped = mount(Arc::new(recording.inner().fork()), "disable_roll_forward").unwrap();
    assert_same(&checkpoint, &tree(&dropped), "without the chain");
    error.to_string()
}
