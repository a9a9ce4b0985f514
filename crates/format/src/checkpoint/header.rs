//! The first block of a checkpoint pack: counters, log positions, flags, and its checksum. Format sections 3.1 and 3.3.

use super::CpFlags;
use crate::block::{BLOCK_SIZE, Block, BlockView};
use crate::crc::{crc_magic, f2fs_crc};
use crate::error::{FormatError, require};
use crate::{AllocType, Log, Nid, SegNo};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header before the bitmaps.
pub const HEADER_BYTES: usize = 192;
/// Offset of the checksum, unless the NAT bitmap is large.
pub const CHECKSUM_OFFSET: usize = BLOCK_SIZE - 4;

const SLOTS: usize = 8;
const NO_SEGMENT: u32 = u32::MAX;

/// The bytes of a checkpoint's first and last block.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHeader {
    checkpoint_ver: U64,
    user_block_count: U64,
    valid_block_count: U64,
    rsvd_segment_count: U32,
    overprov_segment_count: U32,
    free_segment_count: U32,
    cur_node_segno: [U32; SLOTS],
    cur_node_blkoff: [U16; SLOTS],
    cur_data_segno: [U32; SLOTS],
    cur_data_blkoff: [U16; SLOTS],
    ckpt_flags: U32,
    cp_pack_total_block_count: U32,
    cp_pack_start_sum: U32,
    valid_node_count: U32,
    valid_inode_count: U32,
    next_free_nid: U32,
    sit_ver_bitmap_bytesize: U32,
    nat_ver_bitmap_bytesize: U32,
    checksum_offset: U32,
    elapsed_time: U64,
    alloc_type: [u8; 16],
    /// Bitmaps, bytes that nobody uses (kept as found), checksum.
    body: [u8; BLOCK_SIZE - HEADER_BYTES],
}

impl BlockView for CheckpointHeader {}

impl std::fmt::Debug for CheckpointHeader {
    /// The numbers that tell two checkpoints apart, without the bitmaps.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointHeader")
            .field("version", &self.version())
            .field("flags", &self.flags())
            .field("valid_blocks", &self.valid_blocks())
            .field("valid_nodes", &self.valid_nodes())
            .field("valid_inodes", &self.valid_inodes())
            .field("free_segments", &self.free_segments())
            .field("logs", &Log::ALL.map(|log| self.log(log)))
            .field("checksum", &self.stored_checksum())
            .finish_non_exhaustive()
    }
}

const _: () = assert!(std::mem::offset_of!(CheckpointHeader, ckpt_flags) == 132);
const _: () = assert!(std::mem::offset_of!(CheckpointHeader, elapsed_time) == 168);
const _: () = assert!(std::mem::offset_of!(CheckpointHeader, body) == HEADER_BYTES);

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Its current segment.
    pub segment: SegNo,
    /// Offset of the block that it allocates next; below 512.
    pub next: u16,
    /// How it takes blocks.
    pub alloc: AllocType,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $get:ident, $set:ident: $type:ty = $field:ident;)*) => {
        impl CheckpointHeader {
            $(
                $(#[$doc])*
                pub fn $get(&self) -> $type {
                    self.$field.get().into()
                }

                #[doc = concat!("Changes [`CheckpointHeader::", stringify!($get), "`].")]
                pub fn $set(&mut self, value: $type) {
                    self.$field = value.into();
                }
            )*
        }
    };
}

counters! {
    /// Version of the checkpoint, one more than that of the one before.
    version, set_version: u64 = checkpoint_ver;
    /// Blocks that users may fill.
    user_blocks, set_user_blocks: u64 = user_block_count;
    /// Blocks in use: nodes, data, and slots that are reserved but not yet written.
    valid_blocks, set_valid_blocks: u64 = valid_block_count;
    /// Segments kept for collection.
    reserved_segments, set_reserved_segments: u32 = rsvd_segment_count;
    /// Segments that users cannot fill, the reserved ones included.
    overprov_segments, set_overprov_segments: u32 = overprov_segment_count;
    /// Main segments without valid blocks that are not current.
    free_segments, set_free_segments: u32 = free_segment_count;
    /// Blocks of the pack.
    pack_blocks, set_pack_blocks: u32 = cp_pack_total_block_count;
    /// Block of the pack at which the data summaries begin.
    start_sum, set_start_sum: u32 = cp_pack_start_sum;
    /// Nodes, without the two reserved ids.
    valid_nodes, set_valid_nodes: u32 = valid_node_count;
    /// Inodes.
    valid_inodes, set_valid_inodes: u32 = valid_inode_count;
    /// Bytes of the SIT version bitmap.
    sit_bitmap_bytes, set_sit_bitmap_bytes: u32 = sit_ver_bitmap_bytesize;
    /// Bytes of the NAT version bitmap.
    nat_bitmap_bytes, set_nat_bitmap_bytes: u32 = nat_ver_bitmap_bytesize;
    /// Seconds that the volume was mounted over its life: the clock of segment ages.
    elapsed_time, set_elapsed_time: u64 = elapsed_time;
}

impl CheckpointHeader {
    /// A header without content; log slots that the format does not use hold no segment.
    pub fn empty() -> Self {
        let mut header = Self::new_zeroed();
        header.cur_node_segno = [NO_SEGMENT.into(); SLOTS];
        header.cur_data_segno = [NO_SEGMENT.into(); SLOTS];
        header
    }

    /// Looks at a block as a checkpoint header and compares its checksum; nothing else is checked.
    ///
    /// # Errors
    /// [`FormatError::Checksum`], or a checksum position outside the block.
    pub fn verify(block: &Block) -> Result<&Self, FormatError> {
        let header = Self::view(block);
        let offset = header.checksum_offset();
        let in_bounds = (HEADER_BYTES..=CHECKSUM_OFFSET).contains(&offset);
        require(in_bounds, "checkpoint", "checksum_offset", offset as u64, "is 192 to 4092")?;
        let (stored, computed) = (header.stored_checksum(), header.compute_checksum());
        if stored == computed {
            Ok(header)
        } else {
            Err(FormatError::Checksum { structure: "checkpoint", stored, computed })
        }
    }

    /// Stores the checksum of the block as it is now.
    pub fn seal(&mut self) {
        let offset = self.checksum_offset();
        assert!((HEADER_BYTES..=CHECKSUM_OFFSET).contains(&offset), "the checksum lies in the block");
        let crc = self.compute_checksum();
        self.as_mut_bytes()[offset..offset + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Position of the checksum in the block.
    pub fn checksum_offset(&self) -> usize {
        self.checksum_offset.get() as usize
    }

    /// Changes the position of the checksum.
    pub fn set_checksum_offset(&mut self, offset: usize) {
        self.checksum_offset = (offset as u32).into();
    }

    /// The stored checksum; 0 if its position lies outside the block.
    pub fn stored_checksum(&self) -> u32 {
        let offset = self.checksum_offset();
        let bytes = self.as_bytes().get(offset..offset.saturating_add(4));
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// Over everything before the checksum, then everything behind it.
    fn compute_checksum(&self) -> u32 {
        let (bytes, offset) = (self.as_bytes(), self.checksum_offset());
        f2fs_crc(crc_magic(&bytes[..offset]), &bytes[offset + 4..])
    }

    /// The flags.
    pub fn flags(&self) -> CpFlags {
        CpFlags::from_bits(self.ckpt_flags.get())
    }

    /// Changes the flags.
    pub fn set_flags(&mut self, flags: CpFlags) {
        self.ckpt_flags = flags.bits().into();
    }

    /// A node id at which a search for a free one may begin.
    pub fn next_free_nid(&self) -> Nid {
        Nid(self.next_free_nid.get())
    }

    /// Changes [`CheckpointHeader::next_free_nid`].
    pub fn set_next_free_nid(&mut self, nid: Nid) {
        self.next_free_nid = nid.get().into();
    }

    /// Where a log stands. A way of allocation that does not exist reads as LFS; an accepted [`super::Checkpoint`] has
    /// none.
    pub fn log(&self, log: Log) -> LogPosition {
        let index = log.index();
        let (segment, next) = if log.is_node() {
            (self.cur_node_segno[index - 3], self.cur_node_blkoff[index - 3])
        } else {
            (self.cur_data_segno[index], self.cur_data_blkoff[index])
        };
        let alloc = AllocType::from_disk(self.alloc_type[index]).unwrap_or_default();
        LogPosition { segment: SegNo(segment.get()), next: next.get(), alloc }
    }

    /// Changes where a log stands.
    pub fn set_log(&mut self, log: Log, position: LogPosition) {
        let index = log.index();
        let (segment, next) = (position.segment.get().into(), position.next.into());
        if log.is_node() {
            (self.cur_node_segno[index - 3], self.cur_node_blkoff[index - 3]) = (segment, next);
        } else {
            (self.cur_data_segno[index], self.cur_data_blkoff[index]) = (segment, next);
        }
        self.alloc_type[index] = position.alloc as u8;
    }

    /// The byte that says how a log takes blocks, in bounds or not.
    pub fn raw_alloc_type(&self, log: Log) -> u8 {
        self.alloc_type[log.index()]
    }

    /// Whether the pack has node summaries.
    pub fn has_node_summaries(&self) -> bool {
        self.flags().intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT)
    }

    /// What the footers of nodes carry that are written while this checkpoint is in force.
    pub fn footer_version(&self) -> u64 {
        let crc = if self.flags().contains(CpFlags::CRC_RECOVERY) { self.stored_checksum() } else { 0 };
        self.version() | u64::from(crc) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_these_offsets() {
        crate::page::assert_offsets(
            "3.1",
            &crate::page::offsets!("", CheckpointHeader: checkpoint_ver user_block_count valid_block_count
                rsvd_segment_count overprov_segment_count free_segment_count cur_node_segno cur_node_blkoff
                cur_data_segno cur_data_blkoff ckpt_flags cp_pack_total_block_count cp_pack_start_sum valid_node_count
                valid_inode_count next_free_nid sit_ver_bitmap_bytesize nat_ver_bitmap_bytesize checksum_offset
                elapsed_time alloc_type body),
        );
    }
}
