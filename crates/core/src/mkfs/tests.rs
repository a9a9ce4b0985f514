//! What can be said of a new volume without other programs: reproducible, refused with a reason, nothing half-made.

use super::*;
use crate::raw::Image;
use std::sync::Arc;
use steadyfs_device::{Fault, FaultyDevice, MemDevice, OpKind};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{Ino, ROOT_INO};

const MIB: u64 = 256;

fn options() -> MkfsOptions {
    MkfsOptions { label: "täst".to_owned(), ..MkfsOptions::new([7; 16], 1_700_000_000) }
}

fn made(options: &MkfsOptions, mib: u64) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new(mib * MIB));
    format(&*dev, options).unwrap();
    dev
}

#[test]
fn a_new_volume_can_be_opened() {
    let features =
        "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,quota,project_quota";
    let options = MkfsOptions { features: parse_features(features).unwrap(), ..options() };
    let image = Image::open(made(&options, 64)).unwrap();
    assert_eq!(image.superblock().label(), "täst");
    assert_eq!(image.superblock().uuid(), [7; 16]);
    assert_eq!(image.superblock().features(), options.features);
    assert_eq!(image.superblock().quota_ino(QuotaKind::Project), Some(Ino(6)));
    assert_eq!(image.checkpoint().header().valid_inodes(), 5);
    let root = image.nat(ROOT_INO.nid()).unwrap();
    assert_eq!((root.ino, image.nat(Ino(7).nid()).unwrap().lba), (ROOT_INO, root.lba + 4));
}

#[test]
fn the_same_options_give_the_same_bytes_and_another_uuid_another_version() {
    let bytes = |options: &MkfsOptions| {
        let dev = made(options, 64);
        let blocks = dev.written_blocks();
        blocks.into_iter().map(|block| (block, *dev.read_one(block).unwrap().to_array())).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&options()), bytes(&options()));
    let version = |uuid: u8| {
        let image = Image::open(made(&MkfsOptions { uuid: [uuid; 16], ..options() }, 64)).unwrap();
        image.checkpoint().header().version()
    };
    assert_ne!(version(1), version(2));
    let fixed = |uuid: u8| {
        let options = MkfsOptions { uuid: [uuid; 16], fixed_version: true, ..options() };
        Image::open(made(&options, 64)).unwrap().checkpoint().header().version()
    };
    assert_eq!(fixed(1), fixed(2));
    assert!(version(1) % 2 == 1 && version(1) < 1 << 31);
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_would_be() {
    let dev = MemDevice::new(64 * MIB);
    let report = format(&dev, &MkfsOptions { dry_run: true, ..options() }).unwrap();
    assert!(dev.written_blocks().is_empty());
    assert_eq!(report.plan.layout.main_segments, 24);
    assert_eq!(report.plan, format(&dev, &options()).unwrap().plan);
}

#[test]
fn wrong_choices_are_refused_by_name() {
    let cases = [
        ("ro", "ro"),
        ("blkzoned", "blkzoned"),
        ("nonsense", "nonsense"),
        ("inode_checksum", "inode_checksum needs the feature extra_attr"),
        ("sb_checksum,compression", "compression needs the feature extra_attr"),
    ];
    for (list, text) in cases {
        let error = parse_features(list).unwrap_err().to_string();
        assert!(error.contains(text), "{list}: {error}");
    }
    let refuse = |options: MkfsOptions| format(&MemDevice::new(64 * MIB), &options).unwrap_err().to_string();
    assert!(refuse(MkfsOptions { features: Features::RO, ..options() }).contains("ro"));
    assert!(refuse(MkfsOptions { strict_encoding: true, ..options() }).contains("casefold"));
    assert!(refuse(MkfsOptions { label: "x".repeat(512), ..options() }).contains("label"));
    assert!(refuse(MkfsOptions { cold_extensions: vec!["too-long".to_owned()], ..options() }).contains("extension"));
    assert!(refuse(MkfsOptions { hot_extensions: vec!["avi".to_owned()], ..options() }).contains("'avi'"));
    assert!(refuse(MkfsOptions { blocks: Some(64 * MIB + 1), ..options() }).contains("blocks"));
    assert!(refuse(MkfsOptions { blocks: Some(8 * MIB), ..options() }).contains("too small"));
    let read_only = MemDevice::new(64 * MIB).into_read_only();
    assert!(format(&read_only, &options()).unwrap_err().to_string().contains("read-only"));
}

#[test]
fn extensions_are_added_once() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let options =
        MkfsOptions { cold_extensions: list(&["foo", "avi", ""]), hot_extensions: list(&["db", "bar"]), ..options() };
    let report = format(&MemDevice::new(64 * MIB), &options).unwrap();
    assert_eq!(report.superblock.cold_extensions()[DEFAULT_COLD_EXTENSIONS.len()..], ["foo"]);
    assert_eq!(report.superblock.hot_extensions()[DEFAULT_HOT_EXTENSIONS.len()..], ["bar"]);
}

/// However far a run comes: either the new volume is whole, or there is none.
#[test]
fn an_interrupted_run_leaves_no_volume() {
    // Without discards, so that everything of the old volume is still there to be mistaken.
    let new = MkfsOptions { discard: false, ..options() };
    let old = made(&MkfsOptions { uuid: [1; 16], ..options() }, 64);
    let version = Image::open(made(&new, 64)).unwrap().checkpoint().header().version();
    let mut whole = 0;
    for writes in 0.. {
        let dev = Arc::new(old.fork());
        let faulty = FaultyDevice::new(dev.clone());
        faulty.add(Fault::disappear().on(OpKind::Write).after(writes));
        let result = format(&faulty, &new);
        match Image::open(dev) {
            Ok(image) if image.superblock().uuid() == [7; 16] => {
                assert_eq!(image.checkpoint().header().version(), version, "after {writes} writes");
                whole += 1;
            }
            // The first write is the one that removes the old volume.
            Ok(_) => assert_eq!(writes, 0, "the old volume is still there"),
            Err(_) => assert!(result.is_err()),
        }
        if result.is_ok() {
            break;
        }
    }
    assert_eq!(whole, 2, "with one superblock, and with both");
}

#[test]
fn a_d2fs_volume_fits_its_device_and_no_other() {
    use steadyfs_device::{Adversary, AdversaryDevice};
    for (capacity, ratio, segs_per_sec) in
        [(16 * 512, 1.4, 1), (100_000, 1.1, 1), (1 << 20, 2.0, 16), (1 << 26, 1.4, 16)]
    {
        let chosen = Migrating { capacity, regular_ratio: ratio };
        let options = MkfsOptions { migrating: Some(chosen), segs_per_sec, ..options() };
        let geometry = chosen.geometry(&options).unwrap();
        let (regular, gc) = (geometry.regular.end - geometry.regular.start, geometry.gc.end - geometry.gc.start);
        assert!(regular as f64 >= capacity as f64 * ratio && gc >= capacity, "{geometry:?}");
        if capacity > 1 << 20 {
            continue;
        }
        let below = Arc::new(MemDevice::new(geometry.gc.end));
        let over = || Arc::clone(&below) as Arc<dyn Device>;
        let device = AdversaryDevice::new(over(), geometry.clone(), Adversary::new(1));
        let report = format(&device, &options).unwrap();
        assert!(report.plan.user_blocks < capacity && report.plan.user_blocks > capacity * 7 / 10, "{report:?}");
        let image = Image::open(over()).unwrap();
        assert_eq!((image.checkpoint().served(), image.superblock().regions().unwrap().capacity), (Some(0), capacity));
        let refused = |device: &dyn Device, options: &MkfsOptions| format(device, options).unwrap_err().to_string();
        assert!(refused(&*below, &options).contains("does not move pages"));
        assert!(refused(&device, &MkfsOptions { migrating: None, ..options.clone() }).contains("make a D2FS volume"));
        let other = Migrating { capacity: capacity + 512 * u64::from(segs_per_sec), ..chosen };
        assert!(
            refused(&device, &MkfsOptions { migrating: Some(other), ..options.clone() }).contains("the volume needs")
        );
    }
    let tiny = Migrating::new(4 * 512);
    assert!(tiny.geometry(&options()).unwrap_err().to_string().contains("too little"));
}
