//! [`Migrating`] as a translation layer.

use super::{COLLECTORS, FREE, Migrating, OPEN_ZONES, UNBOUND, check};
use crate::ftl::LineState;
use crate::ftl::collector::{Collects, Done};
use crate::ftl::{Ftl, Space, ZoneError};
use crate::media::Media;
use crate::nand::{Line, Nand};
use crate::stats::MapStats;
use crate::units::Time;
use steadyfs_device::{Broken, Step};

/// The device waits for its host, and not for a time.
const FOR_THE_HOST: Time = Time::MAX;

impl Ftl for Migrating {
    fn advance(&mut self, media: &mut Media, now: Time) {
        self.meta.advance(media, now);
        self.log.advance(media, now);
        self.clock = now;
        while let Some((at, done)) = self.collector.step(media, now, false) {
            match done {
                Done::Programmed => self.ripen(at),
                Done::Erased(line) => self.lines[line as usize] = FREE,
                Done::PutOff => {}
            }
        }
    }

    fn next_due(&self) -> Option<Time> {
        let own = self.collector.next_due();
        own.into_iter().chain(self.meta.next_due()).chain(self.log.next_due()).min()
    }

    fn make_room(&mut self, media: &mut Media, now: Time, page: u64, _stream: usize) -> Result<(), Time> {
        if self.is_meta(page) {
            return self.meta.make_room(media, now, page, 0);
        }
        let (zone, at) = self.place(page);
        if at > 0 || self.zones[zone as usize] != UNBOUND {
            return Ok(());
        }
        while self.collector.free.len() <= COLLECTORS {
            self.advance(media, now);
            self.take_empty(now);
            match self.collector.next_due() {
                _ if self.collector.free.len() > COLLECTORS => break,
                Some(at) if at > now => return Err(at),
                Some(_) => {}
                None if self.has_victim() && self.collect_unit(media, now) => {}
                None if !self.collector.awaiting.is_empty() && self.pad() => {}
                None => return Err(FOR_THE_HOST),
            }
        }
        Ok(())
    }

    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, _stream: usize) -> Option<Time> {
        if self.is_meta(page) {
            return self.meta.write(media, now, ready, page, 0);
        }
        let ((zone, at), unit) = (self.place(page), self.geometry.unit_pages());
        let line = if at == 0 { self.open_zone(zone) } else { self.zones[zone as usize] };
        assert_eq!(self.lines[line as usize].placed, at, "a write that was out of order got through");
        media.placed((line + self.first_line, at / unit), page);
        self.lines[line as usize].placed = at + 1;
        if let Some(open) = self.open.get_mut(&zone) {
            open.ready = open.ready.max(ready);
        }
        let end = (at + 1).is_multiple_of(unit).then(|| self.program(media, now, zone, unit));
        if at + 1 == self.geometry.line_pages() {
            self.open.remove(&zone);
            self.fill(line);
        }
        if self.collector.victim.is_none() {
            self.take_empty(now);
        }
        self.pace(media, now);
        end
    }

    fn locate(&self, page: u64) -> Option<(Line, u32)> {
        if self.is_meta(page) {
            return self.meta.locate(page);
        }
        let (zone, at) = self.place(self.ledger.resolve(page)?);
        let line = Some(self.zones[zone as usize]).filter(|line| *line != UNBOUND)?;
        let placed = at < self.lines[line as usize].placed;
        placed.then_some((line + self.first_line, at / self.geometry.unit_pages()))
    }

    fn resolve(&self, page: u64) -> u64 {
        let found = if self.is_meta(page) { Some(page) } else { self.ledger.resolve(page) };
        found.unwrap_or(page)
    }

    fn discard(&mut self, first: u64, count: u64, gone: &mut dyn FnMut(u64)) -> u64 {
        let meta = (first + count).min(self.areas.meta.end).saturating_sub(first);
        if meta > 0 {
            self.meta.discard(first, meta, gone);
        }
        for block in first + meta..first + count {
            let Some(page) = self.ledger.resolve(block) else { continue };
            self.take(Step::Discard(block));
            gone(page);
            let line = self.zones[self.place(page).0 as usize];
            if self.collector.kinds()[line as usize] == LineState::Full {
                let live = self.live_in(line);
                self.collector.victims.update(line, live);
            }
        }
        count
    }

    fn next_mapped(&self, from: u64) -> Option<u64> {
        let meta = self.meta.next_mapped(from).filter(|page| self.is_meta(*page));
        meta.or_else(|| self.ledger.live().range(from..).next().copied())
    }

    fn flush(&mut self, media: &mut Media, now: Time, _stream: Option<usize>) -> Time {
        self.meta.flush(media, now, None);
        self.log_waiting(media, now);
        media.buffer.last_end().max(self.log.end())
    }

    fn wants_idle(&mut self) -> bool {
        self.meta.wants_idle()
    }

    fn idle(&mut self, media: &mut Media, now: Time) -> Option<Time> {
        self.meta.idle(media, now)
    }

    fn restart(&mut self) {
        self.meta.restart();
        self.log.restart();
        self.open.values_mut().for_each(|open| open.ready = 0);
        self.targets.iter_mut().flatten().for_each(|target| target.ready = 0);
        self.collector.restart();
        self.clock = 0;
    }

    fn space(&self, nand: &Nand) -> Space {
        let mut space = self.meta.space(nand);
        let (unit, page) = (u64::from(self.geometry.unit_pages()), u64::from(self.geometry.line_pages()));
        let written: u64 = self.lines.iter().map(|line| u64::from(line.placed)).sum();
        let live = self.ledger.live().len() as u64;
        let logged: u64 = self.log.lines().iter().map(|&(_, units)| u64::from(units) * unit).sum();
        space.mapped += live;
        space.invalid += written.saturating_sub(live) + logged;
        space.free += (self.lines.len() as u64 + 2) * page - written - logged;
        space
    }

    fn check(&self, nand: &Nand, found: &mut Vec<String>) {
        check::check(self, nand, found);
    }

    fn begin(&mut self, first: u64, count: u64, append: bool, stream: usize) -> Result<u64, ZoneError> {
        if append {
            return Err(ZoneError::NotZoned);
        }
        if first + count <= self.areas.meta.end {
            return self.meta.begin(first, count, false, 0);
        }
        if self.is_meta(first) {
            return Err(ZoneError::Boundary);
        }
        let (zone, at) = self.place(first);
        if at == 0 && self.open.len() as u64 >= OPEN_ZONES && !self.open.contains_key(&zone) {
            return Err(ZoneError::TooManyOpen);
        }
        if u64::from(at) + count > self.areas.zone {
            return Err(ZoneError::Boundary);
        }
        if at == 0 && self.ledger.is_free(first) {
            self.unbind(zone);
        }
        // From here on the pages count as there, though they have no place yet: the host has no answer.
        for page in first..first + count {
            self.ledger.take(Step::Write(page, Migrating::sort(stream))).map_err(|broken| match broken {
                Broken::Full(_) => ZoneError::NoSpace,
                Broken::OutOfOrder { .. } => ZoneError::InvalidWrite,
                Broken::ZoneInUse { .. } | Broken::ZoneNamed { .. } => ZoneError::Full,
                _ => ZoneError::Field,
            })?;
        }
        Ok(first)
    }

    fn migrating(&mut self) -> Option<&mut Migrating> {
        Some(self)
    }

    fn map(&self) -> MapStats {
        let fixed = self.meta.map().bytes + self.zones.len() as u64 * 4;
        let records = |count: usize| count as u64 * 16;
        let (bytes, peak) = (fixed + records(self.ledger.outstanding()), fixed + records(self.most_records));
        MapStats {
            bytes,
            peak_bytes: peak,
            uncompacted_bytes: bytes,
            uncompacted_peak_bytes: peak,
            ..MapStats::default()
        }
    }
}
