//! One node block: the checks that all nodes share, and direct, indirect and xattr nodes. Inodes are in `inode`.

use super::blocks::SummaryCursor;
use super::context::Context;
use super::inodes::Inodes;
use super::issue::Issue;
use super::quota;
use super::slots::{SlotOwner, check_slots};
use super::walk::{Item, JobResult, refer};
use super::xattrs;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::PageBuf;
use steadyfs_format::block::{Block, BlockView};
use steadyfs_format::node::{IndirectNode, NodeBlock, NodeFooter, NodeKind, NodeOfs, SLOTS_PER_NODE};
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::{Ino, Width};

/// Checks a node that is not an inode. `inodes` knows its owner, or the node would not have been named.
pub(super) fn check(
    ctx: &Context,
    inodes: &Inodes,
    item: &Item,
    page: &PageBuf,
    cursor: &mut SummaryCursor<'_>,
    found: &mut JobResult,
) {
    let Some(info) = inodes.info(item.inode) else { return };
    let counters = inodes.counters(item.inode);
    counters.blocks.fetch_add(1, Relaxed);
    page.with(|bytes| {
        let footer = &NodeBlock::view(bytes).footer;
        if !check_node(ctx, info.ino, item, footer, Some(info.is_dir()), page, cursor) {
            return;
        }
        match item.ofs.kind() {
            NodeKind::Direct => {
                let Some(base) = info.addressing.and_then(|addressing| addressing.first_page(item.ofs)) else { return };
                let owner = SlotOwner { info, counters, inode: item.inode, nid: item.nid, base };
                let count = info.addressing.map_or(0, |addressing| addressing.node_slots());
                check_slots(ctx, &owner, &bytes[..Width::of(ctx.features).bytes() * usize::from(count)], cursor, found);
            }
            NodeKind::Indirect | NodeKind::DoubleIndirect => check_children(ctx, info.ino, item, bytes, found),
            NodeKind::Xattr => xattrs::check_with_node(ctx, info.ino, bytes),
            NodeKind::Inode | NodeKind::Invalid => unreachable!("references name places of the tree below the inode"),
        }
    });
}

/// The checks that every node goes through: its block, its summary, its footer. `is_dir` says whether the owner is a
/// directory, if that is known. Whether the block is that node: if not, nothing that it says is to be judged.
pub(super) fn check_node(
    ctx: &Context,
    ino: Ino,
    item: &Item,
    footer: &NodeFooter,
    is_dir: Option<bool>,
    page: &PageBuf,
    cursor: &mut SummaryCursor<'_>,
) -> bool {
    let Item { lba, nid, ofs, .. } = *item;
    ctx.block_in_use(ino, lba, Summary::of_node(nid), SummaryKind::Node, cursor);
    if footer.nid() != nid && (footer.ino() != ino || footer.ofs() != ofs) {
        ctx.add(Issue::NodeReplaced { ino, nid, lba, found: footer.nid().get(), owner: footer.ino().get() });
        return false;
    }
    ctx.blocks.check_node(&ctx.sink, ino, nid, lba, page);
    if footer.nid() != nid {
        ctx.add(Issue::NodeFooterNid { ino, nid, lba, found: footer.nid().get() });
    }
    if footer.ino() != ino {
        ctx.add(Issue::NodeFooterIno { ino, nid, lba, found: footer.ino().get() });
    }
    if footer.ofs() != ofs {
        ctx.add(Issue::NodeFooterOfs { ino, nid, expected: ofs, found: footer.ofs() });
    }
    // mkfs.f2fs leaves the mark off quota files.
    let is_quota = || quota::files(ctx.image.superblock()).any(|(_, quota)| quota == ino);
    if is_dir.is_some_and(|is_dir| footer.is_cold() == is_dir) && !is_quota() {
        ctx.add(Issue::NodeColdMark { ino, nid, found: u8::from(footer.is_cold()) });
    }
    true
}

/// The ids in an indirect node.
fn check_children(ctx: &Context, ino: Ino, item: &Item, bytes: &Block, found: &mut JobResult) {
    for (slot, child) in (0..).zip(IndirectNode::view(bytes).children()) {
        if !child.is_null() {
            refer(ctx, ino, item.inode, item.nid, child, child_ofs(item.ofs, slot), found);
        }
    }
}

/// The offset of the node in a slot of an indirect or double indirect node.
fn child_ofs(parent: NodeOfs, slot: u32) -> NodeOfs {
    assert!(slot < SLOTS_PER_NODE as u32);
    let step = if parent == NodeOfs::DOUBLE_INDIRECT { SLOTS_PER_NODE as u32 + 1 } else { 1 };
    NodeOfs::new(parent.get() + 1 + slot * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_where_their_parents_say() {
        for parent in [NodeOfs::INDIRECT_1, NodeOfs::INDIRECT_2, NodeOfs::DOUBLE_INDIRECT] {
            for slot in [0, 1, 500, SLOTS_PER_NODE as u32 - 1] {
                let child = child_ofs(parent, slot);
                assert_eq!(child.parent(), Some((parent, slot as u16)));
                if child.kind() == NodeKind::Indirect {
                    assert_eq!(child_ofs(child, slot).parent(), Some((child, slot as u16)));
                }
            }
        }
    }
}
