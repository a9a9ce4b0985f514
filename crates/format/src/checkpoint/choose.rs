//! Which of the two packs is the volume's state. Format section 3.4.
//!
//! A pack is whole if its first and its last block have good checksums and the same version: the last block is written
//! after a flush, so a half-written pack shows a bad checksum or two versions.

use super::CheckpointHeader;
use crate::Pack;
use crate::block::{BLOCKS_PER_SEG, Block};
use crate::error::{FormatError, require};

/// Checks the first block of a pack and tells where, counted from it, the last one is.
///
/// # Errors
/// A bad checksum, or a number of blocks that no pack has.
pub fn last_block_of(first: &Block) -> Result<u32, FormatError> {
    let blocks = CheckpointHeader::verify(first)?.pack_blocks();
    let sane = blocks > 2 && blocks <= BLOCKS_PER_SEG;
    require(sane, "checkpoint", "cp_pack_total_block_count", blocks, "is more than 2 and at most 512")?;
    Ok(blocks - 1)
}

/// Checks that first and last block belong together, and returns the version of the pack.
///
/// # Errors
/// A bad checksum, or different versions: the pack was not written to its end.
pub fn pack_version(first: &Block, last: &Block) -> Result<u64, FormatError> {
    let version = CheckpointHeader::verify(first)?.version();
    let end = CheckpointHeader::verify(last)?.version();
    require(
        version == end,
        "checkpoint",
        "checkpoint_ver",
        end,
        "is the same in the first and last block of the pack",
    )?;
    Ok(version)
}

/// The pack in force, from what [`pack_version`] said of each: the younger one, pack 1 of two of the same age.
///
/// # Errors
/// [`FormatError::NoCheckpoint`] if neither is whole.
pub fn choose_pack(one: Result<u64, FormatError>, two: Result<u64, FormatError>) -> Result<Pack, FormatError> {
    match (one, two) {
        // Versions wrap: the younger one is ahead by less than half the range.
        (Ok(one), Ok(two)) if two.wrapping_sub(one) as i64 > 0 => Ok(Pack::Two),
        (Ok(_), _) => Ok(Pack::One),
        (Err(_), Ok(_)) => Ok(Pack::Two),
        (Err(first), Err(second)) => Err(FormatError::NoCheckpoint { first: first.into(), second: second.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockView, zeroed_block};
    use crate::checkpoint::header::CHECKSUM_OFFSET;
    use proptest::prelude::*;

    fn block(version: u64, blocks: u32) -> Block {
        let mut header = CheckpointHeader::empty();
        header.set_checksum_offset(CHECKSUM_OFFSET);
        header.set_version(version);
        header.set_pack_blocks(blocks);
        header.seal();
        header.to_block()
    }

    #[test]
    fn only_a_whole_pack_has_a_version() {
        assert_eq!(last_block_of(&block(1, 6)), Ok(5));
        assert!(last_block_of(&block(1, 2)).is_err() && last_block_of(&block(1, 513)).is_err());
        assert_eq!(pack_version(&block(7, 6), &block(7, 6)), Ok(7));
        assert!(pack_version(&block(7, 6), &block(6, 6)).is_err());
        let mut torn = block(7, 6);
        torn[2000] ^= 1;
        assert!(matches!(pack_version(&block(7, 6), &torn), Err(FormatError::Checksum { .. })));
        assert!(pack_version(&zeroed_block(), &zeroed_block()).is_err());
    }

    #[test]
    fn the_younger_pack_wins_and_a_tie_goes_to_the_first() {
        let bad = || Err(FormatError::Refused("bad".to_owned()));
        assert_eq!(choose_pack(Ok(5), Ok(6)), Ok(Pack::Two));
        assert_eq!(choose_pack(Ok(6), Ok(5)), Ok(Pack::One));
        assert_eq!(choose_pack(Ok(5), Ok(5)), Ok(Pack::One));
        assert_eq!(choose_pack(Ok(u64::MAX), Ok(0)), Ok(Pack::Two));
        assert_eq!(choose_pack(bad(), Ok(0)), Ok(Pack::Two));
        assert_eq!(choose_pack(Ok(0), bad()), Ok(Pack::One));
        assert!(choose_pack(bad(), bad()).is_err());
    }

    proptest! {
        #[test]
        fn any_block_is_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 4096), offset in 0u32..5000) {
            let mut block = zeroed_block();
            block.copy_from_slice(&bytes);
            CheckpointHeader::view_mut(&mut block).set_checksum_offset(offset as usize);
            let _ = CheckpointHeader::view(&block).stored_checksum();
            prop_assert!(last_block_of(&block).is_err() || offset >= 192);
        }
    }
}
