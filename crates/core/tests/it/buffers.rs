//! Where blocks are while they move: in the page cache, as in F2FS, or in memory of the collector's own.

use crate::common::{assert_sound, create};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_core::{Fs, InodeRef, Urgency};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request};
use steadyfs_rt::Cost;
use steadyfs_rt::sim::{SimConfig, cpu_time, run};

const PAGES: u64 = 512;
const SEGMENT: u64 = 2 << 20;

/// A device that counts requests to read.
struct Counting {
    inner: Arc<MemDevice>,
    reads: AtomicU64,
}

impl Device for Counting {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        let reads = batch.iter().filter(|request| matches!(request.op, Op::Read { .. })).count();
        self.reads.fetch_add(reads as u64, SeqCst);
        self.inner.submit(batch);
    }
}

fn mount(device: &Arc<MemDevice>, options: &str) -> Arc<Fs> {
    mount_any(Arc::clone(device) as Arc<dyn Device>, options)
}

fn mount_any(device: Arc<dyn Device>, options: &str) -> Arc<Fs> {
    crate::common::mount(device, &format!("background_gc=off,commit=0,{options}"))
}

/// Neighbouring blocks are read with one request: F2FS submits one for each, and its kernel merges them.
#[test]
fn neighbours_are_read_with_one_request() {
    for buffer in ["dedicated", "cache"] {
        let inner = Arc::new(crate::common::mkfs(160, &[]));
        let device = Arc::new(Counting { inner, reads: AtomicU64::new(0) });
        let fs = mount_any(Arc::clone(&device) as Arc<dyn Device>, &format!("gc.buffer={buffer},gc.protect=page"));
        let _file = in_a_row(&fs);
        let before = device.reads.load(SeqCst);
        let moved = fs.gc(1, Urgency::Foreground).unwrap().data_moved;
        let requests = device.reads.load(SeqCst) - before;
        assert!(moved > 100 && requests < 10, "{buffer}: {requests} for {moved}");
    }
}

/// A file with pages at the start overwritten, so that the first segment has a run of valid blocks; nothing is cached.
fn in_a_row(fs: &Fs) -> InodeRef {
    let file = create(fs, "file");
    fs.write_direct(&file, 0, &vec![1; 1024 * 4096]).unwrap();
    fs.write_direct(&file, 0, &vec![2; 300 * 4096]).unwrap();
    fs.sync().unwrap();
    file
}

/// In virtual time each block that goes through the page cache pays for a request of its own.
#[test]
fn merged_requests_are_paid_for() {
    let gc = |buffer: &str| {
        let (base, options) = (crate::common::mkfs(160, &[]), format!("gc.buffer={buffer},gc.protect=page"));
        let mut config = SimConfig { cores: 1, ..SimConfig::default() };
        Cost::ALL.into_iter().for_each(|cost| config.costs.set(cost, 0));
        config.costs.set(Cost::BioSubmit, 1000);
        let report = run(config, move || {
            let fs = mount(&Arc::new(base), &options);
            let _file = in_a_row(&fs);
            let before = cpu_time();
            let moved = fs.gc(1, Urgency::Foreground).unwrap().data_moved;
            ((cpu_time() - before).as_micros() as u64, moved)
        });
        report.unwrap().value
    };
    let ((own, moved), (cache, too)) = (gc("dedicated"), gc("cache"));
    assert!(moved == too && own < 20, "{own} us and {cache} us for {moved} and {too} blocks");
    assert!((moved..moved + 20).contains(&cache), "{cache} us of requests for {moved} blocks");
}

fn stamp(page: u64, version: u64) -> Vec<u8> {
    (page << 32 | version).to_le_bytes().repeat(512)
}

/// A file with two pages of three overwritten, so that its segments are worth cleaning; nothing is cached.
fn half_written(fs: &Fs) -> InodeRef {
    let file = create(fs, "file");
    for page in 0..PAGES * 2 {
        fs.write_direct(&file, page * 4096, &stamp(page, 1)).unwrap();
    }
    for page in (0..PAGES * 2).filter(|page| page % 3 != 0) {
        fs.write_direct(&file, page * 4096, &stamp(page, 2)).unwrap();
    }
    fs.sync().unwrap();
    assert_eq!(fs.cache_stats().dirty, 0);
    file
}

fn version(page: u64) -> u64 {
    if page.is_multiple_of(3) { 1 } else { 2 }
}

fn read(fs: &Fs, file: &InodeRef, page: u64) -> Vec<u8> {
    let mut found = vec![0; 4096];
    assert_eq!(fs.read_direct(file, page * 4096, &mut found).unwrap(), 4096);
    found
}

/// What is on the device is right too: mounted anew, and checked.
fn check_all(fs: Arc<Fs>, file: InodeRef, device: &Arc<MemDevice>, expected: impl Fn(u64) -> u64) {
    let compare = |fs: &Fs, file: &InodeRef| {
        (0..PAGES * 2).for_each(|page| assert!(read(fs, file, page) == stamp(page, expected(page)), "page {page}"));
    };
    compare(&fs, &file);
    drop(file);
    fs.unmount().unwrap();
    drop(fs);
    assert_sound(Arc::new(device.fork()), "collected");
    let fs = mount(device, "");
    let file = fs.lookup(&fs.root().unwrap(), b"file").unwrap();
    compare(&fs, &file);
    drop(file);
    fs.unmount().unwrap();
}

#[test]
fn memory_of_its_own_leaves_the_cache_alone_and_is_bounded() {
    let device = Arc::new(crate::common::mkfs(160, &[]));
    let fs = mount(&device, "gc.buffer=dedicated,gc.protect=page");
    let file = half_written(&fs);
    let before = fs.cache_stats();
    let moved = fs.gc(4, Urgency::Foreground).unwrap().data_moved;
    let memory = fs.gc_memory();
    assert!(moved >= 300, "{moved}");
    assert_eq!(fs.cache_stats(), before, "the cache is as it was");
    assert!(memory.held == 0 && memory.peak >= 4096 * 100 && memory.peak <= 2 * SEGMENT, "{memory:?}");
    check_all(fs, file, &device, version);
}

#[test]
fn what_is_not_cached_is_read_and_stays() {
    let device = Arc::new(crate::common::mkfs(160, &[]));
    let fs = mount(&device, "gc.buffer=cache,gc.protect=page");
    let file = half_written(&fs);
    let (cached, io) = (fs.cache_stats().cached, fs.io_stats());
    let report = fs.gc(4, Urgency::Foreground).unwrap();
    assert!(report.data_moved >= 300, "{report:?}");
    assert_eq!(fs.cache_stats().cached - cached, report.data_moved);
    assert!(fs.io_stats().read - io.read >= report.data_moved);
    assert_eq!(fs.gc_memory().peak, 0);
    // Now everything that moved can be read without the device.
    let before = fs.io_stats().read;
    let mut found = vec![0; 4096];
    (0..PAGES * 2).step_by(3).for_each(|page| assert_eq!(fs.read(&file, page * 4096, &mut found).unwrap(), 4096));
    assert!(fs.io_stats().read - before < PAGES * 2 / 3 - 300 + 10);
    check_all(fs, file, &device, version);
}

#[test]
fn cached_pages_are_not_read_and_dirty_ones_are_written_as_they_are() {
    let device = Arc::new(crate::common::mkfs(160, &[]));
    let fs = mount(&device, "gc.buffer=cache,gc.protect=page");
    let file = half_written(&fs);
    let mut found = vec![0; 4096];
    for page in 0..PAGES * 2 {
        assert_eq!(fs.read(&file, page * 4096, &mut found).unwrap(), 4096);
    }
    let dirty = |page: u64| page.is_multiple_of(6);
    for page in (0..PAGES * 2).filter(|page| dirty(*page)) {
        fs.write(&file, page * 4096, &stamp(page, 3)).unwrap();
    }
    let (stats, io) = (fs.cache_stats(), fs.io_stats());
    let report = fs.gc(3, Urgency::Foreground).unwrap();
    let after = fs.io_stats();
    assert!(report.data_moved >= 300 && report.skipped.total() == 0, "{report:?}");
    assert!(after.read - io.read < 20, "{} blocks were read", after.read - io.read);
    // Written once: the dirty ones among what moved are clean now, and are what was read back.
    assert!(fs.cache_stats().dirty <= stats.dirty - 140, "{:?} of {stats:?}", fs.cache_stats());
    assert_eq!(fs.cache_stats().flying, 0);
    check_all(fs, file, &device, |page| if dirty(page) { 3 } else { version(page) });
}

/// A cache that is smaller than what moves stays within its bounds.
#[test]
fn the_budget_bounds_the_cache() {
    let device = Arc::new(crate::common::mkfs(160, &[]));
    let fs = mount(&device, "gc.buffer=cache,gc.protect=page,cache=1M");
    let file = half_written(&fs);
    let moved = fs.gc(6, Urgency::Foreground).unwrap().data_moved;
    let stats = fs.cache_stats();
    assert!(moved > stats.limit && stats.cached <= stats.limit, "{moved} moved, {stats:?}");
    check_all(fs, file, &device, version);
}
