//! The gate that changes pass before they take blocks, and the work of those who make room behind it.
//!
//! Kept true: a thread that waits here holds no node lock and no change, so a checkpoint and a collection can go on.

use super::host::cleaner;
use super::{Reclaim, device, nobody};
use crate::error::Result;
use crate::fs::Fs;
use crate::gate::admission::Admission;
use crate::stats::counters::Cause;
use crate::volume::Change;
use std::sync::Arc;
use steadyfs_format::Lba;

impl Fs {
    /// As [`Fs::change`], for one that takes up to `blocks` blocks for data; no more than a section's. In this order,
    /// for the change has to end first.
    pub(crate) fn change_to_place(&self, blocks: u64) -> Result<(Admission<'_>, Change<'_>)> {
        self.prepare_change()?;
        let admission = self.admit(blocks)?;
        Ok((admission, self.vol.begin_change()?))
    }

    /// Passes the gate if that needs no waiting, and without the help of collectors soon.
    pub(crate) fn try_admit(&self, blocks: u64) -> Option<Admission<'_>> {
        Admission::if_room(&self.admissions, blocks, || self.has_room())
    }

    /// Waits until there is room for `blocks` blocks, collecting if need be. Hold no node lock when calling.
    pub(crate) fn admit(&self, blocks: u64) -> Result<Admission<'_>> {
        match &self.reclaim {
            Reclaim::Host(host) => host.admit(self, blocks),
            Reclaim::Nobody => nobody::admit(self, blocks),
            Reclaim::Device(_) => device::admit(self, blocks),
        }
    }

    /// Whether nobody needs to make room for a change now.
    fn has_room(&self) -> bool {
        match &self.reclaim {
            Reclaim::Host(_) => self.free_sections_suffice(0),
            Reclaim::Nobody => nobody::has_room(self, 0),
            Reclaim::Device(_) => device::has_room(self, 0),
        }
    }

    /// Waits until there is room for a change, collecting if need be.
    pub(crate) fn make_room(&self) -> Result<()> {
        self.admit(0).map(drop)
    }

    /// Starts what makes room by itself on a writable volume.
    pub(crate) fn start_reclaim(self: &Arc<Self>) {
        match &self.reclaim {
            Reclaim::Host(host) => host.start(self),
            Reclaim::Device(device) => device.start(self),
            Reclaim::Nobody => {}
        }
    }

    /// Comes before the last checkpoint of a mount: has what makes room outside of this host come to an end.
    ///
    /// # Errors
    /// Why a checkpoint failed.
    pub(crate) fn drain_reclaim(&self) -> Result<()> {
        match &self.reclaim {
            Reclaim::Device(device) => device.drain(self, Cause::Sync),
            Reclaim::Host(_) | Reclaim::Nobody => Ok(()),
        }
    }

    /// Comes after the last checkpoint of a mount, during which the device may have gone on.
    ///
    /// # Errors
    /// Why a checkpoint failed.
    pub(crate) fn end_reclaim(&self) -> Result<()> {
        let Reclaim::Device(device) = &self.reclaim else { return Ok(()) };
        let drained = device.drain(self, Cause::Unmount);
        device.end(self);
        drained
    }

    /// Moves what these blocks of the main area hold, wherever they are and whichever node owns them.
    ///
    /// # Errors
    /// A summary, an owner or a block cannot be read; or there is no room.
    pub(crate) fn move_blocks(&self, lbas: &[Lba]) -> Result<()> {
        match &self.reclaim {
            Reclaim::Host(_) => cleaner::move_blocks(self, lbas),
            // There is no collector of this host that would know how.
            Reclaim::Nobody | Reclaim::Device(_) => lbas.iter().try_for_each(|lba| self.vol.place_elsewhere(*lba)),
        }
    }
}
