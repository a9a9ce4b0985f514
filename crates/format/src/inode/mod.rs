//! The inode: a node block with the attributes of a file and the first part of its address map. Format section 7.
//!
//! [`Inode`] lies over a block ([`crate::block::BlockView::view`]). Everything that depends on where the address slots
//! begin and end takes an [`InodeShape`], which [`Inode::validate`] hands out once the inode is known to be sane; with
//! it no accessor can leave the block.

mod checksum;
mod create;
mod extra;
mod fields;
mod rdev;
mod shape;
mod validate;

pub use create::NewInode;
pub use extra::{CompressAlgorithm, CompressInfo, FULL_EXTRA_ISIZE, mkfs_extra_isize};
pub use fields::{Extent, Time};
pub use rdev::DeviceNumber;
pub use shape::{DEFAULT_XATTR_WORDS, InodeShape, MAX_XATTR_WORDS};

use crate::block::BlockView;
use crate::node::NodeFooter;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Words of the area that address slots, extra attributes and inline xattrs share.
pub const ADDR_WORDS: usize = 923;
/// Byte offset of that area in the block.
pub const ADDR_OFFSET: usize = 360;
/// Byte offset of its end: the five node ids.
pub const ADDR_END: usize = ADDR_OFFSET + 4 * ADDR_WORDS;
/// The longest name.
pub const MAX_NAME: usize = 255;

/// Bits of `i_advise`.
pub mod advise {
    /// The data is cold.
    pub const COLD: u8 = 0x01;
    /// `i_pino` and `i_name` are not the file's only link.
    pub const LOST_PINO: u8 = 0x02;
    /// Contents are encrypted.
    pub const ENCRYPT: u8 = 0x04;
    /// The name is encrypted.
    pub const ENC_NAME: u8 = 0x08;
    /// Blocks may lie beyond the end of the file.
    pub const KEEP_SIZE: u8 = 0x10;
    /// The data is hot.
    pub const HOT: u8 = 0x20;
    /// An fs-verity file.
    pub const VERITY: u8 = 0x40;
    /// To be cut to `i_size` when it is next opened.
    pub const TRUNC: u8 = 0x80;
}

/// Bits of `i_inline`.
pub mod inline {
    /// The end of the address area holds xattrs.
    pub const XATTR: u8 = 0x01;
    /// The address area holds the file's contents.
    pub const DATA: u8 = 0x02;
    /// The address area holds the directory's entries.
    pub const DENTRY: u8 = 0x04;
    /// Inline data was written.
    pub const DATA_EXIST: u8 = 0x08;
    /// The directory has no dot entries (obsolete).
    pub const DOTS: u8 = 0x10;
    /// The address area begins with extra attributes.
    pub const EXTRA_ATTR: u8 = 0x20;
    /// The file must not move.
    pub const PIN_FILE: u8 = 0x40;
    /// Blocks saved by compression were given back.
    pub const COMPRESS_RELEASED: u8 = 0x80;
}

/// Bits of `i_flags`.
pub mod flags {
    /// Compress.
    pub const COMPR: u32 = 0x4;
    /// Write synchronously.
    pub const SYNC: u32 = 0x8;
    /// May not be changed.
    pub const IMMUTABLE: u32 = 0x10;
    /// May only be appended to.
    pub const APPEND: u32 = 0x20;
    /// Not for dump.
    pub const NODUMP: u32 = 0x40;
    /// Keep the access time.
    pub const NOATIME: u32 = 0x80;
    /// Do not compress.
    pub const NOCOMP: u32 = 0x400;
    /// Indexed directory; Linux sets it on every directory.
    pub const INDEX: u32 = 0x1000;
    /// Synchronous directory.
    pub const DIRSYNC: u32 = 0x1_0000;
    /// Children inherit the project id.
    pub const PROJINHERIT: u32 = 0x2000_0000;
    /// Names ignore case.
    pub const CASEFOLD: u32 = 0x4000_0000;
    /// The file stands for a device.
    pub const DEVICE_ALIAS: u32 = 0x8000_0000;
    /// What a new file inherits from its directory, before the mask of its type.
    pub const INHERITED: u32 = SYNC | NODUMP | NOATIME | DIRSYNC | PROJINHERIT | CASEFOLD | COMPR | NOCOMP;
    /// What a regular file may inherit.
    pub const FILE_MASK: u32 = !(DIRSYNC | PROJINHERIT | CASEFOLD);
    /// What anything but regular files and directories may inherit.
    pub const OTHER_MASK: u32 = NODUMP | NOATIME;
}

/// The bytes of an inode block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Inode {
    mode: U16,
    advise: u8,
    inline: u8,
    uid: U32,
    gid: U32,
    links: U32,
    size: U64,
    blocks: U64,
    atime: I64,
    ctime: I64,
    mtime: I64,
    atime_nsec: U32,
    ctime_nsec: U32,
    mtime_nsec: U32,
    generation: U32,
    /// Directories: depth of the hash tree. Regular files: the lower half counts failed collections.
    current_depth: U32,
    xattr_nid: U32,
    flags: U32,
    pino: U32,
    namelen: U32,
    name: [u8; MAX_NAME],
    dir_level: u8,
    ext_fofs: U32,
    ext_blk: U32,
    ext_len: U32,
    addr: [U32; ADDR_WORDS],
    nid: [U32; 5],
    /// The footer that every node has.
    pub footer: NodeFooter,
}

impl BlockView for Inode {}

const _: () = assert!(std::mem::offset_of!(Inode, name) == 92);
const _: () = assert!(std::mem::offset_of!(Inode, addr) == ADDR_OFFSET);
const _: () = assert!(std::mem::offset_of!(Inode, nid) == ADDR_END);
const _: () = assert!(std::mem::offset_of!(Inode, footer) == crate::node::NODE_PAYLOAD);

impl Inode {
    /// An inode of zeros.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

#[cfg(test)]
mod tests;
