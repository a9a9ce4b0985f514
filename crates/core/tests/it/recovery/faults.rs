//! Devices that fail in the midst of a recovery, and volumes that have hardly any room for one.

use crate::recovery::support::{
    DIR, FEATURES, Volume, assert_same, at, chain, complaints, mount, recovered, seen, tree,
};
use std::sync::Arc;
use steadyfs_core::Error;
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, OpKind, errno};

fn crashed() -> Volume {
    let v = Volume::new(FEATURES);
    v.make("d", DIR);
    v.file("d/old", 1200);
    v.fs.sync().unwrap();
    let old = at(&v.fs, "d/old");
    v.fill(&old, 1100, 200, b'n');
    v.fsync(&old);
    for n in 0..10 {
        v.fsync(&v.file(&format!("d/new-{n}"), n));
    }
    v
}

/// What a mount leaves that the fault ended; nothing if the mount does not mind.
fn fails_at(dev: &MemDevice, fault: Fault, options: &str) -> Option<MemDevice> {
    let faulty = Arc::new(FaultyDevice::new(dev.fork()));
    faulty.add(fault);
    let mounted = mount(Arc::clone(&faulty) as Arc<dyn Device>, options);
    match mounted {
        Ok(_) => None,
        Err(Error::Io(_) | Error::Corrupt(_)) => Some(faulty.inner().fork()),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn an_error_in_recovery_fails_the_mount_and_loses_nothing() {
    let v = crashed();
    let (dev, expected) = (v.crash(), tree(&v.fs));
    for (kind, least) in [(OpKind::Write, 8), (OpKind::Flush, 1)] {
        let mut n = 0;
        // From one operation on: a write that fails once is made once more.
        while let Some(after) = fails_at(&dev, Fault::fail(errno::EIO).on(kind).after(n), "") {
            assert_same(&expected, &seen(after.fork()), &format!("{kind:?} {n} failed"));
            let (tree, whole) = recovered(after);
            assert_same(&expected, &tree, &format!("{kind:?} {n} failed"));
            assert_eq!(complaints(&whole), [""; 0]);
            n += 1;
        }
        assert!(n >= least, "only {n} of {kind:?} matter");
    }
}

#[test]
fn blocks_that_cannot_be_read_fail_the_mount_and_change_nothing() {
    let v = crashed();
    let (dev, expected) = (v.crash(), tree(&v.fs));
    let mut failed = 0;
    for n in (0..240).step_by(2) {
        // Some are not needed: the second superblock, blocks of which there is another copy.
        for options in ["", "ro"] {
            if let Some(after) = fails_at(&dev, Fault::fail(errno::EIO).on(OpKind::Read).nth(n), options) {
                failed += 1;
                assert_same(&expected, &recovered(after).0, &format!("read {n} failed"));
            }
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn readers_go_without_a_chain_that_cannot_be_read() {
    let dev = crashed().crash();
    let checkpoint = tree(&mount(Arc::new(dev.fork().into_read_only()), "ro,norecovery").unwrap());
    let nodes = chain(&dev);
    for lba in [&nodes[0], &nodes[nodes.len() - 1]].map(|(lba, _)| lba.get()) {
        let faulty = Arc::new(FaultyDevice::new(dev.fork()));
        faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(lba..lba + 1));
        let faulty = || Arc::clone(&faulty) as Arc<dyn Device>;
        assert!(matches!(mount(faulty(), ""), Err(Error::Io(_))), "mounted for changes");
        assert_same(&checkpoint, &tree(&mount(faulty(), "ro").unwrap()), "no part of the chain is shown");
    }
}

#[test]
fn nearly_full_volumes_recover() {
    // Full enough for the collector to work all the time, but not for every operation to wait for it.
    for (args, mib, share) in [(&[][..], 128, 6), (&["-s", "4"], 256, 2)] {
        let v = Volume::on(crate::common::mkfs(mib, args));
        v.make("d", DIR);
        let mut files = Vec::new();
        while v.fs.statfs().blocks_free > v.fs.statfs().blocks / share {
            files.push(v.file(&format!("d/{}", files.len()), 50));
        }
        v.fs.sync().unwrap();
        let (mut state, mut crashes) = (0x5EED_0006u64, 0);
        for step in 0..1500u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let file = &files[(state >> 33) as usize % files.len()];
            v.fill(file, (state >> 20) % 48, 1 + step % 3, step as u8);
            v.fsync(file);
            if step % 97 == 0 {
                let (after, whole) = recovered(v.crash());
                assert_same(&tree(&v.fs), &after, &format!("{args:?}, step {step}"));
                assert_eq!(complaints(&whole), [""; 0], "{args:?}, step {step}");
                crashes += 1;
            }
        }
        let stats = v.fs.sync_stats();
        println!("{args:?}: {} files, {crashes} crashes, {stats:?}, {:?}", files.len(), v.fs.gc_totals());
        assert!(stats.chained > 500, "{stats:?} {:?}", v.fs.gc_totals());
    }
}
