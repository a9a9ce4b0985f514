//! What the nodes of each inode have gone through since the last freeze: which are dirty, and how far its fsyncs have
//! got.
//!
//! Kept true: a node is listed here exactly while it is dirty. It leaves the list under its own lock, at the moment it
//! takes its place in a log. So a node that is not listed has its place, and a thread that looks at several of them one
//! after the other misses none. The rest of a record is for fsync (format section 12): it compares places in the
//! warm-node log, so it matters only until the next freeze, which forgets it.

use crate::locks;
use crate::volume::nodes::cache::Node;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use steadyfs_format::numbers::NumberMap;
use steadyfs_format::{Ino, Nid};
use steadyfs_rt::{Mutex, SharedLine, SplitCount};

const SHARDS: usize = 64;
/// Nodes that a core counts for itself.
const STRIDE: u32 = 64;

/// What happened to an inode's nodes since the last freeze.
#[derive(Default)]
struct Record {
    /// The inode was made since the freeze: the checkpoint in force does not know it.
    born: bool,
    /// An inode block with the mark that brings its name along is in the chain.
    introduced: bool,
    /// A node of it was freed that had been written: recovery, which goes by what is in the chain, would keep it.
    reduced: bool,
    /// Serial of the last block of the warm-node log that holds a node without fsync mark; 0 for none.
    unmarked: u64,
    /// The same of nodes with the mark.
    marked: u64,
}

/// What an fsync needs to know about an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The checkpoint in force does not know the inode.
    pub(crate) born: bool,
    /// Its name is in the chain.
    pub(crate) introduced: bool,
    /// A node was freed that recovery would keep.
    pub(crate) reduced: bool,
    /// Some node of it is in the log behind the last one with an fsync mark.
    pub(crate) unmarked: bool,
}

/// Whether an inode was made since the last freeze, kept for callers that ask often: between two freezes it never
/// changes.
#[derive(Debug, Default)]
pub(crate) struct KnownBirth(AtomicU64);

/// The marks of a node that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) fsync: bool,
    pub(crate) dentry: bool,
}

#[derive(Default)]
struct Shard {
    /// In rising order, for neighbouring places. Apart from the records, of which there are many more during a
    /// checkpoint.
    dirty: BTreeMap<Ino, BTreeMap<Nid, Arc<Node>>>,
    records: NumberMap<Ino, Record>,
    /// Inodes whose last image has less than their size, dirty or not: kept here, since a node read back would have the
    /// wrong size.
    cut: BTreeMap<Ino, Arc<Node>>,
}

/// Records that nobody needs any more.
pub(crate) struct Forgotten(#[expect(dead_code, reason = "dropped, not read")] Vec<NumberMap<Ino, Record>>);

/// Records of all inodes with any.
pub(crate) struct Dirt {
    shards: Box<[Mutex<Shard>]>,
    count: SplitCount,
    /// From one freeze to the next: at least 1.
    epoch: AtomicU64,
    /// Inodes in all the maps of those that were cut.
    cut: AtomicUsize,
    /// Of that count.
    line: SharedLine,
}

impl Dirt {
    /// Nothing is dirty.
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(&locks::DIRTY_NODES, Shard::default())).collect();
        let (count, epoch) = (SplitCount::new(STRIDE), AtomicU64::new(1));
        Dirt { shards, count, epoch, cut: AtomicUsize::new(0), line: SharedLine::new() }
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        &self.shards[ino.index() % SHARDS]
    }

    /// Dirty nodes.
    pub(crate) fn count(&self) -> usize {
        self.count.total() as usize
    }

    /// No fewer than are dirty, without a look at what each core has counted.
    pub(crate) fn at_most(&self) -> usize {
        self.count.at_most() as usize
    }

    /// Lists a node that has become dirty. Its lock is held, or nobody else knows it yet.
    pub(crate) fn add(&self, ino: Ino, node: &Arc<Node>) {
        let mut shard = self.shard(ino).lock();
        let old = shard.dirty.entry(ino).or_default().insert(node.nid, Arc::clone(node));
        assert!(old.is_none(), "{:?} became dirty twice", node.nid);
        self.count.add(1);
    }

    /// Takes a node off the list: it has a place, or was freed. Its lock is held.
    pub(crate) fn remove(&self, ino: Ino, nid: Nid) {
        let mut shard = self.shard(ino).lock();
        let nodes = shard.dirty.get_mut(&ino);
        let last = nodes.as_ref().is_some_and(|nodes| nodes.len() == 1);
        let old = nodes.and_then(|nodes| nodes.remove(&nid));
        assert!(old.is_some(), "{nid:?} was dirty and not listed");
        if last {
            shard.dirty.remove(&ino);
        }
        self.count.add(-1);
    }

    /// The nodes that are dirty now; they stay listed.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        let mut out = Vec::with_capacity(self.count());
        for shard in &self.shards {
            out.extend(shard.lock().dirty.values().flat_map(|nodes| nodes.values().cloned()));
        }
        out
    }

    /// The dirty nodes of one inode; they stay listed.
    pub(crate) fn of(&self, ino: Ino) -> Vec<Arc<Node>> {
        let shard = self.shard(ino).lock();
        shard.dirty.get(&ino).map_or_else(Vec::new, |nodes| nodes.values().cloned().collect())
    }

    /// Notes whether the last image of an inode has less than its size. Its lock is held.
    pub(crate) fn note_cut(&self, ino: Ino, node: &Arc<Node>, is_cut: bool) {
        let mut shard = self.shard(ino).lock();
        self.line.write();
        if is_cut {
            let new = shard.cut.insert(ino, Arc::clone(node)).is_none();
            self.cut.fetch_add(usize::from(new), SeqCst);
        } else {
            let old = shard.cut.remove(&ino).is_some();
            let before = self.cut.fetch_sub(usize::from(old), SeqCst);
            assert!(before >= usize::from(old), "more sizes were told than had been cut");
        }
    }

    /// Inodes of whose size another image would say more than the last one.
    pub(crate) fn behind(&self) -> Vec<Arc<Node>> {
        if self.cut.load(SeqCst) == 0 {
            return Vec::new();
        }
        let mut out = Vec::new();
        for shard in &self.shards {
            out.extend(shard.lock().cut.values().filter(|node| node.disk_size.is_behind()).cloned());
        }
        out
    }

    /// Notes that an inode was made.
    pub(crate) fn note_birth(&self, ino: Ino) {
        self.shard(ino).lock().records.entry(ino).or_default().born = true;
    }

    /// Notes that a node of the inode was freed that had been written.
    pub(crate) fn note_reduction(&self, ino: Ino) {
        self.shard(ino).lock().records.entry(ino).or_default().reduced = true;
    }

    /// Notes that a node of the inode took the place with this serial in the warm-node log.
    pub(crate) fn note_place(&self, ino: Ino, serial: u64, marks: Marks) {
        let mut shard = self.shard(ino).lock();
        let record = shard.records.entry(ino).or_default();
        assert!(serial > 0, "0 stands for no block of the log");
        assert!(record.born || !marks.dentry, "inode {ino} is introduced, and the checkpoint in force knows it");
        let last = if marks.fsync { &mut record.marked } else { &mut record.unmarked };
        *last = (*last).max(serial);
        record.introduced |= marks.dentry;
    }

    /// Notes that the node in this place lost its marks on the way there.
    pub(crate) fn note_unmarked(&self, ino: Ino, serial: u64) {
        let mut shard = self.shard(ino).lock();
        // A freeze may have forgotten it.
        let record = shard.records.get_mut(&ino).filter(|record| record.marked == serial);
        if let Some(record) = record {
            (record.marked, record.introduced) = (0, false);
            record.unmarked = record.unmarked.max(serial);
        }
    }

    /// How the inode stands.
    pub(crate) fn standing(&self, ino: Ino) -> Standing {
        let shard = self.shard(ino).lock();
        shard.records.get(&ino).map_or_else(Standing::default, |record| Standing {
            born: record.born,
            introduced: record.introduced,
            reduced: record.reduced,
            unmarked: record.unmarked > record.marked,
        })
    }

    /// As [`Dirt::standing`] says whether the inode was born, for who changes the volume. The shard is looked at once
    /// in an epoch.
    pub(crate) fn is_born(&self, ino: Ino, known: &KnownBirth) -> bool {
        let epoch = self.epoch.load(SeqCst);
        let (then, known_born) = known.get();
        if then == epoch {
            return known_born;
        }
        let born = self.standing(ino).born;
        known.set(epoch, born);
        born
    }

    /// The inode was made by who asks, in the change that still goes on.
    pub(crate) fn know_birth(&self, known: &KnownBirth) {
        known.set(self.epoch.load(SeqCst), true);
    }

    /// Forgets everything: the volume is frozen and everything has been written. The records are for the caller to drop
    /// when nobody waits any more. Nothing is forgotten, and `None` returned, if something is dirty.
    pub(crate) fn forget(&self) -> Option<Forgotten> {
        let dirty = self.count.sum();
        assert!(dirty >= 0, "more nodes became clean than were dirty: {dirty}");
        let take = |shard: &Mutex<Shard>| std::mem::take(&mut shard.lock().records);
        (dirty == 0).then(|| {
            self.epoch.fetch_add(1, SeqCst);
            Forgotten(self.shards.iter().map(take).collect())
        })
    }
}

impl KnownBirth {
    fn get(&self) -> (u64, bool) {
        let word = self.0.load(SeqCst);
        (word >> 1, word & 1 != 0)
    }

    fn set(&self, epoch: u64, born: bool) {
        self.0.store(epoch << 1 | u64::from(born), SeqCst);
    }
}
