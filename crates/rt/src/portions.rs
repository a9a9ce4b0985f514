//! [`Portions`]: something of which there is only so much, and which threads on all cores take and give back.
//!
//! Each core has a portion at hand, so that cores meet only when one needs a new portion. A thread that finds too
//! little at hand and in the rest closes the portions of all cores, and takes what is in them together. Meanwhile
//! nobody takes or gives but by the lock of the rest, so it finds all there is.
//!
//! Kept true: the portions at hand, the rest and all that is taken are the limit together. A thread that gets none has
//! looked everywhere at one moment.

use crate::split::{between, own, places};
use crate::{LockClass, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

/// In place of what a core has at hand: it has nothing, and asks at the rest.
const CLOSED: u64 = u64::MAX;

/// A core's portion, on cache lines of its own.
#[repr(align(128))]
struct AtHand(AtomicU64);

struct Rest {
    /// Of nobody. Below zero where more is taken than the limit.
    free: i64,
    /// No core has any at hand.
    closed: bool,
}

/// How much may be taken, in portions at hand of each core and a rest.
pub struct Portions {
    cores: Box<[AtHand]>,
    rest: Mutex<Rest>,
    /// The size of the rest, for an estimate of how much there is.
    seen: AtomicI64,
    limit: AtomicU64,
    /// Most that a core takes, or gives back, at once.
    portion: u64,
    /// More was given back than was taken.
    overdrawn: AtomicBool,
}

impl Portions {
    /// `taken` of `limit` are taken; a core gets about `portion` at a time.
    pub fn new(class: &'static LockClass, limit: u64, taken: u64, portion: u64) -> Self {
        let free = signed(limit) - signed(taken);
        let portions = Portions {
            cores: places(|| AtHand(AtomicU64::new(CLOSED))),
            rest: Mutex::new(class, Rest { free, closed: true }),
            seen: AtomicI64::new(free),
            limit: AtomicU64::new(limit),
            portion,
            overdrawn: AtomicBool::new(false),
        };
        portions.settle(portions.rest.lock());
        portions
    }

    /// Takes `n`, all or none; false if there are fewer.
    #[inline]
    pub fn take(&self, n: u64) -> bool {
        let have = |have: u64| if have == CLOSED { None } else { have.checked_sub(n) };
        own(&self.cores).0.fetch_update(SeqCst, SeqCst, have).is_ok() || self.take_of_rest(n, 0)
    }

    /// As [`Portions::take`], and `beyond` more than the limit may be taken.
    pub fn take_beyond(&self, n: u64, beyond: u64) -> bool {
        self.take_of_rest(n, beyond)
    }

    #[cold]
    fn take_of_rest(&self, n: u64, beyond: u64) -> bool {
        let n = signed(n);
        let mut rest = self.rest.lock();
        if rest.free < n {
            self.gather(&mut rest);
        }
        let enough = rest.free + signed(beyond) >= n;
        if enough {
            rest.free -= n;
            // Few where little is left: nobody hoards what others look for.
            let portion = (rest.free.max(0) as u64 / (4 * self.cores.len() as u64)).min(self.portion);
            let open = |have| if have == CLOSED { None } else { Some(have + portion) };
            if portion > 0 && own(&self.cores).0.fetch_update(SeqCst, SeqCst, open).is_ok() {
                rest.free -= portion as i64;
            }
        }
        self.settle(rest);
        enough
    }

    /// Gives `n` back.
    #[inline]
    pub fn give(&self, n: u64) {
        let (own, most) = (&own(&self.cores).0, 2 * self.portion);
        let open = |have| if have == CLOSED { None } else { Some(have + n) };
        match own.fetch_update(SeqCst, SeqCst, open) {
            Ok(before) if before + n <= most => {}
            Ok(_) => self.give_rest(own, 0),
            Err(_) => self.give_rest(own, n),
        }
    }

    /// Gives the rest `n`, and what a core has beyond a portion.
    #[cold]
    fn give_rest(&self, own: &AtomicU64, n: u64) {
        let mut rest = self.rest.lock();
        let beyond = |have| if have == CLOSED || have <= self.portion { None } else { Some(self.portion) };
        let before = own.fetch_update(SeqCst, SeqCst, beyond).unwrap_or(self.portion);
        rest.free += signed(n) + signed(before - self.portion);
        self.settle(rest);
    }

    /// Has all that is free in the rest. From here on nobody takes or gives but under this lock, until it is settled.
    fn gather(&self, rest: &mut Rest) {
        for core in &self.cores {
            let have = core.0.swap(CLOSED, SeqCst);
            if have != CLOSED {
                rest.free += signed(have);
            }
            between();
        }
        rest.closed = true;
    }

    /// Ends a change of the rest.
    fn settle(&self, mut rest: MutexGuard<'_, Rest>) {
        if rest.free > signed(self.limit.load(SeqCst)) {
            self.overdrawn.store(true, SeqCst);
        }
        self.seen.store(rest.free, SeqCst);
        // Where more is taken than there is, what is given back is nobody's.
        if rest.closed && rest.free >= 0 {
            self.cores.iter().for_each(|core| core.0.store(0, SeqCst));
            rest.closed = false;
        }
    }

    /// How much may be taken in all.
    pub fn limit(&self) -> u64 {
        self.limit.load(SeqCst)
    }

    /// Changes how much may be taken; false, and nothing changes, if it would be less, and more than the limit and
    /// `beyond` is taken.
    pub fn set_limit(&self, limit: u64, beyond: u64) -> bool {
        let mut rest = self.rest.lock();
        self.gather(&mut rest);
        let more = signed(limit) - signed(self.limit.load(SeqCst));
        let fits = more >= 0 && beyond == 0 || rest.free + more + signed(beyond) >= 0;
        if fits {
            rest.free += more;
            self.limit.store(limit, SeqCst);
        }
        self.settle(rest);
        fits
    }

    /// How much is taken: exactly, if nobody takes or gives meanwhile. None if more was given back than was taken.
    pub fn taken(&self) -> u64 {
        let rest = self.rest.lock();
        let at_hand = |core: &AtHand| Some(core.0.load(SeqCst)).filter(|have| *have != CLOSED).map_or(0, signed);
        let free = rest.free + self.cores.iter().map(at_hand).sum::<i64>();
        let taken = signed(self.limit.load(SeqCst)) - free;
        if taken < 0 {
            self.overdrawn.store(true, SeqCst);
        }
        u64::try_from(taken).unwrap_or(0)
    }

    /// No less than is taken: with what cores have at hand.
    pub fn taken_at_most(&self) -> u64 {
        u64::try_from(signed(self.limit.load(SeqCst)) - self.seen.load(SeqCst)).unwrap_or(0)
    }

    /// Whether it is known that more was given back than was taken.
    pub fn is_overdrawn(&self) -> bool {
        self.taken();
        self.overdrawn.load(SeqCst)
    }
}

/// Limits may come from a damaged image: one that no count reaches counts as the greatest.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, run};
    use crate::{Cost, charge_n, spawn};
    use std::sync::Arc;

    static ROOM: LockClass = LockClass::new("test_room_lock", 84);

    fn portions(limit: u64, taken: u64) -> Arc<Portions> {
        Arc::new(Portions::new(&ROOM, limit, taken, 64))
    }

    fn all(portions: &Portions) -> u64 {
        std::iter::from_fn(|| portions.take(1).then_some(())).count() as u64
    }

    /// Tasks on many cores that take all there is: exactly so many, and what one gives back another finds.
    #[test]
    fn cores_share_what_there_is_and_leave_none() {
        for (seed, limit) in [(1, 10), (2, 1000), (3, 20_000)] {
            let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
            let work = move || {
                let room = portions(limit, 0);
                let taker = |_| {
                    let room = Arc::clone(&room);
                    spawn("taker", move || all(&room))
                };
                let takers: Vec<_> = (0..8).map(taker).collect();
                let taken: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
                assert_eq!((taken, room.taken()), (limit, limit), "seed {seed}");
                (0..limit).for_each(|_| room.give(1));
                let other = Arc::clone(&room);
                assert_eq!(spawn("taker", move || all(&other)).join().unwrap(), limit, "seed {seed}");
            };
            run(config, work).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }

    /// Tasks that together want just what there is: each one's part is free whenever it asks, and it is never refused,
    /// wherever what is free may be.
    #[test]
    fn nobody_is_refused_what_is_there() {
        for seed in 0..30 {
            let config = SimConfig { cores: 8, seed, ..SimConfig::default() };
            let work = move || {
                let part = |task: u64| 1 + task % 3;
                let room = portions((0..12).map(part).sum(), 0);
                let worker = |task: u64| {
                    let room = Arc::clone(&room);
                    spawn("worker", move || {
                        let n = part(task);
                        for step in 0..300 {
                            assert!(room.take(n), "{n} of what is left are refused in step {step}");
                            // So long that most of it is taken most of the time.
                            charge_n(Cost::LockOp, 500 + (step * 7 + task * 31) % 400);
                            if step % 3 > 0 {
                                room.give(n);
                                continue;
                            }
                            // Another core gives it back.
                            let other = Arc::clone(&room);
                            spawn("giver", move || other.give(n)).join().unwrap();
                        }
                    })
                };
                let workers: Vec<_> = (0..12).map(worker).collect();
                workers.into_iter().for_each(|worker| worker.join().unwrap());
                assert_eq!(room.taken(), 0);
                assert!(!room.is_overdrawn());
            };
            run(config, work).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        }
    }

    /// As above, with real threads.
    #[test]
    fn threads_are_refused_nothing_that_is_there() {
        let room = portions(4 * 3, 0);
        let worker = |_| {
            let room = Arc::clone(&room);
            spawn("worker", move || {
                for step in 0..20_000u64 {
                    let n = 1 + step % 3;
                    assert!(room.take(n), "{n} are refused in step {step}");
                    room.give(n);
                }
            })
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_limit_is_lowered_to_what_is_taken_at_least() {
        let room = portions(100, 40);
        assert!(room.take(10) && room.taken() == 50 && room.taken_at_most() >= 50);
        assert!(!room.set_limit(49, 0) && room.limit() == 100);
        assert!(room.set_limit(50, 0) && !room.take(1));
        room.give(1);
        assert!(room.take(1) && !room.take(1));
        assert!(room.set_limit(52, 0) && room.take(2) && !room.take(1));
    }

    #[test]
    fn what_is_given_back_beyond_the_limit_is_remembered() {
        let room = portions(10, 2);
        room.give(2);
        assert!(!room.is_overdrawn());
        room.give(1);
        assert!(room.is_overdrawn() && room.taken() == 0);
        // More is taken than the limit from the beginning: it has to be given back first.
        let room = portions(10, 12);
        room.give(1);
        assert!(!room.take(1) && room.taken() == 11);
        room.give(2);
        assert!(room.take(1) && !room.take(1));
    }
}
