//! Superblocks, checkpoint, roll-forward chain: what says which volume there is to check.

use super::issue::Issue;
use super::options::{CheckOptions, Phase};
use super::report::RollForward;
use super::sink::IssueSink;

use crate::error::Error;
use crate::raw::migrating::{Mismatch, mismatches};
use crate::raw::{AfterReplay, ChainSummary, HeaderCopy, Image, OtherPack, PackPart, Packs, Superblocks};
use std::collections::HashSet;
use std::sync::Arc;
use steadyfs_device::Device;
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::{Features, Layout, Lba, Pack, SuperBlock};

/// Fewer sections cannot hold six logs and what collection needs.
const MIN_SECTIONS: u32 = 9;
/// Flags of checkpoints that somebody asks a check with.
const CHECK_WANTED: CpFlags = CpFlags::FSCK.union(CpFlags::DISABLED).union(CpFlags::DISABLED_QUICK);

/// Opens the volume, checking its superblocks and checkpoint packs on the way. `None` if there is nothing to go on
/// with.
pub(super) fn open(dev: &Arc<dyn Device>, sink: &IssueSink, options: &CheckOptions) -> Option<Arc<Image>> {
    let tracker = super::sink::Tracker::begin(options, Phase::Volume, 1);
    let superblocks = Superblocks::read(&**dev);
    if let Some(other) = superblocks.block_size() {
        sink.add(Issue::NotRead { reason: other.to_string() });
        return None;
    }
    let superblock = check_superblocks(&superblocks, sink)?;
    let (blocks, need) = (dev.info().blocks, superblocks.end().map_or(0, Lba::get));
    if let Some(several) = superblocks.devices().filter(|_| blocks < need) {
        sink.add(Issue::NotRead { reason: several.to_string() });
        return None;
    }
    if blocks < need {
        sink.add(Issue::DeviceTooSmall { blocks, need });
        return None;
    }
    check_superblock(&superblock, sink);
    let packs = Packs::of(&**dev, &superblocks).ok()?;
    let pack = check_packs(&packs, sink)?;
    let image = match Image::load(Arc::clone(dev), superblocks, packs) {
        Ok(image) => Arc::new(image),
        Err(Error::Io(error)) => {
            sink.add(Issue::ReadFailed { lba: superblock.layout().pack(pack), reason: error.to_string() });
            return None;
        }
        Err(error) => {
            sink.add(Issue::CheckpointInvalid { pack: pack.number(), reason: error.to_string() });
            return None;
        }
    };
    check_parts(&image, sink);
    check_regions(&image, sink);
    check_headers(&image, sink);
    check_flags(&image, sink);
    tracker.advance(1);
    Some(image)
}

fn check_superblocks(superblocks: &Superblocks, sink: &IssueSink) -> Option<SuperBlock> {
    let copies = [0, 1].map(|block| superblocks.copy(block));
    if let [Err(first), Err(second)] = copies {
        sink.add(Issue::NoSuperblock { first: first.to_string(), second: second.to_string() });
        return None;
    }
    for (lba, copy) in (0..).map(Lba).zip(copies) {
        if let Err(error) = copy {
            sink.add(Issue::SuperblockBad { lba, reason: error.to_string() });
        }
    }
    if let Some(offset) = superblocks.first_difference() {
        sink.add(Issue::SuperblocksDiffer { offset });
    }
    superblocks.chosen().ok().cloned()
}

fn check_superblock(superblock: &SuperBlock, sink: &IssueSink) {
    let (raw, layout): (_, &Layout) = (superblock.raw(), superblock.layout());
    let is_segmented = superblock.features().difference(Features::INFINITE) == superblock.features();
    if is_segmented && layout.sections < MIN_SECTIONS {
        sink.add(Issue::TooFewSections { sections: layout.sections });
    }
    let set = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
    if set(&raw.s_stop_reason) {
        let reasons = (0..).zip(&raw.s_stop_reason).filter(|(_, count)| **count != 0);
        let reasons: Vec<String> = reasons.map(|(reason, count): (u32, _)| format!("{reason} x{count}")).collect();
        sink.add(Issue::StopRecorded { reasons: reasons.join(", ") });
    }
    if set(&raw.s_errors) {
        let bits = (0..raw.s_errors.len() * 8).filter(|bit| raw.s_errors[bit / 8] >> (bit % 8) & 1 != 0);
        let bits: Vec<String> = bits.map(|bit| bit.to_string()).collect();
        sink.add(Issue::ErrorsRecorded { bits: bits.join(", ") });
    }
    let unknown = superblock.features().unknown();
    if !unknown.is_empty() {
        sink.add(Issue::UnknownFeatures { bits: unknown.bits() });
    }
}

fn check_packs(packs: &Packs, sink: &IssueSink) -> Option<Pack> {
    let Ok(chosen) = packs.chosen() else {
        let [first, second] = Pack::BOTH.map(|pack| packs.version(pack).err().map_or(String::new(), Error::to_string));
        sink.add(Issue::NoCheckpoint { first, second });
        return None;
    };
    Some(chosen)
}

/// Says what of the pack in force is left out.
fn check_parts(image: &Image, sink: &IssueSink) {
    let pack = image.pack().number();
    for damage in image.damage() {
        let reason = damage.reason.to_string();
        sink.add(match damage.part {
            PackPart::NatJournal => Issue::NatJournalDamaged { pack, reason },
            PackPart::SitJournal => Issue::SitJournalDamaged { pack, reason },
            PackPart::Summary(log) => {
                let segno = image.log_position(log).segment;
                Issue::LogSummaryDamaged { log, segno, reason }
            }
        });
    }
}

/// Says what of a D2FS volume contradicts its areas.
fn check_regions(image: &Image, sink: &IssueSink) {
    let Some(regions) = image.superblock().regions() else { return };
    if image.checkpoint().served().is_none() {
        sink.add(Issue::ServedUnknown { pack: image.pack().number() });
    }
    for mismatch in mismatches(image) {
        sink.add(match mismatch {
            Mismatch::Made { what, stored, found } => Issue::DeviceDiffers { what, stored, found },
            Mismatch::Records { served, completed, delivered } => Issue::RecordsDiffer { served, completed, delivered },
        });
    }
    for log in image.logs().iter().copied() {
        let segno = image.log_position(log).segment;
        if regions.is_gc(image.layout().sec_of(segno)) {
            sink.add(Issue::LogInGcArea { log, segno });
        }
    }
}

/// Says what is wrong with the headers of the pack in force, and with the other pack.
fn check_headers(image: &Image, sink: &IssueSink) {
    let (packs, now, other) = (image.packs(), image.pack(), image.pack().other());
    if let Some((copy, why)) = packs.damaged(now) {
        let (pack, reason) = (now.number(), why.to_string());
        sink.add(match copy {
            HeaderCopy::First => Issue::CheckpointHeaderDamaged { pack, reason },
            HeaderCopy::Last => Issue::CheckpointEndTorn { pack, reason },
        });
    }
    let Err(error) = packs.version(other) else { return };
    let (pack, reason) = (other.number(), error.to_string());
    match image.other_pack() {
        OtherPack::Whole => {}
        OtherPack::Torn => sink.add(Issue::CheckpointPackTorn { pack, reason }),
        OtherPack::Older => sink.add(Issue::CheckpointPackLost { pack, reason }),
        OtherPack::Gone => sink.add(Issue::CheckpointPackGone { pack, reason }),
    }
}

fn check_flags(image: &Image, sink: &IssueSink) {
    let header = image.checkpoint().header();
    let (flags, version) = (image.stored_flags(), header.version());
    let bits = flags.bits();
    if !flags.contains(CpFlags::UMOUNT) {
        sink.add(Issue::NotUnmounted { version });
    }
    if flags.contains(CpFlags::ERROR) {
        sink.add(Issue::MarkedError { flags: bits });
    }
    if flags.intersects(CHECK_WANTED) {
        sink.add(Issue::MarkedFsck { flags: bits });
    }
    if flags.contains(CpFlags::RESIZEFS) {
        sink.add(Issue::ResizeInterrupted { flags: bits });
    }
    if flags.contains(CpFlags::QUOTA_NEED_FSCK) {
        sink.add(Issue::QuotaStale { flags: bits });
    }
    if !flags.unknown().is_empty() {
        sink.add(Issue::UnknownFlags { flags: flags.unknown().bits() });
    }
    let (nid, max) = (header.next_free_nid(), image.layout().max_nid());
    if nid >= max {
        sink.add(Issue::NextFreeNid { nid, max: max.get() });
    }
}

/// Looks at the chain of fsynced nodes, which the next mount will recover.
pub(super) fn check_chain(image: &Image, sink: &IssueSink) -> Option<RollForward> {
    let (mut nodes, mut files) = (0, HashSet::new());
    let (mut journal, mut batches, mut after) = (ChainSummary::default(), image.batches(), AfterReplay::default());
    let mut whole = Ok(());
    let mut chain = image.fsync_chain();
    for node in chain.by_ref() {
        match node {
            Ok(node) if node.is_batch => {
                let records = journal.take_batch(&mut batches, &node);
                whole = whole.and_then(|()| after.take(&records));
            }
            Ok(node) => {
                nodes += 1;
                if node.footer.is_fsync() {
                    files.insert(node.footer.ino());
                }
            }
            Err(error) => {
                let lba = image.layout().main;
                sink.add(Issue::ReadFailed { lba, reason: error.to_string() });
                break;
            }
        }
    }
    if let Some(lba) = chain.loop_at() {
        sink.add(Issue::RollForwardLoop { lba });
    }
    if journal.journal_damaged {
        sink.add(Issue::JournalDamaged {});
    } else if let Err(error) = whole.and_then(|()| after.check(image)) {
        let reason = if let Error::Corrupt(why) = error { why } else { error.to_string() };
        sink.add(Issue::JournalBreaksTree { reason });
    } else if journal.batches > 0 {
        sink.add(Issue::JournalPending { batches: journal.batches, records: journal.records });
    } else if image.superblocks().is_journaled() {
        sink.add(Issue::JournalMarked {});
    }
    if files.is_empty() {
        return None;
    }
    let found = RollForward { nodes, files: files.len() as u64 };
    sink.add(Issue::RollForwardPending { nodes: found.nodes, files: found.files });
    Some(found)
}

/// Whether the state of the volume gives no reason to walk it.
pub(super) fn looks_clean(image: &Image) -> bool {
    let flags = image.checkpoint().header().flags();
    let known_good = CpFlags::UMOUNT;
    let suspicious = CHECK_WANTED | CpFlags::ERROR | CpFlags::RESIZEFS | CpFlags::QUOTA_NEED_FSCK;
    flags.contains(known_good) && !flags.intersects(suspicious) && !image.superblocks().is_journaled()
}
