//! Changing how much a volume may hold, where that is only a number: on an IPLFS volume.
//!
//! Kept true: a superblock says a smaller capacity only when a checkpoint is in force that fits it, with an empty
//! chain; nobody reserves beyond the smaller of the two capacities while they change. After a power cut the volume has
//! one of the two.

use crate::durable::Durable;
use crate::error::Result;
use steadyfs_device::PageBuf;
use steadyfs_format::Lba;

impl Durable {
    /// See `Fs::set_capacity`.
    pub(crate) fn set_capacity(&self, blocks: u64) -> Result<()> {
        let changed = self.vol.placement.with_capacity(blocks)?;
        self.vol.check_writable()?;
        let before = self.vol.space.user_blocks();
        let after = crate::raw::user_blocks(blocks);
        self.vol.space.limit(before.min(after))?;
        // From here on nobody takes what the smaller one lacks; what was fsynced before fits the checkpoint.
        let before_that =
            if steadyfs_rt::mutated("capacity-after-checkpoint") { Ok(()) } else { self.sync_checkpoint() };
        let written = before_that.and_then(|()| {
            let page = PageBuf::from_slice(&changed);
            [Lba(0), Lba(1)].into_iter().try_for_each(|lba| self.vol.io.write_commit(lba, &page))
        });
        if let Err(error) = written {
            self.vol.space.limit(before)?;
            return Err(error);
        }
        self.vol.placement.set_capacity(blocks);
        self.vol.space.limit(after)
    }

    /// See `Fs::capacity`.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.vol.placement.room().map(|room| room.capacity)
    }
}
