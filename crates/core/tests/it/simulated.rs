//! The file system in virtual time: many cores, every schedule of a seed the same, contents right under all of them.

use crate::common::{assert_sound, create, in_virtual_time, mount};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::{Fs, GcReport, MountOptions, SetAttr, Urgency};
use steadyfs_device::{
    Device, DeviceInfo, Fault, FaultyDevice, MemDevice, Op, OpKind, RecordingDevice, Request, flush_ticks, image_at,
};
use steadyfs_rt::queue::Queue;
use steadyfs_rt::sim::{SimConfig, SimReport, run};
use steadyfs_rt::{lock_stats, sleep, spawn};
use steadyfs_testkit::Rng;

const PAGES: u64 = 64;

/// One writer: random pages of its own file, now and then an fsync, a new file, a deletion; in the end each page is
/// what was last written.
fn writer(fs: &Fs, number: u64, seed: u64) {
    let file = create(fs, format!("file{number}"));
    let mut random = Rng(seed ^ number << 32);
    let mut expected = vec![0u8; PAGES as usize];
    for round in 0..300u64 {
        let bits = random.bits();
        let (page, byte) = (bits >> 33 & (PAGES - 1), (bits >> 45) as u8);
        fs.write(&file, page * 4096, &[byte; 4096]).unwrap();
        expected[page as usize] = byte;
        match round % 50 {
            10 | 30 => fs.fsync(&file, round % 20 == 0).unwrap(),
            20 => drop(create(fs, format!("extra{number}-{round}"))),
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
        let fs = mount(dev, "cache=1M,commit=1");
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
    let base = Arc::new(crate::common::mkfs(64, &[]));
    let mut traces = std::collections::HashSet::new();
    for seed in 0..40 {
        let (report, image) = simulate(&base, 1 + seed as usize % 8, seed);
        assert!(report.unfinished.is_empty(), "seed {seed}: {:?}", report.unfinished);
        assert_sound(Arc::new(image), &format!("seed {seed}"));
        traces.insert(report.trace);
    }
    assert_eq!(traces.len(), 40, "each seed has a schedule of its own");
}

#[test]
fn a_seed_is_a_schedule() {
    let base = Arc::new(crate::common::mkfs(64, &[]));
    for seed in [0, 7] {
        let (first, second) = (simulate(&base, 4, seed).0, simulate(&base, 4, seed).0);
        assert_eq!(first, second, "seed {seed}");
        assert!(first.events > 1000, "{} events", first.events);
    }
}

/// Everything that power cuts at the flushes left of these files: their sizes and their first pages.
fn after_power_cuts(base: &MemDevice, device: &RecordingDevice<MemDevice>, files: u32) -> Vec<(u64, Vec<u8>)> {
    let log = device.log();
    let mut seen = Vec::new();
    for tick in flush_ticks(&log) {
        let survived: Vec<_> = log.iter().filter(|record| record.submitted <= tick).cloned().collect();
        let fs = mount(Arc::new(image_at(base, &survived)), "ro");
        for n in 0..files {
            let file = fs.lookup(&fs.root().unwrap(), format!("file{n}").as_bytes()).unwrap();
            let mut page = vec![0; 4096];
            let read = fs.read(&file, 0, &mut page).unwrap();
            page.truncate(read);
            seen.push((fs.attr(&file).unwrap().size, page));
        }
    }
    seen
}

#[test]
fn a_sync_beside_truncations_sees_all_or_nothing_of_each() {
    const FILES: u32 = 60;
    let base = Arc::new(crate::common::mkfs(64, &[]));
    {
        let fs = mount(Arc::clone(&base) as Arc<dyn Device>, "");
        for n in 0..FILES {
            fs.write(&create(&fs, format!("file{n}")), 0, &[7; 20_000]).unwrap();
        }
        fs.unmount().unwrap();
    }
    let mut ends = [0; 2];
    for seed in 1..60 {
        let device = Arc::new(RecordingDevice::new(base.fork()));
        let dev = Arc::clone(&device) as Arc<dyn Device>;
        let report = run(SimConfig { cores: 4, seed, ..SimConfig::default() }, move || {
            let fs = mount(dev, "");
            let syncing = {
                let fs = Arc::clone(&fs);
                spawn("syncing", move || {
                    let other = create(&fs, "other");
                    for round in 0..30u64 {
                        fs.write(&other, round, b"x").unwrap();
                        fs.sync().unwrap();
                    }
                })
            };
            for n in 0..FILES {
                let file = fs.lookup(&fs.root().unwrap(), format!("file{n}").as_bytes()).unwrap();
                fs.setattr(&file, &SetAttr { size: Some(1), ..SetAttr::default() }).unwrap();
            }
            syncing.join().unwrap();
            fs.unmount().unwrap();
        });
        report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        for (size, page) in after_power_cuts(&base, &device, FILES) {
            match size {
                20_000 => assert!(page == [7; 4096], "seed {seed}: the old size with the new contents"),
                1 => assert_eq!(page, [7], "seed {seed}"),
                other => panic!("seed {seed}: {other} bytes"),
            }
            ends[usize::from(size == 1)] += 1;
        }
    }
    assert!(ends[0] > 2000 && ends[1] > 2000, "power cuts before and after the truncations: {ends:?}");
}

/// A log closes its segment before the last blocks are written, and the collector may choose it at once: writes that
/// take their time show whether it reads them too early.
#[test]
fn a_segment_that_was_just_closed_is_collected_as_it_will_be() {
    const PAGES: u64 = 200;
    let base = crate::common::mkfs(64, &[]);
    for seed in 1..9 {
        let device = FaultyDevice::new(base.fork());
        device.add(Fault::delay(Duration::from_micros(40)).on(OpKind::Write));
        let report = run(SimConfig { cores: 4, seed, ..SimConfig::default() }, move || {
            let fs = mount(Arc::new(device), "background_gc=off");
            let over = Arc::new(AtomicBool::new(false));
            let collecting = {
                let (fs, over) = (Arc::clone(&fs), Arc::clone(&over));
                spawn("collecting", move || {
                    let mut moved = 0;
                    while !over.load(SeqCst) {
                        moved += fs.gc(1, Urgency::Foreground).unwrap().data_moved;
                        sleep(Duration::from_micros(10));
                    }
                    moved
                })
            };
            let writers: Vec<_> = (0..2u64).map(|n| (n, create(&fs, format!("file{n}")), Arc::clone(&fs))).collect();
            let writers = writers.into_iter().map(|(n, file, fs)| {
                spawn("writing", move || {
                    let mut page = vec![0; 4096];
                    for round in 1..20u64 {
                        for at in 0..PAGES {
                            let word = n << 56 | at << 32 | round;
                            fs.write_direct(&file, at * 4096, &word.to_le_bytes().repeat(512)).unwrap();
                            let before = (at + PAGES / 2) % PAGES;
                            let newest = if before < at { round } else { round - 1 };
                            let read = fs.read_direct(&file, before * 4096, &mut page).unwrap();
                            let wanted = (n << 56 | before << 32 | newest).to_le_bytes();
                            let right = newest == 0 || read == 4096 && page.chunks(8).all(|word| word == wanted);
                            assert!(right, "page {before} of round {newest} is {:?}", &page[..8]);
                        }
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            over.store(true, SeqCst);
            let moved = collecting.join().unwrap();
            fs.unmount().unwrap();
            moved
        });
        let report = report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert!(report.value > 100, "the collector moved {} blocks", report.value);
    }
}

/// What came of direct I/O beside collectors.
struct Beside {
    gc: steadyfs_core::GcReport,
    waits: Vec<steadyfs_rt::LockStat>,
}

/// Four writers past the cache, each on every fourth page of one file, read back what they wrote. Another thread cuts
/// and fills a second file. Collectors have blocks of both at hand all the time, for the volume is nearly full.
fn direct_beside_collectors(base: &MemDevice, options: &str, seed: u64) -> Beside {
    const WRITERS: u64 = 4;
    let device = FaultyDevice::new(base.fork());
    device.add(Fault::delay(Duration::from_micros(30)).on(OpKind::Write));
    device.add(Fault::delay(Duration::from_micros(60)).on(OpKind::Read));
    let options = MountOptions::parse(&format!("gc.collectors=4,{options}")).unwrap();
    let report = run(SimConfig { cores: 8, seed, ..SimConfig::default() }, move || {
        let fs = Fs::mount(Arc::new(device), options).unwrap();
        let (file, cut) = (create(&fs, "file"), create(&fs, "cut"));
        fs.write_direct(&cut, 0, &[9; 300 * 4096]).unwrap();
        let pages = fs.statfs().blocks_free * 4 / 5;
        let stamp = |page: u64, version: u64| (page << 32 | version).to_le_bytes().repeat(512);
        for page in 0..pages {
            fs.write_direct(&file, page * 4096, &stamp(page, 1)).unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let cutter = {
            let (fs, over) = (Arc::clone(&fs), Arc::clone(&over));
            spawn("cutter", move || {
                let mut found = [0; 4096];
                while !over.load(SeqCst) {
                    fs.setattr(&cut, &SetAttr { size: Some(4096), ..SetAttr::default() }).unwrap();
                    fs.write_direct(&cut, 4096, &[9; 299 * 4096]).unwrap();
                    assert!(fs.read_direct(&cut, 7 * 4096, &mut found).unwrap() == 4096 && found == [9; 4096]);
                    fs.fallocate(&cut, steadyfs_core::FallocMode::PunchHole, 7 * 4096, 4096).unwrap();
                    assert!(fs.read_direct(&cut, 7 * 4096, &mut found).unwrap() == 4096 && found == [0; 4096]);
                }
            })
        };
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                let (fs, file) = (Arc::clone(&fs), file.clone());
                spawn("writer", move || {
                    let mut versions = vec![1; pages as usize];
                    let mut random = Rng(seed << 8 | n);
                    let mut next = || random.below(pages / WRITERS) * WRITERS + n;
                    let mut found = vec![0; 4096];
                    for round in 2..1000 {
                        let (page, other) = (next(), next());
                        fs.write_direct(&file, page * 4096, &stamp(page, round)).unwrap();
                        versions[page as usize] = round;
                        assert_eq!(fs.read_direct(&file, other * 4096, &mut found).unwrap(), 4096);
                        assert!(found == stamp(other, versions[other as usize]), "page {other}: {:?}", &found[..8]);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, SeqCst);
        cutter.join().unwrap();
        drop(file);
        fs.unmount().unwrap();
        Beside { gc: fs.gc_totals(), waits: steadyfs_rt::lock_stats() }
    });
    report.unwrap_or_else(|failure| panic!("{seed}: {failure}")).value
}

/// With F2FS' lock for files collectors keep out of each other's way, and leave much behind; with locks for pages next
/// to nothing, whatever the schedule: nobody holds pages who waits for room.
#[test]
fn collectors_of_one_file_hold_each_other_up_only_if_files_are_locked() {
    let base = crate::common::mkfs(96, &[]);
    let share = |beside: &Beside| {
        let gc = beside.gc;
        assert!(gc.data_moved > 1000, "{gc:?}");
        gc.skipped.held as f64 / (gc.skipped.held + gc.data_moved) as f64
    };
    let waited = |beside: &Beside, name: &str| beside.waits.iter().any(|stat| stat.name == name && stat.waits > 0);
    let file = direct_beside_collectors(&base, "gc.protect=file", 0);
    println!("files: {:?} {}", file.gc, share(&file));
    assert!(share(&file) > 0.02, "left: {}", share(&file));
    assert!(waited(&file, "i_gc_rwsem") && !waited(&file, "gc_page_range"), "{:?}", file.waits);
    for seed in 0..6 {
        let page = direct_beside_collectors(&base, "gc.protect=page", seed);
        println!("pages, seed {seed}: {:?} {}", page.gc, share(&page));
        assert!(share(&page) < 0.000_1, "seed {seed}, left: {}", share(&page));
        assert!(!waited(&page, "i_gc_rwsem"), "{:?}", page.waits);
    }
}

/// A reader knows an address; while the device takes its time the page is overwritten, its old segment freed, and
/// written anew by another file. What was read is the page's own.
#[test]
fn a_reader_of_a_segment_that_is_written_anew_meanwhile_reads_again() {
    let base = crate::common::mkfs(64, &[]);
    let device = Arc::new(FaultyDevice::new(base.fork()));
    in_virtual_time(4, move || {
        let dev = Arc::clone(&device) as Arc<dyn Device>;
        let fs = mount(dev, "background_gc=off");
        let (file, other) = (create(&fs, "file"), create(&fs, "other"));
        let blocks = |byte: u8| vec![byte; 1024 * 4096];
        fs.write_direct(&file, 0, &blocks(1)).unwrap();
        fs.sync().unwrap();
        device.add(Fault::delay(Duration::from_millis(500)).on(OpKind::Read).times(1));
        let reader = {
            let (fs, file) = (Arc::clone(&fs), file.clone());
            spawn("reader", move || {
                let mut found = vec![0; 4096];
                fs.read_direct(&file, 600 * 4096, &mut found).unwrap();
                found
            })
        };
        sleep(Duration::from_millis(1));
        fs.write_direct(&file, 0, &blocks(2)).unwrap();
        let (written, pages) = (fs.io_stats().data_written, fs.statfs().blocks_free * 9 / 10);
        for at in (0..pages).step_by(1024) {
            fs.sync().unwrap();
            fs.write_direct(&other, at * 4096, &blocks(3)).unwrap();
        }
        assert!(fs.io_stats().data_written - written > pages && !reader.is_finished());
        let found = reader.join().unwrap();
        assert!(found.iter().all(|byte| *byte == 2), "{}: the old page, or another file's", found[0]);
        fs.unmount().unwrap();
    });
}

/// A device that takes a while for some requests, one after the other in the background, and does others at once.
struct Late {
    inner: Arc<MemDevice>,
    later: Arc<Queue<Request>>,
    is_late: fn(&Op) -> bool,
}

impl Late {
    fn new(inner: MemDevice, delay: Duration, is_late: fn(&Op) -> bool) -> Self {
        let (inner, later) = (Arc::new(inner), Arc::new(Queue::<Request>::unbounded()));
        let (device, queue) = (Arc::clone(&inner), Arc::clone(&later));
        spawn("late", move || {
            while let Some(request) = queue.pop() {
                sleep(delay);
                device.submit(vec![request]);
            }
        });
        Late { inner, later, is_late }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.later.close();
    }
}

impl Device for Late {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            if (self.is_late)(&request.op) {
                assert!(self.later.push(request).is_ok());
            } else {
                self.inner.submit(vec![request]);
            }
        }
    }
}

/// A reader that finds the new address of a block before it is on the device gets what will be there.
#[test]
fn moved_blocks_can_be_read_before_they_have_arrived() {
    const PAGES: u64 = 400;
    let base = crate::common::mkfs(64, &[]);
    for gc in ["gc=scalelfs", "gc=f2fs-lfs,gc.protect=page"] {
        let base = base.fork();
        let moved = in_virtual_time(4, move || {
            let options = MountOptions::parse(&format!("background_gc=off,{gc}")).unwrap();
            let late = Late::new(base, Duration::from_micros(300), |op| !matches!(op, Op::Read { .. }));
            let fs = Fs::mount(Arc::new(late), options).unwrap();
            let file = create(&fs, "file");
            let stamp = |page: u64| (page + 1).to_le_bytes().repeat(512);
            for page in (0..PAGES).chain((0..PAGES).step_by(2)) {
                fs.write_direct(&file, page * 4096, &stamp(page)).unwrap();
            }
            fs.sync().unwrap();
            let collecting = {
                let fs = Arc::clone(&fs);
                spawn("collecting", move || fs.gc(8, Urgency::Foreground).unwrap())
            };
            let mut found = vec![0; 4096];
            while !collecting.is_finished() {
                for page in 0..PAGES {
                    assert_eq!(fs.read_direct(&file, page * 4096, &mut found).unwrap(), 4096);
                    assert!(found == stamp(page), "page {page}: {:?}", &found[..8]);
                }
            }
            let moved = collecting.join().unwrap().data_moved;
            fs.unmount().unwrap();
            moved
        });
        assert!(moved > PAGES / 4, "{gc}: {moved}");
    }
}

/// What a collection of one section reports when `overwritten` of the file's pages are written again, one every 100 us,
/// while a read takes 1 ms.
fn collect_beside_overwrites(base: &MemDevice, overwritten: u64) -> GcReport {
    let device = FaultyDevice::new(base.fork());
    device.add(Fault::delay(Duration::from_millis(1)).on(OpKind::Read));
    in_virtual_time(2, move || {
        let fs = mount(Arc::new(device), "background_gc=off");
        let file = create(&fs, "file");
        let write = |page: u64| fs.write_direct(&file, page * 4096, &[page as u8; 4096]).unwrap();
        // More than a segment, and a few blocks of the first one invalid.
        (0..700).chain(0..12).for_each(|page| assert_eq!(write(page), 4096));
        let collecting = {
            let fs = Arc::clone(&fs);
            spawn("collecting", move || fs.gc(1, Urgency::Foreground).unwrap())
        };
        for page in 20..20 + overwritten {
            sleep(Duration::from_micros(100));
            fs.write(&file, page * 4096, &[7; 4096]).unwrap();
            fs.fsync(&file, true).unwrap();
        }
        let report = collecting.join().unwrap();
        fs.unmount().unwrap();
        report
    })
}

/// The longest that a direct write waits for its file while that is collected, where the device reads one run after the
/// other and takes 300 us for each.
fn wait_for_the_file(base: MemDevice, buffer: &str) -> Duration {
    let options = format!("background_gc=off,gc=f2fs-lfs,gc.buffer={buffer}");
    let report = run(SimConfig { cores: 2, ..SimConfig::timeless() }, move || {
        let late = Late::new(base, Duration::from_micros(300), |op| matches!(op, Op::Read { .. }));
        let fs = mount(Arc::new(late), &options);
        let file = create(&fs, "file");
        let write = |page: u64| assert_eq!(fs.write_direct(&file, page * 4096, &[page as u8; 4096]).unwrap(), 4096);
        (0..700).chain((0..512).step_by(4)).for_each(write);
        let collecting = {
            let fs = Arc::clone(&fs);
            spawn("collecting", move || fs.gc(1, Urgency::Foreground).unwrap())
        };
        while !collecting.is_finished() {
            sleep(Duration::from_millis(2));
            // Of another segment than the victim.
            write(690);
        }
        let report = collecting.join().unwrap();
        assert!(report.data_moved > 300, "{report:?}");
        fs.unmount().unwrap();
        lock_stats().into_iter().find(|lock| lock.name == "i_gc_rwsem").map_or(0, |lock| lock.max_wait_ns)
    });
    Duration::from_nanos(report.unwrap().value)
}

/// F2FS has a file to itself while it waits for a block of it.
#[test]
fn a_collector_through_the_cache_waits_with_the_file_held() {
    let [cache, own] = ["cache", "dedicated"].map(|buffer| wait_for_the_file(crate::common::mkfs(64, &[]), buffer));
    assert!(own < Duration::from_micros(100), "{own:?}");
    // At most for all reads of the victim: a collector that tries again comes before a writer that is being woken.
    assert!(cache > Duration::from_micros(200) && cache < 130 * Duration::from_micros(300), "{cache:?}");
}

#[test]
fn blocks_that_die_while_they_are_read_are_counted() {
    let base = crate::common::mkfs(64, &[]);
    let alone = collect_beside_overwrites(&base, 0);
    assert_eq!((alone.victims, alone.data_moved, alone.skipped.total()), (1, 500, 0));
    let beside = collect_beside_overwrites(&base, 30);
    assert!(beside.skipped.late > 3 && beside.skipped.total() <= 30, "{beside:?}");
    assert!(beside.data_moved + beside.skipped.late <= 500 && beside.data_moved >= 470, "{beside:?}");
    assert_eq!((beside.victims, beside.stale_victims, alone.stale_victims), (1, 0, 0), "it is used as soon as found");
}
