//! File-address slots of a node block, whichever kind of node it is: those of an inode or those of a direct node.
//!
//! `index` counts as a summary's `ofs_in_node` does: from the node's first file address (format sections 6, 7.3).

use crate::error::{Error, Result};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::{DirectNode, NodeBlock, NodeOfs, SLOTS_PER_NODE};
use steadyfs_format::{Block, Features, Slot};

/// The slot, or `None` if the node has no slot of this number (indirect nodes have none).
pub(crate) fn get(block: &Block, features: Features, index: u16) -> Result<Option<Slot>> {
    let ofs = NodeBlock::view(block).footer.ofs();
    if ofs == NodeOfs::INODE {
        let raw = RawInode::view(block);
        let shape = raw.shape(features)?;
        return Ok((index < shape.addr_slots()).then(|| raw.slot(shape, index)));
    }
    let direct = ofs.kind() == steadyfs_format::node::NodeKind::Direct;
    Ok((direct && usize::from(index) < SLOTS_PER_NODE).then(|| DirectNode::view(block).slot(index)))
}

/// Stores a slot that `get` has found to exist.
pub(crate) fn set(block: &mut Block, features: Features, index: u16, slot: Slot) -> Result<()> {
    if get(block, features, index)?.is_none() {
        return Err(Error::corrupt(format!("a node has no address slot {index}")));
    }
    if NodeBlock::view(block).footer.ofs() == NodeOfs::INODE {
        let shape = RawInode::view(block).shape(features)?;
        RawInode::view_mut(block).set_slot(shape, index, slot);
    } else {
        DirectNode::view_mut(block).set_slot(index, slot);
    }
    Ok(())
}
