//! Reclaiming space: the seam of who makes room on a volume.
//!
//! A change passes the gate (`gate`), which calls here where there is too little room ([`MakeRoom`]). Who makes room is
//! an arm of [`Arm`], and nobody but this file tells the arms apart. An arm has its state here, says how much room
//! there is ([`Headroom`]), and makes some. What arms share stands beside them: the owners of blocks (`owner`).
//!
//! Kept true by each arm: a change is let through, or told that there is no room; the gate never waits for what only
//! the waiting change could do.

pub(crate) mod activity;
pub(crate) mod device;
pub(crate) mod host;
mod live;
mod nobody;
mod owner;
pub(crate) mod report;
pub(crate) mod trim;

use crate::counters::Cause;
use crate::durable::Durable;
use crate::error::Result;
use crate::files::Files;
use crate::files::pages::Budget;
use crate::gate::admission::{Admission, Admissions};
use crate::gate::{Headroom, MakeRoom};
use crate::options::MountOptions;
use crate::options::techniques::GcOptions;
use crate::volume::Volume;
use device::DeviceReclaim;
use host::HostReclaim;
use nobody::NoReclaim;
use report::GcReport;
use std::sync::Arc;
use steadyfs_format::{Layout, Lba};
use steadyfs_rt::{WaitCause, waiting_for};

/// Those who make room on a mounted volume.
pub(crate) struct Reclaim {
    pub(crate) vol: Arc<Volume>,
    pub(crate) files: Arc<Files>,
    pub(crate) durable: Arc<Durable>,
    arm: Arm,
}

/// Who makes room on a mounted volume.
pub(crate) enum Arm {
    /// Writers or threads of this host move what is valid out of sections (F2FS, ScaleLFS, P-GC).
    Host(Arc<HostReclaim>),
    /// Nothing has to be made: what is dead is discarded, and its place never used again (IPLFS).
    Nobody(Arc<NoReclaim>),
    /// The device moves what is valid out of zones, and this host follows (D2FS).
    Device(Arc<DeviceReclaim>),
}

impl Arm {
    /// Collection of a volume whose checkpoint reserves `reserved_segments` segments, by `collectors` threads of its
    /// own.
    pub(crate) fn new(
        vol: &Arc<Volume>,
        budget: &Budget,
        options: &MountOptions,
        reserved_segments: u32,
        collectors: usize,
    ) -> Self {
        match vol.placement.segments() {
            Some(segments) => match segments.medium.migrating() {
                Some(area) => Arm::Device(Arc::new(DeviceReclaim::new(vol, budget, area))),
                None => Arm::Host(Arc::new(HostReclaim::new(vol, budget, options, reserved_segments, collectors))),
            },
            None => Arm::Nobody(Arc::new(NoReclaim::new(vol, budget))),
        }
    }

    /// How much room there is.
    pub(crate) fn headroom(&self) -> Arc<dyn Headroom> {
        match self {
            Arm::Host(host) => Arc::clone(host) as Arc<dyn Headroom>,
            Arm::Nobody(nobody) => Arc::clone(nobody) as Arc<dyn Headroom>,
            Arm::Device(device) => Arc::clone(device) as Arc<dyn Headroom>,
        }
    }

    /// Changes that have passed the gate.
    pub(crate) fn admissions(&self) -> &Arc<Admissions> {
        match self {
            Arm::Host(host) => host.admissions(),
            Arm::Nobody(nobody) => nobody.admissions(),
            Arm::Device(device) => device.admissions(),
        }
    }
}

/// How many collectors a volume has: as many as were asked for, but no more than its reserve can bear.
pub(crate) fn collectors(options: &GcOptions, layout: &Layout, reserved_segments: u32) -> usize {
    HostReclaim::collectors(options, layout, reserved_segments)
}

/// How many logs beside the format's six take users' data: as many as were asked for, but no more than its reserve can
/// bear beside `collectors` collectors.
pub(crate) fn data_logs(options: &GcOptions, layout: &Layout, reserved_segments: u32, collectors: usize) -> usize {
    HostReclaim::data_logs(options, layout, reserved_segments, collectors)
}

impl Reclaim {
    /// Those of a volume; from here on its gate calls them.
    pub(crate) fn new(durable: &Arc<Durable>, arm: Arm) -> Arc<Self> {
        let (vol, files) = (Arc::clone(&durable.vol), Arc::clone(&durable.files));
        let reclaim = Arc::new(Reclaim { vol, files, durable: Arc::clone(durable), arm });
        let above: Arc<dyn MakeRoom> = Arc::clone(&reclaim) as Arc<dyn MakeRoom>;
        reclaim.files.gate.open(Arc::downgrade(&above));
        reclaim
    }

    /// Starts what makes room by itself on a writable volume.
    pub(crate) fn start(self: &Arc<Self>) {
        match &self.arm {
            Arm::Host(host) => host.start(self),
            Arm::Device(device) => device.start(self),
            Arm::Nobody(_) => {}
        }
    }

    /// Ends what works by itself and waits for it; from then on writers make room.
    pub(crate) fn stop(&self) {
        if let Arm::Host(host) = &self.arm {
            host.stop();
        }
    }

    /// Comes before the last checkpoint of a mount: has what makes room outside of this host come to an end.
    ///
    /// # Errors
    /// Why a checkpoint failed.
    pub(crate) fn drain(&self) -> Result<()> {
        match &self.arm {
            Arm::Device(device) => device.drain(self, Cause::Sync),
            Arm::Host(_) | Arm::Nobody(_) => Ok(()),
        }
    }

    /// Comes after the last checkpoint of a mount, during which the device may have gone on.
    ///
    /// # Errors
    /// Why a checkpoint failed.
    pub(crate) fn end(&self) -> Result<()> {
        let Some(device) = self.by_device() else { return Ok(()) };
        let drained = device.drain(self, Cause::Unmount);
        device.end();
        drained
    }

    /// The collections since the mount.
    pub(crate) fn totals(&self) -> GcReport {
        self.by_host().map_or_else(GcReport::default, HostReclaim::totals)
    }

    /// The collection of this host, where a volume has it.
    fn by_host(&self) -> Option<&HostReclaim> {
        match &self.arm {
            Arm::Host(host) => Some(host),
            Arm::Nobody(_) | Arm::Device(_) => None,
        }
    }

    /// The device's collection, where a volume has it.
    fn by_device(&self) -> Option<&DeviceReclaim> {
        match &self.arm {
            Arm::Device(device) => Some(device),
            Arm::Host(_) | Arm::Nobody(_) => None,
        }
    }

    /// The collection of this host; only for those who exist because a volume has it.
    fn host(&self) -> &HostReclaim {
        match self.by_host() {
            Some(host) => host,
            None => unreachable!("this host does not collect this volume"),
        }
    }

    /// Tries again and again to make room where a change found none: `more` makes some, and is told how often that has
    /// gained nothing.
    fn make_room_by<'a>(
        &self,
        room: &dyn Headroom,
        admissions: &'a Admissions,
        blocks: u64,
        mut more: impl FnMut(&mut u32) -> Result<()>,
    ) -> Result<Admission<'a>> {
        let mut rounds = 0;
        loop {
            {
                let _waiting = waiting_for(WaitCause::Room);
                self.vol.check_writable()?;
                more(&mut rounds)?;
            }
            if let Some(admission) = room.try_pass(admissions, blocks) {
                return Ok(admission);
            }
        }
    }
}

impl MakeRoom for Reclaim {
    fn make_room<'a>(&self, admissions: &'a Admissions, blocks: u64) -> Result<Admission<'a>> {
        match &self.arm {
            Arm::Host(_) => self.collect_for(admissions, blocks),
            Arm::Nobody(nobody) => self
                .make_room_by(&**nobody, admissions, blocks, |rounds| nobody.more_room(&self.durable, blocks, rounds)),
            Arm::Device(device) => self
                .make_room_by(&**device, admissions, blocks, |rounds| device.more_room(&self.durable, blocks, rounds)),
        }
    }

    fn checkpoint(&self, cause: Cause) -> Result<()> {
        self.durable.checkpoint(cause)
    }

    fn move_blocks(&self, lbas: &[Lba]) -> Result<()> {
        match &self.arm {
            Arm::Host(host) => host.move_blocks(&self.files, lbas),
            // There is no collector of this host that would know how.
            Arm::Nobody(_) | Arm::Device(_) => lbas.iter().try_for_each(|lba| self.vol.place_elsewhere(*lba)),
        }
    }
}
