//! Hidden quota files: the quota tree of Linux' "VFS v1" format (v2r1). Format section 14.
//!
//! A file of tree blocks of 1024 bytes. Block 0 holds the header. Block 1 is the root of a tree of four levels, one per
//! byte of the id from the highest. The tree's blocks hold 256 block numbers each (0 for none). The last level points
//! at a block with entries, which up to 14 ids share. [`encode`] writes such a file as mkfs.f2fs does, [`read`] reads
//! one that anybody wrote.
//!
//! Kept true: whatever the bytes, reading ends and takes memory in proportion to the tree blocks that exist: a
//! block of numbers is entered once, an entry must carry the id that led to it.

mod read;
mod write;

pub use read::{ReadError, read};
pub use write::encode;

use crate::superblock::QuotaKind;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a tree block.
pub const TREE_BLOCK: usize = 1024;
/// The bytes of a tree block.
pub type TreeBlock = [u8; TREE_BLOCK];
/// The version of the format, "v2r1" in Linux' words.
pub const VERSION: u32 = 1;
/// A week, in seconds: for how long a soft limit may be exceeded.
pub const GRACE: u32 = 7 * 24 * 3600;
/// Entries in a block of them.
pub const ENTRIES_PER_BLOCK: usize = (TREE_BLOCK - size_of::<LeafHeader>()) / size_of::<RawEntry>();

/// The block of the root of the tree.
const ROOT: u32 = 1;
/// Levels of block numbers above the entries.
const LEVELS: usize = 4;

/// The number that a quota file begins with.
pub const fn magic(kind: QuotaKind) -> u32 {
    match kind {
        QuotaKind::User => 0xD9C0_1F11,
        QuotaKind::Group => 0xD9C0_1927,
        QuotaKind::Project => 0xD9C0_3F14,
    }
}

/// The beginning of block 0.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct QuotaHeader {
    /// [`magic`].
    pub magic: U32,
    /// [`VERSION`].
    pub version: U32,
    /// Seconds for which the soft limit of space may be exceeded.
    pub block_grace: U32,
    /// Seconds for which the soft limit of inodes may be exceeded.
    pub inode_grace: U32,
    /// Flags; none is in use here.
    pub flags: U32,
    /// Tree blocks of the file.
    pub blocks: U32,
    /// The first free tree block; 0 for none.
    pub free_block: U32,
    /// The first block of entries with a free one; 0 for none.
    pub free_entry: U32,
}

/// The beginning of a block of entries.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LeafHeader {
    /// The next block with a free entry.
    pub next_free: U32,
    /// The one before.
    pub previous_free: U32,
    /// Entries in use.
    pub entries: U16,
    padding: [u8; 6],
}

/// An entry as it lies on the disk. All zeros: not in use.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    id: U32,
    padding: U32,
    inodes_hard: U64,
    inodes_soft: U64,
    inodes: U64,
    space_hard: U64,
    space_soft: U64,
    space: U64,
    space_expires: U64,
    inodes_expire: U64,
}

const _: () = assert!(size_of::<QuotaHeader>() == 32 && size_of::<LeafHeader>() == 16 && size_of::<RawEntry>() == 72);

/// What an owner uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// Bytes: whole blocks, those of inodes not counted.
    pub space: u64,
    /// Inodes.
    pub inodes: u64,
}

/// Limits on what an owner may use; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Never exceeded.
    pub hard: u64,
    /// Exceeded for the time of grace only.
    pub soft: u64,
    /// When that time is over, in seconds; 0 while the soft limit is kept.
    pub expires: u64,
}

/// What a quota file says of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The user, group or project.
    pub id: u32,
    /// Its usage.
    pub usage: Usage,
    /// Limit of its space, in units of 1 KiB.
    pub space: Limit,
    /// Limit of its inodes.
    pub inodes: Limit,
}

/// What Linux writes into an entry that is all zeros otherwise, so that it is in use.
const IN_USE: u64 = 1;

impl RawEntry {
    fn is_used(&self) -> bool {
        self.as_bytes().iter().any(|byte| *byte != 0)
    }

    fn decode(&self) -> Entry {
        let mut entry = Entry {
            id: self.id.get(),
            usage: Usage { space: self.space.get(), inodes: self.inodes.get() },
            space: Limit {
                hard: self.space_hard.get(),
                soft: self.space_soft.get(),
                expires: self.space_expires.get(),
            },
            inodes: Limit {
                hard: self.inodes_hard.get(),
                soft: self.inodes_soft.get(),
                expires: self.inodes_expire.get(),
            },
        };
        let marked = Entry { inodes: Limit { expires: IN_USE, ..Limit::default() }, ..Entry::default() };
        if entry == marked {
            entry.inodes.expires = 0;
        }
        entry
    }

    fn encode(entry: &Entry) -> Self {
        let mark = if *entry == Entry::default() { IN_USE } else { 0 };
        RawEntry {
            id: entry.id.into(),
            padding: 0.into(),
            inodes_hard: entry.inodes.hard.into(),
            inodes_soft: entry.inodes.soft.into(),
            inodes: entry.usage.inodes.into(),
            space_hard: entry.space.hard.into(),
            space_soft: entry.space.soft.into(),
            space: entry.usage.space.into(),
            space_expires: entry.space.expires.into(),
            inodes_expire: (entry.inodes.expires | mark).into(),
        }
    }
}

/// The entries of a block of them.
fn entries(block: &TreeBlock) -> impl Iterator<Item = &RawEntry> {
    let slots = block[size_of::<LeafHeader>()..].chunks_exact(size_of::<RawEntry>());
    slots.filter_map(|bytes| RawEntry::ref_from_bytes(bytes).ok())
}

#[cfg(test)]
mod tests;
