//! Direct I/O, preallocation, holes, moving ranges: what exactly each leaves.

use super::*;
use crate::{Error, FallocMode, Whence};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{Fault, FaultyDevice, Op, OpKind, RecordingDevice, image_at};
use steadyfs_format::summary::Summary;
use steadyfs_format::{Log, Nid};

const KIB4: u64 = 4096;

fn page_pattern(n: u64) -> Vec<u8> {
    pattern(n + 1, 4096)
}

/// A file of `pages` pages, page `n` with the pattern of `n`.
fn numbered(fs: &Fs, name: &str, pages: u64) -> InodeRef {
    let file = create(fs, name);
    for n in 0..pages {
        fs.write(&file, n * KIB4, &page_pattern(n)).unwrap();
    }
    file
}

/// A volume with a numbered file that is on the device.
fn synced(name: &str, pages: u64) -> (Arc<MemDevice>, Arc<Fs>, InodeRef) {
    let device = fresh();
    let fs = mount(&device, "");
    let file = numbered(&fs, name, pages);
    fs.fsync(&file, false).unwrap();
    (device, fs, file)
}

/// Which numbered page is where: `None` for a page of zeros.
fn numbers(fs: &Fs, file: &InodeRef, upto: u64) -> Vec<Option<u64>> {
    let known: Vec<Vec<u8>> = (0..upto).map(page_pattern).collect();
    read_all(fs, file)
        .chunks(4096)
        .map(|page| {
            let found = known.iter().position(|k| k[..page.len()] == *page).map(|n| n as u64);
            assert!(found.is_some() || page.iter().all(|byte| *byte == 0), "a page of neither data nor zeros");
            found
        })
        .collect()
}

#[test]
fn direct_and_buffered_io_see_each_other() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "both");
    let (old, new) = (pattern(1, 5 * 4096), pattern(2, 2 * 4096));
    fs.write(&file, 0, &old).unwrap();
    assert_eq!(fs.write_direct(&file, 4096, &new).unwrap(), new.len());
    let mut expected = old.clone();
    expected[4096..3 * 4096].copy_from_slice(&new);
    assert_eq!(read_all(&fs, &file), expected, "cached pages gave way to the direct write");
    let mut back = vec![0; 5 * 4096];
    assert_eq!(fs.read_direct(&file, 0, &mut back).unwrap(), back.len());
    assert_eq!(back, expected, "a direct read finds pages that only the cache has");
    let cached = fs.cache_stats().cached;
    fs.files.writeback(&file.inode, crate::files::file::writeback::ALL_PAGES).unwrap();
    fs.files.budget.cache(&file.inode).remove(crate::files::file::writeback::ALL_PAGES);
    assert!(cached > fs.cache_stats().cached);
    fs.read_direct(&file, 0, &mut back).unwrap();
    fs.write_direct(&file, 7 * 4096, &new).unwrap();
    assert_eq!(fs.files.budget.cache(&file.inode).get_range(PageIndex(0)..PageIndex(9)).iter().flatten().count(), 0);
    assert_eq!((back, size(&file)), (expected, 9 * 4096));
    assert_eq!(fs.write_direct(&file, 100, b"odd").unwrap(), 3, "odd bytes go through the cache");
    let mut odd = [0; 3];
    fs.read_direct(&file, 100, &mut odd).unwrap();
    assert_eq!(&odd, b"odd");
    unmount_and_check(fs, &device);
}

#[test]
fn a_direct_write_goes_on_over_holes_and_the_end() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "mixed");
    let mut expected = vec![0; 12 * 4096];
    for (page, count) in [(0, 3), (5, 2), (8, 1)] {
        let data = pattern(page as u64, count * 4096);
        fs.write(&file, page as u64 * 4096, &data).unwrap();
        expected[page * 4096..(page + count) * 4096].copy_from_slice(&data);
    }
    fs.write(&file, 9 * 4096, b"an end within a page").unwrap();
    // Mapped pages, a hole, mapped ones, a hole, a mapped one, the one with the end, and some behind it.
    let data = pattern(99, 10 * 4096);
    assert_eq!(fs.write_direct(&file, 2 * 4096, &data).unwrap(), data.len());
    expected[2 * 4096..].copy_from_slice(&data);
    assert_eq!(read_all(&fs, &file), expected);
    assert_eq!(blocks(&file), 1 + 12);
    unmount_and_check(fs, &device);
}

#[test]
fn allocated_space_is_counted_and_reads_as_zeros() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "allocated");
    fs.fallocate(&file, FallocMode::Allocate { keep_size: false }, 0, 1 << 20).unwrap();
    assert_eq!((size(&file), blocks(&file)), (1 << 20, 1 + 256));
    assert!(read_all(&fs, &file).iter().all(|byte| *byte == 0));
    fs.fallocate(&file, FallocMode::Allocate { keep_size: true }, 2 << 20, 5000).unwrap();
    assert_eq!((size(&file), blocks(&file)), (1 << 20, 1 + 256 + 2));
    let free = fs.statfs().blocks_free;
    fs.write(&file, 4000, &pattern(1, 10_000)).unwrap();
    fs.fsync(&file, false).unwrap();
    assert_eq!(fs.statfs().blocks_free, free, "the space was there already");
    fs.fallocate(&file, FallocMode::PunchHole, 2 << 20, 1 << 20).unwrap();
    assert_eq!(blocks(&file), 1 + 256, "space beyond the end is given back too");
    fs.files.set_size(&file.inode, 4096).unwrap();
    assert_eq!(blocks(&file), 2);
    unmount_and_check(fs, &device);
}

#[test]
fn allocation_that_cannot_succeed_changes_nothing() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "greedy");
    fs.write(&file, 0, &pattern(1, 9000)).unwrap();
    let (counts, held) = (fs.vol.space.counts(), blocks(&file));
    for mode in [FallocMode::Allocate { keep_size: false }, FallocMode::ZeroRange { keep_size: true }] {
        assert!(matches!(fs.fallocate(&file, mode, 0, 1 << 30), Err(Error::NoSpace)));
    }
    assert!(matches!(fs.fallocate(&file, FallocMode::InsertRange, 0, 1 << 42), Err(Error::TooBig)));
    assert_eq!((fs.vol.space.counts(), blocks(&file), size(&file)), (counts, held, 9000));
    assert_eq!(read_all(&fs, &file), pattern(1, 9000));
    for (off, len) in [(0, 0), (u64::MAX, 2)] {
        assert!(matches!(fs.fallocate(&file, FallocMode::PunchHole, off, len), Err(Error::Invalid)));
    }
    unmount_and_check(fs, &device);
}

/// Space, and what a file has of it.
fn taken(fs: &Fs, file: &InodeRef) -> (crate::volume::space::SpaceCounts, u64, u64) {
    (fs.vol.space.counts(), blocks(file), size(file))
}

/// Fills the volume with two other files, but for so many blocks.
fn leave_free(fs: &Fs, fillers: &[InodeRef; 2], blocks: u64) {
    let [large, small] = fillers;
    let all = FallocMode::Allocate { keep_size: false };
    for filler in fillers {
        fs.files.set_size(&filler.inode, 0).unwrap();
    }
    while fs.statfs().blocks_free > blocks + 500 {
        let step = (fs.statfs().blocks_free - blocks - 400).div_ceil(2);
        fs.fallocate(large, all, size(large), step * KIB4).unwrap();
    }
    // So few pages need no node.
    fs.fallocate(small, all, 0, (fs.statfs().blocks_free - blocks) * KIB4).unwrap();
    assert_eq!(fs.statfs().blocks_free, blocks);
}

#[test]
fn what_needs_more_nodes_than_are_free_changes_nothing() {
    let device = fresh();
    let fs = mount(&device, "");
    let (plain, small) = (create(&fs, "plain"), create(&fs, "small"));
    let fillers = ["large", "rest"].map(|name| create_with(&fs, name, inline::XATTR));
    fs.write(&plain, 0, &pattern(1, 10_000)).unwrap();
    fs.write(&small, 0, b"inline").unwrap();
    let modes = [
        FallocMode::Allocate { keep_size: false },
        FallocMode::Allocate { keep_size: true },
        FallocMode::ZeroRange { keep_size: false },
        FallocMode::ZeroRange { keep_size: true },
    ];
    let all = fs.statfs().blocks_free;
    for free in [all, 1500, 2] {
        if free < all {
            leave_free(&fs, &fillers, free);
        }
        // Exactly what is free, beside the contents: the nodes that would map it have no room.
        for (file, contents) in [(&plain, pattern(1, 10_000)), (&small, b"inline".to_vec())] {
            let before = taken(&fs, file);
            for mode in modes {
                let refused = fs.fallocate(file, mode, 1500 * KIB4, free * KIB4);
                assert!(matches!(refused, Err(Error::NoSpace)), "{free} free, {mode:?}: {refused:?}");
                assert_eq!(taken(&fs, file), before, "{free} free, {mode:?}");
                assert_eq!(read_all(&fs, file), contents);
            }
        }
        // The copies of a move: they go behind the end, where there are no nodes yet.
        let before = taken(&fs, &plain);
        let refused = fs.fallocate(&plain, FallocMode::InsertRange, 0, 3000 * KIB4);
        assert_eq!(refused.is_ok(), free > 2, "{free} free: {refused:?}");
        if refused.is_ok() {
            fs.fallocate(&plain, FallocMode::CollapseRange, 0, 3000 * KIB4).unwrap();
        }
        assert_eq!(taken(&fs, &plain), before);
        assert_eq!(read_all(&fs, &plain), pattern(1, 10_000));
    }
    unmount_and_check(fs, &device);
}

#[test]
fn a_range_that_just_fits_gets_the_last_block() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "file");
    let fillers = ["large", "rest"].map(|name| create_with(&fs, name, inline::XATTR));
    // 923 addresses at most are in the inode, the next 1018 in a direct node; from page 3000 on there is an indirect
    // one as well.
    for (off, pages, nodes) in [(0, 100, 0), (1000, 100, 1), (3000, 1018, 3)] {
        leave_free(&fs, &fillers, pages + nodes);
        fs.fallocate(&file, FallocMode::Allocate { keep_size: true }, off * KIB4, pages * KIB4).unwrap();
        assert_eq!((fs.statfs().blocks_free, blocks(&file)), (0, 1 + pages + nodes), "{pages} pages at {off}");
        fs.fallocate(&file, FallocMode::PunchHole, 0, 5000 * KIB4).unwrap();
    }
    unmount_and_check(fs, &device);
}

#[test]
fn allocations_that_race_for_the_last_blocks_take_all_or_nothing() {
    let device = fresh();
    let fs = mount(&device, "");
    let (one, other) = (create(&fs, "one"), create(&fs, "other"));
    // Both have a size: only who cuts a file to it gives what was kept beyond the end back.
    for file in [&one, &other] {
        fs.write(file, 0, b"inline").unwrap();
    }
    let free = fs.statfs().blocks_free;
    let want = free * 3 / 4;
    for round in 0..30 {
        let threads = [&one, &other].map(|file| {
            let (fs, file) = (Arc::clone(&fs), file.clone());
            steadyfs_rt::spawn("racer", move || {
                fs.fallocate(&file, FallocMode::Allocate { keep_size: true }, 0, want * KIB4).is_ok()
            })
        });
        let got = threads.map(|thread| thread.join().unwrap());
        for (file, got) in [&one, &other].into_iter().zip(got) {
            let held = blocks(file);
            assert!(if got { held > want } else { held <= 2 }, "round {round}: {held} blocks, success: {got}");
            fs.files.set_size(&file.inode, 6).unwrap();
        }
        for file in [&one, &other] {
            assert_eq!(&read_all(&fs, file), b"inline", "round {round}");
        }
        let now = fs.statfs().blocks_free;
        assert!(now + 2 >= free, "round {round}: {now} of {free} free");
    }
    unmount_and_check(fs, &device);
}

#[test]
fn punching_frees_whole_pages_and_zeroes_the_edges() {
    let (device, fs, file) = synced("punched", 10);
    fs.fallocate(&file, FallocMode::PunchHole, 4096 + 100, 4 * 4096).unwrap();
    assert_eq!(blocks(&file), 1 + 10 - 3);
    let back = read_all(&fs, &file);
    assert_eq!(back[..4196], [page_pattern(0), page_pattern(1)[..100].to_vec()].concat());
    assert!(back[4196..4196 + 4 * 4096].iter().all(|byte| *byte == 0));
    assert_eq!(back[5 * 4096 + 100..6 * 4096], page_pattern(5)[100..]);
    let holes = [
        (0, Whence::Hole, 2 * KIB4),
        (0, Whence::Data, 0),
        (2 * KIB4 + 5, Whence::Data, 5 * KIB4),
        (6 * KIB4, Whence::Hole, 10 * KIB4),
    ];
    for (off, whence, expected) in holes {
        assert_eq!(fs.seek(&file, off, whence).unwrap(), expected, "{whence:?} from {off}");
    }
    assert!(matches!(fs.seek(&file, 10 * KIB4, Whence::Hole), Err(Error::NoSuchOffset)));
    fs.fallocate(&file, FallocMode::ZeroRange { keep_size: false }, 0, 12 * KIB4).unwrap();
    assert_eq!((blocks(&file), size(&file)), (1 + 12, 12 * KIB4));
    assert!(matches!(fs.seek(&file, 0, Whence::Data), Err(Error::NoSuchOffset)), "nothing is written there");
    fs.write(&file, 7 * KIB4, b"x").unwrap();
    assert_eq!(fs.seek(&file, 0, Whence::Data).unwrap(), 7 * KIB4, "data that only the cache has is data");
    unmount_and_check(fs, &device);
}

#[test]
fn a_seek_looks_no_further_than_it_must() {
    const NODES: u64 = 40;
    const FAR: u64 = 1018 * KIB4;
    let device = fresh();
    let fs = mount(&device, "");
    let file = create(&fs, "scattered");
    for n in 0..NODES {
        assert_eq!(fs.write(&file, n * FAR, &page_pattern(n)).unwrap(), 4096);
    }
    fs.unmount().unwrap();
    drop(fs);
    let fs = mount(&device, "");
    let file = fs.lookup(&fs.root().unwrap(), b"scattered").unwrap();
    let blocks_for = |off, whence, expected| {
        let before = fs.io_stats().read;
        assert_eq!(fs.seek(&file, off, whence).unwrap(), expected, "{whence:?} from {off}");
        fs.io_stats().read - before
    };
    // What leads to the first pages; nothing of the nodes of all the others.
    let first = blocks_for(0, Whence::Data, 0) + blocks_for(0, Whence::Hole, KIB4);
    assert!(first <= 4, "{first} blocks read");
    let next = blocks_for(KIB4, Whence::Data, FAR);
    assert!(next <= 12, "{next} blocks read");
    assert_eq!(
        blocks_for((NODES - 1) * FAR + 1, Whence::Hole, (NODES - 1) * FAR + KIB4),
        2,
        "a node and its NAT block or parent"
    );
}

#[test]
fn ranges_move_with_their_holes() {
    let device = fresh();
    let fs = mount(&device, "");
    let file = numbered(&fs, "moved", 8);
    fs.fallocate(&file, FallocMode::PunchHole, 6 * KIB4, KIB4).unwrap();
    fs.fallocate(&file, FallocMode::CollapseRange, KIB4, 3 * KIB4).unwrap();
    assert_eq!(numbers(&fs, &file, 8), [Some(0), Some(4), Some(5), None, Some(7)]);
    assert_eq!(blocks(&file), 1 + 4);
    fs.fallocate(&file, FallocMode::InsertRange, 2 * KIB4, 2 * KIB4).unwrap();
    assert_eq!(numbers(&fs, &file, 8), [Some(0), Some(4), None, None, Some(5), None, Some(7)]);
    assert_eq!(blocks(&file), 1 + 4);
    for (mode, off, len) in [
        (FallocMode::CollapseRange, 100, KIB4),
        (FallocMode::CollapseRange, 0, 100),
        (FallocMode::CollapseRange, 0, 7 * KIB4),
        (FallocMode::InsertRange, 7 * KIB4, KIB4),
        (FallocMode::InsertRange, 1, KIB4),
    ] {
        assert!(matches!(fs.fallocate(&file, mode, off, len), Err(Error::Invalid)), "{mode:?} {off} {len}");
    }
    unmount_and_check(fs, &device);
}

#[test]
fn a_move_that_a_crash_interrupts_loses_no_page() {
    for mode in [FallocMode::CollapseRange, FallocMode::InsertRange] {
        // Whether a checkpoint falls into the move is up to the scheduler.
        let caught = (0..10).any(|_| interrupt_move(mode) > 0);
        assert!(caught, "no checkpoint fell into the move; the test proves nothing");
    }
}

/// Moves a range while checkpoints go on; looks at what each of them left, and returns how many caught the move half
/// done.
fn interrupt_move(mode: FallocMode) -> usize {
    const PAGES: u64 = 1500;
    let interrupted = interrupt(PAGES, |fs, file| fs.fallocate(file, mode, 10 * KIB4, 3 * KIB4).unwrap());
    let mut half_done = 0;
    for crashed in interrupted {
        let fs = mount(&crashed, "");
        let found = numbers(&fs, &open(&fs, "numbered"), PAGES);
        let kept: BTreeSet<u64> = found.iter().flatten().copied().collect();
        let gone = (0..PAGES).filter(|n| !kept.contains(n)).collect::<Vec<_>>();
        let removed: &[u64] = if mode == FallocMode::CollapseRange { &[10, 11, 12] } else { &[] };
        assert!(gone.iter().all(|n| removed.contains(n)), "{mode:?}: a crash loses pages {gone:?}");
        half_done += usize::from(kept.len() < found.iter().flatten().count());
        unmount_and_check(fs, &crashed);
    }
    half_done
}

/// Does something to a numbered file while checkpoints go on as fast as they can; returns the volume as each of (some
/// of) them left it. Writes take some milliseconds, so that checkpoints get their turn in an act that writes.
fn interrupt(pages: u64, act: impl FnOnce(&Fs, &InodeRef)) -> Vec<Arc<MemDevice>> {
    let (base, fs, _) = synced("numbered", pages);
    fs.unmount().unwrap();
    let recording = Arc::new(RecordingDevice::new(FaultyDevice::new(base.fork())));
    let fs = Fs::mount(Arc::clone(&recording) as Arc<dyn Device>, MountOptions::default()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (other, stop) = (Arc::clone(&fs), Arc::clone(&over));
    let committer = steadyfs_rt::spawn("committer", move || {
        while !stop.load(SeqCst) {
            other.durable.sync_checkpoint().unwrap();
        }
    });
    let file = open(&fs, "numbered");
    let began = recording.tick();
    let main = fs.vol.layout().main.get();
    let delay = Fault::delay(Duration::from_millis(3));
    recording.inner().add(delay.on(OpKind::Write).in_blocks(main..u64::MAX));
    act(&fs, &file);
    let ended = recording.tick();
    recording.inner().heal();
    over.store(true, SeqCst);
    committer.join().unwrap();
    fs.sync().unwrap();
    let log = recording.log();
    let commits = log.iter().filter(|record| matches!(record.op, Op::Write { fua: true, .. }));
    let ticks: Vec<u64> = commits.filter_map(|r| r.completed).filter(|tick| (began..ended).contains(tick)).collect();
    let image = |tick: u64| {
        let upto = log.iter().take_while(|record| record.submitted <= tick).count();
        Arc::new(image_at(&base, &log[..upto]))
    };
    ticks.iter().copied().step_by(ticks.len().div_ceil(12).max(1)).map(image).collect()
}

/// A thread that panics after it has taken a block and before anything refers to it: no checkpoint may tell of that.
#[test]
fn a_panic_in_the_middle_of_a_change_stops_the_volume() {
    let (base, fs, file) = synced("numbered", 20);
    let broken = {
        let fs = Arc::clone(&fs);
        steadyfs_rt::spawn("broken", move || {
            let _change = fs.vol.begin_change().unwrap();
            let owner = Summary { nid: Nid(3), version: 0, ofs_in_node: 0 };
            fs.vol.segments().take_blocks(Log::WarmData, &[owner]).unwrap();
            panic!("planted");
        })
    };
    assert!(broken.join().is_err());
    let refused = fs.write(&file, 0, &[1; 10]).unwrap_err().to_string();
    assert!(refused.contains("a defect of the file system") && refused.contains("please report it"), "{refused}");
    assert_eq!(numbers(&fs, &file, 20).len(), 20, "it can be read");
    assert!(fs.sync().is_err() && fs.unmount().is_err());
    drop((file, fs));
    check(&base);
    let fs = mount(&base, "");
    let file = open(&fs, "numbered");
    assert!(numbers(&fs, &file, 20).into_iter().eq((0..20).map(Some)), "what was synced is there");
    drop(file);
    unmount_and_check(fs, &base);
}
