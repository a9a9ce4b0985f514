//! Zones of the kernel on a fake that answers as `linux/blkzoned.h` says.

use super::*;
use crate::{Device, PageBuf, StreamHint, ZonedDevice};
use steadyfs_rt::Completion;

const SIZE: u64 = 8;
const SECTORS_OF_ZONE: u64 = SIZE * SECTORS;

/// A disk of the kernel, with a smaller zone behind those of `disk`.
struct Fake {
    disk: ZonedDevice,
    /// Zones that one call reports at most.
    at_once: u32,
    /// What the kernel says beside that, by number of the zone.
    odd: fn(u64, &mut Reported),
    fails: Option<i32>,
    calls: Leaf<u32>,
}

impl Fake {
    fn new(capacity: u64, at_once: u32) -> Self {
        let zones = ZoneGeometry { size: SIZE, capacity, zones: 8, conventional: 2, max_open: 2, max_active: 3 };
        let disk = ZonedDevice::new(zones);
        Fake { disk, at_once, odd: |_, _| (), fails: None, calls: Leaf::new(0) }
    }

    fn odd(odd: fn(u64, &mut Reported)) -> Self {
        Fake { odd, ..Fake::new(SIZE, 100) }
    }

    fn fails_or<T>(&self, value: T) -> Result<T, i32> {
        self.calls.with(|calls| *calls += 1);
        self.fails.map_or(Ok(value), Err)
    }

    fn geometry(&self) -> Result<ZoneGeometry, String> {
        geometry(self, ZoneLimits { max_open: 2, max_active: 3 })
    }

    fn open(self) -> (Arc<Fake>, InZones<Fake>) {
        let found = self.geometry().unwrap();
        let fake = Arc::new(self);
        let zones = InZones::start(&fake, found).unwrap();
        (fake, zones)
    }
}

impl ZoneCalls for Fake {
    fn zone_sectors(&self) -> Result<u32, i32> {
        self.fails_or(SECTORS_OF_ZONE as u32)
    }

    fn zone_count(&self) -> Result<u32, i32> {
        self.fails_or(9)
    }

    fn report(&self, sector: u64, most: u32) -> Result<Vec<Reported>, i32> {
        self.fails_or(())?;
        let first = sector / SECTORS_OF_ZONE;
        let report = |number: u64| {
            let start = number * SECTORS_OF_ZONE;
            let mut zone = Reported { start, len: 8, wp: start, kind: 2, condition: 1, capacity: 8 };
            if number < 8 {
                let found = self.disk.zone_report(number, 1).unwrap()[0];
                let conditions = [ZoneState::Conventional, ZoneState::Empty, ZoneState::Open, ZoneState::Closed];
                let condition = conditions.iter().position(|state| *state == found.state).unwrap_or(0xE) as u8;
                let is_conventional = found.state == ZoneState::Conventional;
                zone = Reported {
                    len: SECTORS_OF_ZONE,
                    wp: if condition == 0xE { u64::MAX } else { found.write_pointer * SECTORS },
                    kind: if is_conventional { 1 } else { 2 },
                    // There are two kinds of open.
                    condition: if condition < 3 { condition } else { condition.min(0xD) + 1 },
                    capacity: SECTORS * if is_conventional { SIZE } else { self.disk.zones().unwrap().capacity },
                    ..zone
                };
            }
            (self.odd)(number, &mut zone);
            zone
        };
        Ok((first..9).take(most.min(self.at_once) as usize).map(report).collect())
    }

    fn manage(&self, what: Manage, [sector, count]: [u64; 2]) -> Result<(), i32> {
        self.fails_or(())?;
        assert!(count == SECTORS_OF_ZONE && sector.is_multiple_of(count), "the kernel takes whole zones");
        let block = sector / SECTORS;
        let op = match what {
            Manage::Reset => Op::ZoneReset { block },
            Manage::Finish => Op::ZoneFinish { block },
        };
        self.disk.run(op).map(drop).map_err(|error| error.errno())
    }
}

impl Perform for Fake {
    fn perform(&self, op: Op) -> IoResult {
        assert!(!matches!(op, Op::ZoneReset { .. } | Op::ZoneFinish { .. }), "zones have calls of their own");
        self.disk.run(op)
    }
}

fn submit(zones: &InZones<Fake>, ops: Vec<Op>) -> Vec<Completion<IoResult>> {
    let ends: Vec<Completion<IoResult>> = ops.iter().map(|_| Completion::new()).collect();
    let requests = ops.into_iter().zip(&ends).map(|(op, end)| {
        let end = end.clone();
        Request::new(op, move |result| end.complete(result))
    });
    zones.submit(requests.collect());
    ends
}

fn write(block: u64, count: usize) -> Op {
    let pages = vec![PageBuf::from_slice(&[block as u8; BLOCK_SIZE]); count];
    Op::Write { block, pages, hint: StreamHint::DataWarm, fua: false }
}

fn errno_of(zones: &InZones<Fake>, op: Op) -> Option<i32> {
    let end = submit(zones, vec![op]).pop();
    end.and_then(|end| end.wait().err()).map(|error| error.errno())
}

#[test]
fn zones_are_listed_in_as_many_calls_as_it_takes() {
    for (at_once, calls) in [(100, 3), (4, 5), (1, 11)] {
        let fake = Fake::new(SIZE - 2, at_once);
        let found = fake.geometry().unwrap();
        let capacity = SIZE - 2;
        let wanted = ZoneGeometry { size: SIZE, capacity, zones: 8, conventional: 2, max_open: 2, max_active: 3 };
        assert_eq!((found, fake.calls.with(|calls| *calls)), (wanted, calls), "the smaller zone is left out");
        assert_eq!(report(&fake, &found, 1, 7).unwrap(), fake.disk.zone_report(1, 7).unwrap());
        assert!(report(&fake, &found, 1, 8).is_err());
    }
}

#[test]
fn what_no_volume_can_use_is_refused() {
    let refused = |fake: Fake, words: &str| {
        let why = fake.geometry().unwrap_err();
        assert!(why.contains(words), "{why}");
    };
    refused(Fake::odd(|at, zone| zone.kind = if at == 5 { 1 } else { zone.kind }), "behind others");
    refused(Fake::odd(|at, zone| zone.len -= u64::from(at == 5)), "one size");
    refused(Fake::odd(|at, zone| zone.start += u64::from(at == 5)), "zone 5 begins at sector");
    refused(Fake { at_once: 0, ..Fake::new(SIZE, 0) }, "cannot be listed");
    refused(Fake { fails: Some(errno::EOPNOTSUPP), ..Fake::new(SIZE, 1) }, "does not tell of its zones");
}

#[test]
fn zones_that_are_worn_out_are_told_and_so_are_errors() {
    let (fake, zones) = Fake::odd(|at, zone| match at {
        3 => (zone.condition, zone.wp) = (0xD, u64::MAX),
        4 => (zone.condition, zone.wp) = (0xF, u64::MAX),
        _ => {}
    })
    .open();
    let states: Vec<ZoneState> = zones.report(2, 3).unwrap().iter().map(|zone| zone.state).collect();
    assert_eq!(states, [ZoneState::Empty, ZoneState::ReadOnly, ZoneState::Offline]);
    fake.disk.wear_out(4 * SIZE, ZoneState::Offline);
    assert_eq!(errno_of(&zones, write(4 * SIZE, 1)), Some(errno::EIO));
    assert_eq!(errno_of(&zones, Op::ZoneReset { block: 4 * SIZE }), Some(errno::EIO));
    assert_eq!(errno_of(&zones, Op::ZoneReset { block: 0 }), Some(errno::EINVAL), "conventional");
    assert_eq!(errno_of(&zones, Op::ZoneFinish { block: 2 * SIZE + 1 }), Some(errno::EINVAL), "no zone begins there");
    for zone in [2, 5, 6] {
        assert_eq!(errno_of(&zones, write(zone * SIZE, 1)), None);
    }
    assert_eq!(errno_of(&zones, write(7 * SIZE, 1)), Some(errno::EOVERFLOW), "too many are active");
    assert_eq!(fake.disk.breaches().len(), 1);
    let found = zones.geometry();
    for odd in [(|_, zone| zone.wp += 1) as fn(u64, &mut Reported), |_, zone| zone.condition = 7] {
        let fake = Fake { odd, ..Fake::new(SIZE, 9) };
        fake.disk.write(2 * SIZE, vec![PageBuf::zeroed()]).unwrap();
        assert_eq!(report(&fake, &found, 2, 1).unwrap_err().errno(), errno::EIO);
    }
}

/// A pool of threads does them, which would do them in any order.
#[test]
fn what_is_submitted_to_a_zone_is_done_in_order() {
    let (fake, zones) = Fake::new(SIZE, 9).open();
    let mut ends = Vec::new();
    for _ in 0..40 {
        for zone in [2, 3, 4] {
            let start = zone * SIZE;
            let mut ops: Vec<Op> = (0..SIZE / 2).map(|at| write(start + 2 * at, 2)).collect();
            ops.push(Op::ZoneReset { block: start });
            ops.extend([write(start, 3), Op::ZoneFinish { block: start }, Op::ZoneReset { block: start }]);
            ends.extend(submit(&zones, ops));
        }
        ends.extend(submit(&zones, vec![write(3, 1), Op::Read { block: 3, count: 1 }, Op::Flush]));
    }
    // Its last requests end without it.
    drop(zones);
    ends.into_iter().for_each(|end| drop(end.wait().unwrap()));
    assert_eq!(fake.disk.breaches(), [""; 0]);
    assert_eq!((fake.disk.counts().resets, fake.disk.counts().finishes), (240, 120));
}
