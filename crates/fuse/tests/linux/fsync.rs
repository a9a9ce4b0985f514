//! What was fsynced here and not checkpointed is what Linux recovers.

use super::{FEATURES, LIMIT, LibraryTarget, OPTIONS, fields, fresh, open, our_manifest, unmount};
use std::path::Path;
use std::sync::Arc;
use steadyfs_fuse::{FuseOptions, mount};
use steadyfs_testkit::corpus::{self, CorpusOp, Workload};
use steadyfs_testkit::manifest::Fields;
use steadyfs_testkit::{Manifest, fsck_f2fs, linux_manifest};

/// Does the operations and pulls the plug: the tree as it was shown at that moment, and a copy of the image.
fn crashed_after(image: &Path, ops: Vec<CorpusOp>, copy: &Path) -> Manifest {
    let dir = tempfile::tempdir().unwrap();
    let fs = open(image, "");
    corpus::apply(ops, &mut LibraryTarget::new(Arc::clone(&fs))).unwrap();
    let mount = mount(Arc::clone(&fs), dir.path(), &FuseOptions::new(image)).unwrap();
    let before = Manifest::of(dir.path(), &OPTIONS).unwrap();
    let stats = fs.sync_stats();
    assert!(stats.chained > 1, "{stats:?}");
    steadyfs_testkit::sparse::copy_sparse(image, copy).unwrap();
    unmount(mount);
    before
}

fn is_durable(op: &CorpusOp) -> bool {
    !op.paths().iter().any(|path| path.starts_with(b"f/lost") || *path == b"f/gone")
}

/// All that is made durable, and nothing else, so that the tree before the crash is the tree after it.
fn durable(workload: &Workload) -> Vec<CorpusOp> {
    workload.ops().into_iter().filter(is_durable).collect()
}

#[test]
fn linux_recovers_what_was_fsynced_here() {
    for (features, workload) in
        [("", Workload::FsyncChain), (FEATURES, Workload::FsyncChain), ("", Workload::FsyncCheckpoint)]
    {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = fresh(&dir, features, 512);
        let copy = dir.path().join("crashed.img");
        let before = crashed_after(&image, durable(&workload), &copy);
        let linux = linux_manifest(&copy, "", &OPTIONS, LIMIT).unwrap();
        // Linux leaves blocks behind the end of a file that it recovers; recovery makes names anew, which directories
        // note.
        before.assert_same(&linux, &Fields { dir_times: false, blocks: false, ..fields() });
        fsck_f2fs(&copy).unwrap();
        linux.assert_same(&our_manifest(&copy, "ro"), &fields());
    }
}
