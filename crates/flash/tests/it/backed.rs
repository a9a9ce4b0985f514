//! Contents in another device: in virtual time over memory, in real time over a file that is opened again.

use crate::common::{MIB, assert_clean, nanos, page, pages, small, timed};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Fault, FaultyDevice, FileDevice, MemDevice, Op, OpKind, OpenOptions, PageBuf, errno};
use steadyfs_flash::{BackedSsd, Layer, Parameters, ZoneLimits};

#[test]
fn requests_take_the_time_of_the_one_and_hold_what_the_other_holds() {
    timed(|| {
        let memory = Arc::new(MemDevice::new(16 * MIB / 4096));
        memory.write(100, pages(100, 8, 1)).unwrap();
        let backed = BackedSsd::new(small(), Arc::clone(&memory) as Arc<dyn Device>).unwrap();
        assert_eq!(backed.ssd().stats().space.mapped, 8, "what was there counts as written");
        assert_eq!(nanos(|| assert_eq!(backed.read(100, 1).unwrap(), pages(100, 1, 1))), 29_760 + 4883 + 1163 + 21_500);
        assert_eq!(nanos(|| backed.write(0, pages(0, 3, 2)).unwrap()), 3 * 1163 + 4000 + 3 * 460);
        assert_eq!(nanos(|| backed.flush().unwrap()), 39_063 + 185_000 + 4000);
        assert_eq!((memory.read(0, 3).unwrap(), backed.read(0, 3).unwrap()), (pages(0, 3, 2), pages(0, 3, 2)));
        backed.discard(0, 2).unwrap();
        assert_eq!(backed.read(0, 3).unwrap(), [PageBuf::zeroed(), PageBuf::zeroed(), page(2, 2)]);
        assert_eq!(backed.read(1 << 40, 1).unwrap_err().errno(), errno::EINVAL);
        assert_clean(backed.ssd());
    });
}

#[test]
fn zones_on_another_device_are_refused() {
    let zoned = Parameters { layer: Layer::Zoned(ZoneLimits::default()), ..small() };
    let refused = BackedSsd::new(zoned, Arc::new(MemDevice::new(16 * MIB / 4096))).err();
    assert!(refused.unwrap().to_string().contains("page-mapped"));
}

#[test]
fn errors_of_the_device_below_come_through() {
    timed(|| {
        let faulty = FaultyDevice::new(MemDevice::new(16 * MIB / 4096));
        faulty.add(Fault::fail(errno::ENOSPC).on(OpKind::Write).nth(1));
        let backed = BackedSsd::new(small(), Arc::new(faulty)).unwrap();
        backed.write(0, pages(0, 1, 1)).unwrap();
        assert_eq!(backed.write(1, pages(1, 1, 1)).unwrap_err().errno(), errno::ENOSPC);
        assert_eq!(backed.run(Op::ZoneReset { block: 0 }).unwrap_err().errno(), errno::EOPNOTSUPP);
        backed.write(1, pages(1, 1, 2)).unwrap();
        assert_eq!(backed.read(0, 2).unwrap(), [page(0, 1), page(1, 2)]);
    });
}

#[test]
fn an_image_file_is_there_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::File::create(&path).unwrap().set_len(16 * MIB).unwrap();
    let open = || {
        let file = FileDevice::open(&path, OpenOptions::default()).unwrap();
        let mut parameters = small();
        parameters.timing.program = Duration::from_millis(5);
        BackedSsd::new(parameters, Arc::new(file)).unwrap()
    };
    let backed = open();
    let took = nanos(|| {
        backed.write(7, pages(7, 20, 1)).unwrap();
        backed.flush().unwrap();
    });
    assert!(took >= 5_000_000, "{took}");
    drop(backed);
    let backed = open();
    assert_eq!(backed.read(7, 20).unwrap(), pages(7, 20, 1));
    assert_eq!(backed.ssd().stats().space.mapped, 20);
    assert_clean(backed.ssd());
}
