//! Node blocks: the common footer, direct and indirect nodes, and the tree that node offsets describe. Format
//! section 7.

mod footer;
mod offset;
mod path;

pub use footer::{NodeBlock, NodeFooter};
pub use offset::{NodeKind, NodeOfs};
pub use path::{Addressing, NodePath};

use crate::block::BlockView;
use crate::{Nid, Slot};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a node block before its footer.
pub const NODE_PAYLOAD: usize = 4072;
/// Node ids in an indirect node, and addresses of 4 bytes in a direct node.
pub const SLOTS_PER_NODE: usize = NODE_PAYLOAD / 4;

/// A direct node: the addresses of 1018 file pages.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DirectNode {
    addr: [U32; SLOTS_PER_NODE],
    /// The footer.
    pub footer: NodeFooter,
}

impl BlockView for DirectNode {}

impl DirectNode {
    /// A node of holes.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Slot `index`.
    ///
    /// # Panics
    /// If `index` is not below 1018.
    pub fn slot(&self, index: u16) -> Slot {
        Slot::from_disk(self.addr[usize::from(index)].get())
    }

    /// Changes slot `index`.
    ///
    /// # Panics
    /// If `index` is not below 1018; as [`Slot::to_disk`].
    pub fn set_slot(&mut self, index: u16, slot: Slot) {
        self.addr[usize::from(index)] = slot.to_disk().into();
    }

    /// All slots, in order.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + DoubleEndedIterator + '_ {
        self.addr.iter().map(|raw| Slot::from_disk(raw.get()))
    }
}

/// A direct node of an IPLFS volume: the addresses of 509 file pages.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WideNode {
    addr: [U64; SLOTS_PER_NODE / 2],
    /// The footer.
    pub footer: NodeFooter,
}

impl BlockView for WideNode {}

impl WideNode {
    /// A node of holes.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Slot `index`.
    ///
    /// # Panics
    /// If `index` is not below 509.
    pub fn slot(&self, index: u16) -> Slot {
        Slot::from_wide(self.addr[usize::from(index)].get())
    }

    /// Changes slot `index`.
    ///
    /// # Panics
    /// If `index` is not below 509; as [`Slot::to_wide`].
    pub fn set_slot(&mut self, index: u16, slot: Slot) {
        self.addr[usize::from(index)] = slot.to_wide().into();
    }

    /// All slots, in order.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + DoubleEndedIterator + '_ {
        self.addr.iter().map(|raw| Slot::from_wide(raw.get()))
    }
}

/// An indirect node: the ids of 1018 nodes one level below; 0 where there is none.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IndirectNode {
    nid: [U32; SLOTS_PER_NODE],
    /// The footer.
    pub footer: NodeFooter,
}

impl BlockView for IndirectNode {}

impl IndirectNode {
    /// A node without children.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// Child `index`; null where there is none.
    ///
    /// # Panics
    /// If `index` is not below 1018.
    pub fn child(&self, index: u16) -> Nid {
        Nid(self.nid[usize::from(index)].get())
    }

    /// Changes child `index`.
    ///
    /// # Panics
    /// If `index` is not below 1018.
    pub fn set_child(&mut self, index: u16, child: Nid) {
        self.nid[usize::from(index)] = child.get().into();
    }

    /// All children, in order; null where there is none.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Nid> + DoubleEndedIterator + '_ {
        self.nid.iter().map(|raw| Nid(raw.get()))
    }
}
