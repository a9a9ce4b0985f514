//! Node blocks that are no inodes: footer, direct and indirect nodes, and paths through the tree. Input: a page, the
//! shape of the addressing, then the block.

use super::BLOCK_MEMORY;
use crate::Target;
use crate::input::Input;
use steadyfs_format::block::BlockView;
use steadyfs_format::node::{
    Addressing, DirectNode, IndirectNode, NodeBlock, NodeFooter, NodeKind, NodeOfs, NodePath, SLOTS_PER_NODE,
};
use steadyfs_format::{Ino, Lba, Nid, PageIndex, Slot};

/// The target.
pub const TARGET: Target = Target { name: "node", run, seeds, volume: false, memory: BLOCK_MEMORY };

fn seeds() -> Vec<Vec<u8>> {
    let mut direct = DirectNode::zeroed();
    direct.footer = NodeFooter::new(Nid(9), Ino(4), NodeOfs::new(1), true);
    for index in 0..100 {
        direct.set_slot(index, Slot::At(Lba(5000 + u64::from(index))));
    }
    let mut indirect = IndirectNode::zeroed();
    indirect.footer = NodeFooter::new(Nid(9), Ino(4), NodeOfs::INDIRECT_1, true);
    indirect.set_child(3, Nid(77));
    let prefix = [0, 16, 0, 0, 0, 0, 0, 0, 0x69, 3, 0];
    [direct.to_block(), indirect.to_block()].map(|block| [&prefix[..], &block].concat()).to_vec()
}

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (page, inode_slots, log_cluster) = (PageIndex(input.u64()), input.u16() % 924, input.u8() % 9);
    let block = input.block();
    use_node(&block);
    let addressings = [Addressing::new(inode_slots), Addressing::clustered(inode_slots, log_cluster)];
    let ofs = NodeBlock::view(&block).footer.ofs();
    for addressing in addressings {
        use_paths(addressing, page, ofs);
    }
}

/// Looks at a block as every kind of node.
pub(crate) fn use_node(block: &steadyfs_format::Block) {
    let footer = NodeBlock::view(block).footer;
    let _ = (footer.nid(), footer.ino(), footer.cp_ver(), footer.next());
    let _ = (footer.is_cold(), footer.is_fsync(), footer.is_dentry());
    let (direct, indirect) = (DirectNode::view(block), IndirectNode::view(block));
    let mut copies = (direct.clone(), indirect.clone());
    for index in 0..SLOTS_PER_NODE as u16 {
        copies.0.set_slot(index, direct.slot(index));
        copies.1.set_child(index, indirect.child(index));
    }
    assert!(copies.0 == *direct && copies.1 == *indirect, "what is read can be written");
    assert_eq!(direct.slots().filter(|slot| slot.is_counted()).count(), {
        indirect.children().filter(|nid| !nid.is_null()).count()
    });
}

/// Walks up from a node and down to a page.
fn use_paths(addressing: Addressing, page: PageIndex, ofs: NodeOfs) {
    let path = NodePath::of_page(page, addressing);
    assert_eq!(path.is_some(), page.0 < addressing.max_pages());
    if let Some(path) = path {
        assert!(path.leaf_slot() < addressing.slots_at(path.leaf()));
        assert_eq!(path.steps().len(), path.depth());
    }
    let mut at = ofs;
    let mut steps = 0;
    while let Some((parent, slot)) = at.parent() {
        assert!(parent < at && usize::from(slot) < SLOTS_PER_NODE);
        (at, steps) = (parent, steps + 1);
    }
    assert!(steps <= 3);
    let (first, under) = (addressing.first_page(ofs), addressing.pages_under(ofs));
    let is_tree = !matches!(ofs.kind(), NodeKind::Xattr | NodeKind::Invalid);
    assert_eq!((first.is_some(), NodePath::of_node(ofs).is_some()), (is_tree, is_tree));
    assert!(first.is_none_or(|first| first.0 + under <= addressing.max_pages()));
}
