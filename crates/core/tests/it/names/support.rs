//! Volumes for these tests, and what to say about them in few words.

pub(crate) use crate::common::{DIR, FILE, new};
use crate::common::{assert_stock, mount};
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Severity};
use steadyfs_core::{Fs, InodeRef};
use steadyfs_device::{Device, MemDevice};

/// Features of volumes that use everything this version can write, but for quota: fsck.f2fs would complain about quota
/// files that are not kept.
pub(crate) const FULL: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found";

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
        let fs = mount(dev.clone(), options);
        Volume { dev, fs, options: options.to_owned() }
    }

    /// Unmounts and mounts again.
    pub(crate) fn remount(&mut self) {
        self.fs.unmount().unwrap();
        self.fs = mount(self.dev.clone(), &self.options);
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
    assert_stock(dev);
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
