//! Replay of batches of the metadata journal that nobody would write, on sound volumes. Input: the number of a base,
//! how batches are laid, then records, a zero, and operations on the volume that came of it.

use super::{VOLUME_MEMORY, Volume, image, mount, operations};
use crate::Target;
use crate::input::Input;
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, MemDevice, PageBuf};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Time};
use steadyfs_format::records::batch::{self, ContentsSum};
use steadyfs_format::records::{Attributes, Birth, InodeRecord, MAX_CONTENTS, Record, VERSION_KEY};
use steadyfs_format::xattr::{self, XattrName};
use steadyfs_format::{Block, Features, Ino, Log};

/// The target.
pub const TARGET: Target = Target { name: "replay", run, seeds, volume: true, memory: VOLUME_MEMORY };

/// Most records of one input.
const MOST: usize = 40;
/// A segment's blocks.
const SEGMENT: usize = 512;

/// How batches are laid, by bits of a byte:
/// - records of one batch, or each in its own;
/// - a sequence left out;
/// - a block torn;
/// - the second copy of the superblock without its mark;
/// - batches that name a block of contents, of which every second one is another.
const EACH: u8 = 1;
const GAP: u8 = 6;
const TORN: u8 = 24;
const HALF: u8 = 96;
const NAMES: u8 = 128;

/// A birth, a name for it and a removal: by the volume's own rules nothing is wrong with them.
fn seeds() -> Vec<Vec<u8>> {
    super::seeds().into_iter().map(|seed| [seed, vec![0, 1, 1, 1, 1, 3, 2, 1, 4, 0]].concat()).collect()
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let base = super::base::choose(&mut input, true);
    let how = input.u8();
    let inos: Vec<Ino> = base.inodes.iter().map(|index| base.nodes[*index].ino).collect();
    let mut records = Vec::new();
    while records.len() < MOST {
        match input.u8() {
            0 => break,
            kind => records.extend(record(kind, &inos, base.features, &mut input)),
        }
    }
    let device = base.device.fork();
    let changed = lay(&device, &records, how);
    let volume = Volume { base, device: Arc::new(device), changed };
    // Who only looks sees what a mount for changes makes of it, or nothing of it.
    let reader = mount::mount(&volume, true);
    assert!(reader.is_some(), "a sound checkpoint is always shown");
    drop(reader);
    let Some(fs) = mount::mount(&volume, false) else { return };
    for ino in records.iter().map(Record::ino).collect::<BTreeSet<_>>() {
        let _ = fs.inode(ino).map(|inode| mount::read_inode(&fs, &inode));
    }
    operations::perform(&fs, &volume, &mut input);
    if fs.unmount().is_ok() {
        image::expect_readable(volume.device);
    }
}

/// Writes batches where the chain begins, and marks the superblock. Returns the blocks that changed.
fn lay(device: &MemDevice, records: &[Record], how: u8) -> BTreeSet<u64> {
    let image = Image::open(Arc::new(device.fork())).expect("the base is sound");
    let (at, seed) = (image.log_position(Log::WarmNode), image.superblock().inode_checksum_seed());
    let version = image.checkpoint().header().footer_version() ^ VERSION_KEY;
    let first = image.layout().lba_of(at.segment, at.next);
    let pieces = records.chunks(if how & EACH == 0 { MOST } else { 1 });
    let left_out = if how & GAP == GAP { 1 } else { 0 };
    let contents = |sequence: u64| {
        let lba = image.layout().main + sequence;
        let bytes = device.read_one(lba.get()).expect("in range").to_array();
        let named = (how & NAMES != 0).then(|| ContentsSum::of(lba, &bytes, seed ^ u32::from(sequence % 2 == 1)));
        Vec::from_iter(named)
    };
    let encode =
        |(sequence, part): (u64, &[Record])| batch::encode_with(sequence + left_out, seed, part, &contents(sequence));
    let blocks: Vec<Block> = (1..).zip(pieces).flat_map(encode).collect();
    let mut changed = BTreeSet::new();
    // The log of some bases has no room in its segment.
    let room = SEGMENT.saturating_sub(usize::from(at.next) + 1);
    for (number, mut block) in blocks.into_iter().take(room).enumerate() {
        let lba = first + number as u64;
        batch::seal(&mut block, seed, version, lba + 1);
        if how & TORN == TORN && number % 3 == 1 {
            block[2048..].fill(0);
        }
        device.write(lba.get(), vec![PageBuf::from_slice(&block)]).expect("in range");
        changed.insert(lba.get());
    }
    let mut superblock = image.superblock().clone();
    superblock.set_journaled(true);
    for copy in if how & HALF == HALF { 0..1 } else { 0..2 } {
        let mut page = device.read_one(copy).expect("in range");
        superblock.encode_into(page.make_mut());
        device.write(copy, vec![page]).expect("in range");
        changed.insert(copy);
    }
    changed
}

/// A record of this kind, as the input goes on: mostly one that could be there.
fn record(kind: u8, inos: &[Ino], features: Features, input: &mut Input<'_>) -> Option<Record> {
    let ino = ino(inos, input);
    Some(match kind % 7 {
        1 | 2 => Record::Inode(ino, Box::new(inode(inos, features, input))),
        3 | 4 => {
            let target = (!input.u8().is_multiple_of(4)).then(|| (self::ino(inos, input), file_type(input)));
            Record::Name { dir: ino, name: name(input), target: target.filter(|(ino, _)| ino.get() > 3) }
        }
        5 => {
            let mut area = vec![0; 400];
            for _ in 0..input.u8() % 4 {
                let (rest, value) = (name(input), vec![input.u8(); usize::from(input.u8() % 80)]);
                xattr::set(&mut area, XattrName { index: [1, 2, 4, 6][input.below(4)], rest: &rest }, &value).ok()?;
            }
            area.truncate(xattr::used(&area).ok()?);
            Record::Xattrs(ino, area)
        }
        6 => Record::Contents(ino, vec![input.u8(); 1 + usize::from(input.u8()) * 16 % MAX_CONTENTS]),
        _ => Record::Target(ino, vec![b'x'; 1 + usize::from(input.u8()) * 16 % 4095]),
    })
}

/// An inode that is there, or a number that is free.
fn ino(inos: &[Ino], input: &mut Input<'_>) -> Ino {
    match input.u8() {
        choice if choice % 4 == 1 => Ino(900 + u32::from(choice % 5)),
        250.. => Ino(3 + input.u32() % 2000),
        _ => inos[input.u16() as usize % inos.len()],
    }
}

fn file_type(input: &mut Input<'_>) -> FileType {
    match input.u8() % 6 {
        0 => FileType::Dir,
        1 => FileType::Symlink,
        2 => FileType::CharDevice,
        3 => FileType::Fifo,
        _ => FileType::Regular,
    }
}

fn name(input: &mut Input<'_>) -> Vec<u8> {
    match input.u8() {
        choice @ 240.. => vec![b'n'; usize::from(choice)],
        choice => format!("name {}", choice % 8).into_bytes(),
    }
}

fn inode(inos: &[Ino], features: Features, input: &mut Input<'_>) -> InodeRecord {
    let time = Time { secs: i64::from(input.u8()) - 3, nanos: u32::from(input.u8()) };
    let kind = match input.u8() % 6 {
        0 | 1 => 0o040_000,
        2 => 0o120_000,
        3 => 0o020_000,
        _ => 0o100_000,
    };
    let extra = features.contains(Features::EXTRA_ATTR);
    let attributes = Attributes {
        mode: kind | u16::from(input.u8()),
        advise: if input.u8() < 200 { 0 } else { input.u8() },
        uid: input.u16().into(),
        gid: 0,
        flags: if input.u8() < 200 { 0 } else { input.u32() },
        project: 0,
        links: [1, 2, 0, 3][input.below(4)],
        atime: time,
        ctime: time,
        mtime: time,
        crtime: time,
    };
    let birth = input.bool().then(|| Birth {
        generation: input.u8().into(),
        inline: if input.u8() < 200 { 5 } else { input.u8() },
        dir_level: input.u8() % 8,
        extra_isize: if extra == (input.u8() < 220) { 36 } else { 0 },
        xattr_words: if input.u8() < 200 { 50 } else { input.u8().into() },
        device: DeviceNumber { major: input.u8().into(), minor: input.u8().into() },
    });
    InodeRecord { attributes, pino: ino(inos, input), name: name(input), birth }
}
