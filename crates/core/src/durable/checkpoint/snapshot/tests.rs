//! A block that is on its way to the device is not written again before it is there.

use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, MountOptions, NewInode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request, StreamHint};
use steadyfs_rt::{LockClass, Mutex};

/// Held to keep a request, and to let it go.
static KEPT: LockClass = LockClass::new("test.kept", u16::MAX - 3);

const NONE: u64 = u64::MAX;

/// A device that keeps the first write of a block until it is told, and counts the writes of that block.
struct Keeping {
    inner: MemDevice,
    block: AtomicU64,
    writes: AtomicU64,
    kept: Mutex<Option<Request>>,
}

impl Device for Keeping {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (first, count) = request.op.range();
            let meant = (first..first + count).contains(&self.block.load(SeqCst));
            if meant && matches!(request.op, Op::Write { .. }) && self.writes.fetch_add(1, SeqCst) == 0 {
                *self.kept.lock() = Some(request);
            } else {
                self.inner.submit(vec![request]);
            }
        }
    }
}

/// An fsync may be trying again what the device refused of a checkpoint that failed, when the next one writes the same
/// blocks.
#[test]
fn a_pack_waits_for_an_earlier_write_of_its_blocks() {
    let inner = MemDevice::new(64 << 8);
    mkfs::format(&inner, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    let (block, writes) = (AtomicU64::new(NONE), AtomicU64::new(0));
    let device = Arc::new(Keeping { inner, block, writes, kept: Mutex::new(&KEPT, None) });
    let options = MountOptions::parse("gc=f2fs-lfs,background_gc=off,commit=0").unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    fs.create(&fs.root().unwrap(), b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
    {
        let mut committed = fs.durable.checkpoints.committed.lock();
        let snapshot = Arc::new(fs.durable.freeze(&committed, false).unwrap());
        let (start, pages) = snapshot.writes.last().unwrap().clone();
        device.block.store(start.get(), SeqCst);
        fs.vol.io.write(start, vec![pages[0].clone()], StreamHint::MetaHot, |_| ());
        let (on, pack) = (Arc::clone(&fs), Arc::clone(&snapshot));
        let submitter = steadyfs_rt::spawn("submitter", move || pack.submit(&on.vol.io));
        steadyfs_rt::sleep(Duration::from_millis(100));
        assert_eq!(device.writes.load(SeqCst), 1, "two writes of one block are under way");
        let kept = device.kept.lock().take().unwrap();
        device.inner.submit(vec![kept]);
        submitter.join().unwrap();
        assert_eq!(device.writes.load(SeqCst), 2);
        fs.vol.io.drain().unwrap();
        fs.durable.commit(&mut committed, Box::new(Arc::into_inner(snapshot).unwrap())).unwrap();
    }
    fs.unmount().unwrap();
}
