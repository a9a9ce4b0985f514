//! `nat_bits`: which NAT blocks are full and which are empty, at the very end of a pack's segment. Format section 3.6.
//!
//! An accelerator for mounting that only unmounts write; the flag outlives it. It counts only if it carries the tag of
//! the checkpoint.

use super::CheckpointHeader;
use crate::block::{BLOCK_SIZE, Block, zeroed_block};
use crate::{Layout, bitmap};

/// Which NAT blocks are full and which are empty. In both maps the bit of a block is set, least significant bit first,
/// if it is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatBits {
    full: Vec<u8>,
    empty: Vec<u8>,
}

/// The mark that ties the bits to their checkpoint: version and checksum.
fn tag(header: &CheckpointHeader) -> u64 {
    header.version() | u64::from(header.stored_checksum()) << 32
}

impl NatBits {
    /// Bits that say nothing: no block is full, none is empty.
    pub fn new(layout: &Layout) -> Self {
        let bytes = layout.nat_bitmap_bytes();
        Self { full: vec![0; bytes], empty: vec![0; bytes] }
    }

    /// Reads the last [`Layout::nat_bits_blocks`] blocks of the pack's segment; `None` if they belong to another
    /// checkpoint.
    pub fn parse(layout: &Layout, header: &CheckpointHeader, blocks: &[Block]) -> Option<Self> {
        let (bytes, length) = (blocks.as_flattened(), layout.nat_bitmap_bytes());
        let (found, rest) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*found) != tag(header) {
            return None;
        }
        let (full, rest) = rest.split_at_checked(length)?;
        let (empty, _) = rest.split_at_checked(length)?;
        Some(Self { full: full.to_vec(), empty: empty.to_vec() })
    }

    /// The blocks to write at the end of the segment of the pack with this (sealed) header.
    pub fn encode(&self, header: &CheckpointHeader) -> Vec<Block> {
        let mut bytes = tag(header).to_le_bytes().to_vec();
        bytes.extend(&self.full);
        bytes.extend(&self.empty);
        let blocks = bytes.chunks(BLOCK_SIZE).map(|chunk| {
            let mut block = zeroed_block();
            block[..chunk.len()].copy_from_slice(chunk);
            block
        });
        blocks.collect()
    }

    /// Whether every id of the NAT block is in use.
    pub fn is_full(&self, block: u32) -> bool {
        bitmap::lsb::get(&self.full, block as usize)
    }

    /// Whether no id of the NAT block is in use. Id 0 counts as used.
    pub fn is_empty(&self, block: u32) -> bool {
        bitmap::lsb::get(&self.empty, block as usize)
    }

    /// Records how many ids of a NAT block are in use, id 0 among them.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn set_used(&mut self, block: u32, used: usize) {
        bitmap::lsb::put(&mut self.full, block as usize, used == crate::nat::ENTRIES_PER_BLOCK);
        bitmap::lsb::put(&mut self.empty, block as usize, used == 0);
    }
}
