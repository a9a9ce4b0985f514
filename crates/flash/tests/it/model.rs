//! Random operations against a plain map; the same run twice; idle collection; real time.

use crate::common::{MIB, Random, all, assert_clean, page, simulate, small, small_intervals, timed, write};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, StreamHint, errno};
use steadyfs_flash::{Duplex, EmulatedSsd, Order, Parameters, Preset, Suspendable};

const HINTS: [StreamHint; 4] = [StreamHint::DataHot, StreamHint::DataWarm, StreamHint::NodeCold, StreamHint::MetaHot];

/// Random writes, reads, discards and flushes on a device that is overwritten several times; what is read is what was
/// written.
fn random_operations(parameters: Parameters, seed: u64, steps: u64) -> Arc<EmulatedSsd> {
    let ssd = EmulatedSsd::new(parameters, 24 * MIB).unwrap();
    let blocks = ssd.info().blocks.min(24 * MIB / 4096);
    let mut model: HashMap<u64, PageBuf> = HashMap::new();
    let mut random = Random(seed);
    for version in 1..=steps {
        let most = if random.below(10) == 0 { 200 } else { 8 };
        let count = 1 + random.below(most);
        let block = random.below(blocks - count);
        match random.below(20) {
            0..12 => {
                let pages: Vec<_> = (block..block + count).map(|number| page(number, version)).collect();
                model.extend((block..).zip(pages.iter().cloned()));
                let hint = HINTS[random.below(4) as usize];
                ssd.run(Op::Write { block, pages, hint, fua: random.below(8) == 0 }).unwrap();
            }
            12..17 => {
                let read = ssd.read(block, count).unwrap();
                for (number, got) in (block..).zip(read) {
                    let expected = model.get(&number).cloned().unwrap_or_default();
                    assert_eq!(got, expected, "seed {seed}, step {version}, block {number}");
                }
            }
            17 => ssd.flush().unwrap(),
            18 => steadyfs_rt::sleep(Duration::from_millis(random.below(300))),
            _ => {
                ssd.discard(block, count).unwrap();
                (block..block + count).for_each(|number| drop(model.remove(&number)));
            }
        }
        if version % 1000 == 0 {
            assert_clean(&ssd);
        }
    }
    assert_clean(&ssd);
    assert_eq!(ssd.stats().space.mapped, model.len() as u64);
    ssd
}

#[test]
fn contents_are_those_of_a_plain_map() {
    for streams in 1..=3 {
        let mut parameters = small();
        parameters.policy.streams = streams;
        let stats = timed(move || random_operations(parameters, u64::from(streams), 8000).stats());
        assert!(stats.lines_erased > 100 && stats.gc_programmed > 1000, "collection took part: {stats}");
        assert!(stats.erases.0 > 0, "every line was used");
    }
}

#[test]
fn contents_are_those_of_a_plain_map_also_through_intervals() {
    let stats = timed(|| random_operations(small_intervals(), 4, 8000).stats());
    assert!(stats.lines_erased > 100 && stats.gc_programmed > 1000, "collection took part: {stats}");
    assert!(stats.map.nodes_compacted > 10 && stats.map.stall_ns > 0, "compaction took part: {:?}", stats.map);
}

/// A 970 Pro that suspends whatever it can, on a link that carries one direction at a time.
fn suspending() -> Parameters {
    let mut parameters = small();
    parameters.interface.duplex = Duplex::Half;
    parameters.suspension.what = Suspendable::Both;
    parameters.suspension.program = Duration::from_micros(10);
    parameters
}

#[test]
fn contents_are_those_of_a_plain_map_also_amid_suspended_programs() {
    let stats = timed(|| random_operations(suspending(), 6, 8000).stats());
    assert!(stats.lines_erased > 100 && stats.suspended.0 > 100, "{:?}", stats.suspended);
}

/// A 970 Pro whose reads go before what has not begun.
fn reading_first() -> Parameters {
    let mut parameters = small();
    parameters.suspension.order = Order::ReadFirst;
    parameters
}

#[test]
fn contents_are_those_of_a_plain_map_also_if_reads_go_first() {
    let run = |parameters| timed(|| random_operations(parameters, 6, 8000).stats());
    let (stats, fifo) = (run(reading_first()), run(small()));
    assert!(stats.lines_erased > 100 && stats.suspended == (0, 0), "{stats}");
    assert!(stats.read_latency.sum_ns < fifo.read_latency.sum_ns, "{stats} {fifo}");
}

#[test]
fn a_seed_is_a_run() {
    for (seed, parameters) in [(0, small()), (5, small()), (7, suspending()), (7, reading_first())] {
        let once = |parameters| simulate(seed, move || random_operations(parameters, seed, 3000).stats());
        let (first, second) = (once(parameters.clone()), once(parameters));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.events > 3000);
    }
    let of = |seed| simulate(0, move || random_operations(small(), seed, 3000).stats()).trace;
    assert_ne!(of(1), of(2));
}

/// Pages that a full device copies and lines that it erases in 99 ms in which it is left alone, and in the two seconds
/// after that, by `idle_gc_lines`.
fn work_when_idle(idle_gc_lines: u32) -> [(u64, u64); 2] {
    timed(move || {
        let mut parameters = small();
        parameters.policy.over_provisioning = 0.25;
        parameters.policy.idle_gc_lines = idle_gc_lines;
        let ssd = EmulatedSsd::new(parameters, 24 * MIB).unwrap();
        let blocks = ssd.info().blocks;
        all(&ssd, (0..blocks / 8).map(|n| write(n * 8, 8, false)));
        let mut random = Random(3);
        all(&ssd, (0..20_000).map(|_| write(random.below(blocks), 1, false)));
        let work = |ssd: &EmulatedSsd| (ssd.stats().gc_programmed, ssd.stats().lines_erased);
        let during = |ssd: &EmulatedSsd, time| {
            let before = work(ssd);
            steadyfs_rt::sleep(time);
            let after = work(ssd);
            (after.0 - before.0, after.1 - before.1)
        };
        let work = [Duration::from_millis(99), Duration::from_secs(2)].map(|time| during(&ssd, time));
        all(&ssd, [Op::Flush]);
        assert_clean(&ssd);
        work
    })
}

/// A device that is left alone makes room, if it is told to; one that is used at once does not find it.
#[test]
fn an_idle_device_collects() {
    let [soon, later] = work_when_idle(12);
    assert_eq!(soon, (0, 0), "not idle for long enough");
    assert!(later.0 > 0 && later.1 >= 6, "{later:?}");
    assert_eq!(work_when_idle(0), [(0, 0); 2]);
}

#[test]
fn requests_outside_the_device_are_refused() {
    timed(|| {
        let ssd = EmulatedSsd::new(small(), 24 * MIB).unwrap();
        let end = ssd.info().blocks;
        assert_eq!(ssd.read(end, 1).unwrap_err().errno(), errno::EINVAL);
        assert_eq!(ssd.write(end - 1, vec![page(0, 0), page(0, 1)]).unwrap_err().errno(), errno::EINVAL);
        assert_eq!(ssd.run(Op::ZoneReset { block: 0 }).unwrap_err().errno(), errno::EOPNOTSUPP);
        assert!(ssd.zones().is_none() && ssd.read(end - 1, 1).is_ok());
    });
}

#[test]
fn impossible_devices_are_refused() {
    let refused = |change: fn(&mut Parameters), capacity| {
        let mut parameters = small();
        change(&mut parameters);
        EmulatedSsd::new(parameters, capacity).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(|p| p.geometry.page_bytes = 4000, MIB).contains("4 KiB"));
    assert!(refused(|p| p.geometry.channels = 0, MIB).contains("empty"));
    assert!(refused(|p| p.policy.streams = 4, MIB).contains("4 streams"));
    assert!(refused(|p| p.buffer_bytes = 32 << 10, MIB).contains("write buffer"));
    assert!(refused(|p| p.policy.over_provisioning = f64::NAN, MIB).contains("over-provisioning"));
    assert!(refused(|_| (), 4097).contains("4097"));
    assert!(refused(|_| (), 0).contains("capacity"));
    assert!(refused(|_| (), 1 << 50).contains("capacity"));
    assert!("970pro".parse::<Preset>().is_ok() && "980pro".parse::<Preset>().is_err());
}

/// The presets as they are, on small devices that are overwritten.
#[test]
fn every_preset_works() {
    for preset in Preset::ALL {
        let stats = timed(move || {
            let ssd = EmulatedSsd::new(preset.parameters().with_smaller_blocks(32), 64 * MIB).unwrap();
            let blocks = ssd.info().blocks;
            let mut random = Random(9);
            all(&ssd, (0..40_000).map(|_| write(random.below(blocks), 1, false)));
            assert_clean(&ssd);
            ssd.stats()
        });
        assert!(stats.lines_erased > 0 && stats.waf() > 1.0, "{preset:?}: {stats}");
    }
}

/// Three open lines and one unit more: no request can fill the buffer with what never leaves it.
#[test]
fn the_smallest_buffer_suffices() {
    timed(|| {
        let mut parameters = small();
        parameters.policy.streams = 3;
        parameters.buffer_bytes = 4 * parameters.geometry.unit_bytes();
        let ssd = EmulatedSsd::new(parameters, 24 * MIB).unwrap();
        let blocks = ssd.info().blocks;
        let mut random = Random(4);
        let ops = (0..3000).map(|_| {
            let (block, count) = (random.below(blocks - 64), 1 + random.below(64));
            let hint = HINTS[random.below(4) as usize];
            Op::Write { block, pages: crate::common::pages(block, count, 0), hint, fua: random.below(20) == 0 }
        });
        all(&ssd, ops);
        assert!(ssd.stats().lines_erased > 100);
        assert_clean(&ssd);
    });
}

#[test]
fn small_devices_have_lines_to_choose_from() {
    let of = |capacity| Preset::Samsung970Pro.parameters().for_capacity(capacity);
    assert_eq!(of(8 << 30), Preset::Samsung970Pro.parameters());
    let quarter = of(2 << 30);
    assert_eq!((quarter.geometry.block_pages, quarter.timing.erase), (16, Duration::from_micros(110)));
    assert_eq!((of(1).geometry.block_pages, of(0).geometry.block_pages), (1, 1));
}

/// More requests than the device takes wait outside, and all are answered.
#[test]
fn the_queue_has_a_depth() {
    timed(|| {
        let mut parameters = small();
        parameters.interface.queue_depth = 2;
        let ssd = EmulatedSsd::new(parameters, 24 * MIB).unwrap();
        all(&ssd, [write(0, 1, false), Op::Flush]);
        steadyfs_rt::sleep(Duration::from_millis(5));
        let one = crate::common::nanos(|| all(&ssd, (0..1).map(|_| Op::Read { block: 9, count: 1 })));
        let ten = crate::common::nanos(|| all(&ssd, (0..10).map(|_| Op::Read { block: 9, count: 1 })));
        // Five rounds of two, of which the second page has to wait for the link.
        assert_eq!(one, 1163 + 21_500);
        assert!((5 * one..5 * one + 5 * 1163 + 1).contains(&ten), "{one} {ten}");
    });
}

/// Outside a simulation delays are slept.
#[test]
fn in_real_time_requests_take_their_time() {
    let mut parameters = small();
    parameters.timing.program = Duration::from_millis(20);
    let ssd = EmulatedSsd::new(parameters, 24 * MIB).unwrap();
    let took = crate::common::nanos(|| {
        ssd.write(0, crate::common::pages(0, 3, 0)).unwrap();
        ssd.flush().unwrap();
    });
    assert!((20_000_000..2_000_000_000).contains(&took), "{took}");
    let threads: Vec<_> = (0..4u64)
        .map(|number| {
            let ssd = Arc::clone(&ssd);
            steadyfs_rt::spawn("user", move || {
                for round in 0..50 {
                    let block = number * 100 + round;
                    ssd.write(block, vec![page(block, number)]).unwrap();
                    assert_eq!(ssd.read_one(block).unwrap(), page(block, number));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(ssd.stats().host_written, 203);
    assert_clean(&ssd);
}
