//! Devices that fail in the midst of a recovery, and volumes that have hardly any room for one.

use crate::recovery::support::{
    DIR, FEATURES, FILE, Volume, assert_same, at, chain, complaints, fresh, mount, recovered, seen, tree,
};
use std::sync::Arc;
use steadyfs_core::{Error, NewInode, XattrFlags};
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, OpKind, errno};
use steadyfs_testkit::Rng;

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

/// A volume whose chain has batches of the journal, several blocks each, with nodes between them.
fn crashed_with_a_journal() -> Volume {
    let dev = Arc::new(fresh(FEATURES));
    let fs = mount(Arc::clone(&dev) as Arc<dyn Device>, "journal=single").unwrap();
    let v = Volume { dev, fs };
    let old = v.file("old", 3);
    v.fs.sync().unwrap();
    for n in 0..4 {
        let dir = v.make(&format!("d{n}"), DIR);
        for file in 0..20 {
            let file = v.make(&format!("d{n}/{file}"), FILE);
            v.fs.setxattr(&file, b"user.long", &[n; 1000], XattrFlags::default()).unwrap();
        }
        v.fill(&old, u64::from(n), 2, n);
        v.fsync(&old);
        v.fsync(&dir);
    }
    assert_eq!(v.fs.sync_stats().checkpoints.values().sum::<u64>(), 0, "all of it is in the chain");
    assert!(v.fs.journal_stats().blocks >= 16, "{:?}", v.fs.journal_stats());
    v
}

/// What a mount leaves that the fault ended; nothing if the mount does not mind.
fn fails_at(dev: &MemDevice, fault: Fault, options: &str) -> Option<MemDevice> {
    let faulty = Arc::new(FaultyDevice::new(dev.fork()));
    faulty.add(fault);
    let mounted = mount(Arc::clone(&faulty) as Arc<dyn Device>, options);
    match mounted {
        Ok(_) => None,
        Err(error) if matches!(error.cause(), Error::Io(_) | Error::Corrupt(_)) => Some(faulty.inner().fork()),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn an_error_in_recovery_fails_the_mount_and_loses_nothing() {
    errors_in_recovery(&crashed());
    errors_in_recovery(&crashed_with_a_journal());
}

fn errors_in_recovery(v: &Volume) {
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
    unreadable_blocks(&crashed(), 2);
    unreadable_blocks(&crashed_with_a_journal(), 1);
}

/// One read in `step` fails, each in turn.
fn unreadable_blocks(v: &Volume, step: usize) {
    let (dev, expected) = (v.crash(), tree(&v.fs));
    let mut failed = 0;
    for n in (0..120 * step as u64).step_by(step) {
        // Some are not needed: the second superblock, blocks of which there is another copy, as of a pack's header.
        for options in ["", "ro"] {
            if let Some(after) = fails_at(&dev, Fault::fail(errno::EIO).on(OpKind::Read).nth(n), options) {
                failed += 1;
                assert_same(&expected, &recovered(after).0, &format!("read {n} failed"));
            }
        }
    }
    assert!(failed > 7, "{failed}");
}

#[test]
fn readers_go_without_a_chain_that_cannot_be_read() {
    unreadable_chain(&crashed().crash());
    unreadable_chain(&crashed_with_a_journal().crash());
}

fn unreadable_chain(dev: &MemDevice) {
    let checkpoint = tree(&mount(Arc::new(dev.fork().into_read_only()), "ro,norecovery").unwrap());
    let nodes = chain(dev);
    for lba in [&nodes[0], &nodes[nodes.len() - 1]].map(|(lba, _)| lba.get()) {
        let faulty = Arc::new(FaultyDevice::new(dev.fork()));
        faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(lba..lba + 1));
        let faulty = || Arc::clone(&faulty) as Arc<dyn Device>;
        let refused = mount(faulty(), "").err().expect("mounted for changes");
        assert!(matches!(refused.cause(), Error::Io(_)), "{refused}");
        assert_same(&checkpoint, &tree(&mount(faulty(), "ro").unwrap()), "no part of the chain is shown");
    }
}

/// The device refuses a write while the journal is at work: whatever an fsync acknowledged is there after a crash.
#[test]
fn a_refused_write_loses_nothing_that_the_journal_acknowledged() {
    let base = fresh(FEATURES);
    let (mut n, mut failed, mut refused) = (0, 0, true);
    while refused {
        // Once, and for as long as a few attempts take.
        for times in [1, 3] {
            let faulty = Arc::new(FaultyDevice::new(base.fork()));
            let fs = mount(Arc::clone(&faulty) as Arc<dyn Device>, "journal=single,errors=continue").unwrap();
            let root = fs.root().unwrap();
            let before = fs.io_stats().failed;
            faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).after(n).times(times));
            let (mut made, mut promised) = (Vec::new(), 0);
            for round in 0..6 {
                let name = format!("a long name, so that a batch has more than one block: {round}");
                let file = fs.create(&root, name.as_bytes(), &NewInode { mode: FILE, ..NewInode::default() });
                let Ok(file) = file else { continue };
                fs.setxattr(&file, b"user.long", &[7; 3000], XattrFlags::default()).unwrap();
                made.push(name);
                match fs.fsync(&root, false) {
                    Ok(()) => promised = made.len(),
                    Err(Error::Io(_)) => failed += 1,
                    Err(e) => panic!("write {n}: {e}"),
                }
            }
            refused = fs.io_stats().failed > before;
            let (after, whole) = recovered(faulty.inner().fork());
            let lost: Vec<_> =
                made[..promised].iter().filter(|name| !after.contains_key(&format!("/{name}"))).collect();
            assert!(lost.is_empty(), "write {n} failed, {times} times: {lost:?}");
            assert_eq!(complaints(&whole), [""; 0], "write {n} failed, {times} times");
        }
        n += 1;
    }
    assert!(n > 12 && failed > 0, "{n} writes, {failed} fsyncs failed");
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
        let (mut random, mut crashes) = (Rng(0x5EED_0006), 0);
        for step in 0..1500u64 {
            let bits = random.bits();
            let file = &files[(bits >> 33) as usize % files.len()];
            v.fill(file, (bits >> 20) % 48, 1 + step % 3, step as u8);
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
