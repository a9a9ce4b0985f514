//! What operations commit to the journal, under their change and the locks of their inodes: snapshots of inodes, and
//! names.
//!
//! A snapshot of a file that was made by this mount and never synced has the contents that fit the inode, too, and a
//! write to them is noted as an operation. So such a file has its contents when it has its name. An fsync ends that:
//! from then on the file's own nodes say what it holds.

use crate::error::Result;
use crate::files::Files;
use crate::files::dir::names_to_place;
use crate::files::inode::Inode;
use crate::files::namei::NameChange;
use crate::files::noted::logged::{InodeSnapshot, Logged};
use crate::volume::Change;
use std::collections::HashSet;
use std::sync::Arc;
use steadyfs_format::Features;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, inline};
use steadyfs_format::records::InodeRecord;
use steadyfs_journal::Part;

/// The facts to note of an inode.
struct Snapshot {
    what: InodeSnapshot,
    /// Of a directory: see [`names_to_place`].
    names_to_place: u64,
}

impl Files {
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
        let mut places = Vec::with_capacity(inodes.len());
        let mut parts = Vec::with_capacity(inodes.len());
        for (inode, xattrs) in inodes {
            let Snapshot { what, names_to_place } = self.snapshot(inode, *xattrs)?;
            parts.push(Part { item: Arc::clone(inode.log_item()), what });
            places.push(names_to_place);
        }
        for NameChange { dir, name, target } in names {
            let own = parts.iter().position(|part| part.item.key() == dir.ino.get());
            let own = own.expect("a directory that lost or got a name is among the inodes");
            if target.is_some() && self.journal.expect_name(dir.ino, &name) {
                self.vol.space.expect_names(places[own]);
            }
            parts[own].what.names.push((name, target));
        }
        Ok(parts)
    }

    /// The inode as it is now: one look at its block, where no node has more of its attributes.
    fn snapshot(&self, inode: &Arc<Inode>, xattrs: bool) -> Result<Snapshot> {
        let features = self.vol.sb.features();
        let born = self.vol.nodes.dirt.is_born(inode.ino, &inode.birth);
        let carries = inode.has_new_contents(self.gate.progress().0)
            && !steadyfs_rt::mutated("new-files-come-with-their-contents");
        let (record, wants_list, at_hand, contents, names_to_place) = inode.read(|raw| -> Result<_> {
            // Who finds it in the checkpoint or in an earlier batch finds its attributes there; and without a name
            // nobody does.
            let wants_list = xattrs || born && raw.links() > 0;
            let list = if wants_list { self.vol.xattr_list_in(raw)? } else { None };
            let names_to_place = if inode.kind == FileType::Dir { names_to_place(raw, features)? } else { 0 };
            let contents = if carries { contents_in(raw, features)? } else { None };
            Ok((InodeRecord::of(raw, features, born)?, wants_list, list, contents, names_to_place))
        })??;
        let list = if wants_list && at_hand.is_none() { Some(self.vol.xattr_list(inode)?) } else { at_hand };
        let is_symlink = inode.kind == FileType::Symlink;
        let target = if born && is_symlink { Some(self.target_of(inode)?) } else { None };
        let is_dead = record.attributes.links == 0;
        assert!(!born || is_dead || list.is_some(), "inode {} is born without its attributes", inode.ino);
        assert!(contents.is_none() || !is_dead, "nobody finds the contents of inode {} without a name", inode.ino);
        let what = InodeSnapshot { inode: Box::new(record), xattrs: list, target, contents, names: Vec::new() };
        Ok(Snapshot { what, names_to_place })
    }
}

/// The contents that an inode of a regular file with a name holds itself, if any. Empty ones take nothing away that a
/// crash would leave: a truncation is in no batch.
fn contents_in(raw: &RawInode, features: Features) -> Result<Option<Vec<u8>>> {
    let holds_some = raw.file_type() == Some(FileType::Regular) && raw.has_inline(inline::DATA) && raw.size() > 0;
    if !holds_some || raw.links() == 0 {
        return Ok(None);
    }
    let area = raw.inline_area(raw.shape(features)?);
    Ok(usize::try_from(raw.size()).ok().and_then(|size| area.get(..size)).map(<[u8]>::to_vec))
}
