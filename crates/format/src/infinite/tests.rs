//! Superblocks, packs and discard logs of IPLFS volumes: every rule has something that breaks it, values go both ways,
//! no bytes do harm, and the example of the format page is what the code writes.

use super::*;
use crate::block::zeroed_block;
use crate::nat::NatEntry;
use crate::superblock::RawSuperBlock;
use crate::{CpFlags, Features, Ino, Log, Nid, Pack};
use proptest::prelude::*;
use std::ops::Range;

fn geometry() -> Geometry {
    Geometry {
        nat_segments: 2,
        space: AddressSpace::new(Lba(1 << 45), 45).unwrap(),
        capacity: 1 << 18,
        leap: 1 << 16,
        features: Features::NONE,
    }
}

fn raw() -> RawSuperBlock {
    let mut raw = geometry().superblock();
    raw.uuid = *b"0123456789abcdef";
    raw
}

fn superblock() -> SuperBlock {
    SuperBlock::new(raw()).unwrap()
}

/// Logs with 1000 blocks each.
fn header() -> Header {
    let sb = superblock();
    let heads = Stretch::ALL.map(|stretch| {
        let next = sb.space().range(stretch).start + 1000;
        Head { next, limit: next + sb.leap() }
    });
    Header {
        version: 7,
        flags: CpFlags::UMOUNT,
        pack_blocks: 0,
        orphan_blocks: 0,
        nat_journal_blocks: 0,
        valid_blocks: 900,
        valid_nodes: 40,
        valid_inodes: 30,
        next_free_nid: Nid(50),
        elapsed: 1,
        kbytes_written: 2,
        discard_log: DiscardLog::default(),
        heads,
    }
}

fn checkpoint() -> Checkpoint {
    let lba = superblock().space().range(Stretch::Of(Log::WarmNode)).start + 5;
    let mut nat_bitmap = vec![0; 64];
    nat_bitmap[63] = 1;
    Checkpoint {
        header: header(),
        nat_bitmap,
        orphans: vec![Ino(9), Ino(12)],
        nat_journal: vec![(Nid(9), NatEntry { version: 1, ino: Ino(9), lba }), (Nid(11), NatEntry::default())],
    }
}

#[test]
fn every_rule_of_the_superblock_is_checked() {
    type Damage = fn(&mut RawSuperBlock);
    let extension = |at: usize, value: u64, length: usize| {
        let mut raw = raw();
        raw.reserved[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
        raw
    };
    let cases: [(&str, Damage); 14] = [
        ("log_blocksize", |raw| raw.log_blocksize = 11.into()),
        ("segment_count_sit", |raw| raw.segment_count_sit = 2.into()),
        ("segment_count_main", |raw| raw.segment_count_main = 1.into()),
        ("segs_per_sec", |raw| raw.segs_per_sec = 2.into()),
        ("segment_count_ckpt", |raw| raw.segment_count_ckpt = 3.into()),
        ("segment_count_nat", |raw| raw.segment_count_nat = 3.into()),
        ("segment_count_nat", |raw| raw.segment_count_nat = u32::MAX.into()),
        ("segment_count", |raw| raw.segment_count = 9.into()),
        ("nat_blkaddr", |raw| raw.nat_blkaddr = 7.into()),
        ("root_ino", |raw| raw.root_ino = 4.into()),
        ("cp_payload", |raw| raw.cp_payload = 1.into()),
        ("block_count", |raw| raw.block_count = u64::MAX.into()),
        ("feature", |raw| raw.feature = Features::INFINITE.bits().into()),
        ("feature", |raw| raw.feature = (raw.feature.get() | Features::COMPRESSION.bits()).into()),
    ];
    let damaged = cases.map(|(field, damage)| {
        let mut raw = raw();
        damage(&mut raw);
        (field, raw)
    });
    let extended = [
        ("version", extension(0, 2, 2)),
        ("log_shift", extension(2, 8, 1)),
        ("log_shift", extension(2, 59, 1)),
        ("first_log", extension(2, 57, 1)),
        ("first_log", extension(8, u64::MAX, 8)),
        ("first_log", extension(8, 0, 8)),
        ("capacity", extension(16, 0, 8)),
        ("capacity", extension(16, (1 << 45) + 1, 8)),
        ("leap", extension(24, 0, 8)),
        ("leap", extension(24, u64::MAX, 8)),
    ];
    for (field, raw) in damaged.into_iter().chain(extended) {
        let error = SuperBlock::new(raw).unwrap_err().to_string();
        assert!(error.contains(&format!("superblock: {field} =")), "{field}: {error}");
    }
}

#[test]
fn neither_kind_passes_for_the_other() {
    let block = superblock().encode();
    assert_eq!(SuperBlock::parse(&block).unwrap().encode(), block);
    assert_eq!(crate::SuperBlock::parse(&block), Err(FormatError::Infinite));
    let mut flipped = block;
    flipped[1024..1028].copy_from_slice(&crate::crc::F2FS_MAGIC.to_le_bytes());
    assert!(crate::SuperBlock::parse(&flipped).is_err());
    assert!(matches!(SuperBlock::parse(&flipped), Err(FormatError::Refused(_))));
    assert!(matches!(SuperBlock::parse(&zeroed_block()), Err(FormatError::Magic { .. })));
    let mut torn = block;
    torn[4000] ^= 1;
    assert!(matches!(SuperBlock::parse(&torn), Err(FormatError::Checksum { .. })));
}

#[test]
fn the_largest_space_ends_at_the_end_of_all_addresses() {
    let space = AddressSpace::new(Lba(1 << 58), 58).unwrap();
    assert_eq!(space.end(), Lba(SPACE_END));
    assert_eq!(space.stretch_of(Lba(SPACE_END - 1)), Some(Stretch::Meta));
    assert_eq!([0, (1 << 58) - 1, SPACE_END, u64::MAX].map(|lba| space.stretch_of(Lba(lba))), [None; 4]);
    for stretch in Stretch::ALL {
        let range = space.range(stretch);
        assert_eq!(space.stretch_of(range.start), Some(stretch));
        assert_eq!(space.stretch_of(Lba(range.end.get() - 1)), Some(stretch));
    }
    assert_eq!((AddressSpace::new(Lba(2 << 58), 58), AddressSpace::new(Lba(5), 9)), (None, None));
}

#[test]
fn a_block_passes_at_its_own_address_of_its_own_volume_only() {
    let mut block = zeroed_block();
    block[7] = 1;
    seal(&mut block, 5, Lba(1 << 50));
    assert!(verify("node", &block, 5, Lba(1 << 50)).is_ok());
    assert!(verify("node", &block, 6, Lba(1 << 50)).is_err() && verify("node", &block, 5, Lba(1 << 49)).is_err());
    block[4091] ^= 0x80;
    assert!(verify("node", &block, 5, Lba(1 << 50)).is_err());
}

#[test]
fn every_rule_of_the_header_is_checked() {
    type Damage = fn(&mut Header);
    let cases: [(&str, Damage); 17] = [
        ("version", |header| header.version = 0),
        ("flags", |header| header.flags = CpFlags::COMPACT_SUM),
        ("heads", |header| header.heads[3].next = Lba(5)),
        ("heads", |header| header.heads[3].limit = Lba(header.heads[3].next.get() - 1)),
        ("heads", |header| header.heads[6].limit = Lba(u64::MAX)),
        ("valid_blocks", |header| header.valid_blocks = (1 << 45) + 1),
        ("valid_nodes", |header| header.valid_nodes = 901),
        ("valid_nodes", |header| (header.valid_blocks, header.valid_nodes) = (5000, 3001)),
        ("valid_inodes", |header| header.valid_inodes = 41),
        ("valid_inodes", |header| header.valid_inodes = 0),
        ("next_free_nid", |header| header.next_free_nid = Nid(3)),
        ("next_free_nid", |header| header.next_free_nid = Nid(512 * 315)),
        ("lba", |header| header.discard_log.lba = Lba(1)),
        ("lba", |header| header.discard_log = log_of(header, 0, 1001, 1001, 1001)),
        ("lba", |header| (header.discard_log.lba, header.discard_log.blocks) = (header.heads[0].next, u32::MAX)),
        ("records", |header| header.discard_log = log_of(header, 0, 2, 1, 600)),
        ("dead", |header| header.discard_log = log_of(header, 0, 2, 300, 299)),
    ];
    for (field, damage) in cases {
        let mut checkpoint = checkpoint();
        damage(&mut checkpoint.header);
        let error = checkpoint.encode(&superblock(), Pack::One).unwrap_err().to_string();
        assert!(error.contains(&format!(": {field} =")), "{field}: {error}");
    }
}

fn log_of(header: &Header, at: u64, blocks: u32, records: u64, dead: u64) -> DiscardLog {
    let lba = Lba(header.heads[6].next.get() - 1000 + at);
    DiscardLog { lba, blocks, checksum: 1, records, dead }
}

#[test]
fn every_rule_of_the_lists_is_checked() {
    type Damage = fn(&mut Checkpoint);
    let cases: [(&str, Damage); 9] = [
        ("orphans", |pack| pack.orphans = vec![Ino(3)]),
        ("orphans", |pack| pack.orphans = vec![Ino(9), Ino(9)]),
        ("orphans", |pack| pack.orphans = vec![Ino(512 * 315)]),
        ("nat_journal", |pack| pack.nat_journal.reverse()),
        ("nat_journal", |pack| pack.nat_journal[0].0 = Nid(2)),
        ("nat_journal", |pack| pack.nat_journal[1].0 = Nid(u32::MAX)),
        ("nat_journal", |pack| pack.nat_journal[0].1.lba = pack.header.heads[4].next),
        ("nat_journal", |pack| pack.nat_journal[0].1.lba = Lba(pack.header.heads[0].next.get() - 1)),
        ("nat_bitmap", |pack| pack.nat_bitmap.push(0)),
    ];
    for (field, damage) in cases {
        let mut checkpoint = checkpoint();
        damage(&mut checkpoint);
        let error = checkpoint.encode(&superblock(), Pack::One).unwrap_err().to_string();
        assert!(error.contains(&format!(": {field} =")), "{field}: {error}");
    }
}

#[test]
fn a_pack_is_whole_or_refused() {
    let sb = superblock();
    let blocks = checkpoint().encode(&sb, Pack::Two).unwrap();
    assert_eq!(last_block_of(&sb, Pack::Two, &blocks[0]), Ok(3));
    let parsed = Checkpoint::parse(&sb, Pack::Two, &blocks).unwrap();
    assert!(parsed.nat_copy(511) && !parsed.nat_copy(510) && !parsed.nat_copy(512));
    assert!(Checkpoint::parse(&sb, Pack::One, &blocks).is_err(), "a pack of the other place");
    assert!(
        Checkpoint::parse(&sb, Pack::Two, &blocks[..3]).is_err() && Checkpoint::parse(&sb, Pack::Two, &[]).is_err()
    );
    let mut older = checkpoint();
    older.header.version = 5;
    let older = older.encode(&sb, Pack::Two).unwrap();
    for number in 0..blocks.len() {
        let mut mixed = blocks.clone();
        mixed[number] = older[number];
        assert!(Checkpoint::parse(&sb, Pack::Two, &mixed).is_err(), "block {number} of an older pack");
        let mut torn = blocks.clone();
        torn[number][100] ^= 1;
        assert!(Checkpoint::parse(&sb, Pack::Two, &torn).is_err(), "block {number} torn");
    }
}

#[test]
fn a_damaged_middle_costs_what_it_held() {
    let sb = superblock();
    let many = |count: u32| (0..count).map(|at| (Nid(10 + at), NatEntry::default())).collect::<Vec<_>>();
    let mut made = Checkpoint { nat_journal: many(NAT_JOURNAL_PER_BLOCK as u32 + 5), ..checkpoint() };
    let blocks = made.encode(&sb, Pack::Two).unwrap();
    let [first, parts @ .., last] = &blocks[..] else { panic!() };
    assert_eq!(parts.len(), 3, "orphans, and two blocks of the journal");
    let read = |copy: &Block, damage: Option<usize>, as_what: Option<Block>| {
        let mut parts: Vec<Option<Block>> = parts.iter().map(|block| Some(*block)).collect();
        damage.into_iter().for_each(|at| parts[at] = as_what);
        Checkpoint::parse_known(&sb, Pack::Two, made.header.clone(), copy, &parts).unwrap()
    };
    let whole = read(last, None, None);
    assert_eq!((&whole.checkpoint, whole.orphans, whole.nat_journal), (&made, Ok(()), Ok(())));
    for bad in [None, Some([0; 4096]), Some(blocks[2])] {
        let known = read(first, Some(0), bad);
        assert!(known.orphans.is_err() && known.nat_journal.is_ok() && known.checkpoint.orphans.is_empty());
        assert_eq!(known.checkpoint.nat_journal, made.nat_journal);
        let known = read(first, Some(1), bad.map(|_| [0; 4096]));
        assert!(known.orphans.is_ok() && known.nat_journal.is_err());
        assert_eq!(known.checkpoint.nat_journal, made.nat_journal[NAT_JOURNAL_PER_BLOCK..], "the other block counts");
    }
}

#[test]
fn a_large_nat_runs_on_into_the_payload() {
    let mut raw = Geometry { nat_segments: 200, ..geometry() }.superblock();
    raw.uuid = [1; 16];
    let sb = SuperBlock::new(raw).unwrap();
    // 51,200 NAT blocks: 6400 bytes, of which 3772 are in the header.
    assert_eq!((sb.layout().cp_payload, sb.layout().nat_bitmap_bytes()), (1, 6400));
    let nat_bitmap: Vec<u8> = (0..6400u32).map(|at| (at % 251) as u8).collect();
    let mut made = Checkpoint { nat_bitmap, ..checkpoint() };
    let blocks = made.encode(&sb, Pack::One).unwrap();
    assert_eq!(Checkpoint::parse(&sb, Pack::One, &blocks).unwrap(), made);
    let most = Geometry { nat_segments: 53_260, ..geometry() };
    assert_eq!(SuperBlock::new(most.superblock()).unwrap().layout().cp_payload, 416);
    let more = Geometry { nat_segments: 53_262, ..geometry() }.superblock();
    assert!(SuperBlock::new(more).unwrap_err().to_string().contains("segment_count_nat"));
}

fn read_log(sb: &SuperBlock, header: &Header, blocks: &[Block]) -> Result<Vec<Range<Lba>>, FormatError> {
    let mut reader = DiscardLogReader::new(sb, header);
    let mut found: Vec<Range<Lba>> = Vec::new();
    for block in blocks {
        reader.block(block, &mut |range| match found.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => found.push(range),
        })?;
    }
    reader.finish()?;
    Ok(found)
}

/// A header whose data logs are long enough for the ranges, with the log at the start of the meta log.
fn log_header(sb: &SuperBlock) -> Header {
    let mut header = header();
    header.heads[0].next = sb.space().range(Stretch::ALL[0]).start + (1 << 40);
    header.heads[0].limit = header.heads[0].next;
    header
}

#[test]
fn a_damaged_discard_log_is_refused() {
    let sb = superblock();
    let start = sb.space().first();
    let meta = sb.space().range(Stretch::Meta).start;
    let ranges = [start + 5..start + 6, start + 10..start + 900];
    let (blocks, log) = encode_discard_log(&sb, meta + 3, &ranges).unwrap();
    let header = Header { discard_log: log, ..log_header(&sb) };
    assert_eq!(read_log(&sb, &header, &blocks).unwrap(), ranges);
    type Damage = fn(&mut Block);
    let cases: [(&str, Damage); 11] = [
        ("magic", |block| block[0] ^= 1),
        ("number", |block| block[4] = 1),
        ("count", |block| block[8] = 0),
        ("count", |block| block[8] = 255),
        ("count", |block| block[8] = 1),
        ("reserved", |block| block[12] = 1),
        ("start", |block| block[16] = 11),
        ("start", |block| block[17] = 0xFF),
        ("start", |block| block[40..44].fill(0)),
        ("start", |block| block[39] = 0xFF),
        ("kind", |block| block[28] = 2),
    ];
    for (field, damage) in cases {
        let mut block = blocks[0];
        damage(&mut block);
        seal(&mut block, sb.seed(), log.lba);
        let error = read_log(&sb, &header, &[block]).unwrap_err().to_string();
        assert!(error.contains(&format!("discard log: {field} =")) || field == "start", "{field}: {error}");
    }
    assert!(read_log(&sb, &header, &[]).is_err(), "blocks are missing");
    assert!(read_log(&sb, &header, &[blocks[0], blocks[0]]).is_err(), "there are too many blocks");
    let other = Header { discard_log: DiscardLog { dead: log.dead + 1, ..log }, ..header.clone() };
    assert!(read_log(&sb, &other, &blocks).is_err(), "the sum differs");
    let own = [meta + 3..meta + 4];
    let (blocks, log) = encode_discard_log(&sb, meta + 3, &own).unwrap();
    assert!(read_log(&sb, &Header { discard_log: log, ..header }, &blocks).is_err(), "it names itself");
}

#[test]
fn many_small_ranges_become_bitmaps() {
    let sb = superblock();
    let start = sb.space().first();
    // Every second block of 1 GiB: 131,072 ranges would take 517 blocks.
    let ranges: Vec<_> = (0..131_072).map(|at| start + 2 * at..start + 2 * at + 1).collect();
    let (blocks, log) = encode_discard_log(&sb, sb.space().range(Stretch::Meta).start, &ranges).unwrap();
    assert_eq!((log.records, log.dead, log.blocks), (64, 131_072, 10));
    let header = Header { discard_log: log, ..log_header(&sb) };
    assert_eq!(read_log(&sb, &header, &blocks).unwrap(), ranges);
    let long = [start..start + (1 << 33)];
    let (blocks, log) = encode_discard_log(&sb, sb.space().range(Stretch::Meta).start, &long).unwrap();
    assert_eq!((log.records, log.dead), (3, 1 << 33));
    let header = Header { discard_log: log, ..log_header(&sb) };
    assert_eq!(read_log(&sb, &header, &blocks).unwrap(), long);
    assert!(encode_discard_log(&sb, start, &[start + 5..start + 6, start..start + 1]).is_err());
    assert!(encode_discard_log(&sb, start, &[start + 5..start + 5]).is_err());
}

/// The page that describes the format, with an example of each structure.
const PAGE: &str = include_str!("../../../../docs/INFINITE-FORMAT.md");

/// A block as the page shows it: lines of 16 bytes that are not all zero, with their offsets.
fn dump(title: &str, block: &[u8]) -> String {
    let mut text = format!("{title}\n");
    for (number, line) in block.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{:04x}  {}\n", number * 16, bytes.join(" "));
    }
    text
}

/// The worked example of the page: the volume of these tests with one file of one block.
fn example() -> Vec<String> {
    let sb = superblock();
    let (data, node) = (sb.space().range(Stretch::Of(Log::WarmData)), sb.space().range(Stretch::Of(Log::WarmNode)));
    let meta = sb.space().range(Stretch::Meta).start;
    let (log_blocks, log) = encode_discard_log(&sb, meta, &dead(&sb)).unwrap();
    let mut checkpoint = checkpoint();
    checkpoint.header.discard_log = log;
    let pack = checkpoint.encode(&sb, Pack::One).unwrap();
    let mut nat = zeroed_block();
    crate::nat::set_entry(&mut nat, crate::Width::Eight, 1, NatEntry::reserved(Nid(1)));
    crate::nat::set_entry(&mut nat, crate::Width::Eight, 10, NatEntry { version: 2, ino: Ino(9), lba: node.start + 6 });
    let mut direct = crate::node::WideNode::zeroed();
    direct.footer = crate::node::NodeFooter::new(Nid(10), Ino(9), crate::node::NodeOfs::new(1), true);
    direct.footer.set_chain(6, Lba(0));
    direct.set_slot(0, crate::Slot::At(data.start + 999));
    direct.set_slot(1, crate::Slot::New);
    let mut direct = crate::block::BlockView::to_block(&direct);
    seal(&mut direct, sb.seed(), node.start + 6);
    vec![
        dump("block 0: superblock", &sb.encode()),
        dump("block 512: header of pack 1", &pack[0]),
        dump("block 513: orphans", &pack[1]),
        dump("block 514: NAT journal", &pack[2]),
        dump("block 515: header of pack 1 again, its last 16 bytes", &[&[0; 4080], &pack[3][4080..]].concat()),
        dump("block 1536: NAT block 0", &nat),
        dump(&format!("block {:#x}: a direct node", node.start.get() + 6), &direct),
        dump(&format!("block {:#x}: the discard log", log.lba.get()), &log_blocks[0]),
    ]
}

/// Five blocks of hot data, then every second one of 65 blocks of warm data.
fn dead(sb: &SuperBlock) -> Vec<Range<Lba>> {
    let [hot, warm] = [Log::HotData, Log::WarmData].map(|log| sb.space().range(Stretch::Of(log)).start);
    let small = (0..33).map(|at| warm + 100 + 2 * at..warm + 101 + 2 * at);
    std::iter::once(hot + 3..hot + 8).chain(small).collect()
}

#[test]
fn the_example_of_the_page_is_what_the_code_writes() {
    for text in example() {
        assert!(PAGE.contains(&text), "docs/INFINITE-FORMAT.md lacks\n{text}");
    }
    assert!(PAGE.contains(&format!("seed of every block checksum is `{:#010x}`", superblock().seed())));
}

/// The offsets that the page gives for the superblock are those of the structure.
#[test]
fn the_superblock_of_the_page_is_that_of_the_code() {
    macro_rules! on_the_page {
        ($($field:ident)*) => {$(
            let row = format!("| {} | {}", std::mem::offset_of!(RawSuperBlock, $field), stringify!($field));
            assert!(PAGE.contains(&row), "docs/INFINITE-FORMAT.md lacks {row}");
        )*};
    }
    on_the_page! {
        magic checksum_offset block_count section_count segment_count segment_count_ckpt segment_count_sit
        segment_count_nat segment0_blkaddr cp_blkaddr cp_payload feature devs crc
    }
}

#[test]
fn the_example_of_the_page_decodes() {
    // From the text, not from the code that wrote it.
    let block = |title: &str| {
        let mut block = zeroed_block();
        let lines = PAGE.split_once(&format!("\n{title}\n")).expect("the page has it").1.lines();
        for (offset, bytes) in lines.map_while(|line| line.split_once("  ")) {
            let offset = usize::from_str_radix(offset, 16).unwrap();
            for (at, byte) in bytes.split(' ').enumerate() {
                block[offset + at] = u8::from_str_radix(byte, 16).unwrap();
            }
        }
        block
    };
    let sb = SuperBlock::parse(&block("block 0: superblock")).unwrap();
    assert_eq!((sb.capacity(), sb.leap(), sb.space().shift()), (1 << 18, 1 << 16, 45));
    let first = block("block 512: header of pack 1");
    let mut last = first;
    last[4080..].copy_from_slice(&block("block 515: header of pack 1 again, its last 16 bytes")[4080..]);
    let pack = [first, block("block 513: orphans"), block("block 514: NAT journal"), last];
    let read = Checkpoint::parse(&sb, Pack::One, &pack).unwrap();
    assert_eq!((&read.orphans, read.header.valid_blocks), (&vec![Ino(9), Ino(12)], 900));
    let log = block(&format!("block {:#x}: the discard log", read.header.discard_log.lba.get()));
    assert_eq!(read_log(&sb, &read.header, &[log]).unwrap(), dead(&sb));
    let at = sb.space().range(Stretch::Of(Log::WarmNode)).start + 6;
    let node = block(&format!("block {:#x}: a direct node", at.get()));
    verify("node", &node, sb.seed(), at).unwrap();
    let nat = block("block 1536: NAT block 0");
    assert_eq!(crate::nat::entry(&nat, crate::Width::Eight, 10).lba, at);
}

proptest! {
    #[test]
    fn packs_survive_the_round_trip(
        version in 1u64..,
        orphans in prop::collection::btree_set(4u32..160_000, 0..3000),
        journal in prop::collection::btree_map(3u32..160_000, (any::<u8>(), any::<u32>(), 0u64..1000), 0..700),
        bits: [u8; 64],
    ) {
        let sb = superblock();
        let nodes = sb.space().range(Stretch::Of(Log::ColdNode)).start;
        let entry = |(version, ino, at)| {
            NatEntry { version, ino: Ino(ino), lba: if at == 0 { Lba(0) } else { nodes + at } }
        };
        let mut made = Checkpoint {
            header: Header { version, ..header() },
            nat_bitmap: bits.to_vec(),
            orphans: orphans.into_iter().map(Ino).collect(),
            nat_journal: journal.into_iter().map(|(nid, of)| (Nid(nid), entry(of))).collect(),
        };
        let blocks = made.encode(&sb, Pack::Two).unwrap();
        prop_assert_eq!(Checkpoint::parse(&sb, Pack::Two, &blocks).unwrap(), made);
    }

    #[test]
    fn discard_logs_survive_the_round_trip(
        steps in prop::collection::vec((1u64..200, prop_oneof![4 => 1u64..4, 1 => 1u64..100_000]), 0..3000),
    ) {
        let sb = superblock();
        let mut at = sb.space().first();
        let mut ranges = Vec::new();
        for (gap, length) in steps {
            ranges.push(at + gap..at + gap + length);
            at = at + gap + length;
        }
        let dead: u64 = ranges.iter().map(|range| range.end.get() - range.start.get()).sum();
        let (blocks, log) = encode_discard_log(&sb, sb.space().range(Stretch::Meta).start + 9, &ranges).unwrap();
        prop_assert_eq!(log.dead, dead);
        prop_assert!(blocks.len() <= ranges.len().div_ceil(MAX_UNITS - 32));
        let header = Header { discard_log: log, ..log_header(&sb) };
        prop_assert_eq!(read_log(&sb, &header, &blocks).unwrap(), ranges);
    }

    #[test]
    fn any_block_is_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        let sb = superblock();
        let mut block = zeroed_block();
        block.copy_from_slice(&bytes);
        let _ = (SuperBlock::parse(&block), SuperBlock::new(RawSuperBlock::read(&block)));
        seal(&mut block, sb.seed(), sb.layout().pack(Pack::One));
        prop_assert!(Checkpoint::parse(&sb, Pack::One, &[block, block]).is_err());
    }
}

#[test]
fn a_claim_counts_for_its_checkpoint_and_its_place_and_the_later_one_wins() {
    let (sb, header) = (superblock(), header());
    let places = Claim::places(&sb);
    assert_eq!(places, [Lba(512 + 511), Lba(512 + 1023)]);
    let claim = Claim { version: 7, limits: header.heads.map(|head| head.limit + 5) };
    let block = claim.encode(&sb, places[0]);
    assert_eq!(Claim::parse(&sb, &header, &block, places[0]), Ok(Some(claim)));
    assert_eq!(Claim::parse(&sb, &header, &block, places[1]), Ok(None), "written for another place");
    assert_eq!(Claim::parse(&sb, &Header { version: 8, ..header.clone() }, &block, places[0]), Ok(None));
    let later = Claim { limits: claim.limits.map(|limit| limit + 1), ..claim };
    assert_eq!(Claim::later(Some(later), Some(claim)), Some(later));
    assert_eq!(Claim::later(None, Some(claim)), Some(claim));
    for wrong in [Lba(header.heads[3].limit.get() - 1), sb.space().range(Stretch::ALL[3]).end + 1] {
        let mut bad = claim;
        bad.limits[3] = wrong;
        assert!(Claim::parse(&sb, &header, &bad.encode(&sb, places[0]), places[0]).is_err());
    }
    let mut bad = block;
    bad[2000] = 1;
    seal(&mut bad, sb.seed(), places[0]);
    assert!(Claim::parse(&sb, &header, &bad, places[0]).unwrap_err().to_string().contains("reserved"));
}

proptest! {
    #[test]
    fn no_block_harms_the_parser_of_claims(bytes in prop::collection::vec(any::<u8>(), 4096), sealed: bool) {
        let (sb, mut block) = (superblock(), zeroed_block());
        block.copy_from_slice(&bytes);
        block[..16].copy_from_slice(&Claim { version: 7, limits: [Lba(0); 7] }.encode(&sb, Lba(0))[..16]);
        if sealed {
            seal(&mut block, sb.seed(), Lba(9));
        }
        let found = Claim::parse(&sb, &header(), &block, Lba(9));
        prop_assert!(sealed || found == Ok(None));
    }
}
