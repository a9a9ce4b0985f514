//! How much of a file's size the device may be told: the limit of [`crate::volume::nodes::disk_size`], as its pages set
//! and raise it.
//!
//! Kept true, under the lock of the file's pages:
//! - the limit is never above the size, and while there is one, some page at or behind it is dirty or taken and not yet
//!   placed;
//! - every byte of the file below the limit is in a block that was submitted, or was never written;
//! - the limit falls only with the file's end. It rises when pages are placed or dropped, page by page. A writer of all
//!   pages that were dirty at one moment raises it to the size of that moment by a [`Claim`]. Others may have dirtied
//!   the last page again by then.
//!
//! A page whose write failed counts as placed: what its block should hold is kept, and neither checkpoint nor fsync
//! succeeds before it is on the device.

use super::{PageCache, State, TakenPages};
use crate::volume::nodes::disk_size::UNLIMITED;
use steadyfs_format::PageIndex;
use steadyfs_rt::{WaitCause, waiting_for};

/// No file has pages behind this one.
const LAST: PageIndex = PageIndex(u64::MAX);

/// Pages that were taken for writing and may have no block yet: name of the write, the first and the last.
type Unplaced = (super::Token, PageIndex, PageIndex);

/// What a file's pages know of its growth.
#[derive(Default)]
pub(super) struct Growth {
    unplaced: Vec<Unplaced>,
    claims: Vec<Claimed>,
    next_claim: u64,
}

struct Claimed {
    id: u64,
    /// Below it everything will have been placed.
    bytes: u64,
    /// Nothing that was being placed has become dirty again since.
    sound: bool,
}

/// The size of a file at one moment, held by who is about to write everything that is dirty.
pub(crate) struct Claim<'a> {
    cache: PageCache<'a>,
    id: u64,
}

impl State {
    /// The first page from here on of which the newest contents have no block.
    fn first_unplaced(&self, from: PageIndex) -> Option<PageIndex> {
        let taken =
            self.growth.unplaced.iter().filter(|(_, _, last)| *last >= from).map(|(_, first, _)| from.max(*first));
        self.map.next_dirty(&(from..LAST)).into_iter().chain(taken).min()
    }
}

impl<'a> PageCache<'a> {
    /// The file's end moves up from here, in the inode block, which is locked. What will be visible is in the cache
    /// already.
    pub(crate) fn note_growth(self, from: u64) {
        let s = self.inode.pages.state.lock();
        let disk = &self.inode.node.disk_size;
        if disk.limit() == UNLIMITED && s.first_unplaced(PageIndex::of_byte(from)).is_some() {
            disk.set_limit(from);
        }
    }

    /// The file's end moves down to here, in the inode block, which is locked.
    pub(crate) fn note_cut(self, to: u64) {
        let mut s = self.inode.pages.state.lock();
        let disk = &self.inode.node.disk_size;
        if disk.limit() >= to {
            disk.set_limit(UNLIMITED);
        }
        s.growth.claims.iter_mut().for_each(|claim| claim.bytes = claim.bytes.min(to));
    }

    /// Raises the limit as far as pages have been placed.
    pub(super) fn lift(self, s: &State) {
        let disk = &self.inode.node.disk_size;
        let limit = disk.limit();
        if limit != UNLIMITED {
            let first = s.first_unplaced(PageIndex::of_byte(limit));
            disk.set_limit(first.map_or(UNLIMITED, |page| page.byte_offset().max(limit)));
        }
    }

    /// Pages that were taken have been placed, as far as they will be: submitted and published, or put back.
    pub(crate) fn placed(self, taken: &TakenPages) {
        self.with(|s| {
            let before = s.growth.unplaced.len();
            s.growth.unplaced.retain(|(token, ..)| *token != taken.token);
            assert_eq!(s.growth.unplaced.len() + 1, before, "write {} has its places twice or never", taken.token);
            self.lift(s);
        });
        self.inode.pages.landed.notify_all();
    }

    /// Waits until what others have taken by now has been placed.
    pub(crate) fn wait_placed(self) {
        let pages = &self.inode.pages;
        let mut s = pages.state.lock();
        let theirs = s.growth.tokens();
        let _waiting = waiting_for(WaitCause::Device);
        while s.growth.tokens().iter().any(|token| theirs.contains(token)) {
            pages.landed.wait(&mut s);
        }
    }

    /// Whether nothing that was taken for writing lacks a place.
    pub(crate) fn all_placed(self) -> bool {
        self.inode.pages.state.lock().growth.is_quiet()
    }

    /// Begins to make the device know this size, which is the file's now; the inode block is locked.
    pub(crate) fn claim(self, bytes: u64) -> Claim<'a> {
        let mut s = self.inode.pages.state.lock();
        let id = s.growth.next_claim;
        s.growth.next_claim += 1;
        s.growth.claims.push(Claimed { id, bytes, sound: true });
        Claim { cache: self, id }
    }
}

impl Growth {
    /// Notes pages that were taken for writing.
    pub(super) fn note_taken(&mut self, taken: &TakenPages) {
        if let (Some((first, _)), Some((last, _))) = (taken.pages.first(), taken.pages.last()) {
            assert!(first <= last, "write {} goes from page {first:?} back to {last:?}", taken.token);
            self.unplaced.push((taken.token, *first, *last));
        }
    }

    /// Notes that pages which were taken are dirty again: who thought that they are being placed has to look again.
    pub(super) fn note_put_back(&mut self) {
        self.claims.iter_mut().for_each(|claim| claim.sound = false);
    }

    /// Whether all that was taken has been placed.
    pub(super) fn is_quiet(&self) -> bool {
        self.unplaced.is_empty()
    }

    /// Writes that have not been placed.
    pub(super) fn tokens(&self) -> Vec<super::Token> {
        self.unplaced.iter().map(|(token, ..)| *token).collect()
    }
}

impl Claim<'_> {
    /// Everything that was dirty when this was claimed has been placed, by whomever. False if some of it is dirty
    /// again, because it could not be.
    pub(crate) fn redeem(self) -> bool {
        let mut s = self.cache.inode.pages.state.lock();
        let Some(claimed) = s.growth.take_claim(self.id) else { return false };
        let disk = &self.cache.inode.node.disk_size;
        if claimed.sound && disk.limit() != UNLIMITED {
            disk.set_limit(disk.limit().max(claimed.bytes));
            self.cache.lift(&s);
        }
        claimed.sound
    }
}

impl Growth {
    fn take_claim(&mut self, id: u64) -> Option<Claimed> {
        let at = self.claims.iter().position(|claim| claim.id == id)?;
        Some(self.claims.swap_remove(at))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.cache.inode.pages.state.lock().growth.take_claim(self.id);
    }
}
