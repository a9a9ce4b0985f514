//! Logs that fill the holes of used segments: F2FS' slack space recycling (SSR), with `mode=adaptive`.
//!
//! While free sections are more than a bound, logs take free ones, as with `mode=lfs`. At and below it a log that needs
//! a segment takes a used one of its own kind, or else of a neighbouring kind: of those it looks at, the one with the
//! fewest blocks that it must not write. It reads that segment's summary from the SSA and goes from hole to hole. The
//! bound lies above that of collection, so it comes first.
//!
//! Kept true:
//! - A log writes only to blocks that are not pinned (`pinned`).
//! - Nodes and data never meet in one segment.
//! - A segment is a log's or a collector's, not both, which the segment's word decides.
//! - Nothing is filled before recovery has ended and a checkpoint has committed. So the chain, and the blocks that it
//!   names, stay as they are until then.

use crate::error::{Error, Result};
use crate::volume::segments::Segments;
use crate::volume::segments::logs::{self, Head};
use crate::volume::segments::table::BLOCKS;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{AllocType, Log, SegNo};
use steadyfs_rt::{Cost, charge_n};

/// Most candidates weighed per search: F2FS' own limit.
const MAX_SEARCH: usize = 4096;
/// Searches for one segment: between search and opening a collector may take what was found, or another log fill it.
const ATTEMPTS: usize = 3;

/// What a checkpoint would write now, in blocks.
pub(crate) struct Upkeep {
    /// Dirty nodes.
    pub(crate) nodes: u64,
    /// Dirty pages of directories.
    pub(crate) dents: u64,
}

/// How a volume's logs fill holes.
pub(crate) struct Reuse {
    /// Free sections at and below which they do, beside what a checkpoint would write now.
    sections: u64,
    /// They do so at once, and leave their segments at every checkpoint.
    eager: bool,
    upkeep: Box<dyn Fn() -> Upkeep + Send + Sync>,
    /// The mount has recovered what there was, and committed it.
    begun: AtomicBool,
    /// Per kind of segment: where the next search starts.
    cursors: [AtomicUsize; Log::COUNT],
}

impl Reuse {
    /// Logs that fill holes once no more than twice the reserve is free (F2FS: `min_ssr_sections`, which is the
    /// reserve, above the reserve).
    pub(crate) fn new(
        reserved_sections: u64,
        eager: bool,
        upkeep: impl Fn() -> Upkeep + Send + Sync + 'static,
    ) -> Self {
        Reuse {
            sections: 2 * reserved_sections,
            eager,
            upkeep: Box::new(upkeep),
            begun: AtomicBool::new(false),
            cursors: Default::default(),
        }
    }
}

/// The kinds of segments that a log may fill, in the order in which it tries them: its own, then those of the same
/// half, from the far end for all but the hottest.
fn kinds_for(log: Log) -> impl Iterator<Item = Log> {
    let half = if log.is_node() { Log::NODE } else { Log::DATA };
    let others = if log == half[0] { half } else { [half[2], half[1], half[0]] };
    std::iter::once(log).chain(others.into_iter().filter(move |other| *other != log))
}

impl Segments {
    /// Lets logs fill holes from here on, where the mount wants that.
    pub(crate) fn begin_reuse(&self) {
        if let Some(reuse) = &self.reuse {
            reuse.begun.store(true, SeqCst);
        }
    }

    fn reuse(&self) -> Option<&Reuse> {
        self.reuse.as_ref().filter(|reuse| reuse.begun.load(SeqCst))
    }

    /// Whether a log that needs a segment should fill a used one now.
    pub(crate) fn reuse_is_due(&self) -> bool {
        self.reuse().is_some_and(|reuse| reuse.eager || self.table.free_sections() <= self.reuse_bound(reuse))
    }

    fn reuse_bound(&self, reuse: &Reuse) -> u64 {
        let sections = |blocks: u64| blocks.div_ceil(self.layout.blocks_per_sec());
        let Upkeep { nodes, dents } = (reuse.upkeep)();
        sections(nodes) + 2 * sections(dents) + reuse.sections
    }

    /// With `ssr=eager`: has a log that fills its segment in order go to holes, if there are any.
    pub(crate) fn reuse_eagerly(&self, log: Log, head: &mut Head) {
        if head.alloc == AllocType::Lfs {
            self.change_holes(log, head);
        }
    }

    /// With `ssr=eager`: has a log go to the holes of another segment, if there are any.
    pub(crate) fn change_holes(&self, log: Log, head: &mut Head) {
        if self.reuse().is_some_and(|reuse| reuse.eager)
            && let Some(fresh) = self.reuse_segment(log)
        {
            self.move_log(head, fresh);
        }
    }

    /// Opens a used segment for a log; `None` if there is none with a hole.
    pub(crate) fn reuse_segment(&self, log: Log) -> Option<Head> {
        let reuse = self.reuse()?;
        let seg = kinds_for(log).find_map(|kind| self.open_used(reuse, log, kind))?;
        match self.summary_to_fill(seg, log) {
            Ok(summary) => {
                let (next, _) = self
                    .table
                    .hole(seg, 0)
                    .expect("`reopen` saw a hole, and nobody else fills a segment that is open for this log");
                Some(Head { seg, next, alloc: AllocType::Ssr, summary: Box::new(summary), serial: 0, strange: false })
            }
            Err(error) => {
                tracing::warn!(%error, %seg, "the holes of a segment cannot be filled");
                self.table.close(seg);
                None
            }
        }
    }

    fn summary_to_fill(&self, seg: SegNo, log: Log) -> Result<SummaryBlock> {
        let mut summary = self.stored_summary(seg)?;
        if summary.kind()? != logs::kind_of(log) {
            return Err(Error::corrupt(format!("segment {seg}: its summary and the SIT disagree on what it holds")));
        }
        summary.journal = Default::default();
        Ok(summary)
    }

    fn open_used(&self, reuse: &Reuse, log: Log, kind: Log) -> Option<SegNo> {
        for _ in 0..ATTEMPTS {
            let found = self.search_used(reuse, kind)?;
            if self.table.reopen(found, kind.number(), log.number()) {
                return Some(found);
            }
        }
        None
    }

    /// The segment of a kind with the fewest blocks that must not be written; one search at a time, as in the choice of
    /// a victim.
    fn search_used(&self, reuse: &Reuse, kind: Log) -> Option<SegNo> {
        let segs = &self.table;
        let _search = segs.locks.search();
        let cursor = &reuse.cursors[kind.index()];
        let start = cursor.load(SeqCst);
        let (mut seen, mut last, mut best) = (0, start, None);
        let order = segs.dirty.iter_from(start).chain(segs.dirty.iter_from(0).take_while(|&i| i < start));
        for seg in order.map(|i| SegNo::new(i as u32)).filter(|&seg| segs.kind(seg) == kind.number()) {
            (seen, last) = (seen + 1, seg.index());
            let pinned = segs.pinned_count(seg);
            if pinned < BLOCKS && best.is_none_or(|(least, _)| pinned < least) && self.is_nobodys(seg) {
                best = Some((pinned, seg));
            }
            if seen >= MAX_SEARCH {
                break;
            }
        }
        charge_n(Cost::VictimScan, seen as u64);
        cursor.store(if seen >= MAX_SEARCH { last + 1 } else { start }, SeqCst);
        best.map(|(_, seg)| seg)
    }

    /// Whether no log and no collector is in the segment's section.
    fn is_nobodys(&self, seg: SegNo) -> bool {
        let layout = &self.layout;
        layout.segs_of(layout.sec_of(seg)).all(|other| {
            let state = self.table.state(other);
            !state.is_open() && !state.is_owned()
        })
    }

    /// Whether a block may be written where it is: no collector is moving it, and nothing that failed is kept for the
    /// device.
    pub(crate) fn may_overwrite(&self, seg: SegNo) -> bool {
        !self.table.state(seg).is_owned() && self.io.failed.count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tries_its_own_kind_first_and_never_the_other_half() {
        let order = |log| kinds_for(log).collect::<Vec<_>>();
        assert_eq!(order(Log::HotData), [Log::HotData, Log::WarmData, Log::ColdData]);
        assert_eq!(order(Log::WarmData), [Log::WarmData, Log::ColdData, Log::HotData]);
        assert_eq!(order(Log::ColdData), [Log::ColdData, Log::WarmData, Log::HotData]);
        assert_eq!(order(Log::HotNode), [Log::HotNode, Log::WarmNode, Log::ColdNode]);
        assert_eq!(order(Log::WarmNode), [Log::WarmNode, Log::ColdNode, Log::HotNode]);
    }
}
