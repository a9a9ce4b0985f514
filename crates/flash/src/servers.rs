//! [`Server`]: something that does one thing at a time (a channel, one direction of the link), booked in advance and
//! exactly.
//!
//! A booking takes the first interval that is long enough and not before its earliest start, also between two earlier
//! bookings: a page that will be read in 30 microseconds does not keep the channel from carrying another now. Intervals
//! are exact to the nanosecond; there is no grid and no horizon, so no booking is ever refused, shortened or free.
//!
//! Kept true: bookings never overlap; the sum of their lengths is `busy`.

use crate::units::Time;
use std::collections::VecDeque;

/// See the head of the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Server {
    /// End of the last booking.
    free: Time,
    /// Idle intervals before `free` that have not passed, ascending.
    gaps: VecDeque<(Time, Time)>,
    busy: u64,
}

impl Server {
    /// Books `duration` from `earliest` on. `now` only says which gaps have passed; it never falls. The interval.
    pub(crate) fn book(&mut self, now: Time, earliest: Time, duration: u64) -> (Time, Time) {
        let earliest = earliest.max(now);
        self.busy += duration;
        while self.gaps.front().is_some_and(|&(_, end)| end <= now) {
            self.gaps.pop_front();
        }
        if earliest < self.free
            && let Some(booked) = self.book_gap(earliest, duration)
        {
            return booked;
        }
        let start = earliest.max(self.free);
        if start > self.free && start > now {
            self.gaps.push_back((self.free, start));
        }
        self.free = start + duration;
        (start, self.free)
    }

    /// Takes the first gap that has room.
    fn book_gap(&mut self, earliest: Time, duration: u64) -> Option<(Time, Time)> {
        let fits = |&(start, end): &(Time, Time)| start.max(earliest) + duration <= end;
        let at = self.gaps.iter().position(fits)?;
        let (gap_start, gap_end) = self.gaps.remove(at)?;
        let start = gap_start.max(earliest);
        let end = start + duration;
        if end < gap_end {
            self.gaps.insert(at, (end, gap_end));
        }
        if gap_start < start {
            self.gaps.insert(at, (gap_start, start));
        }
        Some((start, end))
    }

    /// Nanoseconds booked so far, also ahead.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// Forgets all bookings: time starts again.
    pub(crate) fn restart(&mut self) {
        self.free = 0;
        self.gaps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_is_used_and_split() {
        let mut server = Server::default();
        assert_eq!(server.book(0, 100, 10), (100, 110));
        assert_eq!(server.book(0, 0, 101), (110, 211), "the gap is one too short");
        assert_eq!(server.book(0, 20, 30), (20, 50));
        assert_eq!(server.book(0, 0, 20), (0, 20));
        assert_eq!(server.book(0, 0, 50), (50, 100));
        assert_eq!(server.book(0, 0, 1), (211, 212));
        assert_eq!(server.busy(), 212);
        assert!(server.gaps.is_empty());
    }

    proptest! {
        /// Every booking is the earliest that was free, by a model that keeps them all.
        #[test]
        fn bookings_are_the_earliest_possible(asked in prop::collection::vec((0u64..30, 0u64..200, 1u64..40), 1..80)) {
            let mut server = Server::default();
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for (step, ahead, duration) in asked {
                now += step;
                let (start, end) = server.book(now, now + ahead, duration);
                let free = |from: u64| all.iter().all(|&(s, e)| from + duration <= s || from >= e);
                let expected = (now + ahead..).find(|&from| free(from)).unwrap();
                prop_assert_eq!((start, end), (expected, expected + duration));
                all.push((start, end));
            }
            prop_assert_eq!(server.busy(), all.iter().map(|(s, e)| e - s).sum::<u64>());
        }
    }
}
