//! How writes come to the device.
//!
//! A direct write of one page, and the writes of an fsync, are done by the thread that waits for them. Meanwhile it
//! holds nothing that a checkpoint needs. Pages that lie scattered in a file are written together.

use super::*;
use crate::files::file::ALL_PAGES;
use crate::{FallocMode, Urgency};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use steadyfs_device::{DeviceInfo, IoError, IoResult, Op, OpKind, Request, StreamHint};
use steadyfs_rt::{Mutex, spawn};

type Look = Box<dyn Fn() + Send + Sync>;

/// A device that does not end writes in the call that submits them, unless it is to, and tells how they come.
struct Watched {
    inner: Arc<MemDevice>,
    synchronous: bool,
    /// Called in each write that is run.
    look: Mutex<Option<Look>>,
    run: AtomicU64,
    submitted: AtomicU64,
    refuses: AtomicBool,
}

impl Watched {
    fn counts(&self) -> (u64, u64) {
        (self.run.swap(0, SeqCst), self.submitted.swap(0, SeqCst))
    }

    fn all(&self) -> u64 {
        let (run, submitted) = self.counts();
        run + submitted
    }
}

impl Device for Watched {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: self.synchronous, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        let writes = batch.iter().filter(|request| matches!(request.op, Op::Write { .. })).count();
        self.submitted.fetch_add(writes as u64, SeqCst);
        // Data is written with its node locked there.
        let nodes = |op: &Op| matches!(op, Op::Write { hint: StreamHint::NodeWarm, .. });
        if self.synchronous
            && batch.iter().any(|request| nodes(&request.op))
            && let Some(look) = &*self.look.lock()
        {
            look();
        }
        self.inner.submit(batch);
    }

    fn run(&self, op: Op) -> IoResult {
        if matches!(op, Op::Write { .. }) {
            self.run.fetch_add(1, SeqCst);
            if let Some(look) = &*self.look.lock() {
                look();
            }
            if self.refuses.load(SeqCst) {
                return Err(IoError::new(OpKind::Write, op.range().0, 1, 5, "refused"));
            }
        }
        self.inner.run(op)
    }
}

fn watched() -> (Arc<MemDevice>, Arc<Watched>, Arc<Fs>) {
    watched_as(false, "256K")
}

/// With so much memory for nodes.
fn watched_as(synchronous: bool, node_cache: &str) -> (Arc<MemDevice>, Arc<Watched>, Arc<Fs>) {
    let memory = fresh();
    let device = Arc::new(Watched {
        inner: Arc::clone(&memory),
        synchronous,
        look: Mutex::new(&crate::locks::STATE, None),
        run: AtomicU64::new(0),
        submitted: AtomicU64::new(0),
        refuses: AtomicBool::new(false),
    });
    let options = MountOptions::parse(&format!("background_gc=off,node_cache={node_cache}")).unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    (memory, device, fs)
}

#[test]
fn a_page_alone_is_written_by_who_waits_for_it() {
    let (memory, device, fs) = watched();
    let file = create(&fs, "file");
    fs.write_direct(&file, 0, &[1; 3 * 4096]).unwrap();
    fs.sync().unwrap();
    device.counts();

    let seen = Arc::new(AtomicU64::new(0));
    let (told, volume, of) = (Arc::clone(&seen), Arc::downgrade(&fs), file.clone());
    *device.look.lock() = Some(Box::new(move || {
        let (told, volume, of) = (Arc::clone(&told), volume.upgrade().unwrap(), of.clone());
        let looked = spawn("other", move || {
            assert!(volume.vol.cp.is_free(), "a checkpoint would wait for the device");
            let lba = moving::slot(&volume, &of);
            told.store(u64::from(volume.vol.io.read_block(lba).unwrap().to_array()[0]), SeqCst);
        });
        looked.join().unwrap();
    }));
    fs.write_direct(&file, 0, &[2; 4096]).unwrap();
    assert_eq!(device.counts(), (1, 0), "not by the thread that waits");
    assert_eq!(seen.load(SeqCst), 2, "in flight, and not to be read");
    *device.look.lock() = None;

    fs.write_direct(&file, 0, &[3; 2 * 4096]).unwrap();
    assert_eq!(device.counts(), (0, 1), "several pages go together");
    fs.write_direct(&file, 3 * 4096, &[4; 4096]).unwrap();
    assert_eq!(device.counts(), (0, 1), "what moves the end is placed and told of in one change");

    device.refuses.store(true, SeqCst);
    assert!(matches!(fs.write_direct(&file, 4096, &[5; 4096]), Err(crate::Error::Io(_))));
    device.refuses.store(false, SeqCst);
    let mut page = [0; 4096];
    assert_eq!(fs.read(&file, 4096, &mut page).unwrap(), 4096);
    assert_eq!(page, [5; 4096], "what the device refused is kept");
    unmount_and_check(fs, &memory);
}

#[test]
fn what_was_kept_is_written_though_the_change_fails() {
    let (_memory, device, fs) = watched();
    let file = create(&fs, "file");
    fs.write_direct(&file, 0, &[1; 4096]).unwrap();
    fs.sync().unwrap();
    // Its own place: who reads it sees the same wherever the write is, so the volume stays as it is.
    let lba = moving::slot(&fs, &file);
    device.counts();

    let told = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&told);
    let change = fs.vol.begin_change().unwrap();
    assert!(change.keep_next());
    let done = move |result: Result<(), IoError>| ended.store(result.is_ok(), SeqCst);
    change.write(lba, vec![PageBuf::from_slice(&[1; 4096])], StreamHint::DataWarm, done);
    assert_eq!(device.counts(), (0, 0), "written before the change was over");
    drop(change);
    assert_eq!(device.counts(), (0, 1), "forgotten");
    // A sync would wait for a write that nobody does.
    fs.sync().unwrap();
    assert!(told.load(SeqCst));
}

/// One page for each node, for each has a thousand.
const APART: u64 = 1100 * 4096;

#[test]
fn pages_of_many_nodes_are_written_and_moved_together() {
    // All of its nodes may be dirty: no checkpoint comes between.
    let (memory, device, fs) = watched_as(false, "2M");
    let file = create(&fs, "file");
    (0..600).for_each(|n| assert_eq!(fs.write(&file, n * APART, &[n as u8; 4096]).unwrap(), 4096));
    device.counts();
    fs.files.writeback(&file.inode, ALL_PAGES).unwrap();
    let requests = device.all();
    // Requests of 64 pages, and some more where a log goes to another segment, or summaries are written.
    assert!((600 / 64..20).contains(&requests), "{requests} requests for 600 pages");

    (0..600).filter(|n| n % 4 == 0).for_each(|n| fs.fallocate(&file, FallocMode::PunchHole, n * APART, 4096).unwrap());
    fs.sync().unwrap();
    device.counts();
    let before = fs.io_stats().data_written;
    let report = fs.gc(1, Urgency::Foreground).unwrap();
    let (moved, written) = (report.data_moved, fs.io_stats().data_written - before);
    let requests = device.all();
    assert!(moved > 200 && written == moved, "{report:?}, {written} written");
    // The checkpoint that frees the victim writes the nodes, each batch of them as one request, and its own blocks.
    assert!(requests < 60, "{requests} requests for {moved} blocks");
    (0..600).filter(|n| n % 4 != 0).for_each(|n| {
        let mut page = [0; 4096];
        assert_eq!(fs.read(&file, n * APART, &mut page).unwrap(), 4096);
        assert_eq!(page, [n as u8; 4096], "page {n}");
    });
    drop(file);
    unmount_and_check(fs, &memory);
}

#[test]
fn what_an_fsync_writes_is_written_by_who_waits_for_it() {
    let (memory, device, fs) = watched();
    let file = create(&fs, "file");
    let write = |byte: u8| (0..3).for_each(|n| assert_eq!(fs.write(&file, n * APART, &[byte; 4096]).unwrap(), 4096));
    write(1);
    fs.sync().unwrap();

    let volume = Arc::downgrade(&fs);
    *device.look.lock() = Some(Box::new(move || {
        let volume = volume.upgrade().unwrap();
        let looked = spawn("other", move || {
            assert!(volume.vol.cp.is_free(), "a checkpoint would wait for the device");
        });
        looked.join().unwrap();
    }));
    write(2);
    device.counts();
    fs.fsync(&file, true).unwrap();
    // The pages, the nodes but for the last, and that one: each of these rests on those before it.
    assert_eq!(device.counts(), (3, 0), "not by the thread that waits");

    // Of more than goes into one request the others have a part.
    (0..100).for_each(|n| assert_eq!(fs.write(&file, n * APART, &[3; 4096]).unwrap(), 4096));
    device.counts();
    fs.fsync(&file, true).unwrap();
    assert_eq!(device.counts(), (3, 1));
    *device.look.lock() = None;

    write(4);
    device.refuses.store(true, SeqCst);
    assert!(matches!(fs.fsync(&file, true), Err(crate::Error::Io(_))), "a refused page is not told of");
    device.refuses.store(false, SeqCst);
    fs.fsync(&file, true).unwrap();
    let again = mount(&Arc::new(memory.fork()), "ro");
    let there = again.inode(file.inode.ino).unwrap();
    let mut page = [0; 4096];
    assert_eq!(again.read(&there, 2 * APART, &mut page).unwrap(), 4096);
    assert_eq!(page, [4; 4096], "what the fsync that succeeded made durable");
    drop((there, again, file));
    unmount_and_check(fs, &memory);
}

#[test]
fn nodes_that_an_fsync_has_not_submitted_stay_in_the_cache() {
    const NODES: u64 = 300;
    let (memory, device, fs) = watched_as(true, "256K");
    let file = create(&fs, "file");
    (0..NODES).for_each(|n| assert_eq!(fs.write(&file, n * APART, &[1; 4096]).unwrap(), 4096));
    fs.sync().unwrap();

    let (volume, of, looked) = (Arc::downgrade(&fs), file.clone(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&looked);
    *device.look.lock() = Some(Box::new(move || {
        let (volume, of) = (volume.upgrade().unwrap(), of.clone());
        let found = spawn("other", move || {
            // Every node of the file comes by, so that none stays that need not.
            (0..3).for_each(|_| {
                (0..NODES).for_each(|n| drop(volume.vol.extents(&of.inode, page_at(n)).unwrap()));
                volume.vol.nodes.shrink();
            });
            (0..3).for_each(|n| {
                assert!(matches!(
                    volume.vol.extents(&of.inode, page_at(n)).unwrap()[0].slot,
                    steadyfs_format::Slot::At(_)
                ))
            });
        });
        found.join().unwrap();
        count.fetch_add(1, SeqCst);
    }));
    (0..3).for_each(|n| assert_eq!(fs.write(&file, n * APART, &[2; 4096]).unwrap(), 4096));
    fs.fsync(&file, true).unwrap();
    *device.look.lock() = None;
    assert_eq!(looked.load(SeqCst), 2, "before the nodes, and before the last of them");
    drop(file);
    unmount_and_check(fs, &memory);
}

fn page_at(n: u64) -> std::ops::Range<PageIndex> {
    PageIndex(n * APART / 4096)..PageIndex(n * APART / 4096 + 1)
}
