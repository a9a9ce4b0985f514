//! Single pages, as directories and symlinks use them. The caller holds the inode's `i_rwsem`, and no node lock.

use super::fetch::Keep;
use crate::error::Result;
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::Change;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;

impl Files {
    /// The contents of a page; `None` for a hole. A page that was reserved and never written is zero.
    pub(crate) fn page(&self, inode: &Arc<Inode>, page: PageIndex) -> Result<Option<PageBuf>> {
        if let Some(buf) = self.budget.cache(inode).get(page) {
            return Ok(Some(buf));
        }
        let mut fetched = self.fetch(inode, page..page + 1, Keep::Yes)?;
        self.budget.trim();
        Ok(fetched.pop().flatten())
    }

    /// Replaces the contents of a page, reserving it if it is a hole. It is written later: of directories and symlinks
    /// by the next checkpoint at the latest. The inode holds no inline contents (any more).
    ///
    /// # Errors
    /// `NoSpace`, after which nothing has changed.
    pub(crate) fn put_page(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        page: PageIndex,
        buf: PageBuf,
    ) -> Result<()> {
        self.reserve_page(change, inode, page)?;
        self.budget.cache(inode).put_dirty([(page, buf)]);
        Ok(())
    }

    /// Reserves the slot of a page, if it has none.
    pub(super) fn reserve_page(&self, change: &Change<'_>, inode: &Arc<Inode>, page: PageIndex) -> Result<()> {
        // A cached page has one.
        if !self.budget.cache(inode).has_range(&(page..page + 1)) {
            let reached = self.vol.reserve(change, inode, page..page + 1)?;
            assert_eq!(reached, page + 1, "a page is written without a reserved slot");
        }
        Ok(())
    }

    /// Makes pages holes: what they held is gone, and so are nodes that held nothing else. Meant for few pages: it does
    /// not give the checkpoint lock back on the way.
    pub(crate) fn punch_pages(&self, change: &Change<'_>, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<()> {
        self.budget.cache(inode).remove(range.clone());
        let mut at = range.start;
        while at < range.end {
            at = self.free_piece(change, inode, at..range.end)?;
        }
        Ok(())
    }
}
