//! What can be judged only when everything was seen: links, block counts, reachability, leaked blocks, the checkpoint's
//! counters.

use super::context::Context;
use super::inodes::{Counters, InodeInfo, Inodes};
use super::issue::Issue;
use super::report::Counts;
use super::{dirs, pool, quota};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_format::dir::FileType;
use steadyfs_format::{Ino, Lba, PageIndex, ROOT_INO};

/// Inodes per job.
const JOB: u32 = 16 << 10;

/// Inodes that need no name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unnamed {
    Orphan,
    Quota,
}

/// Makes the checks and returns what was counted.
pub(super) fn check(ctx: &Arc<Context>, inodes: &Arc<Inodes>, dirs: &[u32]) -> Counts {
    let unnamed = Arc::new(unnamed_inodes(ctx, inodes));
    check_root(ctx, inodes);
    let mut counts = check_inodes(ctx, inodes, &unnamed);
    dirs::check_circles(ctx, inodes, dirs);
    counts.orphans = unnamed.values().filter(|why| **why == Unnamed::Orphan).count() as u64;
    ctx.count_blocks(&mut counts);
    ctx.blocks.check_rest(&ctx.sink, &ctx.options);
    check_counters(ctx, &counts);
    counts
}

/// Checks all inodes, some at a time, and counts them and their names.
fn check_inodes(ctx: &Arc<Context>, inodes: &Arc<Inodes>, unnamed: &Arc<HashMap<Ino, Unnamed>>) -> Counts {
    let (threads, end) = (ctx.options.threads, inodes.count());
    let (ctx, inodes, unnamed) = (Arc::clone(ctx), Arc::clone(inodes), Arc::clone(unnamed));
    let parts = pool::run(threads, end.div_ceil(JOB) as usize, move |job, parts| {
        let mut part = Counts::default();
        let first = job as u32 * JOB;
        for index in first..end.min(first + JOB) {
            let counters = inodes.counters(index);
            part.links += u64::from(counters.names.load(Relaxed));
            let Some(info) = inodes.info(index) else { continue };
            part.add(info.kind);
            check_inode(&ctx, info, counters, unnamed.get(&info.ino).copied());
        }
        parts.push(part);
    });
    parts.into_iter().fold(Counts::default(), |all, part| Counts {
        files: all.files + part.files,
        dirs: all.dirs + part.dirs,
        symlinks: all.symlinks + part.symlinks,
        specials: all.specials + part.specials,
        links: all.links + part.links,
        ..all
    })
}

/// Orphans and quota files, themselves checked.
fn unnamed_inodes(ctx: &Context, inodes: &Inodes) -> HashMap<Ino, Unnamed> {
    let mut unnamed = HashMap::new();
    let orphans = ctx.image.orphans().unwrap_or_else(|error| {
        ctx.add(Issue::OrphanCount { reason: error.to_string() });
        Vec::new()
    });
    for ino in orphans {
        if unnamed.insert(ino, Unnamed::Orphan).is_some() {
            ctx.add(Issue::OrphanTwice { ino });
            continue;
        }
        match ctx.nids.inode_index(ino).map(|index| inodes.info(index)) {
            None => ctx.add(Issue::OrphanMissing { ino }),
            Some(Some(info)) if info.links != 0 => ctx.add(Issue::OrphanLinks { ino, links: info.links }),
            Some(_) => {}
        }
    }
    check_orphan_blocks(ctx);
    for (kind, ino) in quota::files(ctx.image.superblock()) {
        let quota = kind.name();
        unnamed.insert(ino, Unnamed::Quota);
        match ctx.nids.inode_index(ino).map(|index| inodes.info(index)) {
            None => ctx.add(Issue::QuotaMissing { ino, quota }),
            Some(Some(info)) if info.kind != Some(FileType::Regular) => {
                ctx.add(Issue::QuotaType { ino, quota });
            }
            Some(_) => {}
        }
    }
    unnamed
}

/// The numbers that orphan blocks give themselves.
fn check_orphan_blocks(ctx: &Context) {
    const NUMBER_AT: usize = 4084;
    if !ctx.blocks.has_numbered_orphan_blocks() {
        return;
    }
    let blocks: Vec<Lba> = ctx.image.orphan_blocks().collect();
    for (number, &lba) in (1..).zip(&blocks) {
        let Ok(page) = ctx.image.read_block(lba) else { continue }; // reported with the list
        let [index, count] =
            page.with(|bytes| [0, 2].map(|at| u16::from_le_bytes([bytes[NUMBER_AT + at], bytes[NUMBER_AT + at + 1]])));
        if usize::from(index) != number || usize::from(count) != blocks.len() {
            ctx.add(Issue::OrphanBlock { lba, index, count });
        }
    }
}

fn check_root(ctx: &Context, inodes: &Inodes) {
    let ino = ROOT_INO;
    let bad = |reason: &str| ctx.add(Issue::RootBad { ino, reason: reason.to_owned() });
    match ctx.nids.inode_index(ino).map(|index| inodes.info(index)) {
        None => bad("the NAT has no entry for it"),
        Some(None) => bad("its inode cannot be read"),
        Some(Some(info)) if !info.is_dir() => bad("it is not a directory"),
        Some(Some(_)) => {}
    }
}

/// Links, blocks and extent of an inode, against what was counted.
fn check_inode(ctx: &Context, info: &InodeInfo, counters: &Counters, unnamed: Option<Unnamed>) {
    let ino = info.ino;
    let names = counters.names.load(Relaxed);
    let is_root = ino == ROOT_INO;
    if names == 0 && !is_root && unnamed.is_none() {
        ctx.add(Issue::InodeUnreferenced { ino, links: info.links });
    } else {
        check_links(ctx, info, counters, names, unnamed);
    }
    if info.is_dir() {
        check_parent(ctx, info, counters, names);
    }
    let blocks = counters.blocks.load(Relaxed);
    if info.addressing.is_some() && blocks != info.blocks {
        ctx.add(Issue::InodeBlocks { ino, stored: info.blocks, found: blocks });
    }
    let (extent, matching) = (info.extent, counters.in_extent.load(Relaxed));
    // Extents of compressed files count compressed blocks, not pages.
    if info.log_cluster.is_none() && info.addressing.is_some() && matching != extent.len {
        let (page, lba) = (PageIndex(extent.fofs.into()), Lba::from_disk(extent.blk));
        ctx.add(Issue::InodeExtent { ino, page, lba, blocks: extent.len, matching });
    }
}

fn check_links(ctx: &Context, info: &InodeInfo, counters: &Counters, names: u32, unnamed: Option<Unnamed>) {
    let found = match (info.is_dir(), unnamed) {
        (_, Some(Unnamed::Orphan)) => {
            // An orphan with links was reported as such.
            if names == 0 {
                return;
            }
            names
        }
        (true, _) => 2 + counters.subdirs.load(Relaxed),
        (false, Some(Unnamed::Quota)) => names + 1,
        (false, None) => names,
    };
    if found != info.links {
        ctx.add(Issue::InodeLinks { ino: info.ino, stored: info.links, found });
    }
}

/// A directory has one name, and its ".." and `i_pino` are the directory of that name.
fn check_parent(ctx: &Context, info: &InodeInfo, counters: &Counters, names: u32) {
    let ino = info.ino;
    if names > 1 {
        ctx.add(Issue::DirNames { ino, names });
    }
    let (parent, dotdot) = (counters.parent.load(Relaxed), counters.dotdot.load(Relaxed));
    let expected = match parent {
        _ if ino == ROOT_INO => ROOT_INO.get(),
        0 => info.pino.get(),
        parent => parent,
    };
    if dotdot != 0 && dotdot != expected {
        ctx.add(Issue::DotWrong { ino, name: "..", found: dotdot, expected });
    }
    if parent != 0 && info.pino.get() != parent {
        ctx.add(Issue::DirParent { ino, stored: info.pino.get(), parent: Ino(parent) });
    }
}

/// The counters of the checkpoint.
fn check_counters(ctx: &Context, counts: &Counts) {
    let header = ctx.image.checkpoint().header();
    let (stored, found) = (header.valid_blocks(), counts.blocks);
    if stored != found {
        ctx.add(Issue::ValidBlockCount { stored, found });
    }
    let (stored, found) = (u64::from(header.valid_nodes()), counts.nodes);
    if stored != found {
        ctx.add(Issue::ValidNodeCount { stored, found });
    }
    let (stored, found) = (u64::from(header.valid_inodes()), u64::from(ctx.nids.inodes()));
    if stored != found {
        ctx.add(Issue::ValidInodeCount { stored, found });
    }
}
