//! What operations commit to the journal, under their change and the locks of their inodes: snapshots of inodes, and
//! names.

use crate::error::Result;
use crate::files::inode::Inode;
use crate::files::logged::{InodeSnapshot, Logged};
use crate::files::namei::NameChange;
use crate::fs::Fs;
use crate::volume::Change;
use crate::volume::nodes::cache::Node;
use std::collections::HashSet;
use std::sync::Arc;
use steadyfs_format::Nid;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::records::InodeRecord;
use steadyfs_journal::Part;

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
        if self.journal.is_lost() {
            return;
        }
        match self.parts_of(inodes, names) {
            Ok(parts) => self.journal.commit(parts),
            Err(error) => {
                // The operation itself has succeeded; a checkpoint makes it durable.
                tracing::debug!(%error, "a change cannot be noted in the journal");
                self.journal.lose();
            }
        }
    }

    /// What an operation commits: a part for each inode, with the names of each directory.
    fn parts_of(
        &self,
        inodes: &[(&Arc<Inode>, bool)],
        names: Vec<NameChange>,
    ) -> Result<Vec<Part<Logged, InodeSnapshot>>> {
        let part = |(inode, xattrs): &(&Arc<Inode>, bool)| {
            let item = Arc::clone(inode.log_item());
            Ok(Part { item, what: self.snapshot(inode, *xattrs)? })
        };
        let mut parts = inodes.iter().map(part).collect::<Result<Vec<_>>>()?;
        for NameChange { dir, name, target } in names {
            if target.is_some() {
                let places = self.dir_names_to_place(&dir)?;
                if self.journal.expected.add(dir.ino, &name) {
                    self.vol.space.expect_names(places);
                }
            }
            let own = parts.iter_mut().find(|part| part.item.key() == dir.ino.get());
            own.expect("a directory that lost or got a name is among the inodes").what.names.push((name, target));
        }
        Ok(parts)
    }

    fn snapshot(&self, inode: &Arc<Inode>, xattrs: bool) -> Result<InodeSnapshot> {
        let features = self.vol.sb.features();
        let born = self.vol.nodes.dirt.standing(inode.ino).born;
        let record = inode.read(|raw| InodeRecord::of(raw, features, born))??;
        let list = if xattrs || born { Some(self.xattr_list(inode)?) } else { None };
        let is_symlink = inode.kind == FileType::Symlink;
        let target = if born && is_symlink { Some(self.target_of(inode)?) } else { None };
        assert!(!born || list.is_some(), "inode {} is born without its attributes", inode.ino);
        Ok(InodeSnapshot { inode: Box::new(record), xattrs: list, target, names: Vec::new() })
    }

    /// Before a file takes the name of another one, or swaps names with it: its contents count before the rename, and
    /// only a checkpoint has those that were never synced. In place they may be written, and not be durable.
    pub(crate) fn log_contents(&self, inode: &Arc<Inode>) -> Result<()> {
        if !self.journal.is_on() || inode.kind != FileType::Regular {
            return Ok(());
        }
        let own = Nid::from(inode.ino);
        let vital = |node: &Arc<Node>| node.nid != own || node.write(&self.vol.nodes).is_vital();
        let standing = self.vol.nodes.dirt.standing(inode.ino);
        let unsynced = standing.unmarked
            || inode.node.disk_size.is_behind()
            || self.vol.nodes.dirt.of(inode.ino).iter().any(vital)
            || inode.read(RawInode::size)? > inode.node.disk_size.limit()
            || inode.overwrites.is_unsynced(self.checkpoints.progress().1);
        if unsynced {
            self.journal.lose();
        }
        Ok(())
    }
}
