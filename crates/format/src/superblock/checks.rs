//! The rules a superblock must keep before any of its numbers is used.
//!
//! Rules marked "ours" are not checked by Linux but hold on every volume that its mkfs makes; address arithmetic relies
//! on them.

use super::{MAX_EXTENSIONS, RawSuperBlock};
use crate::block::{BLOCKS_PER_SEG, LOG_BLOCK_SIZE, LOG_BLOCKS_PER_SEG};
use crate::error::{FormatError, require};
use crate::slot::COMPRESS_ADDR;
use crate::{Features, Layout, Lba, META_INO, NODE_INO, ROOT_INO, Width, nat, sit};

const SB: &str = "superblock";
/// Sizes of blocks that some Linux knows: those of its pages.
const LOG_BLOCK_SIZES: std::ops::RangeInclusive<u32> = LOG_BLOCK_SIZE..=16;
const MIN_SEGMENTS: u32 = 9;
const MAX_SEGMENTS: u32 = 8_388_608;
/// A pack must hold the payload, two headers and six summaries.
const MAX_CP_PAYLOAD: u32 = BLOCKS_PER_SEG - 2 - 6;

/// Makes every check and returns the geometry.
pub(super) fn check(raw: &RawSuperBlock) -> Result<Layout, FormatError> {
    check_units(raw)?;
    check_counts(raw)?;
    check_chain(raw)?;
    check_tables(raw)?;
    check_rest(raw)?;
    // The bit that makes addresses wide belongs to another magic number.
    let bits = Features::from_bits(raw.feature.get());
    require(!bits.contains(Features::INFINITE), SB, "feature", bits.bits(), "has no bit of an IPLFS volume (ours)")?;
    Ok(layout(raw))
}

/// The geometry as the fields have it.
pub(crate) fn layout(raw: &RawSuperBlock) -> Layout {
    Layout {
        block_count: raw.block_count.get(),
        segment_count: raw.segment_count.get(),
        segment0: Lba::from_disk(raw.segment0_blkaddr.get()),
        cp: Lba::from_disk(raw.cp_blkaddr.get()),
        sit: Lba::from_disk(raw.sit_blkaddr.get()),
        nat: Lba::from_disk(raw.nat_blkaddr.get()),
        ssa: Lba::from_disk(raw.ssa_blkaddr.get()),
        main: Lba::from_disk(raw.main_blkaddr.get()),
        sit_segments: raw.segment_count_sit.get(),
        nat_segments: raw.segment_count_nat.get(),
        ssa_segments: raw.segment_count_ssa.get(),
        main_segments: raw.segment_count_main.get(),
        sections: raw.section_count.get(),
        segs_per_sec: raw.segs_per_sec.get(),
        secs_per_zone: raw.secs_per_zone.get(),
        cp_payload: raw.cp_payload.get(),
        width: Width::Four,
    }
}

pub(crate) fn check_units(raw: &RawSuperBlock) -> Result<(), FormatError> {
    // First of all: with other blocks most of the numbers below are others, too, and none of them is wrong.
    let block = raw.log_blocksize.get();
    if block != LOG_BLOCK_SIZE && LOG_BLOCK_SIZES.contains(&block) {
        return Err(FormatError::BlockSize { log: block });
    }
    require(block == LOG_BLOCK_SIZE, SB, "log_blocksize", block, "is 12 (4 KiB blocks)")?;
    let sector = raw.log_sector_bytes();
    let per_block = raw.log_sectors_per_block.get();
    if raw.is_marked() {
        require((9..=12).contains(&sector), SB, "log_sectors_per_block", per_block, "is at most 3")?;
    }
    require((9..=12).contains(&sector), SB, "log_sectorsize", sector, "is between 9 and 12")?;
    let sum = u64::from(sector) + u64::from(per_block);
    require(sum == u64::from(LOG_BLOCK_SIZE), SB, "log_sectors_per_block", per_block, "plus log_sectorsize is 12")?;
    let seg = raw.log_blocks_per_seg.get();
    require(seg == LOG_BLOCKS_PER_SEG, SB, "log_blocks_per_seg", seg, "is 9 (2 MiB segments)")
}

fn check_counts(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let (segments, sections) = (raw.segment_count.get(), raw.section_count.get());
    let (main, per_sec) = (raw.segment_count_main.get(), raw.segs_per_sec.get());
    let in_range = (MIN_SEGMENTS..=MAX_SEGMENTS).contains(&segments);
    require(in_range, SB, "segment_count", segments, "is between 9 and 8388608")?;
    require(per_sec >= 1, SB, "segs_per_sec", per_sec, "is at least 1")?;
    require(sections >= 1 && sections <= main, SB, "section_count", sections, "is between 1 and segment_count_main")?;
    let product = u64::from(sections) * u64::from(per_sec);
    require(product == u64::from(main), SB, "segment_count_main", main, "is section_count * segs_per_sec")?;
    require(segments / per_sec >= sections, SB, "section_count", sections, "fits segment_count / segs_per_sec")?;
    let room = raw.block_count.get() / u64::from(BLOCKS_PER_SEG);
    require(u64::from(segments) <= room, SB, "segment_count", segments, "fits block_count")?;
    let zone = raw.secs_per_zone.get();
    require(zone >= 1 && zone <= sections, SB, "secs_per_zone", zone, "is between 1 and section_count")?;
    if raw.devs[0].path[0] != 0 {
        let used = raw.devs.iter().take_while(|device| device.path[0] != 0);
        let sum: u64 = used.map(|device| u64::from(device.total_segments.get())).sum();
        require(sum == u64::from(segments), SB, "devs", sum, "have segment_count segments together")?;
    }
    Ok(())
}

/// Each area begins where the one before it ends.
pub(crate) fn check_chain(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let areas = [
        ("cp_blkaddr", raw.cp_blkaddr.get(), 0),
        ("sit_blkaddr", raw.sit_blkaddr.get(), raw.segment_count_ckpt.get()),
        ("nat_blkaddr", raw.nat_blkaddr.get(), raw.segment_count_sit.get()),
        ("ssa_blkaddr", raw.ssa_blkaddr.get(), raw.segment_count_nat.get()),
        ("main_blkaddr", raw.main_blkaddr.get(), raw.segment_count_ssa.get()),
    ];
    let mut expected = u64::from(raw.segment0_blkaddr.get());
    for (field, address, segments_before) in areas {
        expected += u64::from(segments_before) * u64::from(BLOCKS_PER_SEG);
        require(u64::from(address) == expected, SB, field, address, "is where the area before it ends")?;
    }
    let segment0 = raw.segment0_blkaddr.get();
    require(segment0 >= 2, SB, "segment0_blkaddr", segment0, "lies behind both superblocks (ours)")?;
    let main_end = expected + u64::from(raw.segment_count_main.get()) * u64::from(BLOCKS_PER_SEG);
    let end = u64::from(segment0) + u64::from(raw.segment_count.get()) * u64::from(BLOCKS_PER_SEG);
    require(main_end <= end, SB, "segment_count_main", raw.segment_count_main.get(), "ends within segment_count")?;
    require(main_end <= raw.block_count.get(), SB, "block_count", raw.block_count.get(), "holds the main area (ours)")?;
    require(main_end <= u64::from(COMPRESS_ADDR), SB, "main_blkaddr", main_end, "ends below 2^32 - 2 (ours)")
}

/// The tables are large enough for what they describe.
fn check_tables(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let main = u64::from(raw.segment_count_main.get());
    let blocks = |segments: u32| u64::from(segments) * u64::from(BLOCKS_PER_SEG);
    let cp = raw.segment_count_ckpt.get();
    require(cp == 2, SB, "segment_count_ckpt", cp, "is 2")?;
    let sit = raw.segment_count_sit.get();
    require(sit >= 2 && sit.is_multiple_of(2), SB, "segment_count_sit", sit, "is two equal halves (ours)")?;
    let sit_entries = blocks(sit / 2) * sit::ENTRIES_PER_BLOCK as u64;
    require(sit_entries >= main, SB, "segment_count_sit", sit, "has an entry for each main segment (ours)")?;
    let nat = raw.segment_count_nat.get();
    require(nat >= 2 && nat.is_multiple_of(2), SB, "segment_count_nat", nat, "is pairs of segments (ours)")?;
    let nids = blocks(nat / 2) * nat::ENTRIES_PER_BLOCK as u64;
    require(nids <= u64::from(u32::MAX), SB, "segment_count_nat", nat, "has fewer than 2^32 node ids (ours)")?;
    let ssa = raw.segment_count_ssa.get();
    let read_only = Features::from_bits(raw.feature.get()).contains(Features::RO);
    require(
        read_only || blocks(ssa) >= main,
        SB,
        "segment_count_ssa",
        ssa,
        "has a block for each main segment (ours)",
    )?;
    let payload = raw.cp_payload.get();
    require(payload < MAX_CP_PAYLOAD, SB, "cp_payload", payload, "leaves room for the summaries")
}

pub(crate) fn check_rest(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let (cold, hot) = (raw.extension_count.get(), u32::from(raw.hot_ext_count));
    let fits = cold as usize <= MAX_EXTENSIONS && (cold + hot) as usize <= MAX_EXTENSIONS;
    require(fits, SB, "extension_count", cold, "and hot_ext_count are at most 64 together")?;
    let inos = [
        ("node_ino", raw.node_ino.get(), NODE_INO),
        ("meta_ino", raw.meta_ino.get(), META_INO),
        ("root_ino", raw.root_ino.get(), ROOT_INO),
    ];
    for (field, value, expected) in inos {
        require(value == expected.get(), SB, field, value, "is the reserved inode number (1, 2, 3)")?;
    }
    Ok(())
}
