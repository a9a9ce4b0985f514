//! File-address slots of a node block, whichever kind of node it is: those of an inode or those of a direct node.
//!
//! `index` counts as a summary's `ofs_in_node` does: from the node's first file address (format sections 6, 7.3).

use crate::error::{Error, Result};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Inode as RawInode, InodeShape};
use steadyfs_format::node::{DirectNode, NodeBlock, NodeKind, WideNode};
use steadyfs_format::{Block, Features, Slot, Width};

/// Where a node's slots are. Good for as long as the node stays locked.
#[derive(Clone, Copy)]
pub(crate) enum Area {
    /// Of an inode.
    Inode(InodeShape),
    /// A direct node is nothing but slots, of this width.
    Direct(Width),
}

impl Area {
    /// The slots of this node.
    ///
    /// # Errors
    /// Damage, if the node is of a kind that has none.
    pub(crate) fn of(block: &Block, features: Features) -> Result<Self> {
        match NodeBlock::view(block).footer.ofs().kind() {
            NodeKind::Inode => Ok(Area::Inode(RawInode::view(block).shape(features)?)),
            NodeKind::Direct => Ok(Area::Direct(Width::of(features))),
            _ => Err(Error::corrupt("a node without address slots is used as one with")),
        }
    }

    /// Number of slots.
    pub(crate) fn len(self) -> u16 {
        match self {
            Area::Inode(shape) => shape.addr_slots(),
            Area::Direct(width) => width.slots_per_node(),
        }
    }

    /// A slot below `len`.
    pub(crate) fn get(self, block: &Block, index: u16) -> Slot {
        match self {
            Area::Inode(shape) => RawInode::view(block).slot(shape, index),
            Area::Direct(Width::Four) => DirectNode::view(block).slot(index),
            Area::Direct(Width::Eight) => WideNode::view(block).slot(index),
        }
    }

    /// Changes a slot below `len`.
    pub(crate) fn set(self, block: &mut Block, index: u16, slot: Slot) {
        match self {
            Area::Inode(shape) => RawInode::view_mut(block).set_slot(shape, index, slot),
            Area::Direct(Width::Four) => DirectNode::view_mut(block).set_slot(index, slot),
            Area::Direct(Width::Eight) => WideNode::view_mut(block).set_slot(index, slot),
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

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_format::node::{NodeFooter, NodeOfs};
    use steadyfs_format::{Ino, Lba, Nid, zeroed_block};

    #[test]
    fn slots_have_the_width_of_the_volume() {
        for (features, slots, bytes) in [(Features::NONE, 1018, 4), (Features::INFINITE, 509, 8)] {
            let mut block = zeroed_block();
            NodeBlock::view_mut(&mut block).footer = NodeFooter::new(Nid(9), Ino(4), NodeOfs::new(1), true);
            set(&mut block, features, slots - 1, Slot::At(Lba(0x0102))).unwrap();
            assert_eq!(get(&block, features, slots - 1).unwrap(), Some(Slot::At(Lba(0x0102))));
            assert_eq!(get(&block, features, slots).unwrap(), None);
            assert!(set(&mut block, features, slots, Slot::New).is_err());
            assert_eq!(block[4072 - bytes..4072 - bytes + 4], [2, 1, 0, 0]);
        }
    }
}
