//! The interval map from outside: addresses far apart, a capacity of its own, stalls, power cuts.

use crate::common::{MIB, Random, all, assert_clean, nanos, page, pages, small, small_intervals, timed, write};
use std::time::Duration;
use steadyfs_device::{Device, Op, errno};
use steadyfs_flash::{EmulatedSsd, Intervals, Layer, Parameters};

const END: u64 = 1 << 60;

/// Seven logs all over 2^60 pages, each of which moves on and discards its past: the device takes it without end.
#[test]
fn logs_move_on_through_an_address_space_without_end() {
    timed(|| {
        let ssd = EmulatedSsd::new(small_intervals(), 24 * MIB).unwrap();
        assert_eq!(ssd.info().blocks, END);
        let starts: Vec<u64> = (1..=7).map(|log| log << 57).chain([END - 64 * 400]).collect();
        let (window, rounds) = (10, 400);
        for round in 0..rounds {
            for &start in &starts {
                ssd.write(start + round * 64, pages(start + round * 64, 64, round)).unwrap();
                if round >= window {
                    ssd.discard(start + (round - window) * 64, 64).unwrap();
                }
            }
        }
        for &start in &starts {
            for round in rounds - window..rounds {
                assert_eq!(ssd.read(start + round * 64, 64).unwrap(), pages(start + round * 64, 64, round));
            }
            assert_eq!(ssd.held_from(start).unwrap(), Some(start + (rounds - window) * 64..start + rounds * 64));
        }
        assert_eq!(ssd.held_from(END - 1).unwrap(), Some(END - 1..END));
        let stats = ssd.stats();
        assert_eq!(stats.space.mapped, 8 * window * 64);
        assert!(stats.lines_erased > 300, "{stats}");
        let (start, nanoseconds) = (1 << 57, nanos(|| ssd.discard(0, END - 1).unwrap()));
        assert_eq!((ssd.read_one(start).unwrap(), ssd.stats().space.mapped), (Default::default(), 1));
        assert!(nanoseconds < 2_000_000, "a discard takes time for what is there: {nanoseconds} ns");
        assert_clean(&ssd);
    });
}

/// The address space is not the capacity.
#[test]
fn what_the_flash_cannot_hold_is_refused() {
    timed(|| {
        let ssd = EmulatedSsd::new(small_intervals(), 4 * MIB).unwrap();
        for part in 0..16 {
            ssd.write(part << 40, pages(part << 40, 64, 0)).unwrap();
        }
        let error = ssd.write(5, pages(5, 60, 1)).unwrap_err();
        assert_eq!(error.errno(), errno::ENOSPC, "{error}");
        ssd.write(5, pages(5, 59, 1)).unwrap();
        assert_eq!(ssd.write(100, vec![page(100, 1)]).unwrap_err().errno(), errno::ENOSPC);
        ssd.discard(1 << 40, 1).unwrap();
        ssd.write(100, vec![page(100, 1)]).unwrap();
        assert_eq!(ssd.read(4, 2).unwrap(), [page(4, 0), page(5, 1)]);
        assert_clean(&ssd);
    });
}

/// The longest write is as long as the pass that it waits for, to the nanosecond, and requests in between are not held
/// up.
#[test]
fn compaction_stops_the_device_for_its_time() {
    timed(|| {
        let mut shape = Intervals { addresses: END, ..Intervals::artifact() };
        shape.node_pages = 1 << 12;
        shape.compaction.scan = Duration::from_secs(1);
        let ssd = EmulatedSsd::new(Parameters { layer: Layer::Interval(shape), ..small() }, 256 * MIB).unwrap();
        all(&ssd, (0..8 * 64).map(|part| write(part * 64, 64, false)));
        all(&ssd, (0..7 * 32).map(|part| Op::Discard { block: part * 128, count: 64 }));
        steadyfs_rt::sleep(Duration::from_secs(1).saturating_sub(Duration::from_nanos(steadyfs_rt::now().as_nanos())));
        let before = ssd.stats().map;
        let slow = nanos(|| ssd.write((1 << 50) + 1, vec![page(1, 0)]).unwrap());
        let after = ssd.stats().map;
        let scanned = 7 * 4096 * 1_000_000_000u64 / (1 << 20);
        let quick = nanos(|| ssd.write(1 << 50, vec![page(0, 0)]).unwrap());
        assert_eq!((before.passes, after.passes, after.nodes_scanned), (0, 1, 7));
        assert_eq!((after.stall_ns, after.longest_stall_ns), (scanned, scanned));
        assert_eq!(slow - quick, scanned);
        assert_eq!(after.nodes_compacted, 7);
        assert!(after.bytes < before.bytes.min(after.uncompacted_bytes), "{before:?} {after:?}");
        assert!(nanos(|| drop(ssd.read(0, 1).unwrap())) < 100_000, "afterwards nothing waits");
        assert_clean(&ssd);
    });
}

#[test]
fn what_was_flushed_survives_a_power_cut_at_its_address() {
    timed(|| {
        let ssd = EmulatedSsd::new(Parameters { remember_cells: true, ..small_intervals() }, 8 * MIB).unwrap();
        let mut random = Random(7);
        let blocks: Vec<u64> = (0..200).map(|_| random.below(END)).collect();
        all(&ssd, blocks.iter().map(|&block| write(block, 1, false)));
        ssd.flush().unwrap();
        let found = ssd.after_power_cut(3).unwrap();
        assert_eq!(found.info().blocks, END);
        for &block in &blocks {
            assert_eq!(found.read_one(block).unwrap(), page(block, 0));
        }
        assert_eq!(found.stats().space.mapped, 200);
        assert_clean(&found);
    });
}

#[test]
fn impossible_shapes_are_refused() {
    let refused = |change: fn(&mut Intervals)| {
        let mut shape = Intervals::paper();
        change(&mut shape);
        let parameters = Parameters { layer: Layer::Interval(shape), ..small() };
        EmulatedSsd::new(parameters, 24 * MIB).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(|_| ()), "");
    assert!(refused(|shape| shape.addresses = END + 1).contains("2^60"));
    assert!(refused(|shape| shape.node_pages = 0).contains("map node"));
    assert!(refused(|shape| shape.zone_nodes = 0).contains("zone"));
    assert!(refused(|shape| shape.smallest_hole = 5000).contains("hole"));
    assert!(refused(|shape| shape.compaction.adopt_percent = 100).contains("smaller"));
}
