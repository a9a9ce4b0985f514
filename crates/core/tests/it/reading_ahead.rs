//! A collector does not wait for one node after the other: those that it needs for a victim are read together. Nor for
//! one victim after the other: others are read while one is moved.

use crate::common::{create, in_virtual_time};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{Fs, InodeRef, Urgency};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Request};
use steadyfs_rt::sim::{SimConfig, call_after, run};
use steadyfs_rt::{now, spawn};
use steadyfs_testkit::Rng;

/// What each request takes, however many there are.
const LATENCY: Duration = Duration::from_micros(100);
/// Pages of the victim, each in a node of its own.
const NODES: u64 = 400;
const SEGMENT: u64 = 512;
/// More pages than one node has addresses.
const APART: u64 = 1020;

struct Slow {
    inner: Arc<MemDevice>,
    latency: Duration,
}

impl Device for Slow {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let inner = Arc::clone(&self.inner);
            call_after(self.latency, move || inner.submit(vec![request]));
        }
    }
}

fn mount(device: &Arc<dyn Device>) -> Arc<Fs> {
    crate::common::mount(Arc::clone(device), "gc=f2fs-lfs,background_gc=off")
}

/// How long it takes to clean a segment whose pages are in as many nodes, of which none is in memory; and how many
/// blocks were moved.
fn cleaning(data: bool) -> (Duration, u64) {
    let base = crate::common::mkfs(64, &[]);
    let report = run(SimConfig::default(), move || {
        let device = Arc::new(Slow { inner: Arc::new(base), latency: LATENCY }) as Arc<dyn Device>;
        let fs = mount(&device);
        let (sparse, rest) = (create(&fs, b"sparse"), create(&fs, b"rest"));
        for page in 0..NODES {
            fs.write(&sparse, page * APART * 4096, &[1; 4096]).unwrap();
        }
        fs.sync().unwrap();
        // The rest of the segment, and the beginning of the next: so it is closed, and worth cleaning once this is
        // gone.
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

/// What one collector had to do, and to have, for it.
struct Overwriting {
    took: Duration,
    moved: u64,
    memory: u64,
    claimed: u64,
}

/// Writes a file of so many times 64 pages, and how long it takes to overwrite as many pages of it as there are.
fn overwrite(fs: &Fs, file: &InodeRef, parts: u64) -> Duration {
    let data = vec![1; 64 * 4096];
    (0..parts).for_each(|part| assert_eq!(fs.write_direct(file, part * 64 * 4096, &data).unwrap(), data.len()));
    let mut random = Rng(1);
    let began = now();
    for _ in 0..parts * 64 {
        fs.write(file, random.below(parts * 64) * 4096, &[2; 4096]).unwrap();
    }
    fs.sync().unwrap();
    began.elapsed()
}

/// How long it takes to overwrite a nearly full volume once, if each victim's summary and blocks take as long as a
/// whole device that is busy may take.
fn overwriting(base: &MemDevice, victims: u32) -> Overwriting {
    const BUSY: Duration = Duration::from_millis(1);
    let device = Arc::new(Slow { inner: Arc::new(base.fork()), latency: BUSY }) as Arc<dyn Device>;
    let options =
        format!("gc=scalelfs,gc.collectors=1,gc.buffer_size=4M,gc.victims={victims},commit=0,background_gc=on");
    in_virtual_time(4, move || {
        let fs = crate::common::mount(device, &options);
        let file = create(&fs, b"file");
        let pages = fs.statfs().blocks_free * 9 / 10;
        let (writing, of) = (Arc::clone(&fs), file.clone());
        let writer = spawn("writer", move || overwrite(&writing, &of, pages / 64));
        let began = now();
        while !writer.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(30), "the writer waits for ever");
            steadyfs_rt::sleep(Duration::from_millis(1));
        }
        let took = writer.join().unwrap();
        // By then there is room, and the collector rests.
        steadyfs_rt::sleep(Duration::from_secs(1));
        let claimed = fs.segment_map(1).cells().map(|cell| cell.claimed).sum();
        let done = Overwriting { took, moved: fs.gc_totals().data_moved, memory: fs.gc_memory().peak, claimed };
        drop(file);
        fs.unmount().unwrap();
        done
    })
}

#[test]
fn victims_are_read_while_another_is_moved() {
    let base = crate::common::mkfs(256, &[]);
    let [one, four] = [1, 4].map(|victims| overwriting(&base, victims));
    for done in [&one, &four] {
        println!(
            "{} blocks moved in {:?}, with {} KiB, {} claimed",
            done.moved,
            done.took,
            done.memory >> 10,
            done.claimed
        );
        assert_eq!(done.claimed, 0, "a victim was not given back");
        assert!(done.moved > 10_000 && done.memory <= 4 << 20, "{} blocks, {} bytes", done.moved, done.memory);
    }
    assert!(one.took > four.took * 5 / 4, "{:?} with one victim queued, {:?} with four", one.took, four.took);
}

/// Who lists a directory with attributes waits for the inodes together.
#[test]
fn inodes_are_read_ahead_together() {
    let base = crate::common::mkfs(64, &[]);
    let report = run(SimConfig::default(), move || {
        let device = Arc::new(Slow { inner: Arc::new(base), latency: LATENCY }) as Arc<dyn Device>;
        let fs = mount(&device);
        let all: Vec<_> = (0..NODES).map(|n| create(&fs, format!("file {n}").as_bytes()).ino()).collect();
        fs.unmount().unwrap();
        drop(fs);
        let fs = mount(&device);
        // Every other one, so that no two lie side by side.
        let some: Vec<_> = all.iter().step_by(2).copied().collect();
        let look = || {
            let began = now();
            some.iter().for_each(|ino| _ = fs.attr(&fs.inode(*ino).unwrap()).unwrap());
            began.elapsed()
        };
        let began = now();
        fs.read_inodes_ahead(some.iter().copied());
        let (ahead, look) = (began.elapsed(), look());
        fs.unmount().unwrap();
        (ahead, look)
    });
    let (ahead, look) = report.unwrap().value;
    assert!(ahead < 10 * LATENCY, "{NODES} / 2 inodes took {ahead:?}");
    assert!(look < LATENCY, "after that a look at them took {look:?}");
}
