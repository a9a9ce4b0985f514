//! Contents of files: reading, writing, size, preallocation, seeking, write-back.
//!
//! Contents are in one of two places: in the inode itself (inline data, [`inline`]) or in pages
//! ([`crate::files::pages`], [`crate::files::mapping`]). Operations take the file's `i_rwsem` first, exclusively if
//! they change contents, size or the map, and then go in pieces, each under a change of its own, so that a checkpoint
//! never waits for a large request.
//!
//! Kept true: bytes at and beyond the end of a file are never seen, whatever the blocks there hold: a thread that moves
//! the end up clears the bytes that it uncovers. A crash leaves each page of a file as some write-back left it, or zero
//! if it was never written.

mod compress;
mod direct;
mod falloc;
mod fetch;
mod flush;
pub(crate) mod flusher;
mod inline;
mod page;
mod payload;
mod read;
mod room;
mod seek;
mod shift;
mod size;
mod write;
mod writeback;

pub use falloc::FallocMode;
pub(crate) use flush::start_flusher;
pub(crate) use flusher::Flusher;
pub use seek::Whence;
pub(crate) use writeback::{ALL_PAGES, Trigger};

use crate::error::{Error, Result};
use crate::files::attr::protect::{self, Act};
use crate::files::attr::times::{clock, touch_contents};
use crate::files::inode::Inode;
use crate::volume::Volume;
use std::ops::Range;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, InodeShape, advise, flags, inline as inline_flags};
use steadyfs_format::{BLOCK_SIZE, Features, PageIndex};

/// Bytes in a page.
pub(crate) const PAGE: u64 = BLOCK_SIZE as u64;

/// Most pages written, reserved or moved under one change.
const PIECE_PAGES: u64 = 256;

/// Who keeps the times of a file that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// The write sets them.
    Ours,
    /// A cache above this one has done so when it took the write, and brings them along by itself (the kernel's, with
    /// FUSE write-back).
    Callers,
}

/// What an operation on contents needs to know about a file. Stays true while `i_rwsem` is held.
#[derive(Clone, Copy)]
struct Facts {
    /// Who sets the times of this operation.
    times: Times,
    size: u64,
    inline: bool,
    advise: u8,
    flags: u32,
    shape: InodeShape,
}

impl Facts {
    fn of(raw: &RawInode, features: Features) -> Result<Self> {
        Ok(Facts {
            times: Times::Ours,
            size: raw.size(),
            inline: raw.has_inline(inline_flags::DATA),
            advise: raw.advise(),
            flags: raw.flags(),
            shape: raw.shape(features)?,
        })
    }

    /// Notes in the inode that its contents change now.
    fn touch(&self, raw: &mut RawInode) {
        if self.times == Times::Ours {
            touch_contents(raw, clock());
        }
    }

    /// Bytes that fit in the inode; 0 if the file's contents are not there.
    fn inline_room(&self) -> u64 {
        if self.inline { self.shape.inline_len() as u64 } else { 0 }
    }

    fn is_compressed(&self) -> bool {
        self.flags & flags::COMPR != 0
    }

    fn has_advise(&self, bit: u8) -> bool {
        self.advise & bit != 0
    }
}

/// The pages that a range of bytes touches.
fn pages_of(from: u64, to: u64) -> Range<PageIndex> {
    PageIndex(from / PAGE)..PageIndex(to.div_ceil(PAGE))
}

/// The first page behind a size.
fn page_end(size: u64) -> PageIndex {
    PageIndex(size.div_ceil(PAGE))
}

impl Volume {
    fn facts(&self, inode: &Inode) -> Result<Facts> {
        let features = self.sb.features();
        inode.read(|raw| Facts::of(raw, features))?
    }

    /// The facts of a file that is about to be written from `off` on; refuses files that cannot be. What a cache above
    /// this one took was allowed then.
    fn facts_for_write(&self, inode: &Inode, off: u64, times: Times) -> Result<Facts> {
        let facts = self.facts_for(inode, |raw| match times {
            Times::Callers => None,
            Times::Ours => Some(if off < raw.size() { Act::Overwrite } else { Act::Append }),
        })?;
        Ok(Facts { times, ..facts })
    }

    /// The facts of a file whose contents are about to change; refuses files that cannot be changed.
    fn facts_for_change(&self, inode: &Inode, act: Act) -> Result<Facts> {
        self.facts_for(inode, |_| Some(act))
    }

    fn facts_for(&self, inode: &Inode, act: impl FnOnce(&RawInode) -> Option<Act>) -> Result<Facts> {
        self.check_writable()?;
        let features = self.sb.features();
        let facts = inode.read(|raw| {
            if let Some(act) = act(raw) {
                protect::check(raw, act)?;
            }
            Facts::of(raw, features)
        })??;
        let reason = if facts.has_advise(advise::ENCRYPT) {
            "encrypted files"
        } else if facts.has_advise(advise::VERITY) {
            "fs-verity files"
        } else if facts.is_compressed() {
            "compressed files"
        } else if facts.flags & flags::DEVICE_ALIAS != 0 {
            "files that stand for a device"
        } else {
            return Ok(facts);
        };
        Err(Error::Unsupported(format!("{reason} cannot be changed by this version")))
    }
}

/// Refuses anything but regular files.
fn regular(inode: &Inode) -> Result<()> {
    match inode.kind {
        FileType::Regular => Ok(()),
        FileType::Dir => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

#[cfg(test)]
mod tests;
