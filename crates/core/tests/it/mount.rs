//! Mounting volumes that mkfs.f2fs made: what a mount and an unmount leave behind is what fsck.f2fs accepts.

use std::path::Path;
use std::sync::Arc;
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_testkit::{fsck_f2fs, mkfs_f2fs};

fn mount(path: &Path, options: &str) -> Arc<Fs> {
    let dev = FileDevice::open(path, OpenOptions::default()).unwrap();
    Fs::mount(Arc::new(dev), MountOptions::parse(options).unwrap()).unwrap()
}

const LAYOUTS: &[(u64, &[&str])] = &[
    (64, &[]),
    (300, &["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found"]),
    (256, &["-s", "4"]),
    (512, &["-s", "2", "-z", "3"]),
    (128, &["-i"]),
];

#[test]
fn empty_volumes_survive_mounts_and_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    for (i, &(mib, args)) in LAYOUTS.iter().enumerate() {
        let path = dir.path().join(format!("{i}.img"));
        mkfs_f2fs(&path, mib << 20, args).unwrap();
        let fs = mount(&path, "");
        let free = fs.statfs().blocks_free;
        for _ in 0..5 {
            fs.sync().unwrap();
        }
        assert_eq!(fs.statfs().blocks_free, free);
        fs.unmount().unwrap();
        drop(fs);
        fsck_f2fs(&path).unwrap_or_else(|e| panic!("{mib} MiB {args:?}: {e}"));
        let again = mount(&path, "");
        assert_eq!(again.statfs().blocks_free, free);
        assert_eq!(again.root().unwrap().ino(), steadyfs_format::ROOT_INO);
        // No unmount: what the mount's own checkpoint left must be a whole volume.
        drop(again);
        fsck_f2fs(&path).unwrap_or_else(|e| panic!("{mib} MiB {args:?}, not unmounted: {e}"));
    }
}

#[test]
fn a_read_only_mount_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ro.img");
    mkfs_f2fs(&path, 64 << 20, &["-f"]).unwrap();
    let before = std::fs::read(&path).unwrap();
    let fs = mount(&path, "ro");
    fs.sync().unwrap();
    fs.unmount().unwrap();
    drop(fs);
    assert!(std::fs::read(&path).unwrap() == before);
}
