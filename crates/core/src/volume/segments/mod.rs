//! Placement in segments, as F2FS has it: the main area is divided into segments, and six logs fill them.
//!
//! The table says which blocks are valid, the SIT is its form on disk, logs and streams take blocks, and holes of used
//! segments are filled where the mount wants that. Segments that have become empty are free again when a checkpoint has
//! committed. Segments that have not are emptied by collectors (`reclaim`).

pub(crate) mod adopt;
mod discarding;
pub(crate) mod freeze;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod medium;
pub(crate) mod migrating;
pub(crate) mod pinned;
pub(crate) mod refusing;
pub(crate) mod reuse;
pub(crate) mod sit;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod zoned;

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::volume::clock::Clock;
use crate::volume::discard::Discards;
use crate::volume::io::BlockIo;
use crate::volume::placement::places::Home;
use logs::Logs;
use medium::Medium;
use reuse::Reuse;
use sit::Sit;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Layout, Lba, Log, SecNo, SegNo, Slot};
use streams::Streams;
use table::SegTable;

/// The main area of a volume, and the logs that fill it.
pub(crate) struct Segments {
    pub(crate) table: SegTable,
    pub(crate) logs: Logs,
    pub(crate) streams: Streams,
    /// How logs fill the holes of used segments; `None` where they do not.
    pub(crate) reuse: Option<Reuse>,
    pub(crate) sit: Sit,
    /// The device below.
    pub(crate) medium: Medium,
    /// What waits to be discarded; `None` where nothing is.
    pub(crate) discards: Option<Discards>,
    pub(crate) io: Arc<BlockIo>,
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
}

impl Segments {
    /// Address of a block of a segment.
    pub(crate) fn lba_of(&self, seg: SegNo, off: u32) -> Lba {
        self.layout.lba_of(seg, off as u16)
    }

    /// The block is no longer used.
    ///
    /// # Errors
    /// Damage: it was not in use.
    pub(crate) fn give_up(&self, lba: Lba) -> Result<()> {
        let (seg, off) =
            self.table.locate(lba).ok_or_else(|| Error::corrupt(format!("block {lba} lies outside the main area")))?;
        if self.io.planted.is(Canary::EarlyReuse) && self.reuse.is_some() {
            self.let_go_early(seg, off);
        }
        let _guard = self.guard_gc_area(seg);
        if self.table.invalidate(seg, off, self.clock.elapsed()) {
            self.note_dead();
            return Ok(());
        }
        Err(Error::corrupt(format!("block {lba} was in use but the SIT says that it is free")))
    }

    /// A fault, for tests.
    fn let_go_early(&self, seg: SegNo, off: u32) {
        let mut map = [0; 8];
        map[off as usize / 64] = 1 << (63 - off % 64);
        self.table.unpin(&vec![(seg, map)]);
    }

    /// Whether a block is valid; `None` for one outside the main area.
    pub(crate) fn is_valid(&self, lba: Lba) -> Option<bool> {
        self.table.locate(lba).map(|(seg, off)| self.table.is_valid(seg, off))
    }

    /// Whose a valid block is.
    ///
    /// # Errors
    /// Its summary cannot be read; it lies outside the main area.
    pub(crate) fn owner_of(&self, lba: Lba) -> Result<Summary> {
        let (seg, off) =
            self.table.locate(lba).ok_or_else(|| Error::corrupt(format!("block {lba} lies outside the main area")))?;
        Ok(self.summary_of(seg)?.get(off as u16))
    }

    /// The segment of a block, and its generation now.
    pub(crate) fn home(&self, lba: Lba) -> Option<Home> {
        let (seg, _) = self.table.locate(lba)?;
        Some(Home::Segment { seg, generation: self.table.state(seg).generation() })
    }

    /// The log of a page that is written again, if collectors keep data apart by its age. A page that is overwritten
    /// before it was ever collected will probably be overwritten as soon again. Its segment will be empty before it is
    /// worth collecting.
    pub(crate) fn log_by_age(&self, log: Log, old: Slot) -> Log {
        match old {
            Slot::At(lba) if log == Log::WarmData && self.streams.by_age() => match self.table.locate(lba) {
                Some((seg, _)) if self.table.passes(seg) == 0 => Log::HotData,
                _ => log,
            },
            _ => log,
        }
    }

    /// The segment of a valid block that may be overwritten. Its slot's node is locked, so that no collector begins to
    /// move it.
    pub(crate) fn in_place(&self, lba: Lba) -> Option<SegNo> {
        let (seg, off) = self.table.locate(lba)?;
        (self.table.is_valid(seg, off) && self.may_overwrite(seg) && !self.io.failed.is_moving()).then_some(seg)
    }

    /// Every dirty node has been written elsewhere: segments of nodes that collectors cleaned are empty.
    pub(crate) fn nodes_written(&self) {
        let awaiting = &self.table.awaiting;
        for seg in awaiting.iter() {
            awaiting.clear(seg);
        }
    }

    /// Comes before the first write of a mount.
    ///
    /// # Errors
    /// What the device says; a device that contradicts the volume.
    pub(crate) fn begin_writing(&self) -> Result<()> {
        self.begin_records()?;
        self.begin_zones()
    }

    /// Takes the first free sections from number `from` on that lie side by side, at most `most`, while `can_spare`
    /// one more.
    pub(crate) fn take_free_sections(&self, from: u64, most: u64, can_spare: impl Fn() -> bool) -> Option<Range<u64>> {
        let table = &self.table;
        let first = can_spare().then(|| table.take_free_section(SecNo::new(u32::try_from(from).ok()?)))??;
        let first = u64::from(first.get());
        let is_taken = |section: &u64| {
            let section = u32::try_from(*section).ok().filter(|number| *number < self.layout.sections);
            can_spare() && section.is_some_and(|number| table.take_section_if_free(SecNo::new(number)))
        };
        let more = (first + 1..first.saturating_add(most)).take_while(is_taken).count() as u64;
        Some(first..first + 1 + more)
    }

    /// Gives sections back that were taken and not used.
    pub(crate) fn put_free_sections_back(&self, sections: Range<u64>) {
        sections
            .filter_map(|section| u32::try_from(section).ok())
            .for_each(|section| self.table.put_free_section_back(SecNo::new(section)));
    }

    /// Keeps the segment of a block as it is until the next checkpoint, if no log has it: nodes lie there that recovery
    /// may need.
    pub(crate) fn pin(&self, lba: Lba, log: Log) {
        if let Some((seg, _)) = self.table.locate(lba) {
            self.table.pin(seg, log);
        }
    }

    /// Whether enough segments wait for a checkpoint that it should not wait for its timer.
    pub(crate) fn checkpoint_is_pressing(&self) -> bool {
        let limit = (self.table.len() as usize / 20).clamp(1, 4096);
        self.table.prefree.count() >= limit
    }

    /// Gives segments back to the logs that were empty at the freeze of the checkpoint that has committed.
    fn release(&self, prefree: &[SegNo]) {
        for &seg in prefree.iter().filter(|seg| self.table.release(**seg)) {
            self.queue_free(seg);
        }
    }
}
