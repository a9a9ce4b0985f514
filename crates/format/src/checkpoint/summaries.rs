//! The data summaries of a pack in their two forms, normal and compact. Format section 3.5.
//!
//! Compact: the NAT journal, the SIT journal, then the entries of the three logs back to back, as many of each as the
//! log has allocated (all 512 of a log that fills holes). Entries never straddle a block, and the last five bytes of a
//! block stay free.

use super::LogPosition;
use crate::AllocType;
use crate::block::{BLOCKS_PER_SEG, Block, BlockView, zeroed_block};
use crate::error::{FormatError, require};
use crate::journal::{JOURNAL_BYTES, Journal};
use crate::summary::{RawSummary, SUMMARY_BYTES, Summary, SummaryBlock, SummaryKind};
use zerocopy::{FromBytes, IntoBytes};

/// Entries in the first compact block, behind the journals.
const IN_FIRST: usize = (BLOCK_END - 2 * JOURNAL_BYTES) / SUMMARY_BYTES;
/// Entries in the second compact block.
const IN_SECOND: usize = BLOCK_END / SUMMARY_BYTES;
/// Where the footer of a normal summary block would begin.
const BLOCK_END: usize = 4091;

const _: () = assert!(IN_FIRST == 439 && IN_SECOND == 584);

/// Entries that a log contributes to the compact form.
fn entries_of(log: LogPosition) -> usize {
    match log.alloc {
        AllocType::Lfs => usize::from(log.next).min(BLOCKS_PER_SEG as usize),
        AllocType::Ssr => BLOCKS_PER_SEG as usize,
    }
}

/// Blocks of the compact form for data logs at these positions; `None` if it has no room for them.
pub fn compact_blocks(logs: [LogPosition; 3]) -> Option<usize> {
    match logs.into_iter().map(entries_of).sum() {
        0..=IN_FIRST => Some(1),
        entries if entries <= IN_FIRST + IN_SECOND => Some(2),
        _ => None,
    }
}

/// The place (block, byte) of each entry of the compact form, in order.
fn places() -> impl Iterator<Item = (usize, usize)> {
    let first = (0..IN_FIRST).map(|n| (0, 2 * JOURNAL_BYTES + n * SUMMARY_BYTES));
    first.chain((0..IN_SECOND).map(|n| (1, n * SUMMARY_BYTES)))
}

/// Writes the summaries of the hot, warm and cold data logs: compact if they fit, else one block each.
pub fn encode_data_summaries(summaries: &[SummaryBlock; 3], logs: [LogPosition; 3]) -> (bool, Vec<Block>) {
    let Some(count) = compact_blocks(logs) else {
        return (false, summaries.iter().map(BlockView::to_block).collect());
    };
    let mut blocks = vec![zeroed_block(); count];
    blocks[0][..JOURNAL_BYTES].copy_from_slice(summaries[0].journal.as_bytes());
    blocks[0][JOURNAL_BYTES..2 * JOURNAL_BYTES].copy_from_slice(summaries[2].journal.as_bytes());
    let entries = summaries.iter().zip(logs).flat_map(|(summary, log)| summary.iter().take(entries_of(log)));
    for (entry, (block, at)) in entries.zip(places()) {
        blocks[block][at..at + SUMMARY_BYTES].copy_from_slice(RawSummary::from(entry).as_bytes());
    }
    (true, blocks)
}

/// Reads the summaries of the hot, warm and cold data logs. Entries that the compact form leaves out are blank.
///
/// # Errors
/// If the number of blocks is not the one that the form needs, or a normal block is not one of data.
pub fn decode_data_summaries(
    blocks: &[Block],
    compact: bool,
    logs: [LogPosition; 3],
) -> Result<[SummaryBlock; 3], FormatError> {
    let needed = if compact { compact_blocks(logs) } else { Some(3) };
    let right = needed == Some(blocks.len());
    require(right, "data summaries", "blocks", blocks.len() as u64, "is 3, or what the compact form needs")?;
    let mut summaries = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Data));
    if !compact {
        for (summary, block) in summaries.iter_mut().zip(blocks) {
            let found = SummaryBlock::view(block);
            require(found.kind()? == SummaryKind::Data, "data summary", "entry_type", block[BLOCK_END], "is 0 (data)")?;
            *summary = found.clone();
        }
        return Ok(summaries);
    }
    let journal = |at: usize| Journal::read_from_bytes(&blocks[0][at..at + JOURNAL_BYTES]).unwrap_or_default();
    summaries[0].journal = journal(0);
    summaries[2].journal = journal(JOURNAL_BYTES);
    let mut places = places();
    for (summary, log) in summaries.iter_mut().zip(logs) {
        for (offset, (block, at)) in places.by_ref().take(entries_of(log)).enumerate() {
            let raw = RawSummary::read_from_bytes(&blocks[block][at..at + SUMMARY_BYTES]).unwrap_or_default();
            summary.set(offset as u16, Summary::from(raw));
        }
    }
    Ok(summaries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nid, SegNo};
    use proptest::prelude::*;

    fn logs(next: [u16; 3], ssr: [bool; 3]) -> [LogPosition; 3] {
        [0, 1, 2].map(|i| LogPosition {
            segment: SegNo(i as u32),
            next: next[i],
            alloc: if ssr[i] { AllocType::Ssr } else { AllocType::Lfs },
        })
    }

    #[test]
    fn the_form_follows_the_number_of_entries() {
        assert_eq!(compact_blocks(logs([0, 0, 0], [false; 3])), Some(1));
        assert_eq!(compact_blocks(logs([400, 39, 0], [false; 3])), Some(1));
        assert_eq!(compact_blocks(logs([400, 40, 0], [false; 3])), Some(2));
        assert_eq!(compact_blocks(logs([511, 511, 1], [false; 3])), Some(2));
        assert_eq!(compact_blocks(logs([511, 511, 2], [false; 3])), None);
        assert_eq!(compact_blocks(logs([0, 0, 0], [true, true, false])), None);
        assert_eq!(compact_blocks(logs([0, 0, 0], [true, false, false])), Some(2));
    }

    proptest! {
        #[test]
        fn both_forms_survive_the_round_trip(next in [0u16..512, 0u16..512, 0u16..512], ssr: [bool; 3], seed: u32) {
            let logs = logs(next, ssr);
            let mut summaries = [(); 3].map(|()| SummaryBlock::new(SummaryKind::Data));
            for (number, (summary, log)) in summaries.iter_mut().zip(logs).enumerate() {
                for offset in 0..entries_of(log) as u16 {
                    let nid = Nid(seed.wrapping_mul(offset.into()).wrapping_add(number as u32));
                    summary.set(offset, Summary { nid, version: offset as u8, ofs_in_node: !offset });
                }
            }
            summaries[0].journal = Journal::from_kbytes_written(seed.into());
            summaries[2].journal = Journal::from_kbytes_written(!u64::from(seed));
            let (compact, blocks) = encode_data_summaries(&summaries, logs);
            let total: usize = logs.into_iter().map(entries_of).sum();
            prop_assert_eq!((compact, blocks.len()), (total <= 1023, if total <= 439 { 1 } else if total <= 1023 { 2 } else { 3 }));
            prop_assert_eq!(decode_data_summaries(&blocks, compact, logs), Ok(summaries));
        }

        #[test]
        fn any_blocks_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 4096), count in 0usize..4, compact: bool, next: [u16; 3], ssr: [bool; 3]) {
            let mut block = zeroed_block();
            block.copy_from_slice(&bytes);
            let _ = decode_data_summaries(&vec![block; count], compact, logs(next, ssr));
        }
    }
}
