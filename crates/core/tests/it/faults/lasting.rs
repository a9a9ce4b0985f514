//! Faults that stay: bad places, a device that is gone, writers that go on meanwhile, a slow device.

use crate::common::create;
use crate::faults::bed::{Bed, Ends, Kind, Watch, fresh, fresh_of, fsck};
use crate::faults::model::find;
use crate::faults::workload::{Run, base, base_of, work};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadyfs_core::NewInode;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, Fault, MemDevice, OpKind, errno};
use steadyfs_format::Log;

/// Places all over the main area, or in the parts of all logs that a mount is going to write.
fn bad_places(kind: Kind, volume: &MemDevice) -> Vec<u64> {
    let blocks = volume.info().blocks;
    match kind {
        Kind::F2fs => (blocks / 4..blocks).step_by(37).collect(),
        Kind::Iplfs => {
            let image = Image::open(Arc::new(volume.fork()) as Arc<dyn Device>).expect("a volume");
            let header = image.log_space().expect("an IPLFS volume").header().clone();
            header.heads.iter().flat_map(|head| (head.limit.get() + 5..).step_by(37).take(60)).collect()
        }
    }
}

/// Places here and there can be read and never written: files get their data and their nodes written around them.
#[test]
fn bad_places_are_written_around() {
    let watch = Watch::start();
    for (kind, ends) in [Kind::F2fs, Kind::Iplfs].into_iter().flat_map(|kind| Ends::BOTH.map(|ends| (kind, ends))) {
        watch.next(&format!("bad places, {kind:?}, ending {ends:?}"));
        let (volume, model) = base_of(kind);
        let places = bad_places(kind, &volume);
        let bed = Bed::new(volume, ends);
        for place in places {
            bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(place..place + 1));
        }
        let mut run = Run::new(bed.mount("errors=continue").expect("mounts"), model);
        work(&mut run);
        let failed = run.fs.io_stats().failed;
        assert!(failed > 10, "only {failed} writes met a bad place");
        // Those who were told try again until it works.
        let mut rounds = 0;
        while let Err(e) = run.fs.sync() {
            rounds += 1;
            assert!(rounds < 20, "still: {e}");
        }
        run.model.all_durable();
        run.fs.unmount().expect("everything found a place");
        drop(run.fs);
        bed.faulty.heal();
        let device = bed.after_crash();
        fsck(&device, "after writing around bad places");
        let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
        run.model.judge(&again, true).unwrap_or_else(|e| panic!("{e}"));
    }
    watch.check("bad places");
}

/// Where nothing on the volume says whose a block is, what was written past the cache moves from bad places all the
/// same, and so do nodes.
#[test]
fn an_iplfs_volume_moves_data_and_nodes_from_bad_places() {
    for ends in Ends::BOTH {
        let volume = fresh_of(Kind::Iplfs);
        let image = Image::open(Arc::new(volume.fork()) as Arc<dyn Device>).expect("a volume");
        let heads = image.log_space().expect("an IPLFS volume").header().heads;
        let bed = Bed::new(volume, ends);
        let fs = bed.mount("errors=continue").expect("mounts");
        // A mount begins at the limits; the first blocks that it takes of the logs of files are bad.
        for log in [Log::WarmData, Log::WarmNode] {
            let place = heads[log.index()].limit.get();
            bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(place..place + 2));
        }
        let file = create(&fs, "file");
        assert_eq!(fs.write_direct(&file, 0, &[7; 3 * 4096]).expect_err("told").errno(), errno::EIO);
        // A checkpoint moves what was refused before it, so one fails at each bad place that it finds itself.
        let synced = (0..4).position(|_| fs.sync().is_ok());
        assert_eq!(synced, Some(2), "how many syncs failed");
        let failed = fs.io_stats().failed;
        assert!(failed >= 4, "only {failed} writes met a bad place");
        let again = Bed::new(bed.after_crash(), Ends::AtOnce).mount("").expect("mounts");
        let mut found = [0; 3 * 4096];
        let size = again.read(&find(&again, "file").expect("there"), 0, &mut found).expect("readable");
        assert!(size == found.len() && found == [7; 3 * 4096], "{size} bytes, {}", found[0]);
        fsck(&bed.after_crash(), "after moving from bad places");
    }
}

/// Writers on a device that takes nothing any more: an error after a while, and bounded memory, instead of a hang.
#[test]
fn writers_hear_of_a_device_that_is_gone() {
    let watch = Watch::start();
    watch.next("a device that is gone");
    for options in ["cache=4M,errors=continue", "cache=4M,errors=remount-ro"] {
        let bed = Bed::new(fresh(), Ends::Later);
        let fs = bed.mount(options).expect("mounts");
        let file = create(&fs, "file");
        fs.write(&file, 0, &[1; 8192]).expect("room");
        fs.sync().expect("a good device");
        bed.faulty.add(Fault::disappear());
        let mut written = 0;
        let failure = loop {
            match fs.write(&file, 8192 + written, &[2; 65_536]) {
                Ok(n) => written += n as u64,
                Err(e) => break e,
            }
            assert!(written < 48 << 20, "it goes on for ever");
        };
        assert!(matches!(failure.errno(), 5 | 28 | 30), "{failure}");
        let stats = fs.cache_stats();
        assert!(stats.dirty <= stats.limit, "{stats:?}");
        assert!(fs.fsync(&file, false).is_err() && fs.sync().is_err());
        let mut found = [0; 8192];
        fs.read(&file, 0, &mut found).expect("cached");
        assert!(fs.unmount().is_err());
        drop((file, fs));
        bed.faulty.heal();
        let device = bed.after_crash();
        fsck(&device, options);
        let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
        again.read(&find(&again, "file").expect("there"), 0, &mut found).expect("readable");
        assert_eq!(found, [1; 8192], "what was synced");
    }
    watch.check("a device that is gone");
}

/// The same device comes back: nothing was lost.
#[test]
fn a_device_that_comes_back_gets_everything() {
    let watch = Watch::start();
    watch.next("a device that comes back");
    let (volume, model) = base();
    let bed = Bed::new(volume, Ends::Later);
    let mut run = Run::new(bed.mount("errors=continue").expect("mounts"), model);
    run.create("before");
    run.write("before", 0, 200_000, 33);
    // Writes fail for a while, reads do not: a full backing file, a path that is down.
    bed.faulty.add(Fault::fail(errno::ENOSPC).on(OpKind::Write));
    run.fsync("before");
    run.sync();
    assert!(run.errors.iter().all(|e| e.errno() == 28) && run.errors.len() == 2, "{:?}", run.errors);
    for n in 0..40 {
        run.create(&format!("during{n}"));
        run.write(&format!("during{n}"), 0, 30_000, n);
    }
    bed.faulty.heal();
    // The flusher may have met the fault since; each sync tells of what is new.
    let synced = (0..3).any(|_| run.fs.sync().is_ok());
    assert!(synced);
    run.model.all_durable();
    drop(run.fs);
    let device = bed.after_crash();
    fsck(&device, "after the device came back");
    let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
    run.model.judge(&again, true).unwrap_or_else(|e| panic!("{e}"));
    watch.check("a device that comes back");
}

/// Spikes of latency delay who waits for them and nobody for ever.
#[test]
fn latency_spikes_only_delay() {
    let watch = Watch::start();
    watch.next("latency");
    let (volume, model) = base();
    let bed = Bed::new(volume, Ends::Later);
    for (kind, nth) in [(OpKind::Read, 3), (OpKind::Write, 5), (OpKind::Write, 20), (OpKind::Flush, 2)] {
        bed.faulty.add(Fault::delay(Duration::from_millis(300)).on(kind).nth(nth));
    }
    let begin = Instant::now();
    let mut run = Run::new(bed.mount("").expect("mounts"), model);
    work(&mut run);
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    assert!(begin.elapsed() >= Duration::from_millis(600), "the spikes were felt");
    run.fs.unmount().expect("a good device");
    let again = Bed::new(bed.after_crash(), Ends::AtOnce).mount("").expect("mounts");
    run.model.judge(&again, true).unwrap_or_else(|e| panic!("{e}"));
    drop(Arc::clone(&run.fs));
    watch.check("latency");
}

/// Where sections are short and the device refuses every checkpoint, changes go on with what is kept for checkpoints,
/// and hear of the device only when that is used up. What was done meanwhile is there when the device recovers.
#[test]
fn a_refused_checkpoint_fails_nobody_for_whom_there_is_room() {
    let watch = Watch::start();
    watch.next("checkpoints for room are refused");
    let bed = Bed::new(fresh(), Ends::AtOnce);
    let fs = bed.mount("mode=lfs,errors=continue").expect("mounts");
    let file = create(&fs, "file");
    let pages = fs.statfs().blocks_free * 3 / 4;
    (0..pages).for_each(|page| assert_eq!(fs.write_direct(&file, page * 4096, &[1; 4096]).expect("room"), 4096));
    for page in (0..pages).map(|n| n * 7919 % pages) {
        if fs.gc_totals().victims > 0 {
            break;
        }
        fs.write_direct(&file, page * 4096, &[2; 4096]).expect("room");
    }
    assert!(fs.gc_totals().victims > 0, "room never was short");
    bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Write));
    let root = fs.root().expect("a root");
    let mut refused_after = None;
    let mut made = 0;
    let failure = loop {
        let name = format!("made{made}");
        match fs.create(&root, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() }) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
        if refused_after.is_none() && fs.io_stats().failed > 0 {
            refused_after = Some(made);
        }
        assert!(made < 100_000, "it goes on for ever");
    };
    let refused_after = refused_after.expect("the first refused checkpoint failed nobody");
    assert!(failure.errno() == errno::EIO && made > refused_after + 100, "{failure}: {refused_after} of {made}");
    bed.faulty.heal();
    fs.sync().expect("a good device");
    create(&fs, "last");
    fs.unmount().expect("a good device");
    drop((file, root, fs));
    let device = bed.after_crash();
    fsck(&device, "after checkpoints were refused");
    let again = Bed::new(device, Ends::AtOnce).mount("").expect("mounts");
    (0..made).for_each(|n| drop(find(&again, &format!("made{n}")).expect("made meanwhile")));
    watch.check("checkpoints for room are refused");
}
