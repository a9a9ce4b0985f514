//! Claims: what a mount may write before its first checkpoint.
//!
//! A checkpoint's limits are those of the mount that wrote it. A later mount has to write before it can commit a
//! checkpoint of its own, and a crash may end it there. So it first claims the next piece of every log, in a block that
//! no pack uses. The next mount goes on behind the claim, and knows that what lies before may have been written.

use super::{Header, Stretch, SuperBlock};
use crate::Lba;
use crate::block::{BLOCKS_PER_SEG, Block, zeroed_block};
use crate::error::{FormatError, require};

const CLAIM: &str = "claim";
const CLAIM_MAGIC: [u8; 8] = *b"IPLFCLAM";
/// Where the limits stand.
const LIMITS: usize = 16;
const END: usize = LIMITS + 8 * Stretch::COUNT;

/// New limits under an old checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The version of the checkpoint in force.
    pub version: u64,
    /// The limits that count instead of the checkpoint's, in the order of [`Stretch::ALL`].
    pub limits: [Lba; Stretch::COUNT],
}

impl Claim {
    /// The two places of claims: the last block of each pack's segment.
    pub fn places(sb: &SuperBlock) -> [Lba; 2] {
        let segment = u64::from(BLOCKS_PER_SEG);
        [sb.layout().cp + (segment - 1), sb.layout().cp + (2 * segment - 1)]
    }

    /// The claim as a block for one of the places, sealed.
    pub fn encode(&self, sb: &SuperBlock, lba: Lba) -> Block {
        let mut block = zeroed_block();
        block[..8].copy_from_slice(&CLAIM_MAGIC);
        block[8..LIMITS].copy_from_slice(&self.version.to_le_bytes());
        for (place, limit) in block[LIMITS..END].chunks_exact_mut(8).zip(&self.limits) {
            place.copy_from_slice(&limit.get().to_le_bytes());
        }
        super::seal(&mut block, sb.seed(), lba);
        block
    }

    /// Reads a claim for a checkpoint. `None` if the block holds none, or one for another checkpoint.
    ///
    /// # Errors
    /// The first field of a whole claim that breaks a rule.
    pub fn parse(sb: &SuperBlock, header: &Header, block: &Block, lba: Lba) -> Result<Option<Self>, FormatError> {
        if super::verify(CLAIM, block, sb.seed(), lba).is_err() || block[..8] != CLAIM_MAGIC {
            return Ok(None);
        }
        let number = |at: usize| block[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let version = number(8);
        if version != header.version {
            return Ok(None);
        }
        let limits: [Lba; Stretch::COUNT] = std::array::from_fn(|index| Lba(number(LIMITS + 8 * index)));
        for ((stretch, head), limit) in Stretch::ALL.into_iter().zip(&header.heads).zip(limits) {
            let right = head.limit <= limit && limit <= sb.space().range(stretch).end;
            require(right, CLAIM, "limits", limit.get(), "lies in its log, at or behind the checkpoint's")?;
        }
        let zero = block[END..super::CHECKSUM_OFFSET].iter().all(|byte| *byte == 0);
        require(zero, CLAIM, "reserved", 1u32, "is 0")?;
        Ok(Some(Self { version, limits }))
    }

    /// Of two claims for one checkpoint, the later one: its limits lie further on.
    pub fn later(one: Option<Self>, two: Option<Self>) -> Option<Self> {
        match (one, two) {
            (Some(one), Some(two)) => Some(if one.limits < two.limits { two } else { one }),
            (one, two) => one.or(two),
        }
    }
}
