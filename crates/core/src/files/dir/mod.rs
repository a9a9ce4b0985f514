//! Directories: finding, adding and removing entries.
//!
//! A small directory lives in its inode, a larger one in blocks that form a hash table of growing levels (format
//! sections 8, 10). This module knows entries and nothing of the inodes they name: link counts, times and what may be
//! changed at all are `namei`'s.
//!
//! Kept true:
//! - A name is in a directory at most once.
//! - An entry lies in a bucket of its hash, on a level below the directory's depth.
//! - Each function changes all or nothing, so a caller can undo what it did before.
//!
//! Relies on the caller for the directory's `i_rwsem`, shared for reading and exclusive for changes, and on `pages` for
//! blocks. Whatever the blocks hold, reading stays in bounds and ends.

mod change;
mod convert;
mod fold;
mod list;
pub(crate) mod names;
mod proxy;
mod query;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use proxy::encrypted_text;
pub(crate) use search::{Room, Search};

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::Volume;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::dir::{Dentries, FileType, MAX_DEPTH};
use steadyfs_format::inode::{Inode as RawInode, advise, flags, inline};
use steadyfs_format::{BLOCK_SIZE, Features, Ino, PageIndex};

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory's page; `None` in an inline directory.
    pub(crate) page: Option<PageIndex>,
    /// First slot of the entry.
    pub(crate) slot: u16,
}

/// An entry that was found. Good for as long as the directory is locked and nothing is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) place: Place,
    pub(crate) ino: Ino,
    /// Kind as the entry says; the inode's own word counts.
    pub(crate) file_type: Option<FileType>,
}

/// What a directory's inode says about its entries, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirHead {
    pub(crate) inline: bool,
    /// Levels of the hash table.
    depth: u8,
    dir_level: u8,
    /// Pages that the directory may have: nothing lies beyond.
    pages: u64,
    /// Names ignore case.
    folded: bool,
    /// Names are ciphertext.
    pub(crate) encrypted: bool,
}

impl DirHead {
    fn of(raw: &RawInode) -> Self {
        DirHead {
            inline: raw.has_inline(inline::DENTRY),
            depth: raw.current_depth().min(u32::from(MAX_DEPTH)) as u8,
            dir_level: raw.dir_level(),
            pages: raw.size().div_ceil(BLOCK_SIZE as u64),
            folded: raw.flags() & flags::CASEFOLD != 0,
            encrypted: raw.advise() & advise::ENCRYPT != 0,
        }
    }
}

/// See [`Volume::dir_names_to_place`].
pub(crate) fn names_to_place(raw: &RawInode, features: Features) -> Result<u64> {
    let head = DirHead::of(raw);
    if !head.inline || head.dir_level == 0 {
        return Ok(1);
    }
    let entries = Dentries::inline(raw.inline_area(raw.shape(features)?));
    Ok(1 + u64::from(entries.layout().slots()))
}

impl Volume {
    /// The directory's shape now; an error if the inode is no directory.
    pub(crate) fn dir_head(&self, dir: &Inode) -> Result<DirHead> {
        if dir.kind != FileType::Dir {
            return Err(Error::NotDirectory);
        }
        dir.read(DirHead::of)
    }

    /// Lends the entries of an inline directory to `f`.
    fn with_inline_entries<R>(&self, dir: &Inode, f: impl FnOnce(Dentries<'_>) -> R) -> Result<R> {
        let features = self.sb.features();
        dir.read(|raw| Ok(f(Dentries::inline(raw.inline_area(raw.shape(features)?)))))?
    }

    /// How many names may get a place in a page when one is added. An inline directory moves as a whole. Where its
    /// level says that the table begins with many buckets, each entry may go to a page of its own.
    pub(crate) fn dir_names_to_place(&self, dir: &Inode) -> Result<u64> {
        let features = self.sb.features();
        dir.read(|raw| names_to_place(raw, features))?
    }
}

impl Files {
    /// Whether the directory holds nothing but its dot entries.
    pub(crate) fn dir_is_empty(&self, dir: &Arc<Inode>) -> Result<bool> {
        let head = self.vol.dir_head(dir)?;
        if head.inline {
            return self.vol.with_inline_entries(dir, |entries| entries.is_empty());
        }
        let mut from = PageIndex(0);
        while let Some((index, page)) = self.dir_next_page(dir, head, from)? {
            if !page.with(|bytes| Dentries::block(bytes).is_empty()) {
                return Ok(false);
            }
            from = index + 1;
        }
        Ok(true)
    }

    /// The first page at or after `from` that exists.
    fn dir_next_page(&self, dir: &Arc<Inode>, head: DirHead, from: PageIndex) -> Result<Option<(PageIndex, PageBuf)>> {
        let mut at = from;
        while let Some(index) = self.vol.next_page(dir, at)?.filter(|index| index.0 < head.pages) {
            if let Some(page) = self.page(dir, index)? {
                return Ok(Some((index, page)));
            }
            at = index + 1;
        }
        Ok(None)
    }

    /// The directory that contains this one, as its `..` entry says.
    pub(crate) fn dir_parent(&self, dir: &Arc<Inode>) -> Result<Ino> {
        match self.dir_find(dir, b"..")? {
            Some(found) => Ok(found.ino),
            // Directories of an obsolete kind have no dot entries; the inode knows as well.
            None => dir.read(RawInode::pino),
        }
    }
}
