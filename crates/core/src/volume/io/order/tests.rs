//! Writes to zones in their order, on devices that take them late, and refuse some.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use steadyfs_device::{MemDevice, PageBuf, RecordingDevice, StreamHint};

#[test]
fn writes_of_a_zone_wait_for_those_before_them() {
    let inner = Arc::new(RecordingDevice::new(MemDevice::new(64)));
    let device = InOrder::new(Arc::clone(&inner) as Arc<dyn Device>, 8, 16..64);
    let ended = Arc::new(AtomicUsize::new(0));
    let write = |block: u64, count: usize| {
        let counter = Arc::clone(&ended);
        let op = Op::Write { block, pages: vec![PageBuf::zeroed(); count], hint: StreamHint::DataWarm, fua: false };
        let end = move |_| {
            counter.fetch_add(1, SeqCst);
        };
        device.submit(vec![Request::new(op, end)]);
        (inner.log().len(), ended.load(SeqCst))
    };
    assert_eq!(write(3, 1).1, 1, "no zone");
    assert_eq!(write(18, 2).1, 1, "its turn has not come");
    assert_eq!(write(24, 1).1, 2, "another zone");
    assert_eq!(write(20, 4).1, 2);
    assert_eq!(write(16, 2).1, 5);
    let before = inner.log().len();
    assert_eq!(write(17, 1), (before, 6), "what was submitted is not submitted again");
    device.begin_anew(16);
    assert_eq!(write(20, 4).1, 6, "the zone begins anew");
    assert_eq!(write(16, 4).1, 8);
    assert_eq!(write(38, 4).1, 8, "the end of a zone and the beginning of the next");
    assert_eq!(write(42, 2).1, 9, "which has come");
    assert_eq!(write(32, 6).1, 11);
}

/// A device whose requests end when the test says so.
struct Slow {
    inner: steadyfs_device::ZonedDevice,
    held: Leaf<Vec<Request>>,
}

impl Slow {
    fn new(active: u32) -> Arc<Self> {
        let zones =
            ZoneGeometry { size: 8, capacity: 8, zones: 8, conventional: 2, max_open: active, max_active: active };
        Arc::new(Slow { inner: steadyfs_device::ZonedDevice::new(zones), held: Leaf::new(Vec::new()) })
    }

    /// Ends what is held, in the order in which it came; what it was, and the first block.
    fn end(&self) -> Vec<(steadyfs_device::OpKind, u64)> {
        let held = self.held.with(std::mem::take);
        let what = held.iter().map(|request| (request.op.kind(), request.op.range().0)).collect();
        self.inner.submit(held);
        what
    }
}

impl Device for Slow {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }
    fn submit(&self, batch: Vec<Request>) {
        self.held.with(|held| held.extend(batch));
    }
}

fn start(device: &InOrder, block: u64, count: usize) -> Completion<IoResult> {
    let (end, waiter) = (Completion::new(), Completion::new());
    let (told, op) = (
        waiter.clone(),
        Op::Write { block, pages: vec![PageBuf::zeroed(); count], hint: StreamHint::DataWarm, fua: false },
    );
    device.submit(vec![Request::new(op, move |result: IoResult| {
        told.complete(result.clone());
        end.complete(result);
    })]);
    waiter
}

#[test]
fn no_more_zones_are_partly_written_than_the_device_allows() {
    use steadyfs_device::OpKind::{Write, ZoneFinish};
    let slow = Slow::new(2);
    let device = InOrder::zoned(Arc::clone(&slow) as Arc<dyn Device>, 8, 16..64, Limits { active: 2 });
    start(&device, 16, 3);
    start(&device, 24, 8);
    start(&device, 32, 1);
    start(&device, 40, 1);
    assert_eq!(slow.end(), [(Write, 16), (Write, 24)], "two others wait");
    assert_eq!(slow.end(), [(Write, 32)], "one zone is full");
    device.finish(16, 5);
    assert_eq!(slow.end(), [], "two blocks of it are owed");
    start(&device, 19, 2);
    assert_eq!(slow.end(), [(Write, 19)]);
    assert_eq!(slow.end(), [(ZoneFinish, 16)], "after all writes have ended");
    assert_eq!(slow.end(), [(Write, 40)]);
    assert_eq!((slow.inner.breaches(), slow.inner.counts().most_active), (Vec::new(), 2));
    assert_eq!(device.counts(), (2, 1, 0));
}

/// Where nobody limits zones, too; there a zone begins anew without a reset.
#[test]
fn a_zone_that_refused_a_write_takes_none_until_it_begins_anew() {
    use steadyfs_device::{Fault, FaultyDevice, OpKind};
    let inner = Arc::new(FaultyDevice::new(MemDevice::new(64)));
    let device = InOrder::new(Arc::clone(&inner) as Arc<dyn Device>, 8, 16..64);
    inner.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(17..18));
    assert!(start(&device, 16, 1).wait().is_ok() && start(&device, 17, 2).wait().is_err());
    inner.heal();
    assert!(device.fault(23).is_some() && device.fault(24).is_none());
    assert!(start(&device, 17, 2).wait().is_err() && start(&device, 22, 1).wait().is_err(), "again, or behind it");
    device.begin_anew(16);
    assert!(device.fault(16).is_none());
    assert!(start(&device, 16, 8).wait().is_ok());
}

/// Want of room is no fault of a zone: it goes on, and the blocks come later, each once.
#[test]
fn what_a_full_device_refused_comes_later_and_the_zone_goes_on() {
    use steadyfs_device::{Fault, FaultyDevice, OpKind};
    let inner = Arc::new(FaultyDevice::new(MemDevice::new(64)));
    let device = InOrder::new(Arc::clone(&inner) as Arc<dyn Device>, 8, 16..64);
    inner.add(Fault::fail(errno::ENOSPC).on(OpKind::Write).in_blocks(16..19));
    let refused = |block: u64, count: usize| start(&device, block, count).wait().err().map(|error| error.errno());
    assert_eq!((refused(16, 1), refused(17, 2)), (Some(errno::ENOSPC), Some(errno::ENOSPC)));
    assert_eq!(
        (refused(19, 1), refused(18, 1)),
        (None, Some(errno::ENOSPC)),
        "the zone goes on, and one is tried again"
    );
    inner.heal();
    assert_eq!(([18, 16, 17].map(|block| refused(block, 1)), refused(17, 1)), ([None; 3], Some(errno::EIO)));
    assert!(device.fault(16).is_none() && refused(20, 4).is_none());
    device.begin_anew(16);
    assert_eq!(refused(16, 8), None);
}

#[test]
fn a_zone_that_refused_a_write_takes_none_until_it_is_reset() {
    let slow = Slow::new(2);
    let device = InOrder::zoned(Arc::clone(&slow) as Arc<dyn Device>, 8, 16..64, Limits { active: 2 });
    slow.inner.wear_out(24, steadyfs_device::ZoneState::ReadOnly);
    slow.inner.write(17, vec![PageBuf::zeroed()]).unwrap_err();
    let (first, behind) = (start(&device, 24, 1), start(&device, 26, 1));
    slow.end();
    assert!(first.wait().is_err() && behind.wait().is_err(), "also what had to wait for what comes between");
    assert!(device.fault(25).is_some() && device.fault(16).is_none());
    assert!(start(&device, 25, 1).wait().is_err() && start(&device, 24, 1).wait().is_err());
    assert_eq!(slow.end(), [], "none of it comes to the device");
    device.finish(24, 3);
    slow.end();
    // Whatever became of the finish, another zone can be open.
    start(&device, 32, 1);
    start(&device, 40, 1);
    assert_eq!(slow.end().len(), 2);
}

/// A device may do what it was given in any order.
#[test]
fn a_zone_is_reset_only_when_its_writes_have_ended() {
    use steadyfs_device::OpKind::{Write, ZoneReset};
    use steadyfs_rt::sim::{SimConfig, run};
    let work = || {
        let slow = Slow::new(2);
        let device = Arc::new(InOrder::zoned(Arc::clone(&slow) as Arc<dyn Device>, 8, 16..64, Limits { active: 2 }));
        let written = start(&device, 16, 8);
        let resetting = {
            let device = Arc::clone(&device);
            steadyfs_rt::spawn("reset", move || device.reset(&[16]))
        };
        steadyfs_rt::sleep(std::time::Duration::from_millis(1));
        assert_eq!(slow.end(), [(Write, 16)], "the reset waits");
        written.wait().unwrap();
        steadyfs_rt::sleep(std::time::Duration::from_millis(1));
        assert_eq!(slow.end(), [(ZoneReset, 16)]);
        assert!(resetting.join().unwrap().iter().all(Result::is_ok));
    };
    run(SimConfig { cores: 2, ..SimConfig::default() }, work).unwrap();
}
