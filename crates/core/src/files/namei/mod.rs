//! Operations on names: looking up, making, linking, removing, renaming.
//!
//! Each operation locks the directories and inodes it changes, checks everything, and then changes the volume under one
//! [`Change`](crate::volume::Change), so a checkpoint holds all of it or nothing. Steps that may fail go through a
//! [`Transaction`](transaction::Transaction), which takes them back on an error; link counts and times come last and
//! cannot fail.
//!
//! Kept true:
//! - An inode's link count is the number of its names (directories: 2 and the number of subdirectories).
//! - An inode without names is an orphan.
//! - A directory's `..` and `i_pino` name the directory that holds it.
//! - No directory is below itself.
//!
//! Permissions are the caller's: the kernel checks them for a mount.

mod birth;
mod link;
mod make;
mod rename;
mod shape;
mod transaction;

pub(crate) use link::{drop_directory, drop_link};
pub(crate) use transaction::NameChange;

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::{self, Act};
use crate::files::dir::{FoundEntry, encrypted_text};
use crate::files::inode::{Inode, InodeRef};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::dir::{FileType, is_valid_name};
use steadyfs_format::inode::{Inode as RawInode, MAX_NAME, advise, flags, inline};
use steadyfs_format::{Ino, PageIndex, ROOT_INO};

/// The longest symlink target in bytes.
const MAX_TARGET: usize = 4095;

/// Refuses what cannot be the name of a new entry, or of one to be removed. The dot entries are each operation's own
/// business.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() {
        Err(Error::NotFound)
    } else if name.len() > MAX_NAME {
        Err(Error::NameTooLong)
    } else if is_dot(name) || is_valid_name(name) {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}

/// Whether this is the name of one of the entries that every directory has.
fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Refuses a change of names in this directory.
fn check_dir(raw: &RawInode, act: Act) -> Result<()> {
    if raw.links() == 0 {
        return Err(Error::NotFound);
    }
    if raw.flags() & flags::CASEFOLD != 0 || raw.advise() & advise::ENCRYPT != 0 {
        return Err(Error::ReadOnly("names of encrypted or case-insensitive directories cannot be changed".into()));
    }
    protect::check(raw, act)
}

impl Files {
    /// See `Fs::lookup`.
    pub(crate) fn lookup(&self, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        if dir.kind() != FileType::Dir {
            return Err(Error::NotDirectory);
        }
        check_name(name)?;
        if name == b"." {
            return Ok(dir.clone());
        }
        let _dir = dir.inode.rwsem.read();
        if name == b".." {
            let parent = self.dir_parent(&dir.inode)?;
            return self.named_inode(&dir.inode, parent);
        }
        let found = self.dir_find(&dir.inode, name)?.ok_or(Error::NotFound)?;
        self.linked_inode(&dir.inode, found.ino)
    }

    /// The inode that an entry names: it must exist.
    fn named_inode(&self, dir: &Inode, ino: Ino) -> Result<InodeRef> {
        self.inode(ino).map_err(|e| match e {
            Error::NotFound => Error::corrupt(format!("directory {} names inode {ino}, which does not exist", dir.ino)),
            other => other,
        })
    }

    /// As [`Files::named_inode`], for an entry other than `..`: what it names has links. The last name and the mark
    /// that says so change together, under the lock of the directory.
    fn linked_inode(&self, dir: &Inode, ino: Ino) -> Result<InodeRef> {
        let named = self.named_inode(dir, ino)?;
        if named.inode.unlinked.load(SeqCst) {
            return Err(Error::corrupt(format!("directory {} names inode {ino}, which has no links left", dir.ino)));
        }
        Ok(named)
    }

    /// The inode of an entry that is about to be removed or moved. A directory must know this one as its parent, and
    /// not be its parent.
    pub(crate) fn changeable_inode(&self, dir: &Inode, found: FoundEntry) -> Result<InodeRef> {
        let child = self.linked_inode(dir, found.ino)?;
        if child.kind() != FileType::Dir {
            return Ok(child);
        }
        let pino = child.inode.read(RawInode::pino)?;
        if pino != dir.ino || child.ino() == dir.ino {
            let what =
                format!("directory {} has an entry for directory {}, whose parent is {pino}", dir.ino, found.ino);
            return Err(Error::Corrupt(what));
        }
        if child.ino() == ROOT_INO || child.ino() == dir.read(RawInode::pino)? {
            return Err(Error::corrupt(format!("directory {} lies below itself", dir.ino)));
        }
        Ok(child)
    }

    /// See `Fs::readlink`.
    pub(crate) fn readlink(&self, inode: &InodeRef) -> Result<Vec<u8>> {
        if inode.kind() != FileType::Symlink {
            return Err(Error::Invalid);
        }
        let target = self.read_target(&inode.inode)?;
        self.note_access(&inode.inode);
        Ok(target)
    }

    fn read_target(&self, inode: &Arc<Inode>) -> Result<Vec<u8>> {
        let _inode = inode.rwsem.read();
        self.target_of(inode)
    }

    /// The target of a symlink that is locked, or known to this thread only.
    pub(crate) fn target_of(&self, inode: &Arc<Inode>) -> Result<Vec<u8>> {
        let features = self.vol.sb.features();
        let (size, encrypted, in_inode) = inode.read(|raw| -> Result<_> {
            let stored = raw.has_inline(inline::DATA);
            let area = stored.then(|| raw.shape(features).map(|shape| raw.inline_area(shape).to_vec())).transpose()?;
            Ok((raw.size(), raw.advise() & advise::ENCRYPT != 0, area))
        })??;
        let bytes = match in_inode {
            Some(area) => area,
            None => self.page(inode, PageIndex(0))?.unwrap_or_default().to_array().to_vec(),
        };
        let damaged = || Error::corrupt(format!("symlink {} has an impossible target", inode.ino));
        let target = usize::try_from(size).ok().filter(|&n| n <= MAX_TARGET).and_then(|n| bytes.get(..n));
        let target = target.ok_or_else(damaged)?;
        if encrypted {
            return Ok(encrypted_text(target));
        }
        let end = target.iter().position(|&byte| byte == 0).unwrap_or(target.len());
        if end == 0 { Err(damaged()) } else { Ok(target[..end].to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_kernel_would() {
        for (name, errno) in [(&b""[..], 2), (&[b'x'; 256], 36), (b"a/b", 22), (b"a\0", 22)] {
            assert_eq!(check_name(name).unwrap_err().errno(), errno);
        }
        for name in [&b"a"[..], &[0xff; 255], b".", b"..", b"..."] {
            check_name(name).unwrap();
        }
    }
}
