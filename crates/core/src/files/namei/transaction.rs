//! Steps of a namespace operation that can be taken back.
//!
//! Kept true: after [`Files::transact`] either every step is done or none is. If a step cannot be taken back (the
//! device fails in the middle), the volume stops, so no checkpoint ever holds half an operation. If every step is done,
//! the journal is told what changed, before the change ends.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::dir::{FoundEntry, Place, Room, Search};
use crate::files::inode::{Inode, InodeRef};
use crate::files::orphans::Orphan;
use crate::volume::Change;
use std::sync::Arc;
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;
use steadyfs_rt::{Cost, charge};

/// How to take one step back.
enum Step {
    Made(InodeRef),
    Inserted { dir: Arc<Inode>, name: Vec<u8> },
    Removed { dir: Arc<Inode>, name: Vec<u8>, ino: Ino, kind: FileType },
    Retargeted { dir: Arc<Inode>, place: Place, ino: Ino, kind: FileType },
    Orphaned(Ino),
}

/// What a name leads to after an operation, for the journal.
pub(crate) struct NameChange {
    pub(crate) dir: Arc<Inode>,
    pub(crate) name: Vec<u8>,
    pub(crate) target: Option<(Ino, FileType)>,
}

/// The steps done so far.
pub(super) struct Transaction<'a> {
    fs: &'a Files,
    pub(super) change: &'a Change<'a>,
    steps: Vec<Step>,
    /// Inodes that changed, beside those whose names did.
    changed: Vec<Arc<Inode>>,
    names: Vec<NameChange>,
}

impl Files {
    /// Runs the steps of `f`, all or none.
    pub(super) fn transact<R>(
        &self,
        change: &Change<'_>,
        f: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        assert!(!change.is_frozen(), "names change while a checkpoint takes its snapshot");
        charge(Cost::NameChange);
        let mut transaction =
            Transaction { fs: self, change, steps: Vec::new(), changed: Vec::new(), names: Vec::new() };
        let result = f(&mut transaction);
        match result {
            Ok(_) => self.log_names(change, &transaction.changed, transaction.names),
            Err(_) => transaction.roll_back(),
        }
        result
    }
}

impl Transaction<'_> {
    /// An inode was made; it has no name yet.
    pub(super) fn made(&mut self, inode: &InodeRef) {
        self.steps.push(Step::Made(inode.clone()));
        self.changes(inode);
    }

    /// An inode changes that may have no entry here.
    pub(super) fn changes(&mut self, inode: &InodeRef) {
        if self.fs.journal.is_on() {
            self.changed.push(Arc::clone(&inode.inode));
        }
    }

    fn leads(&mut self, dir: &Arc<Inode>, name: &[u8], target: Option<(Ino, FileType)>) {
        if self.fs.journal.is_on() {
            self.names.push(NameChange { dir: Arc::clone(dir), name: name.to_vec(), target });
        }
    }

    /// Adds an entry where a search found room.
    pub(super) fn insert(&mut self, dir: &Arc<Inode>, room: Room, name: &[u8], inode: &InodeRef) -> Result<()> {
        self.fs.dir_insert(self.change, dir, room, name, inode.ino(), inode.kind())?;
        self.steps.push(Step::Inserted { dir: Arc::clone(dir), name: name.to_vec() });
        self.leads(dir, name, Some((inode.ino(), inode.kind())));
        Ok(())
    }

    /// Removes the entry of `inode`.
    pub(super) fn remove(&mut self, dir: &Arc<Inode>, name: &[u8], place: Place, inode: &InodeRef) -> Result<()> {
        self.fs.dir_remove(self.change, dir, place)?;
        let (ino, kind) = (inode.ino(), inode.kind());
        self.steps.push(Step::Removed { dir: Arc::clone(dir), name: name.to_vec(), ino, kind });
        self.leads(dir, name, None);
        Ok(())
    }

    /// Makes an entry refer to something else.
    pub(super) fn retarget(
        &mut self,
        dir: &Arc<Inode>,
        name: &[u8],
        old: FoundEntry,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        self.fs.dir_retarget(self.change, dir, old.place, ino, kind)?;
        let old_kind = old.file_type.unwrap_or(kind);
        self.steps.push(Step::Retargeted { dir: Arc::clone(dir), place: old.place, ino: old.ino, kind: old_kind });
        // The parent of a directory goes with the directory itself.
        if name != b".." {
            self.leads(dir, name, Some((ino, kind)));
        }
        Ok(())
    }

    /// Notes that an inode has no name, or will have none when this is done.
    pub(super) fn orphan(&mut self, inode: &InodeRef, why: Orphan) -> Result<()> {
        self.fs.orphans.add(inode.ino(), why)?;
        self.steps.push(Step::Orphaned(inode.ino()));
        Ok(())
    }

    fn roll_back(self) {
        let (fs, change) = (self.fs, self.change);
        for step in self.steps.into_iter().rev() {
            if let Err(error) = take_back(fs, change, step) {
                fs.vol.stop(&error);
                return;
            }
        }
    }
}

fn take_back(fs: &Files, change: &Change<'_>, step: Step) -> Result<()> {
    match step {
        Step::Made(inode) => fs.unmake(change, &inode),
        Step::Inserted { dir, name } => match fs.dir_find(&dir, &name)? {
            Some(found) => fs.dir_remove(change, &dir, found.place),
            None => Err(Error::corrupt("an entry vanished from a locked directory")),
        },
        Step::Removed { dir, name, ino, kind } => match fs.dir_search(&dir, &name)? {
            Search::Missing(room) => fs.dir_insert(change, &dir, room, &name, ino, kind),
            Search::Found(_) => Err(Error::corrupt("an entry appeared in a locked directory")),
        },
        Step::Retargeted { dir, place, ino, kind } => fs.dir_retarget(change, &dir, place, ino, kind),
        Step::Orphaned(ino) => {
            fs.orphans.remove(ino);
            Ok(())
        }
    }
}
