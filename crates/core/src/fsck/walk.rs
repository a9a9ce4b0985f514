//! The walk over all nodes, level by level: inodes, then what they point at, three levels down at most.
//!
//! Within a level nodes are read in the order of their addresses, in runs, by all threads, each some segments at a
//! time; the children that they name form the next level. So every node is read once, nearly sequentially, and no tree,
//! however deep or tangled, makes the checker recurse: a node that was named before is not named again.
//!
//! Memory: 24 bytes per node of the two levels at hand, as much again per inode before the first of them is looked at,
//! a bit per node id, 4 bytes per segment, and 24 bytes per directory block.

use super::blocks::{self, SummaryCursor};
use super::context::Context;
use super::inodes::Inodes;
use super::issue::Issue;
use super::nids::NidSet;
use super::options::Phase;
use super::sink::Tracker;
use super::{inode, node, pool, quota};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::nat::NatEntry;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{BLOCKS_PER_SEG, Ino, Lba, Nid, PageIndex};

/// Nodes per job, at least: a job has all nodes of its segments.
const JOB: usize = 256;
/// Jobs after which the threads meet.
const SLAB: usize = 1024;
/// NAT blocks per job where ids are gone through.
const NAT_JOB: usize = 128;
/// Nodes with at most this many blocks between them are read together,
const GAP: u64 = 8;
/// in runs of at most this many blocks, which stay in a processor's own cache until they are checked.
const RUN: u64 = 64;

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
pub(super) struct JobResult {
    pub(super) children: Vec<Item>,
    /// Blocks of directories.
    pub(super) pages: Vec<FilePage>,
    /// Numbers of directories.
    pub(super) dirs: Vec<u32>,
    pub(super) quota: quota::Tally,
}

/// The walk's result.
pub(super) struct Walked {
    pub(super) inodes: Arc<Inodes>,
    /// Numbers of all directories, in their order.
    pub(super) dirs: Vec<u32>,
    /// Blocks of directories, in the order of directories and pages.
    pub(super) dir_pages: Vec<FilePage>,
    /// What owners use, and where the quota files are.
    pub(super) quota: quota::Tally,
}

/// Walks all nodes.
pub(super) fn walk(ctx: &Arc<Context>) -> Walked {
    let tracker = Arc::new(Tracker::begin(&ctx.options, Phase::Nodes, ctx.nids.used()));
    let inodes = Arc::new(Inodes::new(ctx.nids.inodes()));
    let mut claimed = NidSet::new(ctx.layout().max_nid());
    let (mut dirs, mut dir_pages) = (Vec::new(), Vec::new());
    let mut quota = quota::Tally::default();

    let roots = inode_items(ctx);
    let mut children = Vec::new();
    let check = {
        let (ctx, inodes) = (Arc::clone(ctx), Arc::clone(&inodes));
        move |item: &Item, page: &PageBuf, cursor: &mut SummaryCursor<'_>, found: &mut JobResult| {
            inode::check(&ctx, &inodes, item, page, cursor, found);
        }
    };
    level(ctx, &tracker, roots, check, |found| {
        children.extend(found.children);
        dirs.extend(found.dirs);
        dir_pages.extend(found.pages);
        quota.merge(found.quota);
    });
    while !children.is_empty() {
        let items = claim(ctx, &inodes, &mut claimed, std::mem::take(&mut children));
        let check = {
            let (ctx, inodes) = (Arc::clone(ctx), Arc::clone(&inodes));
            move |item: &Item, page: &PageBuf, cursor: &mut SummaryCursor<'_>, found: &mut JobResult| {
                node::check(&ctx, &inodes, item, page, cursor, found);
            }
        };
        level(ctx, &tracker, items, check, |found| {
            children.extend(found.children);
            dir_pages.extend(found.pages);
            quota.merge(found.quota);
        });
    }
    report_unreferenced(ctx, &inodes, claimed);
    dirs.sort_unstable();
    dir_pages.sort_unstable();
    quota.pages.sort_unstable();
    Walked { inodes, dirs, dir_pages, quota }
}

/// Every inode, in the order of segments; within one, the thread that looks at them puts them in order. (To sort them
/// all here would keep the other threads waiting.) One outside the main area was reported with its NAT entry.
fn inode_items(ctx: &Arc<Context>) -> Vec<Item> {
    if ctx.layout().main_segments == 0 {
        return sorted_inode_items(ctx);
    }
    let segment = |lba| ctx.layout().seg_of(lba).map(|(segment, _)| segment.index());
    let all = all_inode_items(ctx);
    let mut starts = vec![0u32; ctx.layout().main_segments as usize + 1];
    for item in all.iter().flatten() {
        if let Some(at) = segment(item.lba) {
            starts[at + 1] += 1;
        }
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let count = starts.last().map_or(0, |count| *count as usize);
    let mut items = vec![Item { lba: Lba(0), nid: Nid(0), ofs: NodeOfs::INODE, inode: 0 }; count];
    for item in all.into_iter().flatten() {
        if let Some(at) = segment(item.lba) {
            items[starts[at] as usize] = item;
            starts[at] += 1;
        }
    }
    items
}

/// Every inode, in the order of ids within each list.
fn all_inode_items(ctx: &Arc<Context>) -> Vec<Vec<Item>> {
    let (ctx_, pages) = (Arc::clone(ctx), ctx.nids.pages());
    pool::run(ctx.options.threads, pages.div_ceil(NAT_JOB), move |job, lists| {
        let inodes = ctx_.nids.iter_inodes(job * NAT_JOB..pages.min((job + 1) * NAT_JOB));
        let item = |(inode, nid, entry): (u32, Nid, NatEntry)| Item { lba: entry.lba, nid, ofs: NodeOfs::INODE, inode };
        lists.push(inodes.map(item).collect::<Vec<_>>());
    })
}

/// The same where addresses are too far apart to be counted by segments.
fn sorted_inode_items(ctx: &Arc<Context>) -> Vec<Item> {
    let is_placed = |item: &Item| blocks::misplaced_node(&ctx.image, item.nid.as_ino(), item.nid, item.lba).is_none();
    let mut items: Vec<Item> = all_inode_items(ctx).into_iter().flatten().filter(is_placed).collect();
    items.sort_unstable();
    items
}

/// Divides items that are in the order of segments into jobs that have no segment in common.
fn jobs(ctx: &Context, items: &[Item]) -> Vec<Range<usize>> {
    let segment = |item: &Item| (item.lba - ctx.layout().main) / u64::from(BLOCKS_PER_SEG);
    let mut jobs = Vec::new();
    let mut first = 0;
    while first < items.len() {
        let least = items.len().min(first + JOB);
        let last = segment(&items[least - 1]);
        let end = least + items[least..].iter().take_while(|item| segment(item) == last).count();
        jobs.push(first..end);
        first = end;
    }
    assert_eq!(jobs.iter().map(Range::len).sum::<usize>(), items.len(), "every item is in a job");
    jobs
}

/// Sorts the nodes of the next level by address and takes out those that were named before.
fn claim(ctx: &Context, inodes: &Inodes, claimed: &mut NidSet, mut children: Vec<Item>) -> Vec<Item> {
    children.sort_unstable();
    children.retain(|child| {
        let fresh = claimed.insert(child.nid);
        if !fresh && let Some(info) = inodes.info(child.inode) {
            ctx.add(Issue::NodeShared { ino: info.ino, nid: child.nid, ofs: child.ofs });
        }
        let owner = inodes.info(child.inode).map_or(Ino(0), |info| info.ino);
        fresh && blocks::misplaced_node(&ctx.image, owner, child.nid, child.lba).is_none()
    });
    children
}

/// Runs `check` on every item, and hands over what was found a slab at a time: the results of all jobs of a level at
/// once would take more memory than everything that is kept of them. The items are in the order of segments.
fn level(
    ctx: &Arc<Context>,
    tracker: &Arc<Tracker>,
    items: Vec<Item>,
    check: impl Fn(&Item, &PageBuf, &mut SummaryCursor<'_>, &mut JobResult) + Send + Sync + 'static,
    mut take: impl FnMut(JobResult),
) {
    let (jobs, items, check) = (jobs(ctx, &items), Arc::new(items), Arc::new(check));
    for slab in jobs.chunks(SLAB) {
        let (items, check, ctx_, tracker) =
            (Arc::clone(&items), Arc::clone(&check), Arc::clone(ctx), Arc::clone(tracker));
        let slab = slab.to_vec();
        let lists = pool::run(ctx.options.threads, slab.len(), move |job, out| {
            let mut items = items[slab[job].clone()].to_vec();
            items.sort_unstable();
            let mut cursor = ctx_.blocks.cursor();
            let mut found = JobResult::default();
            for_each_page(&ctx_, &items, |item, page| check(item, page, &mut cursor, &mut found));
            tracker.advance(items.len() as u64);
            out.push(found);
        });
        lists.into_iter().for_each(&mut take);
    }
}

/// Reads the blocks of items that are sorted by address, neighbours together.
fn for_each_page(ctx: &Context, items: &[Item], mut visit: impl FnMut(&Item, &PageBuf)) {
    // One after the other into the same memory.
    let mut memory = vec![PageBuf::zeroed(); RUN as usize];
    let mut rest = items;
    while let [first, ..] = rest {
        let near = |pair: &[Item]| pair[1].lba - pair[0].lba <= GAP && pair[1].lba - first.lba < RUN;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (run, after) = rest.split_at(count);
        rest = after;
        let pages = &mut memory[..=(run[count - 1].lba - first.lba) as usize];
        match ctx.image.read_run_into(first.lba, pages) {
            Ok(()) => run.iter().for_each(|item| visit(item, &pages[(item.lba - first.lba) as usize])),
            Err(_) => run.iter().for_each(|item| match ctx.image.read_block(item.lba) {
                Ok(page) => visit(item, &page),
                Err(error) => {
                    // In use all the same, so it is not leaked.
                    ctx.blocks.reach(item.lba);
                    ctx.add(Issue::ReadFailed { lba: item.lba, reason: error.to_string() });
                }
            }),
        }
    }
}

/// Nodes that belong to an inode according to the NAT but were not met in it. Not those of an owner that does not exist
/// or cannot be followed, which was reported itself.
fn report_unreferenced(ctx: &Arc<Context>, inodes: &Arc<Inodes>, claimed: NidSet) {
    let (ctx_, inodes) = (Arc::clone(ctx), Arc::clone(inodes));
    let pages = ctx.nids.pages();
    pool::run(ctx.options.threads, pages.div_ceil(NAT_JOB), move |job, _: &mut Vec<()>| {
        for (nid, entry) in ctx_.nids.iter_nodes(job * NAT_JOB..pages.min((job + 1) * NAT_JOB)) {
            if nid < steadyfs_format::ROOT_INO.nid() || claimed.contains(nid) {
                continue;
            }
            let owner = ctx_.nids.inode_index(entry.ino).and_then(|index| inodes.info(index));
            if owner.is_some_and(|info| info.addressing.is_some()) {
                ctx_.add(Issue::NodeUnreferenced { ino: entry.ino, nid });
            }
        }
    });
}

/// Judges a reference to a node and passes it on to the next level if it can be one.
pub(super) fn refer(ctx: &Context, ino: Ino, inode: u32, parent: Nid, nid: Nid, ofs: NodeOfs, found: &mut JobResult) {
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
