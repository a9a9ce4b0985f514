//! Moving the pages of a file down or up: collapse and insert.
//!
//! A block's owner is noted in its segment's summary, so a block cannot change its page: pages are written again in
//! their new places. Each piece is read, reserved and placed under one change, so every checkpoint finds whole pieces,
//! and no page that a checkpoint knew is given up before its copy is in the next one. A crash on the way leaves the
//! file partly moved, each page old or new.

use super::fetch::Keep;
use super::{Facts, PAGE, PIECE_PAGES, page_end};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::gate::Want;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;

impl Volume {
    fn through(&self, range: Range<PageIndex>, f: impl Fn(Range<PageIndex>) -> Result<PageIndex>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            at = f(at..range.end)?;
        }
        Ok(())
    }
}

impl Files {
    /// Takes a range out of the file.
    pub(super) fn collapse(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>) -> Result<()> {
        if !bytes.start.is_multiple_of(PAGE) || !bytes.end.is_multiple_of(PAGE) || bytes.end >= facts.size {
            return Err(Error::Invalid);
        }
        let range = PageIndex(bytes.start / PAGE)..PageIndex(bytes.end / PAGE);
        let (by, end) = (range.end - range.start, page_end(facts.size));
        let down = |from: PageIndex| PageIndex(from.get() - by);
        self.vol.expect_move(inode, facts, upwards(range.end..end), down)?;
        for piece in upwards(range.end..end) {
            let to = down(piece.start);
            self.move_piece(inode, facts, piece, to)?;
        }
        let size = facts.size - (bytes.end - bytes.start);
        self.set_size_locked(inode, facts, size)?;
        assert_eq!(facts.size, size, "inode {} without bytes {bytes:?}", inode.ino);
        Ok(())
    }

    /// Makes a hole in the file.
    pub(super) fn insert(&self, inode: &Arc<Inode>, facts: &mut Facts, bytes: Range<u64>) -> Result<()> {
        if !bytes.start.is_multiple_of(PAGE) || !bytes.end.is_multiple_of(PAGE) || bytes.start >= facts.size {
            return Err(Error::Invalid);
        }
        let by = bytes.end - bytes.start;
        let size = facts.size.checked_add(by).filter(|size| *size <= self.max_file_size()).ok_or(Error::TooBig)?;
        let (first, end) = (PageIndex(bytes.start / PAGE), page_end(facts.size));
        let pages = by / PAGE;
        self.vol.expect_move(inode, facts, downwards(first..end), |from| from + pages)?;
        self.leave_inline(inode, facts)?;
        self.set_size_locked(inode, facts, size)?;
        for piece in downwards(first..end) {
            let to = piece.start + pages;
            self.move_piece(inode, facts, piece, to)?;
        }
        self.free_range(inode, first..(first + pages).min(end))
    }

    /// Gives the pages from `to` on the contents of `from`, and places them at once.
    fn move_piece(&self, inode: &Arc<Inode>, facts: &Facts, from: Range<PageIndex>, to: PageIndex) -> Result<()> {
        let count = from.end - from.start;
        let pages = self.contents(inode, facts, from, Keep::No)?;
        assert_eq!(pages.len() as u64, count, "pages of inode {} from {to:?} on", inode.ino);
        let target = to..to + pages.len() as u64;
        let change = self.gate.begin(Want::blocks(pages.len() as u64).on(&inode.gc, target.clone()))?;
        self.budget.cache(inode).remove(target.clone());
        let mut at = to;
        for run in pages.chunk_by(|a, b| Content::of(a) == Content::of(b)) {
            let part = at..at + run.len() as u64;
            match Content::of(&run[0]) {
                Content::Hole => self.vol.through(part.clone(), |rest| self.free_piece(&change, inode, rest))?,
                Content::Zero => self.vol.through(part.clone(), |rest| self.renew_piece(&change, inode, rest))?,
                Content::Data => self.put_run(&change, inode, part.start, run)?,
            }
            at = part.end;
        }
        assert_eq!(at, target.end, "not all pages of inode {} were moved", inode.ino);
        self.flush_part(&change, inode, target)?;
        Ok(())
    }

    fn put_run(&self, change: &Change<'_>, inode: &Arc<Inode>, at: PageIndex, run: &[Option<PageBuf>]) -> Result<()> {
        let range = at..at + run.len() as u64;
        if self.vol.reserve(change, inode, range.clone())? < range.end {
            return Err(Error::NoSpace);
        }
        let numbered = (range.start.get()..).map(PageIndex).zip(run.iter().flatten().cloned());
        self.budget.cache(inode).put_dirty(numbered);
        Ok(())
    }
}

/// A range in pieces, the first one first.
fn upwards(range: Range<PageIndex>) -> impl Iterator<Item = Range<PageIndex>> {
    let starts = (range.start.get()..range.end.get()).step_by(PIECE_PAGES as usize).map(PageIndex);
    starts.map(move |start| start..range.end.min(start + PIECE_PAGES))
}

/// A range in pieces, the last one first.
fn downwards(range: Range<PageIndex>) -> impl Iterator<Item = Range<PageIndex>> {
    let behind = (range.start.get()..range.end.get()).step_by(PIECE_PAGES as usize);
    let ends = behind.map(move |n| PageIndex(range.end.get() - (n - range.start.get())));
    ends.map(move |end| PageIndex(range.start.get().max(end.get().saturating_sub(PIECE_PAGES)))..end)
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
