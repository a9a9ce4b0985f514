//! The size of a file that the device is told, where that is less than the one in memory (ext4's `i_disksize`, XFS'
//! on-disk size).
//!
//! A file grows when a write is taken, and the contents follow later. An image of the inode block that had the new size
//! in between would show, after a crash, zeros that nobody wrote. So a node has a *limit* beside its block: the size up
//! to which contents have been submitted, or were there before. The block in memory has the true size; only the images
//! that go to the device have the lesser of the two. The lower half applies the limit and does not know where it comes
//! from: [`crate::files::pages`] sets and raises it, under the lock of the file's pages.
//!
//! Kept true: the last image of an inode that was not cut has its true size; one that was cut is remembered here and in
//! [`crate::volume::nodes::dirt`], which keeps its node in memory, until another image says more.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_format::inode::{Inode as RawInode, advise};

/// No limit.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// What the device may be told of a file's size, and what it was told. In bytes.
pub(crate) struct DiskSize {
    limit: AtomicU64,
    /// The size in the last image, if that was less than the true one.
    told: AtomicU64,
}

impl DiskSize {
    /// No limit, and the device knows the true size.
    pub(crate) fn new() -> Self {
        DiskSize { limit: AtomicU64::new(UNLIMITED), told: AtomicU64::new(UNLIMITED) }
    }

    /// The size up to which contents have been submitted; [`UNLIMITED`] if that is all.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(SeqCst)
    }

    /// Sets the limit. The lock of the file's pages is held.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, SeqCst);
    }

    /// Notes what an image of the inode says that was just taken: `Some` of a size that is not the true one. The node
    /// is locked.
    pub(crate) fn note_told(&self, less: Option<u64>) {
        self.told.store(less.unwrap_or(UNLIMITED), SeqCst);
    }

    /// Whether the last image had less than the true size.
    pub(crate) fn was_cut(&self) -> bool {
        self.told.load(SeqCst) != UNLIMITED
    }

    /// Whether another image would say more than the last one.
    pub(crate) fn is_behind(&self) -> bool {
        self.limit() > self.told.load(SeqCst)
    }
}

/// Makes an image say no more than `end` bytes. Blocks behind it are counted and stay the file's: KEEP_SIZE tells
/// recovery, which otherwise moves the end behind every block that it finds, and TRUNC the next change of the file
/// that they are to go. Blocks that the user has preallocated behind the end stay.
pub(crate) fn cut(image: &mut RawInode, end: u64) {
    let preallocated = image.advise() & advise::KEEP_SIZE != 0;
    image.set_size(end);
    image.set_advise(image.advise() | advise::KEEP_SIZE | if preallocated { 0 } else { advise::TRUNC });
}
