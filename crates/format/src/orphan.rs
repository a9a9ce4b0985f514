//! Orphan blocks: inodes without a name that were still open at a checkpoint. Format section 13.

use crate::Ino;
use crate::block::{Block, BlockView};
use crate::error::{FormatError, require};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Inode numbers in an orphan block.
pub const ORPHANS_PER_BLOCK: usize = 1020;

/// The bytes of an orphan block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OrphanBlock {
    ino: [U32; ORPHANS_PER_BLOCK],
    reserved: U32,
    /// Number of this block among the orphan blocks, from 1.
    blk_addr: U16,
    /// How many orphan blocks there are.
    blk_count: U16,
    /// Inode numbers in this block.
    entry_count: U32,
    check_sum: U32,
}

impl BlockView for OrphanBlock {}

impl OrphanBlock {
    /// The inode numbers of this block.
    ///
    /// # Errors
    /// If the count is larger than a block holds.
    pub fn inos(&self) -> Result<impl ExactSizeIterator<Item = Ino> + '_, FormatError> {
        let count = self.entry_count.get();
        require(count as usize <= ORPHANS_PER_BLOCK, "orphan block", "entry_count", count, "is at most 1020")?;
        Ok(self.ino[..count as usize].iter().map(|ino| Ino(ino.get())))
    }
}

/// The orphan blocks of a pack for these inodes: as many as needed, none for none.
pub fn encode_orphans(inos: &[Ino]) -> Vec<Block> {
    let count = inos.len().div_ceil(ORPHANS_PER_BLOCK);
    assert!(count <= usize::from(u16::MAX), "a checkpoint pack has room for some 500 orphan blocks");
    let blocks = inos.chunks(ORPHANS_PER_BLOCK).enumerate().map(|(index, inos)| {
        let mut block = OrphanBlock::new_zeroed();
        for (slot, ino) in block.ino.iter_mut().zip(inos) {
            *slot = ino.get().into();
        }
        block.blk_addr = (index as u16 + 1).into();
        block.blk_count = (count as u16).into();
        block.entry_count = (inos.len() as u32).into();
        block.to_block()
    });
    blocks.collect()
}

/// The inodes listed in the orphan blocks of a pack.
///
/// # Errors
/// If a count is larger than a block holds.
pub fn decode_orphans<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Result<Vec<Ino>, FormatError> {
    let mut inos = Vec::new();
    for block in blocks {
        inos.extend(OrphanBlock::view(block).inos()?);
    }
    Ok(inos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_format_says() {
        let blocks = encode_orphans(&(0..1021).map(|n| Ino(n + 4)).collect::<Vec<_>>());
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[1][..8], [0, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(blocks[1][4084..], [2, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn lists_survive_the_round_trip(numbers in prop::collection::vec(any::<u32>(), 0..3000)) {
            let inos: Vec<Ino> = numbers.into_iter().map(Ino).collect();
            prop_assert_eq!(decode_orphans(&encode_orphans(&inos)).unwrap(), inos);
        }

        #[test]
        fn a_count_beyond_the_block_is_refused(count in 1021u32..) {
            let mut block = OrphanBlock::new_zeroed();
            block.entry_count = count.into();
            prop_assert!(decode_orphans([&block.to_block()]).is_err());
        }
    }
}
