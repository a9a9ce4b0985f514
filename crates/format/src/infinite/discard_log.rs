//! The discard log: which blocks are dead and not yet known to be discarded.
//!
//! A log is a run of blocks in the meta log. Its records stand in rising order of addresses and never overlap. A record
//! is one range, or a bitmap of up to 4096 blocks where that is shorter. The checkpoint keeps a checksum of the blocks'
//! checksums, so that a log is whole or refused.

use super::{CHECKSUM_OFFSET, Header, Stretch, SuperBlock};
use crate::Lba;
use crate::block::{Block, zeroed_block};
use crate::crc::f2fs_crc;
use crate::error::{FormatError, require};
use std::ops::Range;

const LOG: &str = "discard log";
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"IPLD");
/// Bytes of a record without its bitmap, and of a piece of a bitmap.
const UNIT: usize = 16;
/// Bytes of a block before its first record.
const FRONT: usize = 16;
/// Records or pieces of bitmaps in a block.
pub const MAX_UNITS: usize = (CHECKSUM_OFFSET - FRONT) / UNIT;
/// Blocks that one unit of a bitmap stands for.
const BITS: u64 = 8 * UNIT as u64;
/// Blocks that the bitmap of one record stands for at most.
const MAX_SPAN: u64 = 4096;
const RANGE: u32 = 0;
const BITMAP: u32 = 1;

const _: () = assert!(MAX_UNITS == 254 && MAX_SPAN.div_ceil(BITS) < MAX_UNITS as u64);

/// Where a discard log is, as the checkpoint says. All zero where nothing is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DiscardLog {
    /// Its first block, in the meta log.
    pub lba: Lba,
    /// Its blocks.
    pub blocks: u32,
    /// Over the checksums of the blocks, in order, from the volume's seed on.
    pub checksum: u32,
    /// Records in all blocks.
    pub records: u64,
    /// Blocks that the records name.
    pub dead: u64,
}

impl DiscardLog {
    /// The addresses of its blocks.
    pub fn range(&self) -> Range<Lba> {
        self.lba..Lba(self.lba.get().saturating_add(self.blocks.into()))
    }

    /// The rules that need nothing but the heads.
    pub(super) fn check(&self, sb: &SuperBlock, header: &Header) -> Result<(), FormatError> {
        if self.blocks == 0 {
            let lba = self.lba.get();
            return require(*self == Self::default(), LOG, "lba", lba, "and all others are 0 where blocks is 0");
        }
        let range = self.range();
        let in_meta = sb.space().stretch_of(range.start) == Some(Stretch::Meta);
        let right = in_meta && header.is_written_range(sb, &range);
        require(right, LOG, "lba", range.start.get(), "is the first of its blocks in the meta log, before the head")?;
        let blocks = u64::from(self.blocks);
        let fits = (blocks..=blocks * MAX_UNITS as u64).contains(&self.records);
        require(fits, LOG, "records", self.records, "is 1 to 254 for each block")?;
        require(self.dead >= self.records, LOG, "dead", self.dead, "is at least one block for each record")
    }
}

enum Record {
    Range(Range<u64>),
    /// The first block and the bits of some blocks.
    Bitmap(u64, u64, Vec<u8>),
}

/// The blocks of a discard log that is to be written at `lba`, sealed, and what the checkpoint says of it.
///
/// # Errors
/// [`FormatError::Refused`] if the ranges are not in rising order, overlap, or are empty.
pub fn encode_discard_log(
    sb: &SuperBlock,
    lba: Lba,
    ranges: &[Range<Lba>],
) -> Result<(Vec<Block>, DiscardLog), FormatError> {
    let sorted = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
    if !sorted || ranges.iter().any(|range| range.start >= range.end) {
        return Err(FormatError::Refused("dead ranges are not in rising order".to_owned()));
    }
    let mut log = DiscardLog::default();
    let mut blocks: Vec<(Block, usize, u32)> = Vec::new();
    for record in records(ranges) {
        let units = match &record {
            Record::Range(_) => 1,
            Record::Bitmap(_, _, bits) => 1 + bits.len() / UNIT,
        };
        if blocks.last().is_none_or(|(_, used, _)| used + units > MAX_UNITS) {
            blocks.push((zeroed_block(), 0, 0));
        }
        let Some((block, used, count)) = blocks.last_mut() else { unreachable!("one was pushed") };
        log.dead += put(&mut block[FRONT + *used * UNIT..][..units * UNIT], &record);
        (*used, *count) = (*used + units, *count + 1);
        log.records += 1;
    }
    if blocks.is_empty() {
        return Ok((Vec::new(), log));
    }
    (log.lba, log.blocks, log.checksum) = (lba, blocks.len() as u32, sb.seed());
    let mut sealed = Vec::with_capacity(blocks.len());
    for (number, (mut block, _, count)) in (0u32..).zip(blocks) {
        block[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        block[4..8].copy_from_slice(&number.to_le_bytes());
        block[8..12].copy_from_slice(&count.to_le_bytes());
        super::seal(&mut block, sb.seed(), lba + u64::from(number));
        log.checksum = f2fs_crc(log.checksum, &block[CHECKSUM_OFFSET..]);
        sealed.push(block);
    }
    Ok((sealed, log))
}

/// Writes a record to its place; returns how many blocks it names.
fn put(place: &mut [u8], record: &Record) -> u64 {
    let (start, length, kind) = match record {
        Record::Range(range) => (range.start, range.end - range.start, RANGE),
        Record::Bitmap(start, length, _) => (*start, *length, BITMAP),
    };
    place[..8].copy_from_slice(&start.to_le_bytes());
    place[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    place[12..16].copy_from_slice(&kind.to_le_bytes());
    let Record::Bitmap(_, _, bits) = record else { return length };
    place[16..].copy_from_slice(bits);
    bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

/// The records for some ranges: a bitmap where it is shorter than the ranges within its span.
fn records(ranges: &[Range<Lba>]) -> Vec<Record> {
    let ranges = ranges.iter().map(|range| range.start.get()..range.end.get());
    // A length has 32 bits.
    let pieces = ranges.flat_map(|range| {
        let step = u64::from(u32::MAX);
        let starts = (range.start..range.end).step_by(step as usize);
        starts.map(move |start| start..range.end.min(start + step))
    });
    let pieces: Vec<Range<u64>> = pieces.collect();
    let mut records = Vec::new();
    let mut rest = &pieces[..];
    while let [first, ..] = rest {
        let near = rest.iter().take_while(|range| range.end - first.start <= MAX_SPAN).count();
        let span = rest[..near].last().map_or(0, |last| last.end - first.start);
        let units = span.div_ceil(BITS);
        if near as u64 > 1 + units {
            records.push(Record::Bitmap(first.start, span, bits_of(first.start, units, &rest[..near])));
            rest = &rest[near..];
        } else {
            records.push(Record::Range(first.clone()));
            rest = &rest[1..];
        }
    }
    records
}

fn bits_of(start: u64, units: u64, ranges: &[Range<u64>]) -> Vec<u8> {
    let mut bits = vec![0; units as usize * UNIT];
    for at in ranges.iter().flat_map(|range| range.start - start..range.end - start) {
        bits[(at / 8) as usize] |= 1 << (at % 8);
    }
    bits
}

/// Reads a discard log block by block, in order, and checks it against what the checkpoint says.
pub struct DiscardLogReader<'a> {
    sb: &'a SuperBlock,
    header: &'a Header,
    seen: DiscardLog,
    /// Where the record before ended.
    end: u64,
}

impl<'a> DiscardLogReader<'a> {
    /// For the log that a checked header names.
    pub fn new(sb: &'a SuperBlock, header: &'a Header) -> Self {
        let seen = DiscardLog { lba: header.discard_log.lba, checksum: sb.seed(), ..DiscardLog::default() };
        Self { sb, header, seen, end: 0 }
    }

    /// Takes the next block and hands each dead range to `found`, in rising order.
    ///
    /// # Errors
    /// A checksum or the first field that breaks a rule; ranges found before that may be wrong.
    pub fn block(&mut self, block: &Block, found: &mut dyn FnMut(Range<Lba>)) -> Result<(), FormatError> {
        let number = self.seen.blocks;
        require(number < self.header.discard_log.blocks, LOG, "blocks", number, "is the number of blocks")?;
        super::verify(LOG, block, self.sb.seed(), self.seen.lba + u64::from(number))?;
        require(u32_at(block, 0) == BLOCK_MAGIC, LOG, "magic", u32_at(block, 0), "is IPLD")?;
        require(u32_at(block, 4) == number, LOG, "number", u32_at(block, 4), "counts from 0")?;
        require(u32_at(block, 12) == 0, LOG, "reserved", u32_at(block, 12), "is 0")?;
        let count = u32_at(block, 8);
        require((1..=MAX_UNITS as u32).contains(&count), LOG, "count", count, "is 1 to 254")?;
        let mut rest = &block[FRONT..CHECKSUM_OFFSET];
        for _ in 0..count {
            let units = self.record(rest, found)?;
            rest = &rest[units * UNIT..];
        }
        require(rest.iter().all(|byte| *byte == 0), LOG, "count", count, "counts all records")?;
        self.seen.checksum = f2fs_crc(self.seen.checksum, &block[CHECKSUM_OFFSET..]);
        self.seen.blocks += 1;
        self.seen.records += u64::from(count);
        Ok(())
    }

    /// To be called after the last block.
    ///
    /// # Errors
    /// If blocks are missing, or the sums are not those of the checkpoint.
    pub fn finish(self) -> Result<(), FormatError> {
        let (said, seen) = (&self.header.discard_log, &self.seen);
        if said.blocks == 0 {
            return Ok(());
        }
        require(seen.blocks == said.blocks, LOG, "blocks", seen.blocks, "is what the checkpoint says")?;
        if seen.checksum != said.checksum {
            return Err(FormatError::Checksum { structure: LOG, stored: said.checksum, computed: seen.checksum });
        }
        require(seen.records == said.records, LOG, "records", seen.records, "is what the checkpoint says")?;
        require(seen.dead == said.dead, LOG, "dead", seen.dead, "is what the checkpoint says")
    }

    /// One record at the front of `bytes`; returns its units.
    fn record(&mut self, bytes: &[u8], found: &mut dyn FnMut(Range<Lba>)) -> Result<usize, FormatError> {
        require(bytes.len() >= UNIT, LOG, "count", bytes.len() as u64, "counts records that fit the block")?;
        let start = u64::from(u32_at(bytes, 0)) | u64::from(u32_at(bytes, 4)) << 32;
        let (length, kind) = (u64::from(u32_at(bytes, 8)), u32_at(bytes, 12));
        require(kind <= BITMAP, LOG, "kind", kind, "is 0 (range) or 1 (bitmap)")?;
        require(start >= self.end, LOG, "start", start, "lies behind the record before")?;
        let range = Lba(start)..Lba(start.saturating_add(length));
        require(self.may_be_dead(&range), LOG, "start", start, "begins a run of written blocks that are not this log")?;
        self.end = range.end.get();
        if kind == RANGE {
            self.seen.dead += length;
            found(range);
            return Ok(1);
        }
        require(length <= MAX_SPAN, LOG, "length", length, "of a bitmap is at most 4096")?;
        let units = length.div_ceil(BITS) as usize;
        let Some(bits) = bytes.get(UNIT..(1 + units) * UNIT) else {
            return Err(FormatError::field(LOG, "length", length, "of a bitmap fits the block"));
        };
        self.bitmap(start, length, bits, found)?;
        Ok(1 + units)
    }

    /// Written, of one stretch, and not a block of this log.
    fn may_be_dead(&self, range: &Range<Lba>) -> bool {
        let own = self.header.discard_log.range();
        self.header.is_written_range(self.sb, range) && (range.end <= own.start || own.end <= range.start)
    }

    fn bitmap(
        &mut self,
        start: u64,
        length: u64,
        bits: &[u8],
        found: &mut dyn FnMut(Range<Lba>),
    ) -> Result<(), FormatError> {
        let is_set = |at: u64| bits[(at / 8) as usize] >> (at % 8) & 1 != 0;
        let ends = is_set(0) && is_set(length - 1) && (length..bits.len() as u64 * 8).all(|at| !is_set(at));
        require(ends, LOG, "bitmap", length, "begins and ends with a dead block")?;
        let mut at = 0;
        while at < length {
            let Some(first) = (at..length).find(|at| is_set(*at)) else { break };
            let end = (first..length).find(|at| !is_set(*at)).unwrap_or(length);
            self.seen.dead += end - first;
            found(Lba(start + first)..Lba(start + end));
            at = end;
        }
        Ok(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
