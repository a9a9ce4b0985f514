//! The commit by time (`journal.commit=`): what operations noted in the journal becomes durable, though nobody syncs.
//!
//! One batch and one flush, as of an fsync of a directory. Contents need not become durable thereby. Those that take
//! the place of others were in the chain before the rename or the exchange was noted (`unsynced`), or neither is in a
//! batch; nor is a truncation. So a commit never takes old contents away while the new ones are missing.
//!
//! Kept true: it makes durable all that was noted before it, or fails as an fsync does, and the next one tries again.

use super::together::Owed;
use super::{Attempt, Chained, Reason, Route};
use crate::counters::Cause;
use crate::durable::Durable;
use crate::durable::journal::push::Pushed;
use crate::error::Result;
use crate::gate::Want;
use crate::volume::nodes::write::Batch;
use std::sync::Arc;

impl Durable {
    /// Makes durable what operations have noted in the journal, if they have. Hold no lock when calling: it waits for
    /// the device, and for a checkpoint in progress.
    ///
    /// # Errors
    /// As an fsync: what could not be written stays to be made durable by a checkpoint.
    pub(crate) fn commit_journal(&self) -> Result<()> {
        loop {
            match self.attempt_commit()? {
                Attempt::Placed(chained) => return self.end_chain(*chained, Cause::Journal).map(drop),
                Attempt::Covered | Attempt::Nameless => return Ok(()),
                // After one that failed, or an fsync that did, only another can help.
                Attempt::Wait if !self.checkpoints.wait() => return self.checkpoint(Cause::Journal),
                Attempt::Wait => {}
                Attempt::Checkpoint(_) => return self.checkpoint(Cause::Journal),
            }
        }
    }

    /// Gives what was noted its places in the chain, if that can be.
    fn attempt_commit(&self) -> Result<Attempt<'_>> {
        if !self.files.journal.has_some() && !self.files.journal.is_lost() {
            return Ok(Attempt::Covered);
        }
        let change = self.files.gate.begin(Want::default())?;
        // Before the progress, see there.
        let breaks = self.checkpoints.breaks();
        let (frozen, done) = self.files.gate.progress();
        if frozen != done {
            return Ok(Attempt::Wait);
        }
        if !self.vol.space.recovery_fits() && !steadyfs_rt::mutated("timed-commit-leaves-room") {
            return Ok(Attempt::Checkpoint(Reason::Space));
        }
        let ticket = self.vol.io.enter_chain();
        let mut batch = Batch::new(&self.vol, Arc::clone(&ticket));
        if self.push_journal(&change, &[], &mut batch)? == Pushed::Not {
            batch.submit();
            return Ok(Attempt::Checkpoint(Reason::Journal));
        }
        if !batch.is_empty() {
            self.files.journal.note_timed();
        }
        let (route, owed) = (Route::Journal(None), Owed::none(&self.vol));
        Ok(Attempt::Placed(Box::new(Chained { ticket, below: batch, owed, last: None, breaks, route })))
    }
}

#[cfg(test)]
mod tests {
    use crate::durable::tests::journaled;
    use crate::{Fs, MountOptions, NewInode};
    use std::sync::Arc;

    /// Something happened that no batch can say: a checkpoint makes it durable. Later names are the journal's again.
    #[test]
    fn what_no_batch_can_say_is_durable_by_a_checkpoint() {
        let (device, fs) = journaled();
        let root = fs.root().unwrap();
        let done = |name: &str| {
            fs.durable.commit_journal().unwrap();
            let crashed = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
            crashed.lookup(&crashed.root().unwrap(), name.as_bytes()).unwrap();
            (fs.checkpoint_stats().causes["journal"], fs.journal_stats().timed)
        };
        let make = |name: &str| {
            drop(fs.create(&root, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap())
        };
        make("said");
        assert_eq!(done("said"), (0, 1));
        assert_eq!(done("said"), (0, 1), "nothing is left to do");
        fs.files.journal.lose();
        make("lost");
        assert_eq!(done("lost"), (1, 1));
        make("said again");
        assert_eq!(done("said again"), (1, 2));
    }

    /// Recovery repeats no removal, so it may need more room than there is: a checkpoint does not.
    #[test]
    fn where_recovery_might_find_no_room_a_commit_is_a_checkpoint() {
        let (_, fs) = journaled();
        let root = fs.root().unwrap();
        let commit = |name: &[u8]| {
            fs.create(&root, name, &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
            fs.durable.commit_journal().unwrap();
            (fs.checkpoint_stats().causes["journal"], fs.journal_stats().timed)
        };
        assert_eq!(commit(b"first"), (0, 1));
        fs.vol.space.expect_names(1 << 20);
        assert_eq!(commit(b"second"), (1, 1));
        assert_eq!(commit(b"third"), (1, 2), "nothing is expected any more");
    }
}
