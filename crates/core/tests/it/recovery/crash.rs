//! A crash in recovery, and in the recovery of that: at every write, with whatever part of the unflushed writes, the
//! same files come back.

use crate::recovery::support::{
    DIR, FEATURES, FILE, Tree, Volume, assert_same, at, chain, complaints, mount, recovered, seen,
};
use std::sync::Arc;
use steadyfs_core::{NewInode, XattrFlags};
use steadyfs_device::{CrashImage, Device, MemDevice, Record, RecordingDevice};
use steadyfs_testkit::{XorShift, images, sampled};

/// What a mount of a crashed volume writes.
fn log_of_mount(crashed: &MemDevice) -> Vec<Record> {
    let dev = Arc::new(RecordingDevice::new(crashed.fork()));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, "").unwrap();
    let log = dev.log();
    drop(fs);
    log
}

/// The device at moments of its recovery: after every write, with nothing, everything and parts of what was not
/// flushed.
fn states(crashed: &MemDevice, log: &[Record], choices: &mut XorShift, samples: usize) -> Vec<(String, MemDevice)> {
    let mut out = Vec::new();
    for record in log {
        let at = record.submitted;
        let image = || CrashImage::new(crashed, log).at(at);
        out.push((format!("at {at}, nothing unflushed"), image().build()));
        out.push((format!("at {at}, everything"), image().keep_if(|_| true).build()));
        for sample in 0..samples {
            let seed = choices.bits();
            let keep = move |index: usize| (seed >> (index % 61)) & 1 == 1;
            out.push((format!("at {at}, part {sample} ({seed:x})"), image().keep_if(keep).build()));
        }
        if let Some(&last) = image().volatile().last() {
            let torn = choices.bits();
            let image =
                image().keep_if(move |index| index != last).tear(last, move |piece| (torn >> (piece % 64)) & 1 == 1);
            out.push((format!("at {at}, the last one torn ({torn:x})"), image.build()));
        }
    }
    out
}

/// Recovers `crashed` again and again, with crashes on the way, `depth` deep.
fn explore(crashed: &MemDevice, expected: &Tree, choices: &mut XorShift, samples: usize, depth: usize) -> usize {
    let log = log_of_mount(crashed);
    assert!(log.len() >= 3, "a mount writes a checkpoint: {log:?}");
    let mut count = 0;
    for (n, (what, dev)) in states(crashed, &log, choices, samples).into_iter().enumerate() {
        assert_same(expected, &seen(dev.fork()), &what);
        let (tree, whole) = recovered(dev.fork());
        assert_same(expected, &tree, &what);
        if n % 8 == 0 {
            assert_eq!(complaints(&whole), [""; 0], "{what}");
        }
        count += 1;
        if depth > 1 && n % 29 == 0 {
            count += explore(&dev, expected, choices, 0, depth - 1);
        }
    }
    count
}

/// A volume of ours whose chain has files of every shape, in the segment of the checkpoint's logs and beyond.
fn ours(features: &[&str]) -> Volume {
    let v = Volume::new(features);
    v.make("d", DIR);
    for n in 0..40 {
        v.file(&format!("d/old-{n}"), 3);
    }
    v.file("d/large", 1500);
    v.fs.sync().unwrap();
    for n in 0..30 {
        let file = at(&v.fs, &format!("d/old-{n}"));
        v.fill(&file, 1, 4, b'n');
        v.fsync(&file);
        v.fsync(&v.file(&format!("d/new-{n}"), n % 4));
    }
    let large = at(&v.fs, "d/large");
    v.fill(&large, 1000, 600, b'l');
    v.fs.setxattr(&large, b"user.a", &[3; 3000], XattrFlags::default()).unwrap();
    v.fsync(&large);
    let dir = at(&v.fs, "d");
    v.fs.unlink(&dir, b"old-35").unwrap();
    v.fsync(&v.file("d/old-35", 2));
    v
}

#[test]
fn a_crash_in_recovery_loses_nothing() {
    let mut choices = XorShift(0x5EED_0001);
    for features in [&[][..], FEATURES] {
        let v = ours(features);
        assert!(v.fs.sync_stats().chained > 60, "{:?}", v.fs.sync_stats());
        let (crashed, expected) = (v.crash(), crate::recovery::support::tree(&v.fs));
        drop(v);
        let count = explore(&crashed, &expected, &mut choices, 2, 2);
        println!("{count} states");
        assert!(count > 60);
    }
}

#[test]
fn a_chain_of_several_segments_survives_its_recovery() {
    let v = Volume::new(&[]);
    v.make("d", DIR);
    v.file("d/first", 3);
    v.fs.sync().unwrap();
    for n in 0..30 {
        v.fsync(&v.file(&format!("d/new-{n}"), 2));
    }
    // The chain goes on in segments that were free at the checkpoint, and so are those that a recovery takes.
    let log = at(&v.fs, "d/first");
    for n in 0..1100 {
        v.fill(&log, n % 5, 1, n as u8);
        v.fsync(&log);
    }
    assert!(chain(&v.crash()).len() > 1100);
    let mut choices = XorShift(0x5EED_0005);
    let count = explore(&v.crash(), &crate::recovery::support::tree(&v.fs), &mut choices, 1, 1);
    println!("{count} states");
}

/// Batches name contents that no file has after the recovery: those of a file that the checkpoint has without a name.
/// What was promised behind them rests on them until recovery's checkpoint, at every operation before.
#[test]
fn contents_of_nobody_survive_a_recovery() {
    for pages in [0, 300, 512, 900] {
        let v = Volume::on_with(
            crate::common::mkfs(256, &[]),
            "journal=single,background_gc=off,commit=0,journal.commit=0",
        );
        let (used, root) = (v.make("used", FILE), v.fs.root().unwrap());
        let nameless = v.fs.tmpfile(&root, &NewInode { mode: FILE, ..NewInode::default() }).unwrap();
        v.fs.sync().unwrap();
        for page in 0..pages {
            v.fs.write_direct(&used, page * 4096, &[1; 4096]).unwrap();
        }
        for n in 0..700 {
            v.fs.write(&nameless, n % 20 * 4096, &[n as u8; 4096]).unwrap();
            v.fsync(&nameless);
        }
        for n in 0..60 {
            v.make(&format!("d{n}"), DIR);
            v.make(&format!("d{n}/f"), FILE);
        }
        v.fsync(&root);
        let crashed = v.crash();
        let log = log_of_mount(&crashed);
        for n in 0..=log.len() {
            let (after, _) = recovered(steadyfs_device::image_at(&crashed, &log[..n]));
            assert!(after.contains_key("/d59"), "{pages} pages, cut behind {n} of {} operations", log.len());
        }
    }
}

#[test]
fn a_crash_in_the_recovery_of_what_linux_fsynced_loses_nothing() {
    let mut choices = XorShift(0x5EED_0002);
    for name in ["fsync-chain-features", "fsync-checkpoint"] {
        let crashed = crate::common::load(images::recipe(name).unwrap().image().unwrap().path);
        let (expected, whole) = recovered(crashed.fork());
        assert!(complaints(&whole).iter().all(|what| what.contains("quota")), "{:?}", complaints(&whole));
        let log = log_of_mount(&crashed);
        let mut count = 0;
        for (what, dev) in states(&crashed, &log, &mut choices, 1).into_iter().step_by(sampled(5, 1)) {
            assert_same(&expected, &recovered(dev).0, &what);
            count += 1;
        }
        println!("{name}: {count} states");
    }
}
