//! Requests in service: which there are now, how old they are, who asked, and what they wait for.
//!
//! A fixed table has one slot for each place of a thread ([`waiting_place`]). Kept true: nobody takes a lock; the
//! thread of a place alone writes its slot; a reader gets the numbers of one request, or nothing. A request of a thread
//! without a place is timed and counted, and not listed here.

use crate::wire::ROOT_NODE;
use crate::wire::abi::InHeader;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;
use steadyfs_core::stats::{MOST_SLOW, SLOW, ServingStats, SlowRequest};
use steadyfs_format::ROOT_INO;
use steadyfs_rt::{Instant, WAITING_PLACES, WaitCause, cause_at, now, waiting_place};

/// A request in service, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// When it came, in nanoseconds, and one more; 0 if there is none.
    came: AtomicU64,
    node: AtomicU64,
    operation: AtomicU32,
    user: AtomicU32,
    process: AtomicU32,
}

/// The requests of one mount.
pub(super) struct Slots(Box<[Slot]>);

/// A request as it was seen.
struct Seen {
    operation: u32,
    node: u64,
    user: u32,
    process: u32,
    lasted: Duration,
    cause: Option<WaitCause>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots((0..WAITING_PLACES).map(|_| Slot::default()).collect())
    }

    /// A request has come to the calling thread; where it stands, for [`Slots::end`].
    pub(super) fn begin(&self, header: &InHeader, operation: usize, at: Instant) -> Option<usize> {
        let place = waiting_place()?;
        let slot = self.0.get(place)?;
        // A reader that sees one of these numbers sees that the request before has ended.
        fence(Ordering::Release);
        slot.node.store(header.nodeid, Ordering::Relaxed);
        slot.operation.store(u32::try_from(operation).unwrap_or_default(), Ordering::Relaxed);
        slot.user.store(header.uid, Ordering::Relaxed);
        slot.process.store(header.pid, Ordering::Relaxed);
        slot.came.store(at.as_nanos() + 1, Ordering::Release);
        Some(place)
    }

    /// The request at this place has its reply.
    pub(super) fn end(&self, place: usize) {
        self.0[place].came.store(0, Ordering::Release);
    }

    /// Tells in `stats` of the requests in service now; `name` has the names of operations.
    pub(super) fn tell(&self, stats: &mut ServingStats, name: impl Fn(u32) -> String) {
        let (now, own) = (now(), waiting_place());
        let mut all: Vec<Seen> =
            (0..self.0.len()).filter(|place| Some(*place) != own).filter_map(|place| self.see(place, now)).collect();
        all.sort_by_key(|seen| std::cmp::Reverse(seen.lasted));
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        stats.oldest_us = all.first().map_or(0, |seen| us(seen.lasted));
        stats.in_service = count(all.iter().map(|seen| name(seen.operation)));
        stats.waiting = count(all.iter().filter_map(|seen| seen.cause).map(|cause| cause.name().to_owned()));
        let slow = all.iter().take_while(|seen| seen.lasted >= SLOW).take(MOST_SLOW);
        let slow = slow.map(|seen| SlowRequest {
            operation: name(seen.operation),
            user: seen.user,
            process: seen.process,
            inode: if seen.node == ROOT_NODE { ROOT_INO.get().into() } else { seen.node },
            lasted_us: us(seen.lasted),
            waits_for: seen.cause.map(|cause| cause.name().to_owned()),
        });
        stats.slow = slow.collect();
    }

    /// The request at a place, unless it comes or goes this very moment.
    fn see(&self, place: usize, now: Instant) -> Option<Seen> {
        let slot = &self.0[place];
        let came = slot.came.load(Ordering::Acquire);
        let since = Instant::from_nanos(came.checked_sub(1)?);
        let seen = Seen {
            operation: slot.operation.load(Ordering::Relaxed),
            node: slot.node.load(Ordering::Relaxed),
            user: slot.user.load(Ordering::Relaxed),
            process: slot.process.load(Ordering::Relaxed),
            lasted: now.saturating_since(since),
            cause: cause_at(place),
        };
        fence(Ordering::Acquire);
        (slot.came.load(Ordering::Relaxed) == came).then_some(seen)
    }
}

/// How often each name stands in a list.
fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use steadyfs_rt::spawn;

    fn header(number: u32) -> InHeader {
        let nodeid = u64::from(number);
        InHeader {
            len: 40,
            opcode: 0,
            unique: 1,
            nodeid,
            uid: number,
            gid: 0,
            pid: number,
            total_extlen: 0,
            padding: 0,
        }
    }

    fn told(slots: &Slots) -> ServingStats {
        let mut stats = ServingStats::default();
        slots.tell(&mut stats, |number| number.to_string());
        stats
    }

    #[test]
    fn slow_requests_are_listed_by_age_and_not_all_of_them() {
        let slots = Arc::new(Slots::new());
        let over = Arc::new(AtomicBool::new(false));
        let many = MOST_SLOW as u32 + 8;
        let threads: Vec<_> = (1..=many)
            .map(|n| {
                let (slots, over) = (Arc::clone(&slots), Arc::clone(&over));
                spawn("request", move || {
                    // The clock of a process begins with it.
                    steadyfs_rt::sleep(Duration::from_millis(1));
                    let place = slots.begin(&header(n), 7, Instant::from_nanos(u64::from(n))).expect("a place");
                    while !over.load(Ordering::SeqCst) {
                        steadyfs_rt::sleep(Duration::from_millis(1));
                    }
                    slots.end(place);
                })
            })
            .collect();
        while told(&slots).in_service.get("7") != Some(&u64::from(many)) || told(&slots).slow.len() < MOST_SLOW {
            steadyfs_rt::sleep(Duration::from_millis(1));
        }
        let stats = told(&slots);
        let users: Vec<u32> = stats.slow.iter().map(|slow| slow.user).collect();
        assert_eq!(users, (1..=MOST_SLOW as u32).collect::<Vec<_>>());
        assert_eq!((stats.slow[0].inode, stats.slow[1].inode, stats.slow[1].process), (3, 2, 2), "1 is the root");
        assert!(stats.oldest_us >= 100_000 && stats.waiting.is_empty(), "{stats:?}");
        over.store(true, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(told(&slots), ServingStats::default());
    }

    #[test]
    fn nobody_sees_parts_of_two_requests() {
        let slots = Arc::new(Slots::new());
        let (theirs, over) = (Arc::clone(&slots), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let server = spawn("server", move || {
            for n in (1..1000).cycle() {
                let place = theirs.begin(&header(n), n as usize, now()).expect("a place");
                theirs.end(place);
                if ends.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let (mut seen, start) = (0, now());
        while seen <= 200 && start.elapsed() < Duration::from_secs(20) {
            for request in (0..WAITING_PLACES).filter_map(|place| slots.see(place, now())) {
                let Seen { operation, node, user, process, .. } = request;
                assert!(
                    operation == user && user == process && node == u64::from(user),
                    "{operation} {user} {process}"
                );
                seen += 1;
            }
        }
        over.store(true, Ordering::SeqCst);
        server.join().expect("no panic");
        assert!(seen > 0, "no request was seen");
    }
}
