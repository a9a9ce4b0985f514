//! The F2FS on-disk format: structures, checksums and layout arithmetic; no I/O, no threads, no clock.
//!
//! Every structure of the format has one module that knows its bytes, in both directions. Two kinds of type appear:
//!
//! - *raw structs* lie over the bytes of a block (`zerocopy`, little-endian, no padding, size asserted at compile
//!   time). Any bytes are a valid raw struct, so looking at a hostile image cannot fail; what a value means is checked
//!   by the accessor or the `validate`/`parse` function of its module;
//! - *typed values* ([`Lba`], [`SegNo`], [`Nid`], [`Ino`], [`PageIndex`], [`Slot`]) are what the rest of the program
//!   handles.
//!
//! Kept true: no function here panics on bytes read from an image; decoding what was encoded gives the same
//! value. Relies on: callers hand in whole blocks of [`BLOCK_SIZE`] bytes and, where a function says so, values
//! that an earlier `validate` has accepted.
//!
//! Reading order for a newcomer: [`addr`], [`superblock`], [`layout`], [`checkpoint`], [`nat`], [`sit`], [`summary`],
//! [`node`], [`inode`], [`dir`], [`xattr`], [`quota`].

pub mod addr;
pub mod bitmap;
mod bitset;
pub mod block;
pub mod checkpoint;
pub mod compress;
pub mod crc;
pub mod dir;
pub mod error;
pub mod features;
pub mod infinite;
pub mod inode;
pub mod journal;
pub mod layout;
pub mod log;
pub mod migrating;
pub mod mkfs_layout;
pub mod nat;
pub mod node;
pub mod numbers;
pub mod orphan;
#[cfg(test)]
mod page;
pub mod quota;
pub mod quote;
pub mod records;
pub mod sit;
pub mod slot;
pub mod summary;
pub mod superblock;
mod width;
pub mod xattr;

pub use addr::{Ino, Lba, META_INO, NODE_INO, Nid, PageIndex, ROOT_INO, SecNo, SegNo};
pub use block::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, SEG_BYTES, zeroed_block};
pub use checkpoint::{Checkpoint, CheckpointHeader, CpFlags};
pub use error::FormatError;
pub use features::Features;
pub use layout::{Layout, Pack};
pub use log::{AllocType, Log};
pub use slot::Slot;
pub use superblock::SuperBlock;
pub use width::Width;
