//! Shutting a volume down (FS_IOC_SHUTDOWN): from one moment on it is as after a power cut, though it is still mounted.
//!
//! Kept true: when [`Fs::shut_down`] has returned nothing is written to the device any more. What says so is the
//! volume's end (`Volume::shut_down`), which no change passes: a checkpoint, and all that had passed before, has come
//! to an end by then.

use crate::error::Result;
use crate::fs::Fs;

/// The state that is still made durable when a volume is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutDown {
    /// Everything, as by [`Fs::sync`].
    Synced,
    /// What a checkpoint makes durable: names and attributes, and of contents what was written back.
    Checkpointed,
    /// Nothing but what was before.
    AtOnce,
}

impl Fs {
    /// Shuts the volume down: nothing is written to the device from now on, changes and requests for durability get
    /// [`Error::ShutDown`](crate::Error::ShutDown), and [`Fs::unmount`] leaves the volume as a power cut does. The next
    /// mount recovers what was fsynced.
    ///
    /// # Errors
    /// What the sync or the checkpoint says that was asked for; then the volume goes on.
    pub fn shut_down(&self, how: ShutDown) -> Result<()> {
        match how {
            ShutDown::Synced => self.sync()?,
            ShutDown::Checkpointed if !self.vol.read_only => self.durable.sync_checkpoint()?,
            ShutDown::Checkpointed | ShutDown::AtOnce => {}
        }
        let _no_checkpoint = self.durable.checkpoints.hold();
        // An error: nobody changes anything as it is.
        let frozen = self.vol.freeze();
        self.vol.shut_down();
        drop(frozen);
        if !steadyfs_rt::mutated("shutdown-waits-for-writes") {
            self.vol.io.settle();
        }
        if let Some(under_way) = self.vol.placement.discards_under_way() {
            under_way.wait_zero();
        }
        Ok(())
    }

    /// Whether the volume was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.vol.is_shut_down()
    }
}
