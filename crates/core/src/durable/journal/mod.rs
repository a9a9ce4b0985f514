//! The metadata journal: what operations did to names and attributes, kept until an fsync makes it durable at once.
//!
//! Delayed logging, as in XFS: an operation that succeeds leaves a snapshot of every inode it changed, and the names it
//! gave or took, in one map, an item an inode. A later operation on the same inode replaces what the item says
//! ([`items`]). An fsync of anything takes the whole map, and a batch of it goes to the warm-node log, before the
//! file's own nodes ([`push`]). A checkpoint has everything that the map has, so its freeze drops the map.
//!
//! Kept true: the items of one operation come into the map together, under its change and the locks of its inodes, so a
//! batch and a freeze see whole operations; a snapshot lies in the chain before every node of its inode that an fsync
//! places later, since each fsync takes the map first, and one at a time; what could not be noted makes every fsync a
//! checkpoint until one has frozen. Whoever holds the map's lock takes no other and waits for nothing.
//!
//! Before the mount promises anything by the journal, both copies of the superblock get the magic that keeps other
//! programs away; they lose it when the last checkpoint of the mount has committed.

mod items;
mod push;

pub(crate) use push::Pushed;

use crate::canary::{Canary, Planted};
use crate::error::Result;
use crate::fs::Fs;
use crate::locks;
use crate::options::JournalMode;
use crate::raw::Superblocks;
use items::PendingItems;
use push::JournalEpoch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use steadyfs_format::records::VERSION_KEY;
use steadyfs_rt::Mutex;

/// The journal of a mounted volume.
pub(crate) struct Journal {
    mode: JournalMode,
    map: Mutex<PendingItems>,
    epoch: Mutex<JournalEpoch>,
    /// A map that a freeze has dropped, until nobody waits any more.
    absorbed: Mutex<Option<PendingItems>>,
    /// Most inodes without names that one epoch may leave to recovery.
    most_deaths: u64,
    counters: JournalCounters,
}

#[derive(Default)]
struct JournalCounters {
    batches: AtomicU64,
    blocks: AtomicU64,
    records: AtomicU64,
    absorbed: AtomicU64,
}

/// What the metadata journal did since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JournalStats {
    /// Batches placed.
    pub batches: u64,
    /// Blocks of 4 KiB that they took.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Inodes with something to note that a checkpoint made durable instead.
    pub absorbed: u64,
}

impl Journal {
    /// The journal of a volume whose packs have room for so many orphans.
    pub(crate) fn new(mode: JournalMode, orphan_limit: usize) -> Self {
        Journal {
            mode,
            map: Mutex::new(&locks::JOURNAL, PendingItems::default()),
            epoch: Mutex::new(&locks::JOURNAL_PUSH, JournalEpoch::default()),
            absorbed: Mutex::new(&locks::STATE, None),
            most_deaths: orphan_limit as u64 / 2,
            counters: JournalCounters::default(),
        }
    }

    /// Whether the volume has one.
    pub(crate) fn is_on(&self) -> bool {
        self.mode != JournalMode::Off
    }

    /// Whether only a checkpoint makes durable what happened.
    pub(crate) fn is_lost(&self) -> bool {
        self.map.lock().is_lost()
    }

    /// Something happened that cannot be noted: only a checkpoint makes it durable.
    pub(crate) fn lose(&self) {
        self.map.lock().lose();
    }

    /// Whether so much has gathered that a checkpoint should not wait for its timer.
    pub(crate) fn is_pressing(&self) -> bool {
        self.map.lock().is_pressing()
    }

    /// The volume is frozen: everything noted is in the checkpoint to come, and the chain ends.
    pub(crate) fn absorb(&self, planted: &Planted) {
        if !self.is_on() || planted.is(Canary::SkipAbsorb) {
            return;
        }
        *self.epoch.lock() = JournalEpoch::default();
        let old = std::mem::take(&mut *self.map.lock());
        self.counters.absorbed.fetch_add(old.len() as u64, Relaxed);
        *self.absorbed.lock() = Some(old);
    }

    /// Gives the memory of what was absorbed back: a freeze is over.
    pub(crate) fn drop_absorbed(&self) {
        let old = self.absorbed.lock().take();
        drop(old);
    }
}

impl Fs {
    /// Makes the superblock that of a volume with a journal, or of a stock one, as the mount's options say. Nothing has
    /// been promised yet, and a checkpoint of this mount is in force.
    pub(crate) fn mark_journal(&self, superblocks: &Superblocks) -> Result<()> {
        superblocks.mark_journal(self.vol.io.device(), self.journal.is_on())?;
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

    /// What the metadata journal did since the mount.
    pub fn journal_stats(&self) -> JournalStats {
        let JournalCounters { batches, blocks, records, absorbed } = &self.journal.counters;
        JournalStats {
            batches: batches.load(Relaxed),
            blocks: blocks.load(Relaxed),
            records: records.load(Relaxed),
            absorbed: absorbed.load(Relaxed),
        }
    }
}
