//! Snapshots against known work, and the bounds of what they take.

mod causes;

use super::*;
use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, InodeRef, MountOptions, NewInode};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::PageIndex;

const PAGE: usize = BLOCK_SIZE;

/// No mount sees more kinds of requests: of the 43 of the protocol the kernel sends one or the other.
const MOST_OPERATIONS: usize = 40;

fn mount(mib: u64, options: &str) -> Arc<Fs> {
    let device = MemDevice::new((mib << 20) / BLOCK_SIZE as u64);
    mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
    Fs::mount(Arc::new(device) as Arc<dyn Device>, MountOptions::parse(options).unwrap()).unwrap()
}

fn create(fs: &Fs, name: &str) -> InodeRef {
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    fs.create(&fs.root().unwrap(), name.as_bytes(), &new).unwrap()
}

#[test]
fn what_users_write_and_read_is_counted_to_the_byte_in_whichever_way() {
    let fs = mount(128, "commit=0");
    let file = create(&fs, "file");
    let app = || (fs.stats().app.written_bytes, fs.stats().app.read_bytes);
    assert_eq!(app(), (0, 0));
    fs.write(&file, 3, &[1; 5000]).unwrap();
    fs.append(&file, &[2; 7]).unwrap();
    fs.write_pages(&file, PageIndex(10), &[PageBuf::zeroed()]).unwrap();
    assert_eq!(app(), (5007 + 4096, 0));
    fs.write_direct(&file, 0, &[3; 2 * PAGE]).unwrap();
    fs.write_direct(&file, 1, &[3; 10]).unwrap();
    fs.write_pages_direct(&file, PageIndex(11), &[PageBuf::zeroed()]).unwrap();
    fs.write_back(&file, 0, &[4; 100], false).unwrap();
    fs.write_back(&file, 0, &[4; PAGE], true).unwrap();
    let written = 5007 + 4096 + 8192 + 10 + 4096 + 100 + 4096;
    assert_eq!(app(), (written, 0));
    let size = 12 * PAGE;
    let mut buffer = vec![0; 2 * size];
    assert_eq!(fs.read(&file, 0, &mut buffer).unwrap(), size);
    assert_eq!(fs.read_direct(&file, size as u64 - 9, &mut buffer).unwrap(), 9);
    assert_eq!(fs.read_direct(&file, 10 * PAGE as u64, &mut buffer[..2 * PAGE]).unwrap(), 2 * PAGE);
    assert_eq!(app(), (written, (size + 9 + 2 * PAGE) as u64));
    drop(file);
    fs.unmount().unwrap();
}

#[test]
fn checkpoints_are_told_by_cause_and_add_up() {
    let fs = mount(128, "commit=0");
    let root = fs.root().unwrap();
    let file = create(&fs, "file");
    fs.fsync(&root, false).unwrap();
    fs.write(&file, 0, &[1; PAGE]).unwrap();
    fs.sync().unwrap();
    fs.sync().unwrap(); // nothing to do
    drop((file, root));
    fs.unmount().unwrap();
    let checkpoints = fs.stats().checkpoints;
    let of = |cause: Cause| checkpoints.causes[cause.name()];
    assert_eq!((of(Cause::Mount), of(Cause::Fsync), of(Cause::Sync), of(Cause::Unmount)), (1, 1, 1, 1));
    assert_eq!(checkpoints.committed, checkpoints.causes.values().sum::<u64>());
    assert!(!checkpoints.last.is_zero() && checkpoints.time >= checkpoints.last, "{checkpoints:?}");
}

fn write_page(fs: &Fs, file: &InodeRef, page: u64) {
    assert_eq!(fs.write(file, page * PAGE as u64, &[5; PAGE]).unwrap(), PAGE);
}

/// Writes a file in full, and then every second page of it again, so that there is something to collect.
fn make_garbage(fs: &Fs, pages: u64) {
    let file = create(fs, "file");
    (0..pages).for_each(|page| write_page(fs, &file, page));
    fs.sync().unwrap();
    (0..pages).step_by(2).for_each(|page| write_page(fs, &file, page));
    fs.sync().unwrap();
}

#[test]
fn what_each_collector_did_adds_up_to_the_totals() {
    for options in ["commit=0,gc.collectors=2", "commit=0,gc=f2fs-lfs"] {
        let fs = mount(256, options);
        let pages = fs.statfs().blocks_free * 8 / 10;
        make_garbage(&fs, pages);
        make_garbage_again(&fs, pages);
        let before = when_idle(&fs);
        let asked = fs.gc(2, crate::Urgency::Foreground).unwrap();
        let stats = when_idle(&fs);
        let all = || stats.collectors.each.iter().chain([&stats.collectors.alone]);
        let sum = |of: fn(&CollectorStats) -> u64| all().map(of).sum::<u64>();
        assert!(before.gc.done.victims > 0, "{options}: nothing was collected before");
        assert_eq!(stats.gc.done.victims, before.gc.done.victims + asked.victims);
        assert_eq!(
            (sum(|c| c.victims), sum(|c| c.sections_freed)),
            (stats.gc.done.victims, stats.gc.done.sections_freed)
        );
        assert_eq!(
            (sum(|c| c.data_moved), sum(|c| c.nodes_moved)),
            (stats.gc.done.data_moved, stats.gc.done.nodes_moved)
        );
        let dedicated = options.contains("collectors");
        assert_eq!(stats.collectors.each.len() as u64, stats.collectors.number);
        assert_eq!(stats.collectors.number, if dedicated { 2 } else { 0 });
        assert!(!dedicated || stats.collectors.each.iter().any(|c| c.victims > 0), "{:?}", stats.collectors);
        assert!(all().all(|c| c.victim.is_none()), "{:?}", stats.collectors);
        let waf = stats.waf().unwrap();
        assert!(waf > 1.0 && waf < 10.0, "{waf}");
        fs.unmount().unwrap();
    }
}

/// What the volume tells when its collectors have ended what they were called for: one of them may still be making a
/// checkpoint.
fn when_idle(fs: &Fs) -> VolumeStats {
    for _ in 0..2000 {
        let stats = fs.stats();
        if stats.collectors.each.iter().chain([&stats.collectors.alone]).all(|c| c.doing == Doing::Idle) {
            return stats;
        }
        steadyfs_rt::sleep(Duration::from_millis(10));
    }
    panic!("collectors do not come to an end: {:?}", fs.stats().collectors);
}

fn make_garbage_again(fs: &Fs, pages: u64) {
    let file = fs.lookup(&fs.root().unwrap(), b"file").unwrap();
    for _ in 0..2 {
        (0..pages).for_each(|n| write_page(fs, &file, n * 7919 % pages));
        // What is written again while it is still dirty goes to the device once.
        fs.sync().unwrap();
    }
}

#[test]
fn the_map_shows_what_the_counters_count() {
    let fs = mount(256, "commit=0,gc=f2fs-lfs");
    make_garbage(&fs, 20_000);
    let (stats, map) = (fs.stats(), fs.segment_map(MAP_CELLS));
    assert_eq!((map.segments, map.segments_per_cell), (stats.segments.total, 1));
    assert_eq!(map.cells().map(|cell| cell.valid).sum::<u64>(), stats.space.blocks_valid);
    assert_eq!(map.cells().map(|cell| cell.free).sum::<u64>(), stats.segments.free);
    assert_eq!(map.cells().map(|cell| cell.prefree).sum::<u64>(), stats.segments.prefree);
    assert_eq!(map.open.iter().sum::<u64>(), 6, "six logs");
    assert_eq!(map.cells().map(|cell| cell.segments).sum::<u64>(), map.segments);
    let used = stats.segments.used + stats.segments.dirty;
    assert_eq!(map.sections_by_validity.iter().sum::<u64>(), used, "sections of one segment");
    // Half of each of the file's old segments was written again.
    assert!(map.sections_by_validity[5] >= 30 && map.sections_by_validity[10] >= 15, "{:?}", map.sections_by_validity);
    for most in [1, 2, 7, 50] {
        let coarse = fs.segment_map(most);
        assert!(coarse.valid.len() <= most && coarse.valid.len() > most / 2, "{most}: {}", coarse.valid.len());
        assert_eq!(coarse, map.in_cells(map.valid.len().div_ceil(coarse.segments_per_cell as usize)));
        assert_eq!(coarse.cells().map(|cell| cell.segments).sum::<u64>(), map.segments);
    }
    fs.unmount().unwrap();
}

#[test]
fn sections_of_several_segments_are_never_torn() {
    let device = MemDevice::new((512 << 20) / BLOCK_SIZE as u64);
    let options = MkfsOptions { segs_per_sec: 4, ..MkfsOptions::new([7; 16], 0) };
    mkfs::format(&device, &options).unwrap();
    let fs = Fs::mount(Arc::new(device), MountOptions::parse("commit=0").unwrap()).unwrap();
    let map = fs.segment_map(10);
    assert_eq!((map.segments_per_section, map.segments_per_cell % 4), (4, 0));
    let used: u64 = map.sections_by_validity.iter().sum();
    assert_eq!(used, fs.stats().sections.total - fs.stats().sections.free);
    fs.unmount().unwrap();
}

#[test]
fn the_largest_snapshot_fits_into_the_value_of_an_attribute() {
    // Numbers of ten years at a GB/s.
    let (bytes, blocks, us) = (1 << 59, 1 << 47, 1 << 49);
    let collector = CollectorStats {
        doing: Doing::Checkpoint,
        victim: Some(8_000_000),
        victims: blocks / 512,
        sections_freed: blocks / 512,
        data_moved: blocks,
        nodes_moved: blocks,
    };
    let lock = LockNumbers { name: "gc_checkpoint_mutex".into(), waits: us, wait_us: us, longest_us: us };
    let time = Duration::from_micros(us);
    let within = [us; LATENCY_LIMITS_US.len() + 1];
    let latency = Latency { count: us, sum: time, p50: time, p99: time, p999: time, longest: time, within };
    let operations = (0..MOST_OPERATIONS).map(|n| format!("copyfilerange{n}"));
    let mut stats = VolumeStats {
        mounted_us: us,
        app: AppStats { written_bytes: bytes, read_bytes: bytes },
        collectors: CollectorsNow { each: vec![collector; MOST_LISTED], ..CollectorsNow::default() },
        locks: vec![lock; 40],
        ..VolumeStats::default()
    };
    stats.serving.requests = operations.clone().map(|name| (name, us)).collect();
    let slow = SlowRequest {
        operation: "copyfilerange".into(),
        user: u32::MAX,
        process: u32::MAX,
        inode: u64::from(u32::MAX),
        lasted_us: us,
        waits_for: Some("commit".into()),
    };
    stats.serving.slow = vec![slow; MOST_SLOW];
    stats.serving.in_service = operations.clone().map(|name| (name, 10_000)).collect();
    stats.serving.latency = operations.map(|name| (name, latency)).collect();
    let length = serde_json::to_vec(&stats).unwrap().len();
    assert!(length > 30_000 && length < 60_000, "{length}");
    // 16 TB, the most that F2FS can be.
    let (cells, segments) = (MAP_CELLS, (16 << 40) / (2 << 20) / MAP_CELLS as u64);
    let map = SegmentMap {
        valid: vec![segments * 512; cells],
        free: vec![segments; cells],
        prefree: vec![segments; cells],
        open: vec![segments; cells],
        claimed: vec![segments; cells],
        ..SegmentMap::default()
    };
    let length = serde_json::to_vec(&map).unwrap().len();
    assert!(length > 20_000 && length < 60_000, "{length}");
}
