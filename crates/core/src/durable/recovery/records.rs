//! Replay of the metadata journal: each record makes something true, whatever was before (`docs/JOURNAL-FORMAT.md` 4).
//!
//! Kept true: every inode that a batch is about is referenced until recovery ends, so none of them is deleted or loaded
//! twice in between; one without links is an orphan at the end of each record. In the middle of a batch the tree may
//! look wrong, so nothing here goes by what it looks like.

use super::Recovery;
use crate::error::{Error, Result};
use crate::files::inode::InodeRef;
use crate::files::orphans::Orphan;
use crate::raw::ChainNode;
use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::dir::{DentriesMut, FileType};
use steadyfs_format::inode::{self, Inode as RawInode, advise, flags, inline};
use steadyfs_format::records::batch::Assembler;
use steadyfs_format::records::{Attributes, Birth, InodeRecord, Record};
use steadyfs_format::{Ino, ROOT_INO};

/// Advice that a record gives; the rest is about sizes, or about what no writable volume has.
const TAKEN_ADVICE: u8 = advise::COLD | advise::HOT | advise::LOST_PINO;
/// Flags that follow from how contents and names are stored.
const FIXED_FLAGS: u32 = flags::COMPR | flags::NOCOMP | flags::CASEFOLD | flags::DEVICE_ALIAS;

/// A replay in progress.
pub(super) struct JournalReplay {
    batches: Assembler,
    inodes: HashMap<Ino, InodeRef>,
}

impl JournalReplay {
    pub(super) fn new(batches: Assembler) -> Self {
        JournalReplay { batches, inodes: HashMap::new() }
    }

    /// Makes the inodes that the checkpoint does not have, before their numbers can be given to anything else.
    pub(super) fn make_births(
        &mut self,
        recovery: &Recovery<'_>,
        births: &BTreeMap<Ino, Box<InodeRecord>>,
    ) -> Result<()> {
        for (&ino, record) in births {
            let Some(birth) = record.birth else { continue };
            let made = recovery.make_birth(ino, record, &birth)?;
            let earlier = self.inodes.insert(ino, made);
            assert!(earlier.is_none(), "the journal's inode {ino} was made twice");
        }
        Ok(())
    }

    /// Takes a block of a batch; applies the batch that it ends.
    pub(super) fn take(&mut self, recovery: &Recovery<'_>, block: &ChainNode) -> Result<()> {
        let records = block.page.with(|bytes| self.batches.take(bytes))?;
        records.into_iter().flatten().try_for_each(|record| self.apply(recovery, record))
    }

    /// Refuses what no journal leaves behind: a directory without a name that has some in it. All else was looked at
    /// before the first record was applied ([`crate::raw::AfterReplay`]).
    pub(super) fn finish(&self, recovery: &Recovery<'_>) -> Result<()> {
        for (ino, inode) in &self.inodes {
            let is_gone = inode.kind() == FileType::Dir && inode.inode.read(RawInode::links)? == 0;
            if is_gone && !recovery.files.dir_is_empty(&inode.inode)? {
                return Err(Error::corrupt(format!("the journal removes directory {ino}, which has names")));
            }
        }
        Ok(())
    }

    fn apply(&mut self, recovery: &Recovery<'_>, record: Record) -> Result<()> {
        let inode = self.inode(recovery, record.ino())?;
        let wanted = match &record {
            Record::Inode(_, record) => record.attributes.kind(),
            Record::Name { .. } => Some(FileType::Dir),
            Record::Xattrs(..) => Some(inode.kind()),
            Record::Target(..) => Some(FileType::Symlink),
            Record::Contents(..) => Some(FileType::Regular),
        };
        if wanted != Some(inode.kind()) {
            return Err(Error::corrupt(format!("the journal has inode {} as another kind of file", inode.ino())));
        }
        match record {
            Record::Inode(_, record) => recovery.apply_record(&inode, &record),
            Record::Name { name, target, .. } => {
                if let Some((ino, kind)) = target
                    && self.inode(recovery, ino)?.kind() != kind
                {
                    return Err(Error::corrupt(format!(
                        "the journal has a name for inode {ino} as another kind of file"
                    )));
                }
                recovery.apply_name(&inode, &name, target)
            }
            Record::Xattrs(_, area) => recovery.files.replace_xattrs(recovery.change, &inode.inode, &area),
            Record::Target(_, target) => {
                let is_new = inode.inode.read(|raw| raw.size() == 0)?;
                if is_new { recovery.files.store_target(recovery.change, &inode.inode, &target) } else { Ok(()) }
            }
            Record::Contents(_, contents) => recovery.apply_contents(&inode, &contents),
        }
    }

    fn inode(&mut self, recovery: &Recovery<'_>, ino: Ino) -> Result<InodeRef> {
        match self.inodes.entry(ino) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(place) => {
                let found = recovery.files.inode(ino).map_err(|error| match error {
                    Error::NotFound => {
                        Error::corrupt(format!("the journal is about inode {ino}, which does not exist"))
                    }
                    other => other,
                })?;
                Ok(place.insert(found).clone())
            }
        }
    }
}

impl Recovery<'_> {
    /// Makes an inode without contents.
    fn make_birth(&self, ino: Ino, record: &InodeRecord, birth: &Birth) -> Result<InodeRef> {
        let features = self.files.vol.sb.features();
        let attributes = &record.attributes;
        let kind =
            attributes.kind().ok_or_else(|| Error::corrupt(format!("the journal makes inode {ino} of no kind")))?;
        let contents = match kind {
            FileType::Dir => inline::DENTRY,
            FileType::Symlink => inline::DATA,
            _ => 0,
        };
        let plain = inode::NewInode {
            ino,
            pino: record.pino,
            name: &record.name,
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            // The record itself says how many.
            links: if kind == FileType::Dir { 2 } else { 1 },
            time: attributes.crtime,
            generation: birth.generation,
            flags: attributes.flags & !FIXED_FLAGS,
            inline: birth.inline & (inline::XATTR | contents),
            extra_isize: birth.extra_isize,
            xattr_words: birth.xattr_words,
            project_id: attributes.project,
        };
        let (mut raw, shape) = plain.build(features)?;
        raw.set_dir_level(birth.dir_level);
        match kind {
            FileType::Dir => {
                check_parent(ino, record.pino)?;
                raw.set_current_depth(1);
                if raw.has_inline(inline::DENTRY) {
                    raw.set_size(shape.inline_len() as u64);
                    DentriesMut::inline(raw.inline_area_mut(shape)).insert_dots(ino, record.pino)?;
                }
            }
            FileType::CharDevice | FileType::BlockDevice => raw.set_device_number(shape, birth.device)?,
            _ => {}
        }
        raw.validate(features)?;
        let node = self.files.vol.new_inode_node_at(ino, kind != FileType::Dir)?;
        let made = self.files.inodes.insert_new(&self.files.budget, node, kind);
        let blocks = kind == FileType::Dir && !raw.has_inline(inline::DENTRY);
        self.files.vol.edit_inode(self.change, &made.inode, |block| *block = raw)?;
        if blocks {
            self.files.first_block(self.change, &made.inode, record.pino)?;
        }
        Ok(made)
    }

    /// Gives an inode the attributes, the links and the place of a record.
    fn apply_record(&self, inode: &InodeRef, record: &InodeRecord) -> Result<()> {
        let (ino, features) = (inode.ino(), self.files.vol.sb.features());
        let Attributes { mode, advise, uid, gid, flags, project, links, atime, ctime, mtime, crtime } =
            record.attributes;
        self.files.vol.edit_inode(self.change, &inode.inode, |raw: &mut RawInode| {
            raw.set_mode(mode);
            raw.set_advise(raw.advise() & !TAKEN_ADVICE | advise & TAKEN_ADVICE);
            raw.set_uid(uid);
            raw.set_gid(gid);
            raw.set_flags(raw.flags() & FIXED_FLAGS | flags & !FIXED_FLAGS);
            raw.set_project_id(features, project);
            raw.set_links(links);
            raw.set_atime(atime);
            raw.set_ctime(ctime);
            raw.set_mtime(mtime);
            raw.set_crtime(features, crtime);
            raw.set_pino(record.pino);
            raw.set_name(&record.name)
        })??;
        if inode.kind() == FileType::Dir && ino != ROOT_INO {
            check_parent(ino, record.pino)?;
            let dotdot = self.files.dir_find(&inode.inode, b"..")?;
            if let Some(found) = dotdot.filter(|found| found.ino != record.pino) {
                self.files.dir_retarget(self.change, &inode.inode, found.place, record.pino, FileType::Dir)?;
            }
        }
        match (links, self.files.orphans.get(ino)) {
            (0, None) => {
                self.files.orphans.add(ino, Orphan::Unlinked)?;
                inode.inode.unlinked.store(true, SeqCst);
            }
            (1.., Some(_)) => {
                inode.inode.unlinked.store(false, SeqCst);
                self.files.orphans.remove(ino);
            }
            _ => {}
        }
        let is_orphan = self.files.orphans.get(ino).is_some();
        assert_eq!(is_orphan, links == 0, "inode {ino} has {links} links behind a record, and is an orphan or is none");
        Ok(())
    }
}

/// Refuses a parent that no directory can have.
fn check_parent(ino: Ino, pino: Ino) -> Result<()> {
    if pino >= ROOT_INO && pino != ino {
        return Ok(());
    }
    Err(Error::corrupt(format!("the journal has directory {ino} in inode {pino}")))
}
