//! A batch: records in blocks of the warm-node log (J 2).
//!
//! A block has a header of 32 bytes, a piece of the records, and the footer of a node, by which it is a link of the
//! chain. Its checksum covers all of it, so a torn block is none. A batch is whole if all its blocks are in the chain,
//! in order; nodes may lie between two of them, blocks of another batch may not.

use super::Record;
use crate::block::{Block, BlockView, zeroed_block};
use crate::crc::f2fs_crc;
use crate::error::{FormatError, require};
use crate::node::{NODE_PAYLOAD, NodeBlock, NodeFooter, NodeOfs};
use crate::{Ino, Lba, Nid};

const BATCH: &str = "journal batch";
const MAGIC: u32 = u32::from_le_bytes(*b"SFJR");
const VERSION: u8 = 1;
const LAST: u8 = 1;
/// Bytes before the records.
const HEAD: usize = 32;
/// Bytes of records in a block.
pub const PAYLOAD: usize = NODE_PAYLOAD - HEAD;

/// What the header of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBlock {
    /// Number of the batch since the checkpoint, from 1 on.
    pub sequence: u64,
    /// Number of the block in its batch, from 0 on.
    pub number: u32,
    /// Bytes of records in it.
    pub used: u16,
    /// Of the last block: records of the batch, and the checksum of all their bytes.
    pub last: Option<(u32, u32)>,
}

/// The blocks of a batch, which lack the links of the chain and the checksum: [`seal`] adds both. The seed is that of
/// the volume's inode checksums.
///
/// # Panics
/// Without a record.
pub fn encode(sequence: u64, seed: u32, records: &[Record]) -> Vec<Block> {
    assert!(!records.is_empty(), "a batch has records");
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    let whole = f2fs_crc(seed, &bytes);
    let pieces = bytes.chunks(PAYLOAD);
    let count = pieces.len();
    let blocks = pieces.enumerate().map(|(number, piece)| {
        let is_last = number + 1 == count;
        let mut block = zeroed_block();
        block[..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&sequence.to_le_bytes());
        block[16..20].copy_from_slice(&(number as u32).to_le_bytes());
        block[20..22].copy_from_slice(&(piece.len() as u16).to_le_bytes());
        block[22..24].copy_from_slice(&[u8::from(is_last) * LAST, VERSION]);
        if is_last {
            block[24..28].copy_from_slice(&(records.len() as u32).to_le_bytes());
            block[28..32].copy_from_slice(&whole.to_le_bytes());
        }
        block[HEAD..HEAD + piece.len()].copy_from_slice(piece);
        NodeBlock::view_mut(&mut block).footer = NodeFooter::new(Nid(0), Ino(0), NodeOfs::BATCH, true);
        block
    });
    blocks.collect()
}

/// Links a block into the chain, and makes its checksum right. `version` is the version word of footers.
pub fn seal(block: &mut Block, seed: u32, version: u64, next: Lba) {
    NodeBlock::view_mut(block).footer.set_chain(version, next);
    let crc = checksum(block, seed);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(block: &Block, seed: u32) -> u32 {
    f2fs_crc(f2fs_crc(seed, &block[..4]), &block[8..])
}

/// Whether the footer is that of a batch's block.
pub fn is_batch(block: &Block) -> bool {
    NodeBlock::view(block).footer.ofs() == NodeOfs::BATCH
}

impl BatchBlock {
    /// Reads the header of a block that lies in a chain.
    ///
    /// # Errors
    /// A checksum that is wrong, or the first field that breaks a rule.
    pub fn parse(block: &Block, seed: u32) -> Result<Self, FormatError> {
        let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        if word(0) != MAGIC {
            return Err(FormatError::Magic { structure: BATCH, found: word(0) });
        }
        let computed = checksum(block, seed);
        if computed != word(4) {
            return Err(FormatError::Checksum { structure: BATCH, stored: word(4), computed });
        }
        let (flags, version) = (block[22], block[23]);
        require(version == VERSION, BATCH, "version", version, "is 1, the version that this program knows")?;
        require(flags & !LAST == 0, BATCH, "flags", flags, "is 0 or 1")?;
        let used = u16::from_le_bytes([block[20], block[21]]);
        let is_last = flags & LAST != 0;
        let fits = if is_last { (1..=PAYLOAD).contains(&usize::from(used)) } else { usize::from(used) == PAYLOAD };
        require(fits, BATCH, "used", used, "is 4040, or less in the last block")?;
        let (records, whole) = (word(24), word(28));
        let sums = if is_last { records > 0 } else { (records, whole) == (0, 0) };
        require(sums, BATCH, "records", records, "is counted in the last block")?;
        let rest = &block[HEAD + usize::from(used)..NODE_PAYLOAD];
        require(rest.iter().all(|byte| *byte == 0), BATCH, "used", used, "counts all bytes of records")?;
        let mut footer = NodeBlock::view(block).footer;
        footer.set_chain(0, Lba(0));
        let expected = NodeFooter::new(Nid(0), Ino(0), NodeOfs::BATCH, true);
        require(footer == expected, BATCH, "footer", footer.nid().get(), "is that of no node")?;
        let sequence = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Self { sequence, number: word(16), used, last: is_last.then_some((records, whole)) })
    }
}

/// Puts batches together from the blocks of one chain, in the chain's order.
#[derive(Clone, Debug)]
pub struct Assembler {
    seed: u32,
    /// Batches that are whole.
    whole: u64,
    /// Blocks of the next one so far, and the bytes in them.
    blocks: u32,
    bytes: Vec<u8>,
}

impl Assembler {
    /// For the chain behind a checkpoint.
    pub fn new(seed: u32) -> Self {
        Self { seed, whole: 0, blocks: 0, bytes: Vec::new() }
    }

    /// Batches that were whole so far.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Takes the next block; gives the records of the batch that it ends.
    ///
    /// # Errors
    /// As [`BatchBlock::parse`]; [`FormatError::Field`] if a block or a batch is missing before this one, or of a
    /// record.
    pub fn take(&mut self, block: &Block) -> Result<Option<Vec<Record>>, FormatError> {
        let head = BatchBlock::parse(block, self.seed)?;
        let next = self.whole + 1;
        require(head.sequence == next, BATCH, "sequence", head.sequence, "is one more than that of the batch before")?;
        require(head.number == self.blocks, BATCH, "number", head.number, "is one more than that of the block before")?;
        self.bytes.extend(&block[HEAD..HEAD + usize::from(head.used)]);
        self.blocks += 1;
        let Some((count, stored)) = head.last else { return Ok(None) };
        let computed = f2fs_crc(self.seed, &self.bytes);
        if stored != computed {
            return Err(FormatError::Checksum { structure: BATCH, stored, computed });
        }
        let bytes = std::mem::take(&mut self.bytes);
        (self.whole, self.blocks) = (next, 0);
        let (mut records, mut rest) = (Vec::new(), &bytes[..]);
        while !rest.is_empty() {
            let (record, behind) = Record::decode(rest)?;
            records.push(record);
            rest = behind;
        }
        require(records.len() as u64 == u64::from(count), BATCH, "records", count, "is the number of records")?;
        Ok(Some(records))
    }
}
