//! The node address table: node id -> block. Format section 4.

use crate::block::BlockView;
use crate::{Ino, Lba, Nid};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries in a NAT block; the last byte of the block is unused.
pub const ENTRIES_PER_BLOCK: usize = 455;

/// The bytes of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNatEntry {
    /// Incremented when a node with this id is freed.
    pub version: u8,
    /// Inode number of the file that owns the node.
    pub ino: U32,
    /// Where the node is; 0 for a free id.
    pub block_addr: U32,
}

const _: () = assert!(size_of::<RawNatEntry>() == 9);

/// An entry as the program handles it. Free ids keep their version, and may keep an old `ino`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatEntry {
    /// Incremented when a node with this id is freed; data summaries carry a copy.
    pub version: u8,
    /// Inode number of the file that owns the node.
    pub ino: Ino,
    /// Where the node is; block 0 means that the id is free.
    pub lba: Lba,
}

impl NatEntry {
    /// The entry of the two reserved ids 1 and 2: themselves, at block 1.
    pub const fn reserved(nid: Nid) -> Self {
        Self { version: 0, ino: nid.as_ino(), lba: Lba(1) }
    }

    /// Whether the id is free.
    pub const fn is_free(&self) -> bool {
        self.lba.0 == 0
    }
}

impl From<RawNatEntry> for NatEntry {
    fn from(raw: RawNatEntry) -> Self {
        Self { version: raw.version, ino: Ino(raw.ino.get()), lba: Lba::from_disk(raw.block_addr.get()) }
    }
}

impl From<NatEntry> for RawNatEntry {
    /// Panics as [`Lba::to_disk`].
    fn from(entry: NatEntry) -> Self {
        Self { version: entry.version, ino: entry.ino.get().into(), block_addr: entry.lba.to_disk().into() }
    }
}

/// A NAT block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NatBlock {
    entries: [RawNatEntry; ENTRIES_PER_BLOCK],
    /// Not used by anyone; kept as found.
    spare: u8,
}

impl BlockView for NatBlock {}

impl NatBlock {
    /// A block of free ids.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Entry `index` of the block.
    ///
    /// # Panics
    /// If `index` is not below [`ENTRIES_PER_BLOCK`].
    pub fn get(&self, index: usize) -> NatEntry {
        self.entries[index].into()
    }

    /// Changes entry `index` of the block.
    ///
    /// # Panics
    /// If `index` is not below [`ENTRIES_PER_BLOCK`]; as [`Lba::to_disk`].
    pub fn set(&mut self, index: usize, entry: NatEntry) {
        self.entries[index] = entry.into();
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = NatEntry> + '_ {
        self.entries.iter().map(|&raw| raw.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use proptest::prelude::*;

    #[test]
    fn entries_lie_where_the_format_says() {
        let mut block = zeroed_block();
        NatBlock::view_mut(&mut block).set(2, NatEntry { version: 7, ino: Ino(0x0102), lba: Lba(0x0304) });
        assert_eq!(block[18..27], [7, 2, 1, 0, 0, 4, 3, 0, 0]);
        assert!(NatBlock::view(&block).get(1).is_free() && !NatBlock::view(&block).get(2).is_free());
        assert_eq!(NatEntry::reserved(Nid(2)), NatEntry { version: 0, ino: Ino(2), lba: Lba(1) });
    }

    proptest! {
        #[test]
        fn any_block_decodes_and_encodes_back(bytes in prop::collection::vec(any::<u8>(), 4096)) {
            let mut block = zeroed_block();
            block.copy_from_slice(&bytes);
            let nat = NatBlock::view(&block);
            let mut again = NatBlock::zeroed();
            for (index, entry) in nat.iter().enumerate() {
                // Addresses 2^32 - 1 and - 2 never belong on a disk; they decode, but there is no way to write them.
                if entry.lba.try_to_disk().is_some() {
                    again.set(index, entry);
                    prop_assert_eq!(again.get(index), nat.get(index));
                }
            }
        }
    }
}
