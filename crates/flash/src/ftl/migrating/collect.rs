//! How [`Migrating`] collects: which victims, where copies go, and when a line may be erased.

use super::{FREE, Migrating, OpenZone, Target, UNBOUND};
use crate::ftl::collector::{Awaiting, Collector, Collects, CopiedUnit, Copies, Victim};
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::units::Time;
use steadyfs_device::{Move, Sort, Step};

/// Of a line of which nothing was copied.
const NO_COPIES: Copies = (0, 0);
/// Free zones of the GC area below which zones of that area are collected.
const SCARCE: usize = 3;
/// Free zones of the GC area, as a part of it, below which the host is to hurry.
const HURRY: u64 = 4;

impl Migrating {
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

    /// The line in which least is live; one of the GC area when that has few free zones.
    fn cheapest(&mut self) -> Option<(Line, u32)> {
        let pages = self.geometry.line_pages();
        let least = self.collector.victims.fewest().filter(|&(_, live)| live < pages)?;
        if least.1 == 0 || !self.scarce {
            return Some(least);
        }
        self.listed(true).into_iter().filter(|&(_, live)| live < pages).min_by_key(|&(_, live)| live).or(Some(least))
    }

    /// Candidates in the GC area, or in the regular one.
    fn listed(&self, gc: bool) -> Vec<(Line, u32)> {
        let lines = (0..self.lines.len() as Line).filter_map(|line| Some((line, self.collector.victims.listed(line)?)));
        lines.filter(|&(line, _)| self.is_gc(line) == gc).collect()
    }

    /// Whether `pages` copies of this sort find a place.
    fn has_room(&self, sort: Sort, pages: u32) -> bool {
        let left = self.targets[sort as usize]
            .map_or(0, |target| self.geometry.line_pages() - self.lines[target.line as usize].placed);
        pages <= left || !self.collector.free.is_empty() && self.free_targets().next().is_some()
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
        let unit = placed / self.geometry.unit_pages() - 1;
        self.collector.copied(CopiedUnit { ready, line, unit, pages, stream: sort as usize });
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
        let Some(Victim { line, copies, .. }) = self.collector.victim.take() else { return };
        self.give_up(now, line, copies);
    }

    /// Nothing is live in a line that is no candidate any more.
    fn give_up(&mut self, now: Time, line: Line, copies: Copies) {
        let zone = std::mem::replace(&mut self.lines[line as usize].zone, FREE.zone);
        self.zones[zone as usize] = UNBOUND;
        assert_eq!(self.ledger.live_in(self.start(zone)), 0, "a collected line holds live pages");
        self.collector.give_up(Awaiting { line, copies, written: 0 });
        self.ripen(now);
    }

    /// A zone in which nothing is live gives its line up, if it has one: the host begins it again.
    pub(super) fn unbind(&mut self, zone: u32) {
        let line = self.zones[zone as usize];
        if line == UNBOUND {
            return;
        }
        if self.collector.victim.is_some_and(|victim| victim.line == line) {
            self.collected(self.clock);
        } else if self.collector.victims.remove(line) {
            self.give_up(self.clock, line, NO_COPIES);
        }
    }

    /// Makes good what the host was given in advance, as far as pages may move: it may be waiting, and not write.
    pub(super) fn restore_room(&mut self, media: &mut Media, now: Time) {
        self.take_empty(now);
        while self.collector.is_short() && self.has_victim() && self.collect_unit(media, now) {}
    }

    /// Takes lines in which nothing is live, also while nothing may move.
    pub(super) fn take_empty(&mut self, now: Time) {
        while self.collector.is_short()
            && let Some((line, 0)) = self.collector.victims.fewest()
        {
            assert!(self.collector.victims.remove(line), "line {line} is no candidate");
            self.give_up(now, line, NO_COPIES);
        }
    }

    /// Lets those lines be erased whose copies, and all of whose own units, have been told to their chips.
    pub(super) fn ripen(&mut self, now: Time) {
        let mut place = 0;
        while let Some(&Awaiting { line, copies, .. }) = self.collector.awaiting.get(place) {
            let own_units_wait = self.collector.copied.iter().any(|unit| unit.line == line);
            if own_units_wait || !self.collector.are_programmed(copies) {
                place += 1;
                continue;
            }
            let Collector { copies_end, copies_told, .. } = self.collector;
            let (at, told) = if copies == NO_COPIES { (now, 0) } else { (now.max(copies_end), copies_told) };
            self.collector.queue_erase(place, at, told);
        }
    }

    /// Collects although there is flash left: zones of the regular area in which least is live, as many as fit one;
    /// before them one of the GC area, where free zones are few there.
    pub(super) fn collect_now(&mut self, media: &mut Media, now: Time) {
        self.look_at_targets();
        if self.scarce && self.collector.victim.is_none() && self.choose() {
            self.finish_victim(media, now);
        }
        let mut room = self.geometry.line_pages();
        loop {
            self.finish_victim(media, now);
            let least = self.listed(false).into_iter().filter(|&(_, live)| live > 0).min_by_key(|&(_, live)| live);
            let Some((line, live)) = least.filter(|&(_, live)| live <= room && self.collector.victim.is_none()) else {
                return;
            };
            if !self.may_move(1) {
                return;
            }
            room -= live;
            self.collector.begin(line, live);
        }
    }

    fn finish_victim(&mut self, media: &mut Media, now: Time) {
        while self.collector.victim.is_some() && self.collect_unit(media, now) {}
    }

    /// The zone that a host's page begins gets a line.
    pub(super) fn open_zone(&mut self, zone: u32) -> Line {
        self.open.insert(zone, OpenZone::default());
        self.bind(zone)
    }
}

impl Collects for Migrating {
    const MOST_BEHIND: u64 = 64;

    fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    fn wants(&self) -> bool {
        self.scarce || self.collector.is_short()
    }

    /// False if all is live in every line, or nothing may move.
    fn choose(&mut self) -> bool {
        let chosen = self.cheapest().filter(|&(_, live)| self.may_move(live.min(1) as usize));
        chosen.inspect(|&(line, live)| self.collector.begin(line, live)).is_some()
    }

    fn collect_unit(&mut self, media: &mut Media, now: Time) -> bool {
        let Some(Victim { line, unit, mut copies, .. }) = self.collector.victim else { return false };
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
                copies = self.collector.filling(sort as usize);
                self.copy(media, page, sort, ready);
            }
        }
        self.collector.looked_at(copies);
        if unit + 1 == self.geometry.line_units() || self.ledger.live_in(start) == 0 {
            self.collected(now);
        }
        true
    }
}
