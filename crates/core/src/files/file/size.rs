//! Changing the size of a file, and freeing the contents of a deleted one.
//!
//! A cut sets the new size first and frees blocks behind it in pieces. Until the last piece the inode carries the mark
//! TRUNC, which is Linux' own way to say that blocks beyond the end are to go; the next change of the file finishes an
//! interrupted cut.

use super::{Facts, PAGE, page_end, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::attr::protect::Act;
use crate::files::attr::times::{clock, touch_contents};
use crate::files::inode::Inode;
use crate::gate::Want;
use crate::volume::{Change, Volume};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::{PageBuf, is_zero};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, advise, inline};
use steadyfs_format::{PageIndex, Slot, Width};

impl Volume {
    fn end_cut(&self, change: &Change<'_>, inode: &Inode, facts: &mut Facts) -> Result<()> {
        facts.advise &= !(advise::TRUNC | advise::KEEP_SIZE);
        let done = advise::TRUNC | advise::KEEP_SIZE;
        self.edit_inode(change, inode, |raw| raw.set_advise(raw.advise() & !done))
    }
}

impl Files {
    /// See `Fs::max_file_size`.
    pub(crate) fn max_file_size(&self) -> u64 {
        Width::of(self.vol.sb.features()).max_file_size()
    }

    /// Sets the size of a regular file. Takes the file's lock. Bytes added read as zeros; bytes cut off are gone, also
    /// if the file grows again.
    ///
    /// # Errors
    /// `TooBig` beyond the largest file size; `NoSpace`; what forbids changing the file.
    pub(crate) fn set_size(&self, inode: &Arc<Inode>, size: u64) -> Result<()> {
        regular(inode)?;
        if size > self.max_file_size() {
            return Err(Error::TooBig);
        }
        {
            let _lock = inode.rwsem.write();
            let mut facts = self.vol.facts_for_change(inode, Act::Overwrite)?;
            self.finish_cut(inode, &mut facts)?;
            self.set_size_locked(inode, &mut facts, size)?;
        }
        self.budget.trim();
        Ok(())
    }

    pub(super) fn set_size_locked(&self, inode: &Arc<Inode>, facts: &mut Facts, size: u64) -> Result<()> {
        if size > facts.size {
            return self.grow(inode, facts, size);
        }
        if facts.inline {
            let change = self.gate.begin(Want::default())?;
            self.vol.edit_inline(&change, inode, facts, size, |_| ())?;
            facts.size = size;
            return Ok(());
        }
        self.cut(inode, facts, size)
    }

    fn grow(&self, inode: &Arc<Inode>, facts: &mut Facts, size: u64) -> Result<()> {
        if facts.inline && size <= facts.inline_room() {
            let change = self.gate.begin(Want::default())?;
            self.vol.edit_inline(&change, inode, facts, size, |_| ())?;
            facts.size = size;
            return Ok(());
        }
        self.uncover(inode, facts, size)?;
        let change = self.gate.begin(Want::default())?;
        if facts.inline {
            self.convert_inline(&change, inode, facts)?;
        }
        self.after_write(&change, inode, facts, size)
    }

    /// Sets the size of a file with pages, and how much of it the device may be told. What becomes visible thereby is
    /// in the cache already.
    pub(super) fn move_end(&self, inode: &Arc<Inode>, raw: &mut RawInode, size: u64) {
        let (old, cache) = (raw.size(), self.budget.cache(inode));
        if size > old {
            cache.note_growth(old);
        } else if size < old {
            cache.note_cut(size);
        }
        raw.set_size(size);
    }

    /// Clears what becomes visible when the end of a file moves up to `end`: the rest of its last page, and blocks
    /// beyond it.
    pub(super) fn uncover(&self, inode: &Arc<Inode>, facts: &Facts, end: u64) -> Result<()> {
        assert!(end > facts.size, "the end of inode {} moves from {} to {end}", inode.ino, facts.size);
        if facts.inline {
            return Ok(()); // every change of inline data leaves zeros beyond the size
        }
        if !facts.size.is_multiple_of(PAGE) {
            self.zero_in_page(inode, facts.size, PageIndex::of_byte(facts.size).byte_offset() + PAGE)?;
        }
        let (first, behind) = (page_end(facts.size), page_end(end));
        if first >= behind {
            return Ok(());
        }
        let extents = self.vol.extents(inode, first..behind)?;
        for written in extents.into_iter().filter(|e| matches!(e.slot, Slot::At(_))) {
            self.renew(inode, written.pages)?;
        }
        Ok(())
    }

    /// Makes every page of a range reserved and unwritten, so that it reads as zeros.
    pub(super) fn renew(&self, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<()> {
        self.budget.cache(inode).remove(range.clone());
        let mut at = range.start;
        while at < range.end {
            let change = self.gate.begin(Want::blocks(0).on(&inode.gc, at..range.end))?;
            at = self.renew_piece(&change, inode, at..range.end)?;
        }
        Ok(())
    }

    /// Makes every page of a range a hole.
    pub(super) fn free_range(&self, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<()> {
        self.budget.cache(inode).remove(range.clone());
        let mut at = range.start;
        while at < range.end {
            let change = self.gate.begin(Want::blocks(0).on(&inode.gc, at..range.end))?;
            at = self.free_piece(&change, inode, at..range.end)?;
        }
        Ok(())
    }

    /// Zeroes bytes of one page, if it has any that are not zero.
    pub(super) fn zero_in_page(&self, inode: &Arc<Inode>, from: u64, to: u64) -> Result<()> {
        match self.zeroed_page(inode, from, to)? {
            Some((page, buf)) => {
                let change = self.gate.begin(Want::blocks(0).on(&inode.gc, page..page + 1))?;
                self.put_page(&change, inode, page, buf)
            }
            None => Ok(()),
        }
    }

    /// A page with these bytes zeroed, unless they are so already.
    fn zeroed_page(&self, inode: &Arc<Inode>, from: u64, to: u64) -> Result<Option<(PageIndex, PageBuf)>> {
        let page = PageIndex::of_byte(from);
        assert!(from < to && to <= page.byte_offset() + PAGE);
        let part = (from - page.byte_offset()) as usize..(to - page.byte_offset()) as usize;
        let Some(mut buf) = self.page(inode, page)? else { return Ok(None) };
        if buf.with(|block| is_zero(&block[part.clone()])) {
            return Ok(None);
        }
        buf.make_mut()[part].fill(0);
        Ok(Some((page, buf)))
    }

    /// Moves the end down and frees what lies behind it.
    fn cut(&self, inode: &Arc<Inode>, facts: &mut Facts, size: u64) -> Result<()> {
        assert!(size <= facts.size && !facts.inline, "inode {} of {} bytes is cut to {size}", inode.ino, facts.size);
        let tail = match size.is_multiple_of(PAGE) {
            true => None,
            false => self.zeroed_page(inode, size, PageIndex::of_byte(size).byte_offset() + PAGE)?,
        };
        let keep = page_end(size);
        {
            let change =
                self.gate.begin(Want::blocks(0).on(&inode.gc, PageIndex::of_byte(size)..PageIndex(u64::MAX)))?;
            // Under the change that moves the end: a checkpoint in between would have zeros where the old end still
            // shows them. Nor may they come where the last checkpoint has the page.
            if let Some((page, buf)) = tail {
                self.reserve_page(&change, inode, page)?;
                self.budget.cache(inode).put_moving(page, buf);
            }
            self.budget.cache(inode).remove(keep..self.vol.tree_pages(inode)?.max(keep));
            self.vol.edit_inode(&change, inode, |raw| {
                self.move_end(inode, raw, size);
                raw.set_advise(raw.advise() & !advise::KEEP_SIZE | advise::TRUNC);
                touch_contents(raw, clock());
            })?;
            facts.size = size;
            facts.advise |= advise::TRUNC;
            if self.free_some(&change, inode, keep)?.is_none() {
                return self.vol.end_cut(&change, inode, facts);
            }
        }
        self.finish_cut(inode, facts)
    }

    /// Frees the blocks beyond the end that an interrupted cut has left.
    pub(super) fn finish_cut(&self, inode: &Arc<Inode>, facts: &mut Facts) -> Result<()> {
        if !facts.has_advise(advise::TRUNC) {
            return Ok(());
        }
        let mut at = Some(page_end(facts.size)).filter(|_| !facts.inline);
        loop {
            let cut = page_end(facts.size)..PageIndex(u64::MAX);
            let change = self.gate.begin(Want::blocks(0).on(&inode.gc, cut))?;
            at = match at {
                Some(from) => self.free_some(&change, inode, from)?,
                None => return self.vol.end_cut(&change, inode, facts),
            };
        }
    }

    /// Frees a node's worth of pages from `from` on; where to go on, or `None` at the end of the tree.
    pub(super) fn free_some(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        from: PageIndex,
    ) -> Result<Option<PageIndex>> {
        let end = self.vol.tree_pages(inode)?;
        if from >= end {
            return Ok(None);
        }
        let next = self.free_piece(change, inode, from..end)?;
        assert!(next > from, "nothing was freed of inode {} from page {from:?} on", inode.ino);
        Ok(Some(next).filter(|next| *next < end))
    }

    /// Frees all pages of an inode without links, and the nodes that map them; not the inode, not its attributes.
    /// Nobody uses it any more.
    ///
    /// Interrupted by a crash it leaves an orphan with fewer blocks, and the next mount goes on.
    pub(crate) fn drop_contents(&self, inode: &Arc<Inode>) -> Result<()> {
        let _lock = inode.rwsem.write();
        let has_map = matches!(inode.kind, FileType::Regular | FileType::Dir | FileType::Symlink);
        let in_inode = inode.read(|raw| raw.has_inline(inline::DATA) || raw.has_inline(inline::DENTRY))?;
        if has_map && !in_inode {
            self.budget.cache(inode).remove(PageIndex(0)..self.vol.tree_pages(inode)?);
            let mut at = Some(PageIndex(0));
            while let Some(from) = at {
                let change = self.gate.begin(Want::to_free())?;
                at = self.free_some(&change, inode, from)?;
            }
        }
        Ok(())
    }
}
