//! The segment information table: how many and which blocks of each main segment are valid. Format section 5.

use crate::block::{BLOCKS_PER_SEG, BlockView};
use crate::error::{FormatError, require};
use crate::{Log, bitmap};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries in a SIT block; the last 26 bytes of the block are unused.
pub const ENTRIES_PER_BLOCK: usize = 55;
/// Bytes of a segment's valid map.
pub const VALID_MAP_BYTES: usize = BLOCKS_PER_SEG as usize / 8;

const COUNT_BITS: u32 = 10;
const COUNT_MASK: u16 = (1 << COUNT_BITS) - 1;

/// The bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SitEntry {
    /// Bits 0 to 9: valid blocks; bits 10 to 15: type of the segment.
    vblocks: U16,
    /// Which blocks are valid, most significant bit first.
    valid_map: [u8; VALID_MAP_BYTES],
    /// Mean age clock of the blocks: seconds of mounted time.
    mtime: U64,
}

const _: () = assert!(size_of::<SitEntry>() == 74);

impl Default for SitEntry {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl SitEntry {
    /// An entry whose count is that of the map.
    pub fn new(log: Log, valid_map: [u8; VALID_MAP_BYTES], mtime: u64) -> Self {
        let count = bitmap::count_ones(&valid_map) as u16;
        Self { vblocks: (u16::from(log.number()) << COUNT_BITS | count).into(), valid_map, mtime: mtime.into() }
    }

    /// The stored number of valid blocks (0 to 1023; a right one is at most 512 and equals the ones of the map).
    pub fn valid_blocks(&self) -> u16 {
        self.vblocks.get() & COUNT_MASK
    }

    /// The stored type (0 to 63; a right one is below 6).
    pub fn raw_type(&self) -> u8 {
        (self.vblocks.get() >> COUNT_BITS) as u8
    }

    /// The log whose blocks the segment holds, or `None` for a type that does not exist.
    pub fn log(&self) -> Option<Log> {
        Log::from_number(self.raw_type())
    }

    /// Which blocks are valid, most significant bit first.
    pub fn valid_map(&self) -> &[u8; VALID_MAP_BYTES] {
        &self.valid_map
    }

    /// Whether the block at `offset` of the segment is valid.
    pub fn is_valid(&self, offset: u16) -> bool {
        bitmap::msb::get(&self.valid_map, usize::from(offset))
    }

    /// Mean age clock of the blocks: seconds of mounted time.
    pub fn mtime(&self) -> u64 {
        self.mtime.get()
    }

    /// Whether the entry says nothing: no valid block, the first type, no time. So all are that mkfs made and nobody
    /// has used.
    pub fn is_blank(&self) -> bool {
        self.as_bytes() == [0; size_of::<Self>()]
    }

    /// Checks that the type exists and that the count is that of the map.
    pub fn validate(&self) -> Result<(), FormatError> {
        require(self.log().is_some(), "SIT entry", "type", self.raw_type(), "is below 6")?;
        let ones = bitmap::count_ones(&self.valid_map);
        require(
            u32::from(self.valid_blocks()) == ones,
            "SIT entry",
            "vblocks",
            self.valid_blocks(),
            "counts the valid map",
        )
    }
}

/// A SIT block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SitBlock {
    entries: [SitEntry; ENTRIES_PER_BLOCK],
    spare: [u8; 26],
}

impl BlockView for SitBlock {}

impl SitBlock {
    /// A block of empty segments.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Entry `index` of the block.
    ///
    /// # Panics
    /// If `index` is not below [`ENTRIES_PER_BLOCK`].
    pub fn get(&self, index: usize) -> &SitEntry {
        &self.entries[index]
    }

    /// Changes entry `index` of the block.
    ///
    /// # Panics
    /// If `index` is not below [`ENTRIES_PER_BLOCK`].
    pub fn set(&mut self, index: usize, entry: SitEntry) {
        self.entries[index] = entry;
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[SitEntry; ENTRIES_PER_BLOCK] {
        &self.entries
    }

    /// As [`SitBlock::entries`], one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SitEntry> + '_ {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use proptest::prelude::*;

    #[test]
    fn entries_lie_where_the_format_says() {
        let mut map = [0; VALID_MAP_BYTES];
        bitmap::msb::put(&mut map, 0, true);
        bitmap::msb::put(&mut map, 511, true);
        let mut block = zeroed_block();
        SitBlock::view_mut(&mut block).set(1, SitEntry::new(Log::ColdNode, map, 0x0102));
        assert_eq!(block[74..77], [2, 5 << 2, 0x80]);
        assert_eq!(block[74 + 65..74 + 69], [1, 2, 1, 0]);
        let entry = SitBlock::view(&block).get(1);
        assert_eq!((entry.valid_blocks(), entry.log(), entry.mtime()), (2, Some(Log::ColdNode), 0x0102));
        assert!(entry.is_valid(511) && !entry.is_valid(510) && !entry.is_valid(u16::MAX));
    }

    proptest! {
        #[test]
        fn a_new_entry_is_right_and_a_wrong_count_is_found(map: [[u8; 32]; 2], log in 0u8..6, mtime: u64, bad in 1u16..1024) {
            let map: [u8; 64] = map.as_flattened().try_into().unwrap();
            let entry = SitEntry::new(Log::from_number(log).unwrap(), map, mtime);
            prop_assert!(entry.validate().is_ok());
            let back = SitEntry::read_from_bytes(entry.as_bytes()).unwrap();
            prop_assert_eq!((back.log().unwrap().number(), *back.valid_map(), back.mtime()), (log, map, mtime));
            let wrong = SitEntry { vblocks: (entry.vblocks.get() ^ bad).into(), ..entry };
            prop_assert!(wrong.validate().is_err());
        }
    }
}
