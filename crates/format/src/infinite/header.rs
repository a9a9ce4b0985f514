//! The first and the last block of a checkpoint pack: counters, heads and limits, the discard log, the front of the NAT
//! version bitmap.

use super::{CHECKSUM_OFFSET, DiscardLog, Stretch, SuperBlock};
use crate::block::{BLOCKS_PER_SEG, Block, BlockView};
use crate::error::{FormatError, require};
use crate::{CpFlags, Lba, Nid, ROOT_INO};
use std::ops::Range;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) const CP: &str = "IPLFS checkpoint";
const PACK_MAGIC: [u8; 8] = *b"IPLFCKPT";
/// Where the NAT version bitmap begins.
pub(super) const BITMAP_OFFSET: usize = 320;
/// Bytes of the bitmap in the header.
pub(super) const BITMAP_BYTES: usize = CHECKSUM_OFFSET - BITMAP_OFFSET;

/// Flags that a checkpoint may have.
pub const FLAGS: CpFlags = CpFlags::UMOUNT.union(CpFlags::ERROR).union(CpFlags::FSCK).union(CpFlags::QUOTA_NEED_FSCK);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    next: U64,
    limit: U64,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U64,
    flags: U32,
    pack_blocks: U32,
    orphan_blocks: U32,
    nat_journal_blocks: U32,
    valid_blocks: U64,
    valid_nodes: U32,
    valid_inodes: U32,
    next_free_nid: U32,
    reserved_1: U32,
    elapsed: U64,
    kbytes_written: U64,
    dead_blocks: U64,
    log_lba: U64,
    log_blocks: U32,
    log_checksum: U32,
    log_records: U64,
    reserved_2: [u8; 24],
    heads: [RawHead; 8],
    reserved_3: [u8; 64],
    bitmap: [u8; BITMAP_BYTES],
    checksum: U32,
}

impl BlockView for RawHeader {}

const _: () = assert!(std::mem::offset_of!(RawHeader, log_lba) == 80);
const _: () = assert!(std::mem::offset_of!(RawHeader, heads) == 128);
const _: () = assert!(std::mem::offset_of!(RawHeader, bitmap) == BITMAP_OFFSET);

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// The block that the log takes next.
    pub next: Lba,
    /// No block from here on is written while this checkpoint is in force. `next` or more.
    pub limit: Lba,
}

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the checkpoint, one more than that of the one before; at least 1.
    pub version: u64,
    /// Of [`FLAGS`].
    pub flags: CpFlags,
    /// Blocks of the pack.
    pub pack_blocks: u32,
    /// Orphan blocks of the pack.
    pub orphan_blocks: u32,
    /// NAT journal blocks of the pack.
    pub nat_journal_blocks: u32,
    /// Blocks in use: nodes, data, and slots that are reserved but not yet written.
    pub valid_blocks: u64,
    /// Nodes, without the two reserved ids.
    pub valid_nodes: u32,
    /// Inodes.
    pub valid_inodes: u32,
    /// A node id at which a search for a free one may begin.
    pub next_free_nid: Nid,
    /// Seconds that the volume was mounted over its life.
    pub elapsed: u64,
    /// KiB written over the volume's life.
    pub kbytes_written: u64,
    /// Where the dead blocks stand that are not yet discarded.
    pub discard_log: DiscardLog,
    /// Where the logs stand, in the order of [`Stretch::ALL`].
    pub heads: [Head; Stretch::COUNT],
}

impl Header {
    /// Reads the first or the last block of a pack, which lies at `lba`, and makes every check that needs no other
    /// block.
    ///
    /// # Errors
    /// [`FormatError::Checksum`], or the first field that breaks a rule.
    pub fn parse(sb: &SuperBlock, block: &Block, lba: Lba) -> Result<Self, FormatError> {
        super::verify(CP, block, sb.seed(), lba)?;
        let raw = RawHeader::view(block);
        let magic = u64::from_le_bytes(raw.magic);
        require(raw.magic == PACK_MAGIC, CP, "magic", magic, "is IPLFCKPT")?;
        let mut heads = [Head::default(); Stretch::COUNT];
        for (head, raw) in heads.iter_mut().zip(&raw.heads) {
            *head = Head { next: Lba(raw.next.get()), limit: Lba(raw.limit.get()) };
        }
        let spare = &raw.heads[Stretch::COUNT];
        let zero = raw.reserved_1.get() == 0
            && spare.next.get() == 0
            && spare.limit.get() == 0
            && raw.reserved_2.iter().chain(&raw.reserved_3).all(|byte| *byte == 0);
        require(zero, CP, "reserved", 1u32, "is 0")?;
        let header = Self {
            version: raw.version.get(),
            flags: CpFlags::from_bits(raw.flags.get()),
            pack_blocks: raw.pack_blocks.get(),
            orphan_blocks: raw.orphan_blocks.get(),
            nat_journal_blocks: raw.nat_journal_blocks.get(),
            valid_blocks: raw.valid_blocks.get(),
            valid_nodes: raw.valid_nodes.get(),
            valid_inodes: raw.valid_inodes.get(),
            next_free_nid: Nid(raw.next_free_nid.get()),
            elapsed: raw.elapsed.get(),
            kbytes_written: raw.kbytes_written.get(),
            discard_log: DiscardLog {
                lba: Lba(raw.log_lba.get()),
                blocks: raw.log_blocks.get(),
                checksum: raw.log_checksum.get(),
                records: raw.log_records.get(),
                dead: raw.dead_blocks.get(),
            },
            heads,
        };
        header.check(sb)?;
        Ok(header)
    }

    /// Whether a block begins as the header of a pack does.
    pub fn is_magic(block: &Block) -> bool {
        block[..8] == PACK_MAGIC
    }

    /// The header as a block of the pack at `lba`, with the front of the NAT version bitmap in it, sealed.
    pub(super) fn encode(&self, sb: &SuperBlock, lba: Lba, bitmap: &[u8]) -> Block {
        let mut raw = RawHeader::new_zeroed();
        raw.magic = PACK_MAGIC;
        raw.version = self.version.into();
        raw.flags = self.flags.bits().into();
        raw.pack_blocks = self.pack_blocks.into();
        raw.orphan_blocks = self.orphan_blocks.into();
        raw.nat_journal_blocks = self.nat_journal_blocks.into();
        raw.valid_blocks = self.valid_blocks.into();
        raw.valid_nodes = self.valid_nodes.into();
        raw.valid_inodes = self.valid_inodes.into();
        raw.next_free_nid = self.next_free_nid.get().into();
        raw.elapsed = self.elapsed.into();
        raw.kbytes_written = self.kbytes_written.into();
        raw.dead_blocks = self.discard_log.dead.into();
        raw.log_lba = self.discard_log.lba.get().into();
        raw.log_blocks = self.discard_log.blocks.into();
        raw.log_checksum = self.discard_log.checksum.into();
        raw.log_records = self.discard_log.records.into();
        for (raw, head) in raw.heads.iter_mut().zip(&self.heads) {
            *raw = RawHead { next: head.next.get().into(), limit: head.limit.get().into() };
        }
        let front = bitmap.len().min(BITMAP_BYTES);
        raw.bitmap[..front].copy_from_slice(&bitmap[..front]);
        let mut block = raw.to_block();
        super::seal(&mut block, sb.seed(), lba);
        block
    }

    /// Whether a block that this checkpoint refers to may lie here: in log space, before the head of its log.
    pub fn is_written(&self, sb: &SuperBlock, lba: Lba) -> bool {
        sb.space().stretch_of(lba).is_some_and(|stretch| lba < self.heads[stretch.index()].next)
    }

    /// Whether all blocks of a range may be referred to; they lie in one stretch.
    pub fn is_written_range(&self, sb: &SuperBlock, range: &Range<Lba>) -> bool {
        let Some(stretch) = sb.space().stretch_of(range.start) else { return false };
        range.start < range.end && range.end <= self.heads[stretch.index()].next
    }

    /// The rules that need nothing but the superblock.
    pub(super) fn check(&self, sb: &SuperBlock) -> Result<(), FormatError> {
        require(self.version >= 1, CP, "version", self.version, "is at least 1")?;
        let others = self.flags.difference(FLAGS);
        require(
            others.is_empty(),
            CP,
            "flags",
            self.flags.bits(),
            "has none but umount, error, fsck, quota_need_fsck",
        )?;
        self.check_blocks(sb)?;
        self.check_heads(sb)?;
        self.check_counts(sb)?;
        self.discard_log.check(sb, self)
    }

    fn check_blocks(&self, sb: &SuperBlock) -> Result<(), FormatError> {
        let fixed = 2 + u64::from(sb.layout().cp_payload);
        let sum = fixed + u64::from(self.orphan_blocks) + u64::from(self.nat_journal_blocks);
        let right = sum == u64::from(self.pack_blocks) && self.pack_blocks < BLOCKS_PER_SEG;
        require(right, CP, "pack_blocks", self.pack_blocks, "is the sum of its parts, and at most 511")
    }

    fn check_heads(&self, sb: &SuperBlock) -> Result<(), FormatError> {
        for (stretch, head) in Stretch::ALL.into_iter().zip(&self.heads) {
            let range = sb.space().range(stretch);
            let right = range.start <= head.next && head.next <= head.limit && head.limit <= range.end;
            require(right, CP, "heads", head.next.get(), "lies in its log, at or before its limit")?;
        }
        Ok(())
    }

    fn check_counts(&self, sb: &SuperBlock) -> Result<(), FormatError> {
        let written = |wanted: fn(Stretch) -> bool| -> u64 {
            let logs = Stretch::ALL.into_iter().zip(&self.heads).filter(|(stretch, _)| wanted(*stretch));
            logs.map(|(stretch, head)| head.next.get() - sb.space().range(stretch).start.get()).sum()
        };
        let (valid, nodes, inodes) = (self.valid_blocks, self.valid_nodes, self.valid_inodes);
        // The capacity may have been lowered since.
        require(valid <= sb.space().length(), CP, "valid_blocks", valid, "is at most the blocks of a log")?;
        require(u64::from(nodes) <= valid, CP, "valid_nodes", nodes, "is at most valid_blocks")?;
        require(u64::from(nodes) <= written(Stretch::is_node), CP, "valid_nodes", nodes, "were written")?;
        let max = sb.layout().max_nid();
        require(nodes <= max.get().saturating_sub(3), CP, "valid_nodes", nodes, "have ids")?;
        require((1..=nodes).contains(&inodes), CP, "valid_inodes", inodes, "is 1 to valid_nodes")?;
        let next = self.next_free_nid;
        let right = next > ROOT_INO.nid() && next < max;
        require(right, CP, "next_free_nid", next.get(), "is an id behind the root's")
    }
}
