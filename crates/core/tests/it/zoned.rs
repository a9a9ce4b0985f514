//! Volumes on a zoned device that refuses, and notes, whatever breaks a rule of zones.

use crate::common::{assert_contents, assert_stock, file, files_come_and_go, in_virtual_time, overwrite};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, MountOptions, NewInode, ZoneStats};
use steadyfs_device::{
    Device, DeviceInfo, Fault, FaultyDevice, IoError, MemDevice, OpKind, Request, Zone, ZoneGeometry, ZoneState,
    ZonedDevice, errno,
};
use steadyfs_rt::sim::{SimConfig, run};
use steadyfs_testkit::Rng;

const PAGE: usize = 4096;
const SEGMENT: u64 = 512;
/// Where the features begin in a superblock's block, and the bit of zoned volumes.
const FEATURES: (usize, u8) = (1024 + 2180, 2);

/// A device of so many zones, of which the first eight are conventional.
fn geometry(segments: u64, zones: u64) -> ZoneGeometry {
    let size = segments * SEGMENT;
    ZoneGeometry { size, capacity: size, zones, conventional: 8, max_open: 6, max_active: 7 }
}

fn options() -> MkfsOptions {
    MkfsOptions { zoned: true, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) }
}

fn made(geometry: ZoneGeometry) -> Arc<ZonedDevice> {
    let device = Arc::new(ZonedDevice::new(geometry));
    mkfs::format(&*device, &options()).unwrap();
    device
}

fn mount_with(device: &Arc<ZonedDevice>, options: &str) -> Arc<Fs> {
    crate::common::mount(Arc::clone(device) as Arc<dyn Device>, options)
}

fn mount(device: &Arc<ZonedDevice>) -> Arc<Fs> {
    mount_with(device, "cache=1M")
}

fn zones(fs: &Fs) -> ZoneStats {
    fs.zone_stats().expect("a volume on a zoned device")
}

/// The host broke no rule, and the volume is sound.
fn assert_sound(device: &Arc<ZonedDevice>) {
    assert_eq!(device.breaches(), [""; 0]);
    let checked = Arc::clone(device) as Arc<dyn Device>;
    let report = check(checked, &CheckOptions { threads: 1, ..CheckOptions::default() }).unwrap();
    let issues = report.issues;
    assert!(issues.is_empty(), "{} issues: {:?}", issues.len(), &issues[..issues.len().min(3)]);
}

/// What the device holds, as a volume for devices without zones.
fn without_zones(device: &ZonedDevice) -> MemDevice {
    let plain = device.contents();
    for block in 0..2 {
        let mut page = plain.read_one(block).unwrap();
        page.make_mut()[FEATURES.0] &= !FEATURES.1;
        plain.write(block, vec![page]).unwrap();
    }
    plain
}

#[test]
fn mkfs_writes_zones_in_order_and_the_mount_goes_on_there() {
    for segments in [1, 4] {
        let device = Arc::new(ZonedDevice::new(geometry(segments, 40)));
        for _ in 0..2 {
            let made = mkfs::format(&*device, &options()).unwrap();
            let layout = made.superblock.layout();
            assert_eq!((u64::from(layout.segs_per_sec), layout.secs_per_zone), (segments, 1));
            assert_eq!(layout.main.get() % (segments * SEGMENT), 0);
            assert!(made.superblock.features().to_string().contains("blkzoned"));
            assert_sound(&device);
            assert_stock(&without_zones(&device));
        }
        let before = device.counts();
        let fs = mount(&device);
        fs.write(&file(&fs, "data"), 0, &[7; PAGE]).unwrap();
        fs.unmount().unwrap();
        drop(fs);
        let fs = mount(&device);
        assert_contents(&fs, &file(&fs, "data"), &BTreeMap::from([(0, 7)]));
        fs.unmount().unwrap();
        assert_eq!(device.counts().finishes, before.finishes, "logs go on where they were");
        assert_sound(&device);
        assert_stock(&without_zones(&device));
    }
}

#[test]
fn what_zones_cannot_bear_is_refused() {
    let refusal = |result: steadyfs_core::Result<mkfs::MkfsReport>| result.unwrap_err().to_string();
    let zoned = |change: &dyn Fn(&mut ZoneGeometry)| {
        let mut geometry = geometry(1, 40);
        change(&mut geometry);
        ZonedDevice::new(geometry)
    };
    let usual = zoned(&|_| ());
    let plain = MkfsOptions { zoned: false, ..options() };
    assert!(refusal(mkfs::format(&usual, &plain)).contains("takes -m"));
    assert!(refusal(mkfs::format(&MemDevice::new(40 * SEGMENT), &options())).contains("has no zones"));
    assert!(refusal(mkfs::format(&usual, &MkfsOptions { segs_per_sec: 2, ..options() })).contains("-s"));
    let few = refusal(mkfs::format(&zoned(&|g| g.conventional = 7), &options()));
    assert!(few.contains("takes 8 conventional zones") && few.contains("has 7"), "{few}");
    let short = refusal(mkfs::format(&zoned(&|g| g.capacity = 500), &options()));
    assert!(short.contains("hold 500"), "{short}");

    let refused = |device: &Arc<dyn Device>, options: &str| {
        Fs::mount(Arc::clone(device), MountOptions::parse(options).unwrap()).err().map(|error| error.to_string())
    };
    let device = made(geometry(1, 40));
    let copy = Arc::new(device.contents()) as Arc<dyn Device>;
    assert!(refused(&copy, "").unwrap().contains("has no zones"));
    assert_eq!(refused(&copy, "ro"), None);
    let device = device as Arc<dyn Device>;
    assert!(refused(&device, "mode=adaptive").unwrap().contains("mode=adaptive"));
    assert!(refused(&device, "journal=single").unwrap().contains("journal"));
    assert_eq!(refused(&device, "gc=f2fs,discard=blocks,ipu=always"), None, "a preset's mode is replaced");
    let streams = |max_active| {
        let device = Arc::new(zoned(&|g| (g.max_open, g.max_active) = (max_active, max_active)));
        mkfs::format(&*device, &options()).unwrap();
        mount_with(&device, "gc=scalelfs").stats().collectors.number
    };
    println!("{} {} {}", streams(0), streams(7), streams(6));
    assert!(streams(0) > 1 && streams(7) == 1 && streams(6) == 0, "collectors share the zones that logs leave");
    let few = zoned(&|g| (g.max_open, g.max_active) = (5, 5));
    mkfs::format(&few, &options()).unwrap();
    assert!(refused(&(Arc::new(few) as Arc<dyn Device>), "").unwrap().contains("6 logs"));
}

/// Several mounts, with files that come and go.
fn live(seed: u64, options: &str) {
    let device = made(geometry(1 + seed % 3, 40));
    let (mut random, mut known) = (Rng(seed), BTreeMap::new());
    for _ in 0..3 {
        let fs = mount_with(&device, options);
        drop(files_come_and_go(&fs, &mut random, &mut known));
        fs.unmount().unwrap();
        drop(fs);
        assert_sound(&device);
    }
    assert_stock(&without_zones(&device));
}

#[test]
fn files_survive_in_zones() {
    for (seed, options) in [(0, "cache=1M"), (1, "cache=1M,gc=scalelfs"), (2, "gc=f2fs"), (3, "gc=f2fs-lm")] {
        live(seed, options);
    }
}

#[test]
fn files_survive_in_every_schedule() {
    for seed in 0..4 {
        let options = if seed % 2 == 0 { "cache=1M" } else { "cache=1M,gc=scalelfs" };
        run(SimConfig { cores: 4, seed, ..SimConfig::default() }, move || live(seed, options)).unwrap();
    }
}

#[test]
fn several_times_the_capacity_is_written_and_zones_are_reset() {
    for options in ["cache=1M,gc=f2fs", "cache=1M,gc=scalelfs"] {
        let geometry = geometry(1, 48);
        let device = made(geometry);
        let fs = mount_with(&device, options);
        let data = file(&fs, "data");
        let (mut random, mut known) = (Rng(1), BTreeMap::new());
        let pages = fs.statfs().blocks * 3 / 4;
        let count = 4 * 40 * geometry.size;
        for _ in 0..count / 64 {
            overwrite(&fs, &data, pages, 64, &mut random, &mut known);
        }
        fs.sync().unwrap();
        assert_contents(&fs, &data, &known);
        let (found, totals) = (zones(&fs), fs.gc_totals());
        println!("{options}: {count} blocks written, {found:?}, {} moved, {:?}", totals.data_moved, device.counts());
        assert!(totals.data_moved > 0 && found.resets > count / geometry.size, "{found:?}");
        assert!((3..=geometry.max_active).contains(&found.most_active), "{found:?}");
        drop(data);
        fs.unmount().unwrap();
        drop(fs);
        assert_sound(&device);
        assert_stock(&without_zones(&device));
    }
}

/// Zones that are partly written.
fn active(device: &ZonedDevice) -> Vec<u64> {
    let zones = device.zone_report(8, 32).unwrap();
    let open = zones.into_iter().filter(|zone| matches!(zone.state, ZoneState::Open | ZoneState::Closed));
    open.map(|zone| zone.start).collect()
}

/// What pages of the file may hold: the last that was made durable, and all that was written since.
type Legal = BTreeMap<u64, Vec<u8>>;

const PAGES: u64 = 300;

/// Overwrites pages and makes them durable, until the device is gone.
fn session(fs: &Fs, random: &mut Rng, legal: &mut Legal) -> steadyfs_core::Result<()> {
    let root = fs.root()?;
    let data = match fs.lookup(&root, b"data") {
        Ok(data) => data,
        Err(_) => fs.create(&root, b"data", &NewInode { mode: 0o100_644, ..NewInode::default() })?,
    };
    for _ in 0..30 {
        // Now and then all of it, so that zones become empty.
        let all = random.below(3) == 0 || legal.is_empty();
        for at in 0..if all { PAGES } else { 10 + random.below(60) } {
            let page = if all { at } else { random.below(PAGES) };
            let byte = random.below(255) as u8 + 1;
            legal.entry(page).or_insert_with(|| vec![0]).push(byte);
            fs.write(&data, page * PAGE as u64, &[byte; PAGE])?;
        }
        match random.below(3) {
            0 => fs.sync()?,
            _ => fs.fsync(&data, random.below(2) == 0)?,
        }
        legal.values_mut().for_each(|bytes| drop(bytes.drain(..bytes.len() - 1)));
    }
    Ok(())
}

/// The pages hold what they may; what they hold is all they may hold from now on, for it can be read.
fn assert_legal(fs: &Fs, legal: &mut Legal, place: &str) {
    let data = file(fs, "data");
    for (page, bytes) in legal.iter_mut() {
        let mut buffer = vec![0; PAGE];
        fs.read(&data, page * PAGE as u64, &mut buffer).unwrap();
        assert!(bytes.contains(&buffer[0]), "{place}: page {page} holds {} and may hold {bytes:?}", buffer[0]);
        *bytes = vec![buffer[0]];
    }
}

/// Sessions that end with a power cut at any request; what was fsynced is there after it. Zones that were finished, and
/// those that had lost what was not flushed.
fn cut(seed: u64, options: &str) -> [u64; 2] {
    let mut random = Rng(seed ^ 0xC0FFEE);
    let mut device = made(geometry(1 + seed % 2, 40));
    let mut legal = Legal::new();
    let mut sums = [0; 2];
    for number in 0..4 {
        let place = format!("seed {seed}, session {number}");
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&device)));
        faulty.add(Fault::disappear().nth(20 + random.below(2500)));
        let mounted = Fs::mount(Arc::clone(&faulty) as Arc<dyn Device>, MountOptions::parse(options).unwrap());
        if let Ok(fs) = mounted {
            let ended = session(&fs, &mut random, &mut legal);
            assert!(ended.is_ok() || faulty.is_gone(), "{place}: {ended:?}");
        }
        assert_eq!(device.breaches(), [""; 0], "{place}");
        device = Arc::new(device.after_power_cut(random.below(u64::MAX)));
        sums[1] += active(&device).len() as u64;
        let checked = Arc::clone(&device) as Arc<dyn Device>;
        let found = check(checked, &CheckOptions { threads: 1, ..CheckOptions::default() }).unwrap().issues;
        assert!(found.iter().all(|issue| issue.severity() < Severity::Error), "{place}: {found:?}");
        if random.below(2) == 0 {
            let fs = mount_with(&device, options);
            assert_legal(&fs, &mut legal, &place);
            // Nothing is in the way of what comes next.
            fs.write(&file(&fs, "other"), 0, &[9; 40 * PAGE]).unwrap();
            fs.fsync(&file(&fs, "other"), false).unwrap();
            sums[0] += zones(&fs).finished;
            fs.unmount().unwrap();
            drop(fs);
            let logs = active(&device).len();
            assert!(logs <= 6 || options.contains("scalelfs"), "{place}: {logs} zones are partly written");
            assert_sound(&device);
            assert_stock(&without_zones(&device));
        }
    }
    sums
}

#[test]
fn what_was_fsynced_survives_power_cuts_at_any_request() {
    let mut sums = [0; 2];
    for seed in 0..10 {
        let found = cut(seed, if seed % 2 == 0 { "cache=1M" } else { "cache=1M,gc=scalelfs" });
        sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
    println!("{} zones were finished after a cut; {} were partly written", sums[0], sums[1]);
    assert!(sums[0] > 10 && sums[1] > 20, "{sums:?}");
}

/// Overwrites pages while something happens to the device, and looks at them before and after a mount.
fn goes_on(harm: impl Fn(&FaultyDevice<Arc<ZonedDevice>>)) -> (Arc<ZonedDevice>, ZoneStats) {
    let device = made(geometry(1, 40));
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&device)));
    let fs = crate::common::mount(Arc::clone(&faulty) as Arc<dyn Device>, "cache=1M");
    let data = file(&fs, "data");
    let (mut random, mut known) = (Rng(3), BTreeMap::new());
    overwrite(&fs, &data, 700, 300, &mut random, &mut known);
    fs.sync().unwrap();
    harm(&faulty);
    for round in 0..8 {
        // Many that lie side by side, which go to one zone, and others.
        fs.write(&data, 0, &[round + 1; 150 * PAGE]).unwrap();
        known.extend((0..150).map(|page| (page, round + 1)));
        overwrite(&fs, &data, 700, 150, &mut random, &mut known);
        // Whoever waits for a refused write is told; what was to be written is kept, and goes elsewhere the next time.
        if fs.fsync(&data, false).is_err() {
            assert!((0..4).any(|_| fs.sync().is_ok()), "no sync succeeds");
        }
        assert_contents(&fs, &data, &known);
    }
    let found = zones(&fs);
    faulty.heal();
    drop(data);
    fs.unmount().unwrap();
    drop(fs);
    assert_sound(&device);
    let fs = mount(&device);
    assert_contents(&fs, &file(&fs, "data"), &known);
    fs.unmount().unwrap();
    assert_sound(&device);
    (device, found)
}

#[test]
fn what_a_zone_refuses_goes_to_another_one() {
    for nth in [0, 1, 3, 7, 20] {
        let (device, found) = goes_on(|faulty| {
            let main = 8 * SEGMENT..40 * SEGMENT;
            faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(main).nth(nth));
        });
        assert_eq!((found.refused, found.retired), (1, 0), "write {nth}: {found:?}");
        assert!(found.finished >= 1, "{found:?}");
        assert_stock(&without_zones(&device));
    }
}

#[test]
fn many_zones_may_refuse_something_one_after_the_other() {
    let (device, found) = goes_on(|faulty| {
        let main = 8 * SEGMENT..40 * SEGMENT;
        (0..12).for_each(|n| faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(main.clone()).nth(3 * n)));
    });
    assert!(found.refused > 8, "{found:?}");
    assert_stock(&without_zones(&device));
}

#[test]
fn a_device_that_fails_as_a_whole_has_a_few_zones_and_not_all() {
    let device = made(geometry(1, 60));
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&device)));
    let fs = crate::common::mount(Arc::clone(&faulty) as Arc<dyn Device>, "cache=1M,commit=0");
    let data = file(&fs, "data");
    let (mut random, mut known) = (Rng(3), BTreeMap::new());
    overwrite(&fs, &data, 300, 300, &mut random, &mut known);
    fs.sync().unwrap();
    let free = || fs.stats().segments.free;
    let before = free();
    faulty.add(Fault::fail(errno::EIO).on(OpKind::Write).in_blocks(8 * SEGMENT..60 * SEGMENT));
    for _ in 0..30 {
        let _ = fs.write(&data, 0, &[7; 20 * PAGE]);
        assert!(fs.sync().is_err());
    }
    // A log that stays fills its zone, with what is kept in memory, and goes on.
    assert!((1..=10).contains(&(before - free())), "{} zones are gone", before - free());
    assert!(fs.unmount().is_err());
    drop((data, fs));
    let fs = mount(&device);
    assert_contents(&fs, &file(&fs, "data"), &known);
    fs.unmount().unwrap();
    assert_sound(&device);
}

/// A device that takes writes to some zones, and says later that it has not done them.
struct Late {
    inner: Arc<ZonedDevice>,
    bad: std::sync::Mutex<Vec<u64>>,
}

impl Device for Late {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }
    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (block, _) = request.op.range();
            let is_bad = self.bad.lock().unwrap().contains(&(block - block % SEGMENT));
            if is_bad && request.op.kind() == OpKind::Write {
                drop(steadyfs_rt::spawn("late", move || {
                    steadyfs_rt::sleep(Duration::from_millis(1));
                    request.fail(errno::EIO);
                }));
            } else {
                self.inner.submit(vec![request]);
            }
        }
    }
    fn zones(&self) -> Option<ZoneGeometry> {
        self.inner.zones()
    }
    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.inner.zone_report(first, count)
    }
}

#[test]
fn however_much_a_zone_has_refused_it_goes_elsewhere() {
    let work = || {
        let inner = made(geometry(1, 40));
        let late = Arc::new(Late { inner: Arc::clone(&inner), bad: Default::default() });
        let fs = crate::common::mount(Arc::clone(&late) as Arc<dyn Device>, "commit=0");
        file(&fs, "first");
        fs.sync().unwrap();
        *late.bad.lock().unwrap() = active(&inner);
        // More nodes than a device may refuse in so many places.
        (0..200).for_each(|n| drop(file(&fs, &format!("file{n}"))));
        assert!(fs.sync().is_err() && (0..4).any(|_| fs.sync().is_ok()), "no sync succeeds");
        fs.unmount().unwrap();
        drop(fs);
        assert_sound(&inner);
        let fs = mount(&inner);
        let root = fs.root().unwrap();
        (0..200).for_each(|n| drop(fs.lookup(&root, format!("file{n}").as_bytes()).unwrap()));
        fs.unmount().unwrap();
        assert_sound(&inner);
    };
    in_virtual_time(2, work);
}

#[test]
fn zones_that_wear_out_are_left() {
    let (device, found) = goes_on(|faulty| {
        active(faulty.inner()).into_iter().for_each(|zone| faulty.inner().wear_out(zone, ZoneState::ReadOnly));
        faulty.inner().wear_out(39 * SEGMENT, ZoneState::Offline);
    });
    assert!(found.refused >= 2 && found.retired >= 1, "{found:?}");
    assert_stock(&without_zones(&device));
}

#[test]
fn zones_that_were_worn_out_before_are_never_taken() {
    let device = made(geometry(1, 40));
    (16..32).for_each(|zone| device.wear_out(zone * SEGMENT, ZoneState::ReadOnly));
    let fs = mount(&device);
    let data = file(&fs, "data");
    let (mut random, mut known) = (Rng(3), BTreeMap::new());
    for _ in 0..40 {
        overwrite(&fs, &data, 700, 200, &mut random, &mut known);
        fs.sync().unwrap();
    }
    let found = zones(&fs);
    assert_eq!((found.retired, found.refused), (16, 0), "{found:?}");
    assert_contents(&fs, &data, &known);
    drop(data);
    fs.unmount().unwrap();
    drop(fs);
    assert_sound(&device);
}
