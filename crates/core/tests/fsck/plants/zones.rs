//! Faults of a volume on a zoned device: what the SIT says, and what the write pointers say.

use crate::images::run_with;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Issue, Severity};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, DeviceInfo, IoError, Op, OpKind, Request, Zone, ZoneGeometry, ZonedDevice, errno};
use steadyfs_format::Log;

/// Codes that the tests of this module plant.
pub(crate) const CODES: [&str; 2] = ["BeyondWritePointer", "ZonesUnknown"];

const ZONE: u64 = 512;

fn volume() -> Arc<ZonedDevice> {
    let zones = ZoneGeometry { size: ZONE, capacity: ZONE, zones: 40, conventional: 8, max_open: 0, max_active: 0 };
    let device = Arc::new(ZonedDevice::new(zones));
    mkfs::format(&*device, &MkfsOptions { zoned: true, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) }).unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::default()).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&fs.root().unwrap(), b"file", &new).unwrap();
    fs.write(&file, 0, &[7; 30 * 4096]).unwrap();
    drop(file);
    fs.unmount().unwrap();
    device
}

#[test]
fn what_lies_behind_a_write_pointer_is_found() {
    let device = volume();
    assert_eq!(run_with(Arc::clone(&device) as Arc<dyn Device>, &CheckOptions::default()).issues, []);
    let image = Image::open(Arc::clone(&device) as Arc<dyn Device>).unwrap();
    let segno = image.log_position(Log::WarmData).segment;
    let lba = image.layout().lba_of(segno, 0);
    let kept = device.read(lba.get(), 20).unwrap();
    device.run(Op::ZoneReset { block: lba.get() }).unwrap();
    device.write(lba.get(), kept).unwrap();
    let report = run_with(device, &CheckOptions::default());
    let beyond = Issue::BeyondWritePointer { segno, lba: lba + 20, blocks: 10 };
    assert_eq!((report.issues, beyond.severity()), (vec![beyond], Severity::Error));
}

/// A device that says nothing of its zones.
struct Silent(Arc<ZonedDevice>);

impl Device for Silent {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn submit(&self, batch: Vec<Request>) {
        self.0.submit(batch);
    }
    fn zones(&self) -> Option<ZoneGeometry> {
        self.0.zones()
    }
    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        Err(IoError::from_errno(OpKind::ZoneReport, first, count, errno::EIO))
    }
}

#[test]
fn a_device_that_does_not_tell_is_told_of() {
    let report = run_with(Arc::new(Silent(volume())), &CheckOptions::default());
    assert!(matches!(&report.issues[..], [Issue::ZonesUnknown { .. }]), "{:?}", report.issues);
}
