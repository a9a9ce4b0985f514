//! The collector of [`Coupled`]: victims, copies, erases.

use super::{Bound, CopiedUnit, Coupled, Erasing, OpenZone, Target, UNBOUND, Victim};
use crate::ftl::LineState;
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::units::Time;
use steadyfs_device::{Move, Sort, Step};

/// Fixed point of the collector's pace.
const ONE: u64 = 1 << 10;
/// Free zones of the GC area below which zones of that area are collected.
const SCARCE: usize = 3;
/// Free zones of the GC area, as a part of it, below which the host is to hurry.
const HURRY: u64 = 4;

impl Coupled {
    /// Lines that are free or will be shortly.
    pub(super) fn coming(&self) -> u32 {
        (self.free.len() + self.awaiting.len() + self.erasing.len()) as u32
    }

    /// Whether there are so few free lines that the device collects.
    fn is_short(&self) -> bool {
        self.coming() <= self.policy.gc_lines + self.shape.reserve_lines
    }

    /// Whether `pages` pages may get other addresses now.
    fn may_move(&self, pages: usize) -> bool {
        pages == 0 || self.ledger.may_move() && self.ledger.outstanding() + pages <= self.shape.records as usize
    }

    fn is_gc(&self, line: Line) -> bool {
        self.start(self.lines[line as usize].zone) >= self.areas.gc.start
    }

    /// Zones of the GC area that copies may go to.
    fn free_targets(&self) -> impl Iterator<Item = u32> + '_ {
        let first = ((self.areas.gc.start - self.areas.regular.start) / self.areas.zone) as u32;
        let count = self.zones.len() as u32 - first;
        let all = (0..count).map(move |at| first + (self.next_target + at) % count);
        all.filter(|zone| self.zones[*zone as usize] == UNBOUND && self.ledger.is_free(self.start(*zone)))
    }

    /// Looks whether zones of the GC area have become few, or are so no more.
    pub(super) fn look_at_targets(&mut self) {
        let few = ((self.areas.gc.end - self.areas.gc.start) / self.areas.zone / HURRY).max(SCARCE as u64) as usize;
        let free = self.free_targets().take(few).count();
        (self.scarce, self.hurries) = (free < SCARCE, free < few);
    }

    /// Whether there is something to collect for.
    fn wants(&self) -> bool {
        self.scarce || self.is_short()
    }

    /// The line in which least is live; one of the GC area when that has few free zones.
    fn cheapest(&mut self) -> Option<(Line, u32)> {
        let pages = self.geometry.line_pages();
        let least = self.victims.fewest().filter(|&(_, live)| live < pages)?;
        if least.1 == 0 || !self.scarce {
            return Some(least);
        }
        self.listed(true).into_iter().filter(|&(_, live)| live < pages).min_by_key(|&(_, live)| live).or(Some(least))
    }

    /// Candidates in the GC area, or in the regular one.
    fn listed(&self, gc: bool) -> Vec<(Line, u32)> {
        let lines = (0..self.lines.len() as Line).filter_map(|line| Some((line, self.victims.listed(line)?)));
        lines.filter(|&(line, _)| self.is_gc(line) == gc).collect()
    }

    /// Chooses a victim. False if all is live in every line, or nothing may move.
    pub(super) fn choose(&mut self) -> bool {
        assert!(self.victim.is_none(), "one victim at a time");
        let Some((line, live)) = self.cheapest().filter(|&(_, live)| self.may_move(live.min(1) as usize)) else {
            return false;
        };
        self.begin_victim(line, live);
        true
    }

    fn begin_victim(&mut self, line: Line, live: u32) {
        let pages = self.geometry.line_pages();
        assert!(
            self.victims.remove(line) && self.lines[line as usize].kind == LineState::Full,
            "line {line} is no candidate"
        );
        let rate = (u64::from(pages) * ONE).div_ceil(u64::from(pages - live).max(1));
        self.victim = Some(Victim { line, unit: 0, rate, copies: (Sort::Data, 0) });
    }

    /// Copies what is live in the victim's next unit. False if that cannot be now.
    pub(super) fn collect_unit(&mut self, media: &mut Media, now: Time) -> bool {
        let Some(Victim { line, unit, mut copies, .. }) = self.victim else { return false };
        let unit_pages = self.geometry.unit_pages();
        let start = self.start(self.lines[line as usize].zone);
        let first = start + u64::from(unit * unit_pages);
        let live: Vec<u64> = (first..first + u64::from(unit_pages)).filter(|page| self.ledger.is_live(*page)).collect();
        if !live.is_empty() {
            let sort = self.ledger.sort_of(start);
            if !self.may_move(live.len()) || !self.has_room(sort, live.len() as u32) {
                return false;
            }
            let at = line + self.first_line;
            let ready = media.read(now, (at, unit), live.len() as u32, Source::Collector, |_, _| ());
            for &page in &live {
                copies = (sort, self.filled[sort as usize] + 1);
                self.copy(media, page, sort, ready);
            }
        }
        let done = unit + 1 == self.geometry.line_units() || self.ledger.live_in(start) == 0;
        if let Some(victim) = &mut self.victim {
            (victim.unit, victim.copies) = (unit + 1, copies);
        }
        if done {
            self.collected(now);
        }
        true
    }

    /// Whether `pages` copies of this sort find a place.
    fn has_room(&self, sort: Sort, pages: u32) -> bool {
        let left = self.targets[sort as usize]
            .map_or(0, |target| self.geometry.line_pages() - self.lines[target.line as usize].placed);
        pages <= left || !self.free.is_empty() && self.free_targets().next().is_some()
    }

    /// Gives a page its place, and its address, in the open zone of the GC area.
    fn copy(&mut self, media: &mut Media, from: u64, sort: Sort, ready: Time) {
        let mut target = match self.targets[sort as usize] {
            Some(target) => target,
            None => {
                let zone = self.free_targets().next().unwrap_or_else(|| panic!("a zone was promised"));
                self.next_target =
                    zone - ((self.areas.gc.start - self.areas.regular.start) / self.areas.zone) as u32 + 1;
                assert!(self.ledger.is_free(self.start(zone)), "records name zone {zone}, which is to be bound anew");
                let line = self.bind(zone);
                self.look_at_targets();
                Target { zone, line, ready: 0 }
            }
        };
        target.ready = target.ready.max(ready);
        self.targets[sort as usize] = Some(target);
        let placed = self.lines[target.line as usize].placed;
        let to = self.start(target.zone) + u64::from(placed);
        self.take(Step::Moved(Move { from, to }));
        self.most_records = self.most_records.max(self.ledger.outstanding());
        media.renamed(from, to);
        media.placed((target.line + self.first_line, placed / self.geometry.unit_pages()), to);
        self.lines[target.line as usize].placed += 1;
        if (placed + 1).is_multiple_of(self.geometry.unit_pages()) {
            self.copies_full(sort, self.geometry.unit_pages());
        }
    }

    /// Puts a unit of copies in line for its chip, and leaves a zone that is full.
    fn copies_full(&mut self, sort: Sort, pages: u32) {
        let Some(target) = &mut self.targets[sort as usize] else { return };
        let (line, ready) = (target.line, std::mem::take(&mut target.ready));
        let placed = self.lines[line as usize].placed;
        self.filled[sort as usize] += 1;
        let unit = placed / self.geometry.unit_pages() - 1;
        self.copied.push_back(CopiedUnit { ready, line, unit, pages, sort });
        if placed == self.geometry.line_pages() {
            self.targets[sort as usize] = None;
            self.fill(line);
        }
    }

    /// Programs units of copies that are not full: collected lines wait for them. False if there is none.
    pub(super) fn pad(&mut self) -> bool {
        let unit = self.geometry.unit_pages();
        let mut padded = false;
        for sort in [Sort::Data, Sort::Node] {
            let Some(target) = self.targets[sort as usize] else { continue };
            let bound = &mut self.lines[target.line as usize];
            let pages = bound.placed % unit;
            if pages > 0 {
                // The device need not use all addresses of its area.
                bound.placed += unit - pages;
                self.copies_full(sort, pages);
                padded = true;
            }
        }
        padded
    }

    /// The victim holds nothing any more: it is erased when its copies are safe.
    fn collected(&mut self, now: Time) {
        let Some(victim) = self.victim.take() else { return };
        self.give_up(now, victim.line, victim.copies);
    }

    /// Nothing is live in a line that is no candidate any more.
    fn give_up(&mut self, now: Time, line: Line, copies: (Sort, u64)) {
        let Bound { zone, .. } = &mut self.lines[line as usize];
        let zone = std::mem::replace(zone, u32::MAX);
        self.zones[zone as usize] = UNBOUND;
        assert_eq!(self.ledger.live_in(self.start(zone)), 0, "a collected line holds live pages");
        self.lines[line as usize].kind = LineState::Awaiting;
        self.awaiting.push((line, copies));
        self.ripen(now);
    }

    /// A zone in which nothing is live gives its line up, if it has one: the host begins it again.
    pub(super) fn unbind(&mut self, zone: u32) {
        let line = self.zones[zone as usize];
        if line == UNBOUND {
            return;
        }
        if self.victim.as_ref().is_some_and(|victim| victim.line == line) {
            self.collected(self.clock);
        } else if self.victims.remove(line) {
            self.give_up(self.clock, line, (Sort::Data, 0));
        }
    }

    /// Makes good what the host was given in advance, as far as pages may move: it may be waiting, and not write.
    pub(super) fn restore_room(&mut self, media: &mut Media, now: Time) {
        self.take_empty(now);
        while self.is_short() && (self.victim.is_some() || self.choose()) && self.collect_unit(media, now) {}
    }

    /// Takes lines in which nothing is live, also while nothing may move.
    pub(super) fn take_empty(&mut self, now: Time) {
        while self.is_short()
            && let Some((line, 0)) = self.victims.fewest()
        {
            assert!(self.victims.remove(line), "line {line} is no candidate");
            self.give_up(now, line, (Sort::Data, 0));
        }
    }

    /// Lets those lines be erased whose copies, and all of whose own units, have been told to their chips.
    fn ripen(&mut self, now: Time) {
        let (programmed, end, last) = (self.programmed, self.copies_end, self.copies_told);
        let (erasing, copied) = (&mut self.erasing, &self.copied);
        self.awaiting.retain(|&(line, (sort, copies))| {
            if copies > programmed[sort as usize] || copied.iter().any(|unit| unit.line == line) {
                return true;
            }
            let after = erasing.back().map_or(0, |erasing| erasing.at);
            let (at, told) = if copies > 0 { (now.max(end), last) } else { (now, 0) };
            erasing.push_back(Erasing { at: at.max(after), line, told });
            false
        });
    }

    /// Collects in step with one page of the host.
    pub(super) fn pace(&mut self, media: &mut Media, now: Time) {
        if self.victim.is_none() {
            self.take_empty(now);
            if !self.wants() || !self.choose() {
                self.credit = 0;
                return;
            }
        }
        let low = self.policy.gc_lines + self.shape.reserve_lines;
        let behind = u64::from(low.saturating_sub(self.coming()));
        let unit = u64::from(self.geometry.unit_pages()) * ONE;
        self.credit += self.victim.as_ref().map_or(0, |victim| victim.rate) * (1 + behind);
        // What cannot be done now is not made up for at once.
        self.credit = self.credit.min(64 * unit);
        while self.credit >= unit && self.collect_unit(media, now) {
            self.credit -= unit;
            if self.victim.is_none() && (!self.wants() || !self.choose()) {
                self.credit = 0;
            }
        }
    }

    /// Collects although there is flash left: zones of the regular area in which least is live, as many as fit one;
    /// before them one of the GC area, where free zones are few there.
    pub(super) fn collect_now(&mut self, media: &mut Media, now: Time) {
        self.look_at_targets();
        if self.scarce && self.victim.is_none() && self.choose() {
            self.finish_victim(media, now);
        }
        let mut room = self.geometry.line_pages();
        loop {
            self.finish_victim(media, now);
            let least = self.listed(false).into_iter().filter(|&(_, live)| live > 0).min_by_key(|&(_, live)| live);
            let Some((line, live)) = least.filter(|&(_, live)| live <= room && self.victim.is_none()) else { return };
            if !self.may_move(1) {
                return;
            }
            room -= live;
            self.begin_victim(line, live);
        }
    }

    fn finish_victim(&mut self, media: &mut Media, now: Time) {
        while self.victim.is_some() && self.collect_unit(media, now) {}
    }

    /// The work that is due first: a unit of copies or an erase.
    pub(super) fn due(&self) -> Option<(Time, bool)> {
        let program = self.copied.front().map(|unit| (unit.ready, false));
        let erase = self.erasing.front().map(|erasing| (erasing.at, true));
        program.into_iter().chain(erase).min()
    }

    /// Does what is due first.
    pub(super) fn do_due(&mut self, media: &mut Media, at: Time, erase: bool) {
        if erase {
            let Some(&Erasing { line, told, .. }) = self.erasing.front() else { return };
            // Reads may have put off programs that it waits for.
            if let Some(later) = media.unsafe_until(told, false, at) {
                self.erasing[0].at = later;
                return;
            }
            self.erasing.pop_front();
            media.erase(at, line + self.first_line);
            let bound = &mut self.lines[line as usize];
            assert_eq!(bound.kind, LineState::Awaiting, "line {line} was not collected");
            (bound.kind, bound.placed) = (LineState::Free, 0);
            self.free.push_back(line);
            return;
        }
        let Some(copied) = self.copied.pop_front() else { return };
        let to = (copied.line + self.first_line, copied.unit);
        let end = media.program(at, at, to, Source::Collector, copied.pages);
        self.programmed[copied.sort as usize] += 1;
        (self.copies_end, self.copies_told) = (self.copies_end.max(end), media.nand.told());
        self.ripen(at);
    }

    /// The zone that a host's page begins gets a line.
    pub(super) fn open_zone(&mut self, zone: u32) -> Line {
        self.open.insert(zone, OpenZone::default());
        self.bind(zone)
    }
}
