//! [`Nand`]: the flash chips and the channels to them: what an operation takes, and what has been programmed.
//!
//! A chip does one thing at a time, in the order in which it is told, unless reads go before programs and erases, or
//! suspend them (`chip`). A read keeps it from the start of the sense to the end of the last transfer. A program keeps
//! it from the start of the transfer to the end of the program, and an erase for its time. Transfers also need the
//! channel, which chips share. Callers tell a chip what to do only when it could begin (data has arrived, copies are
//! durable). So nothing waits behind an operation that cannot start.
//!
//! The end of a program is what is known when it is told. A read that goes before it makes it later:
//! [`Nand::take_late`] has those, and [`Nand::last_end`] what is known by now.
//!
//! Kept true, checked on every call and in release builds: the units of a line are programmed in order, each once
//! between two erases; a line is erased when it is told, and only then.

use crate::chip::{Chip, Late, Program, SuspensionTimes};
use crate::parameters::{Geometry, Suspension, Timing};
use crate::servers::Server;
use crate::units::{PAGE, Time, nanos};

/// A superblock, by number.
pub(crate) type Line = u32;

/// Whose pages a program unit holds; the rest of the unit is padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Host,
    Collector,
    /// The device's own bookkeeping.
    Meta,
}

/// What a line has been through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineState {
    /// Units programmed since the last erase; the next one has this number.
    pub(crate) programmed: u32,
    pub(crate) erases: u32,
}

/// The work done, in units of 4 KiB pages but for the erases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NandCounters {
    pub(crate) host_programmed: u64,
    pub(crate) gc_programmed: u64,
    pub(crate) meta_programmed: u64,
    pub(crate) padding: u64,
    /// Program units: what all of the above are parts of.
    pub(crate) units_programmed: u64,
    pub(crate) host_read: u64,
    pub(crate) gc_read: u64,
    /// Lines erased; each of its blocks counts in the wear.
    pub(crate) lines_erased: u64,
    /// Nanoseconds for which chips read, and programmed, for the collector, of all chips together.
    pub(crate) gc_busy_ns: (u64, u64),
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Nand {
    geometry: Geometry,
    timing: NandTimes,
    suspension: SuspensionTimes,
    limit: u32,
    chips: Vec<Chip>,
    channels: Vec<Server>,
    lines: Vec<LineState>,
    counters: NandCounters,
    late: Vec<Late>,
}

/// [`Timing`] in nanoseconds.
#[derive(Debug)]
struct NandTimes {
    sense_small: [u64; 2],
    sense: [u64; 2],
    program: u64,
    erase: u64,
    unit_transfer: u64,
    timing: Timing,
}

impl Nand {
    /// `lines` lines, all erased.
    pub(crate) fn new(geometry: Geometry, timing: Timing, suspension: &Suspension, lines: u32) -> Self {
        let times = NandTimes {
            sense_small: timing.sense_small.map(nanos),
            sense: timing.sense.map(nanos),
            program: nanos(timing.program),
            erase: nanos(timing.erase),
            unit_transfer: timing.channel.nanos(geometry.unit_bytes()),
            timing,
        };
        Nand {
            geometry,
            timing: times,
            suspension: SuspensionTimes::new(suspension),
            limit: suspension.limit,
            chips: (0..geometry.chips()).map(|_| Chip::default()).collect(),
            channels: vec![Server::default(); geometry.channels as usize],
            lines: vec![LineState::default(); lines as usize],
            counters: NandCounters::default(),
            late: Vec::new(),
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn counters(&self) -> &NandCounters {
        &self.counters
    }

    pub(crate) fn lines(&self) -> &[LineState] {
        &self.lines
    }

    /// Chip of a unit, its channel, and whether it lies in an odd row.
    fn place(&self, unit: u32) -> (usize, usize, usize) {
        let chip = unit % self.geometry.chips();
        let row = unit / self.geometry.chips();
        (chip as usize, (chip % self.geometry.channels) as usize, (row % 2) as usize)
    }

    /// Programs the next unit of a line, `pages` of which hold data of `source`, that is there at `ready`. When it has
    /// been programmed.
    pub(crate) fn program(
        &mut self,
        now: Time,
        ready: Time,
        (line, unit): (Line, u32),
        source: Source,
        pages: u32,
    ) -> Time {
        let unit_pages = self.geometry.unit_pages();
        let state = &mut self.lines[line as usize];
        assert_eq!(unit, state.programmed, "line {line} is programmed out of order");
        assert!(unit < self.geometry.line_units() && pages <= unit_pages, "{pages} pages in unit {unit}");
        state.programmed += 1;
        self.count(source, u64::from(pages), u64::from(unit_pages - pages));
        let (chip, channel, _) = self.place(unit);
        let chip = &mut self.chips[chip];
        let start = chip.free().max(now).max(ready);
        let (_, transferred) = self.channels[channel].book(now, start, self.timing.unit_transfer);
        let end = transferred + self.timing.program;
        if source == Source::Collector {
            self.counters.gc_busy_ns.1 += end - start;
        }
        let number = self.counters.units_programmed;
        let program = Program { at: (line, unit), source, pages, number };
        chip.push(now, (start, transferred, end), Some(program));
        end
    }

    fn count(&mut self, source: Source, pages: u64, padding: u64) {
        self.counters.units_programmed += 1;
        self.counters.padding += padding;
        *match source {
            Source::Host => &mut self.counters.host_programmed,
            Source::Collector => &mut self.counters.gc_programmed,
            Source::Meta => &mut self.counters.meta_programmed,
        } += pages;
    }

    /// Reads `pages` pages of one unit. `deliver` is called for each piece with the time when it has crossed the
    /// channel, and its bytes. When the last one has. A unit that is still being programmed, or waits for it, is in the
    /// controller's memory: it costs nothing.
    pub(crate) fn read(
        &mut self,
        now: Time,
        line: Line,
        unit: u32,
        pages: u32,
        source: Source,
        mut deliver: impl FnMut(Time, u64),
    ) -> Time {
        let mut left = u64::from(pages) * PAGE;
        assert!(pages > 0 && left <= self.geometry.unit_bytes(), "{pages} pages of one unit");
        let (chip, channel, odd) = self.place(unit);
        if unit >= self.lines[line as usize].programmed || self.chips[chip].programs(now, (line, unit)) {
            deliver(now, left);
            return now;
        }
        *match source {
            Source::Host => &mut self.counters.host_read,
            Source::Collector | Source::Meta => &mut self.counters.gc_read,
        } += u64::from(pages);
        let chip = &mut self.chips[chip];
        let turn = chip.turn(now, &self.suspension);
        let start = turn.start;
        let sense = if pages == 1 { self.timing.sense_small[odd] } else { self.timing.sense[odd] };
        let mut at = start + sense;
        while left > 0 {
            let piece = left.min(u64::from(self.timing.timing.channel_piece));
            (_, at) = self.channels[channel].book(now, at, self.timing.timing.channel.nanos(piece));
            deliver(at, piece);
            left -= piece;
        }
        chip.read(turn, at, &self.suspension, |late| self.late.push(late));
        if source != Source::Host {
            self.counters.gc_busy_ns.0 += at - start;
        }
        at
    }

    /// Programs that have become later since this was asked, in the order in which they did.
    pub(crate) fn take_late(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }

    /// Programs told so far: the number of the last.
    pub(crate) fn told(&self) -> u64 {
        self.counters.units_programmed
    }

    /// When the last of those programs ends that have not ended and that `wanted` says are meant.
    pub(crate) fn last_end(&self, wanted: impl Fn(&Program) -> bool) -> Option<Time> {
        self.chips.iter().filter_map(|chip| chip.last_end(&wanted)).max()
    }

    /// How often programs, and erases, were suspended.
    pub(crate) fn suspended(&self) -> (u64, u64) {
        self.chips.iter().fold((0, 0), |sum, chip| {
            let (programs, erases) = chip.suspended();
            (sum.0 + programs, sum.1 + erases)
        })
    }

    /// How often programs, and erases, may have been suspended at the most.
    pub(crate) fn most_suspended(&self) -> (u64, u64) {
        let erases = self.counters.lines_erased * u64::from(self.geometry.chips());
        let most = |may: bool, operations: u64| if may { operations * u64::from(self.limit) } else { 0 };
        let (programs, limit) = (self.counters.units_programmed, &self.suspension);
        (most(limit.programs(), programs), most(limit.erases(), erases))
    }

    /// Erases a line: a block of every chip.
    pub(crate) fn erase(&mut self, now: Time, line: Line) {
        let state = &mut self.lines[line as usize];
        assert!(state.programmed > 0, "line {line} is erased twice");
        *state = LineState { programmed: 0, erases: state.erases + 1 };
        self.counters.lines_erased += 1;
        for chip in &mut self.chips {
            let start = chip.free().max(now);
            chip.push(now, (start, start, start + self.timing.erase), None);
        }
    }

    /// Nanoseconds that each channel, and each chip, has been busy or will be with what it was told.
    pub(crate) fn busy(&self) -> (Vec<u64>, Vec<u64>) {
        (self.channels.iter().map(Server::busy).collect(), self.chips.iter().map(Chip::busy).collect())
    }

    /// When every chip is idle.
    pub(crate) fn idle_at(&self) -> Time {
        self.chips.iter().map(Chip::free).max().unwrap_or(0)
    }

    /// Time starts again, and nothing is under way.
    pub(crate) fn restart(&mut self) {
        self.channels.iter_mut().for_each(Server::restart);
        self.chips.iter_mut().for_each(Chip::restart);
    }
}
