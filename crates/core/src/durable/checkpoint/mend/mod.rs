//! Blocks that the device refused, before a checkpoint: written again, or somewhere else.
//!
//! Most failures pass: a second attempt in place mends them. A few blocks that go on failing while others can be
//! written are bad places, and what they hold moves away as the collector would move it. Not so where the system lacked
//! something for the moment (`IoError::is_passing`). Kept true: a failing device
//! costs a bounded number of fresh blocks per checkpoint, because what fails as a whole is not moved.

use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::volume::{Change, Volume};

/// Most blocks that count as bad places. When more fail, the device as a whole does.
const BAD_PLACES: usize = 64;

impl Volume {
    /// Has logs go on elsewhere that stand where the device takes no more; false if that is too much to be true.
    fn leave_bad_places(&self) -> Result<bool> {
        let _change = self.begin_change()?;
        Ok(self.placement.leave_bad_places())
    }
}

impl Durable {
    /// Tries to write what could not be written.
    ///
    /// # Errors
    /// Why it still cannot.
    pub(super) fn mend_failed_writes(&self) -> Result<()> {
        let (vol, failed) = (&self.vol, &self.vol.io.failed);
        if failed.count() == 0 {
            return Ok(());
        }
        self.drop_failed_garbage(&vol.freeze()?);
        let Err(error) = vol.io.drain() else { return Ok(()) };
        let passing = matches!(&error, Error::Io(error) if error.is_passing());
        if passing || vol.placement.bad_places(&failed.list()) > BAD_PLACES || !self.vol.leave_bad_places()? {
            return Err(error);
        }
        let bad = failed.list();
        tracing::warn!(blocks = bad.len(), "moving what these blocks should hold elsewhere");
        // No segment is claimed for it, so somebody else has to say that nobody writes in place what is being moved.
        let _moving = failed.begin_moving();
        self.files.gate.move_blocks(&bad)
    }

    /// Forgets failed writes of blocks that nothing refers to any more. With the volume frozen, so that the snapshot
    /// taken then does not either. The chain may refer to them, so it breaks first: an fsync that is about to look
    /// whether everything was written would find nothing missing.
    pub(super) fn drop_failed_garbage(&self, frozen: &Change<'_>) {
        assert!(frozen.is_frozen(), "refused blocks are given up while others may come to refer to them");
        let failed = &self.vol.io.failed;
        let mut unwanted = failed.list();
        unwanted.retain(|lba| self.vol.placement.is_valid(*lba) == Some(false));
        if !unwanted.is_empty() {
            if !steadyfs_rt::mutated("garbage-breaks-the-chain") {
                self.checkpoints.break_chain();
            }
            failed.drop_unwanted(&unwanted);
        }
    }
}

#[cfg(test)]
mod tests;
