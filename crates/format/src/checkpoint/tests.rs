//! Checkpoints as a whole: fields in their places, three ways of placing the bitmaps, packs written and read back.

use super::*;
use crate::summary::{SummaryBlock, SummaryKind};
use crate::{AllocType, Ino, Lba, Nid, Pack, SegNo, Width};
use proptest::prelude::*;

/// The 64 MiB volume of format section 3, with other table sizes where a test wants them.
fn layout(sit_segments: u32, nat_segments: u32, cp_payload: u32) -> Layout {
    Layout {
        block_count: 1 << 30,
        segment_count: 400_000,
        segment0: Lba(512),
        cp: Lba(512),
        sit: Lba(1536),
        nat: Lba(2560),
        ssa: Lba(3584),
        main: Lba(4096),
        sit_segments,
        nat_segments,
        ssa_segments: 1,
        main_segments: 24,
        sections: 24,
        segs_per_sec: 1,
        secs_per_zone: 1,
        cp_payload,
        width: Width::Four,
    }
}

fn checkpoint(layout: &Layout, flags: CpFlags) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(layout, flags).unwrap();
    let header = checkpoint.header_mut();
    header.set_version(0x1122);
    header.set_user_blocks(5000);
    header.set_valid_blocks(2);
    header.set_valid_nodes(1);
    header.set_valid_inodes(1);
    header.set_overprov_segments(9);
    header.set_reserved_segments(8);
    header.set_next_free_nid(Nid(4));
    for log in Log::ALL {
        let position = LogPosition { segment: SegNo(log.index() as u32), next: 1, alloc: AllocType::Lfs };
        header.set_log(log, position);
    }
    checkpoint
}

fn summaries(kind: SummaryKind) -> [SummaryBlock; 3] {
    [(); 3].map(|()| SummaryBlock::new(kind))
}

#[test]
fn fields_lie_where_the_format_says() {
    let layout = layout(2, 2, 0);
    let mut checkpoint = checkpoint(&layout, CpFlags::UMOUNT);
    checkpoint.set_sit_copy(0, true);
    checkpoint.set_nat_copy(511, true);
    let nodes = summaries(SummaryKind::Node);
    let pack = checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), Some(&nodes)).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(pack[0][at..at + 4].try_into().unwrap());
    assert_eq!([0, 8, 16, 24, 28].map(u32_at), [0x1122, 5000, 2, 8, 9]);
    assert_eq!([36, 40, 44, 48, 84, 88, 92, 96].map(u32_at), [3, 4, 5, u32::MAX, 0, 1, 2, u32::MAX]);
    assert_eq!([132, 136, 140, 144, 148, 152].map(u32_at), [0x5, 6, 1, 1, 1, 4]);
    assert_eq!([156, 160, 164].map(u32_at), [64, 64, 4092]);
    assert_eq!((pack[0][192], pack[0][256 + 63]), (0x80, 0x01));
    assert_eq!((pack.len(), pack[0] == pack[5]), (6, true));
    assert_eq!(pack_version(&pack[0], &pack[5]), Ok(0x1122));
    assert_eq!(checkpoint.spare(), 320..4092);
    assert_eq!(layout.pack(Pack::Two), Lba(1024));
    // The first summary entry of the compact form follows both journals.
    assert_eq!(checkpoint.pack_map().data_summaries, 1..2);
    assert_eq!(checkpoint.pack_map().node_summaries, 2..5);
}

#[test]
fn bitmaps_lie_in_three_ways() {
    let cases = [
        (layout(2, 2, 0), CpFlags::NONE, 192, 256),
        (layout(2, 120, 1), CpFlags::NONE, 4096, 192),
        (layout(130, 126, 2), CpFlags::LARGE_NAT_BITMAP, 196 + 63 * 64, 196),
    ];
    for (layout, flags, sit_at, nat_at) in cases {
        let mut checkpoint = checkpoint(&layout, flags);
        checkpoint.set_sit_copy(8, true);
        checkpoint.set_nat_copy(layout.nat_blocks() - 1, true);
        let bytes: Vec<u8> = checkpoint.blocks.as_flattened().to_vec();
        assert_eq!(bytes[sit_at + 1], 0x80);
        assert_eq!(bytes[nat_at + layout.nat_bitmap_bytes() - 1], 0x01);
        let pack = checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
        let back = Checkpoint::parse(&layout, &pack[0], &pack[1..1 + layout.cp_payload as usize]).unwrap();
        assert!(back.sit_copy(8) && !back.sit_copy(7) && back.nat_copy(layout.nat_blocks() - 1));
        assert_eq!(back, checkpoint);
    }
    assert!(Checkpoint::new(&layout(2, 124, 0), CpFlags::NONE).is_err());
}

#[test]
fn the_checksum_covers_what_lies_before_and_behind_it() {
    for flags in [CpFlags::NONE, CpFlags::LARGE_NAT_BITMAP] {
        let mut checkpoint = checkpoint(&layout(2, 2, 0), flags);
        checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
        assert!(CheckpointHeader::verify(&checkpoint.blocks[0]).is_ok());
        for at in [0, 191, 192, 196, 4091, 4092, 4095] {
            let mut damaged = checkpoint.blocks[0];
            damaged[at] ^= 1;
            assert!(CheckpointHeader::verify(&damaged).is_err(), "{flags}: byte {at}");
        }
    }
}

#[test]
fn parse_names_the_bad_field() {
    type Damage = fn(&mut CheckpointHeader);
    let cases: [(&str, Damage); 13] = [
        ("valid_block_count", |header| header.set_valid_blocks(5001)),
        ("user_block_count", |header| header.set_user_blocks(24 * 512)),
        ("valid_node_count", |header| header.set_valid_nodes(u32::MAX)),
        ("valid_inode_count", |header| header.set_valid_inodes(2)),
        ("overprov_segment_count", |header| header.set_overprov_segments(0)),
        ("rsvd_segment_count", |header| header.set_reserved_segments(0)),
        ("current segment", |header| {
            header.set_log(Log::HotData, LogPosition { segment: SegNo(24), ..header.log(Log::HotData) })
        }),
        ("current segment", |header| header.set_log(Log::HotNode, header.log(Log::HotData))),
        ("current block offset", |header| {
            header.set_log(Log::HotData, LogPosition { next: 512, ..header.log(Log::HotData) })
        }),
        ("sit_ver_bitmap_bytesize", |header| header.set_sit_bitmap_bytes(128)),
        ("nat_ver_bitmap_bytesize", |header| header.set_nat_bitmap_bytes(0)),
        ("cp_pack_start_sum", |header| header.set_start_sum(0)),
        ("cp_pack_total_block_count", |header| header.set_pack_blocks(7)),
    ];
    let layout = layout(2, 2, 0);
    for (field, damage) in cases {
        let mut checkpoint = checkpoint(&layout, CpFlags::NONE);
        checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
        damage(checkpoint.header_mut());
        checkpoint.header_mut().seal();
        let error = Checkpoint::parse(&layout, &checkpoint.blocks[0], &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("checkpoint: {field} =")), "{field}: {error}");
    }
}

#[test]
fn footers_carry_the_checksum_only_when_the_checkpoint_says_so() {
    let layout = layout(2, 2, 0);
    for (flags, with_crc) in [(CpFlags::NONE, false), (CpFlags::CRC_RECOVERY, true)] {
        let mut checkpoint = checkpoint(&layout, flags);
        checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
        let (header, crc) = (checkpoint.header(), u64::from(checkpoint.header().stored_checksum()));
        assert_ne!(crc, 0);
        assert_eq!(header.footer_version(), if with_crc { crc << 32 | 0x1122 } else { 0x1122 });
    }
}

#[test]
fn nat_bits_belong_to_one_checkpoint() {
    let layout = layout(2, 2, 0);
    let mut checkpoint = checkpoint(&layout, CpFlags::NAT_BITS);
    checkpoint.encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
    let mut bits = NatBits::new(&layout);
    bits.set_used(0, 4);
    bits.set_used(1, 0);
    bits.set_used(9, 455);
    let blocks = bits.encode(checkpoint.header());
    assert_eq!(blocks.len() as u32, layout.nat_bits_blocks());
    assert_eq!((blocks[0][8 + 1], blocks[0][8 + 64]), (0x02, 0x02));
    let back = NatBits::parse(&layout, checkpoint.header(), &blocks).unwrap();
    assert!(back.is_full(9) && !back.is_full(0) && back.is_empty(1) && !back.is_empty(0));
    assert_eq!(back, bits);
    checkpoint.header_mut().set_version(0x1123);
    assert_eq!(NatBits::parse(&layout, checkpoint.header(), &blocks), None);
}

proptest! {
    #[test]
    fn packs_survive_the_round_trip(next in prop::array::uniform6(0u16..512), ssr in prop::array::uniform6(any::<bool>()), orphans in 0u32..3000, umount: bool, payload in 0u32..3) {
        let layout = layout(2, 2, payload);
        let flags = if umount { CpFlags::UMOUNT } else { CpFlags::NONE };
        let mut checkpoint = checkpoint(&layout, flags | CpFlags::CRC_RECOVERY);
        for log in Log::ALL {
            let alloc = if ssr[log.index()] { AllocType::Ssr } else { AllocType::Lfs };
            let segment = checkpoint.header().log(log).segment;
            checkpoint.header_mut().set_log(log, LogPosition { segment, next: next[log.index()], alloc });
        }
        let inos: Vec<Ino> = (4..4 + orphans).map(Ino).collect();
        let (data, nodes) = (summaries(SummaryKind::Data), summaries(SummaryKind::Node));
        let pack = checkpoint.encode_pack(&inos, &data, umount.then_some(&nodes)).unwrap();
        prop_assert_eq!(last_block_of(&pack[0]).map(|last| last as usize), Ok(pack.len() - 1));
        let part = |range: Range<u32>| &pack[range.start as usize..range.end as usize];
        let back = Checkpoint::parse(&layout, &pack[0], part(1..1 + payload)).unwrap();
        let map = back.pack_map();
        prop_assert_eq!(crate::orphan::decode_orphans(part(map.orphans)).unwrap(), inos);
        let compact = back.header().flags().contains(CpFlags::COMPACT_SUM);
        prop_assert_eq!(decode_data_summaries(part(map.data_summaries), compact, back.data_logs()).unwrap(), data);
        prop_assert_eq!(map.node_summaries.len(), if umount { 3 } else { 0 });
        prop_assert_eq!(back, checkpoint);
    }

    #[test]
    fn any_sealed_header_is_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 192), payload in 0u32..3) {
        let layout = layout(2, 2, payload);
        let mut block = [0; BLOCK_SIZE];
        block[..192].copy_from_slice(&bytes);
        let header = CheckpointHeader::view_mut(&mut block);
        header.set_checksum_offset(CHECKSUM_OFFSET);
        header.seal();
        let _ = Checkpoint::parse(&layout, &block, &vec![[0; BLOCK_SIZE]; payload as usize]);
    }
}

#[test]
fn the_number_of_the_last_record_is_kept_where_there_is_room() {
    let mut small = checkpoint(&layout(2, 2, 0), CpFlags::NONE);
    assert_eq!(small.served(), None);
    small.set_served(0x0102_0304_0506_0708).unwrap();
    assert_eq!(small.served(), Some(0x0102_0304_0506_0708));
    let bytes = &small.blocks.as_flattened()[4076..4092];
    assert_eq!(bytes[..12], *b"SFD2\x08\x07\x06\x05\x04\x03\x02\x01");
    let layout = layout(2, 2, 0);
    let pack = small.clone().encode_pack(&[], &summaries(SummaryKind::Data), None).unwrap();
    let again = Checkpoint::parse(&layout, &pack[0], &[]);
    assert_eq!(again.map(|again| again.served()), Ok(Some(0x0102_0304_0506_0708)));
    small.blocks[0][4080] ^= 1;
    assert_eq!(small.served(), None, "damaged");
    small.clear_served();
    assert_eq!(small, checkpoint(&layout, CpFlags::NONE));
    let mut full = checkpoint(&self::layout(2, 122, 1), CpFlags::LARGE_NAT_BITMAP);
    assert!(full.set_served(1).is_err() && full.served().is_none());
}
