//! What fsync writes, and when: the chain of marked nodes, its order against flushes, and the cases that need a
//! checkpoint.

use crate::common::mount;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::raw::Image;
use steadyfs_core::{FallocMode, Fs, InodeRef, NewInode, Reason, RenameFlags, SetAttr, XattrFlags};
use steadyfs_device::{Device, MemDevice, Op, Record, RecordingDevice, StreamHint};
use steadyfs_format::block::BlockView;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};

const FEATURES: &str = "extra_attr,inode_checksum,inode_crtime";

struct Volume {
    device: Arc<RecordingDevice<MemDevice>>,
    fs: Arc<Fs>,
}

impl Volume {
    fn new(features: &str, options: &str) -> Self {
        let args: &[&str] = if features.is_empty() { &[] } else { &["-O", features] };
        let device = Arc::new(RecordingDevice::new(crate::common::mkfs(256, args)));
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, options);
        Volume { device, fs }
    }

    fn create(&self, dir: &InodeRef, name: &str) -> InodeRef {
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        self.fs.create(dir, name.as_bytes(), &new).unwrap()
    }

    fn root(&self) -> InodeRef {
        self.fs.root().unwrap()
    }

    /// A file of `pages` pages that the checkpoint in force has.
    fn old(&self, name: &str, pages: usize) -> InodeRef {
        let file = self.create(&self.root(), name);
        self.fs.write(&file, 0, &vec![1; pages * 4096]).unwrap();
        self.fs.sync().unwrap();
        file
    }

    /// The chain as a mount after a power cut would find it now.
    fn chain(&self) -> Vec<NodeFooter> {
        let image = Image::open(Arc::new(self.device.inner().fork())).unwrap();
        image.fsync_chain().map(|node| node.unwrap().footer).collect()
    }

    /// Runs `f` and says how many fsyncs went through the chain and which needed a checkpoint.
    fn counted(&self, f: impl FnOnce(&Fs)) -> (u64, Vec<Reason>) {
        let before = self.fs.sync_stats();
        f(&self.fs);
        let after = self.fs.sync_stats();
        let reasons = Reason::ALL.into_iter().filter(|r| after.checkpoints[r.name()] > before.checkpoints[r.name()]);
        (after.chained - before.chained, reasons.collect())
    }
}

#[test]
fn a_new_file_is_introduced_and_later_nodes_are_marked() {
    for features in ["", FEATURES] {
        let v = Volume::new(features, "");
        assert!(v.chain().is_empty());
        let file = v.create(&v.root(), "new");
        v.fs.write(&file, 0, &[7; 10_000]).unwrap();
        v.fs.fsync(&file, false).unwrap();
        let chain = v.chain();
        assert_eq!(chain.len(), 1);
        assert!(chain[0].is_fsync() && chain[0].is_dentry() && chain[0].ofs() == NodeOfs::INODE);
        // Beyond the inode's own addresses: a direct node comes along, and the mark is on the inode, which comes last.
        v.fs.write(&file, 5000 * 4096, &[7; 4096]).unwrap();
        v.fs.fsync(&file, false).unwrap();
        let chain = v.chain();
        let shape: Vec<_> = chain.iter().map(|f| (f.ofs() == NodeOfs::INODE, f.is_fsync())).collect();
        assert_eq!(shape, [(true, true), (false, false), (true, true)]);
        v.fs.sync().unwrap();
        assert!(v.chain().is_empty(), "a checkpoint ends the chain");
        // The checkpoint knows the file: no name from here on.
        v.fs.write(&file, 0, &[8; 4096]).unwrap();
        v.fs.fsync(&file, false).unwrap();
        let chain = v.chain();
        assert!(chain.len() == 1 && chain[0].is_fsync() && !chain[0].is_dentry());
    }
}

#[test]
fn datasync_leaves_the_inode_out_when_only_its_times_changed() {
    let v = Volume::new("", "");
    let file = v.old("large", 3000);
    let page = |n: u64| v.fs.write(&file, n * 4096, &[9; 4096]).unwrap();
    page(2000);
    v.fs.fsync(&file, true).unwrap();
    let chain = v.chain();
    assert!(chain.len() == 1 && chain[0].is_fsync() && chain[0].ofs() != NodeOfs::INODE, "{chain:?}");
    v.fs.fsync(&file, false).unwrap();
    assert!(v.chain().len() == 2 && v.chain()[1].ofs() == NodeOfs::INODE, "the times are still to be written");
    let before = v.fs.io_stats();
    v.fs.fsync(&file, false).unwrap();
    v.fs.fsync(&file, true).unwrap();
    assert_eq!(v.fs.io_stats(), before, "nothing changed: no node, no flush");
    // A page of the inode's own, a new size: the inode goes along.
    page(3);
    v.fs.fsync(&file, true).unwrap();
    assert_eq!(v.chain().len(), 3);
    v.fs.write(&file, 3000 * 4096, &[1]).unwrap();
    v.fs.fsync(&file, true).unwrap();
    assert_eq!(v.chain().last().unwrap().ofs(), NodeOfs::INODE);
    // With checksums the inode always seals the rest.
    let v = Volume::new(FEATURES, "");
    let file = v.old("large", 3000);
    v.fs.write(&file, 2000 * 4096, &[9; 4096]).unwrap();
    v.fs.fsync(&file, true).unwrap();
    let chain = v.chain();
    assert!(chain.len() == 2 && !chain[0].is_fsync() && chain[1].ofs() == NodeOfs::INODE && chain[1].is_fsync());
}

/// Ticks at which a flush was submitted and completed.
fn flushes(log: &[Record]) -> Vec<(u64, u64)> {
    let flushes = log.iter().filter(|r| matches!(r.op, Op::Flush));
    flushes.map(|r| (r.submitted, r.completed.unwrap())).collect()
}

fn marked(record: &Record) -> bool {
    let Op::Write { pages, hint: StreamHint::NodeWarm, .. } = &record.op else { return false };
    pages.iter().any(|page| page.with(|bytes| NodeBlock::view(bytes).footer.is_fsync()))
}

#[test]
fn the_mark_follows_what_it_relies_on_and_precedes_the_return() {
    for (features, options) in [("", ""), (FEATURES, ""), ("", "fsync_mode=strict")] {
        let v = Volume::new(features, options);
        let file = v.old("file", 3000);
        // Also the first fsync after a checkpoint, whose node Linux does not wait for (format section 19, pitfall 14).
        for round in 0..4u64 {
            v.device.take_log();
            for page in [1, 1500, 2500] {
                v.fs.write(&file, page * 4096, &[round as u8 + 2; 4096]).unwrap();
            }
            v.fs.fsync(&file, round % 2 == 1).unwrap();
            let log = v.device.log();
            let flushes = flushes(&log);
            let marks: Vec<_> = log.iter().filter(|r| marked(r)).collect();
            assert_eq!(marks.len(), 1, "one block carries the mark");
            let mark = marks[0];
            for other in log.iter().filter(|r| matches!(r.op, Op::Write { .. }) && !marked(r)) {
                let covered = flushes.iter().any(|f| other.completed.unwrap() < f.0 && f.1 < mark.submitted);
                assert!(covered, "{:?} might be missing when the mark is there", other.extent);
            }
            assert!(flushes.iter().any(|f| mark.completed.unwrap() < f.0), "the mark is durable on return");
        }
    }
    let v = Volume::new("", "fsync_mode=nobarrier");
    let file = v.old("file", 10);
    v.device.take_log();
    v.fs.write(&file, 0, &[3; 4096]).unwrap();
    v.fs.fsync(&file, false).unwrap();
    assert!(flushes(&v.device.log()).is_empty() && v.device.log().iter().any(marked));
}

#[test]
fn what_recovery_could_not_repeat_makes_a_checkpoint() {
    let v = Volume::new("", "");
    let (fs, root) = (&v.fs, v.root());
    let chained = (1, vec![]);
    let only = |reason| (0, vec![reason]);
    let sync = |file: &InodeRef| v.counted(|fs| fs.fsync(file, false).unwrap());
    let file = v.old("file", 3);
    for name in ["victim", "other", "moved"] {
        v.old(name, 1);
    }
    let dir_new = NewInode { mode: 0o040_755, ..NewInode::default() };
    fs.create(&root, b"empty", &dir_new).unwrap();
    fs.sync().unwrap();

    assert_eq!(sync(&root), only(Reason::Kind));
    fs.setattr(&file, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(sync(&file), chained);
    fs.setxattr(&file, b"user.a", &[1; 2000], XattrFlags::default()).unwrap();
    assert_eq!(sync(&file), chained);
    fs.fallocate(&file, FallocMode::PunchHole, 4096, 4096).unwrap();
    assert_eq!(sync(&file), chained);
    fs.unlink(&root, b"victim").unwrap();
    assert_eq!(sync(&file), chained, "another file's name");

    fs.link(&file, &root, b"second").unwrap();
    assert_eq!(sync(&file), only(Reason::Links));
    fs.unlink(&root, b"second").unwrap();
    assert_eq!(sync(&file), chained);
    fs.rename(&root, b"file", &root, b"renamed", RenameFlags::Replace).unwrap();
    assert_eq!(sync(&file), only(Reason::Renamed));
    fs.write(&file, 0, b"x").unwrap();
    assert_eq!(sync(&file), chained, "the checkpoint knows the new name");

    let dir = fs.create(&root, b"dir", &dir_new).unwrap();
    let inside = v.create(&dir, "inside");
    assert_eq!(sync(&inside), only(Reason::NewDirectory));
    let inside = v.create(&dir, "again");
    assert_eq!(sync(&inside), chained);
    fs.setxattr(&dir, b"user.label", b"x", XattrFlags::default()).unwrap();
    let labelled = v.create(&dir, "labelled");
    assert_eq!(sync(&labelled), only(Reason::DirectoryAttributes));

    // A name whose holder lives on under another, or was a directory.
    fs.rename(&root, b"moved", &root, b"elsewhere", RenameFlags::Replace).unwrap();
    assert_eq!(sync(&v.create(&root, "fresh name")), chained);
    assert_eq!(sync(&v.create(&root, "moved")), only(Reason::NameReused));
    fs.rmdir(&root, b"empty").unwrap();
    assert_eq!(sync(&v.create(&root, "empty")), only(Reason::NameReused));
    fs.unlink(&root, b"other").unwrap();
    assert_eq!(sync(&v.create(&root, "other")), chained, "its holder is gone for good");

    // A node that recovery would find although it is no more.
    let large = v.old("large", 3000);
    fs.setattr(&large, &SetAttr { size: Some(4096), ..SetAttr::default() }).unwrap();
    assert_eq!(sync(&large), only(Reason::NodesFreed));
    fs.unlink(&root, b"large").unwrap();
    assert_eq!(sync(&large), only(Reason::Links), "a crash could bring its name back");
    assert_eq!(sync(&large), (0, vec![]), "nobody could find it after a crash");

    let v = Volume::new("", "fsync_mode=strict");
    v.old("gone", 1);
    v.fs.unlink(&v.root(), b"gone").unwrap();
    let file = v.create(&v.root(), "new");
    assert_eq!(v.counted(|fs| fs.fsync(&file, false).unwrap()), only(Reason::Strict));
}

/// A whiteout is as little a new holder of the name as nothing.
#[test]
fn a_name_that_a_whiteout_had_makes_a_checkpoint() {
    let v = Volume::new("", "");
    let (fs, root) = (&v.fs, v.root());
    let reasons = |file: &InodeRef| v.counted(|fs| fs.fsync(file, false).unwrap()).1;
    let leave = |from: &[u8], to: &[u8]| {
        fs.rename_whiteout(&root, from, &root, to, RenameFlags::Replace, &NewInode::default()).unwrap();
    };
    let file = v.old("hidden", 1);
    leave(b"hidden", b"aside");
    fs.unlink(&root, b"hidden").unwrap();
    assert_eq!(reasons(&v.create(&root, "hidden")), [Reason::NameReused]);
    leave(b"aside", b"apart");
    assert_eq!(reasons(&fs.lookup(&root, b"aside").unwrap()), [Reason::Kind]);
    leave(b"apart", b"away");
    assert_eq!(reasons(&file), [Reason::Renamed]);
}

#[test]
fn space_that_recovery_would_lack_makes_a_checkpoint() {
    // So much is freed that the housekeeper makes a checkpoint within a second: then there is nothing to show.
    let shown = (0..20).any(|_| {
        let v = Volume::new("", "");
        let bytes = v.fs.statfs().blocks_free * 2 / 3 * 4096;
        v.old("large", bytes as usize / 4096);
        let committed = || v.fs.checkpoint_stats().committed;
        let before = committed();
        v.fs.unlink(&v.root(), b"large").unwrap();
        let file = v.create(&v.root(), "next");
        // Counted, though nothing is written: after a crash the deleted file is back and takes the room.
        v.fs.fallocate(&file, FallocMode::Allocate { keep_size: false }, 0, bytes).unwrap();
        let served = v.counted(|fs| fs.fsync(&file, false).unwrap());
        if served.1.is_empty() && committed() > before {
            return false;
        }
        assert_eq!(served, (0, vec![Reason::Space]));
        v.fs.write(&file, 0, b"x").unwrap();
        assert_eq!(v.counted(|fs| fs.fsync(&file, false).unwrap()), (1, vec![]));
        true
    });
    assert!(shown, "the housekeeper was faster each time");
}

#[test]
fn concurrent_fsyncs_and_checkpoints_keep_the_chain_whole() {
    let v = Volume::new("", "");
    let files: Vec<_> = (0..8).map(|n| v.old(&format!("file{n}"), 1200)).collect();
    let threads: Vec<_> = files
        .into_iter()
        .enumerate()
        .map(|(n, file)| {
            let fs = Arc::clone(&v.fs);
            steadyfs_rt::spawn("writer", move || {
                for round in 0..150u64 {
                    let page = round * 7 % 1200;
                    fs.write(&file, page * 4096, &[(round + n as u64) as u8; 4096]).unwrap();
                    fs.fsync(&file, round % 3 == 0).unwrap();
                    if n == 0 && round % 40 == 39 {
                        fs.sync().unwrap();
                    }
                }
                file.ino()
            })
        })
        .collect();
    let inos: HashSet<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let stats = v.fs.sync_stats();
    let total = stats.chained + stats.covered + stats.checkpoints.values().sum::<u64>();
    assert_eq!(total, 8 * 150);
    assert!(stats.chained > 600, "{stats:?}");
    let chain = v.chain();
    assert!(chain.iter().all(|footer| inos.contains(&footer.ino())));
    // Flushes are shared, at most two are needed by each.
    assert!(v.fs.io_stats().flushes <= 2 * total + 20, "{:?}", v.fs.io_stats());
    steadyfs_rt::sleep(Duration::from_millis(1));
    v.fs.unmount().unwrap();
}

#[test]
fn a_mount_flushes_before_it_writes() {
    let v = Volume::new("", "");
    let log = v.device.log();
    assert_eq!(log[0].op, Op::Flush, "what an earlier mount wrote may not be durable");
    assert!(log.iter().any(|record| matches!(record.op, Op::Write { .. })));
}
