//! Collection under load: a volume filled to 93 % and overwritten at random for many times its size goes on for ever.

use crate::common::mount;
use crate::words::repeated;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use steadyfs_core::{Error, Fs, InodeRef, NewInode, Urgency};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_testkit::{XorShift, fsck_f2fs, mkfs_f2fs, sampled};

const PAGE: usize = 4096;
const WRITERS: u64 = 4;

/// A number below a bound.
fn below(random: &mut XorShift, bound: u64) -> u64 {
    random.bits().wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
}

/// A file and the version of each of its pages, from which the page's contents follow.
struct Tracked {
    inode: InodeRef,
    id: u64,
    versions: Vec<AtomicU32>,
}

fn contents(id: u64, page: u64, version: u32) -> Vec<u8> {
    let seed = [id, page, u64::from(version), 0x5EED];
    repeated(&seed, PAGE)
}

impl Tracked {
    fn write(&self, fs: &Fs, page: u64) {
        let version = self.versions[page as usize].load(SeqCst) + 1;
        let written = fs.write(&self.inode, page * PAGE as u64, &contents(self.id, page, version)).unwrap();
        assert_eq!(written, PAGE);
        self.versions[page as usize].store(version, SeqCst);
    }

    fn verify(&self, fs: &Fs) {
        let mut found = vec![0; PAGE];
        for (page, version) in (0..).zip(&self.versions) {
            assert_eq!(fs.read(&self.inode, page * PAGE as u64, &mut found).unwrap(), PAGE);
            assert!(found == contents(self.id, page, version.load(SeqCst)), "file {} page {page}", self.id);
        }
    }
}

fn open(path: &Path, gc: &str) -> Arc<Fs> {
    let dev = FileDevice::open(path, OpenOptions::default()).unwrap();
    mount(Arc::new(dev), &format!("cache=16M,{gc}"))
}

/// One file per writer; together they take 93 % of what the volume has for files.
fn fill(fs: &Fs) -> Vec<Tracked> {
    let root = fs.root().unwrap();
    let pages = fs.statfs().blocks_free * 93 / 100 / WRITERS;
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let mut files = Vec::new();
    for id in 0..WRITERS {
        let inode = fs.create(&root, format!("file{id}").as_bytes(), &new).unwrap();
        let versions = (0..pages).map(|_| AtomicU32::new(0)).collect();
        let file = Tracked { inode, id, versions };
        (0..pages).for_each(|page| file.write(fs, page));
        files.push(file);
    }
    fs.sync().unwrap();
    files
}

/// Overwrites at random from one thread per file, `total` pages in all.
fn overwrite(fs: &Arc<Fs>, files: &Arc<Vec<Tracked>>, total: u64) {
    let threads: Vec<_> = (0..WRITERS)
        .map(|id| {
            let (fs, files) = (Arc::clone(fs), Arc::clone(files));
            steadyfs_rt::spawn("writer", move || {
                let file = &files[id as usize];
                let mut random = XorShift(0x9E37_79B9 + id);
                for _ in 0..total / WRITERS {
                    file.write(&fs, below(&mut random, file.versions.len() as u64));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// What the image is now, checked: a checkpoint with the collectors' streams open is one like any other.
fn check_as_it_is(path: &Path) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    fsck_f2fs(&copy).unwrap();
    std::fs::remove_file(copy).unwrap();
}

fn run(layout: &[&str], mib: u64, times: u64, gc: &str) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("gc.img");
    mkfs_f2fs(&path, mib << 20, layout).unwrap();
    let fs = open(&path, gc);
    let files = Arc::new(fill(&fs));
    let before = fs.io_stats();
    let user_pages = times * (mib << 20) / PAGE as u64;
    overwrite(&fs, &files, user_pages);
    files.iter().for_each(|f| f.verify(&fs));
    fs.sync().unwrap();
    check_as_it_is(&path);
    let after = fs.io_stats();
    let written = after.written_blocks() - before.written_blocks();
    let totals = fs.gc_totals();
    println!(
        "{mib} MiB {layout:?}, {gc}: {user_pages} pages written, {written} blocks to the device: WAF {:.2}; {totals:?}",
        written as f64 / user_pages as f64
    );
    assert!(totals.data_moved > 0, "nothing was collected");
    let sizes: Vec<_> = files.iter().map(|f| f.inode.ino()).collect();
    let versions: Vec<Vec<u32>> = files.iter().map(|f| f.versions.iter().map(|v| v.load(SeqCst)).collect()).collect();
    drop(files);
    fs.unmount().unwrap();
    drop(fs);
    fsck_f2fs(&path).unwrap();
    let fs = open(&path, gc);
    for ((id, ino), versions) in (0..).zip(sizes).zip(versions) {
        let versions = versions.into_iter().map(AtomicU32::new).collect();
        Tracked { inode: fs.inode(ino).unwrap(), id, versions }.verify(&fs);
    }
    fs.unmount().unwrap();
}

#[test]
fn random_overwrite_at_93_percent_goes_on() {
    run(&[], 256, sampled(5, 10), "gc=scalelfs");
}

#[test]
fn random_overwrite_goes_on_where_writers_collect() {
    run(&[], 256, sampled(2, 4), "gc=f2fs-lfs");
}

#[test]
fn random_overwrite_goes_on_with_many_collectors() {
    run(&[], 384, sampled(2, 4), "gc=scalelfs,gc.collectors=32");
}

#[test]
fn random_overwrite_goes_on_with_collectors_that_share_a_log() {
    run(&[], 256, 3, "gc.collectors=4,gc.stream=shared,gc.meta=locked,gc.select=locked");
}

#[test]
fn random_overwrite_goes_on_with_threads_that_share_a_victim() {
    run(&[], 256, 3, "gc=pgc,gc.collectors=split:4");
}

#[test]
fn random_overwrite_goes_on_with_holes_filled_beside_collectors() {
    run(&[], 256, 4, "gc=f2fs-m,gc.collectors=3,ipu=never");
}

#[test]
fn random_overwrite_goes_on_with_several_logs_for_data() {
    run(&[], 256, 2, "gc=max,data_logs=3,ipu=never");
    run(&["-s", "2"], 384, 1, "gc=max,data_logs=4,mode=lfs");
    run(&[], 384, 1, "gc=scalelfs,gc.collectors=4,data_logs=2");
}

#[test]
fn sections_of_several_segments_are_collected_too() {
    run(&["-s", "4"], 512, 2, "gc=scalelfs");
}

#[test]
fn a_full_volume_says_so_and_stays_whole() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("full.img");
    mkfs_f2fs(&path, 128 << 20, &["-f"]).unwrap();
    let fs = open(&path, "gc=scalelfs");
    let root = fs.root().unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let inode = fs.create(&root, b"big", &new).unwrap();
    let chunk = vec![7u8; 64 * PAGE];
    let mut off = 0;
    let e = loop {
        match fs.write(&inode, off, &chunk) {
            Ok(n) => off += n as u64,
            Err(e) => break e,
        }
    };
    assert!(matches!(e, Error::NoSpace), "{e}");
    let left = fs.statfs().blocks_free;
    assert!(left < 64 + 8, "{left} blocks are free and could have been written");
    fs.sync().unwrap();
    // Overwriting needs no new space, so it must go on while the volume is full.
    let mut random = XorShift(5);
    for _ in 0..20_000 {
        fs.write(&inode, below(&mut random, off / PAGE as u64) * PAGE as u64, &chunk[..PAGE]).unwrap();
    }
    fs.unlink(&root, b"big").unwrap();
    drop(inode);
    fs.reap().unwrap();
    assert!(fs.statfs().blocks_free > left + off / PAGE as u64 / 2, "deleting gave the space back");
    fs.create(&root, b"again", &new).unwrap();
    fs.unmount().unwrap();
    drop(fs);
    fsck_f2fs(&path).unwrap();
}

/// Nodes of a cleaned segment are written elsewhere by the next checkpoint. Until then the segment is no victim again.
#[test]
fn a_node_segment_is_cleaned_once_between_two_checkpoints() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("nodes.img");
    mkfs_f2fs(&path, 128 << 20, &["-q"]).unwrap();
    let fs = open(&path, "background_gc=off,commit=0");
    let root = fs.root().unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let name = |i: u32| format!("file{i}").into_bytes();
    (0..1500).for_each(|i| drop(fs.create(&root, &name(i), &new).unwrap()));
    fs.sync().unwrap();
    // Most of them go, so that the segments with their inodes are the cheapest victims.
    (0..1500).filter(|i| i % 10 != 0).for_each(|i| fs.unlink(&root, &name(i)).unwrap());
    fs.reap().unwrap();
    fs.sync().unwrap();
    let report = fs.gc(12, Urgency::Foreground).unwrap();
    // At most the 150 inodes, and what there is beside: the root's and its directory's nodes.
    assert!((1..200).contains(&report.nodes_moved), "{report:?}");
    assert!(report.victims < 12, "{report:?}");
    drop(root);
    fs.unmount().unwrap();
    drop(fs);
    fsck_f2fs(&path).unwrap();
}
