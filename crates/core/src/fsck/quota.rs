//! Quota files: whether they say what owners really use. Format sections 14 and 17, rule 10.
//!
//! The walk adds up what each owner uses ([`Tally`]) and notes where the blocks of the quota files are; when it is
//! through, each file is read and compared. As fsck.f2fs does it: an inode counts with the blocks that it says it has,
//! but for its own; inodes that were deleted while open count, quota files do not. Nothing is compared while the
//! checkpoint says that the files are out of date.
//!
//! Memory: at most 60 bytes per owner and kind of quota, 24 bytes per KiB of quota files (and what
//! [`steadyfs_format::quota`] says of reading one of them), 1 MiB of their blocks.

use super::context::Context;
use super::issue::Issue;
use super::walk::{FilePage, Walked};
use crate::raw::Image;
use std::collections::HashMap;
use steadyfs_device::PageBuf;
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode;
use steadyfs_format::quota::{self, ReadError, TREE_BLOCK, TreeBlock, Usage};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{BLOCK_SIZE, Features, Ino, Lba, PageIndex, SuperBlock};

/// Tree blocks in a block.
const PER_BLOCK: u32 = (BLOCK_SIZE / TREE_BLOCK) as u32;
/// Blocks of a quota file that are kept while it is read.
const CACHED: usize = 256;

/// The hidden quota files.
pub(super) fn files(superblock: &SuperBlock) -> impl Iterator<Item = (QuotaKind, Ino)> + '_ {
    QuotaKind::ALL.into_iter().filter_map(|kind| Some((kind, superblock.quota_ino(kind)?)))
}

/// Those whose contents must be right.
pub(super) fn compared(image: &Image) -> Vec<(QuotaKind, Ino)> {
    let (superblock, flags) = (image.superblock(), image.checkpoint().header().flags());
    let wanted = superblock.features().contains(Features::QUOTA) && !flags.contains(CpFlags::QUOTA_NEED_FSCK);
    if wanted { files(superblock).collect() } else { Vec::new() }
}

/// What the walk learns about quota.
#[derive(Default)]
pub(super) struct Tally {
    /// What each owner uses, by kind.
    usage: [HashMap<u32, Usage>; 3],
    /// The blocks of the quota files; in the order of inodes and pages when the walk is through.
    pub(super) pages: Vec<FilePage>,
}

impl Tally {
    /// Charges an inode to its owners.
    pub(super) fn charge(&mut self, ctx: &Context, inode: &Inode) {
        if files(ctx.image.superblock()).any(|(_, quota)| quota == inode.footer.ino()) {
            return;
        }
        let blocks = inode.blocks().saturating_sub(1);
        let more = Usage { space: blocks.saturating_mul(BLOCK_SIZE as u64), inodes: 1 };
        for &(kind, _) in &ctx.quotas {
            let id = match kind {
                QuotaKind::User => inode.uid(),
                QuotaKind::Group => inode.gid(),
                QuotaKind::Project => inode.project_id(ctx.features).unwrap_or(0),
            };
            add(self.usage[kind as usize].entry(id).or_default(), more);
        }
    }

    /// Takes over what another thread learnt.
    pub(super) fn merge(&mut self, other: Tally) {
        for (all, usage) in self.usage.iter_mut().zip(other.usage) {
            usage.into_iter().for_each(|(id, more)| add(all.entry(id).or_default(), more));
        }
        self.pages.extend(other.pages);
    }
}

fn add(usage: &mut Usage, more: Usage) {
    usage.space = usage.space.saturating_add(more.space);
    usage.inodes = usage.inodes.saturating_add(more.inodes);
}

/// Compares all quota files. One that does not exist, or is no regular file, is reported with the totals.
pub(super) fn check(ctx: &Context, walked: &Walked) {
    for &(kind, ino) in &ctx.quotas {
        let Some(index) = ctx.nids.inode_index(ino) else { continue };
        let Some(info) = walked.inodes.info(index).filter(|info| info.kind == Some(FileType::Regular)) else {
            continue;
        };
        let pages = &walked.quota.pages;
        let (start, end) =
            (pages.partition_point(|page| page.inode < index), pages.partition_point(|page| page.inode <= index));
        let mut file = QuotaFile { ctx, pages: &pages[start..end], cached: HashMap::new() };
        let quota = kind.name();
        match quota::read(kind, info.size, |block| file.tree_block(block)) {
            Ok(entries) => compare(ctx, kind, ino, entries, &walked.quota.usage[kind as usize]),
            Err(ReadError::Header(error)) => ctx.add(Issue::QuotaHeader { ino, quota, reason: error.to_string() }),
            Err(ReadError::Tree { block, reason }) => ctx.add(Issue::QuotaTree { ino, quota, block, reason }),
            Err(ReadError::Fetch((lba, reason))) => ctx.add(Issue::ReadFailed { lba, reason }),
        }
    }
}

/// What the file says, in the order of ids, against what is in use.
fn compare(ctx: &Context, kind: QuotaKind, ino: Ino, stored: Vec<quota::Entry>, used: &HashMap<u32, Usage>) {
    let quota = kind.name();
    for &quota::Entry { id, usage, .. } in &stored {
        let found = used.get(&id).copied().unwrap_or_default();
        if usage != found {
            let Usage { space: stored_space, inodes: stored_inodes } = usage;
            let Usage { space: found_space, inodes: found_inodes } = found;
            ctx.add(Issue::QuotaUsage { ino, quota, id, stored_space, stored_inodes, found_space, found_inodes });
        }
    }
    for (&id, &Usage { space: found_space, inodes: found_inodes }) in used {
        if stored.binary_search_by_key(&id, |entry| entry.id).is_err() {
            ctx.add(Issue::QuotaEntryMissing { ino, quota, id, found_space, found_inodes });
        }
    }
}

/// A quota file being read.
struct QuotaFile<'a> {
    ctx: &'a Context,
    /// Its blocks, in order.
    pages: &'a [FilePage],
    cached: HashMap<Lba, PageBuf>,
}

impl QuotaFile<'_> {
    /// A tree block; `None` in a hole. Fails with the place and the reason.
    fn tree_block(&mut self, number: u32) -> Result<Option<TreeBlock>, (Lba, String)> {
        let page = PageIndex(u64::from(number / PER_BLOCK));
        let Ok(at) = self.pages.binary_search_by_key(&page, |page| page.page) else { return Ok(None) };
        let lba = self.pages[at].lba;
        if !self.cached.contains_key(&lba) {
            let block = self.ctx.image.read_block(lba).map_err(|error| (lba, error.to_string()))?;
            if self.cached.len() >= CACHED {
                self.cached.clear();
            }
            self.cached.insert(lba, block);
        }
        let within = (number % PER_BLOCK) as usize;
        Ok(self.cached[&lba].with(|bytes| bytes.as_chunks::<TREE_BLOCK>().0.get(within).copied()))
    }
}
