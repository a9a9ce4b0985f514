//! Moving the pages of a file down or up: collapse and insert.
//!
//! A block's owner is noted in its segment's summary, so a block cannot change its page: pages are written anew in their new places.
//! Each piece is read, reserved and placed under one change, so every checkpoint finds whole pieces, and no page that a
//! checkpoint knew is given up before its copy is in the next one. A crash on the way leaves the file partly moved, each page
//! old or new.

use super::fetch::Keep;
use super::{Facts, PAGE, PIECE_PAGES, page_end};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::inode::Inode;
use crate::mapping::Extent;
use crate::volume::Change;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::{PageIndex, Slot};

impl Fs {
    /// Takes a range out of the file.
    pub(super) fn collapse(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>) -> Result<()> {
        if !bytes.start.is_multiple_of(PAGE) || !bytes.end.is_multiple_of(PAGE) || bytes.end >= facts.size {
            return Err(Error::Invalid);
        }
        let range = PageIndex(bytes.start / PAGE)..PageIndex(bytes.end / PAGE);
        let (by, end) = (range.end - range.start, page_end(facts.size));
        self.expect_move(inode, &range, range.end..end)?;
        let mut from = range.end;
        while from < end {
            let until = end.min(from + PIECE_PAGES);
            self.move_piece(inode, facts, from..until, PageIndex(from.get() - by))?;
            from = until;
        }
        self.set_size_locked(inode, facts, facts.size - (bytes.end - bytes.start))
    }

    /// Makes a hole in the file.
    pub(super) fn insert(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>) -> Result<()> {
        if !bytes.start.is_multiple_of(PAGE) || !bytes.end.is_multiple_of(PAGE) || bytes.start >= facts.size {
            return Err(Error::Invalid);
        }
        let by = bytes.end - bytes.start;
        let size = facts.size.checked_add(by).filter(|size| *size <= super::MAX_FILE_SIZE).ok_or(Error::TooBig)?;
        if facts.inline {
            let change = self.change()?;
            self.convert_inline(&change, inode, facts)?;
        }
        let (first, end) = (PageIndex(bytes.start / PAGE), page_end(facts.size));
        let pages = by / PAGE;
        self.expect_move(inode, &(end..end + pages), first..end)?;
        self.set_size_locked(inode, facts, size)?;
        let mut until = end;
        while until > first {
            let from = PageIndex(first.get().max(until.get().saturating_sub(PIECE_PAGES)));
            self.move_piece(inode, facts, from..until, from + pages)?;
            until = from;
        }
        let hole = first..(first + pages).min(end);
        self.cache(inode).remove(hole.clone());
        let mut at = hole.start;
        while at < hole.end {
            let (_admission, _held, change) = self.change_contents(inode, at..hole.end, 0)?;
            at = self.free_piece(&change, inode, at..hole.end)?;
        }
        Ok(())
    }

    /// Says `NoSpace` before anything moves if the copies could not be placed.
    fn expect_move(&self, inode: &Inode, target: &Range<PageIndex>, source: Range<PageIndex>) -> Result<()> {
        let counted = |range: Range<PageIndex>| -> Result<u64> {
            let extents = self.extents(inode, range)?;
            Ok(extents.iter().filter(|e| e.slot != Slot::Hole).map(Extent::count).sum())
        };
        let free_in_target = (target.end - target.start) - counted(target.clone())?;
        self.expect_blocks(counted(source)?.min(free_in_target))
    }

    /// Gives the pages from `to` on the contents of `from`, and places them at once.
    fn move_piece(&self, inode: &Arc<Inode>, facts: &Facts, from: Range<PageIndex>, to: PageIndex) -> Result<()> {
        let pages = self.contents(inode, facts, from, Keep::No)?;
        let target = to..to + pages.len() as u64;
        let (_admission, _held, change) = self.change_contents(inode, target.clone(), pages.len() as u64)?;
        self.cache(inode).remove(target.clone());
        let mut at = to;
        for run in pages.chunk_by(|a, b| Content::of(a) == Content::of(b)) {
            let part = at..at + run.len() as u64;
            match Content::of(&run[0]) {
                Content::Hole => self.through(part.clone(), |rest| self.free_piece(&change, inode, rest))?,
                Content::Zero => self.through(part.clone(), |rest| self.renew_piece(&change, inode, rest))?,
                Content::Data => self.put_run(&change, inode, part.start, run)?,
            }
            at = part.end;
        }
        self.flush_part(&change, inode, target)?;
        Ok(())
    }

    fn through(&self, range: Range<PageIndex>, f: impl Fn(Range<PageIndex>) -> Result<PageIndex>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            at = f(at..range.end)?;
        }
        Ok(())
    }

    fn put_run(&self, change: &Change<'_>, inode: &Arc<Inode>, at: PageIndex, run: &[Option<PageBuf>]) -> Result<()> {
        let range = at..at + run.len() as u64;
        if self.reserve(change, inode, range.clone())? < range.end {
            return Err(Error::NoSpace);
        }
        let numbered = (range.start.get()..).map(PageIndex).zip(run.iter().flatten().cloned());
        self.cache(inode).put_dirty(numbered);
        Ok(())
    }
}

/// What a page holds, as far as it decides how to make another like it.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Content {
    Hole,
    Zero,
    Data,
}

impl Content {
    fn of(page: &Option<PageBuf>) -> Self {
        match page {
            None => Content::Hole,
            Some(buf) if buf.is_zero_repr() => Content::Zero,
            Some(_) => Content::Data,
        }
    }
}
