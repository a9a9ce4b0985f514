//! Bad places: what they should hold moves away, and nobody changes it in place meanwhile.

use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, MountOptions, NewInode};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request, StreamHint, errno};

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
                    self.kept.fetch_add(u64::from(fs.vol.io.unwritten.is_moving()), SeqCst);
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
    let moving = fs.vol.io.unwritten.begin_moving();
    let elsewhere = write(3).unwrap();
    assert_ne!(elsewhere, at);
    drop(moving);
    assert_eq!(write(4).unwrap(), elsewhere);
    device.place.store(elsewhere, SeqCst);
    drop(write(5));
    fs.sync().unwrap();
    assert_eq!((device.moved.load(SeqCst), device.kept.load(SeqCst)), (1, 1));
    assert!(!fs.vol.io.unwritten.is_moving());
    let mut found = [0; PAGE];
    assert_eq!(fs.read_direct(&file, 0, &mut found).unwrap(), PAGE);
    assert_eq!(found, [5; PAGE]);
    fs.unmount().unwrap();
}
