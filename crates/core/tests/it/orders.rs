//! What has to be durable before what, in virtual time, on a device that takes its time for each request and loses what
//! was not flushed.

use crate::common::{create, in_virtual_time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::{Fs, MountOptions, NewInode, ShutDown};
use steadyfs_device::{Device, DeviceInfo, IoResult, MemDevice, Op, PageBuf, Request, StreamHint};
use steadyfs_format::block::BlockView;
use steadyfs_format::node::NodeBlock;
use steadyfs_rt::sim::call_after;
use steadyfs_rt::{Leaf, sleep, spawn};

const PAGE: usize = 4096;
/// A page that hangs below a direct node.
const FAR: u64 = 5000 * PAGE as u64;

/// A write that was given to the device.
#[derive(Clone, Copy, Debug)]
struct Given {
    block: u64,
    is_node: bool,
    ended: bool,
    durable: bool,
}

/// A device that takes a millisecond for each request, and more for nodes of one inode; it knows what would survive.
struct Watch {
    inner: MemDevice,
    given: Leaf<Vec<Given>>,
    /// Nodes of this inode take five milliseconds.
    slow: AtomicU32,
    /// One thread works at a time: what it commits, or marks, has all that was written before below it.
    alone: AtomicBool,
}

/// Whether a block carries the mark of an fsync, and whose node it is.
fn node_of(page: &PageBuf) -> (bool, u32) {
    page.with(|block| {
        let footer = NodeBlock::view(block).footer;
        (footer.is_fsync(), footer.ino().get())
    })
}

impl Watch {
    fn new() -> Arc<Self> {
        let inner = MemDevice::new(64 << 8);
        format(&inner, &MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
        let (slow, alone) = (AtomicU32::new(0), AtomicBool::new(true));
        Arc::new(Watch { inner, given: Leaf::new(Vec::new()), slow, alone })
    }

    /// Everything that was given so far and would be lost.
    fn lost(&self) -> Vec<Given> {
        self.given.with(|given| given.iter().filter(|given| !given.durable).copied().collect())
    }

    /// How many were given and have not ended.
    fn under_way(&self) -> usize {
        self.given.with(|given| given.iter().filter(|given| !given.ended).count())
    }

    /// Notes a write, and what must be durable before it is given; how long it takes.
    fn take(&self, op: &Op) -> (Option<usize>, u64) {
        let Op::Write { block, pages, hint, fua } = op else { return (None, 1) };
        let is_node = matches!(hint, StreamHint::NodeHot | StreamHint::NodeWarm | StreamHint::NodeCold);
        let nodes: Vec<(bool, u32)> = pages.iter().filter(|_| is_node).map(node_of).collect();
        let alone = self.alone.load(SeqCst);
        let commits = *fua || nodes.iter().any(|(marked, _)| *marked);
        let lost = self.lost();
        let others: Vec<_> = lost.iter().filter(|other| !(other.is_node && is_node)).collect();
        assert!(!alone || !commits || others.is_empty(), "block {block} comes before {others:?} are durable");
        assert!(!alone || !fua || lost.is_empty(), "block {block} commits before {lost:?} are durable");
        let slow = self.slow.load(SeqCst);
        let takes = if nodes.iter().any(|(_, ino)| *ino == slow) { 5 } else { 1 };
        let at = self.given.with(|given| {
            given.push(Given { block: *block, is_node, ended: false, durable: false });
            given.len() - 1
        });
        (Some(at), takes)
    }
}

/// The device, and whether it has a durable write cheaper than a flush.
struct Watched(Arc<Watch>, bool);

impl Device for Watched {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, prefers_fua: self.1, ..self.0.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            let (at, takes) = self.0.take(&op);
            let covered: Vec<usize> = match op {
                Op::Flush => self.0.given.with(|given| (0..given.len()).filter(|at| given[*at].ended).collect()),
                _ => Vec::new(),
            };
            let is_durable = matches!(op, Op::Write { fua: true, .. });
            let watch = Arc::clone(&self.0);
            call_after(Duration::from_millis(takes), move || {
                watch.given.with(|given| {
                    covered.into_iter().for_each(|at| given[at].durable = true);
                    at.into_iter().for_each(|at| (given[at].ended, given[at].durable) = (true, is_durable));
                });
                let end = move |result: IoResult| done(result);
                watch.inner.submit(vec![Request::new(op, end)]);
            });
        }
    }
}

/// Does `work` in virtual time on a fresh volume, without anything in the background.
fn watched(options: &'static str, prefers_fua: bool, work: impl FnOnce(&Arc<Fs>, &Arc<Watch>) + Send + 'static) {
    let whole = move || {
        let watch = Watch::new();
        let options = MountOptions { background_gc: false, ..MountOptions::parse(options).unwrap() };
        let fs = Fs::mount(Arc::new(Watched(Arc::clone(&watch), prefers_fua)), options).unwrap();
        work(&fs, &watch);
        fs.unmount().unwrap();
    };
    in_virtual_time(2, whole);
}

#[test]
fn a_checkpoint_commits_when_all_else_is_durable() {
    watched("commit=0", false, |fs, watch| {
        for name in ["a", "b", "c"] {
            fs.write(&create(fs, name), FAR, &[1; 3 * PAGE]).unwrap();
        }
        fs.sync().unwrap();
        let lost = watch.lost();
        assert!(lost.is_empty(), "a sync has ended, and {lost:?} are not durable");
    });
}

#[test]
fn an_fsync_marks_a_node_when_all_that_it_relies_on_is_durable() {
    watched("commit=0", false, |fs, watch| {
        let file = create(fs, "file");
        fs.sync().unwrap();
        for (at, datasync) in [(0, false), (FAR, false), (FAR, true)] {
            fs.write(&file, at, &[2; 2 * PAGE]).unwrap();
            fs.fsync(&file, datasync).unwrap();
            let lost = watch.lost();
            assert!(lost.is_empty(), "an fsync has ended, and {lost:?} are not durable");
        }
        assert_eq!(fs.sync_stats().chained, 3);
    });
}

/// Recovery follows the chain from node to node: whoever comes later in it relies on all before.
#[test]
fn an_fsync_ends_when_the_chain_before_its_node_is_durable() {
    [false, true].into_iter().for_each(|prefers_fua| {
        watched("commit=0", prefers_fua, |fs, watch| {
            let files = [create(fs, "slow"), create(fs, "quick")];
            fs.sync().unwrap();
            watch.alone.store(false, SeqCst);
            watch.slow.store(files[0].ino().get(), SeqCst);
            let syncs = [(0, 0), (1, 200)].map(|(number, later)| {
                let (fs, watch, file) = (Arc::clone(fs), Arc::clone(watch), files[number].clone());
                spawn("fsync", move || {
                    fs.write(&file, 0, &[3; PAGE]).unwrap();
                    sleep(Duration::from_micros(later));
                    fs.fsync(&file, false).unwrap();
                    let lost = watch.lost();
                    let nodes: Vec<u64> = lost.iter().filter(|given| given.is_node).map(|given| given.block).collect();
                    assert!(nodes.is_empty(), "fsync {number} has ended, and blocks {nodes:?} are not durable");
                })
            });
            syncs.into_iter().for_each(|sync| sync.join().unwrap_or_else(|panicked| panic!("{panicked}")));
        })
    });
}

/// Somebody makes names and syncs them, over and over, until the volume takes no more.
fn until_refused(fs: &Arc<Fs>) -> steadyfs_rt::JoinHandle<u32> {
    let fs = Arc::clone(fs);
    spawn("syncer", move || {
        let (root, new) = (fs.root().unwrap(), NewInode { mode: 0o100_644, ..NewInode::default() });
        let make =
            |number: u32| fs.create(&root, number.to_string().as_bytes(), &new).and_then(|_| fs.fsync(&root, false));
        (0..).find(|number| make(*number).is_err()).expect("some are refused")
    })
}

#[test]
fn nothing_is_written_any_more_when_a_mount_has_ended() {
    let journal = "journal=single,commit=0,journal.commit=0";
    let ends: [fn(&Fs); 2] = [|fs| fs.unmount().unwrap(), |fs| fs.shut_down(ShutDown::AtOnce).unwrap()];
    for end in ends {
        for tenths in 0..20 {
            watched(journal, true, move |fs, watch| {
                watch.alone.store(false, SeqCst);
                let syncing = until_refused(fs);
                sleep(Duration::from_micros(5000 + 100 * tenths));
                end(fs);
                let (under_way, given) = (watch.under_way(), watch.given.with(|given| given.len()));
                assert_eq!(under_way, 0, "writes are under way");
                assert!(syncing.join().unwrap_or_else(|panicked| panic!("{panicked}")) > 0);
                assert_eq!(watch.given.with(|given| given.len()), given, "something was written since");
            });
        }
    }
}
