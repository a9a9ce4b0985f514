//! The metadata journal: what operations did to names and attributes, kept until an fsync makes it durable at once.
//!
//! Delayed logging, as in XFS: an operation that succeeds commits a snapshot of every inode it changed, and the names
//! it gave or took, to a list, an item an inode. A later operation on the same inode replaces what the item says
//! ([`super::log`]). An fsync of anything seals the list, and a batch of it goes to the warm-node log, before the
//! file's own nodes ([`crate::durable::journal`]). A checkpoint has everything that the list has, so its freeze drops
//! the list. How operations and batches keep out of each other's way is `steadyfs_journal`'s: [`Journal::new`] alone
//! chooses.
//!
//! Kept true:
//! - The items of one operation come into the list together, under its change and the locks of its inodes. So a batch
//!   and a freeze see whole operations.
//! - A snapshot lies in the chain before every node of its inode that an fsync places later. Each fsync seals the list
//!   first, and one at a time.
//! - An operation that could not be noted makes every fsync a checkpoint until one has frozen. Nothing is noted behind
//!   it. A journal that has grown to its limit is lost in this sense, so nobody ever waits for room in it.

use super::expected::ExpectedNames;
use super::logged::{InodeSnapshot, Logged};
use crate::canary::{Canary, Planted};
use crate::locks;
use crate::options::{JournalMode, MountOptions};
use crate::volume::Change;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_format::Ino;
use steadyfs_journal::{Classes, CommitLists, Form, Part, Sealed};
use steadyfs_rt::{Instant, Mutex, SharedLine, now};

/// The journal of a mounted volume.
pub(crate) struct Journal {
    /// What operations did that no batch has, if there is a journal.
    pub(crate) lists: Option<CommitLists<Logged>>,
    /// Something happened that the lists do not have.
    lost: AtomicBool,
    expected: ExpectedNames,
    pub(crate) epoch: Mutex<JournalEpoch>,
    /// Bytes of batches since the last freeze.
    pub(crate) placed: AtomicU64,
    /// When contents that were written since the last freeze, and of which no batch says anything, are due for a
    /// checkpoint: the earliest, in nanoseconds; [`NEVER`] if there are none.
    contents_due: AtomicU64,
    /// What a freeze has dropped, until nobody waits any more.
    absorbed: Mutex<Vec<Sealed<Logged>>>,
    /// Most bytes in the lists and in batches together.
    most_bytes: u64,
    /// Most inodes without names that one epoch may leave to recovery.
    pub(crate) most_deaths: u64,
    pub(crate) counters: JournalCounters,
    /// Fsyncs under way.
    syncs: AtomicUsize,
    syncs_line: SharedLine,
}

/// No contents are due.
const NEVER: u64 = u64::MAX;

/// An fsync under way.
pub(crate) struct Syncing<'a>(&'a Journal);

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        self.0.syncs_line.write();
        let before = self.0.syncs.fetch_sub(1, Relaxed);
        assert!(before > 0, "more fsyncs are over than had begun");
    }
}

/// What the chain has of the journal since the last freeze.
#[derive(Default)]
pub(crate) struct JournalEpoch {
    pub(crate) sequence: u64,
    /// Inodes that batches gave birth to.
    pub(crate) births: HashSet<Ino>,
    /// Inodes of which a batch says that they have no name.
    pub(crate) deaths: u64,
}

#[derive(Default)]
pub(crate) struct JournalCounters {
    pub(crate) batches: AtomicU64,
    timed: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) records: AtomicU64,
    absorbed: AtomicU64,
}

/// What the metadata journal did since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JournalStats {
    /// Batches placed.
    pub batches: u64,
    /// Of those, how many by time (`journal.commit=`), and not by an fsync.
    #[serde(default)]
    pub timed: u64,
    /// Blocks of 4 KiB that they took.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Inodes with something to note that a checkpoint made durable instead.
    pub absorbed: u64,
}

impl Journal {
    /// The journal of a volume whose packs have room for `orphan_limit` orphans.
    pub(crate) fn new(options: &MountOptions, orphan_limit: usize, planted: &Planted) -> Self {
        let form = match options.journal {
            JournalMode::Off => None,
            JournalMode::Single => Some(Form::Single),
            JournalMode::Double => Some(Form::Double),
            JournalMode::PerCore => Some(Form::PerCore { stride: options.journal_stride }),
        };
        let classes = Classes { context: &locks::JOURNAL_CONTEXT, list: &locks::JOURNAL_LIST };
        Journal {
            lists: form.map(|form| CommitLists::new(form, classes).with_fault(planted.of_lists())),
            lost: AtomicBool::new(false),
            expected: ExpectedNames::new(),
            epoch: Mutex::new(&locks::JOURNAL_PUSH, JournalEpoch::default()),
            placed: AtomicU64::new(0),
            contents_due: AtomicU64::new(NEVER),
            absorbed: Mutex::new(&locks::STATE, Vec::new()),
            most_bytes: options.journal_bytes,
            most_deaths: orphan_limit as u64 / 2,
            counters: JournalCounters::default(),
            syncs: AtomicUsize::new(0),
            syncs_line: SharedLine::new(),
        }
    }

    /// Whether the volume has one.
    pub(crate) fn is_on(&self) -> bool {
        self.lists.is_some()
    }

    /// Whether only a checkpoint makes durable what happened.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Something happened that cannot be noted: only a checkpoint makes it durable.
    pub(crate) fn lose(&self) {
        self.lost.store(true, SeqCst);
    }

    /// Commits what one operation did.
    pub(crate) fn commit(&self, parts: Vec<Part<Logged, InodeSnapshot>>) {
        let Some(lists) = self.lists.as_ref().filter(|_| !self.is_lost()) else { return };
        lists.commit(parts, Logged::add);
        if self.used() > self.most_bytes {
            self.lose();
        }
    }

    /// A directory is to have this name after the next batch; true if that was not expected before.
    pub(crate) fn expect_name(&self, dir: Ino, name: &[u8]) -> bool {
        self.expected.add(dir, name)
    }

    /// Bytes that wait for a batch: at least as many as there are.
    pub(crate) fn waiting(&self) -> u64 {
        self.lists.as_ref().map_or(0, CommitLists::bytes)
    }

    /// Counts an fsync until it is over.
    pub(crate) fn begin_sync(&self) -> Option<Syncing<'_>> {
        self.is_on().then(|| {
            self.syncs_line.write();
            self.syncs.fetch_add(1, Relaxed);
            Syncing(self)
        })
    }

    /// Fsyncs under way.
    pub(crate) fn syncs(&self) -> usize {
        self.syncs.load(Relaxed)
    }

    /// Counts a batch that was made by time.
    pub(crate) fn note_timed(&self) {
        let earlier = self.counters.timed.fetch_add(1, Relaxed);
        assert!(earlier < self.counters.batches.load(Relaxed), "more batches were made by time than at all");
    }

    /// Notes that contents were written back, or written into an inode, and are to be durable by then though nobody
    /// syncs. It comes behind the write, so a freeze that forgets it has them.
    pub(crate) fn note_contents(&self, due: Instant) {
        if self.is_on() && due.as_nanos() < self.contents_due.load(Relaxed) {
            self.contents_due.fetch_min(due.as_nanos(), Relaxed);
        }
    }

    /// Whether contents are so old that only a checkpoint is soon enough.
    pub(crate) fn has_old_contents(&self) -> bool {
        self.contents_due.load(Relaxed) <= now().as_nanos()
    }

    /// Whether something waits for a batch.
    pub(crate) fn has_some(&self) -> bool {
        self.waiting() > 0
    }

    /// Bytes of the journal: what waits, and what lies behind the last checkpoint.
    fn used(&self) -> u64 {
        self.waiting() + self.placed.load(Relaxed)
    }

    /// Whether so much has gathered that a checkpoint should not wait for its timer.
    pub(crate) fn is_pressing(&self) -> bool {
        self.is_on()
            && (self.is_lost() || self.waiting() >= self.most_bytes / 4 || self.used() >= self.most_bytes / 4 * 3)
    }

    /// The volume is frozen: everything noted is in the checkpoint to come, and the chain ends.
    pub(crate) fn absorb(&self, frozen: &Change<'_>, planted: &Planted) {
        assert!(frozen.is_frozen(), "the journal forgets what operations note while they note more");
        let Some(lists) = self.lists.as_ref().filter(|_| !planted.is(Canary::SkipAbsorb)) else { return };
        *self.epoch.lock() = JournalEpoch::default();
        let sealed: Vec<Sealed<Logged>> = std::iter::from_fn(|| lists.seal()).collect();
        assert_eq!(lists.bytes(), 0, "something is noted while the volume is frozen");
        let items = sealed.iter().map(|sealed| sealed.items.len() as u64).sum();
        self.counters.absorbed.fetch_add(items, Relaxed);
        self.expected.forget();
        self.placed.store(0, Relaxed);
        self.contents_due.store(NEVER, Relaxed);
        self.lost.store(false, SeqCst);
        *self.absorbed.lock() = sealed;
    }

    /// Gives the memory of what was absorbed back: a freeze is over.
    pub(crate) fn drop_absorbed(&self) {
        let old = std::mem::take(&mut *self.absorbed.lock());
        drop(old);
    }

    /// What the journal did since the mount.
    pub(crate) fn stats(&self) -> JournalStats {
        let JournalCounters { batches, timed, blocks, records, absorbed } = &self.counters;
        JournalStats {
            batches: batches.load(Relaxed),
            timed: timed.load(Relaxed),
            blocks: blocks.load(Relaxed),
            records: records.load(Relaxed),
            absorbed: absorbed.load(Relaxed),
        }
    }
}
