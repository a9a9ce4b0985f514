//! A batch: records in blocks of the warm-node log (J 2).
//!
//! A block has a header of 32 bytes, a piece of the records, and the footer of a node, by which it is a link of the
//! chain. Its checksum covers all of it, so a torn block is none. A batch is whole if all its blocks are in the chain,
//! in order; nodes may lie between two of them, blocks of another batch may not. The last block may name blocks of
//! contents with their checksums: without them it does not belong to the chain.

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
const CONTENTS: u8 = 2;
/// Bytes before the records.
const HEAD: usize = 32;
/// Bytes of records in a block.
pub const PAYLOAD: usize = NODE_PAYLOAD - HEAD;
/// Most blocks of contents that a batch may name.
pub const MOST_CONTENTS: usize = 32;
/// Bytes of their number, and of each.
const COUNT: usize = 2;
const ENTRY: usize = 12;

/// A block of contents without which a batch does not count, and `crc(S, its bytes)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentsSum {
    /// Where it is.
    pub lba: Lba,
    /// Its checksum.
    pub crc: u32,
}

impl ContentsSum {
    /// Of these bytes. The seed is that of the volume's inode checksums.
    pub fn of(lba: Lba, bytes: &Block, seed: u32) -> Self {
        Self { lba, crc: f2fs_crc(seed, bytes) }
    }
}

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
    /// Blocks of contents that it names.
    contents: usize,
}

/// The blocks of a batch, which lack the links of the chain and the checksum: [`seal`] adds both. The seed is that of
/// the volume's inode checksums.
///
/// # Panics
/// Without a record.
pub fn encode(sequence: u64, seed: u32, records: &[Record]) -> Vec<Block> {
    encode_with(sequence, seed, records, &[])
}

/// As [`encode`], of a batch that does not count without these blocks of contents.
///
/// # Panics
/// With neither records nor contents; with more than [`MOST_CONTENTS`] of these.
pub fn encode_with(sequence: u64, seed: u32, records: &[Record], contents: &[ContentsSum]) -> Vec<Block> {
    assert!(!records.is_empty() || !contents.is_empty(), "a batch says something");
    assert!(contents.len() <= MOST_CONTENTS, "a batch names {} blocks of contents", contents.len());
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    let whole = f2fs_crc(seed, &bytes);
    let mut pieces: Vec<&[u8]> = bytes.chunks(PAYLOAD).collect();
    let room = PAYLOAD - pieces.last().map_or(PAYLOAD, |piece| piece.len());
    if !contents.is_empty() && room < COUNT + contents.len() * ENTRY {
        pieces.push(&[]);
    }
    let count = pieces.len();
    let blocks = pieces.into_iter().enumerate().map(|(number, piece)| {
        let is_last = number + 1 == count;
        let mut block = zeroed_block();
        block[..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&sequence.to_le_bytes());
        block[16..20].copy_from_slice(&(number as u32).to_le_bytes());
        block[20..22].copy_from_slice(&(piece.len() as u16).to_le_bytes());
        let names_contents = is_last && !contents.is_empty();
        let flags = if names_contents { LAST | CONTENTS } else { u8::from(is_last) * LAST };
        block[22..24].copy_from_slice(&[flags, VERSION]);
        if is_last {
            block[24..28].copy_from_slice(&(records.len() as u32).to_le_bytes());
            block[28..32].copy_from_slice(&whole.to_le_bytes());
        }
        block[HEAD..HEAD + piece.len()].copy_from_slice(piece);
        if names_contents {
            put_contents(&mut block[HEAD + piece.len()..NODE_PAYLOAD], contents);
        }
        NodeBlock::view_mut(&mut block).footer = NodeFooter::new(Nid(0), Ino(0), NodeOfs::BATCH, true);
        block
    });
    blocks.collect()
}

/// Writes down blocks of contents, behind the records.
fn put_contents(out: &mut [u8], contents: &[ContentsSum]) {
    let (count, entries) = out.split_at_mut(COUNT);
    count.copy_from_slice(&(contents.len() as u16).to_le_bytes());
    for (entry, ContentsSum { lba, crc }) in entries.chunks_exact_mut(ENTRY).zip(contents) {
        entry[..8].copy_from_slice(&lba.get().to_le_bytes());
        entry[8..].copy_from_slice(&crc.to_le_bytes());
    }
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
        require([0, LAST, LAST | CONTENTS].contains(&flags), BATCH, "flags", flags, "is 0, 1 or 3")?;
        let used = u16::from_le_bytes([block[20], block[21]]);
        let (is_last, names_contents) = (flags & LAST != 0, flags & CONTENTS != 0);
        let least = usize::from(!names_contents);
        require((least..=PAYLOAD).contains(&usize::from(used)), BATCH, "used", used, "is 1 to 4040")?;
        let (records, whole) = (word(24), word(28));
        let sums = if is_last { records > 0 || names_contents } else { (records, whole) == (0, 0) };
        require(sums, BATCH, "records", records, "is counted in the last block")?;
        let behind = &block[HEAD + usize::from(used)..NODE_PAYLOAD];
        let contents = if names_contents { count_contents(behind)? } else { 0 };
        let rest = &behind[if names_contents { COUNT + contents * ENTRY } else { 0 }..];
        require(rest.iter().all(|byte| *byte == 0), BATCH, "used", used, "counts all bytes of records")?;
        let mut footer = NodeBlock::view(block).footer;
        footer.set_chain(0, Lba(0));
        let expected = NodeFooter::new(Nid(0), Ino(0), NodeOfs::BATCH, true);
        require(footer == expected, BATCH, "footer", footer.nid().get(), "is that of no node")?;
        let sequence = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Self { sequence, number: word(16), used, last: is_last.then_some((records, whole)), contents })
    }

    /// The blocks of contents that this block, whose header this is, names: at most [`MOST_CONTENTS`].
    pub fn contents(self, block: &Block) -> impl Iterator<Item = ContentsSum> {
        let at = HEAD + usize::from(self.used) + COUNT;
        let entries = block.get(at..at + self.contents * ENTRY).unwrap_or(&[]);
        entries.chunks_exact(ENTRY).map(|entry| {
            let (lba, crc) = entry.split_at(8);
            let lba = Lba::new(u64::from_le_bytes(lba.try_into().unwrap_or_default()));
            ContentsSum { lba, crc: u32::from_le_bytes(crc.try_into().unwrap_or_default()) }
        })
    }
}

/// How many blocks of contents are named behind the records.
fn count_contents(behind: &[u8]) -> Result<usize, FormatError> {
    let count = behind.first_chunk::<COUNT>().map_or(0, |count| usize::from(u16::from_le_bytes(*count)));
    let fits = (1..=MOST_CONTENTS).contains(&count) && COUNT + count * ENTRY <= behind.len();
    require(fits, BATCH, "contents", count as u64, "is 1 to 32, and fits into the block")?;
    Ok(count)
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
