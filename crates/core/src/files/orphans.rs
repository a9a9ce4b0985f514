//! Inodes without a name that are still in use.
//!
//! Kept true: an inode whose link count is zero is in [`Orphans`] until its node is freed. The checkpoint writes that
//! set down (format section 13). So a crash at any moment leaves either the whole inode listed as an orphan or no inode
//! at all.
//!
//! Each core has a part of the room in the checkpoint pack at hand, so that removals on several cores meet nowhere.

use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::locks;
use std::sync::Arc;
use steadyfs_format::Ino;
use steadyfs_format::numbers::NumberMap;
use steadyfs_rt::{Mutex, Portions};

const SHARDS: usize = 64;
/// Inodes for which a core has room at hand.
const PORTION: u64 = 64;

/// Why an inode has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Its last name was removed: it can never have one again.
    Unlinked,
    /// It was made without a name and may still be given one.
    Unnamed,
}

/// An orphan.
#[derive(Clone, Copy, Debug)]
struct Entry {
    why: Orphan,
    /// Somebody outside knows it by number ([`Files::hold`]): then the first checkpoint without its
    /// last name, which its inode in memory may forget.
    held: Option<u64>,
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
    shards: Box<[Mutex<NumberMap<Ino, Entry>>]>,
    /// In the checkpoint pack.
    room: Portions,
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
            shards: (0..SHARDS).map(|_| Mutex::new(&locks::ORPHANS, NumberMap::default())).collect(),
            room: Portions::new(&locks::ORPHAN_ROOM, limit as u64, 0, PORTION),
            failed: Mutex::new(&locks::ORPHANS, Vec::new()),
        }
    }

    fn shard(&self, ino: Ino) -> &Mutex<NumberMap<Ino, Entry>> {
        &self.shards[ino.index() % SHARDS]
    }

    /// Adds an inode that has no name, or is about to lose the last one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if a checkpoint could not write one more down; damage, if the inode had a name beyond its
    /// last one.
    pub(crate) fn add(&self, ino: Ino, why: Orphan) -> Result<()> {
        if !self.room.take(1) {
            return Err(Error::NoSpace);
        }
        let mut shard = self.shard(ino).lock();
        if shard.contains_key(&ino) {
            drop(shard);
            self.room.give(1);
            return Err(Error::corrupt(format!("inode {ino} has more names than links")));
        }
        shard.insert(ino, Entry { why, held: None });
        Ok(())
    }

    /// Takes an inode out: it has a name again, or it is gone.
    pub(crate) fn remove(&self, ino: Ino) {
        let old = self.shard(ino).lock().remove(&ino);
        assert!(old.is_some(), "{ino:?} is no orphan");
        self.room.give(1);
    }

    /// Whether the inode has no name, and why.
    pub(crate) fn get(&self, ino: Ino) -> Option<Orphan> {
        self.shard(ino).lock().get(&ino).map(|entry| entry.why)
    }

    /// Whether somebody outside knows it by number.
    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|entry| entry.held.is_some())
    }

    /// Notes that somebody outside knows an orphan by number, here and in its inode. Nothing if it is none.
    pub(super) fn hold(&self, inode: &Inode) {
        if let Some(entry) = self.shard(inode.ino).lock().get_mut(&inode.ino) {
            entry.held = Some(inode.hold());
        }
    }

    /// Takes back what [`Orphans::hold`] noted.
    pub(super) fn let_go(&self, inode: &Inode) {
        let mut shard = self.shard(inode.ino).lock();
        inode.let_go();
        shard.get_mut(&inode.ino).map(|entry| entry.held.take());
    }

    /// As [`Orphans::let_go`], of one that cannot be loaded: it is tried again.
    pub(super) fn let_go_unread(&self, ino: Ino) {
        if self.shard(ino).lock().get_mut(&ino).and_then(|entry| entry.held.take()).is_some() {
            self.keep(Failed::Unread(ino));
        }
    }

    /// Tells an inode that comes into memory, and nobody knows yet, what is noted of it.
    pub(super) fn remind(&self, inode: &Inode) {
        if let Some(Entry { held: Some(nameless_from), .. }) = self.shard(inode.ino).lock().get(&inode.ino) {
            inode.recall_held(*nameless_from);
        }
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
        let listed = self.shards.iter().map(|shard| shard.lock().len() as u64).sum();
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
