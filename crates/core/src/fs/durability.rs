//! Making files durable.

use super::Fs;
use crate::durable::checkpoint::CheckpointStats;
use crate::durable::sync::SyncStats;
use crate::error::Result;
use crate::files::errseq::ErrorCursor;
use crate::files::inode::InodeRef;
use steadyfs_format::checkpoint::Checkpoint;

impl Fs {
    /// Makes what was written to a file durable, with everything needed to find it again. With `datasync` changed times
    /// need not be.
    ///
    /// # Errors
    /// I/O errors, of this file's earlier write-back too, once per reference (a clone is a reference of its own).
    pub fn fsync(&self, file: &InodeRef, datasync: bool) -> Result<()> {
        self.durable.fsync(file, datasync)
    }

    /// As [`Fs::fsync`], for the open file with this cursor: it is told of earlier errors that it has not been told of.
    ///
    /// # Errors
    /// As [`Fs::fsync`].
    pub fn fsync_open(&self, file: &InodeRef, datasync: bool, cursor: &ErrorCursor) -> Result<()> {
        self.durable.fsync_open(file, datasync, cursor)
    }

    /// How fsyncs were served since the mount.
    pub fn sync_stats(&self) -> SyncStats {
        self.durable.sync_stats()
    }

    /// Counters of checkpoints since the mount.
    pub fn checkpoint_stats(&self) -> CheckpointStats {
        self.durable.checkpoint_stats()
    }

    /// The last committed checkpoint's header (waits for one in progress).
    pub fn committed_checkpoint(&self) -> Checkpoint {
        self.durable.committed_checkpoint()
    }

    /// Blocks of log space that the volume may hold at one time; `None` where that is not a number of its own.
    pub fn capacity(&self) -> Option<u64> {
        self.durable.capacity()
    }

    /// Lets the volume hold `blocks` blocks of log space at one time, and makes that durable; a little of it is kept
    /// back for what dies before its discard is done ([`crate::raw::user_blocks`]).
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] on an F2FS volume; [`crate::Error::Usage`] for a number that no volume can have;
    /// [`crate::Error::NoSpace`] if it holds more already; [`crate::Error::ReadOnly`]; what the device says. Then the
    /// capacity is as it was.
    pub fn set_capacity(&self, blocks: u64) -> Result<()> {
        self.durable.set_capacity(blocks)
    }
}
