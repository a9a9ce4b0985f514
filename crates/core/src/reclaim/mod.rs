//! Reclaiming space: the seam of who makes room on a volume, and the gate that changes pass.
//!
//! A change passes the gate ([`Fs::admit`]) before it takes the checkpoint lock. Who makes room when there is too
//! little is an arm of [`Reclaim`], and no other file tells the arms apart. Another arm (a device that collects, nobody
//! at all) has its own methods of these names. What arms share stands beside them: [`Admission`]s, the owners of
//! blocks (`owner`), the locks of pages against collectors (`protect`).
//!
//! Kept true by each arm: a change is let through, or told that there is no room; the gate never waits for what only
//! the waiting change could do.

pub(crate) mod admission;
pub(crate) mod host;
mod live;
mod nobody;
mod owner;
pub(crate) mod protect;
pub(crate) mod report;

use crate::error::Result;
use crate::fs::Fs;
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::volume::Volume;
use admission::{Admission, Admissions};
use host::HostReclaim;
use nobody::NobodyReclaim;
use report::GcReport;
use std::sync::Arc;
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
