//! All directories: what their entries name, and how directories hang together.
//!
//! Each directory is one job's business from its first page to its last, so that names that are there twice are found;
//! its pages are read some at a time.
//!
//! Memory: 16 bytes per name of the directories at hand, one per thread.

use super::context::Context;
use super::dentries::Directory;
use super::inodes::{InodeInfo, Inodes};
use super::issue::Issue;
use super::options::Phase;
use super::pool;
use super::sink::Tracker;
use super::walk::{FilePage, Walked};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::Dentries;
use steadyfs_format::inode::Inode;
use steadyfs_format::{BLOCK_SIZE, Ino, Lba, PageIndex, ROOT_INO};

/// Directories, or pages of them, per job.
const JOB: usize = 64;
/// Pages read at once.
const BATCH: usize = 256;

/// Checks all directories, and hands the inodes on with their names counted, and the numbers of the directories.
pub(super) fn check(ctx: &Arc<Context>, walked: Walked) -> (Arc<Inodes>, Vec<u32>) {
    let Walked { inodes, dirs, dir_pages, .. } = walked;
    let tracker = Tracker::begin(&ctx.options, Phase::Directories, dirs.len() as u64);
    let pages = Arc::new(dir_pages);
    let jobs = Arc::new(jobs(&dirs, &pages));
    let (ctx_, inodes_) = (Arc::clone(ctx), Arc::clone(&inodes));
    pool::run(ctx.options.threads, jobs.len(), move |job, _: &mut Vec<()>| {
        let (dirs, mut rest) = (&jobs[job].dirs, &pages[jobs[job].pages.clone()]);
        for &index in dirs {
            let (own, after) = rest.split_at(rest.partition_point(|page| page.inode <= index));
            rest = after;
            check_one(&ctx_, &inodes_, index, own);
        }
        tracker.advance(dirs.len() as u64);
    });
    (inodes, dirs)
}

/// Some directories and their pages.
struct Job {
    dirs: Vec<u32>,
    pages: std::ops::Range<usize>,
}

/// Deals directories to jobs of about [`JOB`] directories and pages.
fn jobs(dirs: &[u32], pages: &[FilePage]) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut job = Job { dirs: Vec::new(), pages: 0..0 };
    for &index in dirs {
        let end = job.pages.end + pages[job.pages.end..].partition_point(|page| page.inode <= index);
        job.pages.end = end;
        job.dirs.push(index);
        if job.dirs.len() + job.pages.len() >= JOB {
            jobs.push(std::mem::replace(&mut job, Job { dirs: Vec::new(), pages: end..end }));
        }
    }
    jobs.push(job);
    assert_eq!(jobs.iter().map(|job| job.pages.len()).sum::<usize>(), pages.len(), "every page has a directory");
    jobs
}

fn check_one(ctx: &Context, inodes: &Inodes, index: u32, pages: &[FilePage]) {
    let Some(info) = inodes.info(index) else { return };
    let mut directory = Directory::new(ctx, inodes, index, info, pages.len());
    if info.has_inline_dentries() {
        check_inline(ctx, info, &mut directory);
    }
    for some in pages.chunks(BATCH) {
        for (page, buffer) in some.iter().zip(read(ctx, some)) {
            if let Some(buffer) = buffer {
                buffer.with(|bytes| directory.check(Some(page.page), Dentries::block(bytes).layout(), bytes));
            }
        }
    }
    directory.finish();
    if info.links == 0 {
        return; // deleted while open: its size is 0 already
    }
    let blocks = pages.last().map_or(0, |page| page.page.get() + 1);
    let whole = info.size.is_multiple_of(BLOCK_SIZE as u64) || info.has_inline_dentries();
    if !whole || info.size / (BLOCK_SIZE as u64) < blocks {
        ctx.add(Issue::DirSize { ino: info.ino, size: info.size, blocks });
    }
}

fn check_inline(ctx: &Context, info: &InodeInfo, directory: &mut Directory<'_>) {
    let Some(entry) = ctx.nids.get(info.ino.nid()) else { return };
    match ctx.image.read_block(entry.lba) {
        Ok(page) => page.with(|bytes| {
            let inode = Inode::view(bytes);
            let Ok(shape) = inode.shape(ctx.features) else { return };
            let area = inode.inline_area(shape);
            directory.check(None, Dentries::inline(area).layout(), area);
        }),
        Err(error) => ctx.add(Issue::ReadFailed { lba: entry.lba, reason: error.to_string() }),
    }
}

/// Reads pages, in runs where they lie side by side. `None` for one that cannot be read.
fn read(ctx: &Context, pages: &[FilePage]) -> Vec<Option<PageBuf>> {
    let mut buffers = Vec::with_capacity(pages.len());
    let mut rest = pages;
    while let [first, ..] = rest {
        let count = 1 + rest.windows(2).take_while(|pair| pair[0].lba.checked_add(1) == Some(pair[1].lba)).count();
        match ctx.image.read_run(first.lba, count as u64) {
            Ok(run) => buffers.extend(run.into_iter().map(Some)),
            Err(_) => buffers.extend(rest[..count].iter().map(|page| read_one(ctx, page.lba))),
        }
        rest = &rest[count..];
    }
    assert_eq!(buffers.len(), pages.len());
    buffers
}

fn read_one(ctx: &Context, lba: Lba) -> Option<PageBuf> {
    match ctx.image.read_block(lba) {
        Ok(page) => Some(page),
        Err(error) => {
            ctx.add(Issue::ReadFailed { lba, reason: error.to_string() });
            None
        }
    }
}

/// Directories that lie in a circle: named, but not from anywhere that leads to the root. Reports one of each circle,
/// the one with the smallest number.
pub(super) fn check_circles(ctx: &Context, inodes: &Inodes, dirs: &[u32]) {
    const UNKNOWN: u32 = 0;
    const GROUNDED: u32 = 1;
    // Per inode: unknown, known to end somewhere, or the number of the walk that passed it (from 2).
    let mut seen = vec![UNKNOWN; inodes.count() as usize];
    let mut walk_number = GROUNDED;
    for &start in dirs {
        walk_number += 1;
        let mut trail = Vec::new();
        let mut at = start;
        let circle = loop {
            match seen[at as usize] {
                UNKNOWN => {}
                mark => break mark == walk_number,
            }
            seen[at as usize] = walk_number;
            trail.push(at);
            let parent = Ino(inodes.counters(at).parent.load(Relaxed));
            let is_root = inodes.info(at).is_none_or(|info| info.ino == ROOT_INO);
            match ctx.nids.inode_index(parent) {
                Some(parent) if !is_root => at = parent,
                _ => break false,
            }
        };
        if circle {
            // Everything from `at` on in the trail is the circle; what leads to it hangs off it.
            let members = trail.iter().skip_while(|index| **index != at);
            let smallest = members.filter_map(|index| inodes.info(*index)).map(|info| info.ino).min();
            if let Some(ino) = smallest {
                let index = ctx.nids.inode_index(ino).unwrap_or(at);
                let parent = Ino(inodes.counters(index).parent.load(Relaxed));
                ctx.add(Issue::InodeUnreachable { ino, parent });
            }
        }
        for index in trail {
            seen[index as usize] = GROUNDED;
        }
    }
}

/// The page of a directory that holds its dot entries.
pub(super) const FIRST_PAGE: PageIndex = PageIndex(0);
