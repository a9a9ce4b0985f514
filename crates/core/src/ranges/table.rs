//! The table of one file: 32 buckets, guards, waiting.
//!
//! Two ranges that overlap share a page, and so the bucket of that page: looking into the buckets of one's own pages is
//! enough. A range of 32 pages or more is in all.
//!
//! Waiting: a waiter counts itself, takes a key of the event, and looks again; who gives something back deletes it, and
//! notifies if it sees a waiter. Each does its first step before its second in one order that all agree on, so either
//! the waiter sees the deletion or is notified.

use super::list::{List, OwnedElement};
use super::sync::{AtomicU64, AtomicUsize, Event};
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Number of buckets; a mask of them is a `u32`.
const BUCKETS: u64 = 32;

/// The ranges of one file that are held or waited for. Pages are numbers from 0; `0..u64::MAX` is the whole file.
pub struct RangeLocks {
    buckets: [List; BUCKETS as usize],
    /// Threads that wait, or are about to.
    waiting: AtomicUsize,
    event: Event,
    waits: AtomicU64,
    refused: AtomicU64,
}

/// How often ranges were not free at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contended {
    /// Buckets in which somebody had to wait.
    pub waits: u64,
    /// Tries that failed.
    pub refused: u64,
}

/// A range that is held until this is dropped.
#[must_use = "the range is free again when this is dropped"]
pub struct RangeGuard<'a> {
    table: &'a RangeLocks,
    /// The element of the last bucket, which leads to the others; none for an empty range.
    last: Option<OwnedElement>,
}

impl Default for RangeLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl RangeLocks {
    /// A table in which nothing is held.
    pub fn new() -> Self {
        RangeLocks {
            buckets: std::array::from_fn(|_| List::new()),
            waiting: AtomicUsize::new(0),
            event: Event::new(),
            waits: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Holds a range alone, if nobody holds or waits for a part of it. For those who can come back later: they never
    /// hold anybody up.
    pub fn try_write(&self, pages: Range<u64>) -> Option<RangeGuard<'_>> {
        self.try_hold(pages, true)
    }

    /// Holds a range with other readers, if no writer holds or waits for a part of it.
    pub fn try_read(&self, pages: Range<u64>) -> Option<RangeGuard<'_>> {
        self.try_hold(pages, false)
    }

    /// Waits until nobody else holds a part of the range, and holds it alone.
    pub fn write(&self, pages: Range<u64>) -> RangeGuard<'_> {
        self.hold(pages, true)
    }

    /// Waits until no writer holds a part of the range, and holds it with other readers.
    pub fn read(&self, pages: Range<u64>) -> RangeGuard<'_> {
        self.hold(pages, false)
    }

    /// How often ranges were not free at once, since the table was made.
    pub fn contended(&self) -> Contended {
        Contended { waits: self.waits.load(Relaxed), refused: self.refused.load(Relaxed) }
    }

    /// Elements in all buckets: those that are held or waited for, and those that were given back and whose memory
    /// nobody has collected.
    #[doc(hidden)]
    pub fn elements(&self) -> (usize, usize) {
        let counts = self.buckets.iter().map(List::count);
        counts.fold((0, 0), |(live, dead), (linked, deleted)| (live + linked - deleted, dead + deleted))
    }

    fn try_hold(&self, pages: Range<u64>, write: bool) -> Option<RangeGuard<'_>> {
        // Buckets that are held so far are given back when this is dropped.
        let mut guard = RangeGuard { table: self, last: None };
        for bucket in buckets(&pages) {
            match self.buckets[bucket].push_if_free(&pages, write, guard.last.take()) {
                Ok(held) => guard.last = Some(held),
                Err(so_far) => {
                    guard.last = so_far;
                    self.refused.fetch_add(1, Relaxed);
                    return None;
                }
            }
        }
        Some(guard)
    }

    fn hold(&self, pages: Range<u64>, write: bool) -> RangeGuard<'_> {
        let mut guard = RangeGuard { table: self, last: None };
        for bucket in buckets(&pages) {
            let list = &self.buckets[bucket];
            let held = list.push(&pages, write, guard.last.take());
            if !list.is_first(&held) {
                self.wait(|| list.is_first(&held));
            }
            guard.last = Some(held);
        }
        guard
    }

    fn wait(&self, free: impl Fn() -> bool) {
        self.waits.fetch_add(1, Relaxed);
        self.waiting.fetch_add(1, SeqCst);
        loop {
            let key = self.event.listen();
            if free() {
                break;
            }
            self.event.wait(key);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// The buckets of a range, in rising order.
fn buckets(pages: &Range<u64>) -> impl Iterator<Item = usize> {
    let count = pages.end.saturating_sub(pages.start);
    let first = (pages.start % BUCKETS) as u32;
    let mask = match count {
        0 => 0,
        1..BUCKETS => ((1u32 << count) - 1).rotate_left(first),
        _ => u32::MAX,
    };
    (0..BUCKETS as usize).filter(move |bucket| mask >> bucket & 1 == 1)
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let mut next = self.last.take();
        if next.is_none() {
            return;
        }
        while let Some(held) = next {
            next = List::delete(held);
        }
        if self.table.waiting.load(SeqCst) > 0 {
            self.table.event.notify_all();
        }
    }
}
