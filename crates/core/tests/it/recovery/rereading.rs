//! Devices that give another chain when recovery reads it again: the mount is refused, and nothing is committed.

use crate::recovery::support::{DIR, Tree, Volume, assert_same, at, chain, complaints, edit, mount, recovered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, PageBuf, Request};
use steadyfs_format::block::BlockView;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::{BLOCKS_PER_SEG, Block, Ino, Lba, Nid};

/// A device that answers some reads of a block with another page. Reads of a whole segment do not count: so a mount
/// learns the owners of the blocks in a log's current segment.
struct Fickle {
    inner: MemDevice,
    block: u64,
    other: PageBuf,
    /// Reads before the first wrong answer, and wrong answers.
    honest: u64,
    times: u64,
    reads: AtomicU64,
    changes: AtomicU64,
}

impl Device for Fickle {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for mut request in batch {
            self.changes.fetch_add(u64::from(request.op.changes()), SeqCst);
            let Op::Read { block, count } = request.op else {
                self.inner.submit(vec![request]);
                continue;
            };
            if count < BLOCKS_PER_SEG.into() && (block..block + count).contains(&self.block) {
                let past = self.reads.fetch_add(1, SeqCst).checked_sub(self.honest);
                if past.is_some_and(|past| past < self.times) {
                    let (done, other, at) = (request.done, self.other.clone(), (self.block - block) as usize);
                    request.done = Box::new(move |result| {
                        done(result.map(|mut pages| {
                            pages[at] = other;
                            pages
                        }));
                    });
                }
            }
            self.inner.submit(vec![request]);
        }
    }
}

/// A known file, a new one, and one with a direct node, each fsynced.
fn crashed() -> MemDevice {
    let v = Volume::new(&[]);
    v.make("dir", DIR);
    v.file("old", 8);
    let long = v.file("long", 1);
    v.fs.sync().unwrap();
    let old = at(&v.fs, "old");
    v.fill(&old, 2, 3, b'O');
    v.fsync(&old);
    v.fsync(&v.file("dir/new", 5));
    v.fill(&long, 1000, 3, b'L');
    v.fsync(&long);
    v.fsync(&v.file("dir/last", 5));
    v.crash()
}

/// Mounts a device on which the block changes after `honest` reads.
fn mounted(dev: &MemDevice, lba: Lba, other: &Block, honest: u64, times: u64) -> (Arc<Fickle>, Result<Arc<Fs>, Error>) {
    let (reads, changes) = (AtomicU64::new(0), AtomicU64::new(0));
    let (inner, block, other) = (dev.fork(), lba.get(), PageBuf::from_slice(other));
    let fickle = Arc::new(Fickle { inner, block, other, honest, times, reads, changes });
    let result = mount(Arc::clone(&fickle) as Arc<dyn Device>, "");
    (fickle, result)
}

/// The mount is refused with one of these reasons, without a change, and the next one loses nothing.
#[track_caller]
fn assert_refused(dev: &MemDevice, lba: Lba, other: &Block, honest: u64, expected: &Tree) {
    for times in [1, u64::MAX] {
        let (fickle, result) = mounted(dev, lba, other, honest, times);
        match result {
            Err(Error::Recovery(why)) => assert!(why.contains("changes while it is read"), "{why}"),
            Err(error) => panic!("block {lba} after {honest} reads: {error}"),
            Ok(_) => panic!("block {lba} after {honest} reads: mounted"),
        }
        assert_eq!(fickle.changes.load(SeqCst), 0, "something was written");
        let (tree, whole) = recovered(fickle.inner.fork());
        assert_same(expected, &tree, "the next mount");
        assert_eq!(complaints(&whole), [""; 0]);
    }
}

/// The block as it is after a change of its footer.
fn with_footer(dev: &MemDevice, lba: Lba, change: impl FnOnce(&mut NodeFooter)) -> Block {
    let dev = dev.fork();
    edit(&dev, lba, |block| change(&mut NodeBlock::view_mut(block).footer));
    *dev.read_one(lba.get()).unwrap().to_array()
}

#[test]
fn a_node_that_is_another_one_at_the_second_reading_is_refused() {
    let dev = crashed();
    let (expected, nodes) = (recovered(dev.fork()).0, chain(&dev));
    assert!(nodes.len() >= 5, "{} nodes", nodes.len());
    for (lba, block) in &nodes {
        let old = NodeBlock::view(block).footer;
        let changes: [&dyn Fn(&mut NodeFooter); 8] = [
            &|f| f.set_nid(Nid(old.nid().get() + 1)),
            &|f| f.set_ino(Ino(old.ino().get() + 1)),
            &|f| f.set_ofs(NodeOfs::new(old.ofs().get() ^ 1)),
            &|f| f.set_fsync(!old.is_fsync()),
            &|f| f.set_dentry(!old.is_dentry()),
            &|f| f.set_chain(old.cp_ver() + 1, old.next()),
            &|f| f.set_chain(old.cp_ver(), old.next() + 1),
            &|f| f.set_chain(old.cp_ver(), nodes[0].0),
        ];
        for change in changes {
            assert_refused(&dev, *lba, &with_footer(&dev, *lba, change), 1, &expected);
        }
        // What the device has forgotten: the chain is shorter.
        assert_refused(&dev, *lba, &[0; 4096], 1, &expected);
    }
}

#[test]
fn a_new_inode_that_is_forgotten_at_its_third_reading_is_refused() {
    let dev = crashed();
    let expected = recovered(dev.fork()).0;
    let new = chain(&dev).into_iter().filter(|(_, block)| NodeBlock::view(block).footer.is_dentry());
    let new: Vec<_> = new.collect();
    assert_eq!(new.len(), 2);
    for (lba, _) in new {
        assert_refused(&dev, lba, &[0; 4096], 2, &expected);
        // Nothing reads it once more.
        let (_, result) = mounted(&dev, lba, &[0; 4096], 3, u64::MAX);
        result.unwrap();
    }
}

#[test]
fn a_chain_that_is_longer_at_its_second_reading_is_refused() {
    let dev = crashed();
    let (expected, nodes) = (recovered(dev.fork()).0, chain(&dev));
    let image = Image::open(Arc::new(dev.fork())).unwrap();
    let mut walk = image.fsync_chain();
    assert_eq!(walk.by_ref().count(), nodes.len());
    let end = walk.end().unwrap();
    // One node more, after which the chain ends where nothing is, and the same without the mark.
    for mark in [true, false] {
        let mut more = nodes[0].1;
        let footer = &mut NodeBlock::view_mut(&mut more).footer;
        footer.set_chain(footer.cp_ver(), Lba(0));
        footer.set_fsync(mark);
        assert_refused(&dev, end, &more, 1, &expected);
    }
}
