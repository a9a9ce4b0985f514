//! What a checkpoint took under the exclusive lock, in the form in which it goes to the device.

use super::Committed;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::volume::io::BlockIo;
use crate::volume::segments::BLOCKS;
use crate::volume::segments::held::Loose;
use std::sync::Arc;
use steadyfs_device::{PageBuf, StreamHint};
use steadyfs_format::checkpoint::{Checkpoint, CheckpointHeader, CpFlags, LogPosition};
use steadyfs_format::journal::{Journal, MAX_NAT_JOURNAL, MAX_SIT_JOURNAL};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{Features, Lba, Log, Nid, Pack, SegNo};

/// A checkpoint on its way to the device.
pub(super) struct Snapshot {
    pub(super) number: u64,
    pub(super) checkpoint: Checkpoint,
    pub(super) pack: Pack,
    /// Last block of the pack, which commits it.
    pub(super) commit_lba: Lba,
    pub(super) commit_page: PageBuf,
    /// Empty segments that become free with the commit.
    pub(super) prefree: Vec<SegNo>,
    /// Blocks that may be written again then.
    pub(super) loose: Loose,
    /// Node ids freed before the freeze.
    pub(super) held_nids: Vec<Nid>,
    /// NAT and SIT blocks whose selected copy changes with the commit.
    pub(super) nat_blocks: Vec<u32>,
    pub(super) sit_blocks: Vec<u32>,
    /// Everything to write before the commit block.
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

/// The tables' part of a snapshot: journals, and the shadow blocks written where the journals have no room.
struct Tables {
    nat_journal: Journal,
    sit_journal: Journal,
    nat_blocks: Vec<u32>,
    sit_blocks: Vec<u32>,
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

impl Snapshot {
    /// Takes the snapshot. The checkpoint lock is held exclusively and nothing is dirty but NAT and SIT.
    pub(super) fn take(fs: &Fs, committed: &Committed, unmount: bool, number: u64) -> Result<Self> {
        leave_full_segments(fs)?;
        fs.vol.save_streams();
        let tables = take_tables(fs)?;
        let pack = committed.pack.other();
        let start = fs.vol.layout().pack(pack);
        let mut checkpoint = committed.checkpoint.clone();
        for &block in &tables.nat_blocks {
            checkpoint.set_nat_copy(block, !fs.vol.nat.selected(block));
        }
        for &block in &tables.sit_blocks {
            checkpoint.set_sit_copy(block, !fs.checkpoints.sit.selected(block));
        }
        let header = checkpoint.header_mut();
        // Versions wrap; the younger of two packs is told by their distance.
        header.set_version(header.version().wrapping_add(1));
        header.set_flags(next_flags(fs, header.flags(), unmount));
        fill_counters(fs, header)?;
        let summaries = take_logs(fs, header, &tables);
        let [hot, warm, cold, nodes @ ..] = summaries;
        let nodes = unmount.then_some(nodes);
        let blocks = checkpoint.encode_pack(&fs.orphans.list(), &[hot, warm, cold], nodes.as_ref())?;
        let mut pages: Vec<PageBuf> = blocks.iter().map(|b| PageBuf::from_slice(b)).collect();
        let commit_page = pages.pop().ok_or_else(|| Error::corrupt("an empty checkpoint pack"))?;
        let commit_lba = start + pages.len() as u64;
        let mut writes = tables.writes;
        writes.push((start, pages));
        Ok(Snapshot {
            number,
            checkpoint,
            pack,
            commit_lba,
            commit_page,
            loose: fs.vol.segs.take_loose(),
            prefree: fs.vol.segs.prefree.iter().map(|i| SegNo::new(i as u32)).collect(),
            held_nids: fs.vol.nids.held(),
            nat_blocks: tables.nat_blocks,
            sit_blocks: tables.sit_blocks,
            writes,
        })
    }

    /// Submits everything but the commit block. An fsync may be trying again what the device refused of a checkpoint that failed before.
    pub(super) fn submit(&self, io: &Arc<BlockIo>) {
        for (lba, pages) in &self.writes {
            io.write_over(*lba, pages.clone(), StreamHint::MetaHot, |_| ());
        }
    }
}

/// A log that found no free segment when it filled its own stands behind the last block, which no checkpoint can say.
fn leave_full_segments(fs: &Fs) -> Result<()> {
    for log in Log::ALL {
        let mut head = fs.vol.logs.head(log);
        if head.next == BLOCKS && !fs.vol.advance(log, &mut head) {
            return Err(Error::NoSpace);
        }
        fs.vol.change_holes(log, &mut head);
    }
    Ok(())
}

/// NAT and SIT: all dirty entries into the journal if they fit, else all of them into shadow blocks.
fn take_tables(fs: &Fs) -> Result<Tables> {
    let mut tables = Tables {
        nat_journal: Journal::default(),
        sit_journal: Journal::default(),
        nat_blocks: Vec::new(),
        sit_blocks: Vec::new(),
        writes: Vec::new(),
    };
    if fs.vol.nat.dirty_entries() <= MAX_NAT_JOURNAL as u64 {
        tables.nat_journal = Journal::from_nat(&fs.vol.nat.dirty_for_journal())?;
    } else {
        for flush in fs.vol.nat.take_dirty_blocks() {
            tables.nat_blocks.push(flush.block);
            tables.writes.push((flush.lba, vec![flush.page]));
        }
    }
    let sit = &fs.checkpoints.sit;
    if fs.vol.segs.sit_dirty.count() <= MAX_SIT_JOURNAL {
        tables.sit_journal = Journal::from_sit(&sit.dirty_for_journal(&fs.vol.segs))?;
    } else {
        for flush in sit.take_dirty_blocks(&fs.vol.segs, fs.vol.layout()) {
            tables.sit_blocks.push(flush.block);
            tables.writes.push((flush.lba, vec![flush.page]));
        }
    }
    Ok(tables)
}

/// The flags of the next checkpoint. Those that describe what only another implementation maintains are dropped.
fn next_flags(fs: &Fs, old: CpFlags, unmount: bool) -> CpFlags {
    let keep = CpFlags::FSCK | CpFlags::LARGE_NAT_BITMAP | CpFlags::QUOTA_NEED_FSCK;
    let kept = CpFlags::from_bits(old.bits() & keep.bits());
    let unmount = if unmount { CpFlags::UMOUNT } else { CpFlags::NONE };
    // Quota files are not maintained here; the flag makes Linux rebuild them (format section 14).
    let quota = fs.vol.sb.features().contains(Features::QUOTA);
    let quota = if quota { CpFlags::QUOTA_NEED_FSCK } else { CpFlags::NONE };
    kept | unmount | quota | CpFlags::CRC_RECOVERY
}

fn fill_counters(fs: &Fs, header: &mut CheckpointHeader) -> Result<()> {
    if fs.vol.space.is_overdrawn() {
        return Err(Error::corrupt("files gave back more blocks than the volume counted"));
    }
    let counts = fs.vol.space.counts();
    let narrow = |n: u64| u32::try_from(n).map_err(|_| Error::corrupt("more than 2^32 nodes"));
    header.set_valid_blocks(counts.blocks);
    header.set_valid_nodes(narrow(counts.nodes)?);
    header.set_valid_inodes(narrow(counts.inodes)?);
    // Prefree segments, and those of streams without a block, are free for whoever reads this checkpoint.
    let segs = &fs.vol.segs;
    let free = segs.free_segments() + segs.prefree.count() as u64 + fs.vol.streams.empty_segments(segs);
    header.set_free_segments(narrow(free)?);
    header.set_next_free_nid(fs.vol.nids.hint());
    header.set_elapsed_time(fs.vol.elapsed());
    Ok(())
}

/// Log positions into the header; the logs' summaries, with the journals where the format has them (section 3.5).
fn take_logs(fs: &Fs, header: &mut CheckpointHeader, tables: &Tables) -> [SummaryBlock; Log::COUNT] {
    Log::ALL.map(|log| {
        let head = fs.vol.logs.head(log);
        header.set_log(log, LogPosition { segment: head.seg, next: head.next as u16, alloc: head.alloc });
        let mut summary = (*head.summary).clone();
        summary.journal = match log {
            Log::HotData => tables.nat_journal,
            Log::ColdData => tables.sit_journal,
            Log::HotNode => Journal::from_kbytes_written(fs.vol.io.kbytes_written()),
            _ => Journal::default(),
        };
        summary
    })
}

#[cfg(test)]
mod tests;
