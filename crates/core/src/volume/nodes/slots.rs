//! File-address slots of a node block, whichever kind of node it is: those of an inode or those of a direct node.
//!
//! `index` counts as a summary's `ofs_in_node` does: from the node's first file address (format sections 6, 7.3).

use crate::error::{Error, Result};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Inode as RawInode, InodeShape};
use steadyfs_format::node::{DirectNode, NodeBlock, NodeKind, SLOTS_PER_NODE};
use steadyfs_format::{Block, Features, Slot};

/// Where a node's slots are. Good for as long as the node stays locked.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    /// Of an inode; a direct node is nothing but slots.
    shape: Option<InodeShape>,
}

impl Area {
    /// The slots of this node.
    ///
    /// # Errors
    /// Damage, if the node is of a kind that has none.
    pub(crate) fn of(block: &Block, features: Features) -> Result<Self> {
        match NodeBlock::view(block).footer.ofs().kind() {
            NodeKind::Inode => Ok(Area { shape: Some(RawInode::view(block).shape(features)?) }),
            NodeKind::Direct => Ok(Area { shape: None }),
            _ => Err(Error::corrupt("a node without address slots is used as one with")),
        }
    }

    /// Number of slots.
    pub(crate) fn len(self) -> u16 {
        self.shape.map_or(SLOTS_PER_NODE as u16, InodeShape::addr_slots)
    }

    /// A slot below `len`.
    pub(crate) fn get(self, block: &Block, index: u16) -> Slot {
        match self.shape {
            Some(shape) => RawInode::view(block).slot(shape, index),
            None => DirectNode::view(block).slot(index),
        }
    }

    /// Changes a slot below `len`.
    pub(crate) fn set(self, block: &mut Block, index: u16, slot: Slot) {
        match self.shape {
            Some(shape) => RawInode::view_mut(block).set_slot(shape, index, slot),
            None => DirectNode::view_mut(block).set_slot(index, slot),
        }
    }
}

/// The slot, or `None` if the node has no slot of this number (indirect nodes have none).
pub(crate) fn get(block: &Block, features: Features, index: u16) -> Result<Option<Slot>> {
    if matches!(NodeBlock::view(block).footer.ofs().kind(), NodeKind::Inode | NodeKind::Direct) {
        let area = Area::of(block, features)?;
        return Ok((index < area.len()).then(|| area.get(block, index)));
    }
    Ok(None)
}

/// Stores a slot that `get` has found to exist.
pub(crate) fn set(block: &mut Block, features: Features, index: u16, slot: Slot) -> Result<()> {
    let area = Area::of(block, features)?;
    if index >= area.len() {
        return Err(Error::corrupt(format!("a node has no address slot {index}")));
    }
    area.set(block, index, slot);
    Ok(())
}
