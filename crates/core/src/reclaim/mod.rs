//! Reclaiming space: the seam of who makes room on a volume, and the gate that changes pass.
//!
//! A change passes the gate ([`Fs::admit`]) before it takes the checkpoint lock. Who makes room when there is too
//! little is an arm of [`Reclaim`], and no other file tells the arms apart. Another arm (a device that collects, nobody
//! at all) has its own methods of these names. What arms share stands beside them: [`Admission`]s, the owners of
//! blocks (`owner`), the locks of pages against collectors (`protect`).
//!
//! Kept true by each arm: a change is let through, or told that there is no room; the gate never waits for what only
//! the waiting change could do.

mod admission;
mod host;
mod nobody;
mod owner;
mod protect;

pub(crate) use admission::Admission;
pub use host::{Effort, GcCandidate, GcMemory, GcPlan, Reach, StandVictim, VictimStand};
pub(crate) use protect::{FileLocks, PageHold};

use crate::error::Result;
use crate::fs::Fs;
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::volume::Volume;
use crate::waits::micros;
use admission::Admissions;
use host::HostReclaim;
use nobody::NobodyReclaim;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_format::{Layout, Lba};

/// Who makes room on a mounted volume.
#[expect(clippy::large_enum_variant, reason = "a volume has one")]
pub(crate) enum Reclaim {
    /// Writers or threads of this host move what is valid out of sections (F2FS, ScaleLFS, P-GC).
    Host(HostReclaim),
    /// Nothing has to be made: what is dead is discarded, and its place never used again (IPLFS).
    Nobody(NobodyReclaim),
}

use Reclaim::{Host as ByHost, Nobody as ByNobody};

impl Reclaim {
    /// Collection of a volume whose checkpoint reserves so many segments, by `collectors` threads of its own.
    pub(crate) fn new(vol: &Volume, options: &MountOptions, reserved_segments: u32, collectors: usize) -> Self {
        match vol.placement.segments() {
            Some(_) => ByHost(HostReclaim::new(vol, options, reserved_segments, collectors)),
            None => ByNobody(NobodyReclaim::default()),
        }
    }

    /// How many collectors a volume has: as many as were asked for, but no more than its reserve can bear.
    pub(crate) fn collectors(options: &GcOptions, layout: &Layout, reserved_segments: u32) -> usize {
        HostReclaim::collectors(options, layout, reserved_segments)
    }

    /// How many logs beside the format's six take users' data: as many as were asked for, but no more than its reserve
    /// can bear beside so many collectors.
    pub(crate) fn data_logs(options: &GcOptions, layout: &Layout, reserved_segments: u32, collectors: usize) -> usize {
        HostReclaim::data_logs(options, layout, reserved_segments, collectors)
    }

    /// Starts what works by itself on a writable volume.
    pub(crate) fn start(fs: &Arc<Fs>) {
        if let ByHost(host) = &fs.reclaim {
            host.start(fs);
        }
    }

    /// Ends that and waits for it; from then on writers make room.
    pub(crate) fn stop(&self) {
        if let ByHost(host) = self {
            host.stop();
        }
    }

    /// Something is asked of the volume that making room should not be in the way of.
    pub(crate) fn note_request(&self) {
        if let ByHost(host) = self {
            host.note_request();
        }
    }

    /// Sections have become free.
    pub(crate) fn announce_room(&self) {
        if let ByHost(host) = self {
            host.announce_room();
        }
    }

    /// What was done since the mount.
    pub(crate) fn totals(&self) -> GcReport {
        self.host().map_or_else(GcReport::default, HostReclaim::totals)
    }

    /// Moves what these blocks of the main area hold, wherever they are and whoever owns them.
    ///
    /// # Errors
    /// A summary, an owner or a block cannot be read; or there is no room.
    pub(crate) fn move_blocks(&self, fs: &Fs, lbas: &[Lba]) -> Result<()> {
        match self {
            ByHost(host) => host.move_blocks(fs, lbas),
            ByNobody(_) => nobody::move_blocks(fs, lbas),
        }
    }

    /// Waits until there is room for so many blocks, making some if need be.
    fn admit<'a>(&self, fs: &'a Fs, blocks: u64) -> Result<Admission<'a>> {
        match self {
            ByHost(host) => host.admit(fs, blocks),
            ByNobody(nobody) => nobody.admit(fs, blocks),
        }
    }

    /// Whether nobody needs to make room for a change now.
    fn has_room(&self, fs: &Fs) -> bool {
        match self {
            ByHost(host) => host.has_room(fs),
            ByNobody(nobody) => nobody.has_room(fs, 0),
        }
    }

    /// Changes that have passed the gate.
    fn admissions(&self) -> &Admissions {
        match self {
            ByHost(host) => &host.admissions,
            ByNobody(nobody) => &nobody.admissions,
        }
    }

    /// The collection of this host, where a volume has it.
    fn host(&self) -> Option<&HostReclaim> {
        match self {
            ByHost(host) => Some(host),
            ByNobody(_) => None,
        }
    }

    /// The collection of this host; only for those who exist because a volume has it.
    fn by_host(&self) -> &HostReclaim {
        match self {
            ByHost(host) => host,
            ByNobody(_) => unreachable!("nobody collects this volume"),
        }
    }
}

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
    /// Their owner had written them anew elsewhere, or somebody had moved them.
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
    fn blocks_gained(&self, blocks_per_section: u64) -> u64 {
        (self.sections_freed * blocks_per_section).saturating_sub(self.data_moved + self.nodes_moved)
    }

    /// Blocks that were valid when they were found, moved or not.
    fn blocks_seen(&self) -> u64 {
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
    /// Changes wait for collection while no more than so many are free.
    pub needed: u64,
    /// Of those, the ones kept for collection whatever a checkpoint takes.
    pub reserved: u64,
}
