//! Deletion of an inode when its last user goes.
//!
//! The contents go in pieces, each under a [`Change`] of its own; the inode node, its xattr node and its place in the
//! set of orphans go together in the last one.
//!
//! Relies on `inode` for telling when the last reference is gone, and on `file` for freeing contents.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::{Failed, Orphan, OrphanStats};
use crate::gate::Want;
use crate::volume::Change;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::Ino;

impl Files {
    /// See `Fs::reap`.
    pub(crate) fn reap(&self) -> Result<()> {
        let mut result = Ok(());
        for ino in self.inodes.queue.take() {
            let Some(inode) = self.inodes.claim(ino) else { continue };
            result = result.and(self.delete_or_keep(inode));
        }
        result
    }

    /// See `Fs::hold`.
    pub(crate) fn hold(&self, inode: &InodeRef) {
        self.orphans.hold(&inode.inode);
    }

    /// See `Fs::release`.
    pub(crate) fn release(&self, ino: Ino) {
        if !self.orphans.is_held(ino) {
            return;
        }
        match self.inode(ino) {
            Ok(inode) => self.orphans.let_go(&inode.inode),
            Err(error) => {
                tracing::warn!(%ino, %error, "an unlinked inode cannot be deleted yet");
                self.orphans.let_go_unread(ino);
            }
        }
    }

    /// As [`Files::reap`], once more for those that could not be deleted.
    pub(crate) fn reap_again(&self) {
        let failed = self.orphans.take_failed();
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

    /// Gives back the reference of who took the inode's last name. Deletes the inode if nobody else uses it, and others
    /// that are to be deleted; a failure is not the caller's. Hold no lock when calling.
    pub(crate) fn reap_own(&self, own: Option<InodeRef>) {
        let claimed = own.and_then(|own| self.inodes.claim_own(own));
        if let Some(Err(error)) = claimed.map(|inode| self.delete_or_keep(inode)) {
            tracing::warn!(%error, "an unlinked inode could not be deleted");
        }
        self.reap_quietly();
    }

    fn delete_or_keep(&self, inode: Arc<Inode>) -> Result<()> {
        self.delete_inode(&inode).inspect_err(|_| self.orphans.keep(Failed::Claimed(inode)))
    }

    /// See `Fs::orphan_stats`.
    pub(crate) fn orphan_stats(&self) -> OrphanStats {
        self.orphans.stats()
    }

    /// As [`Files::reap`], for operations that have done their own part: a failure is not theirs.
    pub(crate) fn reap_quietly(&self) {
        if let Err(error) = self.reap() {
            tracing::warn!(%error, "an unlinked inode could not be deleted");
        }
    }

    /// Deletes an inode that was claimed, piece by piece.
    fn delete_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        let (users, unlinked) = (inode.users(), inode.unlinked.load(SeqCst));
        assert!(users == 0 && unlinked, "inode {} is deleted and has {users} users", inode.ino);
        self.drop_contents(inode)?;
        let change = self.gate.begin(Want::to_free())?;
        self.free_inode(&change, inode)?;
        self.orphans.remove(inode.ino);
        Ok(())
    }

    /// Frees the nodes of an inode without contents and forgets it.
    pub(crate) fn free_inode(&self, change: &Change<'_>, inode: &Arc<Inode>) -> Result<()> {
        if let Some(node) = self.vol.xattr_node(inode)? {
            self.vol.free_xattr_node(change, inode, &node)?;
        }
        let dirty = self.budget.cache(inode).dirty_count();
        assert_eq!(dirty, 0, "inode {} is freed before {dirty} of its pages, which would be written", inode.ino);
        let node = inode.node.write(&self.vol.nodes);
        if node.is_dead() {
            return Err(Error::corrupt(format!("inode {} was freed twice", inode.ino)));
        }
        self.vol.free_node(node)?;
        assert!(inode.node.read().is_dead(), "inode {} leaves the table, and its node lives", inode.ino);
        self.inodes.remove(inode);
        Ok(())
    }

    /// Takes over the orphans that the last mount left; the next [`Files::reap`] deletes them.
    ///
    /// One that cannot be loaded, or has a name after all, is left to fsck: the former stays in the set, so that the
    /// volume stays as it is.
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

    /// Loads a listed orphan, to be deleted by the next [`Files::reap`].
    fn adopt_orphan(&self, ino: Ino) -> Result<()> {
        match self.inodes.load_orphan(&self.vol, &self.budget, &self.orphans, ino) {
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
