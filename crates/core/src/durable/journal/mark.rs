//! The mark in the superblock that keeps other programs away from a volume with promises in its journal.
//!
//! Kept true: a mount marks the volume before it promises anything by the journal. It takes the mark away only when its
//! last checkpoint has committed and no fsync came after that.

use crate::canary::Canary;
use crate::error::Result;
use crate::fs::Fs;
use crate::raw::Superblocks;
use steadyfs_format::records::VERSION_KEY;

impl Fs {
    /// Makes the superblock that of a volume with a journal, or of a stock one, as the mount's options say. Nothing has
    /// been promised yet, and a checkpoint of this mount is in force.
    pub(crate) fn mark_journal(&self, superblocks: &Superblocks) -> Result<()> {
        let marked = self.journal.is_on() && !self.vol.io.planted.is(Canary::MarkForgotten);
        superblocks.mark_journal(self.vol.io.device(), marked)?;
        if self.journal.is_on() {
            self.checkpoints.set_key(VERSION_KEY);
        }
        Ok(())
    }

    /// Ends the mount after its last checkpoint, and makes the superblock a stock one again, unless somebody has synced
    /// something since: then the next mount replays it.
    pub(crate) fn unmark_journal(&self) -> Result<()> {
        if !self.journal.is_on() {
            return Ok(());
        }
        // Whoever has a place in the chain by then is seen, and nobody gets one later.
        let frozen = self.vol.freeze()?;
        self.vol.close("the volume was unmounted");
        drop(frozen);
        self.vol.io.settle();
        if self.checkpoints.has_chain(&self.vol) {
            return Ok(());
        }
        let device = self.vol.io.device();
        Superblocks::read(device).mark_journal(device, false)
    }
}
