//! Fsyncs that need the metadata journal at the same time, in virtual time: a batch serves all who waited while it was
//! sealed, and everything that an fsync promised is there after a crash.

use crate::common::{make, mount};
use std::sync::Arc;
use steadyfs_core::InodeRef;
use steadyfs_device::{Device, MemDevice};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::spawn;

const CLIENTS: usize = 16;
const ROUNDS: usize = 20;

/// Each client makes files in a directory of its own, and syncs the directory after each; how many batches that takes.
fn batches(options: &'static str, seed: u64) -> u64 {
    let work = move || {
        let device = MemDevice::new((128 << 20) / 4096);
        steadyfs_core::mkfs::format(&device, &steadyfs_core::mkfs::MkfsOptions::new([7; 16], 0)).expect("a volume");
        let device = Arc::new(device);
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, &format!("{options},background_gc=off,commit=0"));
        let root = fs.root().expect("a root");
        let dirs: Vec<_> = (0..CLIENTS).map(|n| make(&fs, &root, format!("dir {n}"), 0o040_755)).collect();
        fs.sync().expect("a checkpoint");
        let before = fs.stats();
        let client = |dir: &InodeRef| {
            let (fs, dir) = (Arc::clone(&fs), dir.clone());
            spawn("client", move || {
                for round in 0..ROUNDS {
                    drop(make(&fs, &dir, format!("file {round}"), 0o100_644));
                    fs.fsync(&dir, false).expect("a batch");
                }
            })
        };
        let clients: Vec<_> = dirs.iter().map(client).collect();
        clients.into_iter().for_each(|client| client.join().unwrap_or_else(|panicked| panic!("{panicked}")));
        let after = fs.stats();
        assert_eq!(after.checkpoints.committed, before.checkpoints.committed, "a checkpoint made the names durable");
        let crashed = mount(Arc::new(device.fork()), "");
        for n in 0..CLIENTS {
            let dir =
                crashed.lookup(&crashed.root().expect("a root"), format!("dir {n}").as_bytes()).expect("a directory");
            (0..ROUNDS).for_each(|round| {
                let found = crashed.lookup(&dir, format!("file {round}").as_bytes());
                assert!(found.is_ok(), "file {round} of client {n} was promised");
            });
        }
        drop((root, dirs));
        fs.unmount().expect("unmounts");
        after.journal.batches - before.journal.batches
    };
    run(SimConfig { cores: CLIENTS + 2, seed, ..SimConfig::default() }, work)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"))
        .value
}

#[test]
fn a_batch_serves_all_who_waited_while_it_was_sealed() {
    let syncs = (CLIENTS * ROUNDS) as u64;
    for options in ["journal=single", "journal=double", "journal=percore"] {
        for seed in 0..4 {
            let batches = batches(options, seed);
            assert!(batches < syncs * 3 / 4, "{options}, seed {seed}: {batches} batches for {syncs} fsyncs");
        }
    }
}
