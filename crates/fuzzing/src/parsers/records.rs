//! Batches of the metadata journal. Input: one byte of choices, then the bytes of records, or blocks of a chain.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::zeroed_block;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{DeviceNumber, Time};
use steadyfs_format::records::batch::{self, Assembler, BatchBlock, ContentsSum};
use steadyfs_format::records::{Attributes, Birth, InodeRecord, Record};
use steadyfs_format::{BLOCK_SIZE, Ino, Lba, xattr};

/// The target.
pub const TARGET: Target = Target { name: "records", run, seeds, volume: false, memory: 8 * BLOCK_MEMORY };

const SEED: u32 = 0x5EED;
/// Choices: the bytes are blocks; the checksums of blocks are made right.
const BLOCKS: u8 = 1;
const REPAIR: u8 = 2;

fn seeds() -> Vec<Vec<u8>> {
    let time = Time { secs: 1, nanos: 2 };
    let attributes = Attributes {
        mode: 0o100_644,
        advise: 0,
        uid: 1,
        gid: 2,
        flags: 0,
        project: 0,
        links: 1,
        atime: time,
        ctime: time,
        mtime: time,
        crtime: time,
    };
    let device = DeviceNumber { major: 1, minor: 3 };
    let birth = Birth { generation: 1, inline: 1, dir_level: 0, extra_isize: 36, xattr_words: 50, device };
    let inode = |birth| Box::new(InodeRecord { attributes, pino: Ino(3), name: b"name".to_vec(), birth });
    let mut area = vec![0; 100];
    let sets = xattr::set(&mut area, xattr::XattrName { index: 1, rest: b"a" }, b"value");
    sets.expect("100 bytes are enough");
    area.truncate(xattr::used(&area).expect("a sound list"));
    let records = vec![
        Record::Inode(Ino(3), inode(None)),
        Record::Inode(Ino(9), inode(Some(birth))),
        Record::Name { dir: Ino(3), name: b"name".to_vec(), target: Some((Ino(9), FileType::Regular)) },
        Record::Name { dir: Ino(3), name: b"old".to_vec(), target: None },
        Record::Xattrs(Ino(9), area),
        Record::Target(Ino(9), b"target".to_vec()),
        Record::Contents(Ino(9), b"contents".to_vec()),
    ];
    let mut bytes = vec![0];
    records.iter().for_each(|record| record.encode(&mut bytes));
    let blocks = |records: &[Record]| {
        let sealed = batch::encode(1, SEED, records).into_iter().map(|mut block| {
            batch::seal(&mut block, SEED, 1, Lba(9));
            block
        });
        [vec![BLOCKS | REPAIR], sealed.flatten().collect()].concat()
    };
    let many: Vec<Record> = (0..12).flat_map(|_| records.clone()).collect();
    let contents = [ContentsSum { lba: Lba(5000), crc: 7 }, ContentsSum { lba: Lba(5001), crc: 8 }];
    let mut with_contents = batch::encode_with(1, SEED, &records, &contents);
    with_contents.iter_mut().for_each(|block| batch::seal(block, SEED, 1, Lba(9)));
    let with_contents = [vec![BLOCKS | REPAIR], with_contents.concat()].concat();
    vec![bytes, blocks(&records), blocks(&many), with_contents]
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choices = input.u8();
    if choices & BLOCKS != 0 {
        return run_blocks(input.rest(), choices & REPAIR != 0);
    }
    let mut rest = input.rest();
    while let Ok((record, behind)) = Record::decode(rest) {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(again, rest[..rest.len() - behind.len()]);
        rest = behind;
    }
}

fn run_blocks(bytes: &[u8], repair: bool) {
    let mut assembler = Assembler::new(SEED);
    for piece in bytes.chunks(BLOCK_SIZE).take(8) {
        let mut block = zeroed_block();
        block[..piece.len()].copy_from_slice(piece);
        if repair {
            batch::seal(&mut block, SEED, 1, Lba(9));
        }
        let head = BatchBlock::parse(&block, SEED);
        let Ok(found) = assembler.take(&block) else { return };
        assert!(head.is_ok(), "a block without a header was taken");
        if let Some(records) = found {
            let (number, contents) =
                head.map_or((0, Vec::new()), |head| (head.number, head.contents(&block).collect()));
            let mut again = batch::encode_with(assembler.whole(), SEED, &records, &contents);
            assert!(again.len() as u32 <= number + 1, "what fits into {} blocks takes {}", number + 1, again.len());
            let last = again.last_mut().expect("a batch has blocks");
            batch::seal(last, SEED, 1, Lba(9));
            let head = BatchBlock::parse(last, SEED).expect("what is written can be read");
            assert_eq!(head.contents(last).collect::<Vec<_>>(), contents);
        }
    }
}
