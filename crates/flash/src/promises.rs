//! [`Promises`]: answers that wait for programs, on a device whose programs reads can put off.
//!
//! A flush or a FUA is answered when programs have ended. When it arrives that time is known, but for reads that come
//! later and put off one of those programs. Kept true: an answer is given when all programs that had been told when it
//! was promised have ended, and not before; a promise is kept once.

use crate::cells::Promised;
use crate::chip::Late;
use crate::nand::Source;
use crate::units::Time;

/// Whose latency an answer counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    Flush,
    Write,
}

/// Names a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromiseId(u64);

/// An answer that is due at `at`, as far as is known.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) answers: Answers,
    pub(crate) arrived: Time,
    pub(crate) at: Time,
    /// From the last program to the answer.
    pub(crate) after: u64,
    /// The last program that it may wait for.
    pub(crate) told: u64,
    pub(crate) promised: Option<Promised>,
}

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    made: u64,
    open: Vec<(PromiseId, Promise)>,
}

impl Promises {
    pub(crate) fn make(&mut self, promise: Promise) -> PromiseId {
        let id = PromiseId(self.made);
        self.made += 1;
        self.open.push((id, promise));
        id
    }

    /// A program ends later: the promises that become later for it, with the time when they were due.
    pub(crate) fn put_off(&mut self, late: &Late) -> impl Iterator<Item = (Time, &Promise)> {
        let waits = late.program.source != Source::Collector;
        let (number, to) = (late.program.number, late.to);
        self.open.iter_mut().filter(move |(_, promise)| waits && number <= promise.told).filter_map(
            move |(_, promise)| {
                let before = promise.at;
                promise.at = before.max(to + promise.after);
                (promise.at > before).then_some((before, &*promise))
            },
        )
    }

    /// The time to answer has come, or so it seemed: when it is, if that is later than `now`.
    pub(crate) fn keep(&mut self, id: PromiseId, now: Time) -> Option<Time> {
        let at = self.open.iter().position(|(open, _)| *open == id);
        let at = at.unwrap_or_else(|| panic!("a promise that was not made, or has been kept"));
        let due = self.open[at].1.at;
        if due > now {
            return Some(due);
        }
        self.open.swap_remove(at);
        None
    }
}
