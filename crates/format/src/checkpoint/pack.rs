//! The order of a pack's blocks, for reading and for writing. Format section 3.

use super::{Checkpoint, CpFlags, encode_data_summaries};
use crate::Ino;
use crate::block::{BLOCKS_PER_SEG, Block, BlockView};
use crate::error::FormatError;
use crate::orphan::encode_orphans;
use crate::summary::SummaryBlock;
use std::ops::Range;

/// Where the parts of a pack are, counted in blocks from its first block, which is the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackMap {
    /// Payload.
    pub payload: Range<u32>,
    /// Orphan blocks.
    pub orphans: Range<u32>,
    /// Data summaries: one or two compact blocks, or three normal ones.
    pub data_summaries: Range<u32>,
    /// Node summaries: three, or none.
    pub node_summaries: Range<u32>,
    /// The header again.
    pub last: u32,
}

impl Checkpoint {
    /// Where the parts of this checkpoint's pack are. Orphan blocks count only with their flag.
    pub fn pack_map(&self) -> PackMap {
        let header = self.header();
        let last = header.pack_blocks() - 1;
        let nodes_at = if header.has_node_summaries() { last - 3 } else { last };
        let payload = 1..1 + self.payload().len() as u32;
        let has_orphans = header.flags().contains(CpFlags::ORPHAN);
        PackMap {
            orphans: payload.end..if has_orphans { header.start_sum() } else { payload.end },
            payload,
            data_summaries: header.start_sum()..nodes_at,
            node_summaries: nodes_at..last,
            last,
        }
    }

    /// Lays out the pack of this checkpoint, first block to last; the last one must be written after a flush of all
    /// others.
    ///
    /// Sets the flags ORPHAN and COMPACT_SUM, the pack's counts, and the checksum. Node summaries must be given exactly
    /// if the flag UMOUNT or FASTBOOT is set.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] if there are too many orphans.
    ///
    /// # Panics
    /// If node summaries and flags contradict each other.
    pub fn encode_pack(
        &mut self,
        orphans: &[Ino],
        data: &[SummaryBlock; 3],
        nodes: Option<&[SummaryBlock; 3]>,
    ) -> Result<Vec<Block>, FormatError> {
        assert_eq!(nodes.is_some(), self.header().has_node_summaries(), "node summaries go with UMOUNT or FASTBOOT");
        let orphan_blocks = encode_orphans(orphans);
        let (compact, data_blocks) = encode_data_summaries(data, self.data_logs());
        let start_sum = 1 + self.payload().len() + orphan_blocks.len();
        let node_blocks = nodes.map_or(Vec::new(), |nodes| nodes.iter().map(BlockView::to_block).collect());
        let total = start_sum + data_blocks.len() + node_blocks.len() + 1;
        // Room for all summaries is kept even where the compact form needs less, as Linux does.
        let free = BLOCKS_PER_SEG as usize - 7;
        if start_sum > free {
            return Err(FormatError::NoRoom { structure: "checkpoint pack", need: start_sum, free });
        }
        let header = self.header_mut();
        let kept = header.flags().difference(CpFlags::ORPHAN | CpFlags::COMPACT_SUM);
        let orphan = if orphans.is_empty() { CpFlags::NONE } else { CpFlags::ORPHAN };
        header.set_flags(kept | orphan | if compact { CpFlags::COMPACT_SUM } else { CpFlags::NONE });
        header.set_start_sum(start_sum as u32);
        header.set_pack_blocks(total as u32);
        header.seal();
        let mut pack = self.blocks.clone();
        pack.extend(orphan_blocks);
        pack.extend(data_blocks);
        pack.extend(node_blocks);
        pack.push(self.blocks[0]);
        assert_eq!(pack.len(), total, "the pack has the blocks that its header counts");
        Ok(pack)
    }
}
