//! Blocks of an F2FS volume: the SIT knows those in use, summaries know whose they are.
//!
//! Memory: that of [`CheckedSegments`] and of [`Summaries`], and 2 bits per segment.

use super::blocks::{SummaryCursor, Used};
use super::issue::Issue;
use super::options::CheckOptions;
use super::segments::CheckedSegments;
use super::sink::IssueSink;
use super::summaries::{self, Summaries};
use super::tables;
use crate::error::Result;
use crate::raw::Image;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_device::{Device, Zone, ZoneState};
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::summary::{Summary, SummaryKind};
use steadyfs_format::{BLOCKS_PER_SEG, Lba, Log, SegNo};

/// Segments and summaries.
pub(super) struct SegmentBlocks {
    image: Arc<Image>,
    segments: CheckedSegments,
    summaries: Summaries,
    /// Segments already reported as holding the wrong kind of blocks, and those whose summary says the wrong kind.
    mixed: SegmentSet,
    kinds: SegmentSet,
}

impl SegmentBlocks {
    /// Loads the SIT, and makes the checks that need nothing else.
    pub(super) fn load(image: &Arc<Image>, sink: &Arc<IssueSink>, options: &CheckOptions) -> Option<Self> {
        let segments = tables::load_sit(image, sink, options)?;
        let count = image.layout().main_segments;
        Some(SegmentBlocks {
            image: Arc::clone(image),
            segments,
            summaries: Summaries::new(image, sink),
            mixed: SegmentSet::new(count),
            kinds: SegmentSet::new(count),
        })
    }

    pub(super) fn cursor(&self) -> summaries::Cursor<'_> {
        self.summaries.cursor()
    }

    /// Notes that a block is in use.
    pub(super) fn reach(&self, lba: Lba) {
        self.segments.reach(lba);
    }

    /// Checks a block that is in use: used once, valid, in a segment of its kind, named rightly by its summary. Whether
    /// something else uses it, too.
    pub(super) fn in_use(&self, sink: &IssueSink, used: &Used, cursor: &mut SummaryCursor<'_>) -> bool {
        let Used { ino, lba, owner, kind } = *used;
        let Some(reached) = self.segments.reach(lba) else { return false };
        let nid = owner.nid;
        if reached.again {
            sink.add(Issue::BlockShared { ino, nid, lba });
            return true; // the summary can name only one of the two
        }
        if !reached.valid {
            sink.add(Issue::BlockNotValid { ino, nid, lba });
        }
        let (is_node, holds) = (kind == SummaryKind::Node, used.holds());
        if Log::from_number(reached.kind).is_some_and(|log| log.is_node() != is_node)
            && self.mixed.insert(reached.segment)
        {
            sink.add(Issue::SegmentMixed { segno: reached.segment, found: reached.kind, holds });
        }
        let entry = cursor.as_mut().and_then(|cursor| cursor.entry(reached.segment, reached.offset));
        if let Some((summary, found)) = entry {
            if found != kind as u8 && self.kinds.insert(reached.segment) {
                self.kind_issue(sink, reached.segment, found, holds);
            }
            if is_node && summary.nid != nid {
                sink.add(Issue::NodeSummary { nid, lba, found: summary.nid.get() });
            } else if !is_node && summary != owner {
                data_issue(sink, used, summary);
            }
        }
        false
    }

    fn kind_issue(&self, sink: &IssueSink, segno: SegNo, found: u8, holds: &'static str) {
        match self.image.log_at(segno) {
            Some(log) => sink.add(Issue::LogSummaryKind { log, segno, found }),
            None => sink.add(Issue::SummaryKind { segno, found, holds }),
        }
    }

    /// Blocks that the SIT calls valid but nobody uses, and the count of free segments.
    pub(super) fn check_rest(&self, sink: &IssueSink) {
        for segno in self.image.layout().segments() {
            if let Some((lba, blocks)) = self.segments.leaked(segno) {
                sink.add(Issue::BlocksLeaked { segno, lba, blocks });
            }
        }
        self.check_free(sink);
        if let Err(error) = self.check_zones(sink) {
            sink.add(Issue::ZonesUnknown { reason: error.to_string() });
        }
    }

    /// Blocks that the SIT calls valid where a zoned device has nothing.
    fn check_zones(&self, sink: &IssueSink) -> Result<()> {
        let (device, layout) = (self.image.device(), self.image.layout());
        let Some(geometry) = device.zones().filter(|zones| zones.size > 0) else { return Ok(()) };
        let mut zone: Option<Zone> = None;
        self.image.each_used_sit(|segno, entry| {
            let first = layout.lba_of(segno, 0);
            let number = first.get() / geometry.size;
            if zone.is_none_or(|zone| zone.start != number * geometry.size) {
                zone = device.zone_report(number, 1)?.first().copied();
            }
            let Some(zone) = zone.filter(|zone| zone.state != ZoneState::Conventional) else { return Ok(()) };
            let is_beyond = |offset: &u16| first.get() + u64::from(*offset) >= zone.write_pointer;
            let mut beyond = (0..BLOCKS_PER_SEG as u16).filter(|offset| entry.is_valid(*offset)).filter(is_beyond);
            if let Some(offset) = beyond.next() {
                let (lba, blocks) = (first + u64::from(offset), 1 + beyond.count() as u32);
                sink.add(Issue::BeyondWritePointer { segno, lba, blocks });
            }
            Ok(())
        })
    }

    fn check_free(&self, sink: &IssueSink) {
        let (header, layout) = (self.image.checkpoint().header(), self.image.layout());
        let current: Vec<SegNo> = self.image.logs().iter().map(|&log| self.image.log_position(log).segment).collect();
        let (stored, found) = (u64::from(header.free_segments()), self.segments.free(&current));
        // mkfs.f2fs 1.15 counts what is left of the device behind the last whole zone, too; the first checkpoint of a
        // kernel puts it right.
        let tail = (layout.block_count - layout.main_end().get()) / u64::from(BLOCKS_PER_SEG);
        let is_fresh = !header.flags().contains(CpFlags::CRC_RECOVERY);
        if is_fresh && stored != found && stored == found + tail {
            sink.add(Issue::FreeSegmentTail { stored, found });
        } else if stored != found {
            sink.add(Issue::FreeSegmentCount { stored, found });
        }
    }
}

#[cold]
fn data_issue(sink: &IssueSink, used: &Used, found: Summary) {
    let Used { ino, lba, owner: Summary { nid, version, ofs_in_node: slot }, .. } = *used;
    let (found_nid, found_slot, found_version) = (found.nid.get(), found.ofs_in_node, found.version);
    sink.add(Issue::DataSummary { ino, nid, lba, slot, version, found_nid, found_slot, found_version });
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
