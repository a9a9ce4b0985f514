//! [`Migrating`]: a device that collects and tells the host (D2FS, FAST'25): block-associative mapping, coupled
//! collection. Its promises are in `steadyfs_device::Migrations`, which [`Ledger`] keeps.
//!
//! A zone that holds anything is bound to one line, and a page's place in the line is its place in the zone: the map is
//! one number for each zone. The host writes zones of the regular area in order. A victim's live pages are copied to an
//! open zone of the GC area, one for data and one for nodes, and live at its addresses from then on; a record says so.
//! Discards come when a checkpoint no longer needs a page, so what is not live is needed by nobody. Metadata is
//! page-mapped, on lines of its own.
//!
//! A victim is erased when its copies have been programmed. Collection keeps in step with the host (`collector`). It
//! stops while the host has to say what it needs, when the bound of records is reached, and when
//! no zone of the GC area is free. The host then goes on to write in the lines that are kept for that
//! (`Migrations::room`). They come back first, when the host completes records.
//!
//! Map, records and their numbers survive power cuts: the paper's device has capacitors for them. The buffer does not;
//! what a flush finds in units that are not full goes to a log, as in zones (`partial_log`).
//!
//! Kept true (`check` looks at all of it):
//! - A zone that holds a page is bound.
//! - A line is bound to one zone, or free, or waits for its erase.
//! - Victims are listed by what is live in them.
//! - Records never exceed their bound.
//!
//! Memory: 4 bytes for each zone, 16 for each outstanding record, and the map of the metadata. The emulator itself
//! takes about 100 bytes for each live page more.

mod check;
mod collect;
mod layer;
mod records;

use super::PageMap;
use super::collector::Collector;
use super::flat::FlatMap;
use super::partial_log::PartialLog;
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::parameters::{Coupling, Geometry, ParameterError, Parameters};
use crate::units::Time;
use std::collections::BTreeMap;
use steadyfs_device::{Ledger, MigrationGeometry, PageBuf, Sort, Step};

/// Zones that the host may be writing at a time.
const OPEN_ZONES: u64 = 8;
/// Lines that the host leaves to the collector: one for data, one for nodes.
const COLLECTORS: usize = 2;
/// No line.
const UNBOUND: Line = Line::MAX;

/// A line, and the zone that is bound to it.
#[derive(Debug, Clone, Copy)]
struct Bound {
    zone: u32,
    /// Pages that have their place.
    placed: u32,
}

/// A line that is bound to no zone.
const FREE: Bound = Bound { zone: u32::MAX, placed: 0 };

/// A zone that the host is writing.
#[derive(Debug, Clone, Copy, Default)]
struct OpenZone {
    /// When the data of the open unit is there.
    ready: Time,
    /// Pages that are safe: in units that were filled, or in the log.
    logged: u32,
}

/// A zone of the GC area that copies go to.
#[derive(Debug, Clone, Copy)]
struct Target {
    zone: u32,
    line: Line,
    /// When the data of the open unit is there.
    ready: Time,
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Migrating {
    geometry: Geometry,
    shape: Coupling,
    areas: MigrationGeometry,
    meta: PageMap,
    ledger: Ledger,
    /// Zone -> line, counted from the first line behind those of the metadata.
    zones: Vec<Line>,
    lines: Vec<Bound>,
    first_line: Line,
    collector: Collector,
    open: BTreeMap<u32, OpenZone>,
    targets: [Option<Target>; 2],
    /// Where the search for a free zone of the GC area goes on.
    next_target: u32,
    /// Few zones of the GC area were free at the last look.
    scarce: bool,
    /// So few that the host is to complete records.
    hurries: bool,
    log: PartialLog,
    /// How many waiting records may be delivered.
    due: usize,
    /// The time of the last call.
    clock: Time,
    /// The session has ended.
    closed: bool,
    most_records: usize,
}

impl Migrating {
    /// Lines that a device needs whose regular and GC area hold `pages` pages: those of the metadata, those of the
    /// zones, and two of the log.
    ///
    /// # Errors
    /// Areas that are not made of lines; a buffer that open zones could fill.
    pub(crate) fn lines_for(parameters: &Parameters, shape: Coupling, pages: u64) -> Result<u64, ParameterError> {
        if areas(parameters, shape, pages).fault().is_some() || shape.gc < pages {
            return Err(ParameterError::Zones(
                "areas of a device that moves pages are lines, and the GC area holds all",
            ));
        }
        let line = u64::from(parameters.geometry.line_pages());
        if OPEN_ZONES * u64::from(parameters.geometry.unit_pages()) > line {
            return Err(ParameterError::Zones("more may be open than the log has pages for"));
        }
        if u64::from(shape.records) < 2 * line {
            return Err(ParameterError::Zones("a device has records for two lines at least"));
        }
        parameters.buffer_holds(OPEN_ZONES + 1)?;
        let policy = &parameters.policy;
        let wanted = (pages as f64 * (1.0 + policy.over_provisioning) / line as f64).ceil() as u64;
        let kept = OPEN_ZONES + COLLECTORS as u64 + u64::from(policy.gc_lines) + u64::from(shape.reserve_lines) + 2;
        let meta = PageMap::lines_for(&parameters.geometry, policy, shape.meta);
        Ok(meta + wanted.max(pages.div_ceil(line) + kept) + 2)
    }

    /// An empty device on `lines` erased lines, which are what [`Migrating::lines_for`] said.
    pub(crate) fn new(parameters: &Parameters, shape: Coupling, pages: u64, lines: u32) -> Self {
        let (geometry, areas) = (parameters.geometry, areas(parameters, shape, pages));
        let meta_lines = PageMap::lines_for(&geometry, &parameters.policy, shape.meta) as Line;
        let own = lines - meta_lines - 2;
        let low = parameters.policy.gc_lines + shape.reserve_lines;
        Migrating {
            geometry,
            shape,
            meta: PageMap::new(parameters, FlatMap::new(shape.meta), shape.meta, 0, meta_lines),
            ledger: Ledger::new(areas.clone()),
            zones: vec![UNBOUND; ((areas.gc.end - areas.regular.start) / areas.zone) as usize],
            areas,
            lines: vec![FREE; own as usize],
            first_line: meta_lines,
            collector: Collector::new(geometry, meta_lines, own, low),
            open: BTreeMap::new(),
            targets: [None; 2],
            next_target: 0,
            scarce: false,
            hurries: false,
            log: PartialLog::new([lines - 2, lines - 1], geometry.line_units(), geometry.unit_pages()),
            due: 0,
            clock: 0,
            closed: false,
            most_records: 0,
        }
    }

    /// Whether a page is metadata.
    fn is_meta(&self, page: u64) -> bool {
        page < self.areas.meta.end
    }

    /// The zone of a page, and its place there.
    fn place(&self, page: u64) -> (u32, u32) {
        let from = page - self.areas.regular.start;
        ((from / self.areas.zone) as u32, (from % self.areas.zone) as u32)
    }

    /// The first page of a zone.
    fn start(&self, zone: u32) -> u64 {
        self.areas.regular.start + u64::from(zone) * self.areas.zone
    }

    /// Live pages of the zone that is bound to a line.
    fn live_in(&self, line: Line) -> u32 {
        self.ledger.live_in(self.start(self.lines[line as usize].zone)) as u32
    }

    /// Takes a step that the host has no part in.
    fn take(&mut self, step: Step) {
        self.ledger.take(step).unwrap_or_else(|broken| panic!("a host that moves pages broke its promise: {broken}"));
    }

    /// Binds a zone to a free line.
    fn bind(&mut self, zone: u32) -> Line {
        let line = self.collector.open();
        assert_eq!(self.zones[zone as usize], UNBOUND, "zone {zone} is bound already");
        self.lines[line as usize] = Bound { zone, placed: 0 };
        self.zones[zone as usize] = line;
        line
    }

    /// A line gets no more pages.
    fn fill(&mut self, line: Line) {
        let live = self.live_in(line);
        self.collector.fill(line, live);
    }

    /// The last unit of a host's zone has all that it will get.
    fn program(&mut self, media: &mut Media, now: Time, zone: u32, pages: u32) -> Time {
        let line = self.zones[zone as usize];
        let placed = self.lines[line as usize].placed;
        let unit = (placed - 1) / self.geometry.unit_pages();
        let ready = self.open.get_mut(&zone).map_or(0, |open| {
            open.logged = placed;
            std::mem::take(&mut open.ready)
        });
        media.program(now, ready, (line + self.first_line, unit), Source::Host, pages)
    }

    /// Pages that wait in units that are not full.
    fn waiting(&self, logged_too: bool) -> Vec<u64> {
        let unit = self.geometry.unit_pages();
        let mut pages = Vec::new();
        for (zone, open) in &self.open {
            let placed = self.lines[self.zones[*zone as usize] as usize].placed;
            let first = placed / unit * unit;
            let from = if logged_too { first } else { first.max(open.logged) };
            let all = (from..placed).map(|page| self.start(*zone) + u64::from(page));
            pages.extend(all.filter(|page| self.ledger.is_live(*page)));
        }
        pages
    }

    /// Makes safe what waits.
    fn log_waiting(&mut self, media: &mut Media, now: Time) {
        let mut pages = self.waiting(false);
        if !self.log.fits(pages.len()) {
            self.log.turn(media, now);
            pages = self.waiting(true);
        }
        self.log.write(media, now, &pages);
        for (zone, open) in &mut self.open {
            open.logged = self.lines[self.zones[*zone as usize] as usize].placed;
        }
    }

    /// The host goes on with none of the zones that it was writing.
    fn leave_zones(&mut self, media: &mut Media, now: Time) {
        while let Some((&zone, _)) = self.open.first_key_value() {
            let line = self.zones[zone as usize];
            let pages = self.lines[line as usize].placed % self.geometry.unit_pages();
            if pages > 0 {
                self.program(media, now, zone, pages);
            }
            self.open.remove(&zone);
            self.fill(line);
        }
    }

    /// What a power cut leaves of this device's memory.
    pub(crate) fn remembered(&self) -> Ledger {
        self.ledger.clone().cut()
    }

    /// Fills an empty device with what another one held before a power cut. Of live pages that `contents` does not
    /// have nothing is left.
    pub(crate) fn restore(
        &mut self,
        media: &mut Media,
        now: Time,
        ledger: Ledger,
        contents: &BTreeMap<u64, PageBuf>,
    ) -> Time {
        self.ledger = ledger;
        let (mut end, unit_pages) = (now, self.geometry.unit_pages());
        for zone in 0..self.zones.len() as u32 {
            let start = self.start(zone);
            if self.ledger.live_in(start) == 0 {
                continue;
            }
            let line = self.bind(zone);
            for unit in 0..self.geometry.line_units() {
                let first = start + u64::from(unit * unit_pages);
                let live = (first..first + u64::from(unit_pages)).filter(|page| self.ledger.is_live(*page));
                let live: Vec<u64> = live.collect();
                for page in &live {
                    media.restored(*page, contents.get(page).cloned().unwrap_or_default());
                    media.placed((line + self.first_line, unit), *page);
                }
                let at = (line + self.first_line, unit);
                end = media.program(now, now, at, Source::Collector, live.len() as u32).max(end);
            }
            self.lines[line as usize].placed = self.geometry.line_pages();
            self.fill(line);
        }
        end
    }

    /// Of what sort a write of this stream is.
    fn sort(stream: usize) -> Sort {
        if stream == Sort::Node as usize { Sort::Node } else { Sort::Data }
    }
}

/// The areas that the parameters say.
fn areas(parameters: &Parameters, shape: Coupling, capacity: u64) -> MigrationGeometry {
    let (regular, end) = (shape.meta + shape.regular, shape.meta + shape.regular + shape.gc);
    let zone = u64::from(parameters.geometry.line_pages());
    MigrationGeometry { zone, meta: 0..shape.meta, regular: shape.meta..regular, gc: regular..end, capacity }
}
