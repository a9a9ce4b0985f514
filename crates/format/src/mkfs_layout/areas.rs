//! Sizes and places of the areas.

use super::{Misfit, MkfsChoices, refused};
use crate::block::{BLOCK_SIZE, BLOCKS_PER_SEG, LOG_BLOCK_SIZE, SEG_BYTES};
use crate::checkpoint::{CHECKSUM_OFFSET, HEADER_BYTES};
use crate::slot::COMPRESS_ADDR;
use crate::{Features, Layout, Lba, Width, nat, sit};

/// Bytes in the checkpoint header for both version bitmaps.
const BITMAP_ROOM: u32 = (CHECKSUM_OFFSET - HEADER_BYTES) as u32;
/// The largest SIT bitmap that shares the header with a NAT bitmap of useful size.
const MAX_SIT_IN_HEADER: u32 = BITMAP_ROOM - 64;
/// Bytes of a version bitmap for one segment of table blocks.
const BITMAP_PER_SEG: u32 = BLOCKS_PER_SEG / 8;
pub(super) const MAX_SEGMENTS: u64 = 8_388_608;
/// The largest device: 16 TiB.
const MAX_BYTES: u64 = MAX_SEGMENTS * SEG_BYTES;
/// Percentage of the wanted node ids that a volume with a large NAT bitmap gets.
const LARGE_NAT_PERCENT: u64 = 20;

/// The areas of a new volume.
pub(super) struct Areas {
    pub(super) layout: Layout,
    /// Segments behind the tables up to the end of the device; may be more than the main area, which ends with a zone.
    pub(super) usable: u32,
}

pub(super) fn plan(choices: &MkfsChoices) -> Result<Areas, Misfit> {
    let spz = segments_per_zone(choices)?;
    let sectors = choices.device_bytes >> choices.log_sector_size;
    let block_count = sectors >> (LOG_BLOCK_SIZE - choices.log_sector_size);
    let start = choices.start_sector * 512;
    let zone_bytes = u64::from(spz) * SEG_BYTES;
    let segment0_bytes = (start + 2 * BLOCK_SIZE as u64).next_multiple_of(zone_bytes) - start;
    if choices.device_bytes > MAX_BYTES {
        let bytes = choices.device_bytes;
        return Err(refused(format!("a device of {bytes} bytes is too large: the format has room for 16 TiB")).into());
    }
    let behind = (sectors << choices.log_sector_size).checked_sub(segment0_bytes).ok_or(Misfit::TooSmall)?;
    // Addresses from COMPRESS_ADDR on mean something else than a block. The last segment of 16 TiB would have them, and
    // mkfs.f2fs gives it out.
    let addressable = u64::from(COMPRESS_ADDR) * BLOCK_SIZE as u64 - segment0_bytes;
    let total = (behind.min(addressable) / SEG_BYTES) as u32;
    let segment_count = total / spz * spz;
    let sit_half = segment_count.div_ceil(sit::ENTRIES_PER_BLOCK as u32).div_ceil(BLOCKS_PER_SEG);
    let sit_segments = 2 * sit_half;
    let left = segment_count.checked_sub(2 + sit_segments).ok_or(Misfit::TooSmall)?;
    let (nat_copy, cp_payload) = plan_nat(left, sit_half * BITMAP_PER_SEG, choices.large_nat);
    let nat_segments = 2 * nat_copy;
    // Room for a summary of each segment that is not a table, and one more.
    let left = left.checked_sub(nat_segments).ok_or(Misfit::TooSmall)? + 1;
    let tables = 2 + sit_segments + nat_segments;
    let all_tables = (tables + left.div_ceil(BLOCKS_PER_SEG)).next_multiple_of(spz);
    let sections = (segment_count / spz).checked_sub(all_tables / spz).ok_or(Misfit::TooSmall)? * choices.secs_per_zone;
    let segment0 = Lba(segment0_bytes / BLOCK_SIZE as u64);
    let at = |segments: u32| segment0 + u64::from(segments) * u64::from(BLOCKS_PER_SEG);
    let layout = Layout {
        block_count,
        segment_count,
        segment0,
        cp: segment0,
        sit: at(2),
        nat: at(2 + sit_segments),
        ssa: at(tables),
        main: at(all_tables),
        sit_segments,
        nat_segments,
        ssa_segments: all_tables - tables,
        main_segments: sections * choices.segs_per_sec,
        sections,
        segs_per_sec: choices.segs_per_sec,
        secs_per_zone: choices.secs_per_zone,
        cp_payload,
        width: Width::Four,
    };
    let usable = total.checked_sub(all_tables).ok_or(Misfit::TooSmall)?;
    if sections == 0 || usable <= crate::Log::COUNT as u32 {
        return Err(Misfit::TooSmall);
    }
    Ok(Areas { layout, usable })
}

/// Segments in a zone, with the choices that give it checked.
fn segments_per_zone(choices: &MkfsChoices) -> Result<u32, Misfit> {
    if !(9..=LOG_BLOCK_SIZE).contains(&choices.log_sector_size) {
        return Err(refused(format!("sectors of 2^{} bytes: allowed are 512 to 4096", choices.log_sector_size)).into());
    }
    if choices.segs_per_sec == 0 || choices.secs_per_zone == 0 {
        return Err(refused("a section has at least one segment, a zone at least one section").into());
    }
    if choices.features.contains(Features::RO) {
        return Err(refused("a read-only volume cannot be made empty").into());
    }
    let spz = choices.segs_per_sec.checked_mul(choices.secs_per_zone).filter(|&spz| u64::from(spz) <= MAX_SEGMENTS);
    Ok(spz.ok_or_else(|| refused("a zone cannot be larger than a volume"))?)
}

/// Segments of one copy of the NAT, and the checkpoint payload.
fn plan_nat(left: u32, sit_bitmap: u32, large: bool) -> (u32, u32) {
    let ids = u64::from(left) * u64::from(BLOCKS_PER_SEG);
    let want = ids.div_ceil(nat::ENTRIES_PER_BLOCK as u64).div_ceil(u64::from(BLOCKS_PER_SEG));
    if large {
        let copy = (want * LARGE_NAT_PERCENT / 100).max(1) as u32;
        let beyond = (sit_bitmap + copy * BITMAP_PER_SEG).saturating_sub(BITMAP_ROOM);
        return (copy, beyond.div_ceil(BLOCK_SIZE as u32));
    }
    let (room, payload) = if sit_bitmap > MAX_SIT_IN_HEADER {
        (BITMAP_ROOM, sit_bitmap.div_ceil(BLOCK_SIZE as u32))
    } else {
        (BITMAP_ROOM - sit_bitmap, 0)
    };
    (want.min(u64::from(room / BITMAP_PER_SEG)) as u32, payload)
}
