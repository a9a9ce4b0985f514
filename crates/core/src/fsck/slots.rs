//! The file addresses in an inode or a direct node.

use super::blocks::{self, SummaryCursor};
use super::context::Context;
use super::inodes::{Counters, InodeInfo};
use super::issue::Issue;
use super::walk::{FilePage, JobResult};
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_device::is_zero;
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::{Lba, Nid, PageIndex, Slot, Width};

/// The node whose slots are checked, and its file.
pub(super) struct SlotOwner<'a> {
    pub(super) info: &'a InodeInfo,
    pub(super) counters: &'a Counters,
    /// Number of the inode.
    pub(super) inode: u32,
    pub(super) nid: Nid,
    /// Page of the first slot.
    pub(super) base: PageIndex,
}

/// Checks the slots of a node, counts them, and collects the blocks of directories and quota files. `area` is the bytes
/// of the slots.
pub(super) fn check_slots(
    ctx: &Context,
    owner: &SlotOwner<'_>,
    area: &[u8],
    cursor: &mut SummaryCursor<'_>,
    found: &mut JobResult,
) {
    let (info, nid) = (owner.info, owner.nid);
    let version = ctx.version(nid);
    let is_quota = ctx.quotas.iter().any(|(_, quota)| *quota == info.ino);
    let (mut counted, mut in_extent) = (0, 0);
    for (slot, content) in used_slots(area, Width::of(ctx.features)) {
        counted += 1;
        match content {
            Slot::Hole | Slot::New => {}
            Slot::Compress => check_mark(ctx, owner, slot),
            Slot::At(lba) => {
                let summary = Summary { nid, version, ofs_in_node: slot };
                let page = owner.base + u64::from(slot);
                in_extent += u32::from(is_in_extent(info, page, lba));
                if let Some(issue) = blocks::misplaced_data(&ctx.image, info.ino, nid, slot, lba) {
                    ctx.add(issue);
                    continue;
                }
                let again = ctx.block_in_use(info.ino, lba, summary, SummaryKind::Data, cursor);
                // A block that is something else too is read there; reading it again could go on for ever.
                if info.is_dir() && !again {
                    found.pages.push(FilePage { inode: owner.inode, page, lba });
                } else if is_quota {
                    found.quota.pages.push(FilePage { inode: owner.inode, page, lba });
                }
            }
        }
    }
    owner.counters.blocks.fetch_add(counted, Relaxed);
    owner.counters.in_extent.fetch_add(in_extent, Relaxed);
    ctx.data_blocks.fetch_add(counted, Relaxed);
}

/// The slots that are not holes, with their numbers. Most nodes of most files are holes for the most part: passed over
/// 64 bytes at a time.
fn used_slots(area: &[u8], width: Width) -> impl Iterator<Item = (u16, Slot)> + '_ {
    const PIECE: usize = 64;
    let pieces = area.chunks(PIECE).enumerate().filter(|(_, piece)| !is_zero(piece));
    pieces.flat_map(move |(number, piece)| {
        let first = number * PIECE / width.bytes();
        let used = Slot::read_all(piece, width).enumerate().filter(|(_, slot)| slot.is_counted());
        used.map(move |(at, slot)| ((first + at) as u16, slot))
    })
}

/// A compression mark stands at the beginning of a cluster of a compressed file only.
fn check_mark(ctx: &Context, owner: &SlotOwner<'_>, slot: u16) {
    let page = owner.base + u64::from(slot);
    let right = owner.info.log_cluster.is_some_and(|log| page.get().is_multiple_of(1 << log));
    if !right {
        ctx.add(Issue::CompressMark { ino: owner.info.ino, nid: owner.nid, slot });
    }
}

/// Whether a page lies where the inode's cached extent says.
fn is_in_extent(info: &InodeInfo, page: PageIndex, lba: Lba) -> bool {
    let extent = info.extent;
    let Some(at) = page.get().checked_sub(u64::from(extent.fofs)) else { return false };
    at < u64::from(extent.len) && lba.get() == u64::from(extent.blk) + at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_slots_are_all_found() {
        for count in [0, 1, 15, 16, 17, 873, 1018] {
            let slots: Vec<u32> =
                (0..count).map(|n: u32| if n % 7 == 3 || n > 500 { n * 1000 + 1 } else { 0 }).collect();
            let area: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
            let expected: Vec<_> =
                (0..).zip(slots).filter(|(_, raw)| *raw != 0).map(|(n, raw)| (n, Slot::from_disk(raw))).collect();
            assert_eq!(used_slots(&area, Width::Four).collect::<Vec<_>>(), expected);
            let wide: Vec<u8> =
                Slot::read_all(&area, Width::Four).flat_map(|slot| slot.to_wide().to_le_bytes()).collect();
            assert_eq!(used_slots(&wide, Width::Eight).collect::<Vec<_>>(), expected);
        }
    }
}
