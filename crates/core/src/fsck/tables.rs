//! NAT and SIT: loading them, and the rules that need nothing but the tables.

use super::issue::Issue;
use super::nids::{NatPage, Nids};
use super::options::{CheckOptions, Phase};
use super::segments::CheckedSegments;
use super::sink::{IssueSink, Tracker};
use super::{blocks, pool};
use crate::raw::Image;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::bitmap;
use steadyfs_format::block::Block;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::sit::SitEntry;
use steadyfs_format::{Ino, Lba, META_INO, NODE_INO, Nid, SegNo};

/// NAT blocks per job.
const JOB: u32 = 128;

/// Loads the NAT with its journal. A block that cannot be read counts as empty.
pub(super) fn load_nat(image: &Arc<Image>, sink: &Arc<IssueSink>, options: &CheckOptions) -> Nids {
    check_nat_journal(image, sink);
    let end = image.layout().nat_blocks();
    let tracker = Tracker::begin(options, Phase::Nat, u64::from(end));
    let (image_, sink_) = (Arc::clone(image), Arc::clone(sink));
    let jobs = end.div_ceil(JOB) as usize;
    let lists = pool::run(options.threads, jobs, move |job, out| {
        let first = job as u32 * JOB;
        out.push((first, load_nat_part(&image_, &sink_, first, end.min(first + JOB))));
        tracker.advance(u64::from(JOB.min(end - first)));
    });
    let mut pages: Vec<Option<Box<NatPage>>> = Vec::new();
    pages.resize_with(end as usize, || None);
    for (first, list) in lists {
        for (number, page) in (first as usize..).zip(list) {
            pages[number] = page;
        }
    }
    Nids::new(pages, image.layout().width)
}

fn load_nat_part(image: &Image, sink: &IssueSink, first: u32, end: u32) -> Vec<Option<Box<NatPage>>> {
    let blocks: Vec<Option<PageBuf>> = match image.nat_blocks(first..end) {
        Ok(pages) => pages.into_iter().map(Some).collect(),
        Err(_) => (first..end).map(|block| read_nat_block(image, sink, block)).collect(),
    };
    (first..).zip(blocks).map(|(number, block)| nat_page(image, number, &block?)).collect()
}

/// One block with the journal; `None` if no id of it is in use.
fn nat_page(image: &Image, number: u32, block: &PageBuf) -> Option<Box<NatPage>> {
    // Most blocks of most volumes: these are neither copied nor decoded.
    let nids = image.layout().nids_of(number);
    if block.is_zero() && !image.nat_journal().iter().any(|(nid, _)| nids.contains(&nid.get())) {
        return None;
    }
    let mut block = block.to_array();
    apply_journal(image, number, &mut block);
    NatPage::new(number, block, image.layout().width).map(Box::new)
}

fn read_nat_block(image: &Image, sink: &IssueSink, block: u32) -> Option<PageBuf> {
    match image.read_block(image.nat_lba(block)) {
        Ok(page) => Some(page),
        Err(error) => {
            sink.add(Issue::ReadFailed { lba: image.nat_lba(block), reason: error.to_string() });
            None
        }
    }
}

/// The first entry of an id counts: the journal is applied from its end.
fn apply_journal(image: &Image, number: u32, block: &mut Block) {
    let nids = image.layout().nids_of(number);
    for &(nid, entry) in image.nat_journal().iter().rev().filter(|(nid, _)| nids.contains(&nid.get())) {
        let index = (nid.get() - nids.start) as usize;
        let width = image.layout().width;
        if width.holds(entry.lba) {
            nat::set_entry(block, width, index, entry);
        } else {
            // An address that nobody can write is put there by hand, so that it is reported.
            nat::set_entry(block, width, index, NatEntry { lba: Lba(1), ..entry });
            let end = (index + 1) * width.nat_entry_bytes();
            block[end - width.bytes()..end].copy_from_slice(&entry.lba.get().to_le_bytes()[..width.bytes()]);
        }
    }
}

fn check_nat_journal(image: &Image, sink: &IssueSink) {
    let journal = image.nat_journal();
    for (at, (nid, _)) in journal.iter().enumerate() {
        if nid.is_null() || *nid >= image.layout().max_nid() {
            sink.add(Issue::NatJournalOutside { nid: *nid });
        } else if journal[..at].iter().any(|(other, _)| other == nid) {
            sink.add(Issue::NatJournalTwice { nid: *nid });
        }
    }
}

/// The rules of the NAT that need no other block.
pub(super) fn check_nat(image: &Arc<Image>, sink: &Arc<IssueSink>, nids: &Arc<Nids>, options: &CheckOptions) {
    for nid in [NODE_INO, META_INO].map(Ino::nid) {
        let entry = nids.get(nid);
        let right = entry.is_some_and(|entry| entry.ino == nid.as_ino() && entry.lba == NatEntry::reserved(nid).lba);
        if !right {
            let (owner, block) = entry.map_or((0, 0), |entry| (entry.ino.get(), entry.lba.get()));
            sink.add(Issue::NatReserved { nid, owner, block });
        }
    }
    let pages = nids.pages();
    let (image_, sink_, nids_) = (Arc::clone(image), Arc::clone(sink), Arc::clone(nids));
    pool::run(options.threads, pages.div_ceil(JOB as usize), move |job, _: &mut Vec<()>| {
        let first = job * JOB as usize;
        check_nat_part(&image_, &sink_, &nids_, first..pages.min(first + JOB as usize));
    });
    check_nat_bits(image, sink, nids);
}

/// The same of the entries in some NAT blocks.
fn check_nat_part(image: &Image, sink: &IssueSink, nids: &Nids, blocks: Range<usize>) {
    for (nid, entry) in nids.iter_used(blocks) {
        let NatEntry { ino, lba, .. } = entry;
        if nid.is_null() {
            sink.add(Issue::NatNullUsed { nid, lba });
            continue;
        }
        if nid <= META_INO.nid() {
            continue;
        }
        if !image.layout().width.holds(lba) {
            sink.add(Issue::NatImpossible { nid, ino, address: lba.get() });
        } else if let Some(issue) = blocks::misplaced_node(image, ino, nid, lba) {
            sink.add(issue);
        }
        if ino.is_null() {
            sink.add(Issue::NatNoOwner { nid, lba });
        } else if nids.inode_index(ino).is_none() {
            sink.add(Issue::NatOwnerMissing { nid, ino });
        }
    }
}

/// Accelerators for the next mount, if they belong to this checkpoint.
fn check_nat_bits(image: &Image, sink: &IssueSink, nids: &Nids) {
    let bits = match image.nat_bits() {
        Ok(Some(bits)) => bits,
        Ok(None) => return,
        Err(error) => {
            let lba = image.layout().pack(image.pack());
            return sink.add(Issue::ReadFailed { lba, reason: error.to_string() });
        }
    };
    for block in 0..image.layout().nat_blocks() {
        let used = nids.used_in(block) + usize::from(block == 0 && nids.get(Nid(0)).is_none());
        let expected = [
            ("full", used as u32 == image.layout().nat_entries(), bits.is_full(block)),
            ("empty", used == 0, bits.is_empty(block)),
        ];
        for (bitmap, expected, found) in expected {
            if expected != found {
                sink.add(Issue::NatBitsWrong { block, bitmap, stored: u8::from(found) });
            }
        }
    }
}

/// Loads the SIT with its journal, and makes the checks that need nothing else.
pub(super) fn load_sit(image: &Image, sink: &IssueSink, options: &CheckOptions) -> Option<CheckedSegments> {
    let tracker = Tracker::begin(options, Phase::Sit, u64::from(image.layout().main_segments));
    check_sit_journal(image, sink);
    let sit = match image.load_known_sit() {
        Ok(sit) => sit,
        Err(error) => {
            sink.add(Issue::ReadFailed { lba: image.layout().sit, reason: error.to_string() });
            return None;
        }
    };
    for (segno, entry) in (0..).map(SegNo).zip(&sit) {
        check_entry(sink, segno, entry);
    }
    let segments = CheckedSegments::new(*image.layout(), sit);
    check_logs(image, sink, &segments);
    tracker.advance(u64::from(image.layout().main_segments));
    Some(segments)
}

fn check_sit_journal(image: &Image, sink: &IssueSink) {
    let journal = image.sit_journal();
    for (at, (segno, _)) in journal.iter().enumerate() {
        if segno.get() >= image.layout().main_segments {
            sink.add(Issue::SitJournalOutside { segno: *segno });
        } else if journal[..at].iter().any(|(other, _)| other == segno) {
            sink.add(Issue::SitJournalTwice { segno: *segno });
        }
    }
}

fn check_entry(sink: &IssueSink, segno: SegNo, entry: &SitEntry) {
    if entry.log().is_none() {
        sink.add(Issue::SitType { segno, found: entry.raw_type() });
    }
    let ones = bitmap::count_ones(entry.valid_map());
    if u32::from(entry.valid_blocks()) != ones {
        sink.add(Issue::SitCount { segno, stored: entry.valid_blocks(), found: ones });
    }
}

/// The six current segments: right type, next slot free, nothing behind the position of a log that writes in order.
fn check_logs(image: &Image, sink: &IssueSink, segments: &CheckedSegments) {
    for &log in image.logs() {
        let at = image.log_position(log);
        let (segno, entry) = (at.segment, segments.entry(at.segment));
        if entry.log().is_some_and(|found| found != log) {
            sink.add(Issue::LogSegmentType { log, segno, found: entry.raw_type() });
        }
        if entry.is_valid(at.next) {
            sink.add(Issue::LogNextUsed { log, segno, lba: image.layout().lba_of(segno, at.next) });
        }
        let behind =
            (at.next + 1..steadyfs_format::BLOCKS_PER_SEG as u16).filter(|offset| entry.is_valid(*offset)).count();
        if at.alloc == steadyfs_format::AllocType::Lfs && behind > 0 {
            sink.add(Issue::LogTailUsed { log, segno, blocks: behind as u32 });
        }
    }
}
