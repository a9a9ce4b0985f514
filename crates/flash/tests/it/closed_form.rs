//! Times that follow from the parameters by hand: each test computes what the model must give and compares to the
//! nanosecond, or, where many operations overlap, to a thousandth.

use crate::common::{KIB, MIB, Random, all, assert_clean, nanos, pages, timed, write};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op};
use steadyfs_flash::{Duplex, EmulatedSsd, Order, Parameters, Preset, Suspendable, Suspension};

fn ssd(parameters: Parameters, capacity: u64) -> Arc<EmulatedSsd> {
    EmulatedSsd::new(parameters, capacity).unwrap_or_else(|error| panic!("{error}"))
}

fn p970() -> Parameters {
    Preset::Samsung970Pro.parameters()
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn near(measured: f64, expected: f64, part: f64) {
    assert!((measured / expected - 1.0).abs() < part, "{measured} instead of {expected}");
}

/// One chip on one channel.
fn one_chip() -> Parameters {
    let mut parameters = p970();
    parameters.geometry.channels = 1;
    parameters.geometry.chips_per_channel = 1;
    parameters
}

/// By the profile's sums: 5.6 us for an idle 4 KiB write, 107 us for 256 KiB.
#[test]
fn an_idle_write_takes_link_and_firmware() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        assert_eq!(nanos(|| all(&ssd, [write(0, 1, false)])), 1163 + 4000 + 460);
        assert_eq!(nanos(|| all(&ssd, [write(100, 64, false)])), 64 * 1163 + 4000 + 64 * 460);
        assert_clean(&ssd);
    });
}

/// 57.3 us for an even row, 69.3 us for an odd one.
#[test]
fn an_idle_read_takes_sense_channel_link_and_firmware() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        all(&ssd, [write(0, 4096, false), Op::Flush]);
        steadyfs_rt::sleep(Duration::from_millis(50));
        let read = |block, count| nanos(|| drop(ssd.read(block, count).unwrap()));
        let transfer = 4883; // 4 KiB at 800 MiB/s
        assert_eq!(read(0, 1), 29_760 + transfer + 1163 + 21_500);
        assert_eq!(read(16 * 8, 1), 41_760 + transfer + 1163 + 21_500);
        // A unit of 32 KiB is sensed once and leaves in two pieces: the link carries the first while the channel
        // carries the second.
        assert_eq!(read(0, 8), 30_013 + 2 * 19_531 + 4650 + 30_490);
        // Nothing was ever written here: only the link and the firmware.
        assert_eq!(read(40_000, 1), 1163 + 21_500);
        assert_eq!(ssd.stats().flash_read, 10);
        assert_clean(&ssd);
    });
}

#[test]
fn what_is_in_the_buffer_is_not_read_from_flash() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        all(&ssd, [write(0, 12, false)]);
        let took = nanos(|| assert_eq!(ssd.read(0, 12).unwrap(), pages(0, 12, 0)));
        assert!(took < 12 * 1163 + 30_490 + 10, "{took}");
        assert_eq!(ssd.stats().flash_read, 0);
        steadyfs_rt::sleep(Duration::from_millis(5));
        drop(ssd.read(0, 12).unwrap());
        assert_eq!(ssd.stats().flash_read, 8, "the unit that was full has been programmed");
    });
}

#[test]
fn one_chip_programs_a_unit_in_its_time() {
    timed(|| {
        let ssd = ssd(one_chip(), 64 * MIB);
        let units = 500u64;
        let took = nanos(|| {
            all(&ssd, (0..units).map(|unit| write(unit * 8, 8, false)));
            ssd.flush().unwrap();
        });
        let unit = 39_063 + 185_000;
        // The first unit crosses the link before it can be transferred.
        near(took as f64, (units * unit + 8 * 1163) as f64, 0.0002);
        let mb_per_second = (units * 32 * KIB) as f64 / took as f64 * 1000.0;
        near(mb_per_second, 146.2, 0.002);
        assert_clean(&ssd);
    });
}

#[test]
fn all_chips_program_side_by_side() {
    timed(|| {
        let ssd = ssd(p970(), 512 * MIB);
        let bytes = 256 * MIB;
        let took = nanos(|| {
            all(&ssd, (0..bytes / (32 * KIB)).map(|unit| write(unit * 8, 8, false)));
            ssd.flush().unwrap();
        });
        // 16 chips, two of which share a channel that is busy a third of the time: 2.34 GB/s.
        let rate = 16.0 * 32_768.0 / (39_063.0 + 185_000.0);
        near(bytes as f64 / took as f64, rate, 0.003);
        let stats = ssd.stats();
        near(stats.utilisation().1, 1.0, 0.01);
        near(stats.utilisation().0, 2.0 * 39_063.0 / (39_063.0 + 185_000.0), 0.01);
        assert_eq!((stats.host_programmed, stats.padding, stats.gc_programmed), (bytes / 4096, 0, 0));
        assert_clean(&ssd);
    });
}

#[test]
fn many_reads_go_at_the_speed_of_the_link() {
    timed(|| {
        let ssd = ssd(p970(), 512 * MIB);
        let bytes = 256 * MIB;
        all(&ssd, (0..bytes / (256 * KIB)).map(|part| write(part * 64, 64, false)).chain([Op::Flush]));
        let reads = (0..bytes / (256 * KIB)).map(|part| Op::Read { block: part * 64, count: 64 });
        let took = nanos(|| all(&ssd, reads));
        // 8 channels of 800 MiB/s are faster than a link of 3360 MiB/s; so are 16 chips, which sense 32 KiB in 36 us
        // and deliver it in 39.
        near(bytes as f64 / took as f64 * 1e9 / MIB as f64, 3360.0, 0.01);
        near(ssd.stats().link_busy_ns.1 as f64, (bytes as f64 / (3360.0 * MIB as f64)) * 1e9, 0.001);
    });
}

#[test]
fn a_flush_pads_what_waits_and_waits_for_it() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        assert_eq!(nanos(|| all(&ssd, [Op::Flush])), 4000, "nothing to write");
        all(&ssd, [write(0, 3, false)]);
        steadyfs_rt::sleep(Duration::from_millis(1));
        assert_eq!(ssd.stats().host_programmed, 0, "a unit that is not full waits");
        assert_eq!(nanos(|| all(&ssd, [Op::Flush])), 39_063 + 185_000 + 4000);
        let stats = ssd.stats();
        assert_eq!((stats.host_programmed, stats.padding), (3, 5));
        assert_clean(&ssd);
    });
}

#[test]
fn fua_waits_for_its_own_program() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        let took = nanos(|| all(&ssd, [write(0, 1, true)]));
        assert_eq!(took, 1163 + 39_063 + 185_000, "longer than the firmware");
        assert_eq!(ssd.stats().padding, 7);
        let mut with_capacitors = p970();
        with_capacitors.power_loss_protection = true;
        let other = self::ssd(with_capacitors, 256 * MIB);
        assert_eq!(nanos(|| all(&other, [write(0, 1, true)])), 1163 + 4000 + 460);
        assert_eq!(nanos(|| all(&other, [Op::Flush])), 4000);
        assert_eq!(other.stats().padding, 0);
    });
}

/// One chip that begins with these writes, a flush that waits for them, and a read of another unit 100 us later: what
/// the read and the flush take in nanoseconds, and what was suspended.
fn read_beside_a_flush(suspension: Suspension, writes: Vec<Op>) -> (u64, u64, (u64, u64)) {
    timed(move || {
        let ssd = ssd(Parameters { suspension, ..one_chip() }, 64 * MIB);
        all(&ssd, [write(0, 8, false)]);
        ssd.flush().unwrap();
        all(&ssd, writes);
        let other = Arc::clone(&ssd);
        let flush = steadyfs_rt::spawn("flush", move || nanos(|| other.flush().unwrap()));
        steadyfs_rt::sleep(Duration::from_micros(100));
        let read = nanos(|| drop(ssd.read(0, 1).unwrap()));
        let flush = flush.join().unwrap();
        assert_clean(&ssd);
        let stats = ssd.stats();
        assert!(stats.flush_latency.max_ns >= flush, "counted as it was");
        (read, flush, stats.suspended)
    })
}

/// One chip with a program of 185 us under way: a read of another unit suspends it. By the profile's sums the read
/// takes 40 us to be let in, and the time of a read of an idle chip. The flush is answered when the program has ended.
/// That is later by the read, by letting go and by 8 us to go on.
#[test]
fn a_read_suspends_a_program_and_the_flush_that_waits_for_it_is_answered_later() {
    let suspension = Suspension {
        what: Suspendable::Program,
        program: Duration::from_micros(40),
        resume: Duration::from_micros(8),
        ..p970().suspension
    };
    let run = |suspension| read_beside_a_flush(suspension, vec![write(8, 3, false)]);
    let (on_chip, idle_read, program) = (29_760 + 4883, 29_760 + 4883 + 1163 + 21_500, 39_063 + 185_000);
    let off = Suspension { what: Suspendable::Off, ..suspension };
    assert_eq!(run(off), (program - 100_000 + idle_read, program + 4000, (0, 0)));
    assert_eq!(run(suspension), (40_000 + idle_read, program + 40_000 + on_chip + 8000 + 4000, (1, 0)));
}

/// One chip with a program under way and another one behind it. A read waits for the first, and not for the second; the
/// flush waits for both, so the read makes it later.
#[test]
fn a_read_goes_before_a_program_that_has_not_begun_and_the_flush_that_waits_for_it_is_answered_later() {
    let run = |order| {
        let writes = vec![write(8, 8, false), write(16, 8, false)];
        let (read, flush, suspended) = read_beside_a_flush(Suspension { order, ..p970().suspension }, writes);
        assert_eq!(suspended, (0, 0));
        (read, flush)
    };
    // The second program's data crosses the channel when that was booked, and the page that was read after it.
    let (on_chip, program, channel) = (29_760 + 4883, 39_063 + 185_000, 39_063 - 29_760);
    let ((fifo, flush), (first, later)) = (run(Order::Fifo), run(Order::ReadFirst));
    assert_eq!((fifo - first, later - flush), (program - channel, on_chip + channel));
}

/// The buffer of the smallest device that there can be is full: a write goes on when the program has ended, also if
/// reads have put that off.
#[test]
fn the_room_of_a_suspended_program_is_taken_until_it_ends() {
    let run = |what: Suspendable| {
        timed(move || {
            let suspension = Suspension { what, program: Duration::ZERO, limit: 100, ..p970().suspension };
            let ssd = ssd(Parameters { suspension, buffer_bytes: 2 * 32 * KIB, ..one_chip() }, 64 * MIB);
            all(&ssd, [write(0, 8, false)]);
            ssd.flush().unwrap();
            // Two units are in the buffer, one of them is being programmed: the third has no room.
            all(&ssd, [write(8, 8, false), write(16, 8, false)]);
            let other = Arc::clone(&ssd);
            let third = steadyfs_rt::spawn("third", move || nanos(|| all(&other, [write(24, 8, false)])));
            // The next program has its time on the channel after 233 us, when all reads are done.
            steadyfs_rt::sleep(Duration::from_micros(25));
            (0..3).for_each(|_| drop(ssd.read(0, 1).unwrap()));
            assert_clean(&ssd);
            third.join().unwrap()
        })
    };
    // Three reads of 34,643 ns on the chip, in which the program does not go on.
    assert_eq!(run(Suspendable::Program), run(Suspendable::Off) + 3 * (29_760 + 4883));
}

/// Reads and writes at once on a link that carries one direction at a time: together no more than its rate.
#[test]
fn a_half_duplex_link_is_shared() {
    let run = |duplex: Duplex| {
        timed(move || {
            let mut parameters = p970();
            parameters.interface.duplex = duplex;
            // Nothing was ever written where the reads go: only the link and the firmware work for them.
            let ssd = ssd(parameters, 512 * MIB);
            let writes = (0..4u64).map(|part| write(part * 64, 64, false));
            let reads = (0..4u64).map(|part| Op::Read { block: 65_536 + part * 64, count: 64 });
            let took = nanos(|| all(&ssd, writes.chain(reads)));
            assert_clean(&ssd);
            (took, ssd.stats().link_busy_ns)
        })
    };
    let way = 4 * 64 * 1163;
    assert_eq!(run(Duplex::Full), (way + 4000 + 64 * 460, (way, way)));
    assert_eq!(run(Duplex::Half), (2 * way + 4000 + 64 * 460, (way, way)));
}

/// One chip, every line overwritten as a whole: no copies, and an erase for each block programmed.
#[test]
fn erases_take_their_time() {
    timed(|| {
        let mut parameters = one_chip();
        parameters.timing.erase = Duration::from_millis(3);
        let erase = ns(parameters.timing.erase);
        let ssd = ssd(parameters, 64 * MIB);
        let round = || all(&ssd, (0..64 * MIB / (32 * KIB)).map(|unit| write(unit * 8, 8, false)));
        (0..3).for_each(|_| round());
        let before = ssd.stats();
        let took = nanos(|| (0..10).for_each(|_| round()));
        let after = ssd.stats();
        let (units, erases) = (10 * 64 * MIB / (32 * KIB), after.lines_erased - before.lines_erased);
        assert_eq!(after.gc_programmed, 0, "whole lines are overwritten");
        assert!((310..=330).contains(&erases), "{erases} lines of 2 MiB");
        near(took as f64, (units * (39_063 + 185_000) + erases * erase) as f64, 0.002);
        assert_clean(&ssd);
    });
}

#[test]
fn discards_take_their_time_and_free_pages() {
    timed(|| {
        let ssd = ssd(p970(), 256 * MIB);
        all(&ssd, [write(0, 1000, false)]);
        assert_eq!(nanos(|| ssd.discard(0, 600).unwrap()), 20_000 + 600 * 10);
        assert_eq!(ssd.read(599, 2).unwrap(), [steadyfs_device::PageBuf::zeroed(), crate::common::page(600, 0)]);
        assert_eq!(ssd.stats().space.mapped, 400);
        assert_clean(&ssd);
    });
}

/// A full buffer lets the host in as fast as units are programmed; reads meanwhile queue behind no more than a buffer's
/// worth.
#[test]
fn a_full_buffer_holds_up_writes_and_not_reads() {
    timed(|| {
        let ssd = ssd(p970(), 512 * MIB);
        all(&ssd, [write(0, 1024, false)]);
        ssd.flush().unwrap();
        let writer = Arc::clone(&ssd);
        let writes = steadyfs_rt::spawn("writer", move || {
            nanos(|| all(&writer, (16..1016u64).map(|part| write(part * 64, 64, false))))
        });
        steadyfs_rt::sleep(Duration::from_millis(20));
        let mut random = Random(1);
        let mut longest = 0;
        for _ in 0..100 {
            longest = longest.max(nanos(|| drop(ssd.read(random.below(1024), 1).unwrap())));
        }
        let bytes = (250 * MIB) as f64;
        let took = writes.join().unwrap() as f64;
        near(bytes / took, 16.0 * 32_768.0 / 224_063.0, 0.02);
        // 1 MiB over 16 chips: two units ahead of a read, and a third while others lag behind; then the channel.
        assert!(longest < 3 * 224_063 + 70_000, "{longest}");
        assert_clean(&ssd);
    });
}
