//! A checkpoint pack: header, the rest of the NAT version bitmap, orphans, NAT journal, the header again.
//!
//! A pack was written to its end if first and last block are good and say the same: the last one is written after a
//! flush of all others. The blocks between carry the checkpoint's version in their checksums, so that none of an older
//! pack in the same place passes. One of them that is bad is damage, and costs what it held ([`Known`]).

use super::header::{BITMAP_BYTES, BITMAP_OFFSET, CP};
use super::{CHECKSUM_OFFSET, Header, Stretch, SuperBlock};
use crate::bitmap::msb;
use crate::block::{BLOCKS_PER_SEG, Block, zeroed_block};
use crate::crc::f2fs_crc;
use crate::error::{FormatError, require};
use crate::nat::{self, NatEntry};
use crate::orphan::ORPHANS_PER_BLOCK;
use crate::{Ino, Nid, Pack, ROOT_INO};

/// Bytes of a record of the NAT journal: a node id and a NAT entry.
const JOURNAL_RECORD: usize = 4 + 13;
/// Records of a NAT journal block.
pub const NAT_JOURNAL_PER_BLOCK: usize = 240;
/// Where the number of records of an orphan or a NAT journal block stands.
const COUNT_OFFSET: usize = 4080;

const _: () = assert!(NAT_JOURNAL_PER_BLOCK * JOURNAL_RECORD == COUNT_OFFSET && ORPHANS_PER_BLOCK * 4 == COUNT_OFFSET);

/// The volume's state at a checkpoint, without the discard log, which lies elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counters and heads. Numbers of blocks are set by [`Checkpoint::encode`].
    pub header: Header,
    /// For each NAT block, which copy is in force: most significant bit first, 1 for the second.
    pub nat_bitmap: Vec<u8>,
    /// Inodes without a name that were open, in rising order.
    pub orphans: Vec<Ino>,
    /// NAT entries that override the table, in rising order of ids.
    pub nat_journal: Vec<(Nid, NatEntry)>,
}

/// Checks the first block of a pack and tells where, counted from it, the last one is.
///
/// # Errors
/// As [`Header::parse`].
pub fn last_block_of(sb: &SuperBlock, pack: Pack, first: &Block) -> Result<u32, FormatError> {
    Ok(Header::parse(sb, first, sb.layout().pack(pack))?.pack_blocks - 1)
}

/// A pack that was written to its end, with what its blocks between the headers say as far as they are good.
#[derive(Clone, Debug)]
pub struct Known {
    /// The checkpoint, without what is damaged.
    pub checkpoint: Checkpoint,
    /// Whether all orphans are there.
    pub orphans: Result<(), FormatError>,
    /// Whether all of the NAT journal is there.
    pub nat_journal: Result<(), FormatError>,
}

impl Checkpoint {
    /// Whether the second copy of a NAT block is in force; false for a block that the volume does not have.
    pub fn nat_copy(&self, block: u32) -> bool {
        block as usize / 8 < self.nat_bitmap.len() && msb::get(&self.nat_bitmap, block as usize)
    }

    /// The blocks of the pack, first to last, sealed; the last one must be written after a flush of all others.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] if orphans and journal do not fit; the first field that breaks a rule, so that nothing
    /// is encoded that [`Checkpoint::parse`] would refuse.
    pub fn encode(&mut self, sb: &SuperBlock, pack: Pack) -> Result<Vec<Block>, FormatError> {
        let bytes = sb.layout().nat_bitmap_bytes();
        require(self.nat_bitmap.len() == bytes, CP, "nat_bitmap", self.nat_bitmap.len() as u64, "has a bit per block")?;
        let orphans: Vec<Block> = self.orphans.chunks(ORPHANS_PER_BLOCK).map(encode_orphans).collect();
        let journal: Vec<Block> = self.nat_journal.chunks(NAT_JOURNAL_PER_BLOCK).map(encode_journal).collect();
        let payload = sb.layout().cp_payload as usize;
        let (need, free) = (2 + payload + orphans.len() + journal.len(), BLOCKS_PER_SEG as usize - 1);
        if need > free {
            return Err(FormatError::NoRoom { structure: "IPLFS checkpoint pack", need, free });
        }
        self.header.pack_blocks = need as u32;
        self.header.orphan_blocks = orphans.len() as u32;
        self.header.nat_journal_blocks = journal.len() as u32;
        self.header.check(sb)?;
        self.check_lists(sb)?;
        let start = sb.layout().pack(pack);
        let rest = self.nat_bitmap.get(BITMAP_BYTES..).unwrap_or_default().chunks(CHECKSUM_OFFSET).map(|bits| {
            let mut block = zeroed_block();
            block[..bits.len()].copy_from_slice(bits);
            block
        });
        let mut blocks = vec![self.header.encode(sb, start, &self.nat_bitmap)];
        blocks.extend(rest.chain(orphans).chain(journal));
        let seed = part_seed(sb, self.header.version);
        for (number, block) in (0u64..).zip(&mut blocks).skip(1) {
            super::seal(block, seed, start + number);
        }
        blocks.push(self.header.encode(sb, start + blocks.len() as u64, &self.nat_bitmap));
        Ok(blocks)
    }

    /// Reads a pack from all its blocks, first to last.
    ///
    /// # Errors
    /// A checksum, or the first field that breaks a rule.
    pub fn parse(sb: &SuperBlock, pack: Pack, blocks: &[Block]) -> Result<Self, FormatError> {
        let start = sb.layout().pack(pack);
        let given = blocks.len() as u64;
        let [first, parts @ .., last] = blocks else {
            return Err(FormatError::field(CP, "pack_blocks", given, "is at least 2"));
        };
        let header = Header::parse(sb, first, start)?;
        require(u64::from(header.pack_blocks) == given, CP, "pack_blocks", header.pack_blocks, "is what was read")?;
        super::verify(CP, last, sb.seed(), start + (given - 1))?;
        let same = first[..CHECKSUM_OFFSET] == last[..CHECKSUM_OFFSET];
        require(same, CP, "version", header.version, "and all else is the same in the first and last block")?;
        let parts: Vec<Option<Block>> = parts.iter().map(|block| Some(*block)).collect();
        let known = Self::parse_known(sb, pack, header, first, &parts)?;
        known.orphans.and(known.nat_journal).map(|()| known.checkpoint)
    }

    /// Reads a pack with this header, in the block of one of its two copies, and the blocks between the two; `None` is
    /// one that cannot be read. Bad blocks of orphans and NAT journal are left out, block by block.
    ///
    /// # Errors
    /// Another number of blocks than the header's; damage of the NAT version bitmap, without which nothing is found.
    pub fn parse_known(
        sb: &SuperBlock,
        pack: Pack,
        header: Header,
        copy: &Block,
        parts: &[Option<Block>],
    ) -> Result<Known, FormatError> {
        let given = parts.len() as u64 + 2;
        require(u64::from(header.pack_blocks) == given, CP, "pack_blocks", header.pack_blocks, "is what was read")?;
        let seed = part_seed(sb, header.version);
        let good = |(number, block): (u64, &Option<Block>)| {
            let block =
                block.ok_or_else(|| FormatError::Refused(format!("block {number} of the pack cannot be read")))?;
            super::verify(CP, &block, seed, sb.layout().pack(pack) + number).map(|()| block)
        };
        let parts: Vec<Result<Block, FormatError>> = (1u64..).zip(parts).map(good).collect();
        let (payload, rest) = parts.split_at(sb.layout().cp_payload as usize);
        let (orphans, journal) = rest.split_at(header.orphan_blocks as usize);
        let payload = payload.iter().cloned().collect::<Result<Vec<Block>, FormatError>>()?;
        let nat_bitmap = decode_bitmap(sb, copy, &payload)?;
        let (orphans, whole_orphans) =
            decode_lists(orphans, ORPHANS_PER_BLOCK, 4, |bytes| Ino(u32_of(bytes)), orphan_rule(sb));
        let entry = |bytes: &[u8]| (Nid(u32_of(bytes)), nat::decode(&bytes[4..]));
        let (nat_journal, whole_journal) =
            decode_lists(journal, NAT_JOURNAL_PER_BLOCK, JOURNAL_RECORD, entry, journal_rule(sb, &header));
        let checkpoint = Self { nat_bitmap, orphans, nat_journal, header };
        Ok(Known { checkpoint, orphans: whole_orphans, nat_journal: whole_journal })
    }

    fn check_lists(&self, sb: &SuperBlock) -> Result<(), FormatError> {
        self.orphans.iter().try_for_each(orphan_rule(sb))?;
        self.nat_journal.iter().try_for_each(journal_rule(sb, &self.header))
    }
}

/// The rule of each orphan, shown in order.
fn orphan_rule(sb: &SuperBlock) -> impl FnMut(&Ino) -> Result<(), FormatError> {
    let (max, mut before) = (sb.layout().max_nid(), ROOT_INO);
    move |&ino| {
        require(ino > before && ino.nid() < max, CP, "orphans", ino.get(), "are inodes in rising order")?;
        before = ino;
        Ok(())
    }
}

/// The rule of each entry of the NAT journal, shown in order.
fn journal_rule(sb: &SuperBlock, header: &Header) -> impl FnMut(&(Nid, NatEntry)) -> Result<(), FormatError> {
    let (max, mut before) = (sb.layout().max_nid(), Nid(ROOT_INO.get() - 1));
    move |&(nid, entry)| {
        require(nid > before && nid < max, CP, "nat_journal", nid.get(), "has ids in rising order")?;
        let lba = entry.lba;
        let is_node = sb.space().stretch_of(lba).is_some_and(Stretch::is_node);
        let right = entry.is_free() || is_node && header.is_written(sb, lba);
        require(right, CP, "nat_journal", lba.get(), "has addresses of written nodes, or 0")?;
        before = nid;
        Ok(())
    }
}

/// The seed of the blocks between the headers.
fn part_seed(sb: &SuperBlock, version: u64) -> u32 {
    f2fs_crc(sb.seed(), &version.to_le_bytes())
}

fn encode_orphans(inos: &[Ino]) -> Block {
    let mut block = zeroed_block();
    for (place, ino) in block.chunks_exact_mut(4).zip(inos) {
        place.copy_from_slice(&ino.get().to_le_bytes());
    }
    put_count(&mut block, inos.len());
    block
}

fn encode_journal(entries: &[(Nid, NatEntry)]) -> Block {
    let mut block = zeroed_block();
    for (place, (nid, entry)) in block.chunks_exact_mut(JOURNAL_RECORD).zip(entries) {
        place[..4].copy_from_slice(&nid.get().to_le_bytes());
        place[4] = entry.version;
        place[5..9].copy_from_slice(&entry.ino.get().to_le_bytes());
        place[9..].copy_from_slice(&entry.lba.get().to_le_bytes());
    }
    put_count(&mut block, entries.len());
    block
}

fn put_count(block: &mut Block, count: usize) {
    block[COUNT_OFFSET..COUNT_OFFSET + 4].copy_from_slice(&(count as u32).to_le_bytes());
}

/// The records of the orphan or NAT journal blocks that are good and keep the rule, and the first thing that is wrong.
fn decode_lists<T>(
    blocks: &[Result<Block, FormatError>],
    per_block: usize,
    size: usize,
    decode: impl Fn(&[u8]) -> T,
    mut rule: impl FnMut(&T) -> Result<(), FormatError>,
) -> (Vec<T>, Result<(), FormatError>) {
    let (mut records, mut whole) = (Vec::new(), Ok(()));
    for (number, block) in blocks.iter().enumerate() {
        let is_last = number + 1 == blocks.len();
        let some = block.as_ref().map_err(Clone::clone).and_then(|block| {
            let used = used_bytes(block, per_block, size, is_last)?;
            let some: Vec<T> = used.chunks_exact(size).map(&decode).collect();
            some.iter().try_for_each(&mut rule).map(|()| some)
        });
        match some {
            Ok(some) => records.extend(some),
            Err(why) => whole = whole.and(Err(why)),
        }
    }
    (records, whole)
}

/// The bytes of a block's records. Only the last block may have fewer than it holds.
fn used_bytes(block: &Block, per_block: usize, size: usize, is_last: bool) -> Result<&[u8], FormatError> {
    let count = u32_of(&block[COUNT_OFFSET..]);
    let full = count as usize == per_block;
    let right = full || is_last && (1..per_block).contains(&(count as usize));
    require(right, CP, "count", count, "is that of a full block, in the last one 1 or more")?;
    let used = count as usize * size;
    let zero = block[used..COUNT_OFFSET].iter().chain(&block[COUNT_OFFSET + 4..CHECKSUM_OFFSET]).all(|b| *b == 0);
    require(zero, CP, "count", count, "counts all records of its block")?;
    Ok(&block[..used])
}

/// The NAT version bitmap: from the header, then from the payload; what is left of the last block is zero.
fn decode_bitmap(sb: &SuperBlock, first: &Block, payload: &[Block]) -> Result<Vec<u8>, FormatError> {
    let mut bits = first[BITMAP_OFFSET..CHECKSUM_OFFSET].to_vec();
    for block in payload {
        bits.extend_from_slice(&block[..CHECKSUM_OFFSET]);
    }
    let bytes = sb.layout().nat_bitmap_bytes();
    let zero = bits.iter().skip(bytes).all(|byte| *byte == 0) && bits.len() >= bytes;
    require(zero, CP, "nat_bitmap", bytes as u64, "has a bit for each NAT block and none behind")?;
    bits.truncate(bytes);
    Ok(bits)
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
