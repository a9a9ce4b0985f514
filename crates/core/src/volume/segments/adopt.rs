//! Blocks of data that recovery finds behind the last checkpoint and leaves where they are: they become valid in the
//! table, and the summaries of their segments name their owners.
//!
//! Kept true: entries of blocks that are valid in the last checkpoint do not change in any summary, so both checkpoints
//! can be read at every moment (format section 6).

use crate::error::{Error, Result};
use crate::volume::segments::Segments;
use std::collections::BTreeMap;
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{AllocType, Lba, Log, SegNo};

/// The summaries of segments with adopted blocks, other than those in which logs stand.
#[derive(Default)]
pub(crate) struct Adopted {
    summaries: BTreeMap<SegNo, Box<SummaryBlock>>,
}

impl Segments {
    /// The slot that a block belongs to; `None` if the block is not valid.
    ///
    /// # Errors
    /// Damage: the block is outside the main area.
    pub(crate) fn owner(&self, adopted: &mut Adopted, lba: Lba) -> Result<Option<Summary>> {
        let (seg, off) = self.locate_fsynced(lba)?;
        if !self.table.is_valid(seg, off) {
            return Ok(None);
        }
        self.with_summary(adopted, seg, false, |summary| summary.get(off as u16)).map(Some)
    }

    /// Makes a block valid that is not, and its owner the given one.
    ///
    /// # Errors
    /// Damage: the block is outside the main area, or in a segment that holds nodes.
    pub(crate) fn adopt(&self, adopted: &mut Adopted, lba: Lba, owner: Summary) -> Result<()> {
        let (seg, off) = self.locate_fsynced(lba)?;
        let fresh = self.table.is_free(seg);
        if !self.table.adopt(seg, off, self.clock.elapsed()) {
            return Err(Error::corrupt(format!("a fsynced node names block {lba}, which is in a segment of nodes")));
        }
        self.with_summary(adopted, seg, fresh, |summary| summary.set(off as u16, owner))
    }

    fn locate_fsynced(&self, lba: Lba) -> Result<(SegNo, u32)> {
        let outside = || Error::corrupt(format!("a fsynced node names block {lba}, outside the main area"));
        self.table.locate(lba).ok_or_else(outside)
    }

    /// Lends the summary of a segment of data to `f`. A segment that was free until now has none worth reading.
    fn with_summary<R>(
        &self,
        adopted: &mut Adopted,
        seg: SegNo,
        fresh: bool,
        f: impl FnOnce(&mut SummaryBlock) -> R,
    ) -> Result<R> {
        for log in Log::ALL {
            let mut head = self.logs.head(log);
            if head.seg == seg {
                return Ok(f(&mut head.summary));
            }
        }
        if let Some(summary) = adopted.summaries.get_mut(&seg) {
            return Ok(f(summary));
        }
        let mut summary = if fresh { SummaryBlock::new(SummaryKind::Data) } else { self.summary_of(seg)? };
        if summary.kind()? != SummaryKind::Data {
            return Err(Error::corrupt(format!("the summary of segment {seg} is one of nodes")));
        }
        let out = f(&mut summary);
        adopted.summaries.insert(seg, Box::new(summary));
        Ok(out)
    }

    /// Starts writing the summaries; the next checkpoint waits for them.
    pub(crate) fn write_adopted(&self, adopted: &Adopted) {
        for (&seg, summary) in &adopted.summaries {
            assert!(!self.table.is_free(seg), "segment {seg} was given up");
            if !self.keep_moved_summary(seg, summary) {
                self.write_summary(seg, summary, || ());
            }
        }
    }

    /// Moves every log that a chain, or data that it names, can lie behind to a segment of its own.
    pub(crate) fn leave_chain(&self) -> Result<()> {
        if self.medium.migrating().is_some() {
            return self.leave_chain_sections();
        }
        [Log::WarmNode, Log::HotData, Log::WarmData, Log::ColdData].into_iter().try_for_each(|log| {
            match self.medium.zones() {
                None => self.leave(log),
                Some(_) => self.leave_section(log, &mut self.logs.head(log)),
            }
        })
    }

    /// Moves logs that were left filling holes to segments of their own; before logs of this mount fill any.
    pub(crate) fn leave_holes(&self) -> Result<()> {
        if self.medium.migrating().is_some() {
            return self.leave_chain_sections();
        }
        self.leave_strange_zones()?;
        let fills = |log: &Log| self.logs.head(*log).alloc == AllocType::Ssr;
        Log::ALL.into_iter().filter(fills).try_for_each(|log| self.leave(log))
    }

    fn leave(&self, log: Log) -> Result<()> {
        let mut head = self.logs.head(log);
        if self.advance(log, &mut head) { Ok(()) } else { Err(Error::NoSpace) }
    }
}
