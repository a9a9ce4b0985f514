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
use steadyfs_format::Ino;
use steadyfs_rt::Mutex;

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

/// The set of orphans.
pub(crate) struct Orphans {
    set: Mutex<HashMap<Ino, Orphan>>,
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
        Orphans { set: Mutex::new(&locks::LISTS, HashMap::new()), limit, failed: Mutex::new(&locks::LISTS, Vec::new()) }
    }

    /// Adds an inode that has no name, or is about to lose the last one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if a checkpoint could not write one more down; damage, if the inode had a name beyond its
    /// last one.
    pub(crate) fn add(&self, ino: Ino, why: Orphan) -> Result<()> {
        let mut set = self.set.lock();
        if set.contains_key(&ino) {
            return Err(Error::corrupt(format!("inode {ino} has more names than links")));
        }
        if set.len() >= self.limit {
            return Err(Error::NoSpace);
        }
        set.insert(ino, why);
        Ok(())
    }

    /// Takes an inode out: it has a name again, or it is gone.
    pub(crate) fn remove(&self, ino: Ino) {
        let old = self.set.lock().remove(&ino);
        assert!(old.is_some(), "{ino:?} is no orphan");
    }

    /// Whether the inode has no name, and why.
    pub(crate) fn get(&self, ino: Ino) -> Option<Orphan> {
        self.set.lock().get(&ino).copied()
    }

    /// An inode is to be tried again.
    pub(super) fn keep(&self, failed: Failed) {
        self.failed.lock().push(failed);
    }

    /// Those to be tried again, which leaves none.
    pub(super) fn take_failed(&self) -> Vec<Failed> {
        std::mem::take(&mut *self.failed.lock())
    }

    /// How many there are.
    pub(super) fn stats(&self) -> OrphanStats {
        let listed = self.set.lock().len() as u64;
        OrphanStats { listed, kept: self.failed.lock().len() as u64 }
    }

    /// The orphans in rising order, for a checkpoint; consistent under the exclusive checkpoint lock.
    pub(crate) fn list(&self) -> Vec<Ino> {
        let mut inos: Vec<Ino> = self.set.lock().keys().copied().collect();
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
