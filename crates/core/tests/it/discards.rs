//! Discards in the background: what is sent, when, and that nothing is lost over it. Discarded blocks of the devices
//! here read as bytes that nobody wrote.

use crate::common::{assert_sound, create, in_virtual_time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{DiscardStats, FallocMode, Fs, InodeRef, MountOptions, ShutDown};
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, Op, OpKind, Record, RecordingDevice, errno};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{sleep, spawn};
use steadyfs_testkit::Rng;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

type Recorded = RecordingDevice<FaultyDevice<MemDevice>>;

/// A device with an empty volume.
fn device(mib: u64) -> Arc<Recorded> {
    let device = MemDevice::new(mib * MIB / PAGE).poisoning_discards();
    mkfs::format(&device, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    Arc::new(RecordingDevice::new(FaultyDevice::new(device)))
}

/// Only checkpoints that a test asks for, and no collection.
fn mount(device: &Arc<Recorded>, options: &str) -> Arc<Fs> {
    crate::common::mount(Arc::clone(device) as Arc<dyn Device>, &format!("commit=0,background_gc=off,{options}"))
}

/// A file of so many MiB, page by page full of a byte of its own.
fn write(fs: &Fs, name: &str, mib: u64) -> InodeRef {
    let inode = create(fs, name);
    for page in 0..mib * 256 {
        assert_eq!(fs.write(&inode, page * PAGE, &[page as u8; PAGE as usize]).unwrap(), PAGE as usize);
    }
    fs.fsync(&inode, false).unwrap();
    inode
}

fn unlink(fs: &Fs, name: &str) {
    fs.unlink(&fs.root().unwrap(), name.as_bytes()).unwrap();
}

/// Waits until nothing is sent any more.
fn settle(fs: &Fs) -> DiscardStats {
    loop {
        let before = fs.stats().discards;
        sleep(Duration::from_secs(30));
        if fs.stats().discards == before {
            return before;
        }
    }
}

/// The discards in a log: how many there are of each length in blocks.
fn lengths(log: &[Record]) -> BTreeMap<u64, usize> {
    let mut lengths = BTreeMap::new();
    for record in log {
        if let Op::Discard { count, .. } = record.op {
            *lengths.entry(count).or_default() += 1;
        }
    }
    lengths
}

/// A file of 10 MiB, in segments that no log writes to any more, loses runs of 1, 2, 15, 16, 17 and 100 blocks. Another
/// of 8 MiB is deleted; three or four of its sections become free as a whole.
fn lose_runs(options: &'static str) -> (BTreeMap<u64, usize>, DiscardStats) {
    in_virtual_time(2, move || {
        let device = device(128);
        let fs = mount(&device, options);
        let file = write(&fs, "runs", 10);
        drop(write(&fs, "whole", 8));
        drop(write(&fs, "next", 3));
        fs.sync().unwrap();
        settle(&fs);
        let from = device.log().len();
        unlink(&fs, "whole");
        // The file's pages lie side by side in their order, but for where a segment ends.
        for (at, count) in [(10, 1), (20, 2), (600, 15), (700, 16), (800, 17), (1300, 100)] {
            fs.fallocate(&file, FallocMode::PunchHole, at * PAGE, count * PAGE).unwrap();
        }
        assert_eq!(lengths(&device.log()[from..]), BTreeMap::new(), "before the checkpoint");
        fs.sync().unwrap();
        settle(&fs);
        let (log, stats) = (device.log(), fs.stats().discards);
        let commit = log[from..].iter().position(|record| matches!(record.op, Op::Write { fua: true, .. })).unwrap();
        let first = log[from..].iter().position(|record| matches!(record.op, Op::Discard { .. }));
        assert!(first.is_none_or(|first| first > commit), "before the commit");
        fs.unmount().unwrap();
        (lengths(&log[from..]), stats)
    })
}

#[test]
fn what_is_discarded_is_what_the_option_says() {
    assert_eq!(lose_runs("discard=off"), (BTreeMap::new(), DiscardStats::default()));
    let sections = |lengths: &BTreeMap<u64, usize>| lengths.get(&512).copied().unwrap_or(0);
    let (segments, stats) = lose_runs("discard=segments");
    assert!((3..=4).contains(&sections(&segments)) && segments.len() == 1, "{segments:?}");
    assert_eq!((stats.requests, stats.sections, stats.failed), (stats.sections, stats.requests, 0));
    let has = |lengths: &BTreeMap<u64, usize>, counts: &[u64]| counts.iter().all(|count| lengths.contains_key(count));
    for option in ["discard", "discard=runs:16"] {
        let (runs, stats) = lose_runs(option);
        assert!(has(&runs, &[16, 17, 100]) && sections(&runs) >= 3, "{option}: {runs:?}");
        assert!(runs.keys().all(|count| *count >= 16), "{option}: {runs:?}");
        assert!(stats.waiting_blocks >= 18, "{option}: shorter ones wait: {stats:?}");
    }
    let (runs, _) = lose_runs("discard=runs:2");
    assert!(has(&runs, &[2, 15, 16, 17, 100]) && !has(&runs, &[1]), "{runs:?}");
    let (blocks, _) = lose_runs("discard=blocks");
    assert!(has(&blocks, &[1, 2, 15, 16, 17, 100]) && sections(&blocks) >= 3, "{blocks:?}");
}

/// Every discard and every write of a log: none is of a block of another that is under way.
fn assert_apart(log: &[Record]) {
    let discards = log.iter().filter(|record| matches!(record.op, Op::Discard { .. }));
    for discard in discards {
        let (first, count) = discard.extent;
        let end = discard.completed.unwrap_or(u64::MAX);
        let meets = |record: &&Record| {
            let (at, len) = record.extent;
            let during = record.submitted < end && record.completed.unwrap_or(u64::MAX) > discard.submitted;
            matches!(record.op, Op::Write { .. }) && during && at < first + count && first < at + len
        };
        let met = log.iter().find(meets).map(|record| (record.extent, record.submitted));
        assert_eq!(met, None, "of {first}+{count} from {} to {end}", discard.submitted);
    }
}

/// The device takes 5 milliseconds for each discard. Files are written and deleted meanwhile, over more than all the
/// space there is, so every place that waits is wanted, and so are those that are at the device.
#[test]
fn a_place_is_not_taken_while_it_is_being_discarded() {
    /// Of the 169 MiB that the volume takes.
    const MOST: u64 = 100;
    for options in ["discard=segments", "discard=blocks", "discard=blocks,mode=adaptive,ssr=eager"] {
        in_virtual_time(4, move || {
            let device = device(256);
            device.inner().add(Fault::delay(Duration::from_millis(5)).on(OpKind::Discard));
            let fs = mount(&device, options);
            for round in 0..4 {
                let file = write(&fs, "file", MOST);
                for page in (0..MOST * 256).step_by(3) {
                    fs.write(&file, page * PAGE, &[7; PAGE as usize]).unwrap();
                }
                fs.fsync(&file, false).unwrap();
                fs.sync().unwrap();
                let mut page = vec![0; PAGE as usize];
                for at in 0..MOST * 256 {
                    fs.read_direct(&file, at * PAGE, &mut page).unwrap();
                    let wanted = if at % 3 == 0 { 7 } else { at as u8 };
                    assert!(
                        page.iter().all(|byte| *byte == wanted),
                        "{options}: round {round}, page {at}: {}",
                        page[0]
                    );
                }
                drop(file);
                unlink(&fs, "file");
                fs.sync().unwrap();
            }
            let stats = fs.stats().discards;
            fs.unmount().unwrap();
            assert!(stats.requests > 0 && stats.reused_blocks > 0, "{options}: {stats:?}");
            let log = device.log();
            assert_apart(&log);
            let image = Arc::new(device.inner().inner().fork());
            assert_sound(image, options);
        });
    }
}

/// Collectors, writers and the discarder want the same segments, on a volume that is nearly full.
#[test]
fn contents_survive_discards_beside_collection() {
    for (options, seed) in
        [("gc=scalelfs,discard=blocks", 1), ("gc=f2fs-lfs,discard=runs:2", 2), ("discard=segments", 3)]
    {
        let device = device(256);
        let there = Arc::clone(&device);
        let config = SimConfig { cores: 4, seed, ..SimConfig::default() };
        let report = run(config, move || {
            let fs = mount(&there, &format!("cache=1M,{options}"));
            let writers: Vec<_> = (0..3u64)
                .map(|number| {
                    let fs = Arc::clone(&fs);
                    spawn("writer", move || overwrite(&fs, number))
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            let stats = fs.stats();
            fs.unmount().unwrap();
            (stats.discards, stats.gc.done.victims)
        });
        let (stats, victims) = report.unwrap_or_else(|failure| panic!("{options}: {failure}")).value;
        assert!(stats.requests > 10 && stats.failed == 0 && victims > 0, "{options}: {stats:?}, {victims}");
        let log = device.log();
        assert_apart(&log);
        let image = Arc::new(device.inner().inner().fork());
        assert_sound(image, options);
    }
}

/// Overwrites random pages of a file, with a checkpoint now and then; in the end each page is as it was written last.
fn overwrite(fs: &Fs, number: u64) {
    const PAGES: u64 = 50 * 256;
    let file = write(fs, &format!("file{number}"), PAGES / 256);
    let mut bytes: Vec<u8> = (0..PAGES).map(|page| page as u8).collect();
    let mut random = Rng(number);
    for round in 0..8000u64 {
        let bits = random.bits();
        let (page, byte) = ((bits >> 33) % PAGES, (bits >> 45) as u8);
        fs.write(&file, page * PAGE, &[byte; PAGE as usize]).unwrap();
        bytes[page as usize] = byte;
        if round % 400 == 0 {
            fs.sync().unwrap();
        }
    }
    fs.sync().unwrap();
    let mut found = vec![0; PAGE as usize];
    for (page, byte) in bytes.iter().enumerate() {
        fs.read_direct(&file, page as u64 * PAGE, &mut found).unwrap();
        assert!(found.iter().all(|found| found == byte), "file {number}, page {page}");
    }
}

#[test]
fn a_discard_that_fails_is_counted_and_changes_nothing() {
    for (error, goes_on) in [(errno::EIO, true), (errno::EOPNOTSUPP, false)] {
        in_virtual_time(2, move || {
            let device = device(64);
            device.inner().add(Fault::fail(error).on(OpKind::Discard).times(1));
            let fs = mount(&device, "discard=blocks");
            let kept = write(&fs, "kept", 4);
            let [before, after] = ["one", "two"].map(|name| {
                drop(write(&fs, name, 6));
                unlink(&fs, name);
                fs.sync().unwrap();
                settle(&fs)
            });
            let stats = fs.stats();
            assert_eq!((before.failed, stats.discards.failed, stats.io.failed), (1, 1, 0), "{error}");
            assert_eq!(after.requests > before.requests, goes_on, "{error}: {before:?}, {after:?}");
            assert!(goes_on || stats.discards.waiting_blocks == 0, "{error}: {:?}", stats.discards);
            let mut page = vec![0; PAGE as usize];
            for at in 0..4 * 256 {
                fs.read_direct(&kept, at * PAGE, &mut page).unwrap();
                assert_eq!(page, [at as u8; PAGE as usize]);
            }
            drop(kept);
            fs.unmount().unwrap();
        });
    }
}

/// What the last checkpoint left without an owner is sent before the unmount returns, and nothing after it; a volume
/// that is shut down sends nothing more at all.
#[test]
fn the_end_of_a_mount_is_the_end_of_discards() {
    in_virtual_time(2, || {
        let device = device(128);
        let fs = mount(&device, "discard=segments");
        drop(write(&fs, "file", 20));
        fs.sync().unwrap();
        unlink(&fs, "file");
        fs.unmount().unwrap();
        let stats = fs.stats().discards;
        assert!(stats.sections >= 8 && stats.waiting_blocks == 0, "{stats:?}");
        drop(fs);
        let fs = mount(&device, "discard=segments");
        drop(write(&fs, "file", 20));
        fs.sync().unwrap();
        device.inner().add(Fault::delay(Duration::from_secs(1)).on(OpKind::Discard));
        unlink(&fs, "file");
        fs.sync().unwrap();
        sleep(Duration::from_millis(500));
        fs.shut_down(ShutDown::AtOnce).unwrap();
        let log = device.log();
        assert!(log.iter().all(|record| record.completed.is_some()), "something is under way");
        sleep(Duration::from_secs(60));
        assert_eq!(device.log().len(), log.len());
        assert!(fs.stats().discards.waiting_blocks > 0, "there was more to discard");
    });
}

#[test]
fn a_device_without_discards_is_sent_none() {
    assert!(MountOptions::parse("discard=runs:0").is_err() && MountOptions::parse("discard=runs:513").is_err());
    let plain = MemDevice::new(64 * MIB / PAGE);
    mkfs::format(&plain, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    // An overlay says that it takes none.
    let device = Arc::new(RecordingDevice::new(steadyfs_device::OverlayDevice::new(Arc::new(plain))));
    let fs = crate::common::mount(Arc::clone(&device) as Arc<dyn Device>, "commit=0,discard=blocks");
    drop(write(&fs, "file", 8));
    unlink(&fs, "file");
    fs.unmount().unwrap();
    assert_eq!((lengths(&device.log()), fs.stats().discards), (BTreeMap::new(), DiscardStats::default()));
}
