//! What happened to names since the last freeze, as far as fsync must know: recovery brings back an inode with its
//! name, but repeats neither the removal of a name nor a change of a directory's attributes (format section 12.2).
//!
//! Everything is noted under a change, so a freeze finds it complete and forgets it: what happened before is in the
//! checkpoint. It is kept in parts by inode, for every removal and rename comes here.

use crate::locks;
use crate::volume::Change;
use std::hash::{DefaultHasher, Hash, Hasher};
use steadyfs_format::Ino;
use steadyfs_format::numbers::NumberSet;
use steadyfs_rt::{Mutex, MutexGuard};

#[derive(Default)]
struct State {
    /// Inodes with a name that the checkpoint does not know for them.
    renamed: NumberSet<Ino>,
    /// Hashes of (directory, name) where something was that has another name now, or was a directory. Two names with
    /// one hash cost a checkpoint.
    vacated: NumberSet<u64>,
    /// Directories that lost a name.
    reduced: NumberSet<Ino>,
    /// Directories whose extended attributes changed.
    relabelled: NumberSet<Ino>,
}

/// Parts, by the number of the inode or directory.
const SHARDS: usize = 64;

/// Changes of names since the last freeze.
pub(crate) struct Since {
    shards: Box<[Mutex<State>]>,
}

impl Since {
    /// Nothing has happened.
    pub(crate) fn new() -> Self {
        Since { shards: (0..SHARDS).map(|_| Mutex::new(&locks::SINCE, State::default())).collect() }
    }

    fn of(&self, ino: Ino) -> MutexGuard<'_, State> {
        self.shards[ino.index() % SHARDS].lock()
    }

    /// The inode got another name.
    pub(crate) fn note_new_name(&self, ino: Ino) {
        self.of(ino).renamed.insert(ino);
    }

    /// The name lost what it stood for. `stays` says that recovery must not delete what was there if the name is given
    /// again: it has another name, or was a directory.
    pub(crate) fn note_lost_name(&self, dir: Ino, name: &[u8], stays: bool) {
        let mut s = self.of(dir);
        s.reduced.insert(dir);
        if stays {
            s.vacated.insert(hash(dir, name));
        }
    }

    /// The directory's extended attributes changed.
    pub(crate) fn note_label(&self, dir: Ino) {
        self.of(dir).relabelled.insert(dir);
    }

    /// Whether the inode got another name.
    pub(crate) fn is_renamed(&self, ino: Ino) -> bool {
        self.of(ino).renamed.contains(&ino)
    }

    /// Whether giving this name to a new inode, without what happened before, would delete something that lives.
    pub(crate) fn is_vacated(&self, dir: Ino, name: &[u8]) -> bool {
        self.of(dir).vacated.contains(&hash(dir, name))
    }

    /// Whether the directory lost a name.
    pub(crate) fn is_reduced(&self, dir: Ino) -> bool {
        self.of(dir).reduced.contains(&dir)
    }

    /// Whether the directory's extended attributes changed.
    pub(crate) fn is_relabelled(&self, dir: Ino) -> bool {
        self.of(dir).relabelled.contains(&dir)
    }

    /// The volume is frozen: all of this is in the checkpoint to come.
    pub(crate) fn forget(&self, frozen: &Change<'_>) {
        assert!(frozen.is_frozen(), "changes of names are forgotten while others make some");
        self.shards.iter().for_each(|shard| drop(std::mem::take(&mut *shard.lock())));
    }
}

fn hash(dir: Ino, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dir, name).hash(&mut hasher);
    hasher.finish()
}
