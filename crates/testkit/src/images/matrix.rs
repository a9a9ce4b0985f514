//! The recipes: every feature, geometry and mount option that changes what Linux writes.

use super::{Ending, Recipe};
use crate::corpus::{Spec, Workload};

const ALL_FEATURES: &str =
    "-O extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,project_quota";

/// Small volumes are overwritten in place, unless told otherwise.
const OUT_OF_PLACE: &str = "echo 16 >/sys/fs/f2fs/ubda/ipu_policy";

/// Single blocks of old files, and new files, made durable one by one: on an aged volume by logs that re-enter
/// segments.
const FSYNCS: &str = "for n in $(seq 60); do \
    dd if=/dev/urandom of=$MNT/aged/large-$((n * 2)) bs=4096 count=2 seek=$n conv=notrunc,fsync 2>/dev/null; \
    dd if=/dev/urandom of=$MNT/aged/new-$n bs=4096 count=3 conv=fsync 2>/dev/null; done";

/// Volumes that were unmounted.
pub fn matrix() -> Vec<Recipe> {
    [mount_options(), features(), geometries(), states()].concat()
}

/// Volumes that a power failure left behind.
pub fn crashed() -> Vec<Recipe> {
    let crashed = |name, workload, ending| Recipe { workload, ending, ..Recipe::new(name) };
    // On small volumes Linux writes checkpoints of its own accord, when a few segments wait to become free.
    let chain =
        |name, mkfs, mount| Recipe { mib: 1024, mkfs, mount, ..crashed(name, Workload::FsyncChain, Ending::PowerOff) };
    let small = || Workload::Corners(Spec { noise: false, ..Spec::small() });
    let orphans = |name, count| crashed(name, Workload::Orphans { count }, Ending::PowerOff);
    vec![
        chain("fsync-chain", "", ""),
        chain("fsync-chain-lfs", "", "mode=lfs"),
        chain("fsync-chain-strict", "", "fsync_mode=strict"),
        chain("fsync-chain-features", ALL_FEATURES, ""),
        Recipe { workload: Workload::FsyncCheckpoint, ..chain("fsync-checkpoint", "", "") },
        Recipe { workload: Workload::FsyncShapes, ..chain("fsync-shapes", "", "") },
        orphans("orphans", 60),
        Recipe { before: "ulimit -n 4096", ..orphans("orphans-two-blocks", 1100) },
        Recipe {
            after: FSYNCS,
            before: OUT_OF_PLACE,
            ..crashed("fsync-aged", Workload::Aged { mib: 50 }, Ending::PowerOff)
        },
        Recipe { mib: 1024, ..crashed("killed-fsync-early", Workload::FsyncShapes, Ending::PowerOffAt(300)) },
        Recipe { mib: 1024, ..crashed("killed-fsync-late", Workload::FsyncShapes, Ending::PowerOffAt(700)) },
        crashed("killed-early", small(), Ending::PowerOffAt(1500)),
        crashed("killed-late", small(), Ending::PowerOffAt(4500)),
        Recipe { mount: "mode=lfs", ..crashed("killed-lfs", small(), Ending::PowerOffAt(3000)) },
        Recipe { before: OUT_OF_PLACE, ..crashed("killed-aged", Workload::Aged { mib: 58 }, Ending::PowerOffAt(5000)) },
    ]
}

/// The recipe of that name, from [`matrix`] or [`crashed`].
pub fn recipe(name: &str) -> Option<Recipe> {
    matrix().into_iter().chain(crashed()).find(|recipe| recipe.name == name)
}

/// Default features, different ways of writing.
fn mount_options() -> Vec<Recipe> {
    let with = |name, mount| Recipe { mount, ..Recipe::new(name) };
    vec![
        Recipe { workload: Workload::Corners(Spec::small()), ..Recipe::new("default") },
        with("lfs", "mode=lfs"),
        with("fragment", "mode=fragment:block"),
        with("noinline", "noinline_data,noinline_dentry,noinline_xattr"),
        with("noinline-data", "noinline_data"),
        with("noinline-dentry", "noinline_dentry"),
        with("noinline-xattr", "noinline_xattr"),
        with("logs-2", "active_logs=2"),
        with("logs-4", "active_logs=4"),
        with("strict", "fsync_mode=strict,noextent_cache,nodiscard,alloc_mode=default"),
        with("plain-barriers", "nobarrier,nocheckpoint_merge,noflush_merge,background_gc=off"),
    ]
}

/// Features of the volume, as far as user-mode Linux has them; encryption, verity and compression only as flags of the
/// volume.
fn features() -> Vec<Recipe> {
    let with = |name, mkfs| Recipe { mkfs, ..Recipe::new(name) };
    let flexible = "-O extra_attr,flexible_inline_xattr";
    let projects = "mkdir $MNT/project\nchattr -p 4242 $MNT/project\nchattr +P $MNT/project\n\
        echo inherits >$MNT/project/file\nmkdir $MNT/project/dir\necho >$MNT/project/dir/file\n\
        echo own >$MNT/project/own\nchattr -p 7 $MNT/project/own";
    let owners = "for id in 1 1000 70000; do echo $id >$MNT/of-$id; head -c 300000 /dev/urandom >>$MNT/of-$id; \
        chown $id:$id $MNT/of-$id; done\nchown 1000 $MNT/dirs/half-deleted";
    vec![
        with("extra-attr", "-O extra_attr"),
        Recipe { workload: Workload::Corners(Spec::small()), ..with("all-features", ALL_FEATURES) },
        Recipe { mount: "mode=lfs", ..with("all-features-lfs", ALL_FEATURES) },
        Recipe { mount: "noinline_data,noinline_dentry", ..with("all-features-noinline", ALL_FEATURES) },
        Recipe { mount: "inline_xattr_size=200", ..with("inline-xattr-200", flexible) },
        Recipe { mount: "inline_xattr_size=10", ..with("inline-xattr-10", flexible) },
        Recipe { mount: "noinline_xattr", ..with("flexible-noinline-xattr", flexible) },
        with("inode-checksum", "-O extra_attr,inode_checksum"),
        with("inode-crtime", "-O extra_attr,inode_crtime"),
        with("sb-checksum", "-O sb_checksum"),
        with("lost-found", "-O lost_found"),
        Recipe { after: projects, ..with("project-quota", "-O extra_attr,project_quota") },
        Recipe { after: owners, ..with("quota", "-O extra_attr,quota,project_quota") },
        with("encrypt-flag", "-O encrypt"),
        with("verity-flag", "-O extra_attr,verity"),
        with("compression-flag", "-O extra_attr,compression"),
    ]
}

/// Areas and sections of other sizes.
fn geometries() -> Vec<Recipe> {
    let with = |name, mib, mkfs| Recipe { mib, mkfs, ..Recipe::new(name) };
    vec![
        with("sections", 256, "-s 4"),
        Recipe { mount: "mode=lfs", ..with("sections-lfs", 256, "-s 4") },
        with("zones", 512, "-s 2 -z 3"),
        with("large-nat", 256, "-i"),
        with("sectors-4096", 128, "-w 4096"),
        with("overprovision", 128, "-o 25"),
        with("heap", 128, "-a 1"),
        Recipe {
            after: "for f in a.cold a.hot b.mp4 c.db; do head -c 9000 /dev/urandom >$MNT/$f; done",
            ..with("extensions", 128, "-e cold,mp4 -E hot,db -l label")
        },
        with("large", 20 << 10, ""),
    ]
}

/// Volumes with a history.
fn states() -> Vec<Recipe> {
    let attributes = "cd $MNT\nfor f in i a d A S; do echo $f >flag-$f; mkdir flags-$f; echo >flags-$f/inside; done\n\
        for f in i a d A S; do chattr +$f flag-$f flags-$f; done\nchattr +D flags-d\ncd /";
    // Files written after the remount are gone after the unmount; the mount afterwards takes the checkpoint as it was.
    let disabled = "sync\nmount -o remount,checkpoint=disable $MNT\nrm -r $MNT/dirs\nmkdir $MNT/not-there\n\
        head -c 3000000 /dev/urandom >$MNT/inline/size-1";
    vec![
        // Nearly full: logs re-enter partly valid segments, and their summaries do not fit the compact form.
        Recipe { before: OUT_OF_PLACE, workload: Workload::Aged { mib: 58 }, ..Recipe::new("aged") },
        Recipe { mib: 64, mount: "mode=lfs", workload: Workload::Aged { mib: 13 }, ..Recipe::new("aged-lfs") },
        Recipe { after: attributes, ..Recipe::new("inode-flags") },
        Recipe { after: disabled, ending: Ending::Unfinished, ..Recipe::new("checkpoint-disabled") },
        Recipe { mkfs: ALL_FEATURES, workload: Workload::Orphans { count: 0 }, ..Recipe::new("nearly-empty") },
    ]
}
