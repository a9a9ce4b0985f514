//! What the kernel knows: per inode how often it was told of it, by how many open files it may write, and what it lost
//! of the contents.
//!
//! The kernel counts every reply that names an inode, and gives the counts back with FORGET when its own inode goes. An
//! inode without links must live as long as the kernel knows it (an open file, a working directory), so the file system
//! holds it by its number, and is told to let go; one with links needs no holding. So a table entry is a few words
//! however many inodes the kernel caches and users keep open, and the file system's own caches stay bounded.
//!
//! Kept true: an entry exists while a count of it is not zero. The file system holds an inode if it is marked here, but
//! for a moment. So a thread that marks looks again after holding, and one that lets go looks again after letting go.

use super::handles::Opened;
use super::lost::Lost;
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use steadyfs_format::numbers::NumberMap;
use steadyfs_rt::{LockClass, Mutex};

static NODES: LockClass = LockClass::new("fuse_nodes_lock", 6);

const SHARDS: usize = 64;

#[derive(Default)]
struct Known {
    /// Times that a reply named the inode, less what was forgotten.
    lookups: u64,
    /// Files open for writing.
    writers: u32,
    /// Files open so that the kernel caches what they read and write.
    cachers: u32,
    /// What the kernel has read for its cache lies in here, if it was not dropped since.
    cached: Range<u64>,
    /// While it was open for writing the kernel was told of blocks that are a guess.
    guessed: bool,
    /// It had no links: the file system holds it.
    held: bool,
    /// Contents that were refused when the kernel wrote them back.
    lost: Option<Box<Lost>>,
}

impl Known {
    /// What was lost of a file outlives the kernel's inode, but not the file.
    fn is_nothing(&self) -> bool {
        self.lookups == 0 && self.writers == 0 && self.cachers == 0 && (self.lost.is_none() || self.held)
    }
}

/// What an open file leaves behind when it is closed.
pub(super) struct Closed {
    /// The kernel knows the inode no more, and the file system holds it.
    pub(super) held: bool,
    /// It was the last one that could write, and the kernel goes by blocks that were a guess.
    pub(super) guessed: bool,
}

/// The table, by inode number.
pub(crate) struct Nodes {
    shards: Box<[Mutex<NumberMap<u32, Known>>]>,
    /// Something was lost at some time; until then nobody looks for it.
    any_lost: AtomicBool,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Nodes {
            shards: (0..SHARDS).map(|_| Mutex::new(&NODES, NumberMap::default())).collect(),
            any_lost: AtomicBool::new(false),
        }
    }

    fn shard(&self, ino: u32) -> &Mutex<NumberMap<u32, Known>> {
        &self.shards[ino as usize % SHARDS]
    }

    /// Counts a reply that names an inode. To be called before its attributes are read: whoever then finds that it has
    /// no links calls [`Nodes::unlinked`], and whoever removes its last link meanwhile finds it here.
    pub(crate) fn named(&self, ino: u32) {
        let mut shard = self.shard(ino).lock();
        let known = shard.entry(ino).or_default();
        known.lookups = known.lookups.saturating_add(1);
    }

    /// Marks an inode that has no links and that the file system is to hold. False if the kernel does not know it: then
    /// it is to be let go.
    pub(crate) fn unlinked(&self, ino: u32) -> bool {
        let mut shard = self.shard(ino).lock();
        match shard.entry(ino) {
            Entry::Occupied(_) if steadyfs_rt::mutated("unlinked-files-are-held") => false,
            Entry::Occupied(mut entry) => {
                entry.get_mut().held = true;
                let is_nothing = entry.get().is_nothing();
                if is_nothing {
                    entry.remove();
                }
                !is_nothing
            }
            Entry::Vacant(_) => false,
        }
    }

    /// Whether an inode is marked as one that the file system holds.
    pub(crate) fn is_held(&self, ino: u32) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|known| known.held)
    }

    /// Whether a file is open, if not past the kernel's cache only to be read.
    pub(super) fn is_open(&self, ino: u32) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|known| known.writers > 0 || known.cachers > 0)
    }

    /// Takes back `count` lookups. True if the kernel knows the inode no more, and the file system holds it.
    pub(crate) fn forget(&self, ino: u32, count: u64) -> bool {
        self.change(ino, |known| {
            if count > known.lookups {
                tracing::warn!(ino, count, lookups = known.lookups, "the kernel forgets more than it was told");
            }
            known.lookups = known.lookups.saturating_sub(count);
        })
    }

    /// Counts an open file.
    pub(super) fn opened(&self, ino: u32, how: Opened) {
        let mut shard = self.shard(ino).lock();
        let known = shard.entry(ino).or_default();
        known.writers = known.writers.saturating_add(how.writes.into());
        known.cachers = known.cachers.saturating_add(how.caches.into());
    }

    /// Takes an open file back.
    pub(super) fn closed(&self, ino: u32, how: Opened) -> Closed {
        let mut guessed = false;
        let held = self.change(ino, |known| {
            known.writers = known.writers.saturating_sub(how.writes.into());
            known.cachers = known.cachers.saturating_sub(how.caches.into());
            guessed = known.writers == 0 && std::mem::take(&mut known.guessed);
        });
        Closed { held, guessed }
    }

    /// Whether the kernel is to be told of blocks that nobody has counted yet: so for a file that is open for writing.
    /// Whoever closes it last then sees to it that they are forgotten.
    pub(super) fn guess_blocks(&self, ino: u32) -> bool {
        let mut shard = self.shard(ino).lock();
        let open = shard.get_mut(&ino).filter(|known| known.writers > 0);
        open.map(|known| known.guessed = true).is_some()
    }

    /// Notes that the kernel is about to read these bytes for its cache.
    pub(super) fn caches(&self, ino: u32, read: Range<u64>) {
        if let Some(known) = self.shard(ino).lock().get_mut(&ino) {
            let Range { start, end } = known.cached;
            known.cached = if start == end { read } else { start.min(read.start)..end.max(read.end) };
        }
    }

    /// What the kernel is to drop of a file of which these bytes were written past its cache, for it may have read
    /// older ones meanwhile. Everything once nobody caches any more: from then on nothing is cached.
    pub(super) fn cached_beside(&self, ino: u32, written: Range<u64>) -> Option<Range<u64>> {
        let mut shard = self.shard(ino).lock();
        let known = shard.get_mut(&ino)?;
        let old = match known.cachers {
            0 => std::mem::take(&mut known.cached),
            _ => written.start.max(known.cached.start)..written.end.min(known.cached.end),
        };
        (!old.is_empty()).then_some(old)
    }

    /// Whether a file is open for writing, so that the kernel may have newer contents than the file system.
    pub(crate) fn has_writers(&self, ino: u32) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|known| known.writers > 0)
    }

    /// The nodes of all files that are open for writing.
    pub(crate) fn all_with_writers(&self) -> Vec<u64> {
        let of = |shard: &Mutex<NumberMap<u32, Known>>| -> Vec<u64> {
            let shard = shard.lock();
            shard.iter().filter(|(_, known)| known.writers > 0).map(|(ino, _)| u64::from(*ino)).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// Notes that the kernel wrote back these bytes of an inode in vain, and why.
    pub(super) fn lose(&self, ino: u32, range: Range<u64>, why: Errno) {
        if range.is_empty() {
            return;
        }
        self.any_lost.store(true, SeqCst);
        if let Some(known) = self.shard(ino).lock().get_mut(&ino) {
            match &mut known.lost {
                Some(lost) => lost.add(range, why),
                None => known.lost = Some(Box::new(Lost::new(range, why))),
            }
        }
    }

    /// Notes that the file system holds these bytes of an inode as they should be.
    pub(super) fn found(&self, ino: u32, range: Range<u64>) {
        if !self.any_lost() {
            return;
        }
        let mut shard = self.shard(ino).lock();
        if let Entry::Occupied(mut entry) = shard.entry(ino)
            && let Some(lost) = &mut entry.get_mut().lost
        {
            // Who sets the size asks for no more than it says.
            if range.end == u64::MAX {
                lost.told();
            }
            lost.remove(range);
            if lost.why().is_none() {
                entry.get_mut().lost = None;
            }
            if entry.get().is_nothing() {
                entry.remove();
            }
        }
    }

    /// Whether an inode may have lost contents.
    pub(super) fn any_lost(&self) -> bool {
        self.any_lost.load(SeqCst)
    }

    /// The file ends at `end` for everybody now: see [`Lost::end_at`].
    pub(super) fn end_at(&self, ino: u32, end: u64) {
        if let Some(lost) = self.shard(ino).lock().get_mut(&ino).and_then(|known| known.lost.as_mut()) {
            lost.end_at(end);
        }
    }

    /// As [`Nodes::lost`], for who tells a program.
    pub(super) fn tell_lost(&self, ino: u32) -> Option<Errno> {
        let why = self.lost(ino)?;
        if let Some(lost) = self.shard(ino).lock().get_mut(&ino).and_then(|known| known.lost.as_mut()) {
            lost.told();
        }
        self.found(ino, 0..0);
        Some(why)
    }

    /// Why contents of an inode are lost, if some are.
    pub(super) fn lost(&self, ino: u32) -> Option<Errno> {
        if !self.any_lost() {
            return None;
        }
        self.shard(ino).lock().get(&ino)?.lost.as_ref()?.why()
    }

    /// Changes an entry, and removes it if nothing of it is left: true if the file system holds the inode then.
    fn change(&self, ino: u32, change: impl FnOnce(&mut Known)) -> bool {
        let mut shard = self.shard(ino).lock();
        match shard.entry(ino) {
            Entry::Occupied(mut entry) => {
                change(entry.get_mut());
                entry.get().is_nothing() && entry.remove().held
            }
            Entry::Vacant(_) => {
                tracing::warn!(ino, "the kernel lets go of an inode it was never told of");
                false
            }
        }
    }

    /// Forgets everything; what the file system holds.
    pub(crate) fn clear(&self) -> Vec<u32> {
        let all = self.shards.iter().flat_map(|shard| std::mem::take(&mut *shard.lock()));
        all.filter(|(_, known)| known.held).map(|(ino, _)| ino).collect()
    }

    /// Inodes in the table, and how many of them the file system holds.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sum = |count: &dyn Fn(&NumberMap<u32, Known>) -> usize| self.shards.iter().map(|s| count(&s.lock())).sum();
        (sum(&|shard| shard.len()), sum(&|shard| shard.values().filter(|k| k.held).count()))
    }
}
