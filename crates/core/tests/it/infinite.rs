//! IPLFS volumes: an address space that is never used twice, logs from 2^45 on, over a device that panics on a second
//! write of a block and on reads of what was discarded.

use crate::common::file;
use std::sync::Arc;
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, MountOptions, SetAttr};
use steadyfs_device::{Device, MemDevice, PageBuf, WriteOnceDevice};
use steadyfs_format::infinite::Stretch;
use steadyfs_format::{Features, Log};

const PAGE: usize = 4096;
const FEATURES: Features = Features::EXTRA_ATTR.union(Features::INODE_CRTIME).union(Features::FLEXIBLE_INLINE_XATTR);

/// A volume of so many blocks of capacity, and the strict device over it.
pub(crate) struct Volume {
    pub(crate) below: Arc<MemDevice>,
    pub(crate) strict: Arc<WriteOnceDevice>,
}

fn options(chosen: Infinite) -> MkfsOptions {
    MkfsOptions { features: FEATURES, infinite: Some(chosen), ..MkfsOptions::new([0x5f; 16], 1_700_000_000) }
}

impl Volume {
    pub(crate) fn of(capacity: u64) -> Self {
        Self::new(Infinite { leap: 4096, ..Infinite::new(capacity) })
    }

    fn new(chosen: Infinite) -> Self {
        let below = Arc::new(MemDevice::new(chosen.device_blocks()));
        let length = 1u64 << chosen.log_shift;
        let chain = length * (1 + Log::WarmNode.index() as u64);
        let over = Arc::clone(&below) as Arc<dyn Device>;
        let strict = Arc::new(WriteOnceDevice::new(over, length, chain..chain + length));
        mkfs::format(&*strict, &options(chosen)).unwrap();
        Volume { below, strict }
    }

    /// What a power cut leaves when everything has arrived.
    fn cut(&self) -> Volume {
        let below = Arc::new(self.below.fork());
        let strict = Arc::new(self.strict.continue_on(Arc::clone(&below) as Arc<dyn Device>));
        Volume { below, strict }
    }

    pub(crate) fn mount(&self, options: &str) -> Arc<Fs> {
        self.try_mount(options).unwrap()
    }

    fn try_mount(&self, options: &str) -> Result<Arc<Fs>, Error> {
        Fs::mount(Arc::clone(&self.strict) as Arc<dyn Device>, MountOptions::parse(options).unwrap())
    }

    pub(crate) fn image(&self) -> Image {
        Image::open(Arc::clone(&self.below) as Arc<dyn Device>).unwrap()
    }

    /// Everything that the device holds is needed, or known to be dead.
    pub(crate) fn assert_no_leak(&self) {
        let leaked = self.image().leaks(self.strict.held().into_iter()).unwrap();
        assert!(leaked.is_empty(), "nobody knows of {leaked:?}");
    }
}

fn contents(fs: &Fs, name: &str) -> Vec<u8> {
    let file = file(fs, name);
    let mut bytes = vec![0; fs.attr(&file).unwrap().size as usize];
    let count = fs.read(&file, 0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

#[test]
fn a_new_volume_can_be_opened_and_is_refused_where_it_does_not_fit() {
    let volume = Volume::of(1 << 16);
    let image = volume.image();
    let space = image.log_space().unwrap();
    assert_eq!(space.superblock().space().first().get(), 1 << 45);
    assert_eq!((space.superblock().capacity(), space.header().valid_inodes), (1 << 16, 1));
    assert_eq!(image.superblock().features(), FEATURES.union(Features::INFINITE).union(Features::SB_CHECKSUM));
    volume.assert_no_leak();
    let refuse =
        |device: &dyn Device, chosen: Infinite| mkfs::format(device, &options(chosen)).unwrap_err().to_string();
    let right = Infinite::new(1 << 16);
    assert!(refuse(&MemDevice::new(1 << 32), right).contains("address space needs"));
    let device = MemDevice::new(right.device_blocks());
    assert!(refuse(&device, Infinite { capacity: 10, ..right }).contains("capacity"));
    assert!(refuse(&device, Infinite { log_shift: 60, ..right }).contains("2^9"));
    assert!(refuse(&device, Infinite { leap: 0, ..right }).contains("between checkpoints"));
    let checksums = MkfsOptions { features: FEATURES | Features::INODE_CHECKSUM, ..options(right) };
    assert!(mkfs::format(&device, &checksums).unwrap_err().to_string().contains("inode_checksum"));
    assert!(device.written_blocks().is_empty(), "nothing is written that is refused");
}

#[test]
fn files_survive_mounts_and_what_dies_is_discarded() {
    let volume = Volume::of(1 << 14);
    let big: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
    {
        let fs = volume.mount("");
        fs.write(&file(&fs, "big"), 0, &big).unwrap();
        fs.write(&file(&fs, "small"), 0, b"inline").unwrap();
        fs.unmount().unwrap();
    }
    volume.assert_no_leak();
    for round in 0..5u8 {
        let fs = volume.mount("commit=1");
        assert_eq!(contents(&fs, "big"), big);
        assert_eq!(contents(&fs, "small"), b"inline");
        let turned = file(&fs, "turned");
        fs.write(&turned, 0, &vec![round; 500 * PAGE]).unwrap();
        fs.sync().unwrap();
        fs.write(&turned, 0, &vec![round + 100; 500 * PAGE]).unwrap();
        fs.unmount().unwrap();
        drop(fs);
        volume.assert_no_leak();
    }
    // Nothing but what is valid is held after the discards, and what died with the last checkpoints is known.
    let image = volume.image();
    let mut used = 0;
    image.blocks_in_use(&mut |_| used += 1).unwrap();
    assert_eq!(used, image.log_space().unwrap().header().valid_blocks);
    let held = volume.strict.held().len() as u64;
    assert!(held <= used + 8, "{held} blocks are held for {used}");
}

#[test]
fn what_was_fsynced_is_recovered_and_recovery_can_be_cut() {
    let volume = Volume::of(1 << 14);
    {
        let fs = volume.mount("commit=0");
        fs.write(&file(&fs, "old"), 0, &[1; 40 * PAGE]).unwrap();
        fs.sync().unwrap();
        fs.write(&file(&fs, "old"), 0, &[2; 20 * PAGE]).unwrap();
        fs.fsync(&file(&fs, "old"), false).unwrap();
        fs.write(&file(&fs, "old"), 0, &[3; 4 * PAGE]).unwrap();
        fs.write(&file(&fs, "new"), 0, &[4; 9 * PAGE]).unwrap();
        fs.fsync(&file(&fs, "new"), false).unwrap();
        fs.fsync(&file(&fs, "old"), true).unwrap();
        fs.write(&file(&fs, "new"), 0, &[5; 9 * PAGE]).unwrap();
        assert!(fs.sync_stats().chained >= 3, "{:?}", fs.sync_stats());
        let cut = volume.cut();
        // A mount for reading sees the same and writes nothing.
        let before = cut.below.written_blocks();
        let seen = cut.mount("ro");
        assert_eq!(contents(&seen, "new"), [4; 9 * PAGE]);
        drop(seen);
        assert_eq!(cut.below.written_blocks(), before);
        for _ in 0..2 {
            let fs = cut.mount("commit=0");
            let old = contents(&fs, "old");
            assert!(old[..4 * PAGE] == [3; 4 * PAGE] && old[4 * PAGE..20 * PAGE] == [2; 16 * PAGE]);
            assert_eq!(contents(&fs, "new"), [4; 9 * PAGE]);
            fs.sync().unwrap();
            drop(fs);
            cut.assert_no_leak();
        }
        std::mem::forget(fs);
    }
}

#[test]
fn no_space_comes_where_it_is_asked_for_and_goes_away_with_files() {
    let volume = Volume::of(1 << 12);
    let fs = volume.mount("commit=0");
    for round in 0..6u8 {
        let full = file(&fs, "full");
        let mut at = 0;
        let refused = loop {
            match fs.write(&full, at, &[round; 16 * PAGE]) {
                Ok(count) => at += count as u64,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace), "{refused}");
        assert!(at > 3300 * PAGE as u64, "{} blocks", at / PAGE as u64);
        fs.sync().unwrap();
        assert!(volume.strict.held().len() <= 1 << 12);
        // Over and over, with everything in use.
        for _ in 0..3 {
            fs.write(&full, 0, &vec![round + 50; 1000 * PAGE]).unwrap();
            fs.sync().unwrap();
        }
        assert!(volume.strict.held().len() <= 1 << 12);
        fs.setattr(&full, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    }
    fs.unmount().unwrap();
    volume.assert_no_leak();
}

#[test]
fn a_log_that_is_used_up_leaves_a_volume_to_be_read() {
    let volume = Volume::new(Infinite { log_shift: 14, leap: 512, ..Infinite::new(1 << 12) });
    let fs = volume.mount("commit=0");
    fs.write(&file(&fs, "kept"), 0, &[7; 8 * PAGE]).unwrap();
    fs.sync().unwrap();
    let turned = file(&fs, "turned");
    let mut rounds = 0;
    let refused = loop {
        let done = fs.write(&turned, 0, &vec![1; 300 * PAGE]).and_then(|_| fs.fsync(&turned, false));
        if let Err(error) = done {
            break error;
        }
        rounds += 1;
        assert!(rounds < 1000, "a log of 16384 blocks never ends");
    };
    assert!(rounds > 40, "{rounds}");
    assert!(matches!(&refused, Error::ReadOnly(why) if why.contains("copy it to a new one")), "{refused}");
    assert!(fs.fsync(&turned, false).is_err());
    assert_eq!(contents(&fs, "kept"), [7; 8 * PAGE]);
    fs.unmount().unwrap();
    drop(fs);
    volume.assert_no_leak();
    let again = volume.mount("ro");
    assert_eq!(contents(&again, "kept"), [7; 8 * PAGE]);
    assert_eq!(contents(&again, "turned").len(), 300 * PAGE);
}

#[test]
fn a_node_that_lies_elsewhere_or_is_torn_is_not_believed() {
    let volume = Volume::of(1 << 12);
    let fs = volume.mount("");
    fs.write(&file(&fs, "file"), 0, &[1; 9 * PAGE]).unwrap();
    fs.unmount().unwrap();
    drop(fs);
    let image = volume.image();
    let lba = image.nat(steadyfs_format::ROOT_INO.nid()).unwrap().lba;
    assert_eq!(image.log_space().unwrap().superblock().space().stretch_of(lba), Some(Stretch::Of(Log::HotNode)));
    let mut block = volume.below.read_one(lba.get()).unwrap().to_array();
    block[2000] ^= 1;
    volume.below.write(lba.get(), vec![PageBuf::from_slice(&block[..])]).unwrap();
    let refused = match volume.try_mount("ro").and_then(|fs| fs.root().map(drop)) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("a torn node was believed"),
    };
    assert!(refused.contains("should be a node"), "{refused}");
}

#[test]
fn a_journal_is_refused_and_nothing_is_written() {
    let volume = Volume::of(4096);
    let Err(error) = volume.try_mount("journal=single") else { panic!("mounted") };
    assert!(matches!(&error, Error::Unsupported(why) if why.contains("journal")), "{error}");
    volume.mount("").unmount().unwrap();
}

/// Nothing of the larger volume is in force once the superblock says the smaller capacity.
#[test]
fn a_smaller_capacity_comes_behind_a_checkpoint_that_fits_it() {
    let volume = Volume::of(1 << 14);
    let fs = volume.mount("commit=0");
    let big = file(&fs, "big");
    fs.write(&big, 0, &vec![1; 9000 * PAGE]).unwrap();
    fs.sync().unwrap();
    fs.setattr(&big, &SetAttr { size: Some(4 * PAGE as u64), ..SetAttr::default() }).unwrap();
    fs.set_capacity(1 << 13).unwrap();
    let cut = volume.cut();
    let space = cut.image().log_space().unwrap().clone();
    assert_eq!(space.superblock().capacity(), 1 << 13);
    assert!(space.header().valid_blocks < 1 << 13, "{} blocks are in use", space.header().valid_blocks);
    let after = cut.mount("commit=0");
    assert_eq!(contents(&after, "big"), [1; 4 * PAGE]);
    after.write(&file(&after, "more"), 0, &[2; 9 * PAGE]).unwrap();
    after.unmount().unwrap();
    fs.unmount().unwrap();
}
