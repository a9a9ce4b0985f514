//! Choosing which section to clean.
//!
//! Foreground: greedy, the fewest valid blocks. Background: cost-benefit, `age * (1 - u) / (1 + u)` with the section's
//! mean modification time as its age. A section with an open segment, or whose blocks are all valid, is no candidate.
//!
//! Two ways to search. [`OneVictim`]: whoever searches holds a lock and takes the best of the next [`MAX_SEARCH`] candidates, F2FS' way.
//! [`ManyVictims`]: collectors search at the same time, each from a place of its own, and keep several victims of one search ("concurrent victim
//! selection", ScaleLFS section 3.2). A bit per section says that some collector has it in mind; of two that want one the bit decides. The bit
//! is not the claim that cleaning needs: a section may be emptied, and freed, while it is only in mind.

use super::Urgency;
use crate::bits::AtomicBitmap;
use crate::locks;
use crate::segments::SegTable;
use std::collections::BinaryHeap;
use std::sync::Arc;
use steadyfs_format::{Layout, SecNo, SegNo};
use steadyfs_rt::{Cost, Mutex, charge_n};

/// Most candidates weighed per search, so that it does not take longer the larger the volume is.
const MAX_SEARCH: usize = 4096;
/// One victim of a search for each so many sections of the volume (ScaleLFS: 0.1 %).
const SECTIONS_PER_VICTIM: usize = 1000;

/// A section to clean.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) sec: SecNo,
    /// Its segments that were claimed: all but those without a valid block.
    pub(super) segs: Vec<SegNo>,
}

/// A place from which victims come.
pub(super) trait Select: Send + Sync {
    /// The section to clean next, claimed. `now` is the volume's elapsed time.
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim>;

    /// The section was cleaned, or could not be.
    fn done(&self, sec: SecNo);
}

/// A search by one at a time.
pub(super) struct OneVictim;

impl Select for OneVictim {
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim> {
        let mut cursor = segs.locks.search();
        let mut best: Option<Candidate> = None;
        let end = weigh(segs, layout, urgency, now, *cursor, MAX_SEARCH, |candidate| {
            if best.as_ref().is_none_or(|b| candidate.cost < b.cost) {
                best = Some(candidate);
            }
        });
        *cursor = end;
        // Under the lock, so that the next search does not find it.
        best.and_then(|b| claim(segs, layout, b.sec))
    }

    fn done(&self, _sec: SecNo) {}
}

/// Searches by many at a time: what they share.
pub(super) struct Minds {
    /// Sections that a collector has in mind.
    taken: AtomicBitmap,
    sections: usize,
    collectors: usize,
}

impl Minds {
    pub(super) fn new(layout: &Layout, collectors: usize) -> Self {
        let sections = layout.sections as usize;
        Minds { taken: AtomicBitmap::new(sections), sections, collectors }
    }

    /// How many victims one search keeps: few on small volumes, lest one collector has all of them in mind.
    fn victims_per_search(&self, candidates: usize) -> usize {
        let share = (self.sections / SECTIONS_PER_VICTIM).next_power_of_two();
        share.min(candidates / (2 * self.collectors)).max(1)
    }
}

/// The searches of one collector.
pub(super) struct ManyVictims {
    minds: Arc<Minds>,
    /// Where the next search starts, and the victims in mind, the cheapest last. Nobody else takes this lock.
    own: Mutex<Own>,
}

struct Own {
    cursor: usize,
    victims: Vec<Candidate>,
}

impl ManyVictims {
    /// The searches of the `number`th collector. Collectors start at places that lie apart.
    pub(super) fn new(minds: &Arc<Minds>, number: usize, segments: usize) -> Self {
        let own = Own { cursor: segments / minds.collectors * number, victims: Vec::new() };
        ManyVictims { minds: Arc::clone(minds), own: Mutex::new(&locks::VICTIMS, own) }
    }

    fn search(&self, own: &mut Own, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) {
        let taken = &self.minds.taken;
        let wanted = self.minds.victims_per_search(segs.dirty.count());
        // The most expensive of those kept is on top.
        let mut best: BinaryHeap<Candidate> = BinaryHeap::with_capacity(wanted + 1);
        own.cursor = weigh(segs, layout, urgency, now, own.cursor, MAX_SEARCH, |candidate| {
            if taken.test(candidate.sec.index()) || (best.len() == wanted && best.peek() <= Some(&candidate)) {
                return;
            }
            best.push(candidate);
            if best.len() > wanted {
                best.pop();
            }
        });
        own.victims = best.into_sorted_vec();
        own.victims.reverse();
        // Whoever sets the bit has the section.
        own.victims.retain(|candidate| taken.set(candidate.sec.index()));
    }
}

impl Select for ManyVictims {
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim> {
        let mut own = self.own.lock();
        // Between two searches others may take everything that was seen; twice is enough to tell that from there being nothing.
        for _ in 0..2 {
            while let Some(Candidate { sec, .. }) = own.victims.pop() {
                // In the meantime it may have been emptied, and may even be open again.
                let still = cost(segs, layout, sec, urgency, now);
                if let Some(victim) = still.and_then(|_| claim(segs, layout, sec)) {
                    return Some(victim);
                }
                self.done(sec);
            }
            self.search(&mut own, segs, layout, urgency, now);
        }
        None
    }

    fn done(&self, sec: SecNo) {
        let had = self.minds.taken.clear(sec.index());
        assert!(had, "section {sec} was in nobody's mind");
    }
}

/// A section that could be cleaned; ordered by what that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    cost: u64,
    pub(super) sec: SecNo,
}

/// The candidates in the order in which [`OneVictim`] would take them from a fresh mount on, if nothing but their cleaning changed the volume. Claims nothing.
pub(super) fn rank(segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Vec<Candidate> {
    let mut all = Vec::new();
    weigh(segs, layout, urgency, now, 0, usize::MAX, |candidate| all.push(candidate));
    in_turn(&all, MAX_SEARCH)
}

/// The order of repeated searches among the next `window` of what is left, once around. `all` are in the order of the search.
fn in_turn(all: &[Candidate], window: usize) -> Vec<Candidate> {
    // Who follows whom, of those that are left; `before` is the one before the next search begins.
    let mut next: Vec<usize> = (1..=all.len()).map(|i| i % all.len()).collect();
    let mut before = all.len().saturating_sub(1);
    let mut order = Vec::with_capacity(all.len());
    while all.len() - order.len() > window {
        let (mut best, mut before_best, mut at) = (next[before], before, before);
        for _ in 0..window {
            if all[next[at]].cost < all[best].cost {
                (best, before_best) = (next[at], at);
            }
            at = next[at];
        }
        order.push(all[best]);
        next[before_best] = next[best];
        before = if at == best { before_best } else { at };
    }
    // Every search sees all that is left, so the cheapest come first; of equals the first that is seen.
    let mut rest = Vec::new();
    while order.len() + rest.len() < all.len() {
        before = next[before];
        rest.push(all[before]);
    }
    rest.sort_by_key(|candidate| candidate.cost);
    order.extend(rest);
    order
}

/// Shows candidates among the next `most` sections to `see`, from segment `start` on and once around; returns where the next search should start.
fn weigh(
    segs: &SegTable,
    layout: &Layout,
    urgency: Urgency,
    now: u64,
    start: usize,
    most: usize,
    mut see: impl FnMut(Candidate),
) -> usize {
    let (mut seen, mut last, mut previous) = (0, start, None);
    let order = segs.dirty.iter_from(start).chain(segs.dirty.iter_from(0).take_while(|&i| i < start));
    for i in order {
        let sec = layout.sec_of(SegNo::new(i as u32));
        if previous == Some(sec) {
            continue;
        }
        previous = Some(sec);
        last = i;
        seen += 1;
        if let Some(cost) = cost(segs, layout, sec, urgency, now) {
            see(Candidate { cost, sec });
        }
        if seen >= most {
            break;
        }
    }
    charge_n(Cost::VictimScan, seen as u64);
    if seen >= most { last + 1 } else { start }
}

/// Claims what can be claimed of a section; `None` if that is nothing.
fn claim(segs: &SegTable, layout: &Layout, sec: SecNo) -> Option<Victim> {
    let claimed: Vec<SegNo> = layout.segs_of(sec).filter(|&seg| segs.claim(seg)).collect();
    (!claimed.is_empty()).then_some(Victim { sec, segs: claimed })
}

/// What cleaning the section costs; lower is better, `None` if it is no candidate.
fn cost(segs: &SegTable, layout: &Layout, sec: SecNo, urgency: Urgency, now: u64) -> Option<u64> {
    let mut valid = 0u64;
    let mut mtime = 0u64;
    for seg in layout.segs_of(sec) {
        let state = segs.state(seg);
        if state.is_open() || state.is_owned() {
            return None;
        }
        valid += u64::from(state.count());
        mtime = mtime.max(segs.mtime(seg));
    }
    let all = layout.blocks_per_sec();
    if valid >= all || valid == 0 {
        return None;
    }
    Some(match urgency {
        Urgency::Foreground => valid,
        Urgency::Background => {
            // u in thousandths; the benefit of old, empty sections is largest. Inverted, so that the least wins.
            let u = valid * 1000 / all;
            let age = now.saturating_sub(mtime).saturating_add(1);
            u64::MAX - age.saturating_mul((1000 - u) * 1000 / (1000 + u))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`OneVictim`] does it: one search after the other, each from where the last one ended.
    fn by_searching(mut left: Vec<Candidate>, window: usize) -> Vec<Candidate> {
        let mut order = Vec::new();
        while !left.is_empty() {
            let seen = window.min(left.len());
            let best = (0..seen).min_by_key(|&i| (left[i].cost, i)).unwrap();
            // The next search begins behind the last one seen, if there was more to see.
            let turn = if left.len() > window { seen - 1 } else { 0 };
            order.push(left.remove(best));
            let len = left.len().max(1);
            left.rotate_left(turn % len);
        }
        order
    }

    #[test]
    fn the_ranking_is_the_order_of_the_searches() {
        let candidate = |i: u64| Candidate { cost: i * 7919 % 31, sec: SecNo::new(i as u32) };
        for number in 0..40 {
            let all: Vec<Candidate> = (0..number).map(candidate).collect();
            for window in [1, 2, 3, 7, 40] {
                let order = in_turn(&all, window);
                assert_eq!(order, by_searching(all.clone(), window), "{number} candidates, {window} in a search");
            }
        }
    }
}
