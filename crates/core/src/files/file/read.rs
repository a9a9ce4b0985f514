//! Buffered reading: from the inode, from the cache, or from the device into the cache, with read-ahead for sequential
//! readers.

use super::fetch::Keep;
use super::{Facts, PAGE, page_end, pages_of, regular};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_format::inode::advise;
use steadyfs_rt::{Cost, charge, charge_n};

/// Pages handled at a time.
const WINDOW_PAGES: u64 = 256;

impl Files {
    /// See `Fs::read`.
    pub(crate) fn read(&self, file: &InodeRef, off: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = &file.inode;
        regular(inode)?;
        let n = {
            let _lock = inode.rwsem.read();
            self.read_locked(inode, off, buf, Keep::Yes)?
        };
        self.traffic.note_read(n);
        self.note_access(inode);
        Ok(n)
    }

    /// Reads under the file's lock. Where the caller has memory for the rest of the last page, that holds anything
    /// then.
    pub(super) fn read_locked(&self, inode: &Arc<Inode>, off: u64, buf: &mut [u8], keep: Keep) -> Result<usize> {
        let facts = self.vol.facts(inode)?;
        if facts.has_advise(advise::ENCRYPT) {
            return Err(Error::Unsupported("the file is encrypted, and its key is not known here".into()));
        }
        let n = facts.size.saturating_sub(off).min(buf.len() as u64) as usize;
        if n == 0 {
            return Ok(0);
        }
        if facts.inline {
            return self.vol.read_inline(inode, off, &mut buf[..n]).map(|()| n);
        }
        let straight = keep == Keep::No && off.is_multiple_of(PAGE) && !facts.is_compressed();
        let mut done = 0;
        while done < n {
            let at = off + done as u64;
            let window = (WINDOW_PAGES * PAGE - at % PAGE).min((n - done) as u64) as usize;
            let whole = window.next_multiple_of(PAGE as usize);
            match buf.get_mut(done..done + whole) {
                Some(target) if straight => self.read_straight(inode, at, target)?,
                _ => self.read_window(inode, &facts, at, &mut buf[done..done + window], keep)?,
            }
            self.budget.trim();
            done += window;
        }
        Ok(n)
    }

    fn read_window(&self, inode: &Arc<Inode>, facts: &Facts, off: u64, buf: &mut [u8], keep: Keep) -> Result<()> {
        let range = pages_of(off, off + buf.len() as u64);
        let pages = self.contents(inode, facts, range.clone(), keep)?;
        let holes = pages.iter().filter(|page| page.is_none()).count() as u64;
        charge_n(Cost::PageCopy, range.end - range.start - holes);
        charge_n(Cost::PageZero, holes);
        for (page, content) in (range.start.get()..).zip(pages) {
            let start = page * PAGE;
            let from = start.max(off);
            let to = (start + PAGE).min(off + buf.len() as u64);
            let target = &mut buf[(from - off) as usize..(to - off) as usize];
            match content {
                Some(content) => content.copy_out((from - start) as usize, target),
                None => target.fill(0),
            }
        }
        Ok(())
    }

    /// Whole pages, from the device straight to the caller; cached ones are copied.
    fn read_straight(&self, inode: &Arc<Inode>, off: u64, target: &mut [u8]) -> Result<()> {
        let range = pages_of(off, off + target.len() as u64);
        let cached = self.budget.cache(inode).get_range(range.clone());
        let mut at = 0;
        while at < cached.len() {
            let start = at * PAGE as usize;
            if let Some(page) = &cached[at] {
                charge(Cost::PageCopy);
                page.copy_out(0, &mut target[start..start + PAGE as usize]);
                at += 1;
                continue;
            }
            let end = (at..cached.len()).find(|i| cached[*i].is_some()).unwrap_or(cached.len());
            let wanted = range.start + at as u64..range.start + end as u64;
            self.fetch_to(inode, wanted, &mut target[start..end * PAGE as usize])?;
            at = end;
        }
        Ok(())
    }

    /// The contents of a range of pages, `None` for holes: cached ones as they are, the others from the device.
    pub(super) fn contents(
        &self,
        inode: &Arc<Inode>,
        facts: &Facts,
        range: Range<PageIndex>,
        keep: Keep,
    ) -> Result<Vec<Option<PageBuf>>> {
        if facts.is_compressed() {
            return self.cluster_contents(inode, range, keep);
        }
        let cache = self.budget.cache(inode);
        let mut pages = cache.get_range(range.clone());
        if pages.iter().all(Option::is_some) {
            return Ok(pages);
        }
        let ahead = if keep == Keep::Yes { cache.read_ahead(&range) } else { 0 };
        let mut at = 0;
        while let Some(first) = (at..pages.len()).find(|i| pages[*i].is_none()) {
            let behind = (first..pages.len()).find(|i| pages[*i].is_some()).unwrap_or(pages.len());
            let mut wanted = range.start + first as u64..range.start + behind as u64;
            if behind == pages.len() {
                wanted.end = (wanted.end + ahead).min(page_end(facts.size)).max(wanted.end);
            }
            let fetched = self.fetch(inode, wanted, keep)?;
            for (slot, page) in pages[first..behind].iter_mut().zip(fetched) {
                *slot = page;
            }
            at = behind;
        }
        Ok(pages)
    }
}
