//! The rules a checkpoint header must keep before any of its numbers is used. Rules marked "ours" are not checked by
//! Linux.

use super::{CheckpointHeader, CpFlags, HEADER_BYTES, LogPosition, compact_blocks};
use crate::block::BLOCKS_PER_SEG;
use crate::error::{FormatError, require};
use crate::{AllocType, Layout, Log};

const CP: &str = "checkpoint";
/// The last block of a pack at which summaries may begin: six summaries and a header follow.
const MAX_START_SUM: u32 = BLOCKS_PER_SEG - 7;

pub(super) fn check(layout: &Layout, header: &CheckpointHeader) -> Result<(), FormatError> {
    check_counters(layout, header)?;
    check_logs(layout, header)?;
    check_bitmaps(layout, header)?;
    check_pack(layout, header)
}

fn check_counters(layout: &Layout, header: &CheckpointHeader) -> Result<(), FormatError> {
    let (valid, user) = (header.valid_blocks(), header.user_blocks());
    require(valid <= user, CP, "valid_block_count", valid, "is at most user_block_count")?;
    // A read-only volume keeps nothing back: its users have the whole main area.
    let main = layout.main_blocks();
    let in_main = user > 0 && (user < main || user == main && !layout.has_ssa());
    require(in_main, CP, "user_block_count", user, "is more than 0 and less than the main area has")?;
    let nodes = header.valid_nodes();
    let max_nodes = layout.max_nid().get().saturating_sub(3);
    require(nodes <= max_nodes, CP, "valid_node_count", nodes, "is at most the number of node ids")?;
    let inodes = header.valid_inodes();
    require(inodes <= nodes, CP, "valid_inode_count", inodes, "is at most valid_node_count (ours)")?;
    let free = header.free_segments();
    require(free <= layout.segment_count, CP, "free_segment_count", free, "is at most segment_count (ours)")?;
    let (overprov, reserved) = (header.overprov_segments(), header.reserved_segments());
    let sane = |count| count > 0 || !layout.has_ssa();
    require(sane(overprov), CP, "overprov_segment_count", overprov, "is more than 0")?;
    require(sane(reserved), CP, "rsvd_segment_count", reserved, "is more than 0")?;
    let areas = [2, layout.sit_segments, layout.nat_segments, layout.ssa_segments, reserved];
    let sum: u64 = areas.into_iter().map(u64::from).sum();
    let fits = sum < u64::from(layout.segment_count);
    require(fits, CP, "rsvd_segment_count", reserved, "fits segment_count beside the tables")
}

fn check_logs(layout: &Layout, header: &CheckpointHeader) -> Result<(), FormatError> {
    let mut seen = Vec::with_capacity(Log::COUNT);
    // A read-only volume has no more than these two; the other slots mean nothing.
    let logs = if layout.has_ssa() { &Log::ALL[..] } else { &[Log::HotData, Log::HotNode] };
    for &log in logs {
        let LogPosition { segment, next, .. } = header.log(log);
        let in_main = segment.get() < layout.main_segments;
        require(in_main, CP, "current segment", segment.get(), "lies in the main area")?;
        require(u32::from(next) < BLOCKS_PER_SEG, CP, "current block offset", next, "is below 512")?;
        require(!seen.contains(&segment), CP, "current segment", segment.get(), "belongs to one log only")?;
        seen.push(segment);
        AllocType::from_disk(header.raw_alloc_type(log))?;
    }
    Ok(())
}

fn check_bitmaps(layout: &Layout, header: &CheckpointHeader) -> Result<(), FormatError> {
    let (sit, nat) = (header.sit_bitmap_bytes(), header.nat_bitmap_bytes());
    require(sit as usize == layout.sit_bitmap_bytes(), CP, "sit_ver_bitmap_bytesize", sit, "fits the SIT")?;
    require(nat as usize == layout.nat_bitmap_bytes(), CP, "nat_ver_bitmap_bytesize", nat, "fits the NAT")?;
    let (large, offset) = (header.flags().contains(CpFlags::LARGE_NAT_BITMAP), header.checksum_offset());
    let right = !large || offset == HEADER_BYTES;
    require(right, CP, "checksum_offset", offset as u64, "is 192 with a large NAT bitmap")?;
    let right = large || offset == super::CHECKSUM_OFFSET;
    require(right, CP, "checksum_offset", offset as u64, "is 4092 without a large NAT bitmap (ours)")
}

fn check_pack(layout: &Layout, header: &CheckpointHeader) -> Result<(), FormatError> {
    let (start, blocks) = (header.start_sum(), header.pack_blocks());
    let in_range = start > layout.cp_payload && start <= MAX_START_SUM;
    require(in_range, CP, "cp_pack_start_sum", start, "lies behind the payload and before block 506")?;
    let node_blocks = if header.has_node_summaries() { 3 } else { 0 };
    let data_blocks = if header.flags().contains(CpFlags::COMPACT_SUM) {
        let needed = compact_blocks(Log::DATA.map(|log| header.log(log)));
        require(
            needed.is_some(),
            CP,
            "ckpt_flags",
            header.flags().bits(),
            "has COMPACT_SUM only if summaries fit (ours)",
        )?;
        needed.unwrap_or_default() as u32
    } else {
        3
    };
    let right = blocks == start + data_blocks + node_blocks + 1;
    require(right, CP, "cp_pack_total_block_count", blocks, "ends behind the summaries (ours)")?;
    let room = !header.flags().contains(CpFlags::NAT_BITS) || blocks + layout.nat_bits_blocks() <= BLOCKS_PER_SEG;
    require(room, CP, "ckpt_flags", header.flags().bits(), "has NAT_BITS only if the segment has room for them")
}
