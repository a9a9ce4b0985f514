//! The whole volumes that the tests start from: made once, then forked.

use crate::common::{load, mkfs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Report, check};
use steadyfs_device::{Device, MemDevice};
use steadyfs_testkit::corpus::{Spec, Workload};
use steadyfs_testkit::linux::{corpus_command, mount_command};
use steadyfs_testkit::{Uml, fsck_f2fs, mkfs_f2fs};

/// Features that change how inodes look.
pub(crate) const FEATURES: &str =
    "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,project_quota,quota";

/// Files beside the tree of corner cases, under names that the tests know.
const FILES: &str = "
    mkdir -p $MNT/p/dir/sub/deep $MNT/p/empty $MNT/p/big
    cd $MNT/p
    echo hello >inline
    ln -s inline short
    ln -s $(printf '%03800d' 0) long
    mkfifo fifo
    mknod device c 5 1
    dd if=/dev/urandom of=data bs=4k count=20 2>/dev/null
    dd if=/dev/urandom of=other bs=4k count=20 2>/dev/null
    ln data second-name
    dd if=/dev/urandom of=large bs=4k count=3200 2>/dev/null
    for at in 0 5000 1100000 3000000; do dd if=/dev/urandom of=sparse bs=4k count=1 seek=$at conv=notrunc 2>/dev/null; done
    i=0; while [ $i -lt 700 ]; do : >big/file-with-a-long-name-$i; i=$((i+1)); done
    sync
    cd /
";

/// A volume that Linux filled: the tree of corner cases, and what tests look for by name below `p`. Checked by fsck.f2fs.
pub(crate) fn by_linux(mib: u64, mkfs: &[&str], mount: &str, spec: &Spec) -> MemDevice {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory for the image");
    let path = dir.path().join("volume.img");
    mkfs_f2fs(&path, mib << 20, mkfs).expect("mkfs.f2fs works");
    let corpus = corpus_command("$MNT", &Workload::Corners(spec.clone())).expect("the test kit can be built");
    let uml = Uml::new().disk(&path).timeout(Duration::from_secs(600));
    uml.script(mount_command("/dev/ubda", mount)).script(corpus).script(FILES).run().expect("Linux fills the volume");
    fsck_f2fs(&path).expect("fsck.f2fs agrees with Linux");
    load(&path)
}

/// Without features: whatever is edited, no checksum notices.
pub(crate) fn plain() -> MemDevice {
    static PLAIN: OnceLock<MemDevice> = OnceLock::new();
    PLAIN.get_or_init(|| by_linux(256, &[], "", &Spec::tiny())).fork()
}

/// Nothing but the root directory, 64 MiB.
pub(crate) fn fresh() -> MemDevice {
    static FRESH: OnceLock<MemDevice> = OnceLock::new();
    FRESH.get_or_init(|| mkfs(64, &[])).fork()
}

/// A whole walk by one thread, so that its result is always the same.
pub(crate) fn run(dev: impl Device + 'static) -> Report {
    run_with(dev, &CheckOptions { threads: 1, ..CheckOptions::default() })
}

pub(crate) fn run_with(dev: impl Device + 'static, options: &CheckOptions) -> Report {
    check(Arc::new(dev), options).expect("the superblocks can be read")
}
