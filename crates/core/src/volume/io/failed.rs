//! Failed writes: blocks that the device refused to take are kept in memory, and found there as if they had been
//! written.
//!
//! Kept true: a block is here from the failure of its write until it is written again, with success, or until it is
//! dropped because nothing refers to it any more. Who asks pays one load while there is none. Memory is bounded by
//! [`LIMIT`], which `Gate::admit` heeds.

use crate::error::{Error, Result};
use crate::locks;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use steadyfs_device::{IoError, PageBuf, StreamHint};
use steadyfs_format::Lba;
use steadyfs_format::summary::Summary;
use steadyfs_rt::Mutex;

/// Blocks kept before changes are refused: 32 MiB.
const LIMIT: usize = 8192;

#[derive(Default)]
struct Kept {
    blocks: BTreeMap<Lba, (PageBuf, StreamHint)>,
    /// Whose data some of them hold: on volumes that do not say so elsewhere.
    owners: BTreeMap<Lba, Summary>,
    /// Why the device refused the last of them.
    why: Option<IoError>,
}

/// The blocks of failed writes.
pub(crate) struct FailedWrites {
    kept: Mutex<Kept>,
    count: AtomicUsize,
    /// A checkpoint moves what some of them should hold elsewhere.
    moving: AtomicBool,
}

/// While this exists contents are being moved from bad places, and no page is written in place.
pub(crate) struct Relocating<'a>(&'a AtomicBool);

impl Drop for Relocating<'_> {
    fn drop(&mut self) {
        let was_moving = self.0.swap(false, SeqCst);
        assert!(was_moving, "two checkpoints moved contents from bad places");
    }
}

impl FailedWrites {
    /// None.
    pub(crate) fn new() -> Self {
        FailedWrites {
            kept: Mutex::new(&locks::FAILED_WRITES, Kept::default()),
            count: AtomicUsize::new(0),
            moving: AtomicBool::new(false),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    fn with<R>(&self, f: impl FnOnce(&mut Kept) -> R) -> R {
        let mut kept = self.kept.lock();
        let out = f(&mut kept);
        self.count.store(kept.blocks.len(), SeqCst);
        out
    }

    /// Keeps blocks whose write failed.
    pub(crate) fn add(&self, pages: Vec<(Lba, PageBuf)>, hint: StreamHint, why: &IoError) {
        self.with(|kept| {
            kept.blocks.extend(pages.into_iter().map(|(lba, page)| (lba, (page, hint))));
            kept.why = Some(why.clone());
        });
    }

    /// Blocks whose write has just failed are those of these owners, in their order.
    pub(crate) fn note_owners(&self, lba: Lba, owners: &[Summary]) {
        self.with(|kept| {
            let all = (lba.get()..).map(Lba::new).zip(owners);
            kept.owners.extend(all.filter(|(lba, _)| kept.blocks.contains_key(lba)).map(|(lba, owner)| (lba, *owner)));
            assert!(kept.owners.len() <= kept.blocks.len(), "an owner is known of a block that was not refused");
        });
    }

    /// Whose data a block is, if it is here and its owner was noted.
    pub(crate) fn owner(&self, lba: Lba) -> Option<Summary> {
        self.kept.lock().owners.get(&lba).copied()
    }

    /// A block, if it is here.
    pub(crate) fn get(&self, lba: Lba) -> Option<PageBuf> {
        self.get_as_sent(lba).map(|(page, _)| page)
    }

    /// A block, if it is here, and the stream it was for.
    pub(crate) fn get_as_sent(&self, lba: Lba) -> Option<(PageBuf, StreamHint)> {
        if self.count() == 0 {
            return None;
        }
        self.kept.lock().blocks.get(&lba).cloned()
    }

    /// Whether one of these blocks is here.
    pub(crate) fn has_any(&self, lba: Lba, count: u64) -> bool {
        self.count() > 0 && self.kept.lock().blocks.range(lba..lba + count).next().is_some()
    }

    /// Forgets blocks that have been written after all.
    pub(crate) fn remove(&self, lba: Lba, count: u64) {
        if self.count() > 0 {
            self.with(|kept| {
                for at in (0..count).map(|i| lba + i) {
                    kept.blocks.remove(&at);
                    kept.owners.remove(&at);
                }
            });
        }
    }

    /// Forgets blocks that nothing refers to.
    pub(crate) fn drop_unwanted(&self, unwanted: &[Lba]) {
        self.with(|kept| {
            for lba in unwanted {
                kept.blocks.remove(lba);
                kept.owners.remove(lba);
            }
        });
    }

    /// Where they belong, rising.
    pub(crate) fn list(&self) -> Vec<Lba> {
        self.kept.lock().blocks.keys().copied().collect()
    }

    /// Why there are any.
    pub(crate) fn first_error(&self) -> Option<IoError> {
        if self.count() == 0 {
            return None;
        }
        self.kept.lock().why.clone()
    }

    /// Has nobody write in place until the result is dropped: a block that was refused can be taken while its contents
    /// move elsewhere, and they would be lost that are written there then. Under the checkpoint lock. A writer in place
    /// has the node's lock, so a mover that takes it after this call finds what they wrote.
    pub(crate) fn begin_moving(&self) -> Relocating<'_> {
        let before = self.moving.swap(true, SeqCst);
        assert!(!before, "one checkpoint at a time");
        Relocating(&self.moving)
    }

    /// Whether contents are being moved from bad places.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.load(SeqCst)
    }

    /// An error if there are too many for more to come.
    pub(crate) fn check_room(&self) -> Result<()> {
        match self.first_error() {
            Some(why) if self.count() > LIMIT => Err(Error::Io(why)),
            _ => Ok(()),
        }
    }
}
