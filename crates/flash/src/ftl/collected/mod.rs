//! [`Collected`]: any logical page anywhere in the flash; greedy collection. Which page lies where is a [`Map`]'s
//! business: a flat one, or one of intervals.
//!
//! Host writes go to an open line per stream, copies to an open line of the collector. The victim is the line with the
//! fewest valid pages. It is collected in step with the host (`collector`). So collection neither falls behind nor
//! stops the host for a whole line. Only when lines run out all the same does the host wait.
//!
//! Copies are read before they are written. A victim is erased when all its copies have been programmed, and with them
//! all that the host had written by then. Those writes are why other pages of the victim are not valid. So at any
//! moment every page that was durable is so still, in this version or a newer one. Until then the victim is neither
//! valid nor free for use ("awaiting"). A buffer with capacitors need not be waited for.
//!
//! Kept true (`check` looks at all of it):
//! - Map and reverse map are inverse.
//! - The valid pages of each line are counted right.
//! - A line is in exactly one state.
//! - Mapped + invalid + free = all pages.
//! - No more pages are mapped than the device holds.
//!
//! Memory: the map's, and 4 or 8 bytes for each page of the flash (reverse map).

mod check;
mod layer;

use super::Ftl;
use super::collector::{Awaiting, Collector, Collects, CopiedUnit, Victim};
use super::map::{Map, UNMAPPED};
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::parameters::{Geometry, Parameters, Policy};
use crate::units::Time;

/// The only stream of copies.
const COPIES: usize = 0;

/// Where pages are added.
#[derive(Debug, Default)]
struct WritePoint {
    line: Option<Line>,
    /// Next page of the line.
    page: u32,
    /// When the data of the open unit is there.
    ready: Time,
    /// Number of the host page that was first in the open unit.
    first: u64,
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Collected<M: Map> {
    geometry: Geometry,
    policy: Policy,
    first_line: Line,
    /// Pages that may be mapped at a time.
    pages: u64,
    /// Logical page -> page of the flash, and back; both counted from this layer's first.
    map: M,
    reverse: Vec<M::Page>,
    valid: Vec<u32>,
    collector: Collector,
    host: Vec<WritePoint>,
    copies: WritePoint,
    /// Pages of the host so far, and the end of its last program.
    written: u64,
    written_end: Time,
    /// The host's pages are safe when they are in the buffer.
    safe_buffer: bool,
    live: Vec<(u32, M::Page)>,
    mapped: u64,
}

impl<M: Map> Collected<M> {
    /// Lines needed for `pages` logical pages: over-provisioning, and never fewer than collection needs to work at all.
    pub(crate) fn lines_for(geometry: &Geometry, policy: &Policy, pages: u64) -> u64 {
        let line = u64::from(geometry.line_pages());
        let wanted = (pages as f64 * (1.0 + policy.over_provisioning) / line as f64).ceil() as u64;
        // Open lines of the host and the collector, those that may be free, the collector's reserve, and one to
        // collect.
        wanted.max(pages.div_ceil(line) + u64::from(policy.streams) + u64::from(policy.gc_lines) + 3)
    }

    /// Room for `pages` logical pages, which `map` finds, on the erased lines from `first_line` on.
    pub(crate) fn new(parameters: &Parameters, map: M, pages: u64, first_line: Line, lines: u32) -> Self {
        let &Parameters { geometry, policy, power_loss_protection: safe_buffer, .. } = parameters;
        let flash_pages = u64::from(lines) * u64::from(geometry.line_pages());
        assert!(flash_pages < u64::from(UNMAPPED) && pages < flash_pages, "page numbers have 32 bits");
        Collected {
            geometry,
            policy,
            first_line,
            pages,
            map,
            reverse: vec![M::NONE; flash_pages as usize],
            valid: vec![0; lines as usize],
            collector: Collector::new(geometry, first_line, lines, policy.gc_lines),
            host: (0..policy.streams).map(|_| WritePoint::default()).collect(),
            copies: WritePoint::default(),
            written: 0,
            written_end: 0,
            safe_buffer,
            live: Vec::new(),
            mapped: 0,
        }
    }

    /// Number of its lines.
    pub(crate) fn lines(&self) -> Line {
        self.valid.len() as Line
    }

    fn line_of(&self, flash_page: u32) -> Line {
        flash_page / self.geometry.line_pages()
    }

    /// A page of the flash, which the map had for `page` or not, holds nothing any more.
    fn invalidate(&mut self, page: u64, old: u32) {
        if old == UNMAPPED {
            return;
        }
        let line = self.line_of(old);
        let held = std::mem::replace(&mut self.reverse[old as usize], M::NONE);
        assert_eq!(M::number(held), page, "the reverse map points elsewhere");
        self.valid[line as usize] -= 1;
        self.collector.victims.update(line, self.valid[line as usize]);
        self.mapped -= 1;
    }

    /// Adds a logical page at a write point, which has room. True if that fills a unit.
    fn place(&mut self, media: &mut Media, stream: Option<usize>, page: u64, ready: Time) -> bool {
        let point = match stream {
            Some(stream) => &mut self.host[stream],
            None => &mut self.copies,
        };
        let line = match point.line {
            Some(line) => line,
            None => {
                let line = self.collector.open();
                *point = WritePoint { line: Some(line), page: 0, ..*point };
                line
            }
        };
        let at = line * self.geometry.line_pages() + point.page;
        if stream.is_some() {
            self.written += 1;
            if point.page.is_multiple_of(self.geometry.unit_pages()) {
                point.first = self.written;
            }
        }
        let unit = point.page / self.geometry.unit_pages();
        media.placed((line + self.first_line, unit), page);
        point.page += 1;
        point.ready = point.ready.max(ready);
        let full = point.page.is_multiple_of(self.geometry.unit_pages());
        assert_eq!(self.reverse[at as usize], M::NONE, "page {at} is written twice");
        let old = self.map.set(page, at);
        self.reverse[at as usize] = M::page(page);
        self.valid[line as usize] += 1;
        self.mapped += 1;
        match stream {
            Some(_) => self.invalidate(page, old),
            None => assert_eq!(M::NONE, self.reverse[old as usize], "the map points elsewhere"),
        }
        full
    }

    /// The unit before a write point has been filled: its line, number and time, after leaving a line that is full.
    fn filled(&mut self, stream: Option<usize>) -> (Line, u32, Time) {
        let unit_pages = self.geometry.unit_pages();
        let point = match stream {
            Some(stream) => &mut self.host[stream],
            None => &mut self.copies,
        };
        let line = point.line.unwrap_or_else(|| panic!("a unit without a line"));
        assert!(point.page > 0 && point.page.is_multiple_of(unit_pages), "a unit that is not full");
        let unit = point.page / unit_pages - 1;
        if point.page == self.geometry.line_pages() {
            point.line = None;
            self.collector.fill(line, self.valid[line as usize]);
        }
        (line, unit, point.ready)
    }

    /// Hands a unit of the host to its chip.
    fn program(&mut self, media: &mut Media, now: Time, stream: usize, pages: u32) -> Time {
        let (line, unit, ready) = self.filled(Some(stream));
        let at = (line + self.first_line, unit);
        let end = media.program(now, ready, at, Source::Host, pages);
        self.written_end = self.written_end.max(end);
        self.ripen(media, now);
        end
    }

    /// Whether pages that the host had written up to `written` wait in units that are not full.
    fn host_waits(&self, written: u64) -> bool {
        let unit = self.geometry.unit_pages();
        let open = self.host.iter().filter(|point| point.line.is_some() && !point.page.is_multiple_of(unit));
        !self.safe_buffer && open.map(|point| point.first).min().is_some_and(|first| first <= written)
    }

    /// Lets those lines be erased whose contents are safe elsewhere.
    fn ripen(&mut self, media: &Media, now: Time) {
        while let Some(&Awaiting { copies, written, .. }) = self.collector.awaiting.front() {
            if !self.collector.are_programmed(copies) || self.host_waits(written) {
                return;
            }
            let written_end = if self.safe_buffer { 0 } else { self.written_end };
            let at = now.max(self.collector.copies_end).max(written_end);
            self.collector.queue_erase(0, at, media.nand.told());
        }
    }

    /// Puts a unit of copies in line for its chip.
    fn copies_full(&mut self, pages: u32) {
        let (line, unit, ready) = self.filled(None);
        self.collector.copied(CopiedUnit { ready, line, unit, pages, stream: COPIES });
    }

    /// The victim holds nothing any more: it is erased when its copies are safe.
    fn collected(&mut self, media: &Media, now: Time) {
        let Some(Victim { line, copies, .. }) = self.collector.victim.take() else { return };
        assert_eq!(self.valid[line as usize], 0, "a collected line holds valid pages");
        self.collector.give_up(Awaiting { line, copies, written: self.written });
        self.ripen(media, now);
    }

    /// Fills open units with padding: there is nothing else to fill them with, and collected lines wait for them.
    fn pad(&mut self, media: &mut Media, now: Time) {
        let unit_pages = self.geometry.unit_pages();
        let pages = if self.copies.line.is_some() { self.copies.page % unit_pages } else { 0 };
        assert!(!self.collector.awaiting.is_empty(), "nothing to collect on a full device");
        if pages > 0 {
            self.copies.page += unit_pages - pages;
            self.copies_full(pages);
        }
        self.flush(media, now, None);
    }
}

impl<M: Map> Collects for Collected<M> {
    const MOST_BEHIND: u64 = u64::MAX;

    fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    fn wants(&self) -> bool {
        self.collector.is_short()
    }

    /// The line with the fewest valid pages; none if all are valid in every line.
    fn choose(&mut self) -> bool {
        let pages = self.geometry.line_pages();
        let fewest = self.collector.victims.fewest().filter(|&(_, valid)| valid < pages);
        fewest.inspect(|&(line, valid)| self.collector.begin(line, valid)).is_some()
    }

    /// False if the collector has no line to copy to.
    fn collect_unit(&mut self, media: &mut Media, now: Time) -> bool {
        let Some(Victim { line, unit, mut copies, .. }) = self.collector.victim else { return false };
        let unit_pages = self.geometry.unit_pages();
        let first = line * self.geometry.line_pages() + unit * unit_pages;
        let mut live = std::mem::take(&mut self.live);
        live.clear();
        let pages = (first..first + unit_pages).map(|at| (at, self.reverse[at as usize]));
        live.extend(pages.filter(|&(_, page)| page != M::NONE));
        let left = self.copies.line.map_or(0, |_| self.geometry.line_pages() - self.copies.page);
        let room = live.len() as u32 <= left || !self.collector.free.is_empty();
        if room && !live.is_empty() {
            let count = live.len() as u32;
            let ready = media.read(now, (line + self.first_line, unit), count, Source::Collector, |_, _| ());
            for &(at, page) in &live {
                assert_eq!(self.map.get(M::number(page)), at, "the map points elsewhere");
                self.reverse[at as usize] = M::NONE;
                self.mapped -= 1;
                copies = self.collector.filling(COPIES);
                if self.place(media, None, M::number(page), ready) {
                    self.copies_full(unit_pages);
                }
            }
            self.valid[line as usize] -= count;
        }
        self.live = live;
        if room {
            self.collector.looked_at(copies);
            if unit + 1 == self.geometry.line_units() {
                self.collected(media, now);
            }
        }
        room
    }
}

#[cfg(test)]
mod tests;
