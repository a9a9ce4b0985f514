//! What a collection would do, without doing it: which sections it would clean in which order, and what that would cost
//! and gain.
//!
//! Kept true: nothing is claimed, moved or written, and the order is that of the collection itself (`victim::rank`), as
//! long as nothing else changes the volume. A plan knows the present: what the collection itself makes of segments that
//! are still open is not in it, nor are the blocks that its checkpoint writes. Where logs fill holes (`mode=adaptive`
//! with few free sections) what is moved may go to a segment of the plan, which is no victim then: the collection moves
//! no less than planned. `steadyfs gc` collects with `mode=lfs`.

use super::victim::{self, Candidate};
use crate::error::Result;
use crate::reclaim::Reclaim;
use crate::reclaim::report::Urgency;
use crate::volume::Volume;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use steadyfs_format::{Log, Nid};

/// A section that a collection would clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GcCandidate {
    /// The section.
    pub section: u32,
    /// Its place in the order of [`Urgency::Foreground`] among all candidates, from 1.
    pub greedy: usize,
    /// Its place in the order of [`Urgency::Background`].
    pub cost_benefit: usize,
    /// Valid blocks of file contents and directories: these would be moved.
    pub data: u64,
    /// Valid node blocks: the next checkpoint would write them elsewhere.
    pub nodes: u64,
    /// Blocks that hold nothing any more.
    pub garbage: u64,
    /// Seconds, of those that the volume was mounted, since its blocks were written, on the average.
    pub age: u64,
}

/// What a collection would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GcPlan {
    /// Sections that could be cleaned.
    pub candidates: usize,
    /// Those that would be, in this order.
    pub victims: Vec<GcCandidate>,
    /// Data blocks that would be moved.
    pub data_moved: u64,
    /// Node blocks that would be moved.
    pub nodes_moved: u64,
    /// Node blocks that would be written: those, and the ones that say where moved data is.
    pub nodes_written: u64,
    /// Sections that would be emptied.
    pub sections_freed: u64,
    /// The sections left of them when their valid blocks have new places.
    pub sections_gained: f64,
    /// Garbage in the victims, in blocks: room for as many new ones.
    pub garbage: u64,
    /// Write amplification of filling that room: blocks written in all for each new one, the collection's included.
    pub waf: f64,
}

impl GcPlan {
    /// Blocks that the collection would write, without those of its checkpoint.
    pub fn blocks_written(&self) -> u64 {
        self.data_moved + self.nodes_written
    }
}

impl Volume {
    /// The node of each valid block of a segment: the block itself, or the one that refers to it.
    fn owners(&self, seg: steadyfs_format::SegNo) -> Result<Vec<Nid>> {
        let summary = self.segments().summary_of(seg)?;
        Ok(self.segments().table.valid_offsets(seg).into_iter().map(|off| summary.get(off as u16).nid).collect())
    }
}

impl Reclaim {
    /// See `Fs::gc_plan`.
    pub(crate) fn gc_plan(&self, sections: u64, urgency: Urgency) -> Result<GcPlan> {
        if self.by_host().is_none() {
            return Ok(GcPlan::of(0, Vec::new(), 0, 1));
        }
        let (segs, layout, now) = (&self.vol.segments().table, self.vol.layout(), self.vol.elapsed());
        let rank = |urgency| victim::rank(segs, layout, urgency, now);
        let (greedy, cost_benefit) = (rank(Urgency::Foreground), rank(Urgency::Background));
        let places = |ranked: &[Candidate]| -> HashMap<_, usize> { ranked.iter().map(|c| c.sec).zip(1..).collect() };
        let (by_greed, by_benefit) = (places(&greedy), places(&cost_benefit));
        let chosen = if urgency == Urgency::Foreground { &greedy } else { &cost_benefit };
        let most = usize::try_from(sections).unwrap_or(usize::MAX);
        let mut nodes_written = BTreeSet::new();
        let mut victims = Vec::new();
        for sec in chosen.iter().map(|candidate| candidate.sec).take(most) {
            let (mut data, mut nodes, mut mtime) = (0, 0, 0);
            for seg in layout.segs_of(sec).filter(|&seg| segs.state(seg).count() > 0) {
                let owners = self.vol.owners(seg)?;
                match Log::from_number(segs.kind(seg)).is_some_and(Log::is_node) {
                    true => nodes += owners.len() as u64,
                    false => data += owners.len() as u64,
                }
                nodes_written.extend(owners);
                mtime = mtime.max(segs.mtime(seg));
            }
            let garbage = layout.blocks_per_sec() - data - nodes;
            let place = |places: &HashMap<_, usize>| places.get(&sec).copied().unwrap_or_default();
            let (greedy, cost_benefit) = (place(&by_greed), place(&by_benefit));
            let age = now.saturating_sub(mtime);
            victims.push(GcCandidate { section: sec.get(), greedy, cost_benefit, data, nodes, garbage, age });
        }
        Ok(GcPlan::of(chosen.len(), victims, nodes_written.len() as u64, layout.blocks_per_sec()))
    }
}

impl GcPlan {
    /// Adds up.
    fn of(candidates: usize, victims: Vec<GcCandidate>, nodes_written: u64, blocks_per_section: u64) -> Self {
        let sum = |of: fn(&GcCandidate) -> u64| victims.iter().map(of).sum::<u64>();
        let (data_moved, nodes_moved, garbage) = (sum(|v| v.data), sum(|v| v.nodes), sum(|v| v.garbage));
        let sections_freed = victims.len() as u64;
        let moved = (data_moved + nodes_moved) as f64;
        let written = (data_moved + nodes_written) as f64;
        GcPlan {
            candidates,
            victims,
            data_moved,
            nodes_moved,
            nodes_written,
            sections_freed,
            sections_gained: sections_freed as f64 - moved / blocks_per_section as f64,
            garbage,
            waf: if garbage > 0 { (garbage as f64 + written) / garbage as f64 } else { 1.0 },
        }
    }
}
