//! The last 24 bytes of every node block: whose it is, where in the file, and the links of the roll-forward chain.

use super::{NODE_PAYLOAD, NodeOfs};
use crate::block::BlockView;
use crate::{Ino, Lba, Nid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const COLD: u32 = 1;
const FSYNC: u32 = 2;
const DENTRY: u32 = 4;
const OFS_SHIFT: u32 = 3;

/// The footer of a node block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeFooter {
    nid: U32,
    ino: U32,
    flag: U32,
    cp_ver: U64,
    next_blkaddr: U32,
}

const _: () = assert!(size_of::<NodeFooter>() == 24);

impl NodeFooter {
    /// The footer of a new node. The chain fields are filled in when the node is written.
    ///
    /// `cold` is the mark of every node that does not belong to a directory.
    pub fn new(nid: Nid, ino: Ino, ofs: NodeOfs, cold: bool) -> Self {
        let mut footer = Self::new_zeroed();
        footer.nid = nid.get().into();
        footer.ino = ino.get().into();
        footer.flag = (ofs.get() << OFS_SHIFT | if cold { COLD } else { 0 }).into();
        footer
    }

    /// The node's id.
    pub fn nid(&self) -> Nid {
        Nid(self.nid.get())
    }

    /// Changes the node's id.
    pub fn set_nid(&mut self, nid: Nid) {
        self.nid = nid.get().into();
    }

    /// The inode that owns the node.
    pub fn ino(&self) -> Ino {
        Ino(self.ino.get())
    }

    /// Changes the inode that owns the node.
    pub fn set_ino(&mut self, ino: Ino) {
        self.ino = ino.get().into();
    }

    /// Where in the file's node tree the node is.
    pub fn ofs(&self) -> NodeOfs {
        NodeOfs::new(self.flag.get() >> OFS_SHIFT)
    }

    /// Changes where in the file's node tree the node is.
    pub fn set_ofs(&mut self, ofs: NodeOfs) {
        let marks = self.flag.get() & (COLD | FSYNC | DENTRY);
        self.flag = (ofs.get() << OFS_SHIFT | marks).into();
    }

    /// Whether the node belongs to something other than a directory.
    pub fn is_cold(&self) -> bool {
        self.flag.get() & COLD != 0
    }

    /// Changes the cold mark.
    pub fn set_cold(&mut self, on: bool) {
        self.set_mark(COLD, on);
    }

    /// Whether an fsync ended its part of the chain with this block.
    pub fn is_fsync(&self) -> bool {
        self.flag.get() & FSYNC != 0
    }

    /// Changes the fsync mark.
    pub fn set_fsync(&mut self, on: bool) {
        self.set_mark(FSYNC, on);
    }

    /// Whether recovery must restore the directory entry that the inode names.
    pub fn is_dentry(&self) -> bool {
        self.flag.get() & DENTRY != 0
    }

    /// Changes the dentry mark.
    pub fn set_dentry(&mut self, on: bool) {
        self.set_mark(DENTRY, on);
    }

    /// Version of the checkpoint in force when the block was written, with that checkpoint's checksum in the upper half
    /// if it says so.
    pub fn cp_ver(&self) -> u64 {
        self.cp_ver.get()
    }

    /// Address of the block that the same log allocates next.
    pub fn next(&self) -> Lba {
        Lba::from_disk(self.next_blkaddr.get())
    }

    /// Changes the two links of the chain. Panics as [`Lba::to_disk`].
    pub fn set_chain(&mut self, cp_ver: u64, next: Lba) {
        self.cp_ver = cp_ver.into();
        self.next_blkaddr = next.to_disk().into();
    }

    fn set_mark(&mut self, mark: u32, on: bool) {
        let flag = self.flag.get();
        self.flag = if on { flag | mark } else { flag & !mark }.into();
    }
}

/// Any node block: payload and footer.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeBlock {
    /// What the node holds, by its kind. The payload of an xattr node is xattr area from end to end.
    pub payload: [u8; NODE_PAYLOAD],
    /// The footer.
    pub footer: NodeFooter,
}

impl BlockView for NodeBlock {}

impl NodeBlock {
    /// A node of zeros.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::zeroed_block;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_format_says() {
        let mut block = zeroed_block();
        let footer = &mut NodeBlock::view_mut(&mut block).footer;
        *footer = NodeFooter::new(Nid(9), Ino(4), NodeOfs::new(2), true);
        footer.set_dentry(true);
        footer.set_chain(0x0102, Lba(0x0304));
        assert_eq!(block[4072..], [9, 0, 0, 0, 4, 0, 0, 0, 0b10101, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0]);
    }

    proptest! {
        #[test]
        fn marks_and_offset_do_not_disturb_each_other(ofs in 0u32..1 << 29, marks in 0u8..8, new_ofs in 0u32..1 << 29) {
            let mut footer = NodeFooter::new(Nid(1), Ino(2), NodeOfs::new(ofs), marks & 1 != 0);
            footer.set_fsync(marks & 2 != 0);
            footer.set_dentry(marks & 4 != 0);
            prop_assert_eq!(footer.ofs().get(), ofs);
            footer.set_ofs(NodeOfs::new(new_ofs));
            let found = u8::from(footer.is_cold()) | u8::from(footer.is_fsync()) << 1 | u8::from(footer.is_dentry()) << 2;
            prop_assert_eq!((footer.ofs().get(), found), (new_ofs, marks));
            footer.set_cold(marks & 1 == 0);
            prop_assert_eq!((footer.ofs().get(), footer.is_cold(), footer.is_fsync()), (new_ofs, marks & 1 == 0, marks & 2 != 0));
        }
    }

    #[test]
    fn the_page_has_these_offsets() {
        let fields = crate::page::offsets!("", NodeFooter: nid ino flag cp_ver next_blkaddr);
        crate::page::assert_offsets("7", &fields);
    }
}
