//! Volumes for these tests, and what to say about them in few words.

use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Severity};
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice};
use steadyfs_testkit::fsck_f2fs;

/// Features of volumes that use everything this version can write, but for quota: fsck.f2fs would complain about quota
/// files that are not kept.
pub(crate) const FULL: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found";

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const DIR: u32 = 0o040_755;

/// A volume on a device for tests, mounted.
pub(crate) struct Volume<D = MemDevice> {
    pub(crate) dev: Arc<D>,
    pub(crate) fs: Arc<Fs>,
    options: String,
}

impl Volume {
    /// A volume of mkfs.f2fs, in memory.
    pub(crate) fn new(mib: u64, args: &[&str], options: &str) -> Self {
        Self::on(crate::common::mkfs(mib, args), options)
    }

    /// Unmounts and lets fsck.f2fs have a look.
    pub(crate) fn finish(self) {
        self.fs.unmount().unwrap();
        drop(self.fs);
        fsck(&self.dev);
    }
}

impl<D: Device + 'static> Volume<D> {
    /// The volume on a device.
    pub(crate) fn on(dev: D, options: &str) -> Self {
        let dev = Arc::new(dev);
        let fs = mount(&dev, options);
        Volume { dev, fs, options: options.to_owned() }
    }

    /// Unmounts and mounts again.
    pub(crate) fn remount(&mut self) {
        self.fs.unmount().unwrap();
        self.fs = mount(&self.dev, &self.options);
    }

    /// The inode at a path of names.
    pub(crate) fn at(&self, path: &str) -> InodeRef {
        let mut at = self.fs.root().unwrap();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.fs.lookup(&at, name.as_bytes()).unwrap_or_else(|e| panic!("{path}: {name}: {e}"));
        }
        at
    }
}

fn mount<D: Device + 'static>(dev: &Arc<D>, options: &str) -> Arc<Fs> {
    let dev: Arc<dyn Device> = Arc::clone(dev) as _;
    Fs::mount(dev, MountOptions::parse(options).unwrap()).unwrap()
}

/// Panics with what fsck.f2fs says, unless it finds nothing. Of an IPLFS volume, with what our checker says, also of
/// leaks.
pub(crate) fn fsck(dev: &MemDevice) {
    if dev.info().blocks > 1 << 40 {
        let options = CheckOptions { threads: 1, leaks: true, ..CheckOptions::default() };
        let report = steadyfs_core::fsck::check(Arc::new(dev.fork()), &options).unwrap();
        let bad: Vec<_> = report.issues.iter().filter(|issue| issue.severity() > Severity::Note).collect();
        assert!(bad.is_empty(), "{bad:#?}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("volume.img");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(dev.info().blocks * 4096).unwrap();
    for lba in dev.written_blocks() {
        let page = dev.read_one(lba).unwrap();
        page.with(|bytes| std::os::unix::fs::FileExt::write_all_at(&file, bytes, lba * 4096)).unwrap();
    }
    drop(file);
    fsck_f2fs(&path).unwrap_or_else(|e| panic!("{e}"));
}

/// A new inode of root's with this type and these permissions.
pub(crate) fn new(mode: u32) -> NewInode {
    NewInode { mode, ..NewInode::default() }
}

/// The error number of a failure.
pub(crate) fn errno<T>(result: steadyfs_core::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(e) => e.errno(),
    }
}

/// All names of a directory in listing order, dots included.
pub(crate) fn names(fs: &Fs, dir: &InodeRef) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })
    .unwrap();
    names
}
