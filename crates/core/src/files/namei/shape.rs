//! The shape of the tree: how operations that move or remove directories lock them, and see whether they may move.
//!
//! Kept true: directories are locked by rising number, and before anything else, so no two operations wait for each
//! other, whatever the image says of who is above whom. Nobody but the holder of the shape gives a directory another
//! parent, so no directory comes to lie below itself.
//!
//! An operation learns which directories its names lead to under the locks of their parents only. So it begins again
//! where it has not locked these as well.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use std::collections::HashSet;
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::{Ino, ROOT_INO};
use steadyfs_rt::RwLockWriteGuard;

/// How far up the move of a directory looks: farther than the trees of programs reach down. All who move directories
/// wait meanwhile, in the kernel too, so that no depth may make it long. Both ways together are a quarter of the nodes
/// that a mount with `memory=low` keeps, so nobody's looking drives out what others use.
const MOST_LEVELS: usize = 256;

/// What came of an operation with some directories locked.
pub(super) enum Tried<T> {
    Done(T),
    /// Nothing: these directories are to be locked as well.
    Wants(Vec<InodeRef>),
}

/// A directory that moves, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// From the old place to the new.
    Source,
    /// The other way.
    Target,
}

/// A way up, as far as it was seen.
struct Way {
    seen: HashSet<Ino>,
    at: Ino,
    /// The parent of that, as it says.
    parent: Ino,
    /// The inode looked for, and what it means to find it.
    sought: (Option<Ino>, Moved),
}

impl Way {
    fn from(dir: &Inode, sought: Option<Ino>, moved: Moved) -> Result<Self> {
        let parent = dir.read(RawInode::pino)?;
        Ok(Way { seen: HashSet::from([dir.ino]), at: dir.ino, parent, sought: (sought, moved) })
    }

    /// The result where the way has come to.
    fn found(&self) -> Option<Moved> {
        (self.sought.0 == Some(self.at)).then_some(self.sought.1)
    }
}

impl Files {
    /// Does `work` while two directories are locked, or one that is both; and those that it wants besides, which it is
    /// given then. If it wants some, and there are two, it has the shape of the tree for itself.
    pub(super) fn with_directories<T>(
        &self,
        one: &Arc<Inode>,
        other: &Arc<Inode>,
        work: impl Fn(&[InodeRef]) -> Result<Tried<T>>,
    ) -> Result<T> {
        let mut below: Vec<InodeRef> = Vec::new();
        loop {
            let tried = {
                let _shape = (one.ino != other.ino && !below.is_empty()).then(|| self.shape.lock());
                let _locked = lock_by_number([one, other].into_iter().chain(below.iter().map(|dir| &dir.inode)));
                work(&below)?
            };
            match tried {
                Tried::Done(done) => return Ok(done),
                Tried::Wants(wanted) => below = wanted,
            }
        }
    }

    /// Whether a directory that moves from `from` to `to`, or in exchange from there, lies above where it would go.
    /// Both ways up are seen as far as to where they meet: what moves is no farther up. The tree must stand still.
    ///
    /// # Errors
    /// [`Error::TooFar`] if they do not meet within reach; [`Error::Corrupt`] if one leads nowhere.
    pub(super) fn lies_above(
        &self,
        (from, source): (&Inode, Option<Ino>),
        (to, target): (&Inode, Option<Ino>),
    ) -> Result<Option<Moved>> {
        assert!(from.ino != to.ino, "what stays in directory {} does not change the shape", from.ino);
        let mut way = Way::from(to, source, Moved::Source)?;
        let mut other = Way::from(from, target, Moved::Target)?;
        if let Some(moved) = way.found().or(other.found()) {
            return Ok(Some(moved));
        }
        for _ in 0..2 * MOST_LEVELS {
            if self.step_up(&mut way)? {
                if let Some(moved) = way.found() {
                    return Ok(Some(moved));
                }
                if other.seen.contains(&way.at) {
                    return Ok(None);
                }
            }
            std::mem::swap(&mut way, &mut other);
        }
        Err(Error::TooFar)
    }

    /// Goes to the parent; false at the root.
    fn step_up(&self, way: &mut Way) -> Result<bool> {
        let Way { at, parent, .. } = *way;
        if at == ROOT_INO {
            return Ok(false);
        }
        let next = self.inode(parent)?;
        if next.kind() != FileType::Dir || !way.seen.insert(parent) {
            return Err(Error::corrupt(format!("directory {at} says that it is in {parent}, which cannot be")));
        }
        (way.at, way.parent) = (parent, next.inode.read(RawInode::pino)?);
        Ok(true)
    }
}

/// Locks directories, each of them once.
fn lock_by_number<'a>(dirs: impl Iterator<Item = &'a Arc<Inode>>) -> Vec<RwLockWriteGuard<'a, ()>> {
    let mut dirs: Vec<_> = dirs.collect();
    dirs.sort_by_key(|dir| dir.ino);
    dirs.dedup_by_key(|dir| dir.ino);
    dirs.into_iter().map(|dir| dir.rwsem.write()).collect()
}
