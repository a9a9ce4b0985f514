//! Superblocks: every rule has a superblock that breaks it, values go both ways, and no bytes do harm.

use super::*;
use crate::block::BLOCK_SIZE;
use crate::mkfs_layout::{MkfsChoices, MkfsLayout};
use crate::{Lba, Nid, Pack, SecNo, SegNo};
use proptest::prelude::*;

fn raw() -> RawSuperBlock {
    let choices = MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 2, secs_per_zone: 3, ..MkfsChoices::default() };
    MkfsLayout::plan(&choices).unwrap().superblock(&choices)
}

#[test]
fn every_rule_is_checked() {
    type Damage = fn(&mut RawSuperBlock);
    let cases: [(&str, Damage); 36] = [
        ("log_sectorsize", |raw| raw.log_sectorsize = 8.into()),
        ("log_sectors_per_block", |raw| raw.log_sectors_per_block = 4.into()),
        ("log_sectors_per_block", |raw| raw.log_sectors_per_block = u32::MAX.into()),
        ("log_blocksize", |raw| raw.log_blocksize = 11.into()),
        ("log_blocksize", |raw| raw.log_blocksize = 31.into()),
        ("log_sectors_per_block", |raw| {
            (raw.log_sectorsize, raw.log_sectors_per_block) = (JOURNAL_MARK.into(), 4.into())
        }),
        ("log_sectorsize", |raw| (raw.log_sectorsize, raw.magic) = (JOURNAL_MARK.into(), JOURNAL_MAGIC.into())),
        ("log_blocks_per_seg", |raw| raw.log_blocks_per_seg = 10.into()),
        ("segment_count", |raw| raw.segment_count = 8.into()),
        ("segment_count", |raw| raw.segment_count = 8_388_609.into()),
        ("segment_count", |raw| raw.block_count = 1000.into()),
        ("segs_per_sec", |raw| raw.segs_per_sec = 0.into()),
        ("section_count", |raw| raw.section_count = 0.into()),
        ("section_count", |raw| raw.section_count = (raw.segment_count_main.get() + 1).into()),
        ("segment_count_main", |raw| raw.segs_per_sec = 1.into()),
        ("secs_per_zone", |raw| raw.secs_per_zone = 0.into()),
        ("secs_per_zone", |raw| raw.secs_per_zone = (raw.section_count.get() + 1).into()),
        ("devs", |raw| raw.devs[0] = RawDevice { path: [b'x'; 64], total_segments: 1.into() }),
        ("cp_blkaddr", |raw| raw.cp_blkaddr = 0.into()),
        ("sit_blkaddr", |raw| raw.sit_blkaddr = (raw.sit_blkaddr.get() + 1).into()),
        ("nat_blkaddr", |raw| raw.nat_blkaddr = u32::MAX.into()),
        ("ssa_blkaddr", |raw| raw.segment_count_nat = 6.into()),
        ("main_blkaddr", |raw| raw.segment_count_ssa = u32::MAX.into()),
        ("segment0_blkaddr", |raw| shift(raw, 1)),
        ("segment_count_main", |raw| grow(raw, 6)),
        ("segment_count_ckpt", |raw| move_areas(raw, [3, 2, 4, 3])),
        ("segment_count_sit", |raw| move_areas(raw, [2, 3, 4, 3])),
        ("segment_count_nat", |raw| move_areas(raw, [2, 2, 3, 5])),
        ("segment_count_ssa", |raw| move_areas(raw, [2, 2, 8, 0])),
        ("cp_payload", |raw| raw.cp_payload = 504.into()),
        ("extension_count", |raw| raw.extension_count = 65.into()),
        ("extension_count", |raw| (raw.extension_count, raw.hot_ext_count) = (60.into(), 5)),
        ("root_ino", |raw| raw.root_ino = 4.into()),
        ("node_ino", |raw| raw.node_ino = 0.into()),
        ("meta_ino", |raw| raw.meta_ino = 3.into()),
        ("feature", |raw| raw.feature = Features::INFINITE.bits().into()),
    ];
    assert!(SuperBlock::new(raw()).is_ok());
    for (field, damage) in cases {
        let mut raw = raw();
        damage(&mut raw);
        let error = SuperBlock::new(raw).unwrap_err().to_string();
        assert!(error.contains(&format!("superblock: {field} =")), "{field}: {error}");
    }
    let mut other = raw();
    other.magic = 1.into();
    assert_eq!(SuperBlock::new(other), Err(FormatError::Magic { structure: "superblock", found: 1 }));
}

/// Gives the areas these sizes, chained as they must be.
fn move_areas(raw: &mut RawSuperBlock, [cp, sit, nat, ssa]: [u32; 4]) {
    let at = |segments: u32| raw.segment0_blkaddr.get() + segments * 512;
    let (sit_at, nat_at, ssa_at, main_at) = (at(cp), at(cp + sit), at(cp + sit + nat), at(cp + sit + nat + ssa));
    (raw.sit_blkaddr, raw.nat_blkaddr) = (sit_at.into(), nat_at.into());
    (raw.ssa_blkaddr, raw.main_blkaddr) = (ssa_at.into(), main_at.into());
    (raw.segment_count_ckpt, raw.segment_count_sit) = (cp.into(), sit.into());
    (raw.segment_count_nat, raw.segment_count_ssa) = (nat.into(), ssa.into());
}

/// Makes the main area longer by these segments, beyond the end that `segment_count` gives.
fn grow(raw: &mut RawSuperBlock, segments: u32) {
    raw.segment_count_main = (raw.segment_count_main.get() + segments).into();
    raw.section_count = (raw.segment_count_main.get() / raw.segs_per_sec.get()).into();
}

/// Moves all areas to begin at this block.
fn shift(raw: &mut RawSuperBlock, segment0: u32) {
    raw.segment0_blkaddr = segment0.into();
    raw.cp_blkaddr = segment0.into();
    let [cp, sit, nat, ssa] =
        [&raw.segment_count_ckpt, &raw.segment_count_sit, &raw.segment_count_nat, &raw.segment_count_ssa]
            .map(|n| n.get());
    move_areas(raw, [cp, sit, nat, ssa]);
}

/// Linux on pages of 16 KiB makes such volumes. Fields that follow from the size of a block differ, too.
#[test]
fn blocks_of_another_size_are_no_damage() {
    for (log, text) in [(13, "8 KiB"), (14, "16 KiB"), (16, "64 KiB")] {
        let mut raw = raw();
        (raw.log_blocksize, raw.log_sectors_per_block) = (log.into(), (log - 9).into());
        let error = SuperBlock::new(raw).unwrap_err();
        assert_eq!(error, FormatError::BlockSize { log });
        assert_eq!(error.to_string(), format!("it has blocks of {text}, and only blocks of 4 KiB are read"));
    }
}

/// What others read stays as it was, and the checksum is right for them, too.
#[test]
fn the_mark_of_a_journal_hides_the_size_of_a_sector_only() {
    for sector in 9..=12u32 {
        let mut raw = raw();
        (raw.log_sectorsize, raw.log_sectors_per_block) = (sector.into(), (12 - sector).into());
        raw.feature = Features::SB_CHECKSUM.bits().into();
        let stock = SuperBlock::new(raw).unwrap();
        let stock = SuperBlock::parse(&stock.encode()).unwrap();
        let mut superblock = stock.clone();
        superblock.set_journaled(true);
        let block = superblock.encode();
        let marked = SuperBlock::parse(&block).unwrap();
        assert!(marked.is_journaled() && !stock.is_journaled());
        let bytes = marked.raw().as_bytes();
        let (mark, crc) = (8..12, CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4);
        assert_eq!((&bytes[..4], &bytes[mark.clone()]), (&F2FS_MAGIC.to_le_bytes()[..], &b"SFJV"[..]));
        let same = |at: &usize| mark.contains(at) || crc.contains(at) || bytes[*at] == stock.raw().as_bytes()[*at];
        assert_eq!((0..bytes.len()).find(|at| !same(at)), None);
        assert_eq!(marked.raw().crc.get(), crate::crc::crc_magic(&bytes[..CHECKSUM_OFFSET]));
        superblock.set_journaled(false);
        assert_eq!(superblock.encode(), stock.encode());
    }
}

#[test]
fn the_old_mark_is_read_and_replaced() {
    let mut old = raw();
    old.magic = JOURNAL_MAGIC.into();
    let mut superblock = SuperBlock::new(old).unwrap();
    assert!(superblock.is_journaled());
    superblock.set_journaled(true);
    assert_eq!((superblock.raw().magic.get(), superblock.raw().log_sectorsize.get()), (F2FS_MAGIC, JOURNAL_MARK));
    superblock.set_journaled(false);
    assert_eq!(superblock.raw(), &raw());
}

#[test]
fn a_main_area_may_end_early_and_several_devices_add_up() {
    let mut short = raw();
    short.section_count = (short.section_count.get() - 3).into();
    short.segment_count_main = (short.segment_count_main.get() - 6).into();
    assert!(SuperBlock::new(short).is_ok());
    let mut two = raw();
    for (device, segments) in [(0, 100), (1, two.segment_count.get() - 100)] {
        two.devs[device].path[..6].copy_from_slice(b"/dev/x");
        two.devs[device].total_segments = segments.into();
    }
    let devices = SuperBlock::new(two).unwrap().devices();
    assert_eq!((devices.len(), devices[0].path.as_str(), devices[0].segments), (2, "/dev/x", 100));
}

#[test]
fn the_checksum_counts_only_with_its_feature() {
    let mut raw = raw();
    raw.feature = Features::SB_CHECKSUM.bits().into();
    let superblock = SuperBlock::new(raw).unwrap();
    let mut block = superblock.encode();
    block[0] = 7;
    assert!(SuperBlock::parse(&block).is_ok(), "what lies before the superblock does not matter");
    for at in [SUPERBLOCK_OFFSET + 2810, BLOCK_SIZE - 1] {
        let mut damaged = block;
        damaged[at] ^= 1;
        assert!(matches!(SuperBlock::parse(&damaged), Err(FormatError::Checksum { .. })), "byte {at}");
    }
    let mut elsewhere = block;
    elsewhere[SUPERBLOCK_OFFSET + 32] = 0;
    assert!(SuperBlock::parse(&elsewhere).unwrap_err().to_string().contains("checksum_offset"));
    let mut without = SuperBlock::new(self::raw()).unwrap().encode();
    without[BLOCK_SIZE - 1] ^= 1;
    assert!(SuperBlock::parse(&without).is_ok());
}

/// A volume by hand: 4 segments to a zone of 2 sections, tables where chapter 1 of the format puts them.
#[test]
fn layout_arithmetic() {
    let choices = MkfsChoices { device_bytes: 4 << 40, segs_per_sec: 2, secs_per_zone: 2, ..MkfsChoices::default() };
    let layout = MkfsLayout::plan(&choices).unwrap().layout;
    assert_eq!((layout.segment0, layout.pack(Pack::One), layout.pack(Pack::Two)), (Lba(2048), Lba(2048), Lba(2560)));
    assert_eq!(
        layout.sit_block_lba(3, true) - layout.sit_block_lba(3, false),
        u64::from(layout.sit_segments / 2) * 512
    );
    assert_eq!(layout.nat_block_lba(511, false), layout.nat + 511);
    assert_eq!(layout.nat_block_lba(511, true), layout.nat + 1023);
    assert_eq!(layout.nat_block_lba(512, false), layout.nat + 1024);
    assert_eq!((layout.sit_place(SegNo(56)), layout.nat_place(Nid(911))), ((1, 1), (2, 1)));
    assert_eq!(
        (layout.sec_of(SegNo(5)), layout.first_seg(SecNo(2)), layout.zone_of(SecNo(5))),
        (SecNo(2), SegNo(4), 2)
    );
    assert_eq!(layout.segs_of(SecNo(3)).collect::<Vec<_>>(), [SegNo(6), SegNo(7)]);
    assert_eq!(layout.seg_of(layout.main + 513), Some((SegNo(1), 1)));
    assert_eq!((layout.seg_of(layout.main_end()), layout.seg_of(Lba(0))), (None, None));
    assert_eq!(layout.ssa_lba(SegNo(9)), Some(layout.ssa + 9));
    assert_eq!(layout.nat_bits_lba(Pack::Two) + u64::from(layout.nat_bits_blocks()), layout.sit);
    assert_eq!(layout.max_nid().get(), layout.nat_blocks() * 455);
}

proptest! {
    #[test]
    fn addresses_and_segments_agree(segment in 0u32..500, offset in 0u16..512) {
        let layout = *SuperBlock::new(raw()).unwrap().layout();
        prop_assume!(segment < layout.main_segments);
        let lba = layout.lba_of(SegNo(segment), offset);
        prop_assert_eq!(layout.seg_of(lba), Some((SegNo(segment), offset)));
        prop_assert!(layout.segs_of(layout.sec_of(SegNo(segment))).any(|s| s == SegNo(segment)));
    }

    #[test]
    fn labels_and_extensions_survive_the_round_trip(label in "\\PC{0,255}", cold in prop::collection::vec("[a-z0-9]{1,7}", 0..30), hot in prop::collection::vec("[a-z0-9]{1,7}", 0..30)) {
        let mut raw = raw();
        let [colds, hots] = [&cold, &hot].map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
        raw.set_extensions(&colds, &hots).unwrap();
        let mut superblock = SuperBlock::new(raw).unwrap();
        superblock.set_label(&label).unwrap();
        let back = SuperBlock::parse(&superblock.encode()).unwrap();
        prop_assert_eq!((back.label(), back.cold_extensions(), back.hot_extensions()), (label, cold, hot));
    }

    #[test]
    fn any_bytes_are_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 4096), heads: bool) {
        let mut block = crate::zeroed_block();
        block.copy_from_slice(&bytes);
        if heads {
            // Sound units, so that the checks behind them are reached.
            block[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + 24].copy_from_slice(&raw().as_bytes()[..24]);
            block[SUPERBLOCK_OFFSET + 2180..SUPERBLOCK_OFFSET + 2184].fill(0);
        }
        let _ = SuperBlock::parse(&block);
        let _ = RawSuperBlock::read(&block).extensions();
    }

    /// One field at a time takes any value: what is accepted has arithmetic that stays in bounds.
    #[test]
    fn an_accepted_superblock_has_sound_arithmetic(word in 0usize..27, value in prop_oneof![any::<u32>(), 0u32..100_000]) {
        let mut block = SuperBlock::new(raw()).unwrap().encode();
        let at = SUPERBLOCK_OFFSET + word * 4;
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        if let Ok(superblock) = SuperBlock::parse(&block) {
            let layout = superblock.layout();
            let last = SegNo(layout.main_segments - 1);
            prop_assert!(layout.lba_of(last, 511).try_to_disk().is_some());
            prop_assert!(layout.lba_of(last, 511).get() < layout.block_count);
            let (block, entry) = layout.sit_place(last);
            prop_assert!(layout.sit_block_lba(block, true) < layout.nat && entry < 55);
            prop_assert!(layout.nat_block_lba(layout.nat_blocks() - 1, true) < layout.ssa);
            prop_assert!(layout.ssa_lba(last).is_none_or(|lba| lba < layout.main));
            prop_assert!(layout.sec_of(last).get() < layout.sections);
        }
    }
}

#[test]
fn the_page_has_these_offsets() {
    crate::page::assert_offsets(
        "2",
        &crate::page::offsets!("", RawSuperBlock: magic major_ver minor_ver log_sectorsize log_sectors_per_block
            log_blocksize log_blocks_per_seg segs_per_sec secs_per_zone checksum_offset block_count section_count
            segment_count segment_count_ckpt segment_count_sit segment_count_nat segment_count_ssa segment_count_main
            segment0_blkaddr cp_blkaddr sit_blkaddr nat_blkaddr ssa_blkaddr main_blkaddr root_ino node_ino meta_ino
            uuid volume_name extension_count extension_list cp_payload version init_version feature encryption_level
            encrypt_pw_salt devs qf_ino hot_ext_count s_encoding s_encoding_flags s_stop_reason s_errors reserved crc),
    );
}
