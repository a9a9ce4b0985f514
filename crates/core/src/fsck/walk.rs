//! The walk over all nodes, level by level: inodes, then what they point at, three levels down at most.
//!
//! Within a level nodes are read in the order of their addresses, in large runs, by all threads; the children that they name form the
//! next level. So every node is read once, nearly sequentially, and no tree, however deep or tangled, makes the checker recurse: a
//! node that was named before is not named again.
//!
//! Memory: 24 bytes per node of the two levels at hand, a bit per node id, and 24 bytes per directory block.

use super::context::Context;
use super::inodes::{Counters, InodeInfo, Inodes};
use super::issue::Issue;
use super::nids::NidSet;
use super::sink::Tracker;
use super::summaries::Cursor;
use super::{Phase, inode, node, pool, quota};
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{Ino, Lba, Nid, PageIndex};

/// Nodes per job.
const JOB: usize = 256;
/// Nodes after which the threads meet.
const SLAB: usize = 256 * JOB;
/// Nodes with at most so many blocks between them are read together,
const GAP: u64 = 8;
/// in runs of at most so many blocks.
const RUN: u64 = 256;

/// A node to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    pub(super) lba: Lba,
    pub(super) nid: Nid,
    pub(super) ofs: NodeOfs,
    /// Number of the inode that owns it.
    pub(super) inode: u32,
}

/// A block of a directory or quota file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FilePage {
    pub(super) inode: u32,
    pub(super) page: PageIndex,
    pub(super) lba: Lba,
}

/// What one job found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) infos: Vec<(u32, InodeInfo)>,
    pub(super) children: Vec<Item>,
    /// Blocks of directories.
    pub(super) pages: Vec<FilePage>,
    pub(super) quota: quota::Tally,
}

/// The walk's result.
pub(super) struct Walked {
    pub(super) inodes: Arc<Inodes>,
    /// Blocks of directories, in the order of directories and pages.
    pub(super) dir_pages: Vec<FilePage>,
    /// What owners use, and where the quota files are.
    pub(super) quota: quota::Tally,
}

/// Walks all nodes.
pub(super) fn walk(ctx: &Arc<Context>) -> Walked {
    let tracker = Arc::new(Tracker::begin(&ctx.options, Phase::Nodes, ctx.nids.used()));
    let counters: Arc<Vec<Counters>> = Arc::new((0..ctx.nids.inodes()).map(|_| Counters::default()).collect());
    let mut infos: Vec<Option<InodeInfo>> = vec![None; ctx.nids.inodes() as usize];
    let mut claimed = NidSet::new(ctx.layout().max_nid());
    let mut dir_pages = Vec::new();
    let mut quota = quota::Tally::default();

    let roots = inode_items(ctx);
    let mut children = Vec::new();
    let check = {
        let (ctx, counters) = (Arc::clone(ctx), Arc::clone(&counters));
        move |item: &Item, page: &PageBuf, cursor: &mut Cursor<'_>, found: &mut Found| {
            inode::check(&ctx, &counters[item.inode as usize], item, page, cursor, found);
        }
    };
    level(ctx, &tracker, roots, check, |found| {
        for (index, info) in found.infos {
            assert!(infos[index as usize].is_none(), "an inode is read once");
            infos[index as usize] = Some(info);
        }
        children.extend(found.children);
        dir_pages.extend(found.pages);
        quota.merge(found.quota);
    });
    let inodes = Arc::new(Inodes { infos, counters });
    while !children.is_empty() {
        let items = claim(ctx, &inodes, &mut claimed, std::mem::take(&mut children));
        let check = {
            let (ctx, inodes) = (Arc::clone(ctx), Arc::clone(&inodes));
            move |item: &Item, page: &PageBuf, cursor: &mut Cursor<'_>, found: &mut Found| {
                node::check(&ctx, &inodes, item, page, cursor, found);
            }
        };
        level(ctx, &tracker, items, check, |found| {
            assert!(found.infos.is_empty());
            children.extend(found.children);
            dir_pages.extend(found.pages);
            quota.merge(found.quota);
        });
    }
    report_unreferenced(ctx, &inodes, &claimed);
    dir_pages.sort_unstable();
    quota.pages.sort_unstable();
    Walked { inodes, dir_pages, quota }
}

/// Every inode, in the order of addresses. One outside the main area was reported with its NAT entry.
fn inode_items(ctx: &Context) -> Vec<Item> {
    let used = ctx.nids.iter_used();
    let inodes = used.filter_map(|(nid, entry)| Some((nid, entry, ctx.nids.inode_index(nid.as_ino())?)));
    let mut items: Vec<Item> = inodes
        .filter(|(_, entry, _)| ctx.layout().in_main(entry.lba))
        .map(|(nid, entry, inode)| Item { lba: entry.lba, nid, ofs: NodeOfs::INODE, inode })
        .collect();
    items.sort_unstable();
    items
}

/// Sorts the nodes of the next level by address and takes out those that were named before.
fn claim(ctx: &Context, inodes: &Inodes, claimed: &mut NidSet, mut children: Vec<Item>) -> Vec<Item> {
    children.sort_unstable();
    children.retain(|child| {
        let fresh = claimed.insert(child.nid);
        if !fresh && let Some(info) = inodes.info(child.inode) {
            ctx.add(Issue::NodeShared { ino: info.ino, nid: child.nid, ofs: child.ofs });
        }
        fresh && ctx.layout().in_main(child.lba)
    });
    children
}

/// Runs `check` on every item, and hands over what was found a slab at a time: the results of all jobs of a level at once would take
/// more memory than everything that is kept of them.
fn level(
    ctx: &Arc<Context>,
    tracker: &Arc<Tracker>,
    items: Vec<Item>,
    check: impl Fn(&Item, &PageBuf, &mut Cursor<'_>, &mut Found) + Send + Sync + 'static,
    mut take: impl FnMut(Found),
) {
    let (items, check) = (Arc::new(items), Arc::new(check));
    for slab in (0..items.len()).step_by(SLAB) {
        let end = items.len().min(slab + SLAB);
        let (items, check, ctx_, tracker) =
            (Arc::clone(&items), Arc::clone(&check), Arc::clone(ctx), Arc::clone(tracker));
        let lists = pool::run(ctx.options.threads, (end - slab).div_ceil(JOB), move |job, out| {
            let first = slab + job * JOB;
            let items = &items[first..end.min(first + JOB)];
            let mut cursor = ctx_.summaries.cursor();
            let mut found = Found::default();
            for_each_page(&ctx_, items, |item, page| check(item, page, &mut cursor, &mut found));
            tracker.advance(items.len() as u64);
            out.push(found);
        });
        lists.into_iter().for_each(&mut take);
    }
}

/// Reads the blocks of items that are sorted by address, neighbours together.
fn for_each_page(ctx: &Context, items: &[Item], mut visit: impl FnMut(&Item, &PageBuf)) {
    let mut rest = items;
    while let [first, ..] = rest {
        let near = |pair: &[Item]| pair[1].lba - pair[0].lba <= GAP && pair[1].lba - first.lba < RUN;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (run, after) = rest.split_at(count);
        rest = after;
        let blocks = run[count - 1].lba - first.lba + 1;
        match ctx.image.read_run(first.lba, blocks) {
            Ok(pages) => run.iter().for_each(|item| visit(item, &pages[(item.lba - first.lba) as usize])),
            Err(_) => run.iter().for_each(|item| match ctx.image.read_block(item.lba) {
                Ok(page) => visit(item, &page),
                Err(error) => {
                    // In use all the same, so it is not leaked.
                    ctx.segments.reach(item.lba);
                    ctx.add(Issue::ReadFailed { lba: item.lba, reason: error.to_string() });
                }
            }),
        }
    }
}

/// Nodes that belong to an inode according to the NAT but were not met in it. Not those of an owner that does not exist or cannot be
/// followed, which was reported itself.
fn report_unreferenced(ctx: &Context, inodes: &Inodes, claimed: &NidSet) {
    for (nid, entry) in ctx.nids.iter_used() {
        let is_node = nid >= steadyfs_format::ROOT_INO.nid() && ctx.nids.inode_index(nid.as_ino()).is_none();
        if !is_node || claimed.contains(nid) {
            continue;
        }
        let owner = ctx.nids.inode_index(entry.ino).and_then(|index| inodes.info(index));
        if owner.is_some_and(|info| info.addressing.is_some()) {
            ctx.add(Issue::NodeUnreferenced { ino: entry.ino, nid });
        }
    }
}

/// Judges a reference to a node and passes it on to the next level if it can be one.
pub(super) fn refer(ctx: &Context, ino: Ino, inode: u32, parent: Nid, nid: Nid, ofs: NodeOfs, found: &mut Found) {
    let possible = nid > steadyfs_format::ROOT_INO.nid() && nid < ctx.layout().max_nid() && nid != ino.nid();
    if !possible {
        return ctx.add(Issue::NodeIdInvalid { ino, parent, ofs, found: nid.get() });
    }
    match ctx.nids.get(nid) {
        None => ctx.add(Issue::NodeMissing { ino, nid, ofs }),
        Some(entry) if entry.ino != ino => ctx.add(Issue::NodeForeign { ino, nid, ofs, owner: entry.ino.get() }),
        Some(entry) => found.children.push(Item { lba: entry.lba, nid, ofs, inode }),
    }
}
