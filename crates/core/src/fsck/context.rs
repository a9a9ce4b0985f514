//! What all phases of the walk share, and the checks that every block in use goes through.

use super::issue::Issue;
use super::nids::Nids;
use super::segments::{CheckedSegments, Reached};
use super::sink::IssueSink;
use super::summaries::{Cursor, Summaries};
use super::{CheckOptions, Counts, quota};
use crate::raw::Image;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_format::{Features, Ino, Layout, Lba, Log, Nid, SegNo};

/// The volume as the phases see it.
pub(super) struct Context {
    pub(super) image: Arc<Image>,
    pub(super) options: CheckOptions,
    pub(super) sink: Arc<IssueSink>,
    pub(super) features: Features,
    /// Initial value of inode checksums.
    pub(super) seed: u32,
    pub(super) nids: Nids,
    pub(super) segments: CheckedSegments,
    pub(super) summaries: Summaries,
    /// The quota files whose contents are compared with what is in use.
    pub(super) quotas: Vec<(QuotaKind, Ino)>,
    /// Segments already reported as holding the wrong kind of blocks, and those whose summary says the wrong kind.
    mixed: SegmentSet,
    kinds: SegmentSet,
    /// Slots that count as blocks, over all files.
    pub(super) data_blocks: AtomicU64,
}

impl Context {
    pub(super) fn new(
        image: &Arc<Image>,
        options: &CheckOptions,
        sink: &Arc<IssueSink>,
        nids: Nids,
        segments: CheckedSegments,
    ) -> Self {
        let superblock = image.superblock();
        let count = image.layout().main_segments;
        Context {
            image: Arc::clone(image),
            options: options.clone(),
            sink: Arc::clone(sink),
            features: superblock.features(),
            seed: superblock.inode_checksum_seed(),
            nids,
            segments,
            summaries: Summaries::new(image, sink),
            quotas: quota::compared(image),
            mixed: SegmentSet::new(count),
            kinds: SegmentSet::new(count),
            data_blocks: AtomicU64::new(0),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        self.image.layout()
    }

    /// Reports an issue.
    pub(super) fn add(&self, issue: Issue) {
        self.sink.add(issue);
    }

    /// Checks a block that is in use by a node (or is that node): in the main area, used once, valid, in a segment of
    /// its kind, named rightly by its summary. `None` outside the main area, which the caller reports.
    pub(super) fn block_in_use(
        &self,
        ino: Ino,
        lba: Lba,
        owner: Summary,
        kind: SummaryKind,
        cursor: &mut Cursor<'_>,
    ) -> Option<Reached> {
        let reached = self.segments.reach(lba)?;
        let nid = owner.nid;
        if reached.again {
            self.add(Issue::BlockShared { ino, nid, lba });
            return Some(reached); // the summary can name only one of the two
        }
        if !reached.valid {
            self.add(Issue::BlockNotValid { ino, nid, lba });
        }
        let is_node = kind == SummaryKind::Node;
        let holds = if is_node { "nodes" } else { "data" };
        if Log::from_number(reached.kind).is_some_and(|log| log.is_node() != is_node)
            && self.mixed.insert(reached.segment)
        {
            self.add(Issue::SegmentMixed { segno: reached.segment, found: reached.kind, holds });
        }
        if let Some((summary, found)) = cursor.entry(reached.segment, reached.offset) {
            if found != kind as u8 && self.kinds.insert(reached.segment) {
                self.kind_issue(reached.segment, found, holds);
            }
            if is_node && summary.nid != nid {
                self.add(Issue::NodeSummary { nid, lba, found: summary.nid.get() });
            } else if !is_node && summary != owner {
                self.data_issue(ino, lba, owner, summary);
            }
        }
        Some(reached)
    }

    fn kind_issue(&self, segno: SegNo, found: u8, holds: &'static str) {
        match self.image.log_at(segno) {
            Some(log) => self.add(Issue::LogSummaryKind { log, segno, found }),
            None => self.add(Issue::SummaryKind { segno, found, holds }),
        }
    }

    #[cold]
    fn data_issue(&self, ino: Ino, lba: Lba, owner: Summary, found: Summary) {
        let Summary { nid, version, ofs_in_node: slot } = owner;
        let (found_nid, found_slot, found_version) = (found.nid.get(), found.ofs_in_node, found.version);
        self.add(Issue::DataSummary { ino, nid, lba, slot, version, found_nid, found_slot, found_version });
    }

    /// What the walk counted, for the report.
    pub(super) fn count_blocks(&self, counts: &mut Counts) {
        counts.nodes = self.nids.used();
        counts.blocks = counts.nodes + self.data_blocks.load(Relaxed);
    }

    /// The version of a node id, which the summaries of its data carry.
    pub(super) fn version(&self, nid: Nid) -> u8 {
        self.nids.get(nid).map_or(0, |entry| entry.version)
    }
}

/// A set of segments that threads share.
struct SegmentSet(Vec<AtomicU64>);

impl SegmentSet {
    fn new(segments: u32) -> Self {
        SegmentSet((0..segments.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds a segment; false if it was there.
    fn insert(&self, segment: SegNo) -> bool {
        let mask = 1 << (segment.get() % 64);
        self.0[segment.index() / 64].fetch_or(mask, Relaxed) & mask == 0
    }
}
