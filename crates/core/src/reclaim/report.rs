//! What collection did and cost, and what there is to collect: numbers that others read, without the collection itself.

use crate::waits::micros;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How urgent a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Writers wait: take what is cheapest to move (greedy).
    Foreground,
    /// The volume is idle: weigh age against cost (cost-benefit).
    Background,
}

/// Blocks that a collector found in a victim and did not move, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Their owner was deleted.
    pub gone: u64,
    /// Their owner had written them again elsewhere, or somebody had moved them.
    pub moved: u64,
    /// They were still in use at the first look, and no more when they were to be moved: read for nothing.
    pub late: u64,
    /// Somebody was at work on their pages, or with `gc.protect=file` on their files.
    pub held: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.gone + self.moved + self.late + self.held
    }
}

/// What a round of collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcReport {
    /// Sections looked at.
    pub victims: u64,
    /// Sections that became free, at once or with the next checkpoint.
    pub sections_freed: u64,
    /// Data blocks moved.
    pub data_moved: u64,
    /// Node blocks moved.
    pub nodes_moved: u64,
    /// Blocks that were not moved.
    pub skipped: Skipped,
    /// Victims with another number of valid blocks when they were taken than when the search saw them.
    pub stale_victims: u64,
    /// Time spent waiting for data blocks to be read.
    #[serde(rename = "reading_us", with = "micros")]
    pub reading: Duration,
}

impl GcReport {
    /// Blocks of the sections that were emptied beyond those that were moved. Nodes count as moved: the next checkpoint
    /// writes them elsewhere.
    pub(super) fn blocks_gained(&self, blocks_per_section: u64) -> u64 {
        (self.sections_freed * blocks_per_section).saturating_sub(self.data_moved + self.nodes_moved)
    }

    /// Blocks that were valid when they were found, moved or not.
    pub(super) fn blocks_seen(&self) -> u64 {
        self.data_moved + self.nodes_moved + self.skipped.total()
    }

    /// Adds what another round, or another volume, did.
    pub fn add(&mut self, other: GcReport) {
        self.victims += other.victims;
        self.sections_freed += other.sections_freed;
        self.data_moved += other.data_moved;
        self.nodes_moved += other.nodes_moved;
        self.skipped.gone += other.skipped.gone;
        self.skipped.moved += other.skipped.moved;
        self.skipped.late += other.skipped.late;
        self.skipped.held += other.skipped.held;
        self.stale_victims += other.stale_victims;
        self.reading += other.reading;
    }
}

/// How much collection has cost those who waited for it, since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcTimes {
    /// Times that a change found too few free sections, and collected; or that collectors were called.
    pub rounds: u64,
    /// Time during which somebody collected for that, checkpoints included.
    #[serde(rename = "busy_us", with = "micros")]
    pub busy: Duration,
    /// Time of those checkpoints.
    #[serde(rename = "checkpointing_us", with = "micros")]
    pub checkpointing: Duration,
}

/// Sections by what can be done with them now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionCounts {
    /// All.
    pub total: u64,
    /// Ready to be written.
    pub free: u64,
    /// As many as the empty segments that wait for a checkpoint make up.
    pub prefree: u64,
    /// Changes wait for collection while no more than this many are free.
    pub needed: u64,
    /// Those kept for collection and checkpoints. Writers may take a quarter of them while collectors are at work.
    pub reserved: u64,
}
