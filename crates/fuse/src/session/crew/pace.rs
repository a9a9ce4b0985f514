//! How many threads should read requests, judged by each of them from what it meets itself.
//!
//! The kernel wakes the thread that has waited longest. Two that wait take requests that come one at a time in turn,
//! each on the processor where it ran last; so every request wakes a processor that sleeps, which can take ten times as
//! long as the request. One thread alone stays where its client is. But one alone also serves one request at a time: so
//! a thread that finds requests queued calls another, and one that keeps finding others waiting rests.

use crate::server::Waiter;
use std::time::Duration;

/// A request that is there sooner than this was there before it was asked for: a program that sleeps cannot be woken
/// and ask in that time.
const AT_ONCE: Duration = Duration::from_nanos(1500);

/// Requests in a row that were queued before another thread is called.
const CROWD: u32 = 3;

/// Requests in a row after which others were waiting before a thread rests.
const CALM: u32 = 32;

/// What one thread has met.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Queued requests in a row.
    crowd: u32,
    /// Requests in a row after which others were waiting.
    calm: u32,
    /// Who waited for the last request.
    last: Waiter,
}

impl Pace {
    /// A request came `waited` after it was asked for. True: another thread should read as well.
    ///
    /// One that nobody waits for says nothing: its cause has gone on to the next one. Nor do two of the same
    /// program: it may have got the reply to the first before this thread was back.
    pub(super) fn arrived(&mut self, waited: Duration, waiter: Waiter) -> bool {
        if waited >= AT_ONCE {
            self.crowd = 0;
        } else {
            self.crowd += match (self.last, waiter) {
                (Waiter::Nobody, _) | (_, Waiter::Nobody) => 0,
                (Waiter::Program(last), Waiter::Program(this)) => u32::from(last != this),
                _ => 1,
            };
        }
        self.last = waiter;
        let call = self.crowd >= CROWD;
        if call {
            self.crowd = 0;
        }
        call
    }

    /// The request is done; `waiting`: other threads wait for one. True: this thread is one too many.
    pub(super) fn done(&mut self, waiting: bool) -> bool {
        self.calm = if waiting { self.calm + 1 } else { 0 };
        let rest = self.calm >= CALM;
        if rest {
            *self = Pace::default();
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Waiter = Waiter::Program(1);
    const SOON: Duration = Duration::from_nanos(300);
    const LATE: Duration = Duration::from_micros(4);

    #[test]
    fn one_program_needs_one_thread() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            // Closing a file that was made: RELEASE, and the next LOOKUP right behind it.
            assert!(!pace.arrived(LATE, ONE) && !pace.arrived(LATE, Waiter::Nobody) && !pace.arrived(SOON, ONE));
            // The program ran while this thread was on its way back.
            assert!((0..=CROWD).all(|_| !pace.arrived(SOON, ONE)));
            assert!(!pace.done(false));
        }
    }

    #[test]
    fn requests_that_queue_call_another_thread() {
        let programs = (2..).map(Waiter::Program);
        let kernel = std::iter::repeat(Waiter::Kernel);
        for mut next in [Box::new(programs) as Box<dyn Iterator<Item = Waiter>>, Box::new(kernel)] {
            let mut pace = Pace::default();
            pace.arrived(LATE, ONE);
            let mut arrive = |waited| pace.arrived(waited, next.next().unwrap());
            let calls: Vec<bool> = (0..2 * CROWD).map(|_| arrive(SOON)).collect();
            assert_eq!(calls, [false, false, true, false, false, true]);
            arrive(SOON);
            arrive(LATE);
            assert!(!arrive(SOON) && !arrive(SOON), "counted across a pause");
        }
    }

    #[test]
    fn a_thread_among_idle_ones_rests() {
        let mut pace = Pace::default();
        assert!((1..CALM).all(|_| !pace.done(true)));
        assert!(!pace.done(false));
        assert!((1..CALM).all(|_| !pace.done(true)));
        assert!(pace.done(true));
    }
}
