//! The unit of everything: a block of 4096 bytes, and the fixed number of blocks in a segment.
//!
//! F2FS allows other block sizes in newer kernels; this crate speaks 4 KiB blocks only, and the superblock check
//! refuses anything else before any other code runs.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a block.
pub const BLOCK_SIZE: usize = 4096;
/// Base-2 logarithm of [`BLOCK_SIZE`].
pub const LOG_BLOCK_SIZE: u32 = 12;
/// Blocks in a segment.
pub const BLOCKS_PER_SEG: u32 = 512;
/// Base-2 logarithm of [`BLOCKS_PER_SEG`].
pub const LOG_BLOCKS_PER_SEG: u32 = 9;
/// Bytes in a segment (2 MiB).
pub const SEG_BYTES: u64 = BLOCK_SIZE as u64 * BLOCKS_PER_SEG as u64;

/// The bytes of one block.
pub type Block = [u8; BLOCK_SIZE];

/// A block of zeros.
pub const fn zeroed_block() -> Block {
    [0; BLOCK_SIZE]
}

/// A raw structure that fills exactly one block and can be viewed in place.
///
/// The size is checked when the program is compiled, so a view never fails: any bytes are a valid raw structure.
pub trait BlockView: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// Looks at a block as this structure.
    fn view(block: &Block) -> &Self {
        const { assert!(size_of::<Self>() == BLOCK_SIZE) };
        match Self::ref_from_bytes(block) {
            Ok(view) => view,
            Err(_) => unreachable!("the structure is one block long and unaligned"),
        }
    }

    /// Looks at a block as this structure, for changing it.
    fn view_mut(block: &mut Block) -> &mut Self {
        const { assert!(size_of::<Self>() == BLOCK_SIZE) };
        match Self::mut_from_bytes(block) {
            Ok(view) => view,
            Err(_) => unreachable!("the structure is one block long and unaligned"),
        }
    }

    /// The bytes of this structure as a block of their own.
    fn to_block(&self) -> Block {
        const { assert!(size_of::<Self>() == BLOCK_SIZE) };
        let mut block = zeroed_block();
        block.copy_from_slice(self.as_bytes());
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::little_endian::U32;

    #[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
    #[repr(C)]
    struct Words([U32; 1024]);
    impl BlockView for Words {}

    #[test]
    fn a_view_reads_and_writes_the_block_itself() {
        let mut block = zeroed_block();
        Words::view_mut(&mut block).0[1] = U32::new(0x0403_0201);
        assert_eq!(block[..9], [0, 0, 0, 0, 1, 2, 3, 4, 0]);
        assert_eq!(Words::view(&block).0[1].get(), 0x0403_0201);
        assert_eq!(Words::view(&block).to_block(), block);
    }
}
