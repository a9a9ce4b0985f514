//! Write-back: dirty pages go to the end of a log, node by node, in batches; with `mode=adaptive` some go where their
//! blocks are.
//!
//! Pages are taken from the cache under the lock of the node that holds their slots, placed, and land when the device
//! has them. No lock of the file is needed: a truncation removes pages before it frees slots, so a page found dirty
//! under the node's lock has a slot. A page that cannot be placed, or whose write fails, is dirty again; the file's
//! next fsync reports it.

use super::PIECE_PAGES;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::files::mapping::LeafOrGap;
use crate::files::pages::Claim;
use crate::gate::Want;
use crate::options::{FSYNC_PAGES, InPlace};
use crate::volume::Change;
use crate::volume::nodes::disk_size::UNLIMITED;
use crate::volume::nodes::leaf::Leaf;
use crate::volume::placement::placing::Ended;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::Request;
use steadyfs_format::dir::FileType;
use steadyfs_format::{Log, PageIndex};
use steadyfs_rt::{Cost, charge_n};

/// Every page a file can have.
pub(crate) const ALL_PAGES: Range<PageIndex> = PageIndex(0)..PageIndex(1 << 40);

/// Why pages are written: decides which of them may stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Because it is time, or there are many.
    Turn,
    /// For an fsync; `data_only` for fdatasync.
    Sync {
        /// Whether it is fdatasync.
        data_only: bool,
    },
    /// They were written past the cache.
    Direct,
}

/// What one batch of write-back did.
struct Batch {
    pages: usize,
    /// Where the next batch starts; `None` if no dirty page was left in the range.
    next: Option<PageIndex>,
}

impl Files {
    /// Writes the dirty pages of a range and waits until they, and all writes of this inode in flight, have ended.
    ///
    /// # Errors
    /// What could not be written meanwhile. It is dirty again.
    pub(crate) fn writeback(&self, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<()> {
        self.writeback_for(inode, range, Trigger::Turn)
    }

    /// As [`Files::writeback`], for this reason.
    pub(crate) fn writeback_for(&self, inode: &Arc<Inode>, range: Range<PageIndex>, why: Trigger) -> Result<()> {
        let failures = inode.write_errors.count();
        let in_place = self.stays_in_place(inode, why);
        loop {
            let claim = if range == ALL_PAGES { self.claim_size(inode) } else { None };
            let owed = self.start_writing(inode, range.clone(), in_place);
            let started = owed.map(|owed| self.vol.io.submit_and_help(owed));
            self.budget.cache(inode).wait_landed();
            started.and(inode.write_errors.since(failures))?;
            if claim.is_none_or(Claim::redeem) {
                return Ok(());
            }
        }
    }

    /// Places the dirty pages of a file under a change that the caller holds, each elsewhere than it was. Writes that
    /// the change has gathered are not submitted. False if the file may have more, or if the device may not be told its
    /// size: then a write-back as ever has to come.
    pub(crate) fn place_all(&self, change: &Change<'_>, inode: &Arc<Inode>, most: usize) -> Result<(usize, bool)> {
        let claim = self.claim_size(inode);
        let batch = self.flush_range(change, inode, ALL_PAGES, most, false)?;
        // Others may have taken some, and not placed them yet.
        let all = batch.next.is_none() && self.budget.cache(inode).all_placed();
        Ok((batch.pages, all && claim.is_none_or(Claim::redeem)))
    }

    /// A claim on the size that the file has now, if the device may not be told it yet.
    fn claim_size<'a>(&'a self, inode: &'a Arc<Inode>) -> Option<Claim<'a>> {
        let growing = inode.node.disk_size.limit() != UNLIMITED;
        growing.then(|| inode.read(|raw| self.budget.cache(inode).claim(raw.size())).ok()).flatten()
    }

    /// Submits the dirty pages of a file that is locked, so that a checkpoint from here on has its contents and its
    /// size. Others than regular files have that anyway.
    pub(crate) fn settle_contents(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.kind != FileType::Regular {
            return Ok(());
        }
        loop {
            let claim = self.claim_size(inode);
            self.start_writeback(inode, ALL_PAGES)?;
            self.budget.cache(inode).wait_placed();
            if claim.is_none_or(Claim::redeem) {
                return Ok(());
            }
        }
    }

    /// Submits the dirty pages of a range, each once.
    pub(super) fn start_writeback(&self, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<()> {
        let owed = self.start_writing(inode, range, self.stays_in_place(inode, Trigger::Turn))?;
        self.vol.io.submit(owed);
        Ok(())
    }

    /// Whether pages of this file stay where they have blocks, when they are written for this reason: F2FS' policies.
    pub(super) fn stays_in_place(&self, inode: &Arc<Inode>, why: Trigger) -> bool {
        if inode.kind != FileType::Regular {
            return false;
        }
        match (self.in_place, why) {
            (InPlace::Never | InPlace::Auto, _) => false,
            (InPlace::Always, _) | (_, Trigger::Direct | Trigger::Sync { data_only: true }) => true,
            (InPlace::Fsync, Trigger::Sync { .. }) if self.budget.cache(inode).dirty_count() <= FSYNC_PAGES => true,
            // Cold data is seldom written, and then in part: it would only be scattered.
            (InPlace::Fsync, _) => inode.data_log() == Log::ColdData,
        }
    }

    /// Has what is placed under a change submitted together, if no page of any file ever stays where it is. A writer in
    /// place waits for an earlier write of it with its node locked, which the change that owes that write may be
    /// waiting for.
    pub(crate) fn gather(&self, change: &Change<'_>) {
        if matches!(self.in_place, InPlace::Never | InPlace::Auto) {
            change.gather();
        }
    }

    /// Pages of the next piece of a write-back. It asks for this many blocks and takes no more: pages that become dirty
    /// while it waits for room belong to another piece.
    pub(super) fn flush_size(&self, inode: &Arc<Inode>) -> u64 {
        self.budget.cache(inode).dirty_count().clamp(1, PIECE_PAGES)
    }

    /// Submits the dirty pages of a range but for the last, which the caller owes to the device, and must wait for
    /// nobody before.
    fn start_writing(&self, inode: &Arc<Inode>, range: Range<PageIndex>, in_place: bool) -> Result<Vec<Request>> {
        let mut at = range.start;
        while self.budget.cache(inode).next_dirty(&(at..range.end)).is_some() {
            let pages = self.flush_size(inode);
            let change = self.gate.begin(Want::blocks(pages))?;
            self.gather(&change);
            let batch = self.flush_range(&change, inode, at..range.end, pages as usize, in_place)?;
            change.used(batch.pages as u64);
            match batch.next {
                Some(next) => at = next,
                None => return Ok(change.take_gathered()),
            }
        }
        Ok(Vec::new())
    }

    /// Submits the dirty pages of a file, each once, in pieces that fit between those requests of the flusher that are
    /// at the device and `most_requests`.
    pub(super) fn flush_within(&self, inode: &Arc<Inode>, most_requests: u32) -> Result<()> {
        let in_place = self.stays_in_place(inode, Trigger::Turn);
        let depth = &self.flusher.depth;
        let mut at = ALL_PAGES.start;
        // A request of the next piece is taken to hold as many pages as one of the last.
        let mut pages_each = 1;
        while self.budget.cache(inode).next_dirty(&(at..ALL_PAGES.end)).is_some() {
            let pages = (depth.wait(most_requests) * pages_each).min(self.flush_size(inode));
            let before = depth.set_off();
            let change = self.gate.begin(Want::blocks(pages))?;
            change.watch(depth);
            self.gather(&change);
            let batch = self.flush_range(&change, inode, at..ALL_PAGES.end, pages as usize, in_place)?;
            change.used(batch.pages as u64);
            drop(change);
            pages_each = (batch.pages as u64).div_ceil((depth.set_off() - before).max(1)).max(1);
            match batch.next {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Submits up to `max` dirty pages under a change that the caller holds; returns how many.
    pub(crate) fn flush_pages(&self, change: &Change<'_>, inode: &Arc<Inode>, max: usize) -> Result<usize> {
        let in_place = self.stays_in_place(inode, Trigger::Turn);
        Ok(self.flush_range(change, inode, ALL_PAGES, max, in_place)?.pages)
    }

    /// Submits the dirty pages of a range under a change that the caller holds; returns how many.
    pub(super) fn flush_part(&self, change: &Change<'_>, inode: &Arc<Inode>, range: Range<PageIndex>) -> Result<usize> {
        Ok(self.flush_range(change, inode, range, usize::MAX, false)?.pages)
    }

    fn flush_range(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        range: Range<PageIndex>,
        max: usize,
        in_place: bool,
    ) -> Result<Batch> {
        let cache = self.budget.cache(inode);
        let how = (self.log_for(inode), in_place);
        let mut at = range.start;
        let mut pages = 0;
        while pages < max {
            let Some(page) = cache.next_dirty(&(at..range.end)) else {
                return Ok(Batch { pages, next: None });
            };
            at = match self.vol.leaf(inode, page)? {
                LeafOrGap::Leaf(leaf) => {
                    match self.flush_leaf(change, inode, &leaf, page..range.end, max - pages, how)? {
                        Some((last, n)) => {
                            pages += n;
                            last + 1
                        }
                        None => page,
                    }
                }
                // Cut off since it was found.
                LeafOrGap::Gap { .. } => page + 1,
            };
        }
        assert!(pages <= max, "{pages} pages were written back, at most {max}");
        Ok(Batch { pages, next: cache.next_dirty(&(at..range.end)) })
    }

    /// Submits dirty pages of one node; returns the last one and their number, or `None` if there were none any more.
    fn flush_leaf(
        &self,
        change: &Change<'_>,
        inode: &Arc<Inode>,
        leaf: &Leaf,
        range: Range<PageIndex>,
        max: usize,
        (log, in_place): (Log, bool),
    ) -> Result<Option<(PageIndex, usize)>> {
        let cache = self.budget.cache(inode);
        let mut guard = leaf.node.write(&self.vol.nodes);
        if guard.is_dead() {
            return Ok(None);
        }
        if in_place {
            inode.overwrites.note(self.gate.progress().0);
        }
        let taken = cache.take_dirty(&leaf.part(&range), max);
        let Some((last, _)) = taken.pages.last() else { return Ok(None) };
        let mut sent = 0;
        let may_stay = |page| in_place && taken.may_stay(page);
        let placed =
            self.vol.place_or_overwrite(change, leaf, &mut guard, log, &taken.pages, &may_stay, |part| -> Ended {
                sent += part.len();
                let landing = cache.landing(&taken, part);
                Box::new(move |result| landing.land(result))
            });
        drop(guard);
        charge_n(Cost::PageWriteback, taken.pages.len() as u64);
        assert!(sent <= taken.pages.len() && placed.as_ref().map_or(true, |placed| *placed == sent));
        if sent < taken.pages.len() {
            cache.put_back(&taken, &taken.pages[sent..]);
        }
        cache.placed(&taken);
        placed?;
        if sent < taken.pages.len() {
            return Err(Error::NoSpace);
        }
        Ok(Some((*last, sent)))
    }

    /// Writes every dirty file and waits for it; goes on after an error and reports the first.
    pub(crate) fn sync_files(&self) -> Result<()> {
        let mut first = Ok(());
        for file in self.budget.dirty_files() {
            first = first.and(self.writeback(&file, ALL_PAGES));
        }
        // Those whose pages others have taken, and have not placed yet.
        for file in self.inodes.growing() {
            first = first.and(self.writeback(&file, ALL_PAGES));
        }
        first
    }

    /// Dirty pages of inodes whose contents belong to the next checkpoint: directories and symlinks.
    pub(crate) fn dirty_dir_pages(&self) -> u64 {
        self.budget.dirty_in_dirs()
    }

    /// Submits the dirty pages of directories and symlinks, each batch under a change of its own.
    pub(crate) fn flush_dirty_dirs<'a>(&self, begin: impl Fn() -> Result<Change<'a>>) -> Result<()> {
        for dir in self.budget.dirty_dirs() {
            let failures = dir.write_errors.count();
            while self.flush_pages(&begin()?, &dir, PIECE_PAGES as usize)? > 0 {
                // What fails is dirty again, and would be written for ever.
                dir.write_errors.since(failures)?;
            }
        }
        Ok(())
    }

    /// Submits all dirty pages of directories and symlinks under the exclusive checkpoint lock.
    pub(crate) fn flush_dirty_dirs_frozen(&self, frozen: &Change<'_>) -> Result<()> {
        assert!(frozen.is_frozen(), "directories change while the last of their pages are written");
        self.budget.dirty_dirs().iter().try_for_each(|dir| self.flush_pages(frozen, dir, usize::MAX).map(drop))
    }
}
