//! Bad places: what they should hold moves away, and nobody changes it in place meanwhile.

use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, MountOptions, NewInode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request, StreamHint, errno};
use steadyfs_rt::{LockClass, Mutex};

/// Held to keep a request, and to let it go.
static KEPT: LockClass = LockClass::new("test.kept", u16::MAX - 3);

const PAGE: usize = 4096;
const NONE: u64 = u64::MAX;

/// A device with a bad place, which also notes where data is written.
struct Bad {
    inner: MemDevice,
    place: AtomicU64,
    /// The last block of data written.
    last: AtomicU64,
    fs: OnceLock<Weak<Fs>>,
    /// Blocks moved, and of these, how many while pages could not be written in place.
    moved: AtomicU64,
    kept: AtomicU64,
}

impl Device for Bad {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (at, refusal) = (request.op.range().0, request.op.error(errno::EIO));
            match &request.op {
                Op::Write { hint: StreamHint::DataWarm, .. } => self.last.store(at, SeqCst),
                Op::Write { hint: StreamHint::DataCold, .. } => {
                    let fs = self.fs.get().and_then(Weak::upgrade).unwrap();
                    self.moved.fetch_add(1, SeqCst);
                    self.kept.fetch_add(u64::from(fs.vol.io.failed.is_moving()), SeqCst);
                }
                _ => {}
            }
            match matches!(request.op, Op::Write { .. }) && at == self.place.load(SeqCst) {
                true => (request.done)(Err(refusal)),
                false => self.inner.submit(vec![request]),
            }
        }
    }
}

#[test]
fn what_moves_from_a_bad_place_is_not_changed_in_place_meanwhile() {
    let inner = MemDevice::new(64 << 8);
    mkfs::format(&inner, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    let zero = || AtomicU64::new(0);
    let place = AtomicU64::new(NONE);
    let device = Arc::new(Bad { inner, place, last: zero(), fs: OnceLock::new(), moved: zero(), kept: zero() });
    let options = MountOptions::parse("mode=adaptive,ipu=always,gc=f2fs-lfs,errors=continue,commit=0").unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    device.fs.set(Arc::downgrade(&fs)).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&fs.root().unwrap(), b"file", &new).unwrap();
    let write = |byte: u8| {
        let done = fs.write_direct(&file, 0, &[byte; PAGE]);
        done.map(|_| device.last.load(SeqCst))
    };
    fs.write_direct(&file, 0, &[9; 4 * PAGE]).unwrap();
    let at = write(1).unwrap();
    assert_eq!(write(2).unwrap(), at, "it stays in place");
    let moving = fs.vol.io.failed.begin_moving();
    let elsewhere = write(3).unwrap();
    assert_ne!(elsewhere, at);
    drop(moving);
    assert_eq!(write(4).unwrap(), elsewhere);
    device.place.store(elsewhere, SeqCst);
    drop(write(5));
    fs.sync().unwrap();
    assert_eq!((device.moved.load(SeqCst), device.kept.load(SeqCst)), (1, 1));
    assert!(!fs.vol.io.failed.is_moving());
    let mut found = [0; PAGE];
    assert_eq!(fs.read_direct(&file, 0, &mut found).unwrap(), PAGE);
    assert_eq!(found, [5; PAGE]);
    fs.unmount().unwrap();
}

/// A device that keeps one write of data until it is told, and goes on refusing the block of the first node that it is
/// asked to write then.
struct Holding {
    inner: MemDevice,
    holds: AtomicBool,
    held: Mutex<Vec<Request>>,
    refuses: AtomicBool,
    refused: AtomicU64,
}

impl Device for Holding {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (at, refusal) = (request.op.range().0, request.op.error(errno::EIO));
            match &request.op {
                Op::Write { hint: StreamHint::DataWarm, .. } if self.holds.swap(false, SeqCst) => {
                    self.held.lock().push(request);
                    continue;
                }
                Op::Write { hint: StreamHint::NodeWarm, .. } if self.refuses.swap(false, SeqCst) => {
                    self.refused.store(at, SeqCst);
                }
                _ => {}
            }
            match matches!(request.op, Op::Write { .. }) && at == self.refused.load(SeqCst) {
                true => (request.done)(Err(refusal)),
                false => self.inner.submit(vec![request]),
            }
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = steadyfs_rt::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "still not: {what}");
        steadyfs_rt::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_fsync_succeeds_on_a_chain_whose_refused_block_was_given_up() {
    const FAR: u64 = 1500 * PAGE as u64;
    let inner = MemDevice::new(64 << 8);
    mkfs::format(&inner, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    let flag = || AtomicBool::new(false);
    let (held, refused) = (Mutex::new(&KEPT, Vec::new()), AtomicU64::new(NONE));
    let device = Arc::new(Holding { inner, holds: flag(), held, refuses: flag(), refused });
    let options = MountOptions::parse("gc=f2fs-lfs,background_gc=off,errors=continue,commit=0").unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let [file, other] = [b"file", b"othe"].map(|name| fs.create(&fs.root().unwrap(), name, &new).unwrap());
    fs.write(&file, FAR, &[1; PAGE]).unwrap();
    fs.write_direct(&other, 0, &[1; PAGE]).unwrap();
    fs.sync().unwrap();

    // Something is on its way, so whoever waits for all writes waits.
    device.holds.store(true, SeqCst);
    let on = Arc::clone(&fs);
    let writer =
        steadyfs_rt::spawn("writer", move || assert_eq!(on.write_direct(&other, 0, &[2; PAGE]).unwrap(), PAGE));
    until("a write is held", || !device.held.lock().is_empty());
    // An fsync whose first block is refused, and which waits before it looks at what was refused.
    fs.write(&file, FAR, &[2; PAGE]).unwrap();
    device.refuses.store(true, SeqCst);
    let (on, synced, disk) = (Arc::clone(&fs), file.clone(), Arc::clone(&device));
    let fsync = steadyfs_rt::spawn("fsync", move || {
        on.fsync(&synced, false).unwrap();
        disk.inner.fork()
    });
    until("a node is refused", || fs.vol.io.failed.count() == 1);
    // The node goes, and a checkpoint gives its block up. It gets no further before the fsync has had its time.
    fs.files.set_size(&file.inode, 0).unwrap();
    let on = Arc::clone(&fs);
    let checkpoint = steadyfs_rt::spawn("checkpoint", move || on.durable.sync_checkpoint().unwrap());
    until("the block is given up", || fs.vol.io.failed.count() == 0);
    let change = fs.vol.begin_change().unwrap();
    let requests = std::mem::take(&mut *device.held.lock());
    requests.into_iter().for_each(|request| device.inner.submit(vec![request]));
    steadyfs_rt::sleep(Duration::from_millis(200));
    drop(change);
    let when_it_returned = fsync.join().unwrap();
    writer.join().unwrap();
    checkpoint.join().unwrap();

    let crashed = Fs::mount(Arc::new(when_it_returned), MountOptions::default()).unwrap();
    let found = crashed.lookup(&crashed.root().unwrap(), b"file").unwrap();
    let mut page = [0; PAGE];
    let n = crashed.read(&found, FAR, &mut page).unwrap();
    assert!(n == 0 || page == [2; PAGE], "what was there before the fsync: {}", page[0]);
    fs.unmount().unwrap();
}
