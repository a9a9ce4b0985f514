//! Where a file has data and where it has holes.
//!
//! Data is what was written: blocks, and reserved pages whose contents still wait in the cache. Space that was only
//! reserved counts as a hole, and so does everything from the end of the file on.

use super::{page_end, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use std::sync::Arc;
use steadyfs_format::{PageIndex, Slot};

/// What [`Fs::seek`](crate::Fs::seek) looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The next byte of data.
    Data,
    /// The next byte of a hole; the end of the file counts as one.
    Hole,
}

/// Pages looked at in the first step, which often has the answer: a copier of a file asks once for each of its extents.
const FIRST_STEP: u64 = 16;
/// Pages looked at in a step at most; each is four times the one before.
const LAST_STEP: u64 = 1 << 16;

impl Files {
    /// See `Fs::seek`.
    pub(crate) fn seek(&self, file: &InodeRef, off: u64, whence: Whence) -> Result<u64> {
        let inode = &file.inode;
        regular(inode)?;
        let _lock = inode.rwsem.read();
        let facts = self.vol.facts(inode)?;
        if off >= facts.size {
            return Err(Error::NoSuchOffset);
        }
        // Slots of a compressed cluster say nothing of the pages that they number.
        if facts.inline || facts.is_compressed() {
            return Ok(if whence == Whence::Data { off } else { facts.size });
        }
        let found = self.find(inode, PageIndex::of_byte(off), page_end(facts.size), whence == Whence::Data)?;
        match (found, whence) {
            (Some(page), _) => Ok(page.byte_offset().max(off).min(facts.size)),
            (None, Whence::Hole) => Ok(facts.size),
            (None, Whence::Data) => Err(Error::NoSuchOffset),
        }
    }

    /// The first page of `from..end` that is data, or the first that is not.
    fn find(&self, inode: &Arc<Inode>, from: PageIndex, end: PageIndex, data: bool) -> Result<Option<PageIndex>> {
        let cache = self.budget.cache(inode);
        let (mut at, mut width) = (from, FIRST_STEP);
        while at < end {
            let step = end.min(at + width);
            width = LAST_STEP.min(width * 4);
            for extent in self.vol.extents(inode, at..step)? {
                let mut pages = (extent.pages.start.get()..extent.pages.end.get()).map(PageIndex);
                let found = match extent.slot {
                    Slot::Hole => (!data).then_some(extent.pages.start),
                    Slot::New => pages.find(|page| cache.is_dirty(*page) == data),
                    Slot::At(_) | Slot::Compress => data.then_some(extent.pages.start),
                };
                if found.is_some() {
                    return Ok(found);
                }
            }
            at = match data {
                true => self.vol.next_page(inode, step)?.unwrap_or(end),
                false => step,
            };
        }
        Ok(None)
    }
}
