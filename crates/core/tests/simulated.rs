//! The file system in virtual time: many cores, every schedule of a seed the same, contents right under all of them.

mod common;

use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice};
use steadyfs_rt::sim::{SimConfig, SimReport, run};
use steadyfs_rt::{sleep, spawn};

const FILE: u32 = 0o100_644;
const PAGES: u64 = 64;

fn create(fs: &Fs, name: &str) -> InodeRef {
    fs.create(&fs.root().unwrap(), name.as_bytes(), &NewInode { mode: FILE, ..NewInode::default() }).unwrap()
}

/// One writer: random pages of its own file, now and then an fsync, a new file, a deletion; in the end each page is what was last written.
fn writer(fs: &Fs, number: u64, seed: u64) {
    let file = create(fs, &format!("file{number}"));
    let mut random = seed ^ number << 32;
    let mut expected = vec![0u8; PAGES as usize];
    for round in 0..300u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (page, byte) = (random >> 33 & (PAGES - 1), (random >> 45) as u8);
        fs.write(&file, page * 4096, &[byte; 4096]).unwrap();
        expected[page as usize] = byte;
        match round % 50 {
            10 | 30 => fs.fsync(&file, round % 20 == 0).unwrap(),
            20 => drop(create(fs, &format!("extra{number}-{round}"))),
            40 => fs.unlink(&fs.root().unwrap(), format!("extra{number}-{}", round - 20).as_bytes()).unwrap(),
            _ => {}
        }
    }
    let mut buffer = vec![0; 4096];
    for (page, byte) in expected.into_iter().enumerate().filter(|(_, byte)| *byte != 0) {
        assert_eq!(fs.read(&file, page as u64 * 4096, &mut buffer).unwrap(), 4096);
        assert!(buffer.iter().all(|b| *b == byte), "writer {number}, page {page}");
    }
}

/// Six writers beside checkpoints and collection.
fn simulate(base: &MemDevice, cores: usize, seed: u64) -> (SimReport<()>, MemDevice) {
    let device = Arc::new(base.fork());
    let dev = Arc::clone(&device) as Arc<dyn Device>;
    let report = run(SimConfig { cores, seed, ..SimConfig::default() }, move || {
        let fs = Fs::mount(dev, MountOptions::parse("cache=1M,commit=1").unwrap()).unwrap();
        let writers: Vec<_> = (0..6)
            .map(|n| {
                let fs = Arc::clone(&fs);
                spawn("writer", move || writer(&fs, n, seed))
            })
            .collect();
        let collector = {
            let fs = Arc::clone(&fs);
            spawn("collector", move || {
                for _ in 0..5 {
                    sleep(Duration::from_micros(300));
                    fs.gc(1, steadyfs_core::Urgency::Foreground).unwrap();
                }
            })
        };
        writers.into_iter().chain([collector]).for_each(|task| task.join().unwrap());
        fs.unmount().unwrap();
    });
    let report = report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let image = device.fork();
    (report, image)
}

#[test]
fn every_schedule_keeps_contents_and_volume_whole() {
    let base = common::mkfs(64, &[]);
    let mut traces = std::collections::HashSet::new();
    for seed in 0..40 {
        let (report, image) = simulate(&base, 1 + seed as usize % 8, seed);
        assert!(report.unfinished.is_empty(), "seed {seed}: {:?}", report.unfinished);
        let found = check(Arc::new(image), &CheckOptions::default()).unwrap();
        assert!(found.is_clean(), "seed {seed}: {:?}", found.issues);
        traces.insert(report.trace);
    }
    assert_eq!(traces.len(), 40, "each seed has a schedule of its own");
}

#[test]
fn a_seed_is_a_schedule() {
    let base = common::mkfs(64, &[]);
    for seed in [0, 7] {
        let (first, second) = (simulate(&base, 4, seed).0, simulate(&base, 4, seed).0);
        assert_eq!(first, second, "seed {seed}");
        assert!(first.events > 1000, "{} events", first.events);
    }
}
