//! Inodes without a name that are still in use.
//!
//! Kept true: an inode whose link count is zero is in [`Orphans`] until its node is freed, and the checkpoint writes
//! that set down, so a crash at any moment leaves either the whole inode listed as an orphan or no inode at all.
//! Format section 13.

use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::locks;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use steadyfs_format::Ino;
use steadyfs_rt::{Mutex, SharedLine};

const SHARDS: usize = 64;

/// Why an inode has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Its last name was removed: it can never have one again.
    Unlinked,
    /// It was made without a name and may still be given one.
    Unnamed,
}

/// Counts of orphans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OrphanStats {
    /// Inodes without a name that the next checkpoint lists.
    pub listed: u64,
    /// Of those, the ones that could not be deleted: they are tried again, in this mount or a later one.
    pub kept: u64,
}

/// The set of orphans, in parts by number.
pub(crate) struct Orphans {
    shards: Box<[Mutex<HashMap<Ino, Orphan>>]>,
    /// How many there are.
    count: AtomicUsize,
    line: SharedLine,
    /// How many a checkpoint pack has room for.
    limit: usize,
    failed: Mutex<Vec<Failed>>,
}

/// An orphan that could not be deleted, to be tried again.
pub(super) enum Failed {
    /// It could not be read.
    Unread(Ino),
    /// It was claimed, which nobody can do twice, and is deleted in part.
    Claimed(Arc<Inode>),
}

impl Orphans {
    /// An empty set; a checkpoint can write down `limit` inodes.
    pub(crate) fn new(limit: usize) -> Self {
        Orphans {
            shards: (0..SHARDS).map(|_| Mutex::new(&locks::LISTS, HashMap::new())).collect(),
            count: AtomicUsize::new(0),
            line: SharedLine::new(),
            limit,
            failed: Mutex::new(&locks::LISTS, Vec::new()),
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Orphan>> {
        &self.shards[ino.index() % SHARDS]
    }

    /// Adds an inode that has no name, or is about to lose the last one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if a checkpoint could not write one more down; damage, if the inode had a name beyond its
    /// last one.
    pub(crate) fn add(&self, ino: Ino, why: Orphan) -> Result<()> {
        let mut shard = self.shard(ino).lock();
        if shard.contains_key(&ino) {
            return Err(Error::corrupt(format!("inode {ino} has more names than links")));
        }
        self.line.write();
        let room = self.count.fetch_update(SeqCst, SeqCst, |count| (count < self.limit).then_some(count + 1));
        room.map_err(|_| Error::NoSpace)?;
        shard.insert(ino, why);
        Ok(())
    }

    /// Takes an inode out: it has a name again, or it is gone.
    pub(crate) fn remove(&self, ino: Ino) {
        let old = self.shard(ino).lock().remove(&ino);
        assert!(old.is_some(), "{ino:?} is no orphan");
        self.line.write();
        self.count.fetch_sub(1, SeqCst);
    }

    /// Whether the inode has no name, and why.
    pub(crate) fn get(&self, ino: Ino) -> Option<Orphan> {
        self.shard(ino).lock().get(&ino).copied()
    }

    /// An inode is to be tried again.
    pub(super) fn keep(&self, failed: Failed) {
        if let Failed::Claimed(inode) = &failed {
            assert_eq!(inode.users(), 0, "inode {} is used and deleted in part", inode.ino);
        }
        self.failed.lock().push(failed);
    }

    /// Those to be tried again, which leaves none.
    pub(super) fn take_failed(&self) -> Vec<Failed> {
        std::mem::take(&mut *self.failed.lock())
    }

    /// How many there are.
    pub(super) fn stats(&self) -> OrphanStats {
        let listed = self.count.load(SeqCst) as u64;
        OrphanStats { listed, kept: self.failed.lock().len() as u64 }
    }

    /// The orphans in rising order, for a checkpoint; consistent under the exclusive checkpoint lock.
    pub(crate) fn list(&self) -> Vec<Ino> {
        let mut inos: Vec<Ino> =
            self.shards.iter().flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>()).collect();
        inos.sort_unstable();
        inos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_bounded_and_sorted() {
        let orphans = Orphans::new(2);
        orphans.add(Ino(9), Orphan::Unlinked).unwrap();
        orphans.add(Ino(5), Orphan::Unnamed).unwrap();
        assert!(matches!(orphans.add(Ino(6), Orphan::Unlinked), Err(Error::NoSpace)));
        assert_eq!(orphans.list(), [Ino(5), Ino(9)]);
        assert_eq!((orphans.get(Ino(5)), orphans.get(Ino(6))), (Some(Orphan::Unnamed), None));
        orphans.remove(Ino(9));
        orphans.add(Ino(6), Orphan::Unlinked).unwrap();
        assert_eq!(orphans.list(), [Ino(5), Ino(6)]);
    }
}
