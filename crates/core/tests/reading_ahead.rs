//! A collector does not wait for one node after the other: those that it needs for a victim are read together.

mod common;

use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode, Urgency};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Request};
use steadyfs_rt::now;
use steadyfs_rt::sim::{SimConfig, call_after, run};

/// What each request takes, however many there are.
const LATENCY: Duration = Duration::from_micros(100);
/// Pages of the victim, each in a node of its own.
const NODES: u64 = 400;
const SEGMENT: u64 = 512;
/// More pages than one node has addresses.
const APART: u64 = 1020;

struct Slow(Arc<MemDevice>);

impl Device for Slow {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.0.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let inner = Arc::clone(&self.0);
            call_after(LATENCY, move || inner.submit(vec![request]));
        }
    }
}

fn mount(device: &Arc<dyn Device>) -> Arc<Fs> {
    Fs::mount(Arc::clone(device), MountOptions::parse("gc=f2fs-lfs,background_gc=off").unwrap()).unwrap()
}

fn create(fs: &Fs, name: &[u8]) -> InodeRef {
    fs.create(&fs.root().unwrap(), name, &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap()
}

/// How long it takes to clean a segment whose pages are in as many nodes, of which none is in memory; and how many blocks were moved.
fn cleaning(data: bool) -> (Duration, u64) {
    let base = common::mkfs(64, &[]);
    let report = run(SimConfig::default(), move || {
        let device = Arc::new(Slow(Arc::new(base))) as Arc<dyn Device>;
        let fs = mount(&device);
        let (sparse, rest) = (create(&fs, b"sparse"), create(&fs, b"rest"));
        for page in 0..NODES {
            fs.write(&sparse, page * APART * 4096, &[1; 4096]).unwrap();
        }
        fs.sync().unwrap();
        // The rest of the segment, and the beginning of the next: so it is closed, and worth cleaning once this is gone.
        fs.write(&rest, 0, &vec![2; ((SEGMENT - NODES + 8) * 4096) as usize]).unwrap();
        fs.sync().unwrap();
        if !data {
            // The nodes' places change, and leave a segment behind of which few are left.
            for page in NODES / 4..NODES {
                fs.write(&sparse, (page * APART + 1) * 4096, &[3; 4096]).unwrap();
            }
        }
        fs.unlink(&fs.root().unwrap(), b"rest").unwrap();
        drop(rest);
        fs.unmount().unwrap();
        drop((sparse, fs));
        let fs = mount(&device);
        let began = now();
        let report = fs.gc(1, Urgency::Foreground).unwrap();
        let took = began.elapsed();
        let moved = if data { report.data_moved } else { report.nodes_moved };
        fs.unmount().unwrap();
        (took, moved)
    });
    report.unwrap().value
}

#[test]
fn nodes_that_own_the_blocks_of_a_victim_are_read_together() {
    let (took, moved) = cleaning(true);
    println!("{moved} blocks in {took:?}");
    assert!(moved >= NODES, "another segment was cleaned: {moved} blocks moved");
    assert!(took < LATENCY * NODES as u32 / 4, "{moved} blocks in {took:?}");
}

#[test]
fn nodes_of_a_victim_are_read_together() {
    let (took, moved) = cleaning(false);
    println!("{moved} nodes in {took:?}");
    assert!(moved >= NODES / 8, "another segment was cleaned: {moved} nodes moved");
    assert!(took < LATENCY * moved as u32 / 4, "{moved} nodes in {took:?}");
}
