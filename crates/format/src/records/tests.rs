//! Records and batches: round trips, every changed bit, and the page's example.

use super::batch::{self, Assembler, BatchBlock, ContentsSum, MOST_CONTENTS};
use super::{Attributes, Birth, InodeRecord, JOURNAL_MAGIC, MAX_CONTENTS, Record, VERSION_KEY};
use crate::block::Block;
use crate::dir::FileType;
use crate::error::FormatError;
use crate::inode::{DeviceNumber, Time};
use crate::{Ino, Lba, xattr};
use proptest::prelude::*;

const SEED: u32 = 0x1234_5678;

fn area(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut area = vec![0; 24 + 4 + name.len() + value.len() + 4];
    xattr::set(&mut area, xattr::XattrName { index: 1, rest: name }, value).unwrap();
    area.truncate(xattr::used(&area).unwrap());
    area
}

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), any::<u32>()).prop_map(|(secs, nanos)| Time { secs, nanos })
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..=255).prop_map(|mut name| {
        name.iter_mut().filter(|byte| matches!(**byte, 0 | b'/' | b'.')).for_each(|byte| *byte = b'x');
        name
    })
}

fn kind() -> impl Strategy<Value = FileType> {
    (1u8..8).prop_map(|byte| FileType::from_disk(byte).unwrap())
}

fn birth() -> impl Strategy<Value = Birth> {
    let sizes = (any::<u32>(), any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>());
    (sizes, 0u32..1 << 12, 0u32..1 << 20).prop_map(|(sizes, major, minor)| {
        let (generation, inline, dir_level, extra_isize, xattr_words) = sizes;
        let device = DeviceNumber { major, minor };
        Birth { generation, inline, dir_level, extra_isize, xattr_words, device }
    })
}

fn inode() -> impl Strategy<Value = InodeRecord> {
    let attributes = (kind(), 0u16..0o10_000, any::<u8>(), any::<[u32; 6]>(), [time(), time(), time(), time()]);
    (attributes, prop::option::of(birth()), prop::collection::vec(any::<u8>(), 0..=255)).prop_map(
        |((kind, bits, advise, words, times), birth, name)| {
            let ([uid, gid, flags, project, links, pino], [atime, ctime, mtime, crtime]) = (words, times);
            let mode = kind.mode_bits() | bits;
            let attributes = Attributes { mode, advise, uid, gid, flags, project, links, atime, ctime, mtime, crtime };
            InodeRecord { attributes, pino: Ino(pino), name, birth }
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let ino = || (3u32..).prop_map(Ino);
    let target = || prop::option::of(((4u32..).prop_map(Ino), kind()));
    prop_oneof![
        (ino(), inode()).prop_map(|(ino, inode)| Record::Inode(ino, Box::new(inode))),
        (ino(), name(), target()).prop_map(|(dir, name, target)| Record::Name { dir, name, target }),
        (ino(), name(), prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(ino, name, value)| Record::Xattrs(ino, area(&name, &value))),
        ino().prop_map(|ino| Record::Xattrs(ino, Vec::new())),
        (ino(), prop::collection::vec(1u8.., 1..4096)).prop_map(|(ino, target)| Record::Target(ino, target)),
        (ino(), prop::collection::vec(any::<u8>(), 1..=MAX_CONTENTS))
            .prop_map(|(ino, contents)| Record::Contents(ino, contents)),
    ]
}

fn sealed(sequence: u64, records: &[Record]) -> Vec<Block> {
    sealed_with(sequence, records, &[])
}

fn sealed_with(sequence: u64, records: &[Record], contents: &[ContentsSum]) -> Vec<Block> {
    let mut blocks = batch::encode_with(sequence, SEED, records, contents);
    for (at, block) in (0u64..).zip(&mut blocks) {
        batch::seal(block, SEED, 0x99 ^ VERSION_KEY, Lba(1000 + at));
    }
    blocks
}

/// The batch of the page's example: a directory, and a file with an attribute and a name in it.
fn example() -> Vec<Record> {
    let at = Time { secs: 0x6000_0000, nanos: 7 };
    let inode = |mode, links, pino, name: &[u8], birth| {
        let attributes = Attributes {
            mode,
            advise: 0,
            uid: 1000,
            gid: 100,
            flags: 0,
            project: 0,
            links,
            atime: at,
            ctime: at,
            mtime: at,
            crtime: Time::default(),
        };
        Box::new(InodeRecord { attributes, pino: Ino(pino), name: name.to_vec(), birth })
    };
    let birth = Birth {
        generation: 5,
        inline: 1,
        dir_level: 0,
        extra_isize: 0,
        xattr_words: 0,
        device: DeviceNumber::default(),
    };
    vec![
        Record::Inode(Ino(3), inode(0o40_755, 2, 3, b"", None)),
        Record::Inode(Ino(9), inode(0o100_644, 1, 3, b"new", Some(birth))),
        Record::Name { dir: Ino(3), name: b"old".to_vec(), target: None },
        Record::Name { dir: Ino(3), name: b"new".to_vec(), target: Some((Ino(9), FileType::Regular)) },
        Record::Xattrs(Ino(9), area(b"a", b"1")),
        Record::Target(Ino(12), b"new".to_vec()),
        Record::Contents(Ino(9), b"hello".to_vec()),
    ]
}

fn dump(block: &Block) -> String {
    let lines = block.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    let line = |(at, bytes): (usize, &[u8])| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", at * 16, bytes.join(" "))
    };
    lines.map(line).collect()
}

#[test]
fn the_page_has_the_example() {
    let page = include_str!("../../../../docs/JOURNAL-FORMAT.md");
    let dump = dump(&sealed(1, &example())[0]);
    assert!(page.contains(&dump), "the page should have this block:\n{dump}");
    assert_eq!((JOURNAL_MAGIC.to_le_bytes(), VERSION_KEY.to_le_bytes()), (*b"SFJV", *b"SFJKSFJK"));
}

#[test]
fn every_changed_bit_of_a_block_is_refused() {
    let contents = [ContentsSum { lba: Lba(77), crc: 5 }];
    for mut block in [sealed(1, &example())[0], sealed_with(1, &example(), &contents)[0]] {
        BatchBlock::parse(&block, SEED).unwrap();
        for bit in 0..block.len() * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(BatchBlock::parse(&block, SEED).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(BatchBlock::parse(&block, SEED + 1).is_err(), "a block of another volume");
    }
}

#[test]
fn numbers_of_contents_that_do_not_fit_are_refused() {
    let [block] = sealed_with(1, &[], &[ContentsSum { lba: Lba(77), crc: 5 }])[..] else { panic!("one block") };
    BatchBlock::parse(&block, SEED).unwrap();
    // Behind no records: their number, and the first entry. Flags, and bytes and number of records.
    for (at, value) in [(32, 0), (32, 2), (32, 33), (33, 1), (22, 1), (22, 2), (20, 1), (20, 255), (24, 1)] {
        let mut block = block;
        block[at] = value;
        batch::seal(&mut block, SEED, 1, Lba(9));
        let taken = Assembler::new(SEED).take(&block);
        // Two entries where the second is zero are two.
        assert!(taken.is_err() || (at, value) == (32, 2), "byte {at} is {value}: {taken:?}");
    }
}

#[test]
fn missing_blocks_and_batches_are_damage() {
    let long: Vec<Record> = (0..40).flat_map(|_| example()).collect();
    let (first, second) = (sealed(1, &long), sealed(2, &example()));
    assert!(first.len() > 2);
    let take = |blocks: &[&Block]| -> Result<u64, FormatError> {
        let mut assembler = Assembler::new(SEED);
        blocks.iter().try_for_each(|block| assembler.take(block).map(drop))?;
        Ok(assembler.whole())
    };
    let all: Vec<&Block> = first.iter().chain(&second).collect();
    assert_eq!(take(&all), Ok(2));
    assert_eq!(take(&all[..first.len() - 1]), Ok(0), "a batch that is not whole is none");
    for lost in 0..first.len() {
        let mut rest = all.clone();
        rest.remove(lost);
        assert!(matches!(take(&rest), Err(FormatError::Field { .. })), "block {lost} is missing");
    }
    assert!(take(&[&second[0]]).is_err(), "the first batch is missing");
    let mut twice = all.clone();
    twice.push(&second[0]);
    assert!(take(&twice).is_err(), "a batch comes twice");
}

#[test]
fn records_that_say_nothing_sound_are_refused() {
    let good = |record: Record| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    };
    let name = |name: &[u8]| good(Record::Name { dir: Ino(3), name: name.to_vec(), target: None });
    assert!(Record::decode(&name(b"a")).is_ok());
    for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        assert!(Record::decode(&name(bad)).is_err(), "{bad:?}");
    }
    let mut to_root = good(Record::Name { dir: Ino(3), name: b"a".to_vec(), target: Some((Ino(4), FileType::Dir)) });
    to_root[8] = 3;
    assert!(Record::decode(&to_root).is_err());
    for (at, value) in [(0, 0), (0, 6), (1, 1), (2, 200), (4, 2)] {
        let mut bytes = name(b"abc");
        bytes[at] = value;
        assert!(Record::decode(&bytes).is_err(), "byte {at} is {value}");
    }
    assert!(Record::decode(&good(Record::Target(Ino(9), vec![b'x'; 4096]))).is_err());
    assert!(Record::decode(&good(Record::Target(Ino(9), b"a\0b".to_vec()))).is_err());
    assert!(Record::decode(&good(Record::Xattrs(Ino(9), vec![1; 30]))).is_err());
    for length in [0, MAX_CONTENTS + 1] {
        assert!(Record::decode(&good(Record::Contents(Ino(9), vec![1; length]))).is_err(), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn a_record_decodes_to_itself(record in record(), behind in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let length = bytes.len();
        bytes.extend(&behind);
        prop_assert_eq!(Record::decode(&bytes), Ok((record, &behind[..])));
        prop_assert!(Record::decode(&bytes[..length - 1]).is_err());
    }

    #[test]
    fn a_batch_decodes_to_its_records(records in prop::collection::vec(record(), 1..30)) {
        let mut assembler = Assembler::new(SEED);
        let blocks = sealed(1, &records);
        for (at, block) in blocks.iter().enumerate() {
            let found = assembler.take(block).unwrap();
            prop_assert_eq!(found, (at + 1 == blocks.len()).then(|| records.clone()));
        }
        prop_assert_eq!(assembler.whole(), 1);
    }

    #[test]
    fn contents_stand_behind_records_of_any_length(
        records in prop::collection::vec(record(), 0..30),
        contents in prop::collection::vec((any::<u64>(), any::<u32>()), 1..=MOST_CONTENTS),
    ) {
        let contents: Vec<_> = contents.into_iter().map(|(lba, crc)| ContentsSum { lba: Lba(lba), crc }).collect();
        let blocks = sealed_with(1, &records, &contents);
        let mut assembler = Assembler::new(SEED);
        for (at, block) in blocks.iter().enumerate() {
            let is_last = at + 1 == blocks.len();
            prop_assert_eq!(assembler.take(block).unwrap(), is_last.then(|| records.clone()));
            let named: Vec<_> = BatchBlock::parse(block, SEED).unwrap().contents(block).collect();
            prop_assert_eq!(&named[..], if is_last { &contents[..] } else { &[][..] });
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..7, flags in 0u8..2) {
        if bytes.len() >= 4 {
            let length = bytes.len().saturating_sub(8) as u16;
            bytes[..2].copy_from_slice(&[kind, flags]);
            bytes[2..4].copy_from_slice(&length.to_le_bytes());
        }
        if let Ok((record, rest)) = Record::decode(&bytes) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
        }
    }
}
