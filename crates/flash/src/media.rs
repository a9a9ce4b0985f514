//! [`Media`]: what translation layers work on: chips, write buffer, contents, and, on request, what a power cut would
//! find.
//!
//! The one place where a unit is programmed and a line erased, so that buffer and cells always agree with the chips.

use crate::buffer::Buffer;
use crate::cells::Cells;
use crate::chip::{Late, Program};
use crate::contents::Contents;
use crate::nand::{Line, Nand, Source};
use crate::parameters::Parameters;
use crate::units::{PAGE, Time};
use steadyfs_device::PageBuf;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Media {
    pub(crate) nand: Nand,
    pub(crate) buffer: Buffer,
    pub(crate) contents: Contents,
    pub(crate) cells: Option<Cells>,
    /// Programs that have become later, for who promised something by their end.
    late: Vec<Late>,
}

impl Media {
    /// Erased lines and an empty buffer.
    pub(crate) fn new(parameters: &Parameters, lines: u32) -> Self {
        Media {
            nand: Nand::new(parameters.geometry, parameters.timing, &parameters.suspension, lines),
            buffer: Buffer::new(parameters.buffer_bytes / PAGE),
            contents: Contents::new(),
            cells: parameters.remember_cells.then(Cells::default),
            late: Vec::new(),
        }
    }

    /// A logical page, as it is now, has a place in a unit that will be programmed.
    pub(crate) fn placed(&mut self, at: (Line, u32), page: u64) {
        if let Some(cells) = &mut self.cells {
            cells.placed(at, page, self.contents.get(page));
        }
    }

    /// A page has another address.
    pub(crate) fn renamed(&mut self, from: u64, to: u64) {
        let contents = self.contents.get(from);
        self.contents.set(from, PageBuf::zeroed());
        self.contents.set(to, contents);
        if let Some(cells) = &mut self.cells {
            cells.renamed(from, to);
        }
    }

    /// A page is there before anything is written.
    pub(crate) fn restored(&mut self, page: u64, contents: PageBuf) {
        self.contents.set(page, contents);
        if let Some(cells) = &mut self.cells {
            cells.written(page);
        }
    }

    /// A unit that pages have their place in will not be programmed.
    pub(crate) fn dropped(&mut self, at: (Line, u32)) {
        if let Some(cells) = &mut self.cells {
            cells.dropped(at);
        }
    }

    /// The contents of a page are gone; `for_good` if no power cut may bring them back.
    pub(crate) fn forget(&mut self, page: u64, for_good: bool) {
        self.contents.set(page, PageBuf::zeroed());
        if let Some(cells) = &mut self.cells {
            cells.discarded(page, for_good);
        }
    }

    /// Programs the next unit of a line, in which `pages` pages have their place. Pages of the host leave the buffer
    /// with the end of the program, which is returned.
    pub(crate) fn program(&mut self, now: Time, ready: Time, at: (Line, u32), source: Source, pages: u32) -> Time {
        let end = self.nand.program(now, ready, at, source, pages);
        if source == Source::Host {
            self.buffer.program(u64::from(pages), end);
        }
        if let Some(cells) = &mut self.cells {
            cells.programmed(at, end);
        }
        end
    }

    /// Reads pages of a unit (see [`Nand::read`]). Programs that become later for it keep their room in the buffer
    /// until they end, and are in the cells from then on.
    pub(crate) fn read(
        &mut self,
        now: Time,
        (line, unit): (Line, u32),
        pages: u32,
        source: Source,
        deliver: impl FnMut(Time, u64),
    ) -> Time {
        let end = self.nand.read(now, line, unit, pages, source, deliver);
        for late in self.nand.take_late() {
            if late.program.source == Source::Host {
                self.buffer.late(u64::from(late.program.pages), late.from, late.to);
            }
            if let Some(cells) = &mut self.cells {
                cells.late(late.program.at, late.to);
            }
            self.late.push(late);
        }
        end
    }

    /// Programs that have become later since this was asked.
    pub(crate) fn take_late(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }

    /// Copies, and pages of the host too if `host`, are safe when all programs of them up to number `told` have ended:
    /// when that is, if it is later than `at`.
    pub(crate) fn unsafe_until(&self, told: u64, host: bool, at: Time) -> Option<Time> {
        let meant = |program: &Program| match program.source {
            Source::Collector => program.number <= told,
            Source::Host => host && program.number <= told,
            Source::Meta => false,
        };
        self.nand.last_end(meant).filter(|end| *end > at)
    }

    /// Erases a line.
    pub(crate) fn erase(&mut self, now: Time, line: Line) {
        self.nand.erase(now, line);
        if let Some(cells) = &mut self.cells {
            cells.erased(line);
        }
    }
}
