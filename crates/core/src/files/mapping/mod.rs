//! From a file page to the slot that holds its block: walking a file's node tree (format section 7.3).
//!
//! The nodes of a tree come and go only while the file's `i_rwsem` is held exclusively, but write-back and collection
//! walk without it. So a walk holds one node lock at a time and trusts nothing it has let go of: every node is checked,
//! under its own lock, to be alive and to be the one for this place of this file. A walk that meets a node on its way
//! out starts again; one that meets the same wrong node twice reports damage. Holding one lock at a time also means
//! that no image, however twisted its tree, can make a walk wait for itself.
//!
//! Kept true, at every moment without a change in progress:
//! - `i_blocks` is 1 plus the nodes below the inode plus the counted slots.
//! - A counted slot was reserved in `space`.
//! - A tree holds no empty direct or indirect node that we made.

mod extents;
mod free;
mod missing;
mod reserve;
pub(crate) mod way;

pub(crate) use extents::Extent;
pub(crate) use way::{LeafOrGap, addressing};

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::options::policies::{DataToPlace, Own};
use crate::volume::Volume;
use crate::volume::nodes::cache::NodeRead;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::nodes::slots::Area;
use crate::volume::placement::placing;
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::node::{Addressing, IndirectNode, NodeBlock, NodeOfs, NodePath};
use steadyfs_format::{Block, Log, Nid, PageIndex};

impl Inode {
    /// The log that this inode's data goes to.
    pub(crate) fn data_log(&self) -> Log {
        let guard = self.node.read();
        placing::data_log(RawInode::view(guard.bytes()))
    }
}

impl Files {
    /// The log that data of an inode goes to now: its own, or, for a regular file, the one that the mount's policy
    /// chooses.
    pub(crate) fn log_for(&self, inode: &Inode) -> Log {
        let usual = inode.data_log();
        match self.options.placed_by {
            Some(Own(policy)) if inode.kind == FileType::Regular => {
                let log = policy.log(&DataToPlace { ino: inode.ino, usual });
                assert!(!log.is_node(), "a policy places data of inode {} in {log:?}", inode.ino);
                log
            }
            _ => usual,
        }
    }
}

impl Leaf {
    /// The inode of a small file as the holder of its first pages.
    pub(crate) fn of_inode(inode: &Inode, slots: u16) -> Self {
        Leaf { node: Arc::clone(&inode.node), first: PageIndex(0), slots }
    }
}

/// A walk from the inode towards a page.
enum Walk {
    Found(LeafOrGap),
    /// The link led to a node that is not, or no longer, the one for its place.
    Stray(Nid),
}

impl Volume {
    /// The node that holds a page's slot, or how far there is none. The page is one that the tree can reach.
    pub(crate) fn leaf(&self, inode: &Inode, page: PageIndex) -> Result<LeafOrGap> {
        let mut stray = None;
        loop {
            match self.walk(inode, page)? {
                Walk::Found(found) => {
                    let leads_on = match &found {
                        LeafOrGap::Leaf(leaf) => leaf.pages().contains(&page),
                        LeafOrGap::Gap { until, .. } => *until > page,
                    };
                    assert!(leads_on, "the way to page {page:?} of inode {} ends elsewhere", inode.ino);
                    return Ok(found);
                }
                Walk::Stray(nid) if stray == Some(nid) => {
                    return Err(Error::corrupt(format!("inode {}: node {nid} is not part of the file", inode.ino)));
                }
                Walk::Stray(nid) => stray = Some(nid),
            }
        }
    }

    fn walk(&self, inode: &Inode, page: PageIndex) -> Result<Walk> {
        let features = self.sb.features();
        let (addressing, path, mut child) = {
            let guard = inode.node.read();
            if guard.is_dead() {
                return Err(Error::NotFound);
            }
            let raw = RawInode::view(guard.bytes());
            let addressing = addressing(raw, features)?;
            let path = NodePath::of_page(page, addressing).ok_or(Error::TooBig)?;
            if path.depth() == 0 {
                let (node, slots) = (Arc::clone(&inode.node), addressing.inode_slots());
                return Ok(Walk::Found(LeafOrGap::Leaf(Leaf { node, first: PageIndex(0), slots })));
            }
            (addressing, path, raw.child(path.slot(0)))
        };
        let mut gap = behind(addressing, path.ofs(1), 1);
        for level in 1..=path.depth() {
            if child.is_null() {
                return Ok(Walk::Found(LeafOrGap::Gap { until: gap, level }));
            }
            let node = match self.node(child) {
                Ok(node) => node,
                Err(Error::NotFound) => return Ok(Walk::Stray(child)),
                Err(e) => return Err(e),
            };
            let guard = node.read();
            if !is_at(&guard, inode, path.ofs(level)) {
                return Ok(Walk::Stray(child));
            }
            if level == path.depth() {
                drop(guard);
                let first = addressing.first_page(path.leaf()).ok_or_else(|| Error::corrupt("a leaf without pages"))?;
                return Ok(Walk::Found(LeafOrGap::Leaf(Leaf { node, first, slots: addressing.node_slots() })));
            }
            let slot = path.slot(level);
            let view = IndirectNode::view(guard.bytes());
            child = view.child(slot);
            let absent = view.children().skip(usize::from(slot)).take_while(|nid| nid.is_null()).count();
            gap = behind(addressing, path.ofs(level + 1), absent as u64);
        }
        Err(Error::corrupt("a path without a leaf"))
    }

    /// The first page at or after `from` whose slot is counted.
    pub(crate) fn next_page(&self, inode: &Arc<Inode>, from: PageIndex) -> Result<Option<PageIndex>> {
        let mut at = from;
        loop {
            let leaf = match self.leaf(inode, at) {
                Ok(LeafOrGap::Leaf(leaf)) => leaf,
                Ok(LeafOrGap::Gap { until, .. }) => {
                    at = until;
                    continue;
                }
                Err(Error::TooBig) => return Ok(None),
                Err(e) => return Err(e),
            };
            let guard = leaf.node.read();
            if guard.is_dead() {
                continue;
            }
            let area = Area::of(guard.bytes(), self.sb.features())?;
            let pages = leaf.pages();
            let found = (at.get()..pages.end.get())
                .map(PageIndex)
                .find(|p| area.get(guard.bytes(), leaf.slot_of(*p)).is_counted());
            if found.is_some() {
                return Ok(found);
            }
            at = pages.end;
        }
    }
}

/// The page behind `count` sibling subtrees, the first of which is at `ofs`.
fn behind(addressing: Addressing, ofs: NodeOfs, count: u64) -> PageIndex {
    let first = addressing.first_page(ofs).unwrap_or_default();
    first + addressing.pages_under(ofs) * count.max(1)
}

/// Whether a locked node is alive and the one for this place of the file's tree.
fn is_at(guard: &NodeRead<'_>, inode: &Inode, ofs: NodeOfs) -> bool {
    !guard.is_dead() && place_of(guard.bytes()) == (inode.ino.get(), ofs)
}

/// Owner and offset in the footer of a node.
fn place_of(block: &Block) -> (u32, NodeOfs) {
    let footer = NodeBlock::view(block).footer;
    (footer.ino().get(), footer.ofs())
}
