//! The whole volumes that the tests start from: made once, then forked.

use crate::common::{load, mkfs};
use std::sync::{Arc, OnceLock};
use steadyfs_core::fsck::{CheckOptions, Report, check};
use steadyfs_device::{Device, MemDevice};
use steadyfs_testkit::images::Recipe;

/// Files beside the tree of corner cases, under names that the tests know.
const FILES: &str = "
    mkdir -p $MNT/p/dir/sub/deep $MNT/p/empty $MNT/p/big
    cd $MNT/p
    echo hello >inline
    ln -s inline short
    ln -s $(printf '%03800d' 0) long
    mkfifo fifo
    mknod device c 5 1
    head -c 81920 /dev/zero | tr '\\0' d >data
    head -c 81920 /dev/zero | tr '\\0' o >other
    ln data second-name
    head -c 13107200 /dev/zero | tr '\\0' l >large
    for at in 0 5000 1100000 3000000; do dd if=/dev/zero of=sparse bs=4k count=1 seek=$at conv=notrunc 2>/dev/null; done
    i=0; while [ $i -lt 700 ]; do : >big/file-with-a-long-name-$i; i=$((i+1)); done
    sync
    cd /
";

/// A volume that Linux filled, in memory.
fn volume(recipe: &Recipe) -> MemDevice {
    load(&recipe.image().expect("Linux makes the volume").path)
}

/// Without features: whatever is edited, no checksum notices.
pub(crate) fn plain() -> MemDevice {
    static PLAIN: OnceLock<MemDevice> = OnceLock::new();
    let recipe = || Recipe { mib: 256, after: FILES, ..Recipe::new("fsck-plain") };
    PLAIN.get_or_init(|| volume(&recipe())).fork()
}

/// With every feature that changes inodes.
pub(crate) fn featured() -> MemDevice {
    static FEATURED: OnceLock<MemDevice> = OnceLock::new();
    let mkfs =
        "-O extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,project_quota,quota";
    let recipe = || Recipe { mkfs, mount: "mode=lfs", mib: 256, after: FILES, ..Recipe::new("fsck-featured") };
    FEATURED.get_or_init(|| volume(&recipe())).fork()
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
