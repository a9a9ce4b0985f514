//! Node offsets: the number that says where in a file's node tree a node sits.
//!
//! With N = 1018: inode 0; direct 1, 2; indirect 3 with children `4 ..= 3+N`; indirect `4+N` with children `5+N ..=
//! 4+2N`; double indirect `5+2N`, whose k-th indirect is `6+2N + k(N+1)`, followed by that one's N direct nodes. The
//! xattr node stands apart.

use super::SLOTS_PER_NODE;
use std::fmt;

const N: u32 = SLOTS_PER_NODE as u32;

/// Where in a file's node tree a node is. Any 29-bit number can be read from a disk; [`NodeOfs::kind`] tells what it
/// means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NodeOfs(u32);

/// What a node at an offset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The inode itself.
    Inode,
    /// Holds file addresses.
    Direct,
    /// Holds ids of direct nodes.
    Indirect,
    /// Holds ids of indirect nodes.
    DoubleIndirect,
    /// Holds extended attributes.
    Xattr,
    /// No node can be there.
    Invalid,
}

impl NodeOfs {
    /// The inode.
    pub const INODE: Self = Self(0);
    /// The xattr node.
    pub const XATTR: Self = Self(0x1FFF_FFFF);
    /// No node, but a block of the metadata journal ([`crate::records`]): to a reader that knows none, a place where no
    /// node can be.
    pub const BATCH: Self = Self(0x1FFF_FFFE);
    /// The first two-level subtree.
    pub const INDIRECT_1: Self = Self(3);
    /// The second two-level subtree.
    pub const INDIRECT_2: Self = Self(4 + N);
    /// The three-level subtree.
    pub const DOUBLE_INDIRECT: Self = Self(5 + 2 * N);
    /// The offset behind the last node of the tree.
    pub const END: Self = Self(6 + 2 * N + N * (N + 1));

    /// The offset with this number.
    ///
    /// # Panics
    /// If the number has more than 29 bits; a footer cannot hold it.
    pub const fn new(ofs: u32) -> Self {
        assert!(ofs <= Self::XATTR.0, "a node offset has 29 bits");
        Self(ofs)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// What a node here is.
    pub const fn kind(self) -> NodeKind {
        match self.0 {
            0 => NodeKind::Inode,
            1 | 2 => NodeKind::Direct,
            ofs if ofs == Self::XATTR.0 => NodeKind::Xattr,
            ofs if ofs >= Self::END.0 => NodeKind::Invalid,
            ofs if ofs == Self::INDIRECT_1.0 || ofs == Self::INDIRECT_2.0 => NodeKind::Indirect,
            ofs if ofs < Self::DOUBLE_INDIRECT.0 => NodeKind::Direct,
            ofs if ofs == Self::DOUBLE_INDIRECT.0 => NodeKind::DoubleIndirect,
            ofs if (ofs - Self::DOUBLE_INDIRECT.0 - 1).is_multiple_of(N + 1) => NodeKind::Indirect,
            _ => NodeKind::Direct,
        }
    }

    /// The node that holds this node's id, and the slot there: of the inode's five ids or of an indirect node's 1018.
    /// `None` for the inode, the xattr node and offsets where no node can be.
    pub const fn parent(self) -> Option<(Self, u16)> {
        let ofs = self.0;
        match self.kind() {
            NodeKind::Inode | NodeKind::Xattr | NodeKind::Invalid => return None,
            _ => {}
        }
        if ofs <= 2 {
            Some((Self::INODE, (ofs - 1) as u16))
        } else if ofs == Self::INDIRECT_1.0 {
            Some((Self::INODE, 2))
        } else if ofs < Self::INDIRECT_2.0 {
            Some((Self::INDIRECT_1, (ofs - Self::INDIRECT_1.0 - 1) as u16))
        } else if ofs == Self::INDIRECT_2.0 {
            Some((Self::INODE, 3))
        } else if ofs < Self::DOUBLE_INDIRECT.0 {
            Some((Self::INDIRECT_2, (ofs - Self::INDIRECT_2.0 - 1) as u16))
        } else if ofs == Self::DOUBLE_INDIRECT.0 {
            Some((Self::INODE, 4))
        } else {
            let below = ofs - Self::DOUBLE_INDIRECT.0 - 1;
            let (tree, place) = (below / (N + 1), below % (N + 1));
            if place == 0 {
                Some((Self::DOUBLE_INDIRECT, tree as u16))
            } else {
                Some((Self(ofs - place), (place - 1) as u16))
            }
        }
    }
}

impl fmt::Display for NodeOfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
