//! Owners of blocks that move: found once, when the blocks are looked at first, and used until they have moved.
//! A thread that moves a block looks again under its owner's lock ([`why_dead`]), and has it refer to the new place
//! ([`publish`]).

use super::live::{Asking, Live};
use super::report::Skipped;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::files::mapping::way::{LeafOrGap, addressing};
use crate::gate::protect::{PageHold, Work};
use crate::options::techniques::GcBuffer;
use crate::volume::Volume;
use crate::volume::nodes::cache::{Node, NodeWrite};
use crate::volume::nodes::slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{advise, flags};
use steadyfs_format::node::NodeBlock;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Block, Ino, Lba, Nid, PageIndex, SegNo, Slot};

/// A node that holds addresses of blocks of a victim.
pub(super) struct Owner {
    pub(super) node: Arc<Node>,
    pub(super) ino: Ino,
    /// The regular file it belongs to, if collectors are to ask for its pages; none if it is not in memory, and so
    /// nobody does I/O on it.
    asked: Option<Arc<Inode>>,
    /// The regular file in whose cache blocks are while they move.
    cached: Option<Arc<Inode>>,
    /// The page of the node's slot 0.
    first: PageIndex,
}

impl Owner {
    /// The owner of these blocks, and those of them that it refers to at this moment; `None` if it is gone. The others
    /// are counted. The checkpoint lock is held shared.
    pub(super) fn find(
        files: &Files,
        seg: SegNo,
        nid: Nid,
        blocks: &[Live],
        asking: Asking,
        skipped: &mut Skipped,
    ) -> Result<Option<(Self, Vec<Live>)>> {
        let vol = &files.vol;
        let node = match vol.node(nid) {
            Ok(node) => node,
            Err(Error::NotFound) => {
                skipped.gone += blocks.len() as u64;
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let guard = node.read();
        if guard.is_dead() {
            skipped.gone += blocks.len() as u64;
            return Ok(None);
        }
        let mut live = Vec::with_capacity(blocks.len());
        for block in blocks {
            match why_dead(vol, seg, block, guard.bytes())? {
                None => live.push(*block),
                Some(NotLive::Gone) => skipped.gone += 1,
                Some(NotLive::Moved) => skipped.moved += 1,
            }
        }
        let footer = NodeBlock::view(guard.bytes()).footer;
        drop(guard);
        let mut owner = Owner { node, ino: footer.ino(), asked: None, cached: None, first: PageIndex(0) };
        let through_cache = files.options.gc.buffer == GcBuffer::Cache;
        let Some(file) = files.regular_file(owner.ino, through_cache)? else { return Ok(Some((owner, live))) };
        let (addressing, plain) = file.read(|raw| {
            let plain = raw.flags() & flags::COMPR == 0 && raw.advise() & advise::ENCRYPT == 0;
            addressing(raw, vol.sb.features()).map(|addressing| (addressing, plain))
        })??;
        let Some(first) = addressing.first_page(footer.ofs()) else { return Ok(Some((owner, live))) };
        owner.first = first;
        if through_cache && plain && files.vol.is_leaf(&file, first, &owner.node)? {
            owner.cached = Some(Arc::clone(&file));
        }
        owner.asked = (asking == Asking::Yes).then_some(file);
        Ok(Some((owner, live)))
    }

    /// The file in whose cache blocks are while they move, if they are in one.
    pub(super) fn cached_file(&self) -> Option<&Arc<Inode>> {
        self.cached.as_ref()
    }

    /// The page that a block holds.
    pub(super) fn page(&self, block: &Live) -> PageIndex {
        self.first + u64::from(block.summary.ofs_in_node)
    }
}

impl Volume {
    /// Whether the walk to this page of a file ends at this node, and it is the first page there.
    fn is_leaf(&self, file: &Inode, first: PageIndex, node: &Arc<Node>) -> Result<bool> {
        match self.leaf(file, first) {
            Ok(LeafOrGap::Leaf(leaf)) => Ok(leaf.first == first && Arc::ptr_eq(&leaf.node, node)),
            Ok(LeafOrGap::Gap { .. }) | Err(Error::NotFound | Error::TooBig) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Files {
    /// The regular file with this number, if it is in memory or to be loaded.
    fn regular_file(&self, ino: Ino, load: bool) -> Result<Option<Arc<Inode>>> {
        let found = match self.inodes.peek(ino) {
            None if load => match self.inode(ino) {
                Ok(file) => Some(Arc::clone(&file.inode)),
                Err(Error::NotFound) => None,
                Err(e) => return Err(e),
            },
            found => found,
        };
        Ok(found.filter(|inode| inode.kind == FileType::Regular))
    }
}

/// Why a block that its segment counts as valid is not to be moved.
pub(super) enum NotLive {
    /// Its owner was deleted; the node id may be in use again.
    Gone,
    /// Its owner has other contents there now, or the same at another place.
    Moved,
}

/// Why the node with these bytes, which is not dead, does not refer to the block; `None` if it does.
pub(super) fn why_dead(vol: &Volume, seg: SegNo, block: &Live, bytes: &Block) -> Result<Option<NotLive>> {
    let Summary { nid, version, ofs_in_node } = block.summary;
    if version != vol.nat.get(&vol.io, nid)?.version {
        return Ok(Some(NotLive::Gone));
    }
    let refers =
        slots::get(bytes, vol.sb.features(), ofs_in_node)? == Some(Slot::At(vol.segments().lba_of(seg, block.off)));
    Ok((!refers).then_some(NotLive::Moved))
}

/// Has the locked owner refer to blocks of a segment at their new places, which follow one another from `to` on.
pub(super) fn publish(
    vol: &Volume,
    seg: SegNo,
    guard: &mut NodeWrite<'_>,
    to: Lba,
    blocks: impl Iterator<Item = Live>,
) -> Result<()> {
    assert!(!guard.is_dead(), "blocks of segment {seg} move for a node that was freed");
    for (to, block) in (to.get()..).map(Lba::new).zip(blocks) {
        slots::set(guard.edit(), vol.sb.features(), block.summary.ofs_in_node, Slot::At(to))?;
        vol.invalidate(Slot::At(vol.segments().lba_of(seg, block.off)))?;
    }
    Ok(())
}

/// Which of these blocks a collector may work on now, and what it holds until that is done.
pub(super) fn try_blocks<'a>(work: Work, blocks: &[(&'a Owner, Live)]) -> (Vec<bool>, Vec<PageHold<'a>>) {
    let mut may = vec![true; blocks.len()];
    let mut held = Vec::new();
    let mut files: BTreeMap<Ino, (&'a Arc<Inode>, Vec<usize>)> = BTreeMap::new();
    for (i, (owner, _)) in blocks.iter().enumerate() {
        if let Some(file) = &owner.asked {
            files.entry(owner.ino).or_insert_with(|| (file, Vec::new())).1.push(i);
        }
    }
    for (file, mut members) in files.into_values() {
        let page = |i: &usize| blocks[*i].0.page(&blocks[*i].1);
        members.sort_unstable_by_key(page);
        let pages: Vec<PageIndex> = members.iter().map(page).collect();
        assert!(pages.is_sorted(), "pages are held in another order than theirs");
        let (free, holds) = file.gc.try_pages(work, &pages);
        assert_eq!(free.len(), pages.len(), "an answer for each page");
        members.iter().zip(free).for_each(|(i, free)| may[*i] = free);
        held.extend(holds);
    }
    (may, held)
}
