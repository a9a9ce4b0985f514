//! [`Collector`]: what the layers that collect have in common. It knows which lines are free, which one is being
//! collected and how fast, which copies are on their way to their chips, and which lines wait for their erase.
//!
//! A victim is looked at unit by unit, in step with the host ([`Collects::pace`]). While a victim of P pages with V
//! valid is collected, the host gets the P - V pages that it yields.
//!
//! Copies go to their chips when they have been read. A collected line waits until a layer says that what it held is
//! safe elsewhere, and is then in line for its erase. Until that begins it is neither valid nor free for use.
//!
//! Kept true:
//! - A line is in exactly one state.
//! - A free line is in the queue of free ones.
//! - A candidate is full.
//! - Erases begin in the order in which lines were queued for them.

use super::LineState;
use super::victims::Victims;
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::parameters::Geometry;
use crate::units::Time;
use std::collections::VecDeque;

/// Fixed point of the collector's pace.
const ONE: u64 = 1 << 10;
/// Streams of copies at most.
const STREAMS: usize = 2;

/// A stream of copies, and the number of one of its units, from 1 on; 0 for none.
pub(super) type Copies = (usize, u64);

#[derive(Debug, Clone, Copy)]
pub(super) struct Victim {
    pub(super) line: Line,
    /// Next unit to look at.
    pub(super) unit: u32,
    /// Victim pages to look at per page that the host writes, times [`ONE`].
    rate: u64,
    /// The unit of copies that holds its last one.
    pub(super) copies: Copies,
}

/// A collected line, and what has to be programmed before it is erased.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaiting {
    pub(super) line: Line,
    /// The units of copies up to this one.
    pub(super) copies: Copies,
    /// The host's pages up to this one; 0 where they need not be waited for.
    pub(super) written: u64,
}

/// A line that is erased when its contents are safe elsewhere: not before this time, nor before those programs have
/// ended that had been told when it was queued.
#[derive(Debug, Clone, Copy)]
struct Erasing {
    at: Time,
    line: Line,
    told: u64,
}

/// A unit of copies that will be there at `ready`.
#[derive(Debug)]
pub(super) struct CopiedUnit {
    pub(super) ready: Time,
    pub(super) line: Line,
    pub(super) unit: u32,
    pub(super) pages: u32,
    pub(super) stream: usize,
}

/// Work that came due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// A unit of copies has been told to its chip.
    Programmed,
    /// A line is free again.
    Erased(Line),
    /// A line was to be erased, and programs that it waits for have become later.
    PutOff,
}

/// See the head of the module.
#[derive(Debug)]
pub(super) struct Collector {
    geometry: Geometry,
    first_line: Line,
    /// Lines that are free or coming, up to which there is something to collect for.
    low: u32,
    kind: Vec<LineState>,
    pub(super) free: VecDeque<Line>,
    pub(super) victims: Victims,
    pub(super) victim: Option<Victim>,
    credit: u64,
    /// Units of copies of each stream that were filled, and programmed.
    filled: [u64; STREAMS],
    programmed: [u64; STREAMS],
    /// End of the last program of copies, and its number.
    pub(super) copies_end: Time,
    pub(super) copies_told: u64,
    pub(super) copied: VecDeque<CopiedUnit>,
    pub(super) awaiting: VecDeque<Awaiting>,
    erasing: VecDeque<Erasing>,
}

impl Collector {
    /// A collector of `lines` erased lines from `first_line` on; `low` is its reserve of free ones.
    pub(super) fn new(geometry: Geometry, first_line: Line, lines: u32, low: u32) -> Self {
        Collector {
            geometry,
            first_line,
            low,
            kind: vec![LineState::Free; lines as usize],
            free: (0..lines).collect(),
            victims: Victims::new(lines, geometry.line_pages()),
            victim: None,
            credit: 0,
            filled: [0; STREAMS],
            programmed: [0; STREAMS],
            copies_end: 0,
            copies_told: 0,
            copied: VecDeque::new(),
            awaiting: VecDeque::new(),
            erasing: VecDeque::new(),
        }
    }

    /// What each line is used for.
    pub(super) fn kinds(&self) -> &[LineState] {
        &self.kind
    }

    /// Collected lines that have not been erased.
    pub(super) fn collected(&self) -> impl Iterator<Item = Line> + '_ {
        self.awaiting.iter().map(|awaiting| awaiting.line).chain(self.erasing.iter().map(|erasing| erasing.line))
    }

    /// Lines that are free or will be shortly.
    pub(super) fn coming(&self) -> u32 {
        (self.free.len() + self.awaiting.len() + self.erasing.len()) as u32
    }

    /// Whether there are so few of them that there is something to collect for.
    pub(super) fn is_short(&self) -> bool {
        self.coming() <= self.low
    }

    /// Takes a free line, of which there is one.
    pub(super) fn open(&mut self) -> Line {
        let line = self.free.pop_front().unwrap_or_else(|| panic!("a line was promised"));
        assert_eq!(self.kind[line as usize], LineState::Free, "line {line} is not free");
        self.kind[line as usize] = LineState::Open;
        line
    }

    /// A line gets no more pages: it is a candidate.
    pub(super) fn fill(&mut self, line: Line, valid: u32) {
        self.kind[line as usize] = LineState::Full;
        self.victims.insert(line, valid);
    }

    /// A candidate becomes the victim.
    pub(super) fn begin(&mut self, line: Line, valid: u32) {
        assert!(self.victim.is_none(), "one victim at a time");
        let pages = self.geometry.line_pages();
        assert!(
            self.victims.remove(line) && self.kind[line as usize] == LineState::Full,
            "line {line} is no candidate"
        );
        let rate = (u64::from(pages) * ONE).div_ceil(u64::from(pages - valid).max(1));
        self.victim = Some(Victim { line, unit: 0, rate, copies: (0, 0) });
    }

    /// The victim's next unit has been looked at; its last copy so far is in this unit.
    pub(super) fn looked_at(&mut self, copies: Copies) {
        if let Some(victim) = &mut self.victim {
            (victim.unit, victim.copies) = (victim.unit + 1, copies);
        }
    }

    /// A line, no candidate any more, holds nothing: it is erased when its contents are safe elsewhere.
    pub(super) fn give_up(&mut self, awaiting: Awaiting) {
        self.kind[awaiting.line as usize] = LineState::Awaiting;
        self.awaiting.push_back(awaiting);
    }

    /// The unit of a stream that the next copy goes to.
    pub(super) fn filling(&self, stream: usize) -> Copies {
        (stream, self.filled[stream] + 1)
    }

    /// Puts a unit of copies in line for its chip.
    pub(super) fn copied(&mut self, unit: CopiedUnit) {
        self.filled[unit.stream] += 1;
        self.copied.push_back(unit);
    }

    /// Whether a stream's units up to this one have been told to their chips.
    pub(super) fn are_programmed(&self, (stream, unit): Copies) -> bool {
        unit <= self.programmed[stream]
    }

    /// Lets one of the lines that await this be erased, when all programs up to number `told` have ended.
    pub(super) fn queue_erase(&mut self, place: usize, at: Time, told: u64) {
        let Some(Awaiting { line, .. }) = self.awaiting.remove(place) else { return };
        let after = self.erasing.back().map_or(0, |erasing| erasing.at);
        self.erasing.push_back(Erasing { at: at.max(after), line, told });
    }

    /// The work that is due first, and whether that is an erase: else it is a unit of copies.
    fn first_due(&self) -> Option<(Time, bool)> {
        let program = self.copied.front().map(|unit| (unit.ready, false));
        let erase = self.erasing.front().map(|erasing| (erasing.at, true));
        program.into_iter().chain(erase).min()
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.first_due().map(|(at, _)| at)
    }

    /// Does what is due first, if that is due by now; when, and what that was. Erases wait for programs of copies, and
    /// for those of the host too if `host`.
    pub(super) fn step(&mut self, media: &mut Media, now: Time, host: bool) -> Option<(Time, Done)> {
        let (at, erase) = self.first_due().filter(|&(at, _)| at <= now)?;
        if erase { self.erase(media, at, host) } else { self.program(media, at) }.map(|done| (at, done))
    }

    fn erase(&mut self, media: &mut Media, at: Time, host: bool) -> Option<Done> {
        let first = self.erasing.front_mut()?;
        let Erasing { line, told, .. } = *first;
        // Reads may have put off programs that it waits for.
        if let Some(later) = media.unsafe_until(told, host, at) {
            first.at = later;
            return Some(Done::PutOff);
        }
        self.erasing.pop_front();
        media.erase(at, line + self.first_line);
        assert_eq!(self.kind[line as usize], LineState::Awaiting, "line {line} was not collected");
        self.kind[line as usize] = LineState::Free;
        self.free.push_back(line);
        Some(Done::Erased(line))
    }

    fn program(&mut self, media: &mut Media, at: Time) -> Option<Done> {
        let copied = self.copied.pop_front()?;
        let to = (copied.line + self.first_line, copied.unit);
        let end = media.program(at, at, to, Source::Collector, copied.pages);
        self.programmed[copied.stream] += 1;
        (self.copies_end, self.copies_told) = (self.copies_end.max(end), media.nand.told());
        Some(Done::Programmed)
    }

    /// Adds a line for every rule of its own that does not hold.
    pub(super) fn check(&self, found: &mut Vec<String>) {
        let count = |state| self.kind.iter().filter(|&&kind| kind == state).count();
        let full = count(LineState::Full) - usize::from(self.victim.is_some());
        if full != self.victims.count() as usize {
            found.push(format!("{full} lines are full, {} are candidates", self.victims.count()));
        }
        let (free, awaiting) = (count(LineState::Free), count(LineState::Awaiting));
        if free != self.free.len() || awaiting != self.collected().count() {
            found.push(format!("{free} free and {awaiting} collected lines are not those in the queues"));
        }
    }

    /// Another run begins, with another clock; nothing is under way.
    pub(super) fn restart(&mut self) {
        self.copies_end = 0;
    }
}

/// A layer that collects.
pub(super) trait Collects {
    /// Units that are made up for at once at most, after a time in which nothing could be collected.
    const MOST_BEHIND: u64;

    fn collector(&mut self) -> &mut Collector;

    /// Whether there is something to collect for.
    fn wants(&self) -> bool;

    /// Chooses a victim. False if there is none.
    fn choose(&mut self) -> bool;

    /// Copies what is valid in the victim's next unit. False if that cannot be now.
    fn collect_unit(&mut self, media: &mut Media, now: Time) -> bool;

    /// Whether there is a victim now, if need be a new one.
    fn has_victim(&mut self) -> bool {
        self.collector().victim.is_some() || self.choose()
    }

    /// Goes on with the victim, or with a new one if there is something to collect for.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.collector().victim.is_some() || self.wants() && self.choose();
        if !goes_on {
            self.collector().credit = 0;
        }
        goes_on
    }

    /// Collects in step with one page of the host.
    fn pace(&mut self, media: &mut Media, now: Time) {
        if !self.goes_on() {
            return;
        }
        let collector = self.collector();
        let unit = u64::from(collector.geometry.unit_pages()) * ONE;
        let behind = u64::from(collector.low.saturating_sub(collector.coming()));
        let rate = collector.victim.map_or(0, |victim| victim.rate);
        collector.credit = (collector.credit + rate * (1 + behind)).min(unit.saturating_mul(Self::MOST_BEHIND));
        while self.collector().credit >= unit && self.collect_unit(media, now) {
            self.collector().credit -= unit;
            self.goes_on();
        }
    }
}
