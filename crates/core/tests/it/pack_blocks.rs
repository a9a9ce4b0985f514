//! Every block of the checkpoint pack in force is damaged in turn: each command gives what the volume holds or says
//! what is wrong, and nothing falls back to the older checkpoint without a word.

use crate::common::image;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Issue, Report, Severity, check};
use steadyfs_core::mkfs::{Infinite, MkfsOptions, format};
use steadyfs_core::raw::OtherPack;
use steadyfs_core::{Error, Fs, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CheckpointHeader, CpFlags};
use steadyfs_format::{Ino, Pack};
use steadyfs_testkit::Rng;

const FILES: u64 = 60;
const PAGE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segments,
    Infinite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Flip(usize),
    Zeros,
    Noise,
}

const DAMAGES: [Damage; 5] = [Damage::Flip(3), Damage::Flip(40), Damage::Flip(2000), Damage::Zeros, Damage::Noise];

fn mount(device: &Arc<MemDevice>, options: &str) -> Result<Arc<Fs>, Error> {
    let options = MountOptions { background_gc: false, ..MountOptions::parse(options).unwrap() };
    Fs::mount(Arc::clone(device) as Arc<dyn Device>, options)
}

fn judged(device: &MemDevice) -> Report {
    let options = CheckOptions { threads: 1, rehearse: true, ..CheckOptions::default() };
    check(Arc::new(device.fork()), &options).unwrap()
}

/// A volume of several mounts, of which the last changed every third file; either unmounted, or as a power cut leaves
/// it after a `sync`, with a file that was deleted while open.
fn volume(kind: Kind, unmounted: bool) -> MemDevice {
    let chosen = Infinite { leap: 4096, ..Infinite::new(1 << 14) };
    let (blocks, infinite) = match kind {
        Kind::Segments => (16 * 1024, None),
        Kind::Infinite => (chosen.device_blocks(), Some(chosen)),
    };
    let device = Arc::new(MemDevice::new(blocks));
    format(&*device, &MkfsOptions { infinite, ..MkfsOptions::new([7; 16], 0) }).unwrap();
    for round in 0..5u8 {
        let fs = mount(&device, "").unwrap();
        let root = fs.root().unwrap();
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        for n in (0..FILES).filter(|n| round == 0 || n % 3 == 0) {
            let name = format!("file-{n}");
            let file = fs.lookup(&root, name.as_bytes()).or_else(|_| fs.create(&root, name.as_bytes(), &new)).unwrap();
            fs.write(&file, 0, &vec![(u64::from(round) * 50 + n) as u8; 5 * PAGE]).unwrap();
        }
        let open = fs.create(&root, b"open", &new).unwrap();
        fs.write(&open, 0, &[1; 5 * PAGE]).unwrap();
        fs.unlink(&root, b"open").unwrap();
        fs.sync().unwrap();
        if round == 4 && !unmounted {
            return device.fork();
        }
        drop((open, root));
        fs.unmount().unwrap();
    }
    device.fork()
}

/// What there is to read, by name.
fn contents(fs: &Fs) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let (root, mut names) = (fs.root()?, Vec::new());
    fs.readdir(&root, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })?;
    let read = |name: Vec<u8>| {
        let file = fs.lookup(&root, &name)?;
        let mut bytes = vec![0; fs.attr(&file)?.size as usize];
        fs.read(&file, 0, &mut bytes)?;
        Ok((name, bytes))
    };
    names.into_iter().filter(|name| !name.starts_with(b".")).map(read).collect()
}

fn damage(device: &MemDevice, lba: u64, damage: Damage) {
    let mut block = *device.read_one(lba).unwrap().to_array();
    match damage {
        Damage::Flip(at) => block[at] ^= 4,
        Damage::Zeros => block.fill(0),
        Damage::Noise => {
            let mut random = Rng(lba | 1);
            block.fill_with(|| (random.bits() >> 56) as u8);
        }
    }
    device.write(lba, vec![PageBuf::from_slice(&block)]).unwrap();
}

fn has(report: &Report, code: &str) -> bool {
    report.issues.iter().any(|issue| issue.code() == code)
}

/// One block damaged: what is shown is what there was, or something is said.
fn judge(kind: Kind, base: &MemDevice, block: u64, is_last: bool, how: Damage, whole: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let what = format!("block {block} {how:?}");
    let device = Arc::new(base.fork());
    damage(&device, block, how);
    let report = judged(&device);
    let shown = mount(&device, "ro").and_then(|fs| contents(&fs));
    let is_shown = shown.as_ref().is_ok_and(|shown| shown == whole);
    // Nothing tells a last block of zeros or noise from one that was not written before a power cut.
    let undecidable = is_last && matches!(how, Damage::Zeros | Damage::Noise);
    if undecidable {
        assert!(has(&report, "CheckpointPackTorn"), "{what}: {:?}", report.issues);
        return;
    }
    assert!(is_shown || report.worst() >= Some(Severity::Error), "{what}: {shown:?}: {:?}", report.issues);
    assert!(!has(&report, "CheckpointPackTorn"), "{what}: the pack was written to its end: {:?}", report.issues);
    let changed = mount(&device, "");
    match changed {
        Err(error) => {
            let is_damage = matches!(error.cause(), Error::Corrupt(_) | Error::Format(_) | Error::Stopped(_));
            assert!(is_damage, "{what}: {error}");
            assert!(report.worst() >= Some(Severity::Error), "{what}: {error}: {:?}", report.issues);
        }
        Ok(fs) => {
            let shown = contents(&fs);
            if kind == Kind::Segments && shown.as_ref().ok() != Some(whole) {
                // Entries of the NAT journal of an F2FS volume have no checksum.
                assert!(report.worst() >= Some(Severity::Error), "{what}: {:?}", report.issues);
                return;
            }
            assert!(shown.as_ref().ok() == Some(whole), "{what}: changed, and something is missing");
            if let Err(error) = fs.unmount() {
                // Summaries and the SIT journal of an F2FS volume have no checksum.
                assert!(matches!(error, Error::Corrupt(_) | Error::Stopped(_)), "{what}: {error}");
                assert!(report.worst() >= Some(Severity::Error), "{what}: {error}: {:?}", report.issues);
                return;
            }
            let image = image(device.clone());
            assert!(Pack::BOTH.iter().all(|pack| image.packs().version(*pack).is_ok()), "{what}");
            assert!(Pack::BOTH.iter().all(|pack| image.packs().damaged(*pack).is_none()), "{what}: mended");
        }
    }
}

fn every_block(kind: Kind, unmounted: bool) {
    let base = volume(kind, unmounted);
    let whole = contents(&mount(&Arc::new(base.fork()), "ro").unwrap()).unwrap();
    assert_eq!(whole.len(), FILES as usize);
    assert!(judged(&base).worst() < Some(Severity::Warning), "{:?}", judged(&base).issues);
    let image = image(Arc::new(base.fork()));
    let (start, header) = (image.layout().pack(image.pack()).get(), image.checkpoint().header());
    assert_eq!(header.flags().contains(CpFlags::UMOUNT), unmounted);
    let count = u64::from(header.pack_blocks());
    assert!(count > 2, "{count} blocks");
    for block in start..start + count {
        for how in DAMAGES {
            judge(kind, &base, block, block == start + count - 1, how, &whole);
        }
    }
}

#[test]
fn no_block_of_an_unmounted_volume_is_lost_in_silence() {
    every_block(Kind::Segments, true);
}

#[test]
fn no_block_of_a_cut_volume_is_lost_in_silence() {
    every_block(Kind::Segments, false);
}

#[test]
fn no_block_of_an_unmounted_iplfs_volume_is_lost_in_silence() {
    every_block(Kind::Infinite, true);
}

#[test]
fn no_block_of_a_cut_iplfs_volume_is_lost_in_silence() {
    every_block(Kind::Infinite, false);
}

/// All of the newer pack is gone: the older one is shown, as an error that says so, and mounts warn.
#[test]
fn a_pack_of_zeros_or_noise_is_an_error() {
    for (kind, how) in
        [(Kind::Segments, Damage::Zeros), (Kind::Segments, Damage::Noise), (Kind::Infinite, Damage::Zeros)]
    {
        for unmounted in [true, false] {
            let device = Arc::new(volume(kind, unmounted));
            let (start, gone) =
                (image(device.clone()).layout().pack(image(device.clone()).pack()).get(), image(device.clone()).pack());
            (start..start + 511).for_each(|block| damage(&device, block, how));
            let report = judged(&device);
            let found = report
                .issues
                .iter()
                .any(|issue| matches!(issue, Issue::CheckpointPackGone { pack, .. } if *pack == gone.number()));
            assert!(found, "{kind:?} {how:?}: {:?}", report.issues);
            assert_eq!(report.exit_code() & 4, 4);
        }
    }
}

/// What a power cut in the middle of a checkpoint leaves is no fault: the first blocks are those of the next one or
/// those of the one before the last, whole or torn between two sectors.
#[test]
fn a_checkpoint_that_a_crash_ended_is_no_error() {
    for kind in [Kind::Segments, Kind::Infinite] {
        for unmounted in [true, false] {
            let device = Arc::new(volume(kind, unmounted));
            let before = image(device.clone());
            let (now, whole) = (before.pack(), contents(&mount(&device, "ro").unwrap()).unwrap());
            let next = Arc::new(device.fork());
            {
                let fs = mount(&next, "").unwrap();
                fs.sync().unwrap();
            }
            let start = before.layout().pack(now.other()).get();
            let blocks = |device: &MemDevice| device.read(start, 511).unwrap();
            let (old, new) = (blocks(&device), blocks(&next));
            for (torn, count) in [(0, 0), (512, 0), (4096, 0), (4096, 1), (0, 1), (512, 1)] {
                let cut = Arc::new(device.fork());
                let mut first = *old[0].to_array();
                first[..torn].copy_from_slice(&new[0].to_array()[..torn]);
                let mut pages = vec![PageBuf::from_slice(&first)];
                pages.extend(new[1..=count].iter().cloned());
                cut.write(start, pages).unwrap();
                let opened = image(cut.clone());
                assert_eq!(opened.pack(), now, "{kind:?} {torn} {count}");
                assert!(matches!(opened.other_pack(), OtherPack::Whole | OtherPack::Torn | OtherPack::Older));
                assert!(judged(&cut).worst() <= Some(Severity::Warning), "{:?}", judged(&cut).issues);
                assert_eq!(contents(&mount(&cut, "ro").unwrap()).unwrap(), whole);
            }
        }
    }
}

/// An older last block does not count where the first block is being written anew.
#[test]
fn a_last_block_that_was_not_yet_written_over_is_older() {
    let device = Arc::new(volume(Kind::Segments, true));
    let (other, before) = (image(device.clone()).pack().other(), image(device.clone()).checkpoint().header().version());
    damage(&device, image(device.clone()).layout().pack(other).get(), Damage::Flip(100));
    let opened = image(device.clone());
    assert_eq!((opened.pack().other(), opened.checkpoint().header().version()), (other, before));
    assert!(opened.packs().version(other).is_err());
}

/// What resize.f2fs leaves: the first block of the older pack is zeros, all else is as it was.
#[test]
fn an_older_pack_whose_first_block_was_freed_is_a_warning() {
    let device = Arc::new(volume(Kind::Segments, true));
    let other = image(device.clone()).pack().other();
    damage(&device, image(device.clone()).layout().pack(other).get(), Damage::Zeros);
    let report = judged(&device);
    assert!(has(&report, "CheckpointPackLost") && report.worst() == Some(Severity::Warning), "{:?}", report.issues);
    assert_eq!(report.exit_code(), 4);
}

/// The orphans of a cut volume are deleted though the first copy of the header was damaged.
#[test]
fn a_mended_header_is_the_old_one() {
    let device = Arc::new(volume(Kind::Segments, false));
    let opened = image(device.clone());
    let (start, orphans) = (opened.layout().pack(opened.pack()).get(), opened.orphans().unwrap());
    assert!(!orphans.is_empty() && orphans.iter().all(|ino| *ino > Ino(3)));
    damage(&device, start, Damage::Noise);
    assert_eq!(image(device.clone()).orphans().unwrap(), orphans);
    let header = image(device.clone()).checkpoint().header().clone();
    let good = device.read_one(start + u64::from(header.pack_blocks()) - 1).unwrap();
    assert_eq!(CheckpointHeader::view(&good.to_array()).version(), header.version());
    assert!(has(&judged(&device), "CheckpointHeaderDamaged"));
    assert_eq!(judged(&device).exit_code(), 4);
}
