//! D2FS volumes on a device that moves any page at any moment, delivers late, and panics when the host breaks a
//! promise.

use crate::common::{assert_contents, file, files_come_and_go, in_virtual_time, overwrite, save};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, MigrationStats, MountOptions};
use steadyfs_device::{
    Adversary, AdversaryDevice, CrashImage, Device, DeviceInfo, Fault, FaultyDevice, MemDevice, MigrationGeometry,
    Migrations, OpKind, Request, Upcall, errno,
};
use steadyfs_format::Log;
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_rt::sleep;
use steadyfs_testkit::Rng;

const PAGE: usize = 4096;
const SEGMENT: u64 = 512;

type Moving = AdversaryDevice<Arc<MemDevice>>;

/// A volume, and the device under it.
struct Disk {
    /// What was there before the device.
    base: MemDevice,
    below: Arc<MemDevice>,
    device: Arc<Moving>,
}

impl Disk {
    /// Of so many segments that the device can hold, and so many for each of them that the host writes.
    fn new(segments: u64, ratio: f64, rules: Adversary) -> Self {
        let chosen = Migrating { regular_ratio: ratio, ..Migrating::new(segments * SEGMENT) };
        let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
        let geometry = chosen.geometry(&options).unwrap();
        let below = Arc::new(MemDevice::new(geometry.gc.end));
        let base = below.fork();
        let device = Arc::new(AdversaryDevice::new(Arc::clone(&below), geometry, rules));
        mkfs::format(&*device, &options).unwrap();
        Disk { base, below, device }
    }

    fn mount(&self) -> Arc<Fs> {
        self.mount_with("cache=1M")
    }

    fn mount_with(&self, options: &str) -> Arc<Fs> {
        crate::common::mount(Arc::clone(&self.device) as Arc<dyn Device>, options)
    }

    /// A device that has nothing outstanding holds a sound volume, and nothing else.
    fn assert_settled(&self) {
        assert_eq!(self.device.outstanding(), 0, "records are outstanding after an unmount");
        let report = check(Arc::new(self.below.fork()), &CheckOptions { threads: 1, ..CheckOptions::default() });
        let issues = report.unwrap().issues;
        assert!(issues.is_empty(), "{} issues: {:?}", issues.len(), &issues[..issues.len().min(3)]);
        let image = Image::open(Arc::new(self.below.fork())).unwrap();
        let valid = image.checkpoint().header().valid_blocks();
        assert_eq!(self.device.held().len() as u64, valid, "the device holds what nobody needs");
    }
}

/// Blocks that this host has moved.
fn moved_by(fs: &Fs) -> u64 {
    let totals = fs.gc_totals();
    totals.data_moved + totals.nodes_moved
}

fn stats(fs: &Fs) -> MigrationStats {
    fs.migration_stats().expect("a D2FS volume")
}

/// Several mounts, with files that come and go; what was moved, in all.
fn live(seed: u64) -> u64 {
    let disk = Disk::new(24, 1.4, Adversary::new(seed));
    let (mut random, mut known, mut moved) = (Rng(seed), BTreeMap::new(), 0);
    for round in 0..3 {
        let fs = disk.mount();
        let data = files_come_and_go(&fs, &mut random, &mut known);
        let found = stats(&fs);
        moved += found.moved;
        assert_eq!((moved_by(&fs), found.again), (0, 0), "round {round}");
        drop(data);
        fs.unmount().unwrap();
        disk.assert_settled();
    }
    moved
}

#[test]
fn files_survive_whatever_the_device_moves() {
    assert!((0..3).map(live).sum::<u64>() > 1000, "the device was idle");
}

/// A volume that is full of records may have few sections left, and must mount however many mounts have just ended.
#[test]
fn a_mount_takes_sections_for_logs_that_write_only() {
    let disk = Disk::new(24, 1.4, Adversary::new(7));
    let (mut random, mut known) = (Rng(7), BTreeMap::new());
    let fs = disk.mount();
    let data = file(&fs, "data");
    overwrite(&fs, &data, 300, 400, &mut random, &mut known);
    fs.fsync(&data, false).unwrap();
    drop(data);
    fs.unmount().unwrap();
    let stands = || {
        let image = Image::open(Arc::new(disk.below.fork())).unwrap();
        Log::ALL.map(|log| image.log_position(log).segment)
    };
    let before = stands();
    for _ in 0..5 {
        disk.mount().unmount().unwrap();
    }
    let after = stands();
    for log in Log::ALL {
        assert_eq!(before[log.index()] != after[log.index()], log == Log::WarmNode, "{log}: the chain begins anew");
    }
    let fs = disk.mount();
    let data = file(&fs, "data");
    overwrite(&fs, &data, 300, 50, &mut random, &mut known);
    fs.sync().unwrap();
    assert_contents(&fs, &data, &known);
    let now = stands();
    for log in [Log::WarmNode, Log::WarmData] {
        assert_ne!(before[log.index()], now[log.index()], "{log}: nobody knows how far its section was written");
    }
    drop(data);
    fs.unmount().unwrap();
    disk.assert_settled();
}

#[test]
fn files_survive_in_every_schedule() {
    for seed in 0..3 {
        run(SimConfig { cores: 4, seed, ..SimConfig::default() }, move || assert!(live(seed) > 100)).unwrap();
    }
}

#[test]
fn ten_times_the_capacity_is_written_and_this_host_moves_nothing() {
    let disk = Disk::new(12, 1.4, Adversary { records: 256, ..Adversary::new(5) });
    let fs = disk.mount();
    let data = file(&fs, "data");
    let (mut random, mut known) = (Rng(1), BTreeMap::new());
    let pages = fs.statfs().blocks * 3 / 4;
    let count = 10 * 12 * SEGMENT;
    for _ in 0..count / 64 {
        overwrite(&fs, &data, pages, 64, &mut random, &mut known);
    }
    fs.sync().unwrap();
    assert_contents(&fs, &data, &known);
    let (found, by_host) = (stats(&fs), moved_by(&fs));
    println!("{count} blocks written: {found:?}, moved by the host {by_host}");
    assert!(found.moved > count / 20 && by_host == 0, "{found:?}");
    assert!(found.most_outstanding <= 4096, "{found:?}");
    drop(data);
    fs.unmount().unwrap();
    disk.assert_settled();
}

/// Sessions that end with a power cut at any moment; what was fsynced is there after it.
fn cut(seed: u64, options: &str) -> Result<[u64; 3], String> {
    let mut random = Rng(seed ^ 0xC0FFEE);
    let rules = |random: &mut Rng| Adversary {
        moves: 300 + random.below(650),
        late: 1 + random.below(12),
        records: 1 + random.below(12) as usize,
        ..Adversary::new(random.below(u64::MAX))
    };
    let mut disk = Disk::new(24, 1.4, rules(&mut random));
    let mut promised: BTreeMap<u64, u8> = BTreeMap::new();
    let mut sums = [0; 3];
    for session in 0..3 {
        let fs = disk.mount_with(options);
        let data = file(&fs, "data");
        let mut known = promised.clone();
        assert_contents(&fs, &data, &known);
        let mut promises = vec![(disk.device.recorder().tick(), known.clone())];
        for _ in 0..4 + random.below(8) {
            // Of pages that change after the promise nothing is known.
            let count = 20 + random.below(60);
            let mut fresh = BTreeMap::new();
            overwrite(&fs, &data, 300, count, &mut random, &mut fresh);
            promises.last_mut().unwrap().1.retain(|page, _| !fresh.contains_key(page));
            known.extend(fresh);
            match random.below(3) {
                0 => fs.sync().unwrap(),
                _ => fs.fsync(&data, random.below(2) == 0).unwrap(),
            }
            promises.push((disk.device.recorder().tick(), known.clone()));
        }
        let found = stats(&fs);
        sums[0] += found.moved;
        drop((data, fs));
        let recorder = disk.device.recorder();
        let at = promises[0].0 + random.below(recorder.tick() - promises[0].0 + 1);
        let log = recorder.log();
        let mut image = CrashImage::new(&disk.base, &log).at(at);
        for index in image.volatile() {
            image = if random.below(2) == 0 { image } else { image.keep(index) };
        }
        promised = promises.into_iter().rev().find(|(tick, _)| *tick <= at).unwrap().1;
        let below = Arc::new(image.build());
        let device = Arc::new(disk.device.after_cut(at, Arc::clone(&below), rules(&mut random)));
        sums[1] += u64::from(device.outstanding() > 0);
        disk = Disk { base: below.fork(), below, device };
        let fs = disk.mount_with(options);
        assert_contents(&fs, &file(&fs, "data"), &promised);
        if session % 2 == 1 || random.below(2) == 0 {
            fs.sync().unwrap();
        }
        sums[2] += stats(&fs).again;
        fs.unmount().unwrap();
        disk.assert_settled();
    }
    Ok(sums)
}

#[test]
fn what_was_fsynced_survives_power_cuts_at_any_moment() {
    let mut sums = [0; 3];
    for seed in 0..12 {
        let found = cut(seed, "cache=1M").unwrap();
        sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
    println!("{} moved, {} of 36 cuts with outstanding records, {} applied before the cut", sums[0], sums[1], sums[2]);
    assert!(sums[0] > 1000 && sums[1] > 18, "{sums:?}");
}

#[test]
fn no_space_is_said_of_a_full_volume_only() {
    for ratio in [1.1, 1.4, 2.0] {
        let disk = Disk::new(40, ratio, Adversary { records: 64, ..Adversary::new(7) });
        let fs = disk.mount();
        let data = file(&fs, "data");
        let mut page = 0;
        let error = loop {
            match fs.write(&data, page * PAGE as u64, &[page as u8; PAGE]) {
                Ok(_) => page += 1,
                Err(error) => break error,
            }
        };
        let full = fs.statfs();
        assert!(matches!(error, Error::NoSpace), "{error}");
        assert!(full.blocks_free < 64, "ratio {ratio}: {full:?}");
        // Room that there is can be used over and over.
        let mut random = Rng(3);
        let mut known = BTreeMap::new();
        for _ in 0..100 {
            overwrite(&fs, &data, page, 40, &mut random, &mut known);
        }
        assert_contents(&fs, &data, &known);
        drop(data);
        fs.unmount().unwrap();
        disk.assert_settled();
    }
}

type Failing = Arc<FaultyDevice<Arc<MemDevice>>>;

/// A volume on a device that moves pages, and whose contents lie on one that fails as it is told.
fn failing(rules: Adversary) -> (Failing, Arc<AdversaryDevice<Failing>>) {
    let chosen = Migrating::new(24 * SEGMENT);
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    let geometry = chosen.geometry(&options).unwrap();
    let below = Arc::new(FaultyDevice::new(Arc::new(MemDevice::new(geometry.gc.end))));
    let device = Arc::new(AdversaryDevice::new(Arc::clone(&below), geometry, rules));
    mkfs::format(&*device, &options).unwrap();
    (below, device)
}

/// The SSA cannot be read for a while: records wait, none is passed over, and they are tried again.
#[test]
fn a_record_that_cannot_be_applied_is_tried_again() {
    let work = || {
        let (below, device) = failing(Adversary { records: 4, late: 1, ..Adversary::new(9) });
        let (mut random, mut known) = (Rng(9), BTreeMap::new());
        let options = || MountOptions::parse("cache=1M,errors=continue").unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
        overwrite(&fs, &file(&fs, "data"), 700, 1500, &mut random, &mut known);
        fs.unmount().unwrap();
        // What was written before the mount has its summaries in the SSA alone.
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
        let data = file(&fs, "data");
        let layout = *Image::open(Arc::clone(&device) as Arc<dyn Device>).unwrap().layout();
        below.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(layout.ssa.get()..layout.main.get()));
        overwrite(&fs, &data, 700, 300, &mut random, &mut known);
        for page in 0..700 {
            fs.write(&data, page * PAGE as u64, &[7; PAGE]).unwrap();
            known.insert(page, 7);
        }
        fs.fsync(&data, false).unwrap();
        device.deliver();
        sleep(Duration::from_secs(5));
        let stuck = stats(&fs);
        assert!(stuck.outstanding > 0, "{stuck:?}");
        sleep(Duration::from_secs(5));
        assert_eq!(stats(&fs).applied, stuck.applied, "a record was passed over");
        below.heal();
        sleep(Duration::from_secs(5));
        assert!(stats(&fs).applied > stuck.applied, "{:?} after {stuck:?}", stats(&fs));
        assert_contents(&fs, &data, &known);
        drop(data);
        fs.unmount().unwrap();
        assert_eq!(device.outstanding(), 0, "records are outstanding after an unmount");
    };
    in_virtual_time(2, work);
}

/// The host's file system is full for a while. No section is given up for that, all that was refused is kept, and it is
/// taken when there is room, by as many attempts as it takes.
#[test]
fn a_host_without_room_costs_no_section_and_nothing_that_was_written() {
    let work = || {
        let (below, device) = failing(Adversary { records: 8, late: 2, ..Adversary::new(31) });
        let options = || MountOptions::parse("cache=1M,errors=continue,commit=0").unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
        let data = file(&fs, "data");
        let (mut random, mut known) = (Rng(4), BTreeMap::new());
        overwrite(&fs, &data, 700, 300, &mut random, &mut known);
        fs.sync().unwrap();
        for errno in [errno::ENOSPC, errno::EDQUOT] {
            let free = fs.statfs().blocks_free;
            below.add(Fault::fail(errno).on(OpKind::Write));
            // Fewer pages than the cache holds: further ones would be refused at once.
            for round in 0..20 {
                overwrite(&fs, &data, 700, 5, &mut random, &mut known);
                let error = fs.fsync(&data, round % 2 == 0).unwrap_err();
                assert!(matches!(&error, Error::Io(error) if error.errno() == errno), "{error}");
            }
            assert_contents(&fs, &data, &known);
            below.heal();
            let rounds = (0..3).position(|_| fs.sync().is_ok());
            assert!(rounds.is_some(), "what was refused is refused although there is room");
            fs.fsync(&data, false).unwrap();
            assert!(fs.statfs().blocks_free + 300 > free, "{free} blocks were free");
            // All sections can be used: some 20 of them are written.
            for _ in 0..50 {
                overwrite(&fs, &data, 700, 200, &mut random, &mut known);
                fs.sync().unwrap();
            }
        }
        assert_contents(&fs, &data, &known);
        drop(data);
        fs.unmount().unwrap();
        assert_eq!(device.outstanding(), 0, "records are outstanding after an unmount");
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
        assert_contents(&fs, &file(&fs, "data"), &known);
    };
    in_virtual_time(2, work);
}

/// Blocks of the regular area that can be read and never written, in every third section.
fn bad_places(below: &Failing, geometry: &MigrationGeometry) -> Vec<u64> {
    let section = 3 * geometry.zone as usize;
    let places: Vec<u64> = geometry.regular.clone().step_by(section).map(|start| start + 100).collect();
    places.iter().for_each(|at| below.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(*at..at + 1)));
    places
}

/// A device takes no more in a section that has refused a write: what was to come there goes elsewhere, whoever moves
/// blocks meanwhile, and the section is used again when it is empty. The power is cut, too.
#[test]
fn what_the_device_refuses_goes_to_another_section() {
    let work = || {
        let (below, device) = failing(Adversary { records: 8, late: 2, ..Adversary::new(21) });
        let base = MemDevice::new(device.info().blocks);
        let places = bad_places(&below, &device.geometry());
        let options = || MountOptions::parse("cache=1M,errors=continue,commit=0").unwrap();
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options()).unwrap();
        let data = file(&fs, "data");
        let (mut random, mut known) = (Rng(4), BTreeMap::new());
        // Those who were told try again once. Where logs stay, sections refuse that, too, until they come to an end.
        let settle = |fs: &Fs| {
            let rounds = (0..2).position(|_| fs.sync().is_ok());
            assert!(rounds.is_some(), "what was refused finds no place, for its log stays where nothing is taken");
        };
        let mut refused = 0;
        for round in 0..60 {
            overwrite(&fs, &data, 2000, 200, &mut random, &mut known);
            // Nobody but the checkpoint has these again: they went past the cache.
            for _ in 0..50 {
                let (page, byte) = (2000 + random.below(1000), random.below(255) as u8 + 1);
                drop(fs.write_direct(&data, page * PAGE as u64, &[byte; PAGE]));
                known.insert(page, byte);
            }
            let name = format!("small{}", round % 7);
            fs.write(&file(&fs, &name), 0, &[round; PAGE]).unwrap();
            if round % 3 == 0 {
                drop(fs.fsync(&data, false));
            }
            settle(&fs);
            refused = fs.io_stats().failed;
        }
        assert!(refused > places.len() as u64, "{refused} writes met one of {} bad places", places.len());
        assert!(stats(&fs).moved > 500 && moved_by(&fs) == 0, "{:?}", stats(&fs));
        assert_contents(&fs, &data, &known);
        drop((data, fs));
        let (recorder, tick) = (device.recorder(), device.recorder().tick());
        let log = recorder.log();
        let mut image = CrashImage::new(&base, &log).at(tick);
        for index in image.volatile() {
            image = image.keep(index);
        }
        let below = Arc::new(image.build());
        let device = Arc::new(device.after_cut(tick, Arc::clone(&below), Adversary::new(22)));
        let disk = Disk { base: below.fork(), below, device };
        let fs = disk.mount();
        assert_contents(&fs, &file(&fs, "data"), &known);
        fs.unmount().unwrap();
        disk.assert_settled();
    };
    in_virtual_time(2, work);
}

#[test]
fn an_export_is_a_volume_for_every_program() {
    let disk = Disk::new(24, 1.4, Adversary { moves: 900, ..Adversary::new(9) });
    let fs = disk.mount();
    let (data, mut random, mut known) = (file(&fs, "data"), Rng(2), BTreeMap::new());
    for round in 0..30 {
        overwrite(&fs, &data, 1500, 60, &mut random, &mut known);
        fs.fsync(&file(&fs, &format!("file{round}")), false).unwrap();
    }
    fs.sync().unwrap();
    let from = Arc::clone(&disk.device) as Arc<dyn Device>;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("export.img");
    let target = MemDevice::new(disk.device.info().blocks);
    let refused = mkfs::export(&from, &target).unwrap_err().to_string();
    assert!(refused.contains("unmount"), "{refused}");
    drop(data);
    fs.unmount().unwrap();
    let held = disk.device.held();
    assert!(held.iter().any(|block| *block >= disk.device.geometry().gc.start), "nothing was moved");
    mkfs::export(&from, &target).unwrap();
    save(&target, &path);
    steadyfs_testkit::fsck_f2fs(&path).unwrap();
    let image = Image::open(Arc::new(target.fork())).unwrap();
    assert!(image.superblock().regions().is_none());
    let fs = crate::common::mount(Arc::new(target), "");
    assert_contents(&fs, &file(&fs, "data"), &known);
    fs.unmount().unwrap();
}

#[test]
fn a_volume_is_refused_where_nobody_collects_and_read_there() {
    let disk = Disk::new(24, 1.4, Adversary::new(1));
    let fs = disk.mount();
    fs.write(&file(&fs, "data"), 0, &[7; PAGE]).unwrap();
    fs.unmount().unwrap();
    let mount = |options: &str| Fs::mount(Arc::new(disk.below.fork()), MountOptions::parse(options).unwrap());
    assert!(mount("").err().unwrap().to_string().contains("does not move blocks by itself"));
    let fs = mount("ro").unwrap();
    assert_contents(&fs, &file(&fs, "data"), &BTreeMap::from([(0, 7)]));
    assert_eq!(disk.device.geometry().capacity, 24 * SEGMENT);
}

/// A device that skips a number as soon as a checkpoint completes some records: it then says that it has delivered
/// more, and tells of these under wrong numbers. Or one that says that it moved a block which no page is in.
struct Skipping {
    inner: Arc<Moving>,
    skips: AtomicBool,
    misleads: AtomicBool,
    /// Records that it had delivered, and the host had not heard of, when it began to skip.
    unheard: AtomicU64,
    /// Number of the last record that an upcall told of.
    told: AtomicU64,
}

impl Skipping {
    fn new(inner: &Arc<Moving>) -> Arc<Self> {
        Arc::new(Skipping {
            inner: Arc::clone(inner),
            skips: AtomicBool::new(false),
            misleads: AtomicBool::new(false),
            unheard: AtomicU64::new(0),
            told: AtomicU64::new(0),
        })
    }
}

impl Device for Skipping {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }
    fn submit(&self, batch: Vec<Request>) {
        self.inner.submit(batch);
    }
    fn migrations(&self) -> Option<&dyn Migrations> {
        Some(self)
    }
}

impl Migrations for Skipping {
    fn geometry(&self) -> MigrationGeometry {
        self.inner.geometry()
    }
    fn next(&self) -> Option<Upcall> {
        let mut upcall = self.inner.next()?;
        upcall.first += u64::from(self.skips.load(SeqCst));
        if self.misleads.load(SeqCst) {
            upcall.moves[0].from = 0;
        }
        self.told.store(upcall.last(), SeqCst);
        Some(upcall)
    }
    fn complete(&self, up_to: u64) {
        self.inner.complete(up_to);
        // The checkpoint that completes goes on to wait until the host has heard of what was delivered.
        if up_to > 50 && !self.skips.swap(true, SeqCst) {
            let told = self.told.load(SeqCst);
            self.unheard.store(self.inner.deliver().saturating_sub(told), SeqCst);
        }
    }
    fn resume(&self, served: u64) -> u64 {
        self.inner.resume(served)
    }
    fn completed(&self) -> u64 {
        self.inner.completed()
    }
    fn deliver(&self) -> u64 {
        self.inner.deliver()
    }
    fn room(&self) -> u64 {
        self.inner.room()
    }
    fn delivered(&self) -> u64 {
        self.inner.delivered()
    }
    fn press(&self) {
        self.inner.press();
    }
    fn close(&self) {
        self.inner.close();
    }
}

#[test]
fn a_device_that_skips_a_record_stops_the_volume_and_nobody_waits_for_ever() {
    let mut waited = 0;
    // A checkpoint has to wait in a fifth of them.
    for seed in 0..24 {
        let work = move || {
            // It delivers late, so that there is something left to deliver when a checkpoint completes.
            let disk = Disk::new(12, 1.4, Adversary { late: u64::MAX, records: 30, ..Adversary::new(seed) });
            let device = Skipping::new(&disk.device);
            let mounted = Arc::clone(&device) as Arc<dyn Device>;
            let fs = crate::common::mount(mounted, "cache=1M");
            let (data, mut random) = (file(&fs, "data"), Rng(seed));
            let refused = (0..40).find_map(|_| {
                (0..100).for_each(|_| drop(fs.write(&data, random.below(700) * PAGE as u64, &[1; PAGE])));
                fs.sync().err()
            });
            assert!(matches!(refused, Some(Error::ReadOnly(_) | Error::Stopped(_))), "{refused:?}");
            let unheard = device.unheard.load(SeqCst);
            drop(data);
            assert!(fs.unmount().is_err(), "a volume that was stopped has a last checkpoint");
            unheard
        };
        // Timers go on when all others wait for ever.
        let watched = move || {
            let task = steadyfs_rt::spawn("work", work);
            for _ in 0..600 {
                if task.is_finished() {
                    return task.join().unwrap();
                }
                steadyfs_rt::sleep(Duration::from_secs(1));
            }
            panic!("seed {seed}: somebody waits for ever");
        };
        waited += run(SimConfig { cores: 2, seed, ..SimConfig::default() }, watched).unwrap().value;
    }
    assert!(waited > 0, "no checkpoint had to wait for what was skipped");
}

/// The device delivers a record when the unmount asks for it, and the record is one that stops the volume. Nothing is
/// applied after that, and the unmount does not wait for it.
#[test]
fn an_unmount_waits_for_no_record_after_one_that_stopped_the_volume() {
    let work = || {
        let disk = Disk::new(12, 1.4, Adversary { late: u64::MAX, records: 256, ..Adversary::new(3) });
        let device = Skipping::new(&disk.device);
        device.misleads.store(true, SeqCst);
        let mounted = Arc::clone(&device) as Arc<dyn Device>;
        let fs = crate::common::mount(mounted, "cache=1M");
        let (data, mut random) = (file(&fs, "data"), Rng(3));
        overwrite(&fs, &data, 100, 100, &mut random, &mut BTreeMap::new());
        drop(data);
        let began = steadyfs_rt::now();
        assert!(fs.unmount().is_err(), "a volume that was stopped has a last checkpoint");
        (began.elapsed(), device.told.load(SeqCst))
    };
    let (waited, told) = in_virtual_time(2, work);
    assert!(told > 0 && waited < Duration::from_secs(5), "{waited:?} for {told} records");
}
