//! A reader in the middle of a device read while the block it reads moves away and its place is written anew.

use super::*;
use crate::Urgency;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{DeviceInfo, Op, Request};
use steadyfs_format::{Lba, Slot};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{EventCount, spawn};

/// A device that can hold up reads of one block, before and after they happen.
struct Gate {
    inner: Arc<MemDevice>,
    /// The block; `u64::MAX` for none.
    block: AtomicU64,
    /// 0: nobody is in; 1: a reader waits before reading; 2: may read; 3: has read and waits; 4: may go.
    stage: AtomicU64,
    moved: EventCount,
}

impl Gate {
    fn new(inner: Arc<MemDevice>) -> Arc<Self> {
        Arc::new(Gate { inner, block: AtomicU64::new(u64::MAX), stage: AtomicU64::new(0), moved: EventCount::new() })
    }

    fn go(&self, stage: u64) {
        self.stage.fetch_max(stage, SeqCst);
        self.moved.notify_all();
    }

    fn wait(&self, stage: u64) {
        loop {
            let key = self.moved.listen();
            if self.stage.load(SeqCst) >= stage {
                return;
            }
            self.moved.wait(key);
        }
    }
}

impl Device for Gate {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (first, count) = request.op.range();
            let hit =
                matches!(request.op, Op::Read { .. }) && (first..first + count).contains(&self.block.load(SeqCst));
            if !hit || self.stage.load(SeqCst) != 0 {
                self.inner.submit(vec![request]);
                continue;
            }
            self.go(1);
            self.wait(2);
            let read = self.inner.run(request.op.clone());
            self.go(3);
            self.wait(4);
            (request.done)(read);
        }
    }
}

pub(super) fn slot(fs: &Fs, file: &InodeRef) -> Lba {
    match fs.vol.extents(&file.inode, PageIndex(0)..PageIndex(1)).unwrap()[0].slot {
        Slot::At(lba) => lba,
        other => panic!("{other:?}"),
    }
}

struct Scene {
    fs: Arc<Fs>,
    gate: Arc<Gate>,
    file: InodeRef,
    other: InodeRef,
    block: Lba,
}

impl Scene {
    /// A file of one page, whose block is in a segment with blocks that are soon given up, and a second file. `shift`
    /// decides which segment that is.
    fn new(shift: u64) -> Self {
        let gate = Gate::new(volume(64, &["-O", FEATURES]));
        let device = Arc::clone(&gate) as Arc<dyn Device>;
        let fs = Fs::mount(device, MountOptions::parse("background_gc=off,gc=f2fs-lfs").unwrap()).unwrap();
        let (file, other) = (create(&fs, "read"), create(&fs, "other"));
        let filler = |n: u64| (0..n).for_each(|n| drop(fs.write_direct(&other, n % 50 * 4096, &[0xBB; 4096])));
        filler(shift);
        fs.write_direct(&file, 0, &[0xAA; 4096]).unwrap();
        filler(600);
        fs.durable.sync_checkpoint().unwrap();
        let block = slot(&fs, &file);
        Scene { fs, gate, file, other, block }
    }

    /// Starts a reader, through the cache or straight from the device, which the device holds up.
    fn start_reader(&self, straight: bool) -> steadyfs_rt::JoinHandle<Vec<u8>> {
        self.gate.block.store(self.block.get(), SeqCst);
        let (fs, file) = (Arc::clone(&self.fs), self.file.clone());
        let reader = spawn("reader", move || {
            let mut buf = vec![0; 4096];
            if straight {
                // As a direct read does it, but collectors do not go round the page.
                let _lock = file.inode.rwsem.read();
                fs.files.fetch_to(&file.inode, PageIndex(0)..PageIndex(1), &mut buf).unwrap();
            } else {
                assert_eq!(fs.read(&file, 0, &mut buf).unwrap(), 4096);
            }
            buf
        });
        self.gate.wait(1);
        reader
    }

    /// Collects until the page has another place and the segment of the first one is free.
    fn move_away(&self) {
        for _ in 0..50 {
            self.fs.gc(1, Urgency::Foreground).unwrap();
            if slot(&self.fs, &self.file) != self.block {
                return;
            }
        }
        panic!("the page was never moved");
    }

    /// Writes pages until one of them comes to lie in the first place of the page that is read; false if that never
    /// happens, because the segment became another log's.
    fn write_until_it_hits(&self, file: &InodeRef, pages: u64, byte: u8) -> bool {
        let home = self.fs.vol.segments().table.locate(self.block).unwrap().0;
        for n in 0..40_000 {
            self.fs.write_direct(file, n % pages * 4096, &[byte; 4096]).unwrap();
            if n % 500 == 0 {
                self.fs.durable.sync_checkpoint().unwrap();
            }
            let page = PageIndex(n % pages);
            let extents = self.fs.vol.extents(&file.inode, page..page + 1).unwrap();
            if extents[0].slot == Slot::At(self.block) {
                assert!(self.fs.vol.segments().table.state(home).generation() > 0);
                return true;
            }
        }
        false
    }
}

#[test]
fn a_block_reused_before_it_was_read_is_read_again() {
    for straight in [false, true] {
        let hit = (0..6).any(|shift| {
            let scene = Scene::new(shift * 512);
            let reader = scene.start_reader(straight);
            scene.move_away();
            let hit = scene.write_until_it_hits(&scene.other, 3000, 0xBB);
            scene.gate.go(4);
            assert_eq!(reader.join().unwrap(), [0xAA; 4096]);
            hit
        });
        assert!(hit, "the block was never reused");
    }
}

#[test]
fn a_page_that_came_back_to_its_block_is_read_again() {
    let came_back = (0..6).any(|shift| {
        let scene = Scene::new(shift * 512);
        let reader = scene.start_reader(false);
        scene.move_away();
        let hit = scene.write_until_it_hits(&scene.other, 3000, 0xBB);
        scene.gate.go(2);
        scene.gate.wait(3);
        // The reader holds the other file's bytes. Now the page returns to the very block that the reader asked for.
        scene.fs.files.set_size(&scene.other.inode, 0).unwrap();
        let back = hit && scene.write_until_it_hits(&scene.file, 1, 0xCC);
        scene.gate.go(4);
        let read = reader.join().unwrap();
        assert!(!back || read == [0xCC; 4096], "the reader got what lay in the block meanwhile: {:x}", read[0]);
        back
    });
    assert!(came_back, "the page never came back");
}

#[test]
fn a_direct_write_during_a_read_is_not_hidden_by_what_was_read() {
    let scene = Scene::new(0);
    let reader = scene.start_reader(false);
    scene.gate.go(2);
    scene.gate.wait(3);
    scene.fs.write_direct(&scene.file, 0, &[0xCC; 4096]).unwrap();
    scene.gate.go(4);
    let first = reader.join().unwrap();
    assert!([[0xAA; 4096], [0xCC; 4096]].iter().any(|bytes| first == bytes));
    assert_eq!(read_all(&scene.fs, &scene.file), [0xCC; 4096], "the cache keeps what lay there before");
}

#[test]
fn who_wants_a_node_that_is_being_read_with_others_waits_for_it() {
    let device = volume(64, &["-O", FEATURES]);
    let waited = run(SimConfig::default(), move || {
        let gate = Gate::new(device);
        let mount = || {
            let device = Arc::clone(&gate) as Arc<dyn Device>;
            Fs::mount(device, MountOptions::parse("background_gc=off").unwrap()).unwrap()
        };
        let fs = mount();
        let nids = ["first", "second"].map(|name| create(&fs, name).inode.ino.nid());
        fs.unmount().unwrap();
        drop(fs);

        let fs = mount();
        gate.block.store(fs.vol.place_of(nids[0]).unwrap().1.get(), SeqCst);
        let ahead = Arc::clone(&fs);
        let collector = spawn("collector", move || ahead.vol.read_nodes_ahead(nids.into_iter()));
        gate.wait(1);
        let asking = Arc::clone(&fs);
        let asked = spawn("asking", move || asking.vol.node(nids[1]).unwrap().nid);
        steadyfs_rt::sleep(Duration::from_millis(1));
        let waited = !asked.is_finished();
        gate.go(4);
        collector.join().unwrap();
        assert_eq!(asked.join().unwrap(), nids[1]);
        fs.unmount().unwrap();
        waited
    });
    assert!(
        waited.unwrap().value,
        "a node could have got another place between the look at the NAT and the end of the read"
    );
}
