//! Choosing which section to clean.
//!
//! Foreground: greedy, the fewest valid blocks. Background: cost-benefit, `age * (1 - u) / (1 + u)` with the section's
//! mean modification time as its age. A section with an open segment, or whose blocks are all valid, or that awaits the
//! next checkpoint, is no candidate.
//!
//! Two ways to search. [`OneVictim`]: whoever searches holds a lock and takes the best of the next [`MAX_SEARCH`]
//! candidates, F2FS' way. [`ManyVictims`]: collectors search at the same time, each from a place of its own, and keep
//! several victims of one search ("concurrent victim selection", ScaleLFS section 3.2). A bit per section says that
//! some collector has it in mind; of two that want one the bit decides. The bit is not the claim that cleaning needs: a
//! section may be emptied, and freed, while it is only in mind. What it costs changes as well, so whoever takes the
//! next victim from those in mind looks at what each costs by then.

use crate::bits::AtomicBitmap;
use crate::locks;
use crate::options::policies::{CostBenefit, Greedy, Own, SectionState, VictimPolicy};
use crate::options::techniques::GcSearch;
use crate::reclaim::report::Urgency;
use crate::volume::segments::table::SegTable;
use std::collections::BinaryHeap;
use std::sync::Arc;
use steadyfs_format::{Layout, SecNo, SegNo};
use steadyfs_rt::{Cost, Mutex, charge_n};

/// Most candidates weighed per search where it is bounded, so that it takes no longer the larger the volume is.
const MAX_SEARCH: usize = 4096;
/// One victim of a search for each so many sections of the volume (ScaleLFS: 0.1 %).
const SECTIONS_PER_VICTIM: usize = 1000;
/// Candidates that a search looks at for each victim that it keeps, at least: one that keeps all it sees chooses
/// nothing.
const SEEN_PER_KEPT: usize = 64;
/// Candidates for each that some collector has in mind, at least: what others have in mind nobody can choose.
const CANDIDATES_PER_KEPT: usize = 16;

/// How far searches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Most candidates that one looks at.
    pub seen: usize,
    /// The same while writers wait.
    pub urgent: usize,
    /// Most victims that one keeps, where it may keep several.
    pub kept: usize,
    /// Candidates for each of those kept, over all collectors, at least.
    pub sparse: usize,
}

impl Reach {
    /// On a volume of so many sections.
    pub fn of(sections: usize) -> Self {
        let kept = (sections / SECTIONS_PER_VICTIM).next_power_of_two().min(MAX_SEARCH / SEEN_PER_KEPT);
        Reach { seen: MAX_SEARCH, urgent: MAX_SEARCH, kept, sparse: CANDIDATES_PER_KEPT }
    }

    /// The same, going so far while writers wait.
    pub(super) fn urgently(self, search: GcSearch) -> Self {
        match search {
            GcSearch::Bounded => self,
            GcSearch::Whole => Reach { urgent: usize::MAX, ..self },
        }
    }

    /// Through all of the volume, as F2FS in mode=lfs and ScaleLFS search, of which the latter keeps 0.1 % of the
    /// sections, rounded up to a power of two.
    pub fn whole(sections: usize) -> Self {
        let kept = (sections / SECTIONS_PER_VICTIM).next_power_of_two();
        Reach { seen: usize::MAX, urgent: usize::MAX, kept, sparse: 1 }
    }

    /// Most candidates that a search looks at now.
    fn most(&self, urgency: Urgency) -> usize {
        match urgency {
            Urgency::Foreground => self.urgent,
            Urgency::Background => self.seen,
        }
    }
}

/// What it took to find victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Searches made.
    pub searches: u64,
    /// Candidates looked at, those in mind included when they were looked at again.
    pub looked: u64,
    /// Of those, the ones that searches passed because another collector had them in mind.
    pub others: u64,
    /// Victims that searches kept.
    pub kept: u64,
}

/// A section to clean.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) sec: SecNo,
    /// Its segments that were claimed: all but those without a valid block.
    pub(super) segs: Vec<SegNo>,
    /// It has another number of valid blocks than when the search saw it.
    pub(super) stale: bool,
    /// What has been done since the collector's last victim to find this one.
    pub(super) effort: Effort,
}

/// A place from which victims come.
pub(super) trait Select: Send + Sync {
    /// The section to clean next, claimed. `now` is the volume's elapsed time.
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim>;

    /// The section was cleaned, or could not be.
    fn done(&self, sec: SecNo);
}

/// How sections are weighed, if not as F2FS does.
pub(super) type Policy = Option<Own<dyn VictimPolicy>>;

/// What a search weighs sections by.
#[derive(Clone, Copy)]
struct By {
    policy: Policy,
    urgency: Urgency,
    now: u64,
}

/// A search by one at a time.
pub(super) struct OneVictim {
    reach: Reach,
    policy: Policy,
}

impl OneVictim {
    pub(super) fn new(reach: Reach, policy: Policy) -> Self {
        OneVictim { reach, policy }
    }
}

impl Select for OneVictim {
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim> {
        let mut cursor = segs.locks.search();
        let mut best: Option<Candidate> = None;
        let by = By { policy: self.policy, urgency, now };
        let (end, looked) = weigh(segs, layout, by, *cursor, self.reach.most(urgency), |candidate| {
            if best.as_ref().is_none_or(|b| candidate.cost < b.cost) {
                best = Some(candidate);
            }
        });
        *cursor = end;
        // Under the lock, so that the next search does not find it.
        let effort = Effort { searches: 1, looked, others: 0, kept: 1 };
        best.and_then(|b| claim(segs, layout, &b, effort))
    }

    fn done(&self, _sec: SecNo) {}
}

/// Searches by many at a time: what they share.
pub(super) struct Minds {
    /// Sections that a collector has in mind.
    taken: AtomicBitmap,
    collectors: usize,
    reach: Reach,
    policy: Policy,
}

impl Minds {
    pub(super) fn new(layout: &Layout, collectors: usize, reach: Reach, policy: Policy) -> Self {
        assert!(collectors > 0, "nobody has victims in mind");
        Minds { taken: AtomicBitmap::new(layout.sections as usize), collectors, reach, policy }
    }

    /// How many victims one search keeps. They are few where collectors are many for the volume: else these would have
    /// all good victims in mind.
    fn victims_per_search(&self, candidates: usize) -> usize {
        self.reach.kept.min(candidates / (self.reach.sparse * self.collectors)).max(1)
    }
}

/// The searches of one collector.
pub(super) struct ManyVictims {
    minds: Arc<Minds>,
    /// Where the next search starts, and the victims in mind. Nobody else takes this lock.
    own: Mutex<Mind>,
}

struct Mind {
    cursor: usize,
    victims: Vec<Candidate>,
    /// Since the last victim.
    effort: Effort,
}

impl ManyVictims {
    /// The searches of the `number`th collector. Collectors start at places that lie apart.
    pub(super) fn new(minds: &Arc<Minds>, number: usize, segments: usize) -> Self {
        assert!(number < minds.collectors, "collector {number} of {}", minds.collectors);
        let cursor = segments / minds.collectors * number;
        let own = Mind { cursor, victims: Vec::new(), effort: Effort::default() };
        ManyVictims { minds: Arc::clone(minds), own: Mutex::new(&locks::VICTIMS, own) }
    }

    /// Searches; false if there is nothing to be found. If others took all that was seen there may be more.
    fn search(&self, own: &mut Mind, segs: &SegTable, layout: &Layout, by: By) -> bool {
        assert!(own.victims.is_empty(), "a search begins with victims in mind");
        let taken = &self.minds.taken;
        let wanted = self.minds.victims_per_search(segs.dirty.count());
        // The most expensive of those kept is on top.
        let mut best: BinaryHeap<Candidate> = BinaryHeap::with_capacity(wanted + 1);
        let mut others = 0;
        let (next, looked) = weigh(segs, layout, by, own.cursor, self.minds.reach.most(by.urgency), |candidate| {
            if taken.test(candidate.sec.index()) {
                others += 1;
                return;
            }
            if best.len() == wanted && best.peek() <= Some(&candidate) {
                return;
            }
            best.push(candidate);
            if best.len() > wanted {
                best.pop();
            }
        });
        // Whoever sets the bit has the section.
        own.victims = best.into_sorted_vec();
        let some = !own.victims.is_empty();
        own.victims.retain(|candidate| taken.set(candidate.sec.index()));
        own.cursor = next;
        assert!(own.victims.len() <= wanted, "a search keeps {} victims of {wanted}", own.victims.len());
        own.effort.searches += 1;
        own.effort.looked += looked;
        own.effort.others += others;
        own.effort.kept += own.victims.len() as u64;
        some
    }

    /// Takes the victim in mind that is the cheapest now. Those that are no candidates any more are forgotten: in the
    /// meantime they may have been emptied, and may even be open again.
    fn take(&self, own: &mut Mind, segs: &SegTable, layout: &Layout, by: By) -> Option<Candidate> {
        charge_n(Cost::VictimScan, own.victims.len() as u64);
        own.effort.looked += own.victims.len() as u64;
        let mut cheapest: Option<(u64, usize)> = None;
        let mut at = 0;
        while let Some(candidate) = own.victims.get(at) {
            match weight(segs, layout, candidate.sec).map(|weight| weight.cost(layout, by)) {
                Some(cost) => {
                    cheapest = cheapest.filter(|(least, _)| *least <= cost).or(Some((cost, at)));
                    at += 1;
                }
                None => self.done(own.victims.remove(at).sec),
            }
        }
        cheapest.map(|(_, at)| own.victims.remove(at))
    }
}

impl Select for ManyVictims {
    fn next(&self, segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Option<Victim> {
        let mut own = self.own.lock();
        let by = By { policy: self.minds.policy, urgency, now };
        // Each time that all is gone that a search has seen, somebody else has a victim.
        loop {
            while let Some(candidate) = self.take(&mut own, segs, layout, by) {
                if let Some(victim) = claim(segs, layout, &candidate, own.effort) {
                    own.effort = Effort::default();
                    return Some(victim);
                }
                self.done(candidate.sec);
            }
            if !self.search(&mut own, segs, layout, by) {
                return None;
            }
        }
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
    /// Its valid blocks when it was seen.
    valid: u64,
}

/// The candidates in the order in which [`OneVictim`] would take them from a fresh mount on, if nothing but their
/// cleaning changed the volume. Claims nothing.
pub(super) fn rank(segs: &SegTable, layout: &Layout, urgency: Urgency, now: u64) -> Vec<Candidate> {
    let mut all = Vec::new();
    let by = By { policy: None, urgency, now };
    let _ = weigh(segs, layout, by, 0, usize::MAX, |candidate| all.push(candidate));
    in_turn(&all, MAX_SEARCH)
}

/// The order of repeated searches among the next `window` of what is left, once around. `all` are in the order of the
/// search.
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

/// Shows candidates among the next `most` sections to `see`, from segment `start` on and once around; returns where the
/// next search should start, and how many it looked at.
fn weigh(
    segs: &SegTable,
    layout: &Layout,
    by: By,
    start: usize,
    most: usize,
    mut see: impl FnMut(Candidate),
) -> (usize, u64) {
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
        if let Some(weight) = weight(segs, layout, sec) {
            see(Candidate { cost: weight.cost(layout, by), sec, valid: weight.valid });
        }
        if seen >= most {
            break;
        }
    }
    charge_n(Cost::VictimScan, seen as u64);
    (if seen >= most { last + 1 } else { start }, seen as u64)
}

/// Claims what can be claimed of a section; `None` if that is nothing.
fn claim(segs: &SegTable, layout: &Layout, candidate: &Candidate, effort: Effort) -> Option<Victim> {
    let sec = candidate.sec;
    let claimed: Vec<SegNo> = layout.segs_of(sec).filter(|&seg| segs.claim(seg)).collect();
    let valid: u64 = layout.segs_of(sec).map(|seg| u64::from(segs.state(seg).count())).sum();
    (!claimed.is_empty()).then_some(Victim { sec, segs: claimed, stale: valid != candidate.valid, effort })
}

/// What a choice is made by.
struct Weight {
    valid: u64,
    /// When the youngest of its segments was modified, on average.
    mtime: u64,
}

/// What there is in a section; `None` if it is no candidate.
fn weight(segs: &SegTable, layout: &Layout, sec: SecNo) -> Option<Weight> {
    let mut weight = Weight { valid: 0, mtime: 0 };
    for seg in layout.segs_of(sec) {
        let state = segs.state(seg);
        let i = seg.index();
        if state.is_open() || state.is_owned() || segs.awaiting.test(i) || segs.unreadable.test(i) {
            return None;
        }
        weight.valid += u64::from(state.count());
        weight.mtime = weight.mtime.max(segs.mtime(seg));
    }
    (weight.valid > 0 && weight.valid < layout.blocks_per_sec()).then_some(weight)
}

impl Weight {
    /// What cleaning costs; lower is better.
    fn cost(&self, layout: &Layout, By { policy, urgency, now }: By) -> u64 {
        let section = SectionState {
            valid: self.valid,
            blocks: layout.blocks_per_sec(),
            age: now.saturating_sub(self.mtime),
            urgent: urgency == Urgency::Foreground,
        };
        match (policy, urgency) {
            (Some(Own(policy)), _) => policy.cost(&section),
            (None, Urgency::Foreground) => Greedy.cost(&section),
            (None, Urgency::Background) => CostBenefit.cost(&section),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::techniques::GcOptions;
    use crate::volume::segments::locks::SegLocks;
    use crate::volume::segments::table::SitRecord;
    use crate::volume::segments::table::tests::layout;

    /// Sections of one segment each.
    const SECTIONS: u32 = 96;

    fn small() -> Layout {
        Layout { main_segments: SECTIONS, sections: SECTIONS, segs_per_sec: 1, ..layout() }
    }

    /// The first sections have so many valid blocks each, all others 500.
    fn table<const N: usize>(valid: [usize; N]) -> SegTable {
        aged(valid, |_| 0)
    }

    /// The same with times of modification.
    fn aged<const N: usize>(valid: [usize; N], mtime: impl Fn(u32) -> u64) -> SegTable {
        let table = SegTable::new(&small(), SegLocks::new(&GcOptions::default()));
        for (sec, valid) in (0..SECTIONS).zip(valid.into_iter().chain(std::iter::repeat(500))) {
            let mut map = [0; 64];
            (0..valid).for_each(|off| map[off / 8] |= 0x80 >> (off % 8));
            table.load(SegNo::new(sec), &SitRecord { kind: 0, map, mtime: mtime(sec) }, false);
        }
        table
    }

    fn collector(kept: usize) -> ManyVictims {
        let minds = Minds::new(&small(), 1, Reach { kept, ..Reach::of(SECTIONS as usize) }, None);
        ManyVictims::new(&Arc::new(minds), 0, SECTIONS as usize)
    }

    fn lose(table: &SegTable, seg: u32, many: usize) {
        let seg = SegNo::new(seg);
        table.valid_offsets(seg).into_iter().take(many).for_each(|off| assert!(table.invalidate(seg, off, 0)));
    }

    /// Takes a victim and says which, and whether it was stale.
    fn next(from: &dyn Select, table: &SegTable) -> Option<(u32, bool)> {
        let victim = from.next(table, &small(), Urgency::Foreground, 0)?;
        Some((victim.sec.get(), victim.stale))
    }

    #[test]
    fn of_the_victims_in_mind_the_one_that_is_cheapest_now_is_taken() {
        let table = table([40, 30, 20, 10, 60]);
        let mine = collector(4);
        assert_eq!(next(&mine, &table), Some((3, false)), "0 to 3 are in mind");
        lose(&table, 4, 59);
        lose(&table, 0, 38);
        assert_eq!(next(&mine, &table), Some((0, true)), "4 is cheaper still, but was not kept");
        lose(&table, 2, 20);
        assert_eq!(next(&mine, &table), Some((1, false)), "nothing is left in 2");
        assert!(!mine.minds.taken.test(2), "so nobody has it in mind any more");
        assert_eq!(next(&mine, &table), Some((4, false)), "found by a new search");
    }

    #[test]
    fn one_victim_of_a_search_is_the_best_and_never_stale() {
        let table = table([40, 30, 20, 30]);
        let one = OneVictim::new(Reach::of(SECTIONS as usize), None);
        assert_eq!(next(&one, &table), Some((2, false)));
        lose(&table, 0, 25);
        assert_eq!(next(&one, &table), Some((0, false)));
    }

    #[test]
    fn a_search_stops_early_unless_writers_wait_and_it_is_to_go_through_the_whole_volume() {
        let near = Reach { seen: 3, urgent: 3, ..Reach::of(SECTIONS as usize) };
        for (search, urgency, best) in [
            (GcSearch::Bounded, Urgency::Foreground, 2),
            (GcSearch::Whole, Urgency::Foreground, 4),
            (GcSearch::Whole, Urgency::Background, 2),
        ] {
            let table = table([40, 30, 20, 30, 10]);
            let one = OneVictim::new(near.urgently(search), None);
            let victim = one.next(&table, &small(), urgency, 0).unwrap();
            assert_eq!(victim.sec.get(), best, "{search:?}, {urgency:?}");
        }
    }

    #[test]
    fn while_writers_wait_the_emptiest_is_taken_and_in_the_background_an_old_one() {
        for (urgency, best) in [(Urgency::Foreground, 0), (Urgency::Background, 1)] {
            // 0 and 2 were written a moment ago.
            let table = aged([100, 200, 200], |sec| [990, 0, 990, 0][sec.min(3) as usize]);
            let one = OneVictim::new(Reach::of(SECTIONS as usize), None);
            let victim = one.next(&table, &small(), urgency, 1000).unwrap();
            assert_eq!(victim.sec.get(), best, "{urgency:?}");
        }
    }

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
        let candidate = |i: u64| Candidate { cost: i * 7919 % 31, sec: SecNo::new(i as u32), valid: 0 };
        for number in 0..40 {
            let all: Vec<Candidate> = (0..number).map(candidate).collect();
            for window in [1, 2, 3, 7, 40] {
                let order = in_turn(&all, window);
                assert_eq!(order, by_searching(all.clone(), window), "{number} candidates, {window} in a search");
            }
        }
    }
}
