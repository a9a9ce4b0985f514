//! The node address table: node id -> block. Format section 4.
//!
//! [`NatBlock`] is a block of an F2FS volume. [`entry`], [`entries`] and [`set_entry`] read and write blocks of either
//! width of addresses.

use crate::block::{Block, BlockView};
use crate::{Ino, Lba, Nid, Width};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries in a NAT block of an F2FS volume; the last byte of the block is unused.
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

/// Entry `index` of a NAT block: version (1 byte), inode number (4), address (4 or 8).
///
/// # Panics
/// If `index` is not below [`Width::nat_entries`].
pub fn entry(block: &Block, width: Width, index: usize) -> NatEntry {
    let size = width.nat_entry_bytes();
    decode(&block[index * size..(index + 1) * size])
}

/// All entries of a NAT block, in order.
pub fn entries(block: &Block, width: Width) -> impl ExactSizeIterator<Item = NatEntry> + '_ {
    block.chunks_exact(width.nat_entry_bytes()).map(decode)
}

/// Changes entry `index` of a NAT block.
///
/// # Panics
/// If `index` is not below [`Width::nat_entries`], or for an address that a volume of this width cannot have.
pub fn set_entry(block: &mut Block, width: Width, index: usize, entry: NatEntry) {
    assert!(width.holds(entry.lba), "{:?} is no address of a volume of this width", entry.lba);
    let size = width.nat_entry_bytes();
    let bytes = &mut block[index * size..(index + 1) * size];
    bytes[0] = entry.version;
    bytes[1..5].copy_from_slice(&entry.ino.get().to_le_bytes());
    bytes[5..].copy_from_slice(&entry.lba.get().to_le_bytes()[..width.bytes()]);
}

/// An entry from its 9 or 13 bytes.
pub(crate) fn decode(bytes: &[u8]) -> NatEntry {
    // Each width by itself: a copy of a number of bytes takes the mount of a large volume longer.
    let (version, ino, lba) = match *bytes {
        [version, a, b, c, d, s, t, u, v] => (version, [a, b, c, d], u64::from(u32::from_le_bytes([s, t, u, v]))),
        [version, a, b, c, d, s, t, u, v, w, x, y, z] => {
            (version, [a, b, c, d], u64::from_le_bytes([s, t, u, v, w, x, y, z]))
        }
        _ => unreachable!("an entry has 9 or 13 bytes"),
    };
    NatEntry { version, ino: Ino(u32::from_le_bytes(ino)), lba: Lba(lba) }
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

    #[test]
    fn wide_entries_have_13_bytes() {
        let mut block = zeroed_block();
        let last = NatEntry { version: 9, ino: Ino(0x0102), lba: Lba(0x1020_3040_5060_7080) };
        set_entry(&mut block, Width::Eight, 314, last);
        assert_eq!(block[4082..], [9, 2, 1, 0, 0, 0x80, 0x70, 0x60, 0x50, 0x40, 0x30, 0x20, 0x10, 0]);
        assert_eq!((entry(&block, Width::Eight, 314), entries(&block, Width::Eight).len()), (last, 315));
        assert!(std::panic::catch_unwind(move || set_entry(&mut block, Width::Four, 0, last)).is_err());
    }

    proptest! {
        #[test]
        fn either_width_reads_any_block_and_writes_it_back(bytes in prop::collection::vec(any::<u8>(), 4096)) {
            let mut block = zeroed_block();
            block.copy_from_slice(&bytes);
            let narrow: Vec<_> = entries(&block, Width::Four).collect();
            prop_assert_eq!(&narrow, &NatBlock::view(&block).iter().collect::<Vec<_>>());
            for width in Width::ALL {
                let mut again = block;
                for (index, found) in entries(&block, width).enumerate() {
                    prop_assert_eq!(entry(&block, width, index), found);
                    if width.holds(found.lba) {
                        set_entry(&mut again, width, index, found);
                    }
                }
                prop_assert_eq!(&again[..], &block[..]);
            }
        }

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
