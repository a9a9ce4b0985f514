//! What a checkpoint took under the exclusive lock, in the form in which it goes to the device.

use super::state::Committed;
use crate::error::{Error, Result};
use crate::files::orphans::Orphans;
use crate::volume::Volume;
use crate::volume::io::BlockIo;
use crate::volume::placement::FrozenPlaces;
use std::sync::Arc;
use steadyfs_device::{PageBuf, StreamHint};
use steadyfs_format::checkpoint::{Checkpoint, CheckpointHeader, CpFlags};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::{Features, Lba, Nid, Pack};

/// A checkpoint on its way to the device.
pub(super) struct Snapshot {
    pub(super) number: u64,
    pub(super) checkpoint: Checkpoint,
    pub(super) pack: Pack,
    /// Last block of the pack, which commits it.
    pub(super) commit_lba: Lba,
    pub(super) commit_page: PageBuf,
    /// Where things are placed, and what becomes free with the commit.
    pub(super) placement: FrozenPlaces,
    /// Node ids freed before the freeze.
    pub(super) held_nids: Vec<Nid>,
    /// NAT blocks whose selected copy changes with the commit.
    pub(super) nat_blocks: Vec<u32>,
    /// Everything to write before the commit block.
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

/// The NAT's part of a snapshot: the journal, or the shadow blocks written where the journal has no room.
#[derive(Default)]
struct NatPart {
    journal: Vec<(Nid, NatEntry)>,
    blocks: Vec<u32>,
    writes: Vec<(Lba, Vec<PageBuf>)>,
}

impl Snapshot {
    /// Takes the snapshot. The checkpoint lock is held exclusively and nothing is dirty but NAT and SIT.
    pub(super) fn take(
        vol: &Volume,
        orphans: &Orphans,
        committed: &Committed,
        unmount: bool,
        number: u64,
    ) -> Result<Self> {
        let mut placement = vol.placement.freeze()?;
        let mut nat = take_nat(vol);
        let journal = std::mem::take(&mut nat.journal);
        let pack = committed.pack.other();
        let encoded = encode(vol, orphans, committed, unmount, (&placement, &nat.blocks, journal));
        let (checkpoint, mut pages) = encoded.inspect_err(|_| {
            vol.placement.failed(&placement);
            vol.nat.not_written(&nat.blocks);
        })?;
        let start = vol.layout().pack(pack);
        let commit_page = pages.pop().unwrap_or_default();
        let commit_lba = start + pages.len() as u64;
        let mut writes = nat.writes;
        writes.append(&mut placement.take_writes());
        writes.push((start, pages));
        Ok(Snapshot {
            number,
            checkpoint,
            pack,
            commit_lba,
            commit_page,
            placement,
            held_nids: vol.nids.held(),
            nat_blocks: nat.blocks,
            writes,
        })
    }

    /// Submits everything but the commit block. An fsync may be trying again what the device refused of a checkpoint
    /// that failed before.
    pub(super) fn submit(&self, io: &Arc<BlockIo>) {
        for (lba, pages) in &self.writes {
            let end = *lba + pages.len() as u64;
            assert!(!(*lba..end).contains(&self.commit_lba), "the block that commits is written with the others");
            io.write_over(*lba, pages.clone(), StreamHint::MetaHot, |_| ());
        }
    }
}

/// The checkpoint that follows the committed one, and the blocks of its pack, at least one. Of the placement's part the
/// places, the NAT blocks whose copy changes, and the NAT journal.
fn encode(
    vol: &Volume,
    orphans: &Orphans,
    committed: &Committed,
    unmount: bool,
    (placement, nat_blocks, journal): (&FrozenPlaces, &[u32], Vec<(Nid, NatEntry)>),
) -> Result<(Checkpoint, Vec<PageBuf>)> {
    let mut checkpoint = committed.checkpoint.clone();
    for &block in nat_blocks {
        checkpoint.set_nat_copy(block, !vol.nat.selected(block));
    }
    placement.describe(&mut checkpoint)?;
    let header = checkpoint.header_mut();
    // Versions wrap; the younger of two packs is told by their distance.
    header.set_version(header.version().wrapping_add(1));
    header.set_flags(next_flags(vol, header.flags(), unmount));
    fill_counters(vol, header)?;
    let (pack, kbytes) = (committed.pack.other(), vol.io.kbytes_written());
    let blocks = placement.encode_pack(&mut checkpoint, pack, &orphans.list(), journal, kbytes, unmount)?;
    if blocks.is_empty() {
        return Err(Error::corrupt("an empty checkpoint pack"));
    }
    Ok((checkpoint, blocks.iter().map(|block| PageBuf::from_slice(block)).collect()))
}

/// All dirty entries go into the journal if they fit, else all of them into shadow blocks.
fn take_nat(vol: &Volume) -> NatPart {
    let mut part = NatPart::default();
    if vol.nat.dirty_entries() <= vol.placement.nat_journal_room() as u64 {
        part.journal = vol.nat.dirty_for_journal();
    } else {
        for flush in vol.nat.take_dirty_blocks() {
            part.blocks.push(flush.block);
            part.writes.push((flush.lba, vec![flush.page]));
        }
    }
    part
}

/// The flags of the next checkpoint. Those that describe what only another implementation maintains are dropped.
fn next_flags(vol: &Volume, old: CpFlags, unmount: bool) -> CpFlags {
    let keep = CpFlags::FSCK | CpFlags::LARGE_NAT_BITMAP | CpFlags::QUOTA_NEED_FSCK;
    let kept = CpFlags::from_bits(old.bits() & keep.bits());
    let unmount = if unmount { CpFlags::UMOUNT } else { CpFlags::NONE };
    // Quota files are not maintained here; the flag makes Linux rebuild them (format section 14).
    let quota = vol.sb.features().contains(Features::QUOTA);
    let quota = if quota { CpFlags::QUOTA_NEED_FSCK } else { CpFlags::NONE };
    kept | unmount | quota | CpFlags::CRC_RECOVERY
}

fn fill_counters(vol: &Volume, header: &mut CheckpointHeader) -> Result<()> {
    if vol.space.is_overdrawn() {
        return Err(Error::corrupt("files gave back more blocks than the volume counted"));
    }
    let counts = vol.space.counts();
    let narrow = |n: u64| u32::try_from(n).map_err(|_| Error::corrupt("more than 2^32 nodes"));
    header.set_valid_blocks(counts.blocks);
    header.set_valid_nodes(narrow(counts.nodes)?);
    header.set_valid_inodes(narrow(counts.inodes)?);
    header.set_next_free_nid(vol.nids.hint());
    header.set_elapsed_time(vol.elapsed());
    Ok(())
}

#[cfg(test)]
mod tests;
