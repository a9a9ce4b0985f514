//! What a kind of volume says of its blocks, apart from the tree that uses them: the seam of the checker.
//!
//! An F2FS volume has segments, with a table of valid blocks and summaries of their owners ([`super::segmented`]). An
//! IPLFS volume has logs with heads, and a discard log of what is dead ([`super::logs`]).

use super::issue::{Issue, Severity};
use super::logs::LogBlocks;
use super::options::CheckOptions;
use super::segmented::SegmentBlocks;
use super::sink::IssueSink;
use super::summaries;
use crate::raw::Image;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::{Ino, Lba, Nid};

/// The blocks of a volume.
pub(super) enum Blocks {
    /// Segments (F2FS).
    Segments(Box<SegmentBlocks>),
    /// Infinite logs (IPLFS).
    Logs(LogBlocks),
}

/// Summaries as one thread looks them up, where a volume has some.
pub(super) type SummaryCursor<'a> = Option<summaries::Cursor<'a>>;

/// A block that something uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) ino: Ino,
    pub(super) lba: Lba,
    /// The node that names the block, and where; or the node itself.
    pub(super) owner: Summary,
    pub(super) kind: SummaryKind,
}

impl Used {
    /// What people read.
    pub(super) fn holds(&self) -> &'static str {
        if self.kind == SummaryKind::Node { "nodes" } else { "data" }
    }
}

impl Blocks {
    /// Reads what the volume says of its blocks, and makes the checks that need nothing else. `None` if it cannot be
    /// read.
    pub(super) fn load(image: &Arc<Image>, sink: &Arc<IssueSink>, options: &CheckOptions) -> Option<Self> {
        match image.log_space() {
            None => SegmentBlocks::load(image, sink, options).map(|segments| Self::Segments(Box::new(segments))),
            Some(_) => Some(Self::Logs(LogBlocks::load(image, sink))),
        }
    }

    /// Whether each orphan block says which of them it is.
    pub(super) fn has_numbered_orphan_blocks(&self) -> bool {
        matches!(self, Self::Segments(_))
    }

    /// For one thread.
    pub(super) fn cursor(&self) -> SummaryCursor<'_> {
        match self {
            Self::Segments(segments) => Some(segments.cursor()),
            Self::Logs(_) => None,
        }
    }

    /// Notes that a block is in use.
    pub(super) fn reach(&self, lba: Lba) {
        match self {
            Self::Segments(segments) => segments.reach(lba),
            Self::Logs(logs) => {
                logs.reach(lba);
            }
        }
    }

    /// Checks a block that is in use and lies where it may: that nothing else uses it, and what is said of it. Whether
    /// something else does.
    pub(super) fn in_use(&self, sink: &IssueSink, used: &Used, cursor: &mut SummaryCursor<'_>) -> bool {
        match self {
            Self::Segments(segments) => segments.in_use(sink, used, cursor),
            Self::Logs(logs) => logs.in_use(sink, used),
        }
    }

    /// Checks that a node was written whole, and for this place, where nodes say so.
    pub(super) fn check_node(&self, sink: &IssueSink, ino: Ino, nid: Nid, lba: Lba, page: &PageBuf) {
        match self {
            Self::Segments(_) => {}
            Self::Logs(logs) => logs.check_node(sink, ino, nid, lba, page),
        }
    }

    /// Of what the walk has not reached: the checks of what is said to be in use; and of what the device holds, where
    /// somebody wants to know.
    pub(super) fn check_rest(&self, sink: &IssueSink, options: &CheckOptions) {
        match self {
            Self::Segments(segments) => segments.check_rest(sink),
            Self::Logs(logs) => {
                // Where blocks in use are not known they would be taken for leaks.
                if options.leaks && sink.worst() < Some(Severity::Error) {
                    logs.check_held(sink);
                }
                logs.check_holes(sink);
            }
        }
    }
}

/// The fault of the address of a node, if no node can lie there.
pub(super) fn misplaced_node(image: &Image, ino: Ino, nid: Nid, lba: Lba) -> Option<Issue> {
    match image.log_space() {
        None => (!image.layout().in_main(lba)).then_some(Issue::NatOutside { nid, ino, lba }),
        Some(space) => super::logs::misplaced(space, SummaryKind::Node, ino, nid, lba),
    }
}

/// The same of the address in a slot.
pub(super) fn misplaced_data(image: &Image, ino: Ino, nid: Nid, slot: u16, lba: Lba) -> Option<Issue> {
    match image.log_space() {
        None => (!image.layout().in_main(lba)).then_some(Issue::SlotOutside { ino, nid, slot, lba }),
        Some(space) => super::logs::misplaced(space, SummaryKind::Data, ino, nid, lba),
    }
}
