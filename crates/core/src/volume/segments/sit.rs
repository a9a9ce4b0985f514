//! Writing the SIT: from the segment table to journal entries or shadow blocks (format section 5).
//!
//! An entry is dirty while the SIT block that the committed checkpoint selects does not hold it; entries that travel in
//! the journal stay dirty. The selected copy of a block is never overwritten.

use crate::volume::segments::table::{SegTable, SitRecord};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::sit::{ENTRIES_PER_BLOCK, SitBlock, SitEntry};
use steadyfs_format::{Layout, Lba, Log, SegNo};

/// Which copy of each SIT block is selected.
pub(crate) struct Sit {
    selected: Box<[AtomicBool]>,
}

/// A SIT block that a checkpoint must write, to the copy not selected now.
pub(crate) struct SitFlush {
    pub(crate) block: u32,
    pub(crate) lba: Lba,
    pub(crate) page: PageBuf,
}

fn entry(record: &SitRecord) -> SitEntry {
    // The table takes kinds from logs and from entries that were checked when they were loaded.
    let log = Log::from_number(record.kind).expect("segment kinds are log numbers");
    SitEntry::new(log, record.map, record.mtime)
}

impl Sit {
    /// The selection of a checkpoint.
    pub(crate) fn new(layout: &Layout, version_bit: impl Fn(u32) -> bool) -> Self {
        Sit { selected: (0..layout.sit_blocks()).map(|b| AtomicBool::new(version_bit(b))).collect() }
    }

    /// All dirty entries, for the journal. They stay dirty. Call under the exclusive checkpoint lock.
    pub(crate) fn dirty_for_journal(&self, segs: &SegTable) -> Vec<(SegNo, SitEntry)> {
        segs.sit_dirty.iter().map(|i| SegNo::new(i as u32)).map(|seg| (seg, entry(&segs.record(seg)))).collect()
    }

    /// All blocks with dirty entries in their on-disk form; the entries become clean. Call under the exclusive
    /// checkpoint lock.
    pub(crate) fn take_dirty_blocks(&self, segs: &SegTable, layout: &Layout) -> Vec<SitFlush> {
        let mut out = Vec::new();
        let mut from = 0;
        while let Some(i) = segs.sit_dirty.next_set(from) {
            let block = i / ENTRIES_PER_BLOCK;
            let first = block * ENTRIES_PER_BLOCK;
            let end = (first + ENTRIES_PER_BLOCK).min(segs.len() as usize);
            let mut raw = SitBlock::zeroed();
            for k in first..end {
                raw.set(k - first, entry(&segs.record(SegNo::new(k as u32))));
                segs.sit_dirty.clear(k);
            }
            let target = !self.selected[block].load(SeqCst);
            let lba = layout.sit_block_lba(block as u32, target);
            out.push(SitFlush { block: block as u32, lba, page: PageBuf::from_slice(&raw.to_block()) });
            from = end;
        }
        assert_eq!(segs.sit_dirty.count(), 0);
        out
    }

    /// The checkpoint that was to write these blocks has failed: all their entries are dirty.
    pub(crate) fn not_written(&self, segs: &SegTable, taken: impl Iterator<Item = u32>) {
        for block in taken {
            let first = block as usize * ENTRIES_PER_BLOCK;
            for k in first..(first + ENTRIES_PER_BLOCK).min(segs.len() as usize) {
                segs.sit_dirty.set(k);
            }
        }
    }

    /// Which copy of a block the committed checkpoint selects.
    pub(crate) fn selected(&self, block: u32) -> bool {
        self.selected[block as usize].load(SeqCst)
    }

    /// The checkpoint that wrote these blocks has committed.
    pub(crate) fn commit(&self, flushed: impl Iterator<Item = u32>) {
        for b in flushed {
            self.selected[b as usize].fetch_xor(true, SeqCst);
        }
    }
}
