//! Names of files that were made after the checkpoint and fsynced.

use super::Recovery;
use crate::error::{Error, Result};
use crate::files::attr::times::{clock, touch_contents};
use crate::files::dir::{FoundEntry, Search};
use crate::files::inode::{Inode, InodeRef};
use crate::files::namei::{drop_directory, drop_link};
use crate::files::orphans::Orphan;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::Ino;
use steadyfs_format::dir::{FileType, is_valid_name};
use steadyfs_format::inode::{Inode as RawInode, MAX_NAME};
use steadyfs_format::quote::quote;

/// What a name means to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The inode is new: so is its name.
    New,
    /// The checkpoint has the inode, under the name that it has: who gives it another one makes a checkpoint before its
    /// fsync.
    Known,
}

impl Recovery<'_> {
    /// Makes the name that an inode block holds lead to the inode. The inode that had the name loses it.
    pub(super) fn recover_name(&self, inode: &InodeRef, raw: &RawInode, known: Name) -> Result<()> {
        let (ino, name) = (inode.ino(), raw.name().to_vec());
        if raw.name_len() as usize != name.len() || !is_valid_name(&name) {
            return Err(Error::corrupt(format!("inode {ino} was fsynced under an impossible name")));
        }
        if inode.inode.read(RawInode::links)? == 0 {
            return Err(Error::corrupt(format!("inode {ino} was fsynced after another one took its only name")));
        }
        let parent = self.parent_of(inode, raw)?;
        let dir = &parent.inode;
        // No inode is locked: the mount is the only one there is, and a change is in progress already.
        match self.files.dir_search(dir, &name)? {
            Search::Found(found) if found.ino == ino => return Ok(()),
            _ if known == Name::Known => {
                let name = quote(&name);
                return Err(Error::corrupt(format!(
                    "inode {ino} was fsynced under the name {name}, which it does not have"
                )));
            }
            Search::Found(found) => {
                let loser = self.files.changeable_inode(dir, found)?;
                self.files.dir_retarget(self.change, dir, found.place, ino, inode.kind())?;
                self.take_name(dir, &name, found, &loser)?;
            }
            Search::Missing(room) => self.files.dir_insert(self.change, dir, room, &name, ino, inode.kind())?,
        }
        self.files.vol.edit_inode(self.change, dir, |raw| touch_contents(raw, clock()))?;
        self.files.vol.edit_inode(self.change, &inode.inode, |raw| {
            raw.set_pino(dir.ino);
            raw.set_name(&name)
        })??;
        Ok(())
    }

    /// Makes a name lead to an inode, or to nothing, as a record of the journal says. Links have records of their own.
    pub(super) fn apply_name(&self, dir: &InodeRef, name: &[u8], target: Option<(Ino, FileType)>) -> Result<()> {
        let dir = &dir.inode;
        match (self.files.dir_search(dir, name)?, target) {
            (Search::Found(found), Some((ino, _))) if found.ino == ino => Ok(()),
            (Search::Found(found), Some((ino, kind))) => {
                self.files.dir_retarget(self.change, dir, found.place, ino, kind)
            }
            (Search::Found(found), None) => self.files.dir_remove(self.change, dir, found.place),
            (Search::Missing(room), Some((ino, kind))) => {
                self.files.dir_insert(self.change, dir, room, name, ino, kind)
            }
            (Search::Missing(_), None) => Ok(()),
        }
    }

    fn parent_of(&self, inode: &InodeRef, raw: &RawInode) -> Result<InodeRef> {
        let (ino, pino) = (inode.ino(), raw.pino());
        let parent = self.files.inode(pino).map_err(|e| match e {
            Error::NotFound => {
                Error::corrupt(format!("inode {ino} was fsynced in directory {pino}, which does not exist"))
            }
            other => other,
        })?;
        let usable = parent.kind() == FileType::Dir && parent.inode.read(RawInode::links)? > 0;
        if usable {
            Ok(parent)
        } else {
            Err(Error::corrupt(format!("inode {ino} was fsynced in inode {pino}, which is no directory")))
        }
    }

    /// An inode has lost its entry in `dir`.
    fn take_name(&self, dir: &Arc<Inode>, name: &[u8], found: FoundEntry, loser: &InodeRef) -> Result<()> {
        let now = clock();
        if loser.kind() == FileType::Dir {
            if !self.files.dir_is_empty(&loser.inode)? {
                return self.name_anew(dir, name, loser);
            }
            self.files.vol.edit_inode(self.change, dir, |raw| raw.set_links(raw.links().saturating_sub(1).max(2)))?;
            self.files.vol.edit_inode(self.change, &loser.inode, |raw| drop_directory(raw, now))?;
        } else {
            self.files.vol.edit_inode(self.change, &loser.inode, |raw| drop_link(raw, now))?;
        }
        assert_eq!(found.ino, loser.ino(), "the loser is the one that was found");
        if loser.inode.read(RawInode::links)? == 0 {
            self.files.orphans.add(loser.ino(), Orphan::Unlinked)?;
            loser.inode.unlinked.store(true, SeqCst);
        }
        Ok(())
    }

    /// Gives a directory that has entries another name in the same place: its own, with its number.
    fn name_anew(&self, dir: &Arc<Inode>, name: &[u8], loser: &InodeRef) -> Result<()> {
        let mark = format!(".recovered-{}", loser.ino());
        let kept = name.len().min(MAX_NAME - mark.len());
        let fresh = [&name[..kept], mark.as_bytes()].concat();
        let Search::Missing(room) = self.files.dir_search(dir, &fresh)? else {
            return Err(Error::corrupt(format!("no name is left for directory {}", loser.ino())));
        };
        self.files.dir_insert(self.change, dir, room, &fresh, loser.ino(), FileType::Dir)?;
        self.files.vol.edit_inode(self.change, &loser.inode, |raw| raw.set_name(&fresh))??;
        Ok(())
    }
}
