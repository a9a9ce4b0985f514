//! Zones: the state machine of NVMe ZNS with its limits and errors, random commands against a model, power cuts.

use crate::common::{KIB, MIB, Random, all, assert_clean, nanos, page, pages, small, timed};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, IoError, Op, PageBuf, Request, StreamHint, Zone, ZoneState, errno};
use steadyfs_flash::{EmulatedSsd, Layer, Parameters, ZoneLimits};

const HINT: StreamHint = StreamHint::DataWarm;
/// Pages of a zone of the small device: one block of 1 unit of 8 pages on each of 16 chips.
const SIZE: u64 = 128;

fn zoned(limits: ZoneLimits) -> Arc<EmulatedSsd> {
    let mut parameters = small();
    parameters.remember_cells = true;
    parameters.layer = Layer::Zoned(limits);
    EmulatedSsd::new(parameters, 16 * SIZE * 4 * KIB).unwrap_or_else(|error| panic!("{error}"))
}

fn limits(max_open: u32, max_active: u32) -> ZoneLimits {
    ZoneLimits { max_open, max_active, conventional: 0 }
}

fn zone(ssd: &EmulatedSsd, number: u64) -> Zone {
    ssd.zone_report(number, 1).unwrap()[0]
}

fn state(ssd: &EmulatedSsd, number: u64) -> ZoneState {
    zone(ssd, number).state
}

fn write(ssd: &EmulatedSsd, block: u64, count: u64) -> Result<(), IoError> {
    ssd.write(block, pages(block, count, 0))
}

fn reset(ssd: &EmulatedSsd, number: u64) -> Result<(), IoError> {
    ssd.run(Op::ZoneReset { block: number * SIZE }).map(drop)
}

fn finish(ssd: &EmulatedSsd, number: u64) -> Result<(), IoError> {
    ssd.run(Op::ZoneFinish { block: number * SIZE }).map(drop)
}

fn refused<T: std::fmt::Debug>(result: Result<T, IoError>, errno: i32, words: &str) {
    let error = result.expect_err(words);
    assert!(error.errno() == errno && error.to_string().contains(words), "{error} instead of {words}");
}

#[test]
fn zones_are_written_in_order() {
    timed(|| {
        let ssd = zoned(ZoneLimits::default());
        let geometry = ssd.zones().unwrap();
        assert_eq!((geometry.size, geometry.capacity, geometry.zones, geometry.max_open), (SIZE, SIZE, 16, 14));
        refused(write(&ssd, 1, 1), errno::EIO, "Zone Invalid Write");
        assert_eq!(state(&ssd, 0), ZoneState::Empty, "a refused write opens nothing");
        write(&ssd, 0, 5).unwrap();
        assert_eq!(zone(&ssd, 0), Zone { start: 0, write_pointer: 5, state: ZoneState::Open });
        for block in [0, 4, 6] {
            refused(write(&ssd, block, 1), errno::EIO, "Zone Invalid Write");
        }
        refused(write(&ssd, 5, SIZE - 4), errno::EIO, "Zone Boundary Error");
        write(&ssd, 5, SIZE - 5).unwrap();
        assert_eq!(zone(&ssd, 0), Zone { start: 0, write_pointer: SIZE, state: ZoneState::Full });
        refused(write(&ssd, 0, 1), errno::EIO, "Zone Is Full");
        assert_eq!(ssd.read(0, SIZE).unwrap(), pages(0, SIZE, 0));
        // What was never written reads as zeros, also across zones.
        assert_eq!(ssd.read(SIZE - 1, 2).unwrap(), [page(SIZE - 1, 0), PageBuf::zeroed()]);
        ssd.discard(0, SIZE).unwrap();
        assert_eq!(ssd.read_one(7).unwrap(), page(7, 0), "only a reset empties a zone");
        assert_clean(&ssd);
    });
}

#[test]
fn appends_go_to_the_write_pointer() {
    timed(|| {
        let ssd = zoned(ZoneLimits::default());
        let append = |zone: u64, count| ssd.zone_append(zone * SIZE, pages(500, count, 9), HINT);
        assert_eq!(
            (append(3, 2).unwrap(), append(3, 7).unwrap(), append(2, 1).unwrap()),
            (3 * SIZE, 3 * SIZE + 2, 2 * SIZE)
        );
        assert_eq!(ssd.read(3 * SIZE + 2, 7).unwrap(), pages(500, 7, 9));
        refused(append(3, SIZE - 8), errno::EIO, "Zone Boundary Error");
        assert_eq!(append(3, SIZE - 9).unwrap(), 3 * SIZE + 9);
        refused(append(3, 1), errno::EIO, "Zone Is Full");
        refused(ssd.zone_append(SIZE + 1, pages(0, 1, 0), HINT), errno::EINVAL, "Invalid Field");
        refused(ssd.zone_append(1 << 40, pages(0, 1, 0), HINT), errno::EINVAL, "beyond the end");
        assert_clean(&ssd);
    });
}

#[test]
fn resets_empty_and_finishes_fill() {
    timed(|| {
        let ssd = zoned(ZoneLimits::default());
        write(&ssd, SIZE, 13).unwrap();
        finish(&ssd, 1).unwrap();
        assert_eq!(zone(&ssd, 1), Zone { start: SIZE, write_pointer: 2 * SIZE, state: ZoneState::Full });
        assert_eq!(ssd.read(SIZE + 12, 2).unwrap(), [page(SIZE + 12, 0), PageBuf::zeroed()]);
        refused(write(&ssd, SIZE + 13, 1), errno::EIO, "Zone Is Full");
        assert_eq!(ssd.stats().padding, 3);
        finish(&ssd, 1).unwrap();
        finish(&ssd, 5).unwrap();
        assert_eq!(state(&ssd, 5), ZoneState::Full, "also an empty one");
        (0..3).for_each(|_| reset(&ssd, 1).unwrap());
        reset(&ssd, 5).unwrap();
        assert_eq!((state(&ssd, 1), state(&ssd, 5)), (ZoneState::Empty, ZoneState::Empty));
        assert_eq!(ssd.read(SIZE, 13).unwrap(), vec![PageBuf::zeroed(); 13]);
        assert_eq!(ssd.stats().lines_erased, 1, "what was never programmed need not be erased");
        refused(ssd.run(Op::ZoneReset { block: 3 }), errno::EINVAL, "Invalid Field");
        // A reset drops what waits in the buffer.
        write(&ssd, SIZE, 3).unwrap();
        reset(&ssd, 1).unwrap();
        ssd.flush().unwrap();
        assert_eq!((ssd.stats().buffered, ssd.stats().meta_programmed), (0, 0));
        assert_clean(&ssd);
    });
}

#[test]
fn open_and_active_zones_are_limited() {
    timed(|| {
        let ssd = zoned(limits(2, 4));
        (0..4).for_each(|number| write(&ssd, number * SIZE, 1).unwrap());
        let states = || ssd.zone_report(0, 5).unwrap().iter().map(|zone| zone.state).collect::<Vec<_>>();
        use ZoneState::{Closed, Empty, Full, Open};
        assert_eq!(states(), [Closed, Closed, Open, Open, Empty], "the oldest that writes had opened were closed");
        refused(write(&ssd, 4 * SIZE, 1), errno::EOVERFLOW, "Too Many Active Zones");
        refused(ssd.zone_open(4 * SIZE), errno::EOVERFLOW, "Too Many Active Zones");
        write(&ssd, 1, 1).unwrap();
        assert_eq!(states(), [Open, Closed, Closed, Open, Empty]);
        ssd.zone_open(0).unwrap();
        ssd.zone_open(SIZE).unwrap();
        assert_eq!(states(), [Open, Open, Closed, Closed, Empty]);
        refused(write(&ssd, 2 * SIZE + 1, 1), errno::ETOOMANYREFS, "Too Many Open Zones");
        refused(ssd.zone_open(3 * SIZE), errno::ETOOMANYREFS, "Too Many Open Zones");
        ssd.zone_close(SIZE).unwrap();
        write(&ssd, 2 * SIZE + 1, 1).unwrap();
        assert_eq!(states(), [Open, Closed, Open, Closed, Empty]);
        finish(&ssd, 3).unwrap();
        write(&ssd, 4 * SIZE, 1).unwrap();
        assert_eq!(states(), [Open, Closed, Closed, Full, Open]);
        reset(&ssd, 0).unwrap();
        write(&ssd, 0, 1).unwrap();
        assert_clean(&ssd);
    });
}

#[test]
fn transitions_that_the_standard_does_not_have_are_refused() {
    timed(|| {
        let ssd = zoned(limits(2, 4));
        refused(ssd.zone_close(0), errno::EIO, "Invalid Zone State Transition");
        finish(&ssd, 0).unwrap();
        refused(ssd.zone_close(0), errno::EIO, "Invalid Zone State Transition");
        refused(ssd.zone_open(0), errno::EIO, "Invalid Zone State Transition");
        ssd.zone_open(SIZE).unwrap();
        ssd.zone_open(SIZE).unwrap();
        ssd.zone_close(SIZE).unwrap();
        ssd.zone_close(SIZE).unwrap();
        assert_eq!(state(&ssd, 1), ZoneState::Closed);
        assert_clean(&ssd);
        let page_mapped = EmulatedSsd::new(small(), 16 * MIB).unwrap();
        refused(page_mapped.zone_open(0), errno::EOPNOTSUPP, "Invalid Command Opcode");
        refused(page_mapped.zone_append(0, pages(0, 1, 0), HINT), errno::EOPNOTSUPP, "Invalid Command Opcode");
        assert!(page_mapped.zones().is_none() && page_mapped.zone_report(0, 1).is_err());
        assert_eq!(ssd.zone_report(15, 2).unwrap_err().errno(), errno::EINVAL);
    });
}

#[test]
fn worn_out_zones_say_so() {
    timed(|| {
        let ssd = zoned(ZoneLimits::default());
        (0..3).for_each(|number| write(&ssd, number * SIZE, 20).unwrap());
        ssd.wear_out_zone(0, ZoneState::ReadOnly).unwrap();
        ssd.wear_out_zone(SIZE, ZoneState::Offline).unwrap();
        refused(ssd.wear_out_zone(2 * SIZE, ZoneState::Empty), errno::EINVAL, "Invalid Field");
        assert_eq!(ssd.read(0, 20).unwrap(), pages(0, 20, 0));
        refused(ssd.read(SIZE - 1, 2), errno::EIO, "Zone Is Offline");
        refused(write(&ssd, 20, 1), errno::EIO, "Zone Is Read Only");
        refused(write(&ssd, SIZE + 20, 1), errno::EIO, "Zone Is Offline");
        refused(reset(&ssd, 0), errno::EIO, "Zone Is Read Only");
        refused(finish(&ssd, 1), errno::EIO, "Zone Is Offline");
        refused(ssd.zone_open(SIZE), errno::EIO, "Zone Is Offline");
        assert_eq!(
            (state(&ssd, 0), state(&ssd, 1), state(&ssd, 2)),
            (ZoneState::ReadOnly, ZoneState::Offline, ZoneState::Open)
        );
        assert_clean(&ssd);
    });
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let refused = |limits, capacity: u64| {
        let result = EmulatedSsd::new(Parameters { layer: Layer::Zoned(limits), ..small() }, capacity);
        result.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let zone = SIZE * 4 * KIB;
    assert!(refused(limits(4, 2), 16 * zone).contains("open than active"));
    assert!(refused(limits(0, 2), 16 * zone).contains("open than active"));
    assert!(refused(limits(2, 2), 16 * zone + 4096).contains("number of zones"));
    assert!(refused(limits(17, 17), 32 * zone).contains("log"));
    assert!(refused(ZoneLimits { conventional: 16, ..limits(2, 2) }, 16 * zone).contains("conventional"));
    assert_eq!(refused(limits(0, 0), 16 * zone), "");
}

/// A zone is written at the speed of all chips; a flush of a part of a unit programs that part into the log, once.
#[test]
fn zones_take_the_time_of_the_flash() {
    timed(|| {
        let ssd = zoned(ZoneLimits::default());
        all(&ssd, [crate::common::write(0, SIZE, false)]);
        assert_eq!((ssd.stats().host_programmed, ssd.stats().padding), (SIZE, 0));
        steadyfs_rt::sleep(Duration::from_millis(10));
        write(&ssd, SIZE, 3).unwrap();
        let program = 39_063 + 185_000;
        assert_eq!(nanos(|| ssd.flush().unwrap()), program + 4000);
        assert_eq!(nanos(|| ssd.flush().unwrap()), 4000, "nothing new");
        let stats = ssd.stats();
        assert_eq!((stats.meta_programmed, stats.padding, stats.buffered), (3, 5, 3));
        assert_eq!(nanos(|| reset(&ssd, 0).unwrap()), 20_000);
        assert_eq!(ssd.stats().lines_erased, 1);
        assert_clean(&ssd);
    });
}

#[test]
fn conventional_zones_take_writes_anywhere() {
    timed(|| {
        let ssd = zoned(ZoneLimits { conventional: 4, ..limits(3, 3) });
        let mut random = Random(5);
        for version in 1..200 {
            let block = random.below(4 * SIZE - 8);
            ssd.write(block, pages(block, 8, version)).unwrap();
            assert_eq!(ssd.read(block, 8).unwrap(), pages(block, 8, version));
        }
        (0..6000).for_each(|_| write(&ssd, random.below(4 * SIZE - 8), 8).unwrap());
        assert!(ssd.stats().lines_erased > 0);
        assert_eq!((state(&ssd, 3), state(&ssd, 4)), (ZoneState::Conventional, ZoneState::Empty));
        refused(write(&ssd, 4 * SIZE - 1, 2), errno::EIO, "Zone Boundary Error");
        refused(reset(&ssd, 3), errno::EINVAL, "Invalid Field");
        refused(ssd.zone_append(0, pages(0, 1, 0), HINT), errno::EINVAL, "Invalid Field");
        write(&ssd, 4 * SIZE, 2).unwrap();
        ssd.discard(4 * SIZE - 1, 2).unwrap();
        assert_eq!(ssd.read(4 * SIZE - 1, 2).unwrap(), [PageBuf::zeroed(), page(4 * SIZE, 0)]);
        assert_clean(&ssd);
    });
}

/// A zone reads as its versions, and as zeros behind them.
fn read_back(ssd: &EmulatedSsd, start: u64, versions: &[u64]) {
    let found = ssd.read(start, SIZE).unwrap();
    for (at, found) in (0..).zip(&found) {
        let expected = versions.get(at).map(|&version| page(start + at as u64, version));
        assert_eq!(*found, expected.unwrap_or_default(), "zone at {start}, page {at}");
    }
}

/// Random commands; what is read is what was written, states and pointers are the model's, and a cut leaves what was
/// flushed.
fn random_commands(seed: u64, conventional: u32) -> Arc<EmulatedSsd> {
    let ssd = zoned(ZoneLimits { conventional, ..limits(4, 6) });
    let mut random = Random(seed);
    let first = u64::from(conventional);
    // Versions of the pages of each zone, how many of them are safe, and whether it is full.
    let mut model: Vec<(Vec<u64>, usize, bool)> = vec![(Vec::new(), 0, false); 16];
    for version in 1..4000u64 {
        let number = first + random.below(16 - first);
        let start = number * SIZE;
        let (versions, safe, full) = &mut model[number as usize];
        let written = versions.len() as u64;
        let count = (1 + random.below(40)).min(SIZE - written);
        let next = start + written;
        match random.below(12) {
            0..7 if !*full && count > 0 => {
                let fua = random.below(6) == 0;
                let op = Op::Write { block: next, pages: pages(next, count, version), hint: HINT, fua };
                let result = if random.below(2) == 0 {
                    ssd.run(op).map(|_| next)
                } else {
                    let at = ssd.zone_append(start, pages(next, count, version), HINT);
                    at.inspect(|&at| assert_eq!(at, next))
                };
                match result {
                    Ok(_) => {
                        versions.extend((0..count).map(|_| version));
                        *full = versions.len() as u64 == SIZE;
                    }
                    Err(error) => assert!(error.errno() == errno::EOVERFLOW, "{error}"),
                }
            }
            7 => {
                reset(&ssd, number).unwrap();
                (*versions, *safe, *full) = (Vec::new(), 0, false);
            }
            8 => {
                finish(&ssd, number).unwrap();
                *full = true;
            }
            9 => {
                if random.below(3) == 0 {
                    // Amid a flush, which promises nothing before it is complete and takes nothing away.
                    ssd.submit(vec![Request::new(Op::Flush, |result| assert!(result.is_ok()))]);
                    steadyfs_rt::sleep(Duration::from_micros(random.below(300)));
                    cut(&ssd, &model, version);
                }
                ssd.flush().unwrap();
                model.iter_mut().for_each(|(versions, safe, _)| *safe = versions.len());
            }
            10 => read_back(&ssd, start, versions),
            _ if version % 50 == 0 => cut(&ssd, &model, version),
            _ => {}
        }
        let (versions, _, full) = &model[number as usize];
        let pointer = if *full { SIZE } else { versions.len() as u64 };
        assert_eq!(zone(&ssd, number).write_pointer, start + pointer, "seed {seed}, step {version}");
        if version % 100 == 0 {
            assert_clean(&ssd);
        }
    }
    ssd
}

fn cut(ssd: &EmulatedSsd, model: &[(Vec<u64>, usize, bool)], seed: u64) {
    let left = ssd.after_power_cut(seed).expect("cells are remembered");
    for (number, (versions, safe, full)) in (0u64..).zip(model) {
        let start = number * SIZE;
        let zone = zone(&left, number);
        let survived = (zone.write_pointer - start) as usize;
        if zone.state == ZoneState::Conventional {
            continue;
        }
        let in_bounds = survived >= *safe && (survived <= versions.len() || *full);
        assert!(in_bounds, "{zone:?}: {} pages, {safe} safe", versions.len());
        assert!(matches!(zone.state, ZoneState::Closed | ZoneState::Empty | ZoneState::Full), "{zone:?}");
        let found = left.read(start, SIZE).unwrap();
        for (at, &version) in versions.iter().enumerate().take(survived) {
            let lost = at >= *safe && found[at] == PageBuf::zeroed();
            assert!(
                lost || found[at] == page(start + at as u64, version),
                "{zone:?}, page {at} of version {version}: {:?}; {safe} safe, full {full}",
                found[at]
            );
        }
    }
    assert_clean(&left);
}

#[test]
fn random_commands_agree_with_a_model() {
    for (seed, conventional) in [(1, 0), (2, 0), (3, 2)] {
        let stats = timed(move || {
            let ssd = random_commands(seed, conventional);
            assert_clean(&ssd);
            ssd.stats()
        });
        assert!(stats.lines_erased > 50 && stats.meta_programmed > 500, "{stats}");
    }
}
