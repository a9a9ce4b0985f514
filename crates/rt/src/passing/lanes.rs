//! Who is inside, counted in lanes: a thread that enters or leaves writes the counter of one lane, and one that closes
//! looks at all of them.
//!
//! Entering counts first and looks for a closer then; a closer announces itself first and counts then. All orderings
//! are `SeqCst`, so of two who meet at least one sees the other. Leaving counts first as well, and tells a closer who
//! has announced himself.

use super::sync::{AtomicBool, AtomicUsize, Event};
use std::sync::atomic::Ordering::SeqCst;

/// A counter with its cache line, and the one that processors fetch beside it, to itself.
#[repr(align(128))]
struct Lane(AtomicUsize);

/// The counters, and the door.
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    closed: AtomicBool,
    /// Somebody has left, with the door closed.
    emptied: Event,
    opened: Event,
}

impl Lanes {
    /// `count` lanes, at least one, open and empty.
    pub(super) fn new(count: usize) -> Self {
        let lanes = (0..count.max(1)).map(|_| Lane(AtomicUsize::new(0))).collect();
        Lanes { lanes, closed: AtomicBool::new(false), emptied: Event::new(), opened: Event::new() }
    }

    /// The lane of a thread with this number.
    pub(super) fn lane_of(&self, thread: usize) -> usize {
        thread % self.lanes.len()
    }

    /// Enters if the door is open.
    pub(super) fn try_enter(&self, lane: usize) -> bool {
        self.lanes[lane].0.fetch_add(1, SeqCst);
        let open = !self.closed.load(SeqCst);
        if !open {
            self.leave(lane);
        }
        open
    }

    /// Waits until the door is open, and enters.
    pub(super) fn enter(&self, lane: usize) {
        loop {
            let key = self.opened.listen();
            if self.try_enter(lane) {
                return;
            }
            self.opened.wait(key);
        }
    }

    /// Leaves by the lane of the entry.
    pub(super) fn leave(&self, lane: usize) {
        let before = self.lanes[lane].0.fetch_sub(1, SeqCst);
        assert!(before > 0, "somebody left a lane that was empty");
        if self.closed.load(SeqCst) {
            self.emptied.notify_all();
        }
    }

    fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.0.load(SeqCst) == 0)
    }

    /// Closes the door and waits until nobody is inside; true if somebody was. One closes at a time.
    pub(super) fn close(&self) -> bool {
        self.closed.store(true, SeqCst);
        let mut waited = false;
        loop {
            let key = self.emptied.listen();
            if self.is_empty() {
                return waited;
            }
            self.emptied.wait(key);
            waited = true;
        }
    }

    /// Closes the door if nobody is inside. One closes at a time.
    pub(super) fn try_close(&self) -> bool {
        self.closed.store(true, SeqCst);
        let empty = self.is_empty();
        if !empty {
            self.open();
        }
        empty
    }

    /// Opens the door again.
    pub(super) fn open(&self) {
        self.closed.store(false, SeqCst);
        self.opened.notify_all();
    }
}
