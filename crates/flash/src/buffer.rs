//! [`Buffer`]: the space in the write buffer: what the host has written and the flash has not.
//!
//! A page takes its place when it is accepted and gives it back when the unit that it lies in has been programmed. A
//! full buffer accepts nothing: that is how the flash holds up the host. Kept true: pages in units that wait to be
//! filled, plus pages being programmed, never exceed the capacity.

use crate::units::Time;
use std::collections::BTreeMap;

/// See the head of the module. All numbers are pages.
#[derive(Debug)]
pub(crate) struct Buffer {
    capacity: u64,
    /// In units that are not full yet.
    waiting: u64,
    /// In units being programmed.
    programming: u64,
    /// When programs end, and how many pages those hold that end then.
    ends: BTreeMap<Time, u64>,
    /// End of the last program.
    last_end: Time,
}

impl Buffer {
    pub(crate) fn new(capacity: u64) -> Self {
        assert!(capacity > 0, "a write buffer without room");
        Buffer { capacity, waiting: 0, programming: 0, ends: BTreeMap::new(), last_end: 0 }
    }

    /// Pages that fit now.
    pub(crate) fn room(&mut self, now: Time) -> u64 {
        while let Some(first) = self.ends.first_entry().filter(|first| *first.key() <= now) {
            let pages = first.remove();
            assert!(self.programming >= pages, "the buffer gives back what it does not hold");
            self.programming -= pages;
        }
        self.capacity - self.waiting - self.programming
    }

    /// Takes one page. The caller has asked for room.
    pub(crate) fn accept(&mut self) {
        self.waiting += 1;
        assert!(self.waiting + self.programming <= self.capacity, "the write buffer overflows");
    }

    /// A unit with `pages` of the host is programmed until `end`.
    pub(crate) fn program(&mut self, pages: u64, end: Time) {
        assert!(pages <= self.waiting, "{pages} pages leave a buffer in which {} wait", self.waiting);
        self.waiting -= pages;
        self.programming += pages;
        *self.ends.entry(end).or_default() += pages;
        self.last_end = self.last_end.max(end);
    }

    /// A unit with `pages` of the host, of which it was said that it would end at `from`, ends at `to`: until then its
    /// room is taken.
    pub(crate) fn late(&mut self, pages: u64, from: Time, to: Time) {
        let held = self.ends.get_mut(&from).unwrap_or_else(|| panic!("no program ends at {from}"));
        assert!(*held >= pages && to > from, "{pages} pages later, of {held}");
        *held -= pages;
        if *held == 0 {
            self.ends.remove(&from);
        }
        *self.ends.entry(to).or_default() += pages;
        self.last_end = self.last_end.max(to);
    }

    /// `pages` pages that wait are not wanted any more.
    pub(crate) fn drop_waiting(&mut self, pages: u64) {
        assert!(pages <= self.waiting, "{pages} of {} waiting pages", self.waiting);
        self.waiting -= pages;
    }

    /// When the next pages leave; `None` while nothing is being programmed.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.keys().next().copied()
    }

    /// When all that is being programmed now will have been.
    pub(crate) fn last_end(&self) -> Time {
        self.last_end
    }

    /// Pages in the buffer.
    pub(crate) fn held(&self) -> u64 {
        self.waiting + self.programming
    }

    /// Time starts again, with nothing being programmed.
    pub(crate) fn restart(&mut self) {
        self.ends.clear();
        self.programming = 0;
        self.last_end = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_when_they_are_programmed() {
        let mut buffer = Buffer::new(10);
        (0..10).for_each(|_| buffer.accept());
        assert_eq!((buffer.room(0), buffer.next_end()), (0, None));
        buffer.program(4, 300);
        buffer.program(4, 150);
        buffer.late(4, 150, 200);
        assert_eq!((buffer.room(199), buffer.next_end(), buffer.last_end()), (0, Some(200), 300));
        assert_eq!((buffer.room(200), buffer.held()), (4, 6));
        assert_eq!((buffer.room(1000), buffer.held()), (8, 2));
    }

    #[test]
    #[should_panic(expected = "overflows")]
    fn a_full_buffer_takes_nothing() {
        let mut buffer = Buffer::new(1);
        buffer.accept();
        buffer.accept();
    }
}
