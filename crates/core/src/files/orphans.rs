//! Inodes without a name that are still in use, and the deletion of an inode when its last user goes.
//!
//! Kept true: an inode whose link count is zero is in [`Orphans`] until its node is freed, and the checkpoint writes that set
//! down, so a crash at any moment leaves either the whole inode listed as an orphan or no inode at all. The contents go in pieces, each under a
//! [`Change`](crate::volume::Change) of its own; the inode node, its xattr node and its place in the set go together in the last
//! one. Format: section 13.
//!
//! Relies on `inode` for telling when the last reference is gone, and on `file` for freeing contents.

use crate::error::{Error, Result};
use crate::files::inode::Inode;
use crate::fs::Fs;
use crate::locks;
use crate::volume::Change;
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
enum Failed {
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
    /// [`Error::NoSpace`] if a checkpoint could not write one more down; damage, if the inode had a name beyond its last one.
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

    fn keep(&self, failed: Failed) {
        self.failed.lock().push(failed);
    }

    fn stats(&self) -> OrphanStats {
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

impl Fs {
    /// Deletes inodes whose last user went while they had no link. Hold no lock when calling.
    ///
    /// Every operation that can leave such inodes does this, and so does the housekeeper; a front end that drops references by itself may.
    ///
    /// # Errors
    /// The first failure; the other inodes are still seen to. One that could not be deleted stays an orphan, and is tried again by [`Fs::sync`], before
    /// periodic checkpoints, when the volume is unmounted, and by the next mount.
    pub fn reap(&self) -> Result<()> {
        let mut result = Ok(());
        for ino in self.inodes.queue.take() {
            let Some(inode) = self.inodes.claim(ino) else { continue };
            result = result.and(self.delete_or_keep(inode));
        }
        result
    }

    /// As [`Fs::reap`], once more for those that could not be deleted.
    pub(crate) fn reap_again(&self) {
        let failed = std::mem::take(&mut *self.orphans.failed.lock());
        for failed in failed {
            let tried = match failed {
                Failed::Unread(ino) => self.adopt_orphan(ino),
                Failed::Claimed(inode) => self.delete_or_keep(inode),
            };
            if let Err(error) = tried {
                tracing::debug!(%error, "an unlinked inode can still not be deleted");
            }
        }
        self.reap_quietly();
    }

    fn delete_or_keep(&self, inode: Arc<Inode>) -> Result<()> {
        self.delete_inode(&inode).inspect_err(|_| self.orphans.keep(Failed::Claimed(inode)))
    }

    /// How many inodes without a name there are.
    pub fn orphan_stats(&self) -> OrphanStats {
        self.orphans.stats()
    }

    /// As [`Fs::reap`], for operations that have done their own part: a failure is not theirs.
    pub(crate) fn reap_quietly(&self) {
        if let Err(error) = self.reap() {
            tracing::warn!(%error, "an unlinked inode could not be deleted");
        }
    }

    /// Deletes an inode that was claimed, piece by piece.
    fn delete_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        self.drop_contents(inode)?;
        let change = self.change_to_free()?;
        self.free_inode(&change, inode)?;
        self.orphans.remove(inode.ino);
        Ok(())
    }

    /// Frees the nodes of an inode without contents and forgets it.
    pub(crate) fn free_inode(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<()> {
        if let Some(node) = self.xattr_node(inode)? {
            self.free_xattr_node(change, inode, &node)?;
        }
        let node = inode.node.write(&self.vol.nodes);
        if node.is_dead() {
            return Err(Error::corrupt(format!("inode {} was freed twice", inode.ino)));
        }
        self.vol.free_node(node)?;
        self.inodes.remove(inode);
        Ok(())
    }

    /// Takes over the orphans that the last mount left; the next [`Fs::reap`] deletes them.
    ///
    /// One that cannot be loaded, or has a name after all, is left to fsck: the former stays in the set, so that the volume stays as it is.
    pub(crate) fn adopt_orphans(&self, inos: &[Ino]) -> Result<()> {
        for &ino in inos {
            if self.orphans.get(ino).is_some() {
                continue;
            }
            self.orphans.add(ino, Orphan::Unlinked)?;
            if let Err(error) = self.adopt_orphan(ino) {
                tracing::warn!(%ino, %error, "an orphan cannot be deleted");
            }
        }
        Ok(())
    }

    /// Loads a listed orphan, to be deleted by the next [`Fs::reap`].
    fn adopt_orphan(&self, ino: Ino) -> Result<()> {
        match self.load_orphan(ino) {
            Ok(_queued_when_dropped) => Ok(()),
            Err(Error::NotFound) => {
                tracing::warn!(%ino, "listed as an orphan, but it has names or does not exist");
                self.orphans.remove(ino);
                Ok(())
            }
            Err(error) => {
                self.orphans.keep(Failed::Unread(ino));
                Err(error)
            }
        }
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
