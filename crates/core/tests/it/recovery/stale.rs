//! The stale-chain hazard: nodes of an earlier mount that nobody recovered must never become part of a later chain
//! (format section 12.3).

use crate::recovery::support::{DIR, FEATURES, Volume, assert_same, chain, complaints, mount, recovered, seen, tree};
use std::sync::Arc;
use steadyfs_device::{Device, MemDevice, PageBuf};

/// A volume whose chain has lost its first node; and the tree of its checkpoint.
fn beheaded(features: &[&str]) -> (MemDevice, crate::recovery::support::Tree) {
    let v = Volume::new(features);
    v.make("d", DIR);
    v.fs.sync().unwrap();
    let checkpoint = tree(&v.fs);
    for name in ["d/a", "d/b", "d/c"] {
        v.fsync(&v.file(name, 3));
    }
    let dev = v.crash();
    let nodes = chain(&dev);
    assert!(nodes.len() >= 3);
    dev.write(nodes[0].0.get(), vec![PageBuf::zeroed()]).unwrap();
    (dev, checkpoint)
}

#[test]
fn a_chain_without_its_beginning_stays_forgotten() {
    for features in [&[][..], FEATURES] {
        let (dev, checkpoint) = beheaded(features);
        assert_same(&checkpoint, &seen(dev.fork()), "nothing to recover");
        let v = Volume::on(dev);
        // One node per file: each takes a place where one of the old chain was, if the log went on there.
        v.fsync(&v.file("d/n", 1));
        let expected = tree(&v.fs);
        let (after, whole) = recovered(v.crash());
        assert_same(&expected, &after, "only what this mount has fsynced");
        assert_eq!(complaints(&whole), [""; 0]);
        assert!(!after.contains_key("/d/b") && !after.contains_key("/d/c"));
    }
}

#[test]
fn a_mount_that_dies_at_once_does_not_bring_it_back() {
    let (dev, checkpoint) = beheaded(&[]);
    for _ in 0..3 {
        let dev = Arc::new(dev.fork());
        drop(mount(Arc::clone(&dev) as Arc<dyn Device>, "").unwrap());
        assert!(chain(&dev).is_empty());
        assert_same(&checkpoint, &seen(dev.fork()), "after a mount");
    }
}

#[test]
fn a_dropped_chain_stays_dropped() {
    let v = Volume::new(&[]);
    v.make("d", DIR);
    v.fs.sync().unwrap();
    let checkpoint = tree(&v.fs);
    v.fsync(&v.file("d/a", 3));
    let full = tree(&v.fs);
    let dev = v.crash();
    let reader = mount(Arc::new(dev.fork().into_read_only()), "ro,norecovery").unwrap();
    assert_same(&checkpoint, &tree(&reader), "a reader who wants no recovery");
    assert_same(&full, &seen(dev.fork()), "and has not changed anything");
    let dev = Arc::new(dev);
    drop(mount(Arc::clone(&dev) as Arc<dyn Device>, "disable_roll_forward").unwrap());
    let (after, whole) = recovered(dev.fork());
    assert_same(&checkpoint, &after, "after a mount that dropped the chain");
    assert_eq!(complaints(&whole), [""; 0]);
}
