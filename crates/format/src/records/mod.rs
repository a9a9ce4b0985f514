//! The metadata journal: batches of records about inodes and names, among the nodes of the roll-forward chain.
//!
//! The page of this format is `docs/JOURNAL-FORMAT.md`; J numbers are its sections. A *record* ([`Record`]) says how an
//! inode is, or where a name leads: absolute values, so that to apply it twice is to apply it once. A *batch* is some
//! records that count together or not at all, in one block or several ([`batch`]).
//!
//! Kept true: what was encoded decodes to the same; every changed bit of a sealed block is refused; a decoded record
//! keeps every rule that can be checked without the volume.

pub mod batch;
mod record;

pub use record::{Attributes, Birth, InodeRecord, MAX_CONTENTS, MAX_TARGET, Record};

/// What stands for `log_sectorsize` in the superblock of a volume that may have a journal which was not replayed: the
/// bytes `SFJV` (J 1). Magic number, uuid and label stay, so such a volume is found; no reader of F2FS takes a sector
/// of that size, so none of them opens it.
pub const JOURNAL_MARK: u32 = u32::from_le_bytes(*b"SFJV");

/// The other mark of such a volume, which is read and not written: this is its magic number, and `log_sectorsize` says
/// what it says on any volume (J 1).
pub const JOURNAL_MAGIC: u32 = JOURNAL_MARK;

/// What the version word of a node's footer is XORed with while the superblock has a mark of the journal: the bytes
/// `SFJKSFJK` (J 1). A program that opened the volume nevertheless would find no chain, rather than half of one.
pub const VERSION_KEY: u64 = u64::from_le_bytes(*b"SFJKSFJK");

#[cfg(test)]
mod tests;
