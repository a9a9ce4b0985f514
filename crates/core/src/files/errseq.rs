//! Write errors of a file, told once to each who has it open, as Linux' `errseq_t` does.
//!
//! An error belongs to the file, not to the call in whose time it happened: write-back fails when nobody waits. So each
//! open file has a cursor, and a sync or close reports what has happened since the cursor was last looked at. An error
//! that nobody has been told of is told to who opens the file later, too. Kept true: `told <= count`; a cursor is never
//! ahead of `count`.

use crate::error::{Error, Result};
use crate::locks;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_device::IoError;
use steadyfs_rt::Mutex;

/// The write errors of one inode.
pub(crate) struct WriteErrors {
    /// Errors so far.
    count: AtomicU64,
    /// What `count` was when somebody was last told.
    told: AtomicU64,
    last: Mutex<Option<IoError>>,
}

/// How far the holder of an open file knows its write errors. Front ends keep one per open file: see
/// [`InodeRef::error_cursor`](crate::InodeRef::error_cursor).
#[derive(Debug)]
pub struct ErrorCursor(AtomicU64);

impl Clone for ErrorCursor {
    fn clone(&self) -> Self {
        ErrorCursor(AtomicU64::new(self.0.load(SeqCst)))
    }
}

impl WriteErrors {
    /// None so far.
    pub(crate) fn new() -> Self {
        WriteErrors { count: AtomicU64::new(0), told: AtomicU64::new(0), last: Mutex::new(&locks::STATE, None) }
    }

    /// A write of this file's contents has failed.
    pub(crate) fn record(&self, error: &IoError) {
        let mut last = self.last.lock();
        *last = Some(error.clone());
        self.count.fetch_add(1, SeqCst);
    }

    /// Errors so far, to see later whether there were more.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// The last error if there were any since there were `count`. Nobody counts as told.
    pub(crate) fn since(&self, count: u64) -> Result<()> {
        let now = self.count();
        assert!(now >= count, "write errors were counted back from {count} to {now}");
        if now == count {
            return Ok(());
        }
        self.last.lock().clone().map_or(Ok(()), |e| Err(Error::Io(e)))
    }

    /// The cursor of who opens the file now.
    pub(crate) fn cursor(&self) -> ErrorCursor {
        let (told, count) = (self.told.load(SeqCst), self.count());
        assert!(told <= count, "somebody was told of {told} errors, and there were {count}");
        ErrorCursor(AtomicU64::new(told))
    }

    /// The last error, if the holder of the cursor has not been told of it; now he has.
    pub(crate) fn tell(&self, cursor: &ErrorCursor) -> Result<()> {
        if cursor.0.load(SeqCst) == self.count() {
            return Ok(());
        }
        let last = self.last.lock();
        let count = self.count();
        assert!(self.told.load(SeqCst) <= count, "somebody was told of an error that did not happen");
        if !steadyfs_rt::mutated("errors-are-told-once") {
            self.told.store(count, SeqCst);
        }
        // Two threads of one open file: one of them is told.
        match cursor.0.swap(count, SeqCst) == count {
            true => Ok(()),
            false => last.clone().map_or(Ok(()), |e| Err(Error::Io(e))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_device::{OpKind, errno};

    fn failure(block: u64) -> IoError {
        IoError::from_errno(OpKind::Write, block, 1, errno::EIO)
    }

    fn told(errors: &WriteErrors, cursor: &ErrorCursor) -> Option<u64> {
        match errors.tell(cursor) {
            Err(Error::Io(e)) => Some(e.block),
            _ => None,
        }
    }

    #[test]
    fn each_open_file_is_told_once() {
        let errors = WriteErrors::new();
        let (one, two) = (errors.cursor(), errors.cursor());
        assert_eq!(told(&errors, &one), None);
        errors.record(&failure(7));
        assert_eq!((told(&errors, &one), told(&errors, &one)), (Some(7), None));
        assert_eq!((told(&errors, &two), told(&errors, &two)), (Some(7), None));
        errors.record(&failure(8));
        errors.record(&failure(9));
        assert_eq!((told(&errors, &one), told(&errors, &one)), (Some(9), None));
        assert_eq!(told(&errors, &two), Some(9));
    }

    #[test]
    fn who_opens_later_is_told_what_nobody_knows() {
        let errors = WriteErrors::new();
        errors.record(&failure(1));
        let (late, later) = (errors.cursor(), errors.cursor());
        assert_eq!(told(&errors, &late), Some(1));
        let latest = errors.cursor();
        assert_eq!((told(&errors, &latest), told(&errors, &later)), (None, Some(1)));
        let copy = late.clone();
        errors.record(&failure(2));
        assert_eq!((told(&errors, &late), told(&errors, &copy)), (Some(2), Some(2)));
    }

    #[test]
    fn errors_of_a_time_are_seen_without_telling() {
        let errors = WriteErrors::new();
        let (before, cursor) = (errors.count(), errors.cursor());
        assert!(errors.since(before).is_ok());
        errors.record(&failure(3));
        assert!(errors.since(before).is_err() && errors.since(errors.count()).is_ok());
        assert_eq!(told(&errors, &cursor), Some(3));
    }
}
