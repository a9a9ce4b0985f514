//! The page cache: contents of files and directories in memory, clean or waiting to be written.
//!
//! Each inode has its [`Pages`] behind one small lock; [`Budget`] bounds the memory of all of them. [`PageCache`] is
//! the pair, for one operation on one inode.
//!
//! Kept true:
//! - a cached page's slot is counted (never a hole): who frees a slot removes the page under the lock of its node, who
//!   caches a page reserves first;
//! - pages are copied on write, so a page that is being written may be changed at once: the write in flight keeps the
//!   old bytes;
//! - dirty pages are taken for writing, and clean pages are put, only under the node lock of the node that holds their
//!   slots, so neither can cross a truncation or a direct write of the same page;
//! - a page whose write failed is dirty again, and the error is noted for those who have the file open.

mod budget;
mod evict;
mod growth;
mod map;

pub(crate) use budget::Budget;
pub use budget::CacheStats;

use crate::files::inode::Inode;
use crate::locks;
pub(crate) use growth::Claim;
use growth::Growth;
use map::{PageMap, Token};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::{IoError, PageBuf};
use steadyfs_format::{Block, PageIndex};
use steadyfs_rt::{Condvar, Cost, Mutex, WaitCause, charge, charge_n, waiting_for};

/// The cached pages of an inode.
pub(crate) struct Pages {
    state: Mutex<State>,
    landed: Condvar,
}

#[derive(Default)]
struct State {
    map: PageMap,
    /// Dirty pages that are not to be written where their blocks are.
    moving: BTreeSet<PageIndex>,
    next_token: Token,
    /// Writes in flight, each with the number of its pages that have not landed.
    flights: Vec<(Token, usize)>,
    growth: Growth,
    ring_key: Option<u64>,
    dirty_key: Option<u64>,
    /// Chunk at which the next eviction visit starts.
    hand: u64,
    ahead: ReadAhead,
}

/// Guesses what will be read next.
#[derive(Clone, Copy, Default)]
struct ReadAhead {
    /// Page behind the last one read.
    next: PageIndex,
    /// Pages to read beyond the request.
    window: u64,
}

/// Most pages read beyond a request.
const MOST_AHEAD: u64 = 64;

/// Dirty pages taken for writing.
pub(crate) struct TakenPages {
    token: Token,
    /// The pages in rising order, with the contents to write.
    pub(crate) pages: Vec<(PageIndex, PageBuf)>,
    /// Those that are not to be written where their blocks are.
    moving: Vec<PageIndex>,
}

impl TakenPages {
    /// Whether a page may be written where its block is.
    pub(crate) fn may_stay(&self, page: PageIndex) -> bool {
        !self.moving.contains(&page)
    }
}

/// Landing of some pages of a [`TakenPages`]: to be called once when their write has ended.
pub(crate) struct Landing {
    inode: Arc<Inode>,
    budget: Budget,
    token: Token,
    pages: Vec<PageIndex>,
}

/// The cached pages of one inode, with the budget they count against.
#[derive(Clone, Copy)]
pub(crate) struct PageCache<'a> {
    inode: &'a Arc<Inode>,
    budget: &'a Budget,
}

impl Pages {
    /// No pages.
    pub(crate) fn new() -> Self {
        Pages { state: Mutex::new(&locks::PAGES, State::default()), landed: Condvar::new() }
    }

    /// Drops all pages if that loses nothing; false if some are dirty or on their way.
    pub(crate) fn drop_all_if_clean(&self, budget: &Budget) -> bool {
        let mut s = self.state.lock();
        if !s.map.is_disposable() || !s.flights.is_empty() || !s.growth.is_quiet() {
            return false;
        }
        assert!(s.dirty_key.is_none(), "an inode is listed as dirty and has no dirty page");
        assert!(s.moving.is_empty(), "a clean page is to be written to another block");
        budget.dropped(s.map.count());
        s.map = PageMap::default();
        if let Some(key) = s.ring_key.take() {
            budget.leave_ring(key);
        }
        true
    }
}

impl State {
    fn counts(&self) -> (u64, u64) {
        (self.map.count(), self.map.dirty())
    }
}

impl Budget {
    /// The cached pages of an inode.
    pub(crate) fn cache<'a>(&'a self, inode: &'a Arc<Inode>) -> PageCache<'a> {
        PageCache { inode, budget: self }
    }
}

impl PageCache<'_> {
    /// Runs `f` under the inode's page lock and brings counters and lists in line with what it did.
    fn with<R>(self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut s = self.inode.pages.state.lock();
        let before = s.counts();
        let out = f(&mut s);
        let after = s.counts();
        assert!(after.1 <= after.0, "{} of {} pages are dirty", after.1, after.0);
        if before != after {
            self.budget.count(self.inode, before, after);
            self.relist(&mut s);
        }
        let ino = self.inode.ino;
        assert_eq!(s.ring_key.is_some(), after.0 > 0, "inode {ino} has {} pages: its place on the ring", after.0);
        assert_eq!(
            s.dirty_key.is_some(),
            after.1 > 0,
            "inode {ino} has {} dirty pages: its place on the list",
            after.1
        );
        if after.1 < before.1 {
            self.lift(&s);
        }
        out
    }

    fn relist(self, s: &mut State) {
        match (s.map.count() > 0, s.ring_key) {
            (true, None) => s.ring_key = Some(self.budget.join_ring(self.inode)),
            (false, Some(key)) => {
                s.ring_key = None;
                self.budget.leave_ring(key);
            }
            _ => {}
        }
        match (s.map.dirty() > 0, s.dirty_key) {
            (true, None) => s.dirty_key = Some(self.budget.join_dirty(self.inode)),
            (false, Some(key)) => {
                s.dirty_key = None;
                self.budget.leave_dirty(self.inode, key);
            }
            _ => {}
        }
    }

    /// A page, if it is cached.
    pub(crate) fn get(self, page: PageIndex) -> Option<PageBuf> {
        self.inode.pages.state.lock().map.get(page).cloned()
    }

    /// The pages of a range, each if it is cached.
    pub(crate) fn get_range(self, range: Range<PageIndex>) -> Vec<Option<PageBuf>> {
        charge_n(Cost::RadixLookup, range.end - range.start);
        let mut s = self.inode.pages.state.lock();
        (range.start.get()..range.end.get()).map(|p| s.map.get(PageIndex(p)).cloned()).collect()
    }

    /// These pages, if each is cached as it is on the device: neither dirty nor on its way there.
    pub(crate) fn landed(self, pages: &[PageIndex]) -> Option<Vec<PageBuf>> {
        charge_n(Cost::RadixLookup, pages.len() as u64);
        let mut s = self.inode.pages.state.lock();
        pages.iter().map(|page| s.map.get_landed(*page).cloned()).collect()
    }

    /// Whether every page of a range is cached.
    pub(crate) fn has_range(self, range: &Range<PageIndex>) -> bool {
        let s = self.inode.pages.state.lock();
        (range.start.get()..range.end.get()).all(|p| s.map.contains(PageIndex(p)))
    }

    /// Puts clean pages where there are none. Call under the node lock of the node that holds their slots.
    pub(crate) fn put_clean(self, pages: &[(PageIndex, PageBuf)]) {
        self.with(|s| {
            for (page, buf) in pages {
                s.map.put_clean(*page, buf.clone());
            }
        });
    }

    /// Puts or replaces pages, which are dirty then. Their slots are reserved.
    pub(crate) fn put_dirty(self, pages: impl IntoIterator<Item = (PageIndex, PageBuf)>) {
        self.with(|s| {
            for (page, buf) in pages {
                charge(Cost::RadixLookup);
                s.map.put_dirty(page, buf);
            }
        });
    }

    /// Puts or replaces a page, as [`PageCache::put_dirty`]; the next write of it goes to another block. For contents
    /// that the block may not have while a checkpoint refers to it.
    pub(crate) fn put_moving(self, page: PageIndex, buf: PageBuf) {
        charge(Cost::RadixLookup);
        self.with(|s| {
            s.map.put_dirty(page, buf);
            s.moving.insert(page);
        });
    }

    /// Changes a cached page in place; false if it is not cached.
    pub(crate) fn modify(self, page: PageIndex, f: impl FnOnce(&mut Block)) -> bool {
        self.with(|s| match s.map.get_dirty(page) {
            Some(buf) => {
                f(buf.make_mut());
                true
            }
            None => false,
        })
    }

    /// Forgets the pages of a range, dirty or not.
    pub(crate) fn remove(self, range: Range<PageIndex>) {
        self.with(|s| {
            s.map.remove(&range);
            s.moving.retain(|page| !range.contains(page));
        });
    }

    /// Whether a page is cached and dirty.
    pub(crate) fn is_dirty(self, page: PageIndex) -> bool {
        self.inode.pages.state.lock().map.is_dirty(page)
    }

    /// How many pages are dirty.
    pub(crate) fn dirty_count(self) -> u64 {
        self.inode.pages.state.lock().map.dirty()
    }

    /// The first dirty page of a range.
    pub(crate) fn next_dirty(self, range: &Range<PageIndex>) -> Option<PageIndex> {
        self.inode.pages.state.lock().map.next_dirty(range)
    }

    /// Takes up to `max` dirty pages of a range for writing. Call under the node lock of the node that holds their
    /// slots. Every page must end in [`Landing::land`] or [`PageCache::put_back`], and all of them in
    /// [`PageCache::placed`].
    pub(crate) fn take_dirty(self, range: &Range<PageIndex>, max: usize) -> TakenPages {
        self.with(|s| {
            s.next_token = s.next_token.wrapping_add(1);
            let token = s.next_token;
            assert!(s.flights.iter().all(|(flying, _)| *flying != token), "two writes have the number {token}");
            let pages = s.map.take_dirty(range, max, token);
            assert!(
                pages.is_sorted_by_key(|(page, _)| *page),
                "write {token} has its pages in another order than theirs"
            );
            if !pages.is_empty() {
                s.flights.push((token, pages.len()));
                self.budget.took_off(pages.len() as u64);
            }
            // From the write on they have blocks of their own.
            let moving = pages.iter().map(|(page, _)| *page).filter(|page| s.moving.remove(page)).collect();
            let taken = TakenPages { token, pages, moving };
            s.growth.note_taken(&taken);
            taken
        })
    }

    /// The landing of some of the pages that were taken.
    pub(crate) fn landing(self, taken: &TakenPages, pages: &[(PageIndex, PageBuf)]) -> Landing {
        assert!(pages.len() <= taken.pages.len(), "more pages land than write {} has taken", taken.token);
        let pages = pages.iter().map(|(page, _)| *page).collect();
        Landing { inode: Arc::clone(self.inode), budget: self.budget.clone(), token: taken.token, pages }
    }

    /// Makes pages dirty again that were taken and not submitted.
    pub(crate) fn put_back(self, taken: &TakenPages, pages: &[(PageIndex, PageBuf)]) {
        {
            let mut s = self.inode.pages.state.lock();
            s.growth.note_put_back();
            s.moving.extend(pages.iter().map(|(page, _)| *page).filter(|page| !taken.may_stay(*page)));
        }
        self.ended(taken.token, pages.iter().map(|(page, _)| *page), pages.len(), true);
    }

    fn ended(self, token: Token, pages: impl Iterator<Item = PageIndex>, count: usize, again: bool) {
        self.with(|s| {
            s.map.land(token, pages, again);
            s.end_flight(token, count);
        });
        self.inode.pages.landed.notify_all();
        self.budget.have_ended(count as u64, if again { 0 } else { count as u64 });
    }

    /// Lets the age of the oldest dirty page count from now: somebody is writing the dirty pages.
    pub(crate) fn renew_age(self) {
        self.with(|s| {
            if let Some(key) = s.dirty_key {
                self.budget.leave_dirty(self.inode, key);
                s.dirty_key = Some(self.budget.join_dirty(self.inode));
            }
        });
    }

    /// Whether pages are on their way to the device.
    pub(crate) fn is_flying(self) -> bool {
        !self.inode.pages.state.lock().flights.is_empty()
    }

    /// Waits until every write that is in flight now has ended, and who began it has placed its pages.
    pub(crate) fn wait_landed(self) {
        let pages = &self.inode.pages;
        let mut s = pages.state.lock();
        let under_way =
            |s: &State| s.flights.iter().map(|(token, _)| *token).chain(s.growth.tokens()).collect::<Vec<_>>();
        let mine = under_way(&s);
        let _waiting = waiting_for(WaitCause::Device);
        while !mine.is_empty() && under_way(&s).iter().any(|token| mine.contains(token)) {
            pages.landed.wait(&mut s);
        }
    }

    /// Notes a read of a range; returns how many pages beyond it are worth reading now.
    pub(crate) fn read_ahead(self, range: &Range<PageIndex>) -> u64 {
        let mut s = self.inode.pages.state.lock();
        let sequential = range.start == s.ahead.next || range.start.get() + 1 == s.ahead.next.get();
        let window = if sequential { (s.ahead.window * 2).max(range.end - range.start).min(MOST_AHEAD) } else { 0 };
        s.ahead = ReadAhead { next: range.end, window };
        window
    }
}

impl State {
    fn end_flight(&mut self, token: Token, pages: usize) {
        let Some(at) = self.flights.iter().position(|(t, _)| *t == token) else {
            panic!("write {token} landed and had not set off");
        };
        let left = &mut self.flights[at].1;
        assert!(*left >= pages, "write {token} landed more pages than it had");
        *left -= pages;
        if *left == 0 {
            self.flights.swap_remove(at);
        }
    }
}

impl Landing {
    /// The write of these pages has ended.
    pub(crate) fn land(self, result: std::result::Result<(), IoError>) {
        let cache = PageCache { inode: &self.inode, budget: &self.budget };
        if let Err(e) = &result {
            self.inode.write_errors.record(e);
            self.budget.note_failure(e);
        }
        cache.ended(self.token, self.pages.iter().copied(), self.pages.len(), result.is_err());
    }
}
