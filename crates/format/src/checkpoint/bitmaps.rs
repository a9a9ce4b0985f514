//! The version bitmaps: for each block of SIT and NAT, which of its two copies is in force. Format section 3.1.
//!
//! They lie in one of three ways:
//! - both in the header;
//! - NAT in the header and SIT in the payload;
//! - on volumes with a large NAT bitmap, NAT then SIT behind the checksum, with header and payload taken as one piece.

use super::{CHECKSUM_OFFSET, Checkpoint, CpFlags, HEADER_BYTES};
use crate::Layout;
use crate::bitmap::msb;
use crate::block::{BLOCK_SIZE, Block, BlockView};
use crate::error::{FormatError, require};
use std::ops::Range;

impl Checkpoint {
    /// Finds the bitmaps in header and payload.
    pub(super) fn with_bitmaps(layout: &Layout, blocks: Vec<Block>) -> Result<Self, FormatError> {
        let flags = super::CheckpointHeader::view(&blocks[0]).flags();
        let (sit, nat) = (layout.sit_bitmap_bytes(), layout.nat_bitmap_bytes());
        let run = |start: usize, length: usize| start..start + length;
        let (sit_bits, nat_bits, nat_end) = if flags.contains(CpFlags::LARGE_NAT_BITMAP) {
            let nat_bits = run(HEADER_BYTES + 4, nat);
            (run(nat_bits.end, sit), nat_bits, blocks.len() * BLOCK_SIZE)
        } else if blocks.len() > 1 {
            (run(BLOCK_SIZE, sit), run(HEADER_BYTES, nat), CHECKSUM_OFFSET)
        } else {
            let sit_bits = run(HEADER_BYTES, sit);
            (sit_bits.clone(), run(sit_bits.end, nat), CHECKSUM_OFFSET)
        };
        let fits = nat_bits.end <= nat_end && sit_bits.end <= blocks.len() * BLOCK_SIZE;
        let both = (sit + nat) as u64;
        require(fits, "checkpoint", "version bitmaps", both, "have room in the header and the payload")?;
        Ok(Self { blocks, sit_bits, nat_bits })
    }

    /// Whether the second copy of a SIT block is in force.
    pub fn sit_copy(&self, block: u32) -> bool {
        msb::get(&self.blocks.as_flattened()[self.sit_bits.clone()], block as usize)
    }

    /// Changes which copy of a SIT block is in force.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn set_sit_copy(&mut self, block: u32, copy: bool) {
        msb::put(&mut self.blocks.as_flattened_mut()[self.sit_bits.clone()], block as usize, copy);
    }

    /// Whether the second copy of a NAT block is in force.
    pub fn nat_copy(&self, block: u32) -> bool {
        msb::get(&self.blocks.as_flattened()[self.nat_bits.clone()], block as usize)
    }

    /// Changes which copy of a NAT block is in force.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn set_nat_copy(&mut self, block: u32, copy: bool) {
        msb::put(&mut self.blocks.as_flattened_mut()[self.nat_bits.clone()], block as usize, copy);
    }

    /// The SIT version bitmap, most significant bit first.
    pub fn sit_bitmap(&self) -> &[u8] {
        &self.blocks.as_flattened()[self.sit_bits.clone()]
    }

    /// The NAT version bitmap, most significant bit first.
    pub fn nat_bitmap(&self) -> &[u8] {
        &self.blocks.as_flattened()[self.nat_bits.clone()]
    }

    /// Bytes of the header that belong to nobody: behind the bitmaps, before the checksum. Linux and fsck carry them
    /// from checkpoint to checkpoint (format section 18). Empty where the checksum comes first.
    pub fn spare(&self) -> Range<usize> {
        if self.header().checksum_offset() != CHECKSUM_OFFSET {
            return CHECKSUM_OFFSET..CHECKSUM_OFFSET;
        }
        let in_header = |bits: &Range<usize>| if bits.start < BLOCK_SIZE { bits.end } else { HEADER_BYTES };
        in_header(&self.sit_bits).max(in_header(&self.nat_bits))..CHECKSUM_OFFSET
    }
}
