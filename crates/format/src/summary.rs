//! Summaries: for each block of a segment, which node and which slot of it point at the block. Format sections 3.5
//! and 6.
//!
//! The same 4096 bytes serve as a block of the SSA and as a summary block in a checkpoint pack, where the journal area
//! is used too.

use crate::Nid;
use crate::block::{BLOCKS_PER_SEG, BlockView};
use crate::error::FormatError;
use crate::journal::Journal;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of one raw entry.
pub const SUMMARY_BYTES: usize = 7;

/// The bytes of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSummary {
    nid: U32,
    version: u8,
    ofs_in_node: U16,
}

const _: () = assert!(size_of::<RawSummary>() == SUMMARY_BYTES);

/// Who points at a block. Node blocks carry their own id, version 0 and slot 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The inode or direct node whose slot holds the address; for a node block the node itself.
    pub nid: Nid,
    /// NAT version of that node id at the time of writing.
    pub version: u8,
    /// Index of the slot in the node's file addresses (in an inode: counted after the extra attributes).
    pub ofs_in_node: u16,
}

impl Summary {
    /// The summary of a node block.
    pub const fn of_node(nid: Nid) -> Self {
        Self { nid, version: 0, ofs_in_node: 0 }
    }
}

impl From<RawSummary> for Summary {
    fn from(raw: RawSummary) -> Self {
        Self { nid: Nid(raw.nid.get()), version: raw.version, ofs_in_node: raw.ofs_in_node.get() }
    }
}

impl From<Summary> for RawSummary {
    fn from(summary: Summary) -> Self {
        Self { nid: summary.nid.get().into(), version: summary.version, ofs_in_node: summary.ofs_in_node.into() }
    }
}

/// What the blocks of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SummaryKind {
    /// File data and directory blocks.
    Data = 0,
    /// Nodes.
    Node = 1,
}

/// A summary block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SummaryBlock {
    entries: [RawSummary; BLOCKS_PER_SEG as usize],
    /// The journal area; meaningful only in a checkpoint pack.
    pub journal: Journal,
    entry_type: u8,
    check_sum: U32,
}

impl BlockView for SummaryBlock {}

impl SummaryBlock {
    /// A summary block without entries.
    pub fn new(kind: SummaryKind) -> Self {
        let mut block = Self::new_zeroed();
        block.entry_type = kind as u8;
        block
    }

    /// What the segment's blocks are.
    ///
    /// # Errors
    /// If the footer has another type.
    pub fn kind(&self) -> Result<SummaryKind, FormatError> {
        match self.entry_type {
            0 => Ok(SummaryKind::Data),
            1 => Ok(SummaryKind::Node),
            other => Err(FormatError::field("summary block", "entry_type", other, "is 0 (data) or 1 (node)")),
        }
    }

    /// Changes what the segment's blocks are.
    pub fn set_kind(&mut self, kind: SummaryKind) {
        self.entry_type = kind as u8;
    }

    /// The entry of the block at `offset` of the segment.
    ///
    /// # Panics
    /// If `offset` is not below 512.
    pub fn get(&self, offset: u16) -> Summary {
        self.entries[usize::from(offset)].into()
    }

    /// Changes the entry of the block at `offset` of the segment.
    ///
    /// # Panics
    /// If `offset` is not below 512.
    pub fn set(&mut self, offset: u16, summary: Summary) {
        self.entries[usize::from(offset)] = summary.into();
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Summary> + '_ {
        self.entries.iter().map(|&raw| raw.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_format_says() {
        let mut block = zeroed_block();
        let view = SummaryBlock::view_mut(&mut block);
        view.set(1, Summary { nid: Nid(0x0102), version: 3, ofs_in_node: 0x0405 });
        view.set_kind(SummaryKind::Node);
        view.journal = Journal::from_kbytes_written(9);
        assert_eq!(block[7..14], [2, 1, 0, 0, 3, 5, 4]);
        assert_eq!((block[3586], block[4091]), (9, 1));
        assert_eq!(SummaryBlock::view(&block).kind(), Ok(SummaryKind::Node));
    }

    proptest! {
        #[test]
        fn any_block_decodes_and_encodes_back(bytes in prop::collection::vec(any::<u8>(), 4096)) {
            let mut block = zeroed_block();
            block.copy_from_slice(&bytes);
            let view = SummaryBlock::view(&block);
            let mut again = view.clone();
            for offset in 0..512 {
                again.set(offset, view.get(offset));
            }
            prop_assert_eq!(again.to_block(), block);
            prop_assert_eq!(view.kind().is_ok(), bytes[4091] < 2);
        }
    }
}
