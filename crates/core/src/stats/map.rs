//! A map of the segments by how much of them is valid, in cells of whole sections.
//!
//! One pass over the segment words, without a lock: a volume of 7.68 TB has 3.7 million of them (29 MB). Kept true:
//! never more cells than were asked for; all cells but the last cover the same number of segments; the segments of each
//! are as they were at some moment during the call.

use crate::fs::Fs;
use crate::volume::segments::table::{BLOCKS, SegState};
use serde::{Deserialize, Serialize};
use steadyfs_format::SegNo;

/// Classes of sections by validity: ten of a tenth each, and the full ones.
pub const VALIDITY_CLASSES: usize = 11;

/// The segments of a volume, so many to a cell. The vectors have one number for each cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentMap {
    /// Segments in all.
    pub segments: u64,
    /// Blocks in a segment.
    pub blocks_per_segment: u64,
    /// Segments in a section.
    pub segments_per_section: u64,
    /// Segments in a cell: whole sections. The last may have fewer.
    pub segments_per_cell: u64,
    /// Valid blocks.
    pub valid: Vec<u64>,
    /// Segments that can be written.
    pub free: Vec<u64>,
    /// Empty segments that wait for a checkpoint.
    pub prefree: Vec<u64>,
    /// Segments that a log or a collector's stream writes to.
    pub open: Vec<u64>,
    /// Segments that a collector has claimed.
    pub claimed: Vec<u64>,
    /// Sections that hold something, by how much of them is valid: `[0]` less than a tenth, ..., `[9]` nine tenths and
    /// more, `[10]` all.
    pub sections_by_validity: [u64; VALIDITY_CLASSES],
}

/// One cell of a [`SegmentMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Segments.
    pub segments: u64,
    /// Valid blocks.
    pub valid: u64,
    /// As in [`SegmentMap`].
    pub free: u64,
    /// As in [`SegmentMap`].
    pub prefree: u64,
    /// As in [`SegmentMap`].
    pub open: u64,
    /// As in [`SegmentMap`].
    pub claimed: u64,
}

impl SegmentMap {
    /// The cells in order.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let number = |of: &[u64], i: usize| of.get(i).copied().unwrap_or_default();
        (0..self.valid.len()).map(move |i| Cell {
            segments: self.segments.saturating_sub(i as u64 * self.segments_per_cell).min(self.segments_per_cell),
            valid: number(&self.valid, i),
            free: number(&self.free, i),
            prefree: number(&self.prefree, i),
            open: number(&self.open, i),
            claimed: number(&self.claimed, i),
        })
    }

    /// The same map in at most `most` cells (at least one).
    pub fn in_cells(&self, most: usize) -> SegmentMap {
        let together = self.valid.len().div_ceil(most.max(1)).max(1);
        let merge = |of: &[u64]| of.chunks(together).map(|cells| cells.iter().sum()).collect();
        SegmentMap {
            segments_per_cell: self.segments_per_cell * together as u64,
            valid: merge(&self.valid),
            free: merge(&self.free),
            prefree: merge(&self.prefree),
            open: merge(&self.open),
            claimed: merge(&self.claimed),
            ..*self
        }
    }

    fn add_cell(&mut self, cell: Cell) {
        self.valid.push(cell.valid);
        self.free.push(cell.free);
        self.prefree.push(cell.prefree);
        self.open.push(cell.open);
        self.claimed.push(cell.claimed);
    }
}

impl Fs {
    /// The segments by validity, in at most `most_cells` cells (at least one).
    pub fn segment_map(&self, most_cells: usize) -> SegmentMap {
        let Some(segments) = self.vol.placement.segments() else { return SegmentMap::default() };
        let (segs, layout) = (&segments.table, self.vol.layout());
        let (segments, per_section) = (u64::from(segs.len()), u64::from(layout.segs_per_sec));
        let sections_per_cell = segments.div_ceil(per_section).div_ceil(most_cells.max(1) as u64);
        let mut map = SegmentMap {
            segments,
            blocks_per_segment: u64::from(BLOCKS),
            segments_per_section: per_section,
            segments_per_cell: per_section * sections_per_cell,
            ..SegmentMap::default()
        };
        let mut next = 0;
        while next < segments {
            let mut cell = Cell::default();
            let end = (next + map.segments_per_cell).min(segments);
            while next < end {
                let mut section = Cell::default();
                let section_end = (next + per_section).min(end);
                (next..section_end).for_each(|seg| section.look_at(segs.state(SegNo::new(seg as u32))));
                map.classify(&section);
                cell.add(&section);
                next = section_end;
            }
            map.add_cell(cell);
        }
        map
    }
}

impl SegmentMap {
    /// Counts a section.
    fn classify(&mut self, section: &Cell) {
        if section.free + section.prefree < section.segments {
            let all = section.segments * self.blocks_per_segment;
            // A full section is in a class of its own.
            let class = section.valid * (VALIDITY_CLASSES as u64 - 1) / all;
            self.sections_by_validity[(class as usize).min(VALIDITY_CLASSES - 1)] += 1;
        }
    }
}

impl Cell {
    /// Counts a segment.
    fn look_at(&mut self, state: SegState) {
        self.segments += 1;
        self.valid += u64::from(state.count());
        // A word without anything set but its generation is that of a free segment.
        self.free += u64::from(state.count() == 0 && !state.is_open() && !state.is_prefree());
        self.prefree += u64::from(state.is_prefree());
        self.open += u64::from(state.is_open());
        self.claimed += u64::from(state.is_owned());
    }

    fn add(&mut self, other: &Cell) {
        self.segments += other.segments;
        self.valid += other.valid;
        self.free += other.free;
        self.prefree += other.prefree;
        self.open += other.open;
        self.claimed += other.claimed;
    }

    /// The share of its blocks that is valid, from 0 to 1.
    pub fn validity(&self, blocks_per_segment: u64) -> f64 {
        self.valid as f64 / (self.segments * blocks_per_segment).max(1) as f64
    }
}
