//! Little memory, little space, failing devices, many threads.

use super::lagging::Lagging;
use super::*;
use crate::{Error, Urgency};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{Fault, FaultyDevice, OpKind};
use steadyfs_rt::spawn;

/// A page that says which file, page and version it is, from its first byte to its last.
fn stamp(file: u64, page: u64, version: u64) -> Vec<u8> {
    let word = file << 56 | page << 32 | version;
    word.to_le_bytes().repeat(512)
}

/// What a stamped page says; `None` for zeros. Panics if it is a mix.
fn read_stamp(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes.chunks_exact(8).all(|part| part == word.to_le_bytes()), "a page mixes two writes");
    (word != 0).then_some((word >> 56, word >> 32 & 0xFF_FFFF, word & 0xFFFF_FFFF))
}

/// A small generator of random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

const FILE_PAGES: u64 = 1500;

/// Writes, reads and checks a file that is this thread's own.
fn work(fs: &Fs, file: &InodeRef, id: u64, rounds: u64) -> Vec<u64> {
    let mut dice = Dice(id + 1);
    let mut versions = vec![0; FILE_PAGES as usize];
    let mut buf = vec![0; 4096];
    for version in 1..=rounds {
        let page = dice.roll(FILE_PAGES);
        match dice.roll(10) {
            0..5 => {
                let n = 1 + dice.roll(8).min(FILE_PAGES - page - 1);
                let data: Vec<u8> = (page..page + n).flat_map(|p| stamp(id, p, version)).collect();
                let wrote = if dice.roll(3) == 0 {
                    fs.write_direct(file, page * 4096, &data)
                } else {
                    fs.write(file, page * 4096, &data)
                };
                assert_eq!(wrote.unwrap(), data.len());
                versions[page as usize..(page + n) as usize].fill(version);
            }
            5..8 => check_page(fs, file, id, page, versions[page as usize], dice.roll(2) == 0, &mut buf),
            8 => {
                fs.fallocate(file, crate::FallocMode::PunchHole, page * 4096, 4096).unwrap();
                versions[page as usize] = 0;
            }
            _ if version % 4 == 0 => fs.fsync(file, true).unwrap(),
            _ => {
                let keep = page.max(FILE_PAGES / 2);
                fs.files.set_size(&file.inode, keep * 4096).unwrap();
                versions[keep as usize..].fill(0);
            }
        }
    }
    versions
}

fn check_page(fs: &Fs, file: &InodeRef, id: u64, page: u64, version: u64, direct: bool, buf: &mut [u8]) {
    buf.fill(0);
    let n = if direct { fs.read_direct(file, page * 4096, buf) } else { fs.read(file, page * 4096, buf) }.unwrap();
    assert!(n == 4096 || n == 0, "{n} bytes of a page");
    let expected = (version > 0).then_some((id, page, version));
    assert_eq!(read_stamp(buf), expected, "file {id} page {page}");
}

/// Readers, writers and a truncating thread on one file: pages are never mixed.
fn share(fs: &Fs, file: &InodeRef, id: u64, rounds: u64) {
    let mut dice = Dice(id + 77);
    let mut buf = vec![0; 4 * 4096];
    for version in 1..=rounds {
        let page = dice.roll(FILE_PAGES - 4);
        match dice.roll(8) {
            0..2 => drop(fs.write(file, page * 4096, &stamp(id, page, version)).unwrap()),
            2..4 => drop(fs.write_direct(file, page * 4096, &stamp(id, page, version)).unwrap()),
            4..7 => {
                let n = fs.read(file, page * 4096, &mut buf).unwrap();
                for (i, bytes) in buf[..n].chunks_exact(4096).enumerate() {
                    let said = read_stamp(bytes);
                    assert!(said.is_none_or(|(_, p, _)| p == page + i as u64), "page {page} shows {said:?}");
                }
            }
            _ => fs.files.set_size(&file.inode, (page + 1) * 4096).unwrap(),
        }
    }
}

fn storm(device: Arc<dyn Device>, image: &MemDevice, rounds: u64) {
    let fs = Fs::mount(device, MountOptions::parse("cache=1M,background_gc=off").unwrap()).unwrap();
    let own: Vec<InodeRef> = (0..3).map(|n| create(&fs, &format!("own {n}"))).collect();
    let shared = create(&fs, "shared");
    let over = Arc::new(AtomicBool::new(false));
    let mut helpers = Vec::new();
    for collects in [true, false] {
        let (fs, over) = (Arc::clone(&fs), Arc::clone(&over));
        helpers.push(spawn("helper", move || {
            while !over.load(SeqCst) {
                match collects {
                    true => drop(fs.gc(1, Urgency::Foreground).unwrap()),
                    false => fs.durable.sync_checkpoint().unwrap(),
                }
                steadyfs_rt::sleep(Duration::from_millis(2));
            }
        }));
    }
    let mut workers = Vec::new();
    for (id, file) in (1..).zip(own) {
        let fs = Arc::clone(&fs);
        workers.push(spawn("worker", move || {
            let versions = work(&fs, &file, id, rounds);
            (id, file, versions)
        }));
    }
    for id in 10..13 {
        let (fs, file) = (Arc::clone(&fs), shared.clone());
        helpers.push(spawn("sharer", move || share(&fs, &file, id, rounds)));
    }
    let done: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    over.store(true, SeqCst);
    helpers.into_iter().for_each(|helper| helper.join().unwrap());
    let mut buf = vec![0; 4096];
    for (id, file, versions) in &done {
        for page in 0..FILE_PAGES {
            check_page(&fs, file, *id, page, versions[page as usize], page % 2 == 0, &mut buf);
        }
    }
    let stats = fs.cache_stats();
    assert!(stats.cached <= stats.limit + 300, "the cache outgrew its budget: {stats:?}");
    drop((done, shared));
    unmount_and_check(fs, image);
}

#[test]
fn threads_collection_and_checkpoints_agree_on_a_fast_device() {
    let image = fresh();
    storm(Arc::clone(&image) as Arc<dyn Device>, &image, 3000);
}

#[test]
fn threads_collection_and_checkpoints_agree_on_a_slow_device() {
    let image = fresh();
    storm(Arc::new(Lagging::new(Arc::clone(&image))), &image, 1000);
}

#[test]
fn a_full_volume_says_so_and_takes_as_much_again() {
    let device = fresh();
    let fs = mount(&device, "");
    let (file, other) = (create(&fs, "fill"), create_with(&fs, "other", inline::XATTR));
    let data = pattern(1, 1 << 16);
    let fill = |file: &InodeRef| {
        let mut total = 0;
        loop {
            match fs.write(file, total, &data) {
                Ok(n) => total += n as u64,
                Err(Error::NoSpace) => return total,
                Err(e) => panic!("{e}"),
            }
        }
    };
    let first = fill(&file);
    assert_eq!((size(&file), fs.statfs().blocks_free), (first, 0), "the last block is given out");
    assert_eq!(fs.write(&file, 0, &data).unwrap(), data.len(), "overwriting needs no space");
    fs.sync().unwrap();
    for round in 0..3 {
        fs.files.set_size(&file.inode, 0).unwrap();
        assert_eq!(fill(&file), first, "round {round}");
    }
    assert!(matches!(fs.write(&other, 0, b"x"), Err(Error::NoSpace)));
    assert_eq!((blocks(&other), size(&other)), (1, 0));
    fs.files.set_size(&file.inode, first - 4096 * 2).unwrap();
    assert!(
        matches!(fs.write(&other, 3000 * 4096, b"x"), Err(Error::NoSpace)),
        "a page and two nodes do not fit in two blocks"
    );
    assert_eq!((blocks(&other), fs.statfs().blocks_free), (1, 2), "what was begun is undone");
    fs.files.set_size(&file.inode, first - 4096 * 3).unwrap();
    let left = fs.statfs().blocks_free;
    assert_eq!(fs.write(&other, 3000 * 4096, b"x").unwrap(), 1);
    assert_eq!(fs.statfs().blocks_free, left - 3);
    unmount_and_check(fs, &device);
}

#[test]
fn a_nearly_full_volume_is_overwritten_at_random() {
    let device = fresh();
    let fs = mount(&device, "cache=2M");
    let file = create(&fs, "old");
    let pages = fs.statfs().blocks_free * 90 / 100;
    let mut versions = vec![1; pages as usize];
    for page in 0..pages {
        fs.write(&file, page * 4096, &stamp(1, page, 1)).unwrap();
    }
    let mut dice = Dice(5);
    for version in 2..2 * pages {
        let page = dice.roll(pages);
        fs.write(&file, page * 4096, &stamp(1, page, version)).unwrap();
        versions[page as usize] = version;
    }
    let mut buf = vec![0; 4096];
    for page in 0..pages {
        check_page(&fs, &file, 1, page, versions[page as usize], false, &mut buf);
    }
    drop(file);
    unmount_and_check(fs, &device);
}

#[test]
fn a_failed_write_is_reported_once_and_loses_nothing_in_memory() {
    let device = Arc::new(FaultyDevice::new(fresh().fork()));
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::default()).unwrap();
    let file = create(&fs, "unlucky");
    fs.write(&file, 0, &pattern(1, 50_000)).unwrap();
    fs.sync().unwrap();
    fs.write(&file, 0, &pattern(2, 50_000)).unwrap();
    device.add(Fault::fail(5).on(OpKind::Write));
    assert!(matches!(fs.files.writeback(&file.inode, crate::files::file::writeback::ALL_PAGES), Err(Error::Io(_))));
    device.heal();
    assert_eq!(read_all(&fs, &file), pattern(2, 50_000));
    assert_eq!(fs.cache_stats().dirty, 13, "the pages are dirty again");
    fs.files.writeback(&file.inode, crate::files::file::writeback::ALL_PAGES).unwrap();
    assert_eq!(fs.cache_stats().dirty, 0);
    assert!(matches!(fs.fsync(&file, false), Err(Error::Io(_))), "who has it open is told");
    fs.fsync(&file, false).unwrap();
    assert_eq!(fs.io_stats().failed, 1);
    assert_eq!(fs.write(&file, 50_000, b"x").unwrap(), 1);
    drop(file);
    let device = device.inner().fork();
    let crashed = mount(&Arc::new(device), "");
    assert_eq!(read_all(&crashed, &crashed.lookup(&crashed.root().unwrap(), b"unlucky").unwrap()), pattern(2, 50_000));
}

#[test]
fn a_failed_read_is_an_error_and_no_more() {
    let device = Arc::new(FaultyDevice::new(fresh().fork()));
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, MountOptions::default()).unwrap();
    let file = create(&fs, "unread");
    fs.write_direct(&file, 0, &pattern(1, 8192)).unwrap();
    let mut buf = vec![0; 8192];
    device.add(Fault::fail(5).on(OpKind::Read));
    assert!(matches!(fs.read(&file, 0, &mut buf), Err(Error::Io(_))));
    assert!(matches!(fs.write(&file, 100, b"part of a page"), Err(Error::Io(_))));
    device.heal();
    fs.read(&file, 0, &mut buf).unwrap();
    assert_eq!(buf, pattern(1, 8192));
}

#[test]
fn the_cache_keeps_to_its_budget_and_reads_ahead() {
    let device = fresh();
    let fs = mount(&device, "cache=1M");
    let file = create(&fs, "large");
    let data = pattern(1, 16 << 20);
    fs.write(&file, 0, &data).unwrap();
    let stats = fs.cache_stats();
    assert!(stats.cached <= stats.limit + 256 && stats.dirty <= stats.limit / 5 * 2 + 256, "{stats:?}");
    fs.sync().unwrap();
    fs.files.budget.cache(&file.inode).remove(crate::files::file::writeback::ALL_PAGES);
    let before = fs.io_stats();
    let mut back = vec![0; 4096];
    for at in (0..data.len()).step_by(4096) {
        fs.read(&file, at as u64, &mut back).unwrap();
        assert_eq!(back, data[at..at + 4096]);
    }
    let blocks = fs.io_stats().read - before.read;
    assert!(blocks <= 4096 * 11 / 10, "read-ahead reads {blocks} blocks for 4096");
    assert!(fs.cache_stats().cached <= stats.limit + 64);
}
