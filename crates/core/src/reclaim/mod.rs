//! Reclaiming space: the seam of who makes room on a volume, and the gate that changes pass.
//!
//! A change passes the gate (`gate`) before it takes the checkpoint lock. Who makes room when there is too little is an
//! arm of [`Reclaim`], and nobody but the gate and this file tells the arms apart. An arm has its state here, and its
//! work in functions of the mounted volume behind the gate. What arms share stands beside them: the owners of blocks
//! (`owner`).
//!
//! Kept true by each arm: a change is let through, or told that there is no room; the gate never waits for what only
//! the waiting change could do.

pub(crate) mod device;
mod gate;
pub(crate) mod host;
mod live;
mod nobody;
mod owner;
pub(crate) mod report;

use crate::gate::admission::Announcer;
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::volume::Volume;
use device::DeviceReclaim;
use host::HostReclaim;
use report::GcReport;
use steadyfs_format::Layout;

/// Who makes room on a mounted volume.
#[expect(clippy::large_enum_variant, reason = "a volume has one")]
pub(crate) enum Reclaim {
    /// Writers or threads of this host move what is valid out of sections (F2FS, ScaleLFS, P-GC).
    Host(HostReclaim),
    /// Nothing has to be made: what is dead is discarded, and its place never used again (IPLFS).
    Nobody,
    /// The device moves what is valid out of zones, and this host follows (D2FS).
    Device(DeviceReclaim),
}

use Reclaim::{Device as ByDevice, Host as ByHost, Nobody as ByNobody};

impl Reclaim {
    /// Collection of a volume whose checkpoint reserves `reserved_segments` segments, by `collectors` threads of its
    /// own.
    pub(crate) fn new(vol: &Volume, options: &MountOptions, reserved_segments: u32, collectors: usize) -> Self {
        match vol.placement.segments() {
            Some(segments) if segments.migrating.is_some() => ByDevice(DeviceReclaim::default()),
            Some(_) => ByHost(HostReclaim::new(vol, options, reserved_segments, collectors)),
            None => ByNobody,
        }
    }

    /// How many collectors a volume has: as many as were asked for, but no more than its reserve can bear.
    pub(crate) fn collectors(options: &GcOptions, layout: &Layout, reserved_segments: u32) -> usize {
        HostReclaim::collectors(options, layout, reserved_segments)
    }

    /// How many logs beside the format's six take users' data: as many as were asked for, but no more than its reserve
    /// can bear beside `collectors` collectors.
    pub(crate) fn data_logs(options: &GcOptions, layout: &Layout, reserved_segments: u32, collectors: usize) -> usize {
        HostReclaim::data_logs(options, layout, reserved_segments, collectors)
    }

    /// Ends what works by itself and waits for it; from then on writers make room.
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

    /// The collections since the mount.
    pub(crate) fn totals(&self) -> GcReport {
        self.host().map_or_else(GcReport::default, HostReclaim::totals)
    }

    /// What tells those who wait for room that there may be some, where others than changes make it.
    pub(crate) fn announcer(&self) -> Option<Announcer> {
        self.host().and_then(HostReclaim::announcer)
    }

    /// Whether this host collects, and so has sections that are free for anybody.
    pub(crate) fn is_by_host(&self) -> bool {
        self.host().is_some()
    }

    /// The collection of this host, where a volume has it.
    fn host(&self) -> Option<&HostReclaim> {
        match self {
            ByHost(host) => Some(host),
            ByNobody | ByDevice(_) => None,
        }
    }

    /// The collection of this host; only for those who exist because a volume has it.
    fn by_host(&self) -> &HostReclaim {
        match self {
            ByHost(host) => host,
            ByNobody | ByDevice(_) => unreachable!("this host does not collect this volume"),
        }
    }
}
