//! Memory for cached pages of all files: how much there is, whose turn it is to give some back, who has dirty pages.
//!
//! Kept true: an inode is on the ring exactly while it has cached pages, and on a dirty list exactly while it has dirty
//! ones; both change under that inode's page lock, so the lists never lag behind. The counters are sums over all
//! inodes.

use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::locks;
use crate::options::WriteBack;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::IoError;
use steadyfs_format::dir::FileType;
use steadyfs_format::{BLOCK_SIZE, Ino};
use steadyfs_rt::{EventCount, Instant, Mutex, SharedLine, WaitCause, waiting_for};

/// Most pages that a writer dirties for each time that it has slept (Linux: `nr_dirtied_pause` of a new task).
const TURN: u64 = 32;

/// Fewest pages that a budget allows: below that a single large request would chase its own pages out.
const FEWEST: u64 = 256;

/// The budget of a volume. Clones share it.
#[derive(Clone)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    /// Most cached pages.
    limit: u64,
    /// With more dirty pages the flusher does not wait for its timer.
    background: u64,
    /// With more pages dirty or on their way writers help or wait.
    most_dirty: u64,
    cached: AtomicU64,
    dirty: AtomicU64,
    dirty_in_dirs: AtomicU64,
    flying: AtomicU64,
    /// Of these four, which lie side by side.
    line: SharedLine,
    /// The flusher does what it is called for.
    flusher_works: AtomicBool,
    /// Writes of pages that failed.
    failures: AtomicU64,
    failure: Mutex<Option<IoError>>,
    lists: Mutex<Lists>,
    landed: EventCount,
    /// Writers who sleep for the flusher go on one by one.
    turn: EventCount,
    /// Pages that have landed since the mount.
    landings: AtomicU64,
    wanted: EventCount,
}

#[derive(Default)]
struct Lists {
    next_key: u64,
    /// Inodes with cached pages, the longest unvisited first.
    ring: BTreeMap<u64, Arc<Inode>>,
    /// Files with dirty pages, the longest dirty first, with the time of the first.
    files: BTreeMap<u64, (Instant, Arc<Inode>)>,
    dirs: BTreeMap<Ino, Arc<Inode>>,
}

impl Lists {
    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}

/// Counters of the page cache, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CacheStats {
    /// Most pages that are kept.
    pub limit: u64,
    /// Pages in memory.
    pub cached: u64,
    /// Pages with changes that nobody writes yet.
    pub dirty: u64,
    /// Pages on their way to the device.
    pub flying: u64,
}

impl Budget {
    /// A budget of this many bytes, of which a part may be dirty. With one thread that writes back it is Linux' part.
    /// There the flusher begins at a tenth (`dirty_background_ratio`), and a fifth is the limit (`dirty_ratio`).
    /// Writers sleep from the mean of both on, and are held halfway between that mean and the limit: at 17.5 %.
    pub(crate) fn new(bytes: u64, write_back: WriteBack) -> Self {
        let limit = (bytes / BLOCK_SIZE as u64).max(FEWEST);
        let (background, most_dirty) = match write_back {
            WriteBack::Together => (limit / 5, limit / 5 * 2),
            WriteBack::Flusher(_) => (limit / 10, limit * 7 / 40),
        };
        Budget {
            shared: Arc::new(Shared {
                limit,
                background,
                most_dirty,
                cached: AtomicU64::new(0),
                dirty: AtomicU64::new(0),
                dirty_in_dirs: AtomicU64::new(0),
                flying: AtomicU64::new(0),
                line: SharedLine::new(),
                flusher_works: AtomicBool::new(false),
                failures: AtomicU64::new(0),
                failure: Mutex::new(&locks::STATE, None),
                lists: Mutex::new(&locks::LISTS, Lists::default()),
                landed: EventCount::new(),
                turn: EventCount::new(),
                landings: AtomicU64::new(0),
                wanted: EventCount::new(),
            }),
        }
    }

    /// The counters now.
    pub(crate) fn stats(&self) -> CacheStats {
        let s = &self.shared;
        CacheStats {
            limit: s.limit,
            cached: s.cached.load(SeqCst),
            dirty: s.dirty.load(SeqCst),
            flying: s.flying.load(SeqCst),
        }
    }

    /// Dirty pages of directories and symlinks.
    pub(crate) fn dirty_in_dirs(&self) -> u64 {
        self.shared.dirty_in_dirs.load(SeqCst)
    }

    /// Whether more pages are cached than allowed.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.cached.load(SeqCst) > self.shared.limit
    }

    /// Whether too many pages are dirty for the flusher to wait for its timer.
    pub(crate) fn wants_flush(&self) -> bool {
        self.shared.dirty.load(SeqCst) > self.shared.background
    }

    /// Whether too many pages are dirty or on their way: then writers must help or wait.
    pub(crate) fn must_flush(&self) -> bool {
        self.shared.dirty.load(SeqCst) + self.shared.flying.load(SeqCst) > self.shared.most_dirty
    }

    /// A write of pages failed, and the pages are dirty again.
    pub(super) fn note_failure(&self, error: &IoError) {
        *self.shared.failure.lock() = Some(error.clone());
        self.shared.failures.fetch_add(1, SeqCst);
    }

    /// Failed writes of pages so far.
    pub(crate) fn failures(&self) -> u64 {
        self.shared.failures.load(SeqCst)
    }

    /// The last failure, if there were more than `patience` since there were `failures`: who waits for fewer dirty
    /// pages waits in vain.
    pub(crate) fn failed_since(&self, failures: u64, patience: u64) -> Result<()> {
        let now = self.failures();
        assert!(now >= failures, "failures were counted back from {failures} to {now}");
        if now - failures <= patience {
            return Ok(());
        }
        self.shared.failure.lock().clone().map_or(Ok(()), |e| Err(Error::Io(e)))
    }

    /// Calls the flusher.
    pub(crate) fn call_flusher(&self) {
        self.shared.wanted.notify_all();
    }

    /// Waits until the flusher is called, at most so long; `ready` is looked at first.
    pub(crate) fn wait_for_call(&self, ready: impl FnOnce() -> bool, timeout: Duration) {
        let key = self.shared.wanted.listen();
        if !ready() {
            self.shared.wanted.wait_timeout(key, timeout);
        }
    }

    /// Waits until some page lands, unless `ready` says that there is nothing to wait for.
    pub(crate) fn wait_landing(&self, ready: impl FnOnce() -> bool) {
        let key = self.shared.landed.listen();
        if !ready() && self.shared.flying.load(SeqCst) > 0 {
            let _waiting = waiting_for(WaitCause::Device);
            self.shared.landed.wait(key);
        }
    }

    /// Pages that a writer who slept for the flusher may dirty: few enough that those of many writers are few of all.
    pub(crate) fn turn_pages(&self) -> u64 {
        (self.shared.most_dirty / 200).clamp(1, TURN)
    }

    /// Sleeps until as many pages have landed as a turn has and it is the caller's, or for so long, unless `ready` says
    /// that there is no need; true if it is the caller's turn.
    pub(crate) fn sleep_for_turn(&self, ready: impl FnOnce() -> bool, timeout: Duration) -> bool {
        let key = self.shared.turn.listen();
        let _waiting = waiting_for(WaitCause::Device);
        !ready() && !self.shared.turn.wait_timeout(key, timeout)
    }

    /// Has one writer go on for each turn's pages that have landed, and all if nothing is left that could land.
    fn give_turns(&self, landed: u64, last: bool) {
        let before = self.shared.landings.fetch_add(landed, SeqCst);
        if last && !self.must_flush() {
            return self.shared.turn.notify_all();
        }
        let each = self.turn_pages();
        (before / each..(before + landed) / each).for_each(|_| self.shared.turn.notify_one());
    }

    /// Notes that the flusher does its work from now on, or that it does not: it could not, or has ended.
    pub(crate) fn note_flusher(&self, works: bool) {
        self.shared.flusher_works.store(works, SeqCst);
        if !works {
            self.shared.turn.notify_all();
        }
    }

    /// Whether a wait for the flusher is not in vain.
    pub(crate) fn flusher_works(&self) -> bool {
        self.shared.flusher_works.load(SeqCst)
    }

    /// Directories and symlinks with dirty pages.
    pub(crate) fn dirty_dirs(&self) -> Vec<Arc<Inode>> {
        self.shared.lists.lock().dirs.values().cloned().collect()
    }

    /// Files with dirty pages, the longest dirty first.
    pub(crate) fn dirty_files(&self) -> Vec<Arc<Inode>> {
        self.shared.lists.lock().files.values().map(|(_, inode)| Arc::clone(inode)).collect()
    }

    /// The file that has been dirty longest, if it has been since `before` or longer.
    pub(crate) fn oldest_dirty_file(&self, before: Option<Instant>) -> Option<(Instant, Arc<Inode>)> {
        let lists = self.shared.lists.lock();
        let (since, inode) = lists.files.values().next()?;
        before.is_none_or(|limit| *since <= limit).then(|| (*since, Arc::clone(inode)))
    }

    /// The inode whose pages have gone unvisited longest, with its key on the ring.
    pub(super) fn ring_first(&self) -> Option<(u64, Arc<Inode>)> {
        let lists = self.shared.lists.lock();
        lists.ring.first_key_value().map(|(key, inode)| (*key, Arc::clone(inode)))
    }

    /// Inodes with cached pages.
    pub(super) fn ring_len(&self) -> u64 {
        self.shared.lists.lock().ring.len() as u64
    }

    /// Puts an inode at the end of the ring; returns its key.
    pub(super) fn join_ring(&self, inode: &Arc<Inode>) -> u64 {
        let mut lists = self.shared.lists.lock();
        let key = lists.key();
        let earlier = lists.ring.insert(key, Arc::clone(inode));
        assert!(earlier.is_none(), "two inodes have place {key} on the ring");
        key
    }

    /// Takes an inode off the ring.
    pub(super) fn leave_ring(&self, key: u64) {
        let gone = self.shared.lists.lock().ring.remove(&key);
        assert!(gone.is_some(), "an inode with pages was not on the ring");
    }

    /// Moves a visited inode to the end of the ring; returns its new key.
    pub(super) fn rotate_ring(&self, key: u64) -> u64 {
        let mut lists = self.shared.lists.lock();
        let next = lists.key();
        let inode = lists.ring.remove(&key);
        assert!(inode.is_some(), "an inode with pages was not on the ring");
        lists.ring.extend(inode.map(|inode| (next, inode)));
        next
    }

    /// Notes that an inode got its first dirty page; returns its key on the list.
    pub(super) fn join_dirty(&self, inode: &Arc<Inode>) -> u64 {
        let since = steadyfs_rt::now();
        let mut lists = self.shared.lists.lock();
        let key = lists.key();
        let was_listed = if is_structure(inode) {
            lists.dirs.insert(inode.ino, Arc::clone(inode)).is_some()
        } else {
            lists.files.insert(key, (since, Arc::clone(inode))).is_some()
        };
        assert!(!was_listed, "inode {} got its first dirty page, and was listed with some", inode.ino);
        key
    }

    /// Notes that an inode has no dirty page left.
    pub(super) fn leave_dirty(&self, inode: &Inode, key: u64) {
        let mut lists = self.shared.lists.lock();
        let was_listed = if is_structure(inode) {
            lists.dirs.remove(&inode.ino).is_some()
        } else {
            lists.files.remove(&key).is_some()
        };
        assert!(was_listed, "an inode with dirty pages was on no list");
    }

    /// Counts a change of one inode's pages from `before` to `after`, each (cached, dirty).
    pub(super) fn count(&self, inode: &Inode, before: (u64, u64), after: (u64, u64)) {
        if before != after {
            self.shared.line.write();
        }
        add(&self.shared.cached, before.0, after.0);
        add(&self.shared.dirty, before.1, after.1);
        if is_structure(inode) {
            add(&self.shared.dirty_in_dirs, before.1, after.1);
        }
    }

    /// `pages` clean pages were dropped. Most inodes that leave have none, and then all cores keep the line.
    pub(super) fn dropped(&self, pages: u64) {
        if pages == 0 {
            return;
        }
        self.shared.line.write();
        add(&self.shared.cached, pages, 0);
    }

    /// `pages` pages set off for the device.
    pub(super) fn took_off(&self, pages: u64) {
        self.shared.line.write();
        self.shared.flying.fetch_add(pages, SeqCst);
    }

    /// `pages` pages are not on their way any more, of which `arrived` have arrived.
    pub(super) fn have_ended(&self, pages: u64, arrived: u64) {
        self.shared.line.write();
        let old = self.shared.flying.fetch_sub(pages, SeqCst);
        assert!(arrived <= pages && pages <= old, "of {old} pages that had set off {pages} ended, {arrived} arrived");
        self.shared.landed.notify_all();
        self.give_turns(arrived, old == pages);
    }
}

/// Whether a checkpoint writes the inode's dirty pages: of everything that names live in. A file's contents may be lost
/// by a crash, a directory's or a symlink's may not.
fn is_structure(inode: &Inode) -> bool {
    matches!(inode.kind, FileType::Dir | FileType::Symlink)
}

fn add(counter: &AtomicU64, before: u64, after: u64) {
    if after >= before {
        counter.fetch_add(after - before, SeqCst);
    } else {
        let old = counter.fetch_sub(before - after, SeqCst);
        assert!(old >= before - after, "the page cache lost count");
    }
}
