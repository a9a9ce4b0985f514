//! The map of items: what is to be said of each inode, and what operations note in it.

use super::Journal;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::files::namei::NameChange;
use crate::fs::Fs;
use crate::volume::Change;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::records::InodeRecord;
use steadyfs_format::{Ino, Nid};

/// Bytes in the map above which a checkpoint should not wait, and above which nothing more is noted.
const PRESSING: u64 = 16 << 20;
const MOST: u64 = 64 << 20;
/// Bytes that an item, and a name in it, take in a batch beside what is counted.
const ITEM_BYTES: u64 = 8 + 96;
const NAME_BYTES: u64 = 8 + 5;

/// What a name leads to.
type NameTarget = Option<(Ino, FileType)>;

/// What is to be said of one inode.
#[derive(Default)]
pub(super) struct PendingItem {
    pub(super) inode: Option<Box<InodeRecord>>,
    pub(super) xattrs: Option<Vec<u8>>,
    pub(super) target: Option<Vec<u8>>,
    /// Of a directory: names that changed, and what they lead to.
    pub(super) names: BTreeMap<Vec<u8>, NameTarget>,
}

/// An inode as an operation left it.
struct InodeSnapshot {
    ino: Ino,
    inode: Box<InodeRecord>,
    xattrs: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

/// What no batch has taken yet.
#[derive(Default)]
pub(super) struct PendingItems {
    items: BTreeMap<Ino, PendingItem>,
    /// An upper bound of what a batch of it would take.
    bytes: u64,
    /// Names, by hash, that recovery was promised room for.
    expected: HashSet<u64>,
    lost: bool,
}

impl PendingItems {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.items = BTreeMap::new();
        self.bytes = 0;
    }

    pub(super) fn is_pressing(&self) -> bool {
        self.lost || self.bytes >= PRESSING
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes all items out.
    pub(super) fn take(&mut self) -> BTreeMap<Ino, PendingItem> {
        assert!(!self.lost, "what was lost is in no batch");
        self.bytes = 0;
        std::mem::take(&mut self.items)
    }

    fn put(&mut self, snapshot: InodeSnapshot) {
        assert!(!self.lost, "nothing is noted behind what was lost");
        let InodeSnapshot { ino, inode, xattrs, target } = snapshot;
        let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, |bytes| 8 + bytes.len() as u64);
        self.bytes += ITEM_BYTES + inode.name.len() as u64 + size(&xattrs) + size(&target);
        let item = self.items.entry(ino).or_default();
        item.inode = Some(inode);
        item.xattrs = xattrs.or(item.xattrs.take());
        item.target = target.or(item.target.take());
    }

    /// Notes what a name leads to; true if it is the first time that recovery may have to make it.
    fn put_name(&mut self, dir: Ino, name: Vec<u8>, target: NameTarget) -> bool {
        assert!(!self.lost && !name.is_empty(), "a name is noted that no entry can have");
        self.bytes += NAME_BYTES + name.len() as u64;
        let fresh = target.is_some() && self.expected.insert(hash(dir, &name));
        self.items.entry(dir).or_default().names.insert(name, target);
        fresh
    }
}

fn hash(dir: Ino, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dir, name).hash(&mut hasher);
    hasher.finish()
}

impl Journal {
    /// Notes what one operation did. Returns how many names recovery may have to make that it was not expected to.
    fn note(&self, snapshots: Vec<InodeSnapshot>, names: Vec<(NameChange, u64)>) -> u64 {
        let mut map = self.map.lock();
        if map.lost {
            return 0;
        }
        snapshots.into_iter().for_each(|snapshot| map.put(snapshot));
        let mut places = 0;
        for (NameChange { dir, name, target }, each) in names {
            places += if map.put_name(dir.ino, name, target) { each } else { 0 };
        }
        if map.bytes > MOST {
            map.lose();
        }
        places
    }
}

impl Fs {
    /// Notes that the attributes of an inode changed, extended ones too if `xattrs` says so. The inode is locked
    /// exclusively.
    pub(crate) fn log_inode(&self, change: &Change<'_>, inode: &Arc<Inode>, xattrs: bool) {
        if self.journal.is_on() {
            self.log(change, &[(inode, xattrs)], Vec::new());
        }
    }

    /// Notes what one operation did to these inodes, and to names. All of them are locked exclusively, or known to this
    /// thread only.
    pub(crate) fn log_names(&self, change: &Change<'_>, inodes: &[Arc<Inode>], names: Vec<NameChange>) {
        if !self.journal.is_on() {
            return;
        }
        let mut seen = HashSet::new();
        let all = names.iter().map(|name| &name.dir).chain(inodes).filter(|inode| seen.insert(inode.ino));
        let all: Vec<Arc<Inode>> = all.cloned().collect();
        let all: Vec<(&Arc<Inode>, bool)> = all.iter().map(|inode| (inode, false)).collect();
        self.log(change, &all, names);
    }

    fn log(&self, _change: &Change<'_>, inodes: &[(&Arc<Inode>, bool)], names: Vec<NameChange>) {
        let snapshots: Result<Vec<InodeSnapshot>> =
            inodes.iter().map(|(inode, xattrs)| self.snapshot(inode, *xattrs)).collect();
        let names: Result<Vec<_>> = names
            .into_iter()
            .map(|name| {
                let places = if name.target.is_some() { self.dir_names_to_place(&name.dir)? } else { 0 };
                Ok((name, places))
            })
            .collect();
        match (snapshots, names) {
            (Ok(snapshots), Ok(names)) => self.vol.space.expect_names(self.journal.note(snapshots, names)),
            (Err(error), _) | (_, Err(error)) => {
                // The operation itself has succeeded; a checkpoint makes it durable.
                tracing::debug!(%error, "a change cannot be noted in the journal");
                self.journal.lose();
            }
        }
    }

    fn snapshot(&self, inode: &Arc<Inode>, xattrs: bool) -> Result<InodeSnapshot> {
        let features = self.vol.sb.features();
        let born = self.vol.nodes.dirt.standing(inode.ino).born;
        let record = inode.read(|raw| InodeRecord::of(raw, features, born))??;
        let list = if xattrs || born { Some(self.xattr_list(inode)?) } else { None };
        let is_symlink = inode.kind == FileType::Symlink;
        let target = if born && is_symlink { Some(self.target_of(inode)?) } else { None };
        Ok(InodeSnapshot { ino: inode.ino, inode: Box::new(record), xattrs: list, target })
    }

    /// Before a file takes the name of another one, or swaps names with it: its contents count before the rename, and
    /// only a checkpoint has those that were never synced.
    pub(crate) fn log_contents(&self, inode: &Arc<Inode>) -> Result<()> {
        if !self.journal.is_on() || inode.kind != FileType::Regular {
            return Ok(());
        }
        let own = Nid::from(inode.ino);
        let vital =
            |node: &Arc<crate::volume::nodes::cache::Node>| node.nid != own || node.write(&self.vol.nodes).is_vital();
        let standing = self.vol.nodes.dirt.standing(inode.ino);
        let unsynced = standing.unmarked
            || inode.node.disk_size.is_behind()
            || self.vol.nodes.dirt.of(inode.ino).iter().any(vital)
            || inode.read(RawInode::size)? > inode.node.disk_size.limit();
        if unsynced {
            self.journal.lose();
        }
        Ok(())
    }
}
