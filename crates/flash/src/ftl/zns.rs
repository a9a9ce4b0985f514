//! [`Zns`]: zones, as in the NVMe Zoned Namespace Command Set 1.1: written in order, emptied as a whole.
//!
//! A zone that has been written is one line, so its map is one number, nothing is ever copied, and the host decides
//! what is erased and when. States, write pointers and limits are those of the standard (section 2.1.1, figures 7 to
//! 9). A write or append opens a zone. If the limit of open zones is reached, that closes another that was only opened
//! by writes. The limit of active (open or closed) zones cannot be got around. Errors are those of the standard, each
//! with the `errno` that Linux makes of it ([`ZoneError`]).
//!
//! The first zones may be conventional: they take writes anywhere, through a page map on flash of their own.
//!
//! A reset is acknowledged when the firmware has seen it; the erase then keeps the chips busy. Kept true: a line
//! belongs to one zone, to the log, to the conventional zones, or is free and erased; no limit is ever exceeded.

mod check;
mod states;

use super::flat::FlatMap;
use super::partial_log::PartialLog;
use super::{Ftl, PageMap, Space, ZoneCommand};
use crate::media::Media;
use crate::nand::{Line, Nand, Source};
use crate::parameters::{Geometry, ParameterError, Parameters, ZoneLimits};
use crate::stats::MapStats;
use crate::units::Time;
pub(crate) use states::{Action, ZoneError};
use std::collections::{BTreeSet, VecDeque};
use steadyfs_device::{Zone, ZoneGeometry, ZoneState};

/// A zone's state in the words of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    ImplicitlyOpen,
    ExplicitlyOpen,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

#[derive(Debug, Clone, Copy)]
struct ZoneInfo {
    state: State,
    /// Where its pages lie; none if nothing was written.
    line: Option<Line>,
    /// Pages written.
    written: u32,
    /// Pages that are safe: in units that were filled, or in the log.
    logged: u32,
    /// When the data of the open unit is there.
    ready: Time,
}

impl ZoneInfo {
    /// More may be written to it; what does not fill a unit waits.
    fn fills(&self) -> bool {
        matches!(self.state, State::ImplicitlyOpen | State::ExplicitlyOpen | State::Closed)
    }
}

const EMPTY: ZoneInfo = ZoneInfo { state: State::Empty, line: None, written: 0, logged: 0, ready: 0 };

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Zns {
    geometry: Geometry,
    limits: ZoneLimits,
    conventional: Option<PageMap>,
    /// Pages of the conventional zones: those of the others begin there.
    first_page: u64,
    zones: Vec<ZoneInfo>,
    /// Zones that writes have opened, the oldest first.
    implicit: VecDeque<u32>,
    open: u32,
    active: u32,
    /// Erased lines, those that were erased least first.
    free: BTreeSet<(u32, Line)>,
    log: PartialLog,
}

impl Zns {
    /// Lines that a device of `pages` pages needs: those of its zones, the log's two, and what conventional zones need
    /// to be collected.
    ///
    /// # Errors
    /// A capacity that is not a number of zones; limits that contradict each other.
    pub(crate) fn lines_for(parameters: &Parameters, limits: ZoneLimits, pages: u64) -> Result<u64, ParameterError> {
        let zone = u64::from(parameters.geometry.line_pages());
        let (zones, conventional) = (pages / zone, u64::from(limits.conventional));
        let wrong = |what| Err(ParameterError::Zones(what));
        if !pages.is_multiple_of(zone) || zones > u64::from(u32::MAX) {
            return wrong("the capacity is no number of zones");
        }
        if conventional >= zones {
            return wrong("all of them are conventional");
        }
        if limits.max_active != 0 && (limits.max_open == 0 || limits.max_open > limits.max_active) {
            return wrong("more may be open than active");
        }
        let active = if limits.max_active == 0 { zones } else { u64::from(limits.max_active) };
        if active * u64::from(parameters.geometry.unit_pages()) > zone {
            return wrong("more may be active than the log has pages for");
        }
        parameters.buffer_holds(active + u64::from(parameters.policy.streams))?;
        let collected = PageMap::lines_for(&parameters.geometry, &parameters.policy, conventional * zone);
        Ok(zones - conventional + 2 + if conventional == 0 { 0 } else { collected })
    }

    /// Zones for `pages` logical pages on `lines` erased lines, which are what [`Zns::lines_for`] said.
    pub(crate) fn new(parameters: &Parameters, limits: ZoneLimits, pages: u64, lines: u32) -> Self {
        let geometry = parameters.geometry;
        let zones = (pages / u64::from(geometry.line_pages())) as u32 - limits.conventional;
        let first_page = u64::from(limits.conventional) * u64::from(geometry.line_pages());
        let collected = lines - zones - 2;
        let map = || PageMap::new(parameters, FlatMap::new(first_page), first_page, 0, collected);
        let conventional = (limits.conventional > 0).then(map);
        Zns {
            geometry,
            limits,
            conventional,
            first_page,
            zones: vec![EMPTY; zones as usize],
            implicit: VecDeque::new(),
            open: 0,
            active: 0,
            free: (collected..collected + zones).map(|line| (0, line)).collect(),
            log: PartialLog::new([lines - 2, lines - 1], geometry.line_units(), geometry.unit_pages()),
        }
    }

    /// Zone and page within it of a logical page that is not conventional.
    fn place(&self, page: u64) -> (usize, u32) {
        let size = u64::from(self.geometry.line_pages());
        let page = page - self.first_page;
        ((page / size) as usize, (page % size) as u32)
    }

    /// The first logical page of a zone.
    fn start(&self, zone: usize) -> u64 {
        self.first_page + zone as u64 * u64::from(self.geometry.line_pages())
    }

    /// The unit that a zone's pages fill has all it will get: programs it.
    fn program(&mut self, media: &mut Media, now: Time, zone: usize, pages: u32) -> Option<Time> {
        let info = self.zones[zone];
        let (line, unit) = (info.line?, (info.written - 1) / self.geometry.unit_pages());
        self.zones[zone].logged = info.written;
        Some(media.program(now, info.ready, (line, unit), Source::Host, pages))
    }

    /// Pages that wait in units that are not full, from the given page of each zone's unit on.
    fn waiting(&self, logged_too: bool) -> Vec<u64> {
        let unit = self.geometry.unit_pages();
        let mut pages = Vec::new();
        for (number, zone) in self.zones.iter().enumerate().filter(|(_, zone)| zone.fills()) {
            let first = zone.written / unit * unit;
            let from = if logged_too { first } else { first.max(zone.logged) };
            pages.extend((from..zone.written).map(|page| self.start(number) + u64::from(page)));
        }
        pages
    }

    /// Makes safe what waits.
    fn log_waiting(&mut self, media: &mut Media, now: Time) {
        let mut pages = self.waiting(false);
        if pages.is_empty() {
            return;
        }
        if !self.log.fits(pages.len()) {
            self.log.turn(media, now);
            pages = self.waiting(true);
        }
        self.log.write(media, now, &pages);
        self.zones.iter_mut().filter(|zone| zone.fills()).for_each(|zone| zone.logged = zone.written);
    }
}

impl Ftl for Zns {
    fn advance(&mut self, media: &mut Media, now: Time) {
        if let Some(map) = &mut self.conventional {
            map.advance(media, now);
        }
        self.log.advance(media, now);
    }

    fn next_due(&self) -> Option<Time> {
        let collected = self.conventional.as_ref().and_then(Ftl::next_due);
        collected.into_iter().chain(self.log.next_due()).min()
    }

    fn make_room(&mut self, media: &mut Media, now: Time, page: u64, stream: usize) -> Result<(), Time> {
        match &mut self.conventional {
            Some(map) if page < self.first_page => map.make_room(media, now, page, stream),
            _ => Ok(()), // a zone that is open has its line
        }
    }

    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, stream: usize) -> Option<Time> {
        if let Some(map) = self.conventional.as_mut().filter(|_| page < self.first_page) {
            return map.write(media, now, ready, page, stream);
        }
        let (number, at) = self.place(page);
        let unit = self.geometry.unit_pages();
        let zone = &mut self.zones[number];
        assert_eq!(zone.written, at, "a write that was not at the write pointer got through");
        let line = zone.line.unwrap_or_else(|| panic!("zone {number} takes writes without a line"));
        zone.written += 1;
        zone.ready = zone.ready.max(ready);
        let written = zone.written;
        media.placed((line, at / unit), page);
        let end = if written.is_multiple_of(unit) { self.program(media, now, number, unit) } else { None };
        if written == self.geometry.line_pages() {
            self.become_full(number);
        }
        end
    }

    fn locate(&self, page: u64) -> Option<(Line, u32)> {
        if let Some(map) = self.conventional.as_ref().filter(|_| page < self.first_page) {
            return map.locate(page);
        }
        let (number, at) = self.place(page);
        let zone = &self.zones[number];
        Some((zone.line.filter(|_| at < zone.written)?, at / self.geometry.unit_pages()))
    }

    fn discard(&mut self, first: u64, count: u64, gone: &mut dyn FnMut(u64)) -> u64 {
        let conventional = (first + count).min(self.first_page).saturating_sub(first);
        if let Some(map) = self.conventional.as_mut().filter(|_| conventional > 0) {
            map.discard(first, conventional, gone);
        }
        count
    }

    fn next_mapped(&self, from: u64) -> Option<u64> {
        if let Some(page) = self.conventional.as_ref().and_then(|map| map.next_mapped(from)) {
            return Some(page);
        }
        let first = from.max(self.first_page);
        let (zone, at) = self.place(first);
        let rest = self.zones.iter().enumerate().skip(zone);
        let written = rest.map(|(number, zone)| (number, zone.line.map_or(0, |_| zone.written)));
        written.into_iter().find_map(|(number, written)| {
            let from = if number == zone { at } else { 0 };
            (from < written).then(|| self.start(number) + u64::from(from))
        })
    }

    fn flush(&mut self, media: &mut Media, now: Time, stream: Option<usize>) -> Time {
        if let Some(map) = &mut self.conventional {
            map.flush(media, now, stream);
        }
        self.log_waiting(media, now);
        media.buffer.last_end().max(self.log.end())
    }

    fn wants_idle(&mut self) -> bool {
        self.conventional.as_mut().is_some_and(PageMap::wants_idle)
    }

    fn idle(&mut self, media: &mut Media, now: Time) -> Option<Time> {
        self.conventional.as_mut()?.idle(media, now)
    }

    fn restart(&mut self) {
        self.conventional.iter_mut().for_each(PageMap::restart);
        self.zones.iter_mut().for_each(|zone| zone.ready = 0);
        self.log.restart();
    }

    fn space(&self, nand: &Nand) -> Space {
        let mut space = self.conventional.as_ref().map(|map| map.space(nand)).unwrap_or_default();
        let unit = u64::from(self.geometry.unit_pages());
        let first = self.conventional.as_ref().map_or(0, PageMap::lines) as usize;
        let all = (nand.lines().len() - first) as u64 * u64::from(self.geometry.line_pages());
        let programmed: u64 = nand.lines()[first..].iter().map(|line| u64::from(line.programmed) * unit).sum();
        let mapped: u64 = self.zones.iter().map(|zone| u64::from(zone.written)).sum();
        let waiting: u64 =
            self.zones.iter().filter(|zone| zone.fills()).map(|zone| u64::from(zone.written) % unit).sum();
        space.mapped += mapped;
        space.invalid += programmed + waiting - mapped;
        space.free += all - programmed - waiting;
        space
    }

    fn check(&self, nand: &Nand, found: &mut Vec<String>) {
        check::check(self, nand, found);
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        let size = u64::from(self.geometry.line_pages());
        Some(ZoneGeometry {
            size,
            capacity: size,
            zones: u64::from(self.limits.conventional) + self.zones.len() as u64,
            conventional: u64::from(self.limits.conventional),
            max_open: self.limits.max_open,
            max_active: self.limits.max_active,
        })
    }

    fn report(&self, number: u64) -> Option<Zone> {
        let size = u64::from(self.geometry.line_pages());
        let start = number * size;
        let Some(zone) = number.checked_sub(u64::from(self.limits.conventional)).map(|at| self.zones[at as usize])
        else {
            return Some(Zone { start, write_pointer: start, state: ZoneState::Conventional });
        };
        let state = match zone.state {
            State::Empty => ZoneState::Empty,
            State::ImplicitlyOpen | State::ExplicitlyOpen => ZoneState::Open,
            State::Closed => ZoneState::Closed,
            State::Full => ZoneState::Full,
            State::ReadOnly => ZoneState::ReadOnly,
            State::Offline => ZoneState::Offline,
        };
        let written = if zone.state == State::Full { size } else { u64::from(zone.written) };
        Some(Zone { start, write_pointer: start + written, state })
    }

    fn zone_of(&self, page: u64) -> Option<u64> {
        (page >= self.first_page).then(|| self.start(self.place(page).0))
    }

    fn full_zones(&self) -> Vec<u64> {
        let full = self.zones.iter().enumerate().filter(|(_, zone)| zone.state == State::Full);
        full.map(|(number, _)| self.start(number)).collect()
    }

    fn begin(&mut self, first: u64, count: u64, append: bool, _stream: usize) -> Result<u64, ZoneError> {
        self.begin_write(first, count, append)
    }

    fn readable(&self, first: u64, count: u64) -> Result<(), ZoneError> {
        self.are_readable(first, count)
    }

    fn manage(&mut self, media: &mut Media, now: Time, command: ZoneCommand) -> Result<(), ZoneError> {
        match command {
            ZoneCommand::Action(action, zone) => self.act(media, now, action, zone),
            ZoneCommand::WearOut(zone, to) => self.wear_out(media, now, zone, to),
        }
    }

    fn takes_discards(&self) -> bool {
        self.conventional.is_some()
    }

    fn map(&self) -> MapStats {
        let bytes = self.conventional.as_ref().map_or(0, |map| map.map().bytes) + self.zones.len() as u64 * 4;
        MapStats::constant(bytes)
    }
}
