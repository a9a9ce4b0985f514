//! [`Collected`] as a translation layer.

use super::{Collected, check};
use crate::ftl::LineState;
use crate::ftl::collector::{Collects, Done};
use crate::ftl::map::{Map, UNMAPPED};
use crate::ftl::{Ftl, Space, ZoneError};
use crate::media::Media;
use crate::nand::{Line, Nand};
use crate::stats::MapStats;
use crate::units::Time;

impl<M: Map> Ftl for Collected<M> {
    fn advance(&mut self, media: &mut Media, now: Time) {
        self.map.advance(now);
        while let Some((at, done)) = self.collector.step(media, now, !self.safe_buffer) {
            if done == Done::Programmed {
                self.ripen(media, at);
            }
        }
    }

    fn next_due(&self) -> Option<Time> {
        self.collector.next_due()
    }

    fn make_room(&mut self, media: &mut Media, now: Time, _page: u64, stream: usize) -> Result<(), Time> {
        // One free line is the collector's.
        while self.host[stream].line.is_none() && self.collector.free.len() <= 1 {
            self.advance(media, now);
            match self.next_due() {
                _ if self.collector.free.len() > 1 => break,
                Some(at) => return Err(at),
                None if self.collector.awaiting.front().is_some_and(|awaiting| self.host_waits(awaiting.written)) => {
                    self.flush(media, now, None);
                }
                None if self.has_victim() && self.collect_unit(media, now) => {}
                None => self.pad(media, now),
            }
        }
        Ok(())
    }

    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, stream: usize) -> Option<Time> {
        let full = self.place(media, Some(stream), page, ready);
        let end = full.then(|| self.program(media, now, stream, self.geometry.unit_pages()));
        self.pace(media, now);
        end
    }

    fn locate(&self, page: u64) -> Option<(Line, u32)> {
        let at = Some(self.map.get(page)).filter(|&at| at != UNMAPPED)?;
        let line = self.line_of(at);
        Some((line + self.first_line, at % self.geometry.line_pages() / self.geometry.unit_pages()))
    }

    fn discard(&mut self, first: u64, count: u64, gone: &mut dyn FnMut(u64)) -> u64 {
        let end = first + count;
        let mut from = first;
        let mut mapped = 0;
        while let Some(page) = self.map.next(from..end) {
            let old = self.map.unset(page);
            self.invalidate(page, old);
            gone(page);
            mapped += 1;
            from = page + 1;
        }
        self.map.looked_at(count, mapped)
    }

    fn next_mapped(&self, from: u64) -> Option<u64> {
        self.map.next(from..u64::MAX)
    }

    fn begin(&mut self, first: u64, count: u64, append: bool, _stream: usize) -> Result<u64, ZoneError> {
        if append {
            return Err(ZoneError::NotZoned);
        }
        // A map that has room for all addresses has none that the flash could not hold.
        let new = |page: &u64| self.map.get(*page) == UNMAPPED;
        if self.mapped + count > self.pages
            && self.mapped + (first..first + count).filter(new).count() as u64 > self.pages
        {
            return Err(ZoneError::NoSpace);
        }
        Ok(first)
    }

    fn firmware_until(&self) -> Time {
        self.map.busy_until()
    }

    fn flush(&mut self, media: &mut Media, now: Time, stream: Option<usize>) -> Time {
        let unit_pages = self.geometry.unit_pages();
        for number in 0..self.host.len() {
            let point = &mut self.host[number];
            let pages = point.page % unit_pages;
            if stream.is_some_and(|only| only != number) || point.line.is_none() || pages == 0 {
                continue;
            }
            point.page += unit_pages - pages;
            self.program(media, now, number, pages);
        }
        media.buffer.last_end()
    }

    fn wants_idle(&mut self) -> bool {
        if self.policy.idle_gc_lines == 0 {
            return false;
        }
        // A copy of nine tenths of a line now may be one of less later.
        let most = self.geometry.line_pages() / 10 * 9;
        let few = self.collector.coming() <= self.policy.idle_gc_lines;
        self.collector.victim.is_some()
            || few && self.collector.victims.fewest().is_some_and(|(_, valid)| valid <= most)
    }

    fn idle(&mut self, media: &mut Media, now: Time) -> Option<Time> {
        if !self.wants_idle() || !self.has_victim() {
            return None;
        }
        // A row at a time, and no further than the chips have got.
        for _ in 0..self.geometry.chips() {
            if self.collector.victim.is_some() && !self.collect_unit(media, now) {
                if self.next_due().is_none() {
                    self.pad(media, now);
                }
                return self.next_due().map(|at| at.max(now + 1));
            }
        }
        Some(media.nand.idle_at().max(now + 1))
    }

    fn restart(&mut self) {
        self.map.restart();
        self.collector.restart();
        self.written_end = 0;
        self.host.iter_mut().chain([&mut self.copies]).for_each(|point| point.ready = 0);
    }

    fn space(&self, nand: &Nand) -> Space {
        let unit_pages = u64::from(self.geometry.unit_pages());
        let lines = &nand.lines()[self.first_line as usize..][..self.valid.len()];
        let mut written: u64 = 0;
        for (line, state) in lines.iter().enumerate() {
            // Pages on their way to the chips have been written, too.
            let pages = match self.collector.kinds()[line] {
                LineState::Full | LineState::Awaiting => u64::from(self.geometry.line_pages()),
                _ => u64::from(state.programmed) * unit_pages,
            };
            written += pages;
        }
        let open = self.host.iter().chain([&self.copies]);
        for point in open.filter(|point| point.line.is_some()) {
            let line = point.line.unwrap_or(0);
            written += u64::from(point.page) - u64::from(lines[line as usize].programmed) * unit_pages;
        }
        let all = self.reverse.len() as u64;
        Space { mapped: self.mapped, invalid: written - self.mapped, free: all - written }
    }

    fn check(&self, nand: &Nand, found: &mut Vec<String>) {
        check::check(self, nand, found);
    }

    fn map(&self) -> MapStats {
        self.map.stats()
    }
}
