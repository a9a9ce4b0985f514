//! IPLFS volumes: an F2FS node tree over an address space that is never used twice. docs/INFINITE-FORMAT.md is the
//! description; this module and its children are the codecs.
//!
//! A volume has two parts. *Region 0*, below 2^32 blocks, is overwritten in place: superblocks, two checkpoint packs,
//! the NAT in two copies. *Log space* holds seven stretches of 2^shift blocks: one for each of the six logs and one for
//! the meta log, which holds discard logs. A log is only ever appended to. There is no SIT and no SSA: what is dead and
//! not yet discarded stands in the discard log that the checkpoint names.
//!
//! Inodes, direct nodes and NAT entries are those of F2FS with addresses of 8 bytes ([`crate::Width::Eight`]). Node
//! blocks and blocks of packs and discard logs end in a checksum that covers the block's own address ([`seal`]).
//!
//! Kept true: no bytes make a parser panic, loop, or take more memory than the blocks it was given.

mod claim;
mod discard_log;
mod header;
mod pack;
mod space;
mod superblock;
#[cfg(test)]
mod tests;

pub use claim::Claim;
pub use discard_log::{DiscardLog, DiscardLogReader, MAX_UNITS, encode_discard_log};
pub use header::{FLAGS, Head, Header};
pub use pack::{Checkpoint, Known, NAT_JOURNAL_PER_BLOCK, last_block_of};
pub use space::{AddressSpace, Stretch};
pub use superblock::{
    ALLOWED_FEATURES, EXTENSION_OFFSET, Geometry, MAX_LOG_SHIFT, MIN_CAPACITY, MIN_LOG_SHIFT, NEEDED_FEATURES,
    SuperBlock, payload_blocks,
};

use crate::Lba;
use crate::block::Block;
use crate::crc::f2fs_crc;
use crate::error::FormatError;

/// Magic number of the superblock: `IPLF` on the disk. No F2FS tool takes it for its own.
pub const MAGIC: u32 = u32::from_le_bytes(*b"IPLF");
/// The version of the format that this module knows.
pub const VERSION: u16 = 1;
/// The end of the address space of any volume: 2^61 blocks, 2^64 sectors of 512 bytes.
pub const SPACE_END: u64 = 1 << 61;
/// Where the checksum of a sealed block lies. In a node it is the footer's last field, `next` of F2FS.
pub const CHECKSUM_OFFSET: usize = 4092;

/// The checksum of a block: over the seed, the block's own address (8 bytes, little-endian), and everything before
/// [`CHECKSUM_OFFSET`].
pub fn block_checksum(block: &Block, seed: u32, lba: Lba) -> u32 {
    f2fs_crc(f2fs_crc(seed, &lba.get().to_le_bytes()), &block[..CHECKSUM_OFFSET])
}

/// Stores the checksum of a block that is to be written at `lba`.
pub fn seal(block: &mut Block, seed: u32, lba: Lba) {
    let checksum = block_checksum(block, seed, lba);
    block[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
}

/// The checksum that a block carries.
pub fn stored_checksum(block: &Block) -> u32 {
    let [.., a, b, c, d] = *block;
    u32::from_le_bytes([a, b, c, d])
}

/// Compares the checksum of a block that was read at `lba`: whole, of this volume, and written for this place.
///
/// # Errors
/// [`FormatError::Checksum`] if it differs, with the name of the structure.
pub fn verify(structure: &'static str, block: &Block, seed: u32, lba: Lba) -> Result<(), FormatError> {
    let (stored, computed) = (stored_checksum(block), block_checksum(block, seed, lba));
    if stored == computed { Ok(()) } else { Err(FormatError::Checksum { structure, stored, computed }) }
}
