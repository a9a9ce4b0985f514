//! NAT, SIT and SSA of an image: the copies that the checkpoint selects, with the journals on top. Format sections 4
//! to 6.

use super::{Image, PackPart};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::node::NodeBlock;
use steadyfs_format::sit::{ENTRIES_PER_BLOCK, SitBlock, SitEntry};
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{BLOCKS_PER_SEG, Lba, Log, Nid, SegNo};

/// Blocks read at once when a table is read from end to end.
const BATCH: u64 = 128;

/// Blocks that a device keeps something for.
struct Held {
    /// In order.
    runs: Vec<Range<u64>>,
}

impl Held {
    fn contains(&self, lba: Lba) -> bool {
        let at = self.runs.partition_point(|run| run.end <= lba.get());
        self.runs.get(at).is_some_and(|run| run.start <= lba.get())
    }
}

impl Image {
    /// The entry of a node id: from the journal, else from the table.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for an id that the volume does not have; read errors.
    pub fn nat(&self, nid: Nid) -> Result<NatEntry> {
        if nid >= self.layout().max_nid() {
            return Err(Error::corrupt(format!("node id {nid} is outside the NAT")));
        }
        if let Some((_, entry)) = self.nat_journal().iter().find(|(other, _)| *other == nid) {
            return Ok(*entry);
        }
        let (block, index) = self.layout().nat_place(nid);
        let page = self.read_block(self.nat_lba(block))?;
        Ok(page.with(|bytes| nat::entry(bytes, self.layout().width, index)))
    }

    /// The selected copies of some NAT blocks, in order, without the journal.
    ///
    /// # Errors
    /// Read errors.
    ///
    /// # Panics
    /// If the range goes beyond the table.
    pub fn nat_blocks(&self, blocks: Range<u32>) -> Result<Vec<PageBuf>> {
        self.read_scattered(blocks.map(|block| self.nat_lba(block)))
    }

    /// The entry of a segment: from the journal, else from the table.
    ///
    /// # Errors
    /// A damaged journal; read errors.
    ///
    /// # Panics
    /// If the main area has no such segment.
    pub fn sit(&self, segment: SegNo) -> Result<SitEntry> {
        assert!(segment.get() < self.layout().main_segments, "{segment:?} is not in the main area");
        self.whole(PackPart::SitJournal)?;
        if let Some((_, entry)) = self.sit_journal().iter().rfind(|(other, _)| *other == segment) {
            return Ok(*entry);
        }
        let (block, index) = self.layout().sit_place(segment);
        let page = self.read_block(self.sit_lba(block))?;
        Ok(page.with(|bytes| *SitBlock::view(bytes).get(index)))
    }

    /// All entries of the SIT, with the journal: `main_segments` of them, 74 bytes each.
    ///
    /// # Errors
    /// A damaged journal; read errors.
    pub fn load_sit(&self) -> Result<Vec<SitEntry>> {
        self.whole(PackPart::SitJournal)?;
        self.load_known_sit()
    }

    /// As [`Image::load_sit`], without a journal that is damaged: entries that should be there are older.
    ///
    /// # Errors
    /// Read errors.
    pub fn load_known_sit(&self) -> Result<Vec<SitEntry>> {
        let mut entries = Vec::with_capacity(self.layout().main_segments as usize);
        self.each_sit_block(|segments, block| {
            match block {
                Some(block) => entries.extend_from_slice(block),
                None => entries.resize(segments.end as usize, SitEntry::default()),
            }
            Ok(())
        })?;
        for (segment, entry) in self.sit_journal() {
            if let Some(slot) = entries.get_mut(segment.index()) {
                *slot = *entry;
            }
        }
        Ok(entries)
    }

    /// Shows `see` each entry of the SIT that is not blank, and its segment, with the journal: one that the journal has
    /// comes last, also if it is blank. Takes no memory for all of them.
    ///
    /// # Errors
    /// A damaged journal; read errors; those of `see`.
    pub(crate) fn each_used_sit(&self, mut see: impl FnMut(SegNo, &SitEntry) -> Result<()>) -> Result<()> {
        self.whole(PackPart::SitJournal)?;
        let journal: BTreeMap<SegNo, &SitEntry> = self.sit_journal().iter().map(|(seg, entry)| (*seg, entry)).collect();
        self.each_sit_block(|segments, block| {
            let entries = segments.map(SegNo::new).zip(block.unwrap_or_default());
            for (segment, entry) in entries.filter(|(_, entry)| !entry.is_blank()) {
                if !journal.contains_key(&segment) {
                    see(segment, entry)?;
                }
            }
            Ok(())
        })?;
        let segments = self.layout().main_segments;
        journal.into_iter().filter(|(segment, _)| segment.get() < segments).try_for_each(|(seg, entry)| see(seg, entry))
    }

    /// Shows `see` the entries of each block of the table, and their segments: each segment of the main area once, in
    /// order. `None` is a block of blank entries: where the device keeps nothing of the table, nothing is read.
    fn each_sit_block(&self, mut see: impl FnMut(Range<u32>, Option<&[SitEntry]>) -> Result<()>) -> Result<()> {
        let layout = self.layout();
        let (mut seen, end) = (0, layout.used_sit_blocks());
        let both_copies = 2 * u64::from(layout.sit_blocks());
        let held = (u64::from(end) > BATCH).then(|| self.held(layout.sit, both_copies)).flatten();
        let is_held = |block: &u32| held.as_ref().is_none_or(|held| held.contains(self.sit_lba(*block)));
        for first in (0..end).step_by(BATCH as usize) {
            let blocks = first..end.min(first + BATCH as u32);
            let mut pages =
                self.read_scattered(blocks.clone().filter(is_held).map(|block| self.sit_lba(block)))?.into_iter();
            for block in blocks {
                let here = seen..layout.main_segments.min(seen + ENTRIES_PER_BLOCK as u32);
                seen = here.end;
                match is_held(&block).then(|| pages.next()).flatten() {
                    Some(page) => page.with(|bytes| {
                        let entries = &SitBlock::view(bytes).entries()[..here.len()];
                        see(here, Some(entries))
                    })?,
                    None => see(here, None)?,
                }
            }
        }
        assert_eq!(seen, layout.main_segments, "the SIT covers the main area");
        Ok(())
    }

    /// The blocks of a table that the device keeps something for; `None` if it does not tell.
    fn held(&self, first: Lba, count: u64) -> Option<Held> {
        let (mut from, end) = (first.get(), first.get() + count);
        let mut runs = Vec::new();
        while from < end
            && let Some(run) = self.device().held_from(from).ok()?.filter(|run| run.start < end)
        {
            from = run.end;
            runs.push(run);
        }
        Some(Held { runs })
    }

    /// The summaries of a segment: of a log's current segment from the checkpoint (or the nodes themselves), else from
    /// the SSA.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a volume without SSA; read errors.
    ///
    /// # Panics
    /// If the main area has no such segment.
    pub fn summary(&self, segment: SegNo) -> Result<Box<SummaryBlock>> {
        match self.log_at(segment) {
            Some(log) => self.log_summary(log),
            None => self.stored_summary(segment),
        }
    }

    /// The summaries of a log's current segment.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the volume has no such log ([`Image::logs`]); read errors, also those of the pack.
    pub fn log_summary(&self, log: Log) -> Result<Box<SummaryBlock>> {
        if !self.logs().contains(&log) {
            return Err(Error::Unsupported(format!("a volume with the feature ro has no {log} log")));
        }
        match self.pack_summary(log) {
            Some(summary) => Ok(Box::new(summary.clone())),
            None if log.is_node() => self.rebuild_node_summary(self.log_position(log).segment),
            None => {
                Err(self.whole(PackPart::Summary(log)).err().unwrap_or_else(|| Error::corrupt("a summary is missing")))
            }
        }
    }

    /// The SSA block of a segment, which is stale for current segments.
    ///
    /// # Errors
    /// As [`Image::summary`].
    pub fn stored_summary(&self, segment: SegNo) -> Result<Box<SummaryBlock>> {
        let Some(lba) = self.layout().ssa_lba(segment) else {
            return Err(Error::Unsupported("the volume has no segment summaries (feature ro)".into()));
        };
        let page = self.read_block(lba)?;
        Ok(page.with(|bytes| Box::new(SummaryBlock::view(bytes).clone())))
    }

    /// Summaries of a node segment, from the footers of all its blocks. Slots that are not valid are meaningless.
    fn rebuild_node_summary(&self, segment: SegNo) -> Result<Box<SummaryBlock>> {
        let mut summary = Box::new(SummaryBlock::new(SummaryKind::Node));
        // Behind the head nothing is valid, in a log that fills no holes: half a segment in the mean is not read.
        let valid = |entry: SitEntry| (0..BLOCKS_PER_SEG).rev().find(|offset| entry.is_valid(*offset as u16));
        let end = self.sit(segment).map_or(BLOCKS_PER_SEG, |entry| valid(entry).map_or(0, |last| last + 1));
        let pages = match end {
            0 => Vec::new(),
            end => self.read_run(self.layout().lba_of(segment, 0), u64::from(end))?,
        };
        for (offset, page) in (0..).zip(pages) {
            let nid = page.with(|bytes| NodeBlock::view(bytes).footer.nid());
            summary.set(offset, Summary::of_node(nid));
        }
        Ok(summary)
    }

    /// Address of the selected copy of a NAT block.
    pub fn nat_lba(&self, block: u32) -> Lba {
        self.layout().nat_block_lba(block, self.nat_version(block))
    }

    /// Address of the selected copy of a SIT block.
    pub fn sit_lba(&self, block: u32) -> Lba {
        self.layout().sit_block_lba(block, self.sit_version(block))
    }

    /// Reads one block.
    ///
    /// # Errors
    /// Read errors.
    pub fn read_block(&self, lba: Lba) -> Result<PageBuf> {
        Ok(self.device().read_one(lba.get())?)
    }

    /// Reads `count` consecutive blocks.
    ///
    /// # Errors
    /// Read errors.
    pub fn read_run(&self, lba: Lba, count: u64) -> Result<Vec<PageBuf>> {
        Ok(self.device().read(lba.get(), count)?)
    }

    /// Reads consecutive blocks into these pages.
    ///
    /// # Errors
    /// Read errors.
    pub(crate) fn read_run_into(&self, lba: Lba, pages: &mut [PageBuf]) -> Result<()> {
        Ok(self.device().read_into(lba.get(), pages)?)
    }

    /// Reads blocks at these addresses, consecutive ones in one request of at most [`BATCH`] blocks.
    fn read_scattered(&self, addresses: impl Iterator<Item = Lba>) -> Result<Vec<PageBuf>> {
        let mut pages = Vec::new();
        let mut run: Option<(Lba, u64)> = None;
        for lba in addresses {
            match &mut run {
                Some((first, count)) if *first + *count == lba && *count < BATCH => *count += 1,
                _ => {
                    if let Some((first, count)) = run.replace((lba, 1)) {
                        pages.extend(self.read_run(first, count)?);
                    }
                }
            }
        }
        if let Some((first, count)) = run {
            pages.extend(self.read_run(first, count)?);
        }
        Ok(pages)
    }
}
