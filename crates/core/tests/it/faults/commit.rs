//! The device refuses the block that commits a checkpoint, or says so and has written it.

use super::bed::{Bed, Ends, Watch, fsck};
use super::workload::{Run, base, work};
use std::sync::Arc;
use steadyfs_core::NewInode;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, Fault, MemDevice, OpKind, errno};
use steadyfs_testkit::sampled;

/// Ways in which the write of the block fails.
fn ways() -> [(&'static str, Fault); 4] {
    [
        ("refused", Fault::fail(errno::EIO)),
        ("no room", Fault::fail(errno::ENOSPC)),
        ("torn", Fault::torn(3)),
        ("written all the same", Fault::torn(8)),
    ]
}

/// More names and node ids than a journal holds, contents, and segments that become empty.
fn change(run: &mut Run, round: u8) {
    for n in 0..60 {
        run.create(&format!("big/{round}-{n}"));
    }
    for n in 0..6 {
        run.create(&format!("{round}.{n}"));
        run.write(&format!("{round}.{n}"), 0, 160_000, round);
    }
    for n in 0..30 {
        run.unlink(&format!("big/a-name-that-takes-some-slots-{}", u32::from(round) * 30 + n));
    }
    for n in 0..6 {
        run.unlink(&format!("{}.{n}", round.wrapping_sub(2)));
    }
}

/// The first block of the main area: what lies before is metadata.
fn main_area(device: &MemDevice) -> u64 {
    let image = Image::open(Arc::new(device.fork()) as Arc<dyn Device>).expect("a volume");
    image.layout().main.get()
}

#[test]
fn the_same_block_is_written_again_until_the_device_takes_it() {
    let watch = Watch::start();
    // Each checkpoint tries twice. One of the three that fail at last is to make room: nobody hears of it, for there is
    // room without it.
    for (ends, times, told) in [(Ends::AtOnce, 1, 0), (Ends::AtOnce, 2, 1), (Ends::Later, 7, 2)] {
        for (way, fault) in ways() {
            let what = format!("{way}, {times} times, ending {ends:?}");
            watch.next(&what);
            let (volume, model) = base();
            let bed = Bed::new(volume, ends);
            let mut run = Run::new(bed.mount("errors=continue").expect("mounts"), model);
            change(&mut run, 0);
            bed.faulty.add(fault.on_durable_writes().times(times));
            for round in 1..5 {
                run.sync();
                change(&mut run, round);
            }
            assert_eq!(run.errors.len(), told, "{what}: {:?}", run.errors);
            work(&mut run);
            run.sync();
            assert_eq!(run.errors.len(), told, "{what}: {:?}", run.errors);
            run.fs.unmount().expect("a good device");
            drop(run.fs);
            let device = bed.after_crash();
            fsck(&device, &what);
            let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
            run.model.judge(&again, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            watch.check(&what);
        }
    }
}

#[test]
fn a_crash_leads_to_either_checkpoint_and_both_are_whole() {
    let watch = Watch::start();
    for (turn, (way, fault)) in (0..).zip(ways()) {
        // The device ends with each of the writes of NAT, SIT, summaries and packs that come after, or with a third of
        // them, other ones for each way.
        for nth in (turn..).step_by(sampled(3, 1)) {
            let what = format!("{way}, gone with write {nth} after that");
            watch.next(&what);
            let (volume, model) = base();
            let bed = Bed::new(volume, Ends::AtOnce);
            let mut run = Run::new(bed.mount("errors=continue").expect("mounts"), model);
            change(&mut run, 0);
            bed.faulty.add(fault.clone().on_durable_writes().times(2));
            run.sync();
            assert_eq!(run.errors.len(), 1, "{what}: {:?}", run.errors);
            let main = main_area(bed.faulty.inner());
            bed.faulty.add(Fault::disappear().on(OpKind::Write).in_blocks(0..main).nth(nth));
            for round in 1..4 {
                change(&mut run, round);
                run.sync();
            }
            let whole = run.errors.len() == 1;
            drop(run.fs);
            bed.faulty.heal();
            let device = bed.after_crash();
            fsck(&device, &what);
            let again = Bed::new(device, Ends::AtOnce).mount("").unwrap_or_else(|e| panic!("{what}: {e}"));
            run.model.judge(&again, whole).unwrap_or_else(|e| panic!("{what}: {e}"));
            watch.check(&what);
            if whole {
                assert!(nth > 10, "only {nth} writes");
                break;
            }
        }
    }
}

#[test]
fn a_volume_that_is_to_stop_stops_and_is_whole() {
    for (way, fault) in ways() {
        let (volume, model) = base();
        let bed = Bed::new(volume, Ends::AtOnce);
        let mut run = Run::new(bed.mount("errors=remount-ro").expect("mounts"), model);
        change(&mut run, 0);
        bed.faulty.add(fault.on_durable_writes().times(2));
        run.sync();
        bed.faulty.heal();
        let root = run.fs.root().expect("a root");
        assert!(run.fs.create(&root, b"more", &NewInode::default()).is_err() && run.fs.sync().is_err());
        drop((root, run.fs));
        let device = bed.after_crash();
        fsck(&device, way);
        let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
        run.model.judge(&again, false).unwrap_or_else(|e| panic!("{way}: {e}"));
    }
}
