//! Logs that fill the holes of used segments (`mode=adaptive`), on a nearly full volume: the data is right, both
//! checkers are content, the real Linux reads it, cleanly unmounted and not, and each goes on where the other has
//! stopped.

use crate::common::{create, mount};
use crate::words::repeated;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{self, CheckOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Fs, InodeRef, Urgency};
use steadyfs_device::{Device, FileDevice, OpenOptions};
use steadyfs_format::{AllocType, Log};
use steadyfs_testkit::linux::mount_command;
use steadyfs_testkit::{Rng, Uml, fsck_f2fs, mkfs_f2fs};

const PAGE: usize = 4096;

fn device(path: &Path) -> Arc<dyn Device> {
    Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap())
}

fn open(path: &Path, options: &str) -> Arc<Fs> {
    open_on(device(path), options)
}

fn open_on(device: Arc<dyn Device>, options: &str) -> Arc<Fs> {
    mount(device, &format!("cache=8M,gc=f2fs-lfs,{options}"))
}

/// Lends a copy: whoever has the volume mounted has its file for himself.
fn copied<R>(path: &Path, f: impl FnOnce(&Path) -> R) -> R {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    f(&copy)
}

/// The logs that fill holes, as the checkpoint on the device says.
fn filling(device: &Arc<dyn Device>) -> Vec<Log> {
    let image = Image::open(Arc::clone(device)).unwrap();
    Log::ALL.into_iter().filter(|log| image.log_position(*log).alloc == AllocType::Ssr).collect()
}

fn contents(page: u64, version: u32) -> Vec<u8> {
    let seed = [page, u64::from(version), 0x5EED];
    repeated(&seed, PAGE)
}

/// A file of which every page says which version it is.
struct Tracked {
    fs: Arc<Fs>,
    file: InodeRef,
    versions: Vec<u32>,
    random: Rng,
}

impl Tracked {
    /// A file that takes so many of a hundred of the free blocks.
    fn new(fs: &Arc<Fs>, share: u64) -> Self {
        let file = create(fs, "tracked");
        let pages = fs.statfs().blocks_free * share / 100;
        let mut tracked = Tracked { fs: Arc::clone(fs), file, versions: vec![0; pages as usize], random: Rng(99) };
        (0..pages).for_each(|page| tracked.write(page));
        fs.sync().unwrap();
        tracked
    }

    fn write(&mut self, page: u64) {
        self.versions[page as usize] += 1;
        let bytes = contents(page, self.versions[page as usize]);
        assert_eq!(self.fs.write(&self.file, page * PAGE as u64, &bytes).unwrap(), PAGE);
    }

    /// Overwrites pages at random; with fsyncs, and a checkpoint now and then.
    fn overwrite(&mut self, count: u64) {
        for n in 1..=count {
            let page = self.random.below(self.versions.len() as u64);
            self.write(page);
            match n {
                n if n.is_multiple_of(4000) => self.fs.sync().unwrap(),
                n if n.is_multiple_of(700) => self.fs.fsync(&self.file, n.is_multiple_of(1400)).unwrap(),
                _ => {}
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        (0..).zip(&self.versions).flat_map(|(page, version)| contents(page, *version)).collect()
    }

    fn verify(&self, fs: &Fs) {
        let file = fs.lookup(&fs.root().unwrap(), b"tracked").unwrap();
        let mut found = vec![0; PAGE];
        for (page, version) in (0..).zip(&self.versions) {
            assert_eq!(fs.read(&file, page * PAGE as u64, &mut found).unwrap(), PAGE);
            assert!(found == contents(page, *version), "page {page}");
        }
    }
}

fn check(path: &Path) {
    copied(path, |copy| {
        fsck_f2fs(copy).unwrap();
        let report = fsck::check(device(copy), &CheckOptions::default()).unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
}

/// What Linux reads, after it has recovered what there was.
fn read_by_linux(path: &Path) -> Vec<u8> {
    let machine = Uml::new().disk(path).timeout(Duration::from_secs(120)).expect("invalid crc");
    let script = machine.script(mount_command("/dev/ubda", "")).script("cat $MNT/tracked > $HOST/tracked");
    let out = script.script("umount $MNT").run().unwrap();
    std::fs::read(out.file("tracked")).unwrap()
}

#[test]
fn a_nearly_full_volume_is_filled_hole_by_hole_and_stays_sound() {
    const ROUNDS: usize = 12;
    for (options, layout) in
        [("mode=adaptive,ipu=never", &[][..]), ("mode=adaptive,ipu=never,alloc_mode=default", &["-s", "2"])]
    {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, cut) = (dir.path().join("volume.img"), dir.path().join("cut.img"));
        mkfs_f2fs(&path, 192 << 20, layout).unwrap();
        let disk = device(&path);
        let fs = open_on(Arc::clone(&disk), options);
        let mut tracked = Tracked::new(&fs, 88);
        tracked.overwrite(40_000);
        // Not at each moment: a checkpoint frees sections and leaves no node dirty, and the log that needs a segment
        // next may take a free one.
        let filled = (0..ROUNDS).filter(|_| {
            tracked.overwrite(500);
            tracked.fs.sync().unwrap();
            let fills = filling(&disk).iter().any(|log| !log.is_node());
            if fills {
                std::fs::copy(&path, &cut).unwrap();
            }
            fills
        });
        let filled = filled.count();
        assert!(filled * 4 > ROUNDS * 3, "{options}: a log of data fills holes at {filled} of {ROUNDS} checkpoints");
        check(&cut);
        // The chain goes through holes as well.
        tracked.overwrite(2500);
        tracked.fs.fsync(&tracked.file, false).unwrap();
        std::fs::copy(&path, &cut).unwrap();
        assert!(Image::open(device(&cut)).unwrap().has_fsync_chain().unwrap());
        assert!(read_by_linux(&cut) == tracked.bytes(), "{options}: after Linux' recovery");
        check(&cut);
        // What Linux has left is ours to go on with, and so is what the cut has left.
        std::fs::copy(&path, dir.path().join("again.img")).unwrap();
        for image in [&cut, &dir.path().join("again.img")] {
            let again = open(image, options);
            tracked.verify(&again);
            let mut more = Tracked {
                file: again.lookup(&again.root().unwrap(), b"tracked").unwrap(),
                fs: Arc::clone(&again),
                versions: tracked.versions.clone(),
                random: Rng(7),
            };
            more.overwrite(5000);
            again.unmount().unwrap();
            check(image);
            let expected = more.bytes();
            // The image is locked for as long as anybody has the volume.
            drop((more, again));
            assert!(read_by_linux(image) == expected, "{options}");
        }
        tracked.verify(&tracked.fs);
    }
}

#[test]
fn what_linux_has_filled_hole_by_hole_goes_on_here() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("volume.img");
    mkfs_f2fs(&path, 96 << 20, &[""; 0]).unwrap();
    // Files of 300 KiB until the volume is full; then every other one goes, and new ones of 200 KiB come.
    let script = "i=0; while dd if=/dev/urandom of=$MNT/a$i bs=300k count=1 2>/dev/null; do i=$((i+1)); done; sync
        j=0; while [ $j -lt $i ]; do rm -f $MNT/a$j; j=$((j+2)); done; sync
        j=0; while [ $j -lt $((i/3)) ]; do dd if=/dev/urandom of=$MNT/b$j bs=200k count=1 conv=fsync 2>/dev/null; j=$((j+1)); done
        sync; for f in $MNT/*; do cat $f; done > $HOST/all; ls $MNT > $HOST/names; umount $MNT";
    let machine = Uml::new().disk(&path).timeout(Duration::from_secs(240));
    let out = machine.script(mount_command("/dev/ubda", "")).script(script).run().unwrap();
    let logs = filling(&device(&path));
    assert!(!logs.is_empty(), "Linux leaves logs that fill holes");
    let all = std::fs::read(out.file("all")).unwrap();
    let names = std::fs::read_to_string(out.file("names")).unwrap();
    for options in ["mode=adaptive", "mode=lfs"] {
        let fs = open(&path, options);
        let mut at = 0;
        for name in names.split_whitespace() {
            let file = fs.lookup(&fs.root().unwrap(), name.as_bytes()).unwrap();
            let size = fs.attr(&file).unwrap().size as usize;
            let mut found = vec![0; size];
            assert_eq!(fs.read(&file, 0, &mut found).unwrap(), size);
            assert!(found == all[at..at + size], "{options}: {name}");
            at += size;
        }
        assert_eq!(at, all.len());
        fs.unmount().unwrap();
        check(&path);
    }
}

#[test]
fn what_is_written_in_place_stays_in_place() {
    let place = |options: &str, sync: fn(&Fs, &InodeRef)| {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("volume.img");
        mkfs_f2fs(&path, 64 << 20, &[""; 0]).unwrap();
        let fs = open(&path, options);
        let file = create(&fs, "file");
        let pages = |byte: u8| vec![byte; 20 * PAGE];
        fs.write(&file, 0, &pages(1)).unwrap();
        fs.sync().unwrap();
        let before = fs.io_stats();
        fs.write(&file, 5 * PAGE as u64, &pages(2)[..9 * PAGE]).unwrap();
        sync(&fs, &file);
        let nodes = fs.io_stats().node_written - before.node_written;
        fs.write(&file, 0, &pages(3)[..PAGE]).unwrap();
        sync(&fs, &file);
        let more = fs.io_stats().node_written - before.node_written - nodes;
        let copy = dir.path().join("cut.img");
        std::fs::copy(&path, &copy).unwrap();
        // The power is cut: what was synced is there.
        let again = open(&copy, options);
        let file = again.lookup(&again.root().unwrap(), b"file").unwrap();
        let mut found = pages(0);
        again.read(&file, 0, &mut found).unwrap();
        let bytes: Vec<u8> = found.iter().copied().step_by(PAGE).collect();
        assert_eq!(bytes, [3, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], "{options}");
        again.unmount().unwrap();
        check(&copy);
        (nodes, more)
    };
    let fdatasync = |fs: &Fs, file: &InodeRef| fs.fsync(file, true).unwrap();
    let sync = |fs: &Fs, _: &InodeRef| fs.sync().unwrap();
    assert_eq!(place("mode=adaptive,ipu=fsync", fdatasync), (0, 0), "addresses stay, so no node is written");
    assert_eq!(place("mode=adaptive", fdatasync), (0, 0));
    let (nine, one) = place("mode=adaptive,ipu=never", fdatasync);
    assert!(nine > 0 && one > 0);
    let (nine, one) = place("mode=lfs,ipu=always", fdatasync);
    assert!(nine > 0 && one > 0);
    let (nine, one) = place("mode=adaptive,ipu=fsync", sync);
    assert!(nine > 0 && one > 0, "sync is no fsync");
}

/// A plan says what a collection does, also on a volume whose logs have filled holes. Where what is moved fills holes
/// itself, the plan is the least of it: a log may take a segment that is in the plan.
#[test]
fn a_plan_of_a_collection_is_what_it_does_where_logs_fill_holes() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("volume.img");
    mkfs_f2fs(&path, 96 << 20, &[""; 0]).unwrap();
    let disk = device(&path);
    // So much is free afterwards that logs of `mode=adaptive` fill no holes.
    let filled = "mode=adaptive,ssr=eager,ipu=never,gc.hysteresis=2";
    let mut tracked = Tracked::new(&open_on(Arc::clone(&disk), filled), 60);
    tracked.overwrite(5000);
    tracked.fs.sync().unwrap();
    assert!(!filling(&disk).is_empty(), "a log fills holes");
    tracked.fs.unmount().unwrap();
    for options in ["mode=lfs", "mode=adaptive", "mode=adaptive,ssr=eager"] {
        let copy = path.with_extension("again");
        std::fs::copy(&path, &copy).unwrap();
        let fs = open(&copy, options);
        let before = std::fs::read(&copy).unwrap();
        let plan = fs.gc_plan(5, Urgency::Foreground).unwrap();
        assert!(before == std::fs::read(&copy).unwrap(), "{options}: a plan writes nothing");
        let report = fs.gc(5, Urgency::Foreground).unwrap();
        assert_eq!((report.victims, plan.sections_freed, report.sections_freed), (5, 5, 5), "{options}");
        assert!(plan.data_moved > 0 && plan.nodes_moved == report.nodes_moved, "{options}: {plan:?} {report:?}");
        match options.contains("eager") {
            true => assert!(plan.data_moved < report.data_moved, "{options}: {plan:?} {report:?}"),
            false => assert_eq!(plan.data_moved, report.data_moved, "{options}"),
        }
        tracked.verify(&fs);
        fs.unmount().unwrap();
        check(&copy);
    }
}
