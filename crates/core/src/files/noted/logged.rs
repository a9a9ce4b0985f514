//! What the metadata journal is to say of an inode: the vector of a log item.
//!
//! Operations add to it under the inode's own lock; a batch takes it whole. Kept true: what is said is how things are,
//! not how they changed, so what is said later replaces what was said before.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;
use steadyfs_format::records::InodeRecord;
use steadyfs_journal::Item;

/// What the journal keeps of an inode while no batch has it.
pub(crate) type LogItem = Item<Logged>;

/// What a name leads to.
pub(crate) type NameTarget = Option<(Ino, FileType)>;

/// Bytes that an item, and a name in it, take in a batch beside what is counted.
const ITEM_BYTES: usize = 8 + 96;
const NAME_BYTES: usize = 8 + 5;

/// The notes of one inode.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    pub(crate) inode: Option<Box<InodeRecord>>,
    pub(crate) xattrs: Option<Vec<u8>>,
    pub(crate) target: Option<Vec<u8>>,
    /// Of a small file that was never synced: its contents.
    pub(crate) contents: Option<Vec<u8>>,
    /// Of a directory: names that changed, and what they lead to.
    pub(crate) names: BTreeMap<Vec<u8>, NameTarget>,
}

/// An inode as one operation left it.
pub(crate) struct InodeSnapshot {
    pub(crate) inode: Box<InodeRecord>,
    pub(crate) xattrs: Option<Vec<u8>>,
    pub(crate) target: Option<Vec<u8>>,
    pub(crate) contents: Option<Vec<u8>>,
    /// Of a directory: names that the operation gave or took.
    pub(crate) names: Vec<(Vec<u8>, NameTarget)>,
}

impl Logged {
    /// Adds what an operation did; by how many bytes a batch grows, or shrinks.
    pub(crate) fn add(&mut self, snapshot: InodeSnapshot) -> i64 {
        let before = self.fixed_bytes();
        let InodeSnapshot { inode, xattrs, target, contents, names } = snapshot;
        self.inode = Some(inode);
        self.xattrs = xattrs.or(self.xattrs.take());
        self.target = target.or(self.target.take());
        self.contents = contents.or(self.contents.take());
        let mut grown = self.fixed_bytes() - before;
        assert!(self.inode.is_some() && before + grown > 0, "what was noted of an inode takes room");
        for (name, target) in names {
            assert!(!name.is_empty(), "a name is noted that no entry can have");
            let bytes = NAME_BYTES + name.len();
            match self.names.entry(name) {
                Entry::Occupied(mut known) => *known.get_mut() = target,
                Entry::Vacant(place) => {
                    place.insert(target);
                    grown += bytes as i64;
                }
            }
        }
        grown
    }

    /// Bytes of all but the names.
    fn fixed_bytes(&self) -> i64 {
        let inode = self.inode.as_ref().map_or(0, |inode| ITEM_BYTES + inode.name.len());
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, |bytes| 8 + bytes.len());
        (inode + part(&self.xattrs) + part(&self.target) + part(&self.contents)) as i64
    }
}
