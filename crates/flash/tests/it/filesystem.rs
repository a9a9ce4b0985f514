//! The file system on an emulated SSD in virtual time: contents and volume whole, a seed is a run, and a power cut
//! leaves what was synced.

use crate::common::{MIB, assert_clean};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::Device;
use steadyfs_flash::{EmulatedSsd, Layer, Preset, Stats, ZoneLimits};
use steadyfs_rt::sim::{SimConfig, SimReport, run};
use steadyfs_rt::{now, sleep, spawn};

const FILE: u32 = 0o100_644;
const PAGES: u64 = 256;

/// 96 MiB with the chips and times of a 970 Pro, and blocks of four pages.
fn ssd() -> Arc<EmulatedSsd> {
    let mut parameters = Preset::Samsung970Pro.parameters().with_smaller_blocks(16);
    parameters.remember_cells = true;
    let ssd = EmulatedSsd::new(parameters, 96 * MIB).unwrap();
    let options = MkfsOptions::new([7; 16], 1_700_000_000);
    format(&*ssd, &options).unwrap_or_else(|error| panic!("{error}"));
    ssd
}

/// 128 MiB of the same chips as zones of a line of 2 MiB, of which the first are conventional.
fn zoned() -> Arc<EmulatedSsd> {
    let mut parameters = Preset::Samsung970Pro.parameters();
    let parts = parameters.geometry.line_pages() / 512;
    parameters = parameters.with_smaller_blocks(parts);
    assert_eq!(parameters.geometry.line_pages(), 512, "a line is a segment");
    parameters.remember_cells = true;
    parameters.layer = Layer::Zoned(ZoneLimits { max_open: 8, max_active: 8, conventional: 12 });
    let ssd = EmulatedSsd::new(parameters, 128 * MIB).unwrap();
    format(&*ssd, &MkfsOptions { zoned: true, ..MkfsOptions::new([7; 16], 1_700_000_000) }).unwrap();
    ssd
}

fn mount(ssd: &Arc<EmulatedSsd>) -> Arc<Fs> {
    Fs::mount(Arc::clone(ssd) as Arc<dyn Device>, MountOptions::parse("cache=2M,commit=1").unwrap()).unwrap()
}

fn create(fs: &Fs, name: &str) -> InodeRef {
    fs.create(&fs.root().unwrap(), name.as_bytes(), &NewInode { mode: FILE, ..NewInode::default() }).unwrap()
}

/// Random pages of a file of its own, and an fsync now and then; what each page held at the last of them.
fn writer(fs: &Fs, number: u64, rounds: u64) -> Vec<u8> {
    let file = create(fs, &format!("file{number}"));
    let mut random = number;
    let (mut written, mut synced) = (vec![0u8; PAGES as usize], vec![0u8; PAGES as usize]);
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (page, byte) = ((random >> 33) % PAGES, (random >> 45) as u8 | 1);
        fs.write(&file, page * 4096, &[byte; 4096]).unwrap();
        written[page as usize] = byte;
        if round % 40 == 39 {
            fs.fsync(&file, false).unwrap();
            synced.clone_from(&written);
        }
    }
    verify(fs, &file, number, &written);
    synced
}

/// Every page holds its byte.
fn verify(fs: &Fs, file: &InodeRef, number: u64, expected: &[u8]) {
    let mut buffer = vec![0; 4096];
    for (page, &byte) in (0u64..).zip(expected).filter(|(_, byte)| **byte != 0) {
        assert_eq!(fs.read(file, page * 4096, &mut buffer).unwrap(), 4096);
        assert!(buffer.iter().all(|&b| b == byte), "file {number}, page {page}: {} instead of {byte}", buffer[0]);
    }
}

fn clean(device: Arc<EmulatedSsd>) {
    let found = check(device, &CheckOptions::default()).unwrap();
    assert!(found.is_clean(), "{:?}", found.issues);
}

fn simulate<T: 'static>(cores: usize, seed: u64, f: impl FnOnce() -> T + 'static) -> SimReport<T> {
    let config = SimConfig { cores, seed, ..SimConfig::default() };
    run(config, f).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
}

/// Eight writers, and a power cut while they work.
fn workload(cores: usize, seed: u64, rounds: u64) -> SimReport<Stats> {
    workload_on(ssd, cores, seed, rounds)
}

fn workload_on(ssd: fn() -> Arc<EmulatedSsd>, cores: usize, seed: u64, rounds: u64) -> SimReport<Stats> {
    simulate(cores, seed, move || {
        let ssd = ssd();
        let fs = mount(&ssd);
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let fs = Arc::clone(&fs);
                spawn("writer", move || writer(&fs, number, rounds))
            })
            .collect();
        sleep(Duration::from_millis(20 + 30 * seed));
        let cut = ssd.after_power_cut(seed).expect("cells are remembered");
        let synced: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        fs.sync().unwrap();
        let ended = ssd.after_power_cut(seed).expect("cells are remembered");
        fs.unmount().unwrap();
        clean(Arc::clone(&ssd));
        // Amid the work: a volume that mounts, and is whole when it has recovered. At the end: what was synced.
        mount(&cut).unmount().unwrap();
        clean(cut);
        let fs = mount(&ended);
        for (number, synced) in (0u64..).zip(&synced) {
            let file = fs.lookup(&fs.root().unwrap(), format!("file{number}").as_bytes()).unwrap();
            verify(&fs, &file, number, synced);
        }
        fs.unmount().unwrap();
        clean(ended);
        assert_clean(&ssd);
        ssd.stats()
    })
}

#[test]
fn the_file_system_works_on_it() {
    for (cores, seed) in [(1, 0), (4, 1), (8, 2), (8, 3)] {
        let report = workload(cores, seed, 5000);
        assert!(report.unfinished.is_empty(), "{:?}", report.unfinished);
        let stats = report.value;
        assert!(
            stats.gc_programmed + stats.lines_erased > 100 && stats.flushes > 50,
            "{} flushes\n{stats}",
            stats.flushes
        );
    }
}

/// The power is cut twice in each, in the middle of work and behind a sync.
#[test]
fn zoned_volumes_survive_power_cuts_of_it() {
    for (cores, seed) in [(1, 0), (4, 1), (8, 2), (8, 5)] {
        let report = workload_on(zoned, cores, seed, 4000);
        assert!(report.unfinished.is_empty(), "{:?}", report.unfinished);
        let stats = report.value;
        assert!(stats.lines_erased > 20 && stats.flushes > 50 && stats.gc_programmed == 0, "{stats}");
    }
}

#[test]
fn a_seed_is_a_run_of_both() {
    for seed in [0, 9] {
        let (first, second) = (workload(4, seed, 400), workload(4, seed, 400));
        assert_eq!(first, second, "seed {seed}");
    }
}

/// An fsync takes at least the programs that it waits for.
#[test]
fn an_fsync_costs_what_the_device_costs() {
    simulate(4, 0, || {
        let ssd = ssd();
        let fs = mount(&ssd);
        let file = create(&fs, "file");
        fs.write(&file, 0, &[1; 4096]).unwrap();
        let start = now();
        fs.fsync(&file, false).unwrap();
        let took = start.elapsed();
        assert!(took > Duration::from_micros(2 * 224) && took < Duration::from_millis(5), "{took:?}");
        fs.unmount().unwrap();
    });
}
