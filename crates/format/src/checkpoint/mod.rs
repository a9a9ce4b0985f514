//! Checkpoint packs: the volume's state in one consistent piece. Format section 3.
//!
//! A reader checks both packs ([`last_block_of`], [`pack_version`]), takes the one that [`choose_pack`] names, and
//! parses it into a [`Checkpoint`]: header and version bitmaps, with the bytes that nobody uses kept for the next
//! checkpoint. A writer changes the checkpoint in place and lets [`Checkpoint::encode_pack`] lay out the blocks in the
//! order in which they are written.

mod bitmaps;
mod checks;
mod choose;
mod flags;
mod header;
mod nat_bits;
mod pack;
mod served;
mod summaries;

pub use choose::{choose_pack, last_block_of, pack_version};
pub use flags::CpFlags;
pub use header::{CHECKSUM_OFFSET, CheckpointHeader, HEADER_BYTES, LogPosition};
pub use nat_bits::NatBits;
pub use pack::PackMap;
pub use summaries::{compact_blocks, decode_data_summaries, encode_data_summaries};

use crate::block::{BLOCK_SIZE, Block, BlockView};
use crate::error::{FormatError, require};
use crate::{Layout, Log};
use std::ops::Range;

/// A checkpoint: the header block and the payload blocks as they lie on the disk.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The header, then the payload, back to back: a bitmap may run from one into the next.
    blocks: Vec<Block>,
    sit_bits: Range<usize>,
    nat_bits: Range<usize>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.header(), f)
    }
}

impl Checkpoint {
    /// An empty checkpoint for a volume: bitmaps of zeros, no flags but `flags`.
    ///
    /// # Errors
    /// If the bitmaps of the volume do not fit the header and its payload.
    pub fn new(layout: &Layout, flags: CpFlags) -> Result<Self, FormatError> {
        let mut header = CheckpointHeader::empty();
        header.set_flags(flags);
        header.set_sit_bitmap_bytes(layout.sit_bitmap_bytes() as u32);
        header.set_nat_bitmap_bytes(layout.nat_bitmap_bytes() as u32);
        let large = flags.contains(CpFlags::LARGE_NAT_BITMAP);
        header.set_checksum_offset(if large { HEADER_BYTES } else { CHECKSUM_OFFSET });
        let mut blocks = vec![[0; BLOCK_SIZE]; 1 + layout.cp_payload as usize];
        blocks[0] = header.to_block();
        Self::with_bitmaps(layout, blocks)
    }

    /// Reads the header and the payload of the pack that was chosen, and makes every check that Linux makes.
    ///
    /// # Errors
    /// The first field that breaks a rule; a bad checksum.
    pub fn parse(layout: &Layout, first: &Block, payload: &[Block]) -> Result<Self, FormatError> {
        let header = CheckpointHeader::verify(first)?;
        checks::check(layout, header)?;
        let given = payload.len() as u64;
        require(given == u64::from(layout.cp_payload), "checkpoint", "payload blocks", given, "is cp_payload")?;
        let mut blocks = Vec::with_capacity(1 + payload.len());
        blocks.push(*first);
        blocks.extend_from_slice(payload);
        Self::with_bitmaps(layout, blocks)
    }

    /// The header.
    pub fn header(&self) -> &CheckpointHeader {
        CheckpointHeader::view(&self.blocks[0])
    }

    /// The header, for changing it. Counters and logs only: sizes, offsets and the layout flags are set by
    /// [`Checkpoint::new`].
    pub fn header_mut(&mut self) -> &mut CheckpointHeader {
        CheckpointHeader::view_mut(&mut self.blocks[0])
    }

    /// The payload blocks.
    pub fn payload(&self) -> &[Block] {
        &self.blocks[1..]
    }

    /// Where the data logs stand: hot, warm, cold.
    pub fn data_logs(&self) -> [LogPosition; 3] {
        Log::DATA.map(|log| self.header().log(log))
    }

    /// Where the node logs stand: hot, warm, cold.
    pub fn node_logs(&self) -> [LogPosition; 3] {
        Log::NODE.map(|log| self.header().log(log))
    }
}

#[cfg(test)]
mod tests;
