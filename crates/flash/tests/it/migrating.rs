//! The device that moves pages and tells the host, under the contract that `steadyfs_device` tries on its adversary:
//! the same host, through power cuts at any moment, and with each of its promises broken once.

#[allow(dead_code, reason = "the adversary's tests use all of it")]
#[path = "../../../device/src/migrating/tests/host.rs"]
mod host;

use crate::common::{assert_clean, small};
use host::{Fault, Host, Rng, Tried};
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::{Error, Fs, InodeRef, MigrationStats, MountOptions, NewInode, SetAttr};
use steadyfs_device::{self as device, Device, MigrationGeometry, Upcall};
use steadyfs_flash::{Coupling, EmulatedSsd, Geometry, Layer, Parameters};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::{now, spawn};

impl Tried for EmulatedSsd {
    fn try_next(&self) -> Option<Upcall> {
        EmulatedSsd::try_next(self)
    }
    fn outstanding(&self) -> usize {
        EmulatedSsd::outstanding(self)
    }
    fn tick(&self) -> u64 {
        now().as_nanos()
    }
}

const ZONE: u64 = 16;
const CAPACITY: u64 = 8 * ZONE;

fn areas() -> MigrationGeometry {
    let (regular, gc) = (ZONE..61 * ZONE, 61 * ZONE..71 * ZONE);
    MigrationGeometry { zone: ZONE, meta: 0..ZONE, regular, gc, capacity: CAPACITY }
}

/// Lines of 16 pages, in units of two.
fn parameters(records: u32) -> Parameters {
    let shape = Coupling { records, reserve_lines: 1, ..Coupling::new(&areas()) };
    let mut parameters = Parameters { layer: Layer::Migrating(shape), remember_cells: true, ..small() };
    parameters.geometry = Geometry { channels: 1, chips_per_channel: 1, planes: 1, page_bytes: 8192, block_pages: 8 };
    parameters
}

fn ssd(records: u32) -> Arc<EmulatedSsd> {
    EmulatedSsd::new(parameters(records), CAPACITY * 4096).unwrap()
}

/// What the life of a host came to.
#[derive(Default)]
struct Life {
    served: u64,
    stale: u64,
    again: u64,
    outstanding: u64,
    leaked: usize,
}

/// Sessions of a host, with a power cut at any moment of each but the last.
fn live(seed: u64, fault: Option<Fault>) -> Result<Life, String> {
    let work = move || {
        let mut rng = Rng(seed);
        let mut life = Life::default();
        let mut device = ssd(64);
        let mut host = Host::format(&*device, fault);
        for session in 0..4 {
            let acts = 150 + rng.below(150);
            // A cut in the midst of an operation: another task makes it while this one goes on.
            let at = rng.below(acts);
            let mut cut = None;
            for act in 0..acts {
                if act == at && session < 3 {
                    let (device, seed, wait) = (Arc::clone(&device), rng.next(), rng.below(3_000_000));
                    cut = Some(spawn("power", move || {
                        steadyfs_rt::sleep(std::time::Duration::from_nanos(wait));
                        (device.after_power_cut(seed).unwrap(), now().as_nanos())
                    }));
                }
                host.act(&*device, &mut rng);
            }
            assert_clean(&device);
            for (sum, found) in
                [(&mut life.served, host.served_now), (&mut life.stale, host.stale), (&mut life.again, host.again)]
            {
                *sum += found;
            }
            let Some(cut) = cut else { break };
            let (left, tick) = cut.join().unwrap();
            life.outstanding += u64::from(left.outstanding() > 0);
            assert_clean(&left);
            host = Host::recover(&*left, fault, &host.promised_at(tick));
            device = left;
        }
        host.settle(&*device);
        host.compare(&*device);
        assert_eq!(device.outstanding(), 0, "a host that settles has nothing outstanding");
        assert_clean(&device);
        life.leaked = device.held().len() - host.needs();
        life
    };
    run(SimConfig { seed, ..SimConfig::default() }, work).map(|report| report.value).map_err(|e| e.to_string())
}

#[test]
fn a_host_that_keeps_its_promises_loses_and_leaks_nothing() {
    let mut sum = Life::default();
    for seed in 0..60 {
        let life = live(seed, None).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!(life.leaked, 0, "seed {seed}");
        sum.served += life.served;
        sum.stale += life.stale;
        sum.again += life.again;
        sum.outstanding += life.outstanding;
    }
    println!("{} records, {} stale, {} again, {} of 180 cuts", sum.served, sum.stale, sum.again, sum.outstanding);
    assert!(sum.served > 3000 && sum.stale > 100 && sum.again > 0 && sum.outstanding > 60, "the device was idle");
}

#[test]
fn each_broken_promise_is_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    // What is discarded again has to have moved twice between two checkpoints, which only the adversary does.
    let faults = Fault::ALL.into_iter().filter(|fault| *fault != Fault::DiscardAgain);
    let found: Vec<_> = faults
        .map(|fault| {
            let seed = (0..300).find(|&seed| live(seed, Some(fault)).map_or(true, |life| life.leaked > 0));
            (fault, seed)
        })
        .collect();
    std::panic::set_hook(hook);
    println!("{found:?}");
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "{found:?}");
}

/// Overwrites a file of three quarters of a volume of 48 MiB at random, on a device with so many records, or one for
/// each page that it can hold. The seconds that it takes, what became of the records, and the device's amplification.
fn overwritten(records: Option<u32>, ratio: f64) -> (f64, MigrationStats, f64) {
    let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(24 * 512) };
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    let areas = chosen.geometry(&options).unwrap();
    let mut shape = Coupling::new(&areas);
    shape.records = records.unwrap_or(areas.capacity as u32);
    // A line is a section of one segment.
    let mut parameters = small().with_smaller_blocks(1);
    parameters.geometry.block_pages = 4;
    parameters.layer = Layer::Migrating(shape);
    let ssd = EmulatedSsd::new(parameters, chosen.capacity * 4096).unwrap();
    let work = move || {
        mkfs::format(&*ssd, &options).unwrap();
        let fs = Fs::mount(Arc::clone(&ssd) as Arc<dyn Device>, MountOptions::parse("cache=1M").unwrap()).unwrap();
        let file = fs.create(&fs.root().unwrap(), b"data", &NewInode { mode: 0o100_644, ..NewInode::default() });
        let (file, pages, mut rng) = (file.unwrap(), fs.statfs().blocks * 3 / 4, Rng(7));
        let mut known = vec![0; pages as usize];
        let began = now();
        for _ in 0..6 * pages {
            let (page, byte) = (rng.below(pages), 1 + rng.below(255) as u8);
            fs.write(&file, page * 4096, &[byte; 4096]).unwrap();
            known[page as usize] = byte;
        }
        fs.sync().unwrap();
        let seconds = began.elapsed().as_secs_f64();
        let mut buffer = vec![0; 4096];
        for (page, byte) in known.iter().enumerate() {
            fs.read(&file, page as u64 * 4096, &mut buffer).unwrap();
            assert!(buffer.iter().all(|found| found == byte), "page {page} holds {} and not {byte}", buffer[0]);
        }
        let found = fs.migration_stats().unwrap();
        let totals = fs.gc_totals();
        assert_eq!(totals.data_moved + totals.nodes_moved, 0, "the host collects");
        drop(file);
        fs.unmount().unwrap();
        assert_clean(&ssd);
        assert!(ssd.most_records() <= shape.records as usize, "{} records at one time", ssd.most_records());
        assert_eq!(ssd.outstanding(), 0, "records are outstanding after an unmount");
        let report =
            check(Arc::clone(&ssd) as Arc<dyn Device>, &CheckOptions { threads: 1, ..CheckOptions::default() });
        assert!(report.unwrap().issues.is_empty());
        (seconds, found, ssd.stats().waf())
    };
    run(SimConfig { cores: 4, ..SimConfig::default() }, work).unwrap().value
}

#[test]
fn a_volume_is_overwritten_and_only_the_device_collects() {
    let unbounded = overwritten(None, 1.4);
    println!("{unbounded:?}");
    assert!(unbounded.1.moved > 1000 && (1.3..1.9).contains(&unbounded.2), "{unbounded:?}");
    for ratio in [1.1, 1.4, 2.0] {
        let bounded = overwritten(Some(1024), ratio);
        println!("ratio {ratio}, 1024 records: {bounded:?}");
        assert!(bounded.1.moved > 1000 && bounded.1.most_outstanding <= 1024, "{bounded:?}");
        assert!(ratio < 1.4 || bounded.0 <= unbounded.0 / 0.8, "{bounded:?} beside {unbounded:?}");
    }
}

/// Random pages of a file of so many are written as fast as the page cache takes them; then the inodes of so many small
/// files are changed by turns with a few of these pages. The device has records for four lines, and keeps no line that
/// it need not.
fn hurried(pages: u64, files: u64) -> MigrationStats {
    let chosen = Migrating::new(60 * 512);
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    let mut parameters = small();
    parameters.geometry.block_pages = 4;
    let mut shape = Coupling::new(&chosen.geometry(&options).unwrap());
    (shape.records, shape.reserve_lines) = (4 * 512, 10);
    parameters.layer = Layer::Migrating(shape);
    let ssd = EmulatedSsd::new(parameters, chosen.capacity * 4096).unwrap();
    let work = move || {
        mkfs::format(&*ssd, &options).unwrap();
        let mount = MountOptions::parse("cache=16M,node_cache=4M").unwrap();
        let fs = Fs::mount(Arc::clone(&ssd) as Arc<dyn Device>, mount).unwrap();
        let (root, new) = (fs.root().unwrap(), NewInode { mode: 0o100_644, ..NewInode::default() });
        let create = |name: &str| fs.create(&root, name.as_bytes(), &new).unwrap();
        let (file, small) = (create("data"), (0..files).map(|i| create(&i.to_string())).collect::<Vec<_>>());
        fs.sync().unwrap();
        let mut rng = Rng(7);
        let mut overwrite = |times: u32| {
            for _ in 0..times {
                fs.write(&file, rng.below(pages) * 4096, &[1; 4096]).unwrap();
            }
        };
        overwrite(90_000);
        for _ in 0..10 {
            for small in &small {
                fs.write(small, 0, &[2; 16]).unwrap();
            }
            overwrite(300);
        }
        fs.sync().unwrap();
        assert!(ssd.most_records() <= shape.records as usize, "{} records at one time", ssd.most_records());
        fs.migration_stats().unwrap()
    };
    let found = watched(work);
    println!("{found:?}");
    found
}

/// Does this in virtual time, of which it takes no more than ten minutes.
fn watched<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // Timers go on when all others wait for ever.
    let watched = move || {
        let task = spawn("work", work);
        for _ in 0..600 {
            if task.is_finished() {
                return task.join().unwrap();
            }
            steadyfs_rt::sleep(std::time::Duration::from_secs(1));
        }
        panic!("the host waits for the device, and that for the host");
    };
    run(SimConfig { cores: 16, ..SimConfig::default() }, watched).unwrap().value
}

/// Writes pages of a file in their order until there is no room; how many.
fn fill(fs: &Fs, file: &InodeRef, mut page: u64) -> u64 {
    loop {
        match fs.write(file, page * 4096, &[1; 4 * 4096]) {
            Ok(written) => page += written as u64 / 4096,
            Err(error) => {
                let left = fs.statfs().blocks_free;
                assert!(matches!(error, Error::NoSpace) && left < 64, "{error}, and {left} blocks are free");
                return page;
            }
        }
    }
}

#[test]
fn no_space_is_said_of_a_full_volume_only() {
    for (number, ratio) in [1.1, 1.2, 1.4, 1.7, 2.0].into_iter().enumerate() {
        let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(24 * 512) };
        let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
        let mut shape = Coupling::new(&chosen.geometry(&options).unwrap());
        shape.records = 1024 << (number % 3);
        let mut parameters = small().with_smaller_blocks(1);
        parameters.geometry.block_pages = 4;
        parameters.layer = Layer::Migrating(shape);
        let ssd = EmulatedSsd::new(parameters, chosen.capacity * 4096).unwrap();
        let moved = watched(move || {
            mkfs::format(&*ssd, &options).unwrap();
            let fs = Fs::mount(Arc::clone(&ssd) as Arc<dyn Device>, MountOptions::parse("cache=1M").unwrap()).unwrap();
            let file = fs.create(&fs.root().unwrap(), b"data", &NewInode { mode: 0o100_644, ..NewInode::default() });
            let (file, mut rng) = (file.unwrap(), Rng(7));
            let pages = fill(&fs, &file, 0);
            for _ in 0..pages / 2 {
                fs.write(&file, rng.below(pages) * 4096, &[2; 4096]).unwrap();
            }
            let half = SetAttr { size: Some(pages / 2 * 4096), ..SetAttr::default() };
            fs.setattr(&file, &half).unwrap();
            let again = fill(&fs, &file, pages / 2);
            assert!(again + 64 > pages, "ratio {ratio}: {pages} pages, and then {again}");
            for _ in 0..pages / 4 {
                fs.write(&file, rng.below(pages / 2) * 4096, &[3; 4096]).unwrap();
            }
            let moved = fs.migration_stats().unwrap().moved;
            drop(file);
            fs.unmount().unwrap();
            assert_clean(&ssd);
            assert!(ssd.most_records() <= shape.records as usize, "{} records at one time", ssd.most_records());
            moved
        });
        println!("ratio {ratio}: {moved} moved");
        assert!(moved > 200, "ratio {ratio}: {moved}");
    }
}

/// Records are followed one by one, so a host that is not held is late with them.
#[test]
fn a_host_that_writes_faster_than_it_follows_comes_to_an_end() {
    let found = hurried(22_000, 0);
    assert!(found.moved > 2000, "{found:?}");
}

/// Nearly as much is there as the device can hold, so what a checkpoint takes has to have its room: inodes that were
/// written to, and nodes that records change after a write has passed the gate.
#[test]
fn a_host_that_changes_many_inodes_comes_to_an_end() {
    let found = hurried(19_000, 9_000);
    assert!(found.moved > 2000, "{found:?}");
}
