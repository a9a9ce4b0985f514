//! [`PartialLog`]: where a zoned device without capacitors keeps pages that a flush must make safe before their unit is
//! full.
//!
//! A zone's pages lie in order, so a unit cannot be padded: the zone would go on behind a hole. The pages that wait are
//! programmed a second time, into a line of the device's own, and read from there only after a power cut. Two lines
//! take turns: what still waits when one is full goes to the other first, and then the full one is erased.

use crate::chip::Program;
use crate::media::Media;
use crate::nand::{Line, Source};
use crate::units::Time;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct PartialLog {
    lines: [Line; 2],
    units: u32,
    unit_pages: u32,
    current: usize,
    /// Next unit of the current line.
    unit: u32,
    /// A line that is full, until what still waits has been written to the other.
    full: Option<Line>,
    /// Line to erase, not before a time, nor before programs up to a number have ended: then its contents are safe
    /// elsewhere.
    erasing: Option<(Time, Line, u64)>,
    /// End of the last program.
    end: Time,
}

impl PartialLog {
    pub(crate) fn new(lines: [Line; 2], units: u32, unit_pages: u32) -> Self {
        PartialLog { lines, units, unit_pages, current: 0, unit: 0, full: None, erasing: None, end: 0 }
    }

    /// Whether `pages` pages fit into the current line.
    pub(crate) fn fits(&self, pages: usize) -> bool {
        pages as u32 <= (self.units - self.unit) * self.unit_pages
    }

    /// Goes on with the other line, for all that waits: when that has been written, the full one is erased.
    pub(crate) fn turn(&mut self, media: &mut Media, now: Time) {
        self.erase(media, now);
        self.full = Some(self.lines[self.current]);
        self.current = 1 - self.current;
        self.unit = 0;
    }

    /// Programs these pages; after [`PartialLog::turn`] all that wait.
    pub(crate) fn write(&mut self, media: &mut Media, now: Time, pages: &[u64]) {
        assert!(self.fits(pages.len()), "{} pages do not fit the log", pages.len());
        let line = self.lines[self.current];
        for part in pages.chunks(self.unit_pages as usize) {
            let at = (line, self.unit);
            part.iter().for_each(|&page| media.placed(at, page));
            let end = media.program(now, now, at, Source::Meta, part.len() as u32);
            self.end = self.end.max(end);
            self.unit += 1;
        }
        if let Some(full) = self.full.take() {
            assert!(self.erasing.is_none(), "the other line is still to be erased");
            self.erasing = Some((self.end, full, media.nand.told()));
        }
    }

    fn erase(&mut self, media: &mut Media, now: Time) {
        if let Some((at, line, told)) = self.erasing.take() {
            let at = at.max(now);
            let meant = |program: &Program| program.source == Source::Meta && program.number <= told;
            media.erase(media.nand.last_end(meant).map_or(at, |end| end.max(at)), line);
        }
    }

    /// Erases what is due.
    pub(crate) fn advance(&mut self, media: &mut Media, now: Time) {
        if let Some((at, ..)) = self.erasing.filter(|&(at, ..)| at <= now) {
            self.erase(media, at);
        }
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.erasing.map(|(at, ..)| at)
    }

    /// When all that was written has been programmed.
    pub(crate) fn end(&self) -> Time {
        self.end
    }

    /// Another run begins.
    pub(crate) fn restart(&mut self) {
        self.end = 0;
    }

    /// Its lines, and how many units of each are programmed.
    pub(crate) fn lines(&self) -> [(Line, u32); 2] {
        let other = 1 - self.current;
        let left = if self.erasing.is_some_and(|(_, line, _)| line == self.lines[other]) { self.units } else { 0 };
        [(self.lines[self.current], self.unit), (self.lines[other], left)]
    }
}
