//! Listing a directory, with positions that stay good while entries come and go.
//!
//! A cookie counts slots: 0 stands before `.`, 1 before `..`, and 2 + 214 * page + slot before that slot. An entry
//! never moves while it lives, so a reader that goes on from a cookie sees every entry that was there all along exactly
//! once. (The one exception: an inline directory with a directory level above 0, made by another system, that outgrows
//! its inode meanwhile.)

use super::{DirHead, proxy};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::types::DirEntry;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_format::dir::{BLOCK_SLOTS, Dentries, DentriesMut, DirEntry as Stored, FileType, is_valid_name};

/// Cookies before those of the stored slots: `.` and `..`.
const DOTS: u64 = 2;
const SLOTS: u64 = BLOCK_SLOTS as u64;

/// The entries of one page as they were at one moment: no lock is held while a user looks at them.
struct Snapshot {
    head: DirHead,
    /// Position of the page's first slot.
    first: u64,
    page: PageBuf,
}

impl Files {
    /// See `Fs::readdir`.
    pub(crate) fn readdir(&self, dir: &InodeRef, cookie: u64, f: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let dir = &dir.inode;
        if cookie == 0 {
            self.vol.dir_head(dir)?;
            let dot = DirEntry { name: b".", ino: dir.ino, kind: FileType::Dir, next_cookie: 1 };
            if !f(dot) {
                return Ok(());
            }
        }
        if cookie <= 1 {
            let ino = {
                let _dir = dir.rwsem.read();
                self.dir_parent(dir)?
            };
            if !f(DirEntry { name: b"..", ino, kind: FileType::Dir, next_cookie: DOTS }) {
                return Ok(());
            }
        }
        self.list_stored(dir, cookie.saturating_sub(DOTS), f)?;
        self.note_access(dir);
        Ok(())
    }

    fn list_stored(&self, dir: &Arc<Inode>, position: u64, f: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut position = position;
        while let Some(Snapshot { head, first, page }) = self.list_page(dir, position)? {
            let skip = position.saturating_sub(first);
            let more = page.with(|bytes| {
                let sound = Dentries::block(bytes).iter().filter_map(|entry| {
                    entry
                        .inspect_err(|error| tracing::warn!(dir = %dir.ino, %error, "a directory entry is damaged"))
                        .ok()
                });
                let mut wanted = sound.filter(|entry| u64::from(entry.slot) >= skip && !entry.is_dot());
                wanted.all(|entry| self.list_entry(dir, head, first, entry, f))
            });
            if !more {
                return Ok(());
            }
            position = first + SLOTS;
        }
        Ok(())
    }

    /// Hands one entry out; whether to go on.
    fn list_entry(
        &self,
        dir: &Inode,
        head: DirHead,
        first: u64,
        entry: Stored<'_>,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> bool {
        let stand_in = head.encrypted.then(|| proxy::encode(entry.hash, entry.name));
        let name = stand_in.as_deref().unwrap_or(entry.name);
        let kind = entry.file_type.or_else(|| self.inode(entry.ino).ok().map(|inode| inode.kind()));
        let Some(kind) = kind.filter(|_| is_valid_name(name)) else {
            tracing::warn!(dir = %dir.ino, ino = %entry.ino, "an entry has an impossible name, or neither kind nor inode");
            return true;
        };
        f(DirEntry { name, ino: entry.ino, kind, next_cookie: DOTS + first + u64::from(entry.slot) + 1 })
    }

    /// The first page that has slots at or after a position.
    fn list_page(&self, dir: &Arc<Inode>, position: u64) -> Result<Option<Snapshot>> {
        let _dir = dir.rwsem.read();
        let head = self.vol.dir_head(dir)?;
        if dir.read(|raw| raw.links())? == 0 {
            return Err(Error::NotFound);
        }
        if !head.inline {
            let found = self.dir_next_page(dir, head, PageIndex(position / SLOTS))?;
            return Ok(found.map(|(index, page)| Snapshot { head, first: index.0 * SLOTS, page }));
        }
        if position >= SLOTS {
            return Ok(None);
        }
        // Slot for slot what the directory becomes when it outgrows its inode, so positions mean the same in both.
        let mut page = PageBuf::zeroed();
        self.vol.with_inline_entries(dir, |entries| DentriesMut::block(page.make_mut()).copy_slots(entries))?;
        Ok(Some(Snapshot { head, first: 0, page }))
    }
}
