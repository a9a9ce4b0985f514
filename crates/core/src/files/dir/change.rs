//! Adding, removing and redirecting one entry.

use super::{FoundEntry, Place, Room, Search};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::dir::{Dentries, DentriesMut, FileType, MAX_DEPTH, name_hash};
use steadyfs_format::inode::Inode as RawInode;
use steadyfs_format::{Block, FormatError, Ino, PageIndex};

impl Volume {
    /// The directory is locked, so an entry that was found is still there.
    fn expect_entry(&self, there: bool, dir: &Inode, place: Place) -> Result<()> {
        if there { Ok(()) } else { Err(Error::corrupt(format!("{place:?} of directory {} has no entry", dir.ino))) }
    }

    fn edit_inline_entries<R>(
        &self,
        change: &Change<'_>,
        dir: &Arc<Inode>,
        f: impl FnOnce(&mut DentriesMut<'_>) -> R,
    ) -> Result<R> {
        let features = self.sb.features();
        let out = self.edit_inode(change, dir, |raw: &mut RawInode| -> std::result::Result<R, FormatError> {
            let shape = raw.shape(features)?;
            Ok(f(&mut DentriesMut::inline(raw.inline_area_mut(shape))))
        })?;
        Ok(out?)
    }
}

impl Files {
    /// Adds an entry where `dir_search` has found room for it.
    pub(crate) fn dir_insert(
        &self,
        change: &Change<'_>,
        dir: &Arc<Inode>,
        room: Room,
        name: &[u8],
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        assert!(!ino.is_null(), "an entry names an inode");
        let hash = name_hash(name);
        match room {
            Room::Inline => {
                self.vol.edit_inline_entries(change, dir, |entries| entries.insert(hash, name, ino, kind))??;
                Ok(())
            }
            Room::Convert => {
                self.dir_convert(change, dir)?;
                match self.dir_search(dir, name)? {
                    Search::Missing(room @ Room::Page { .. }) => self.dir_insert(change, dir, room, name, ino, kind),
                    other => Err(Error::corrupt(format!("{:?}: {other:?} after the move to blocks", dir.ino))),
                }
            }
            Room::Page { page, depth } => {
                assert!(depth <= MAX_DEPTH, "directory {} gets {depth} levels", dir.ino);
                let free = self.edit_dir_page(change, dir, page, |entries| {
                    let inserted = entries.insert(hash, name, ino, kind);
                    inserted.map(|_| entries.read().longest_room())
                })??;
                dir.names.added(page, hash, free);
                self.vol.edit_inode(change, dir, |raw| {
                    let size = (page + 1).byte_offset();
                    raw.set_size(raw.size().max(size));
                    raw.set_current_depth(raw.current_depth().max(u32::from(depth)));
                })
            }
        }
    }

    /// Removes an entry; a block that becomes empty is freed.
    pub(crate) fn dir_remove(&self, change: &Change<'_>, dir: &Arc<Inode>, place: Place) -> Result<()> {
        let Some(index) = place.page else {
            let gone = self.vol.edit_inline_entries(change, dir, |entries| entries.remove(place.slot))?;
            return self.vol.expect_entry(gone, dir, place);
        };
        let is_alone = self.dir_page(dir, index)?.with(|bytes| Dentries::block(bytes).is_alone(place.slot));
        if is_alone && index != PageIndex(0) {
            dir.names.forget(index);
            return self.punch_pages(change, dir, index..index + 1);
        }
        let free = self.edit_dir_page(change, dir, index, |entries| {
            entries.remove(place.slot).then(|| entries.read().longest_room())
        })?;
        self.vol.expect_entry(free.is_some(), dir, place)?;
        dir.names.removed(index, free.unwrap_or(0));
        Ok(())
    }

    /// Changes the entries of a page: where they lie, if they are in memory and nobody is writing them. A page that is
    /// not there gets a place first.
    fn edit_dir_page<R>(
        &self,
        change: &Change<'_>,
        dir: &Arc<Inode>,
        page: PageIndex,
        f: impl FnOnce(&mut DentriesMut<'_>) -> R,
    ) -> Result<R> {
        let (mut f, mut out) = (Some(f), None);
        let mut edit = |block: &mut Block| out = f.take().map(|f| f(&mut DentriesMut::block(block)));
        if !self.budget.cache(dir).modify(page, &mut edit) {
            let mut block = self.page(dir, page)?.unwrap_or_default();
            edit(block.make_mut());
            self.put_page(change, dir, page, block).inspect_err(|_| dir.names.forget(page))?;
        }
        out.ok_or_else(|| Error::corrupt(format!("page {page} of directory {} was not changed", dir.ino)))
    }

    /// Makes an existing name refer to another inode.
    pub(crate) fn dir_retarget(
        &self,
        change: &Change<'_>,
        dir: &Arc<Inode>,
        place: Place,
        ino: Ino,
        kind: FileType,
    ) -> Result<()> {
        assert!(!ino.is_null(), "an entry names an inode");
        let Some(index) = place.page else {
            let done =
                self.vol.edit_inline_entries(change, dir, |entries| entries.set_target(place.slot, ino, kind))?;
            return self.vol.expect_entry(done, dir, place);
        };
        drop(self.dir_page(dir, index)?);
        let done = self.edit_dir_page(change, dir, index, |entries| entries.set_target(place.slot, ino, kind))?;
        self.vol.expect_entry(done, dir, place)
    }

    /// The dot entry that leads to the parent.
    ///
    /// # Errors
    /// Damage: there is none, or it names no inode. Changes under a transaction could not be given back to it.
    pub(crate) fn dir_dotdot(&self, dir: &Arc<Inode>) -> Result<FoundEntry> {
        let found = self.dir_find(dir, b"..")?.filter(|found| !found.ino.is_null());
        found.ok_or_else(|| Error::corrupt(format!("directory {} has no '..' entry that names an inode", dir.ino)))
    }

    fn dir_page(&self, dir: &Arc<Inode>, index: PageIndex) -> Result<PageBuf> {
        let page = self.page(dir, index)?;
        page.ok_or_else(|| Error::corrupt(format!("page {index} of directory {} vanished", dir.ino)))
    }
}
