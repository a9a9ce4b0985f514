//! [`Cells`]: what lies in the flash itself, and so what a power cut leaves.
//!
//! Kept beside the maps, on request, and used by nothing but power cuts. Each program leaves its pages with their
//! numbers and versions, each erase takes them away. After a cut a scan of the flash finds, for every logical page, the
//! versions that had been programmed by then. The newest that a flush or FUA had promised must be among them. A newer
//! one survives or does not, page by page, as when the last updates of a map are lost. It survives for certain if the
//! version before it has been erased: that makes it the one to go by. So survival follows from programs, erases and
//! flushes, and not from what they should have done.
//!
//! Memory: 48 bytes for each page of the flash that has been programmed, and 16 for each logical page.

use crate::nand::Line;
use crate::units::Time;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use steadyfs_device::PageBuf;

/// A page as it was programmed.
#[derive(Debug, Clone)]
struct Cell {
    page: u64,
    version: u64,
    contents: PageBuf,
}

/// A program: when it ended, and what it left.
#[derive(Debug, Clone)]
struct Programmed {
    end: Time,
    cells: Vec<Cell>,
}

/// What a flush or a FUA has promised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promised {
    flush: Option<usize>,
    fua: Range<usize>,
}

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    lines: HashMap<Line, Vec<Programmed>>,
    /// Pages with a place in a unit that is not programmed yet, superseded ones, too.
    placed: HashMap<(Line, u32), Vec<Cell>>,
    /// Writes and discards so far: the number of a version.
    version: u64,
    /// The newest version of each page.
    newest: HashMap<u64, u64>,
    /// Versions as of which a page is not promised any more.
    discarded: HashMap<u64, u64>,
    /// Versions up to which a page cannot be found: the newest that was erased.
    erased: HashMap<u64, u64>,
    /// Ends of flushes, and the versions up to which they promise.
    flushes: Vec<(Time, u64)>,
    /// The same for single pages.
    fua: Vec<(Time, u64, u64)>,
}

impl Cells {
    /// A page has a new version.
    pub(crate) fn written(&mut self, page: u64) {
        self.version += 1;
        self.newest.insert(page, self.version);
    }

    /// A page has none any more; `for_good` if what it had must not be found again, wherever it lies.
    pub(crate) fn discarded(&mut self, page: u64, for_good: bool) {
        self.version += 1;
        self.newest.remove(&page);
        self.discarded.insert(page, self.version);
        if for_good {
            self.erased.insert(page, self.version);
        }
    }

    /// A page has another address: the version stays.
    pub(crate) fn renamed(&mut self, from: u64, to: u64) {
        let version = self.newest.remove(&from).unwrap_or_else(|| panic!("page {from} was never written"));
        self.newest.insert(to, version);
    }

    /// The newest version of a page has a place in a unit.
    pub(crate) fn placed(&mut self, at: (Line, u32), page: u64, contents: PageBuf) {
        let version = self.newest.get(&page).copied().unwrap_or_else(|| panic!("page {page} was never written"));
        self.placed.entry(at).or_default().push(Cell { page, version, contents });
    }

    /// A unit will not be programmed.
    pub(crate) fn dropped(&mut self, at: (Line, u32)) {
        self.placed.remove(&at);
    }

    /// A unit is programmed until `end`.
    pub(crate) fn programmed(&mut self, at: (Line, u32), end: Time) {
        let cells = self.placed.remove(&at).unwrap_or_default();
        self.lines.entry(at.0).or_default().push(Programmed { end, cells });
    }

    /// A unit that is being programmed ends later.
    pub(crate) fn late(&mut self, (line, unit): (Line, u32), to: Time) {
        let programmed = self.lines.get_mut(&line).and_then(|units| units.get_mut(unit as usize));
        programmed.unwrap_or_else(|| panic!("unit {unit} of line {line} is not programmed")).end = to;
    }

    /// A line has been erased.
    pub(crate) fn erased(&mut self, line: Line) {
        let programmed = self.lines.remove(&line).unwrap_or_else(|| panic!("line {line} has never been programmed"));
        for cell in programmed.iter().flat_map(|programmed| &programmed.cells) {
            let erased = self.erased.entry(cell.page).or_default();
            *erased = cell.version.max(*erased);
        }
    }

    /// From `end` on, everything written so far is promised.
    pub(crate) fn flushed(&mut self, end: Time) -> Promised {
        self.flushes.push((end, self.version));
        Promised { flush: Some(self.flushes.len() - 1), fua: 0..0 }
    }

    /// From `end` on, the newest versions of these pages are promised.
    pub(crate) fn fua(&mut self, end: Time, pages: Range<u64>) -> Promised {
        let (newest, first) = (&self.newest, self.fua.len());
        self.fua.extend(pages.filter_map(|page| Some((end, page, *newest.get(&page)?))));
        Promised { flush: None, fua: first..self.fua.len() }
    }

    /// The promises for a time hold for a later one.
    pub(crate) fn later(&mut self, promised: &Promised, to: Time) {
        if let Some(flush) = promised.flush {
            self.flushes[flush].0 = to;
        }
        self.fua[promised.fua.clone()].iter_mut().for_each(|(end, ..)| *end = to);
    }

    /// Of pages from this one on, which keep their version when they get another address and are never overwritten:
    /// what a cut at `now` leaves, by present address. Promised pages that are not there are left out.
    pub(crate) fn survivors_in_place(
        &self,
        now: Time,
        first: u64,
        mut chance: impl FnMut() -> bool,
    ) -> BTreeMap<u64, PageBuf> {
        let promised = self.flushes.iter().filter(|(end, _)| *end <= now).map(|(_, version)| *version).max();
        let promised = promised.unwrap_or(0);
        let single: HashSet<u64> =
            self.fua.iter().filter(|(end, ..)| *end <= now).map(|&(_, _, version)| version).collect();
        let programmed = self.lines.values().flatten().filter(|programmed| programmed.end <= now);
        let found: HashMap<u64, &PageBuf> =
            programmed.flat_map(|programmed| &programmed.cells).map(|cell| (cell.version, &cell.contents)).collect();
        let newest: BTreeMap<u64, u64> =
            self.newest.iter().filter(|(page, _)| **page >= first).map(|(page, version)| (*page, *version)).collect();
        let mut survivors = BTreeMap::new();
        for (page, version) in newest {
            let is_promised = version <= promised || single.contains(&version);
            if let Some(contents) = found.get(&version)
                && (is_promised || chance())
            {
                survivors.insert(page, (*contents).clone());
            }
        }
        survivors
    }

    /// Another run begins: what was under way has long been done.
    pub(crate) fn restart(&mut self) {
        self.lines.values_mut().flatten().for_each(|programmed| programmed.end = 0);
        self.flushes.iter_mut().for_each(|(end, _)| *end = 0);
        self.fua.iter_mut().for_each(|(end, ..)| *end = 0);
    }

    /// What a cut at `now` leaves, by page; `chance` decides what of the rest survives.
    pub(crate) fn survivors(&self, now: Time, mut chance: impl FnMut() -> bool) -> Vec<(u64, PageBuf)> {
        let promised = self.flushes.iter().filter(|(end, _)| *end <= now).map(|(_, version)| *version).max();
        let promised = promised.unwrap_or(0);
        let mut single: HashMap<u64, u64> = HashMap::new();
        for &(_, page, version) in self.fua.iter().filter(|(end, ..)| *end <= now) {
            let at_least = single.entry(page).or_default();
            *at_least = version.max(*at_least);
        }
        let mut found: BTreeMap<u64, Vec<&Cell>> = BTreeMap::new();
        let programmed = self.lines.values().flatten().filter(|programmed| programmed.end <= now);
        for cell in programmed.flat_map(|programmed| &programmed.cells) {
            found.entry(cell.page).or_default().push(cell);
        }
        let mut survivors = Vec::new();
        for (page, mut versions) in found {
            let erased = self.erased.get(&page).copied().unwrap_or(0);
            versions.retain(|cell| cell.version >= erased);
            versions.sort_by_key(|cell| cell.version);
            let at_least = promised.max(single.get(&page).copied().unwrap_or(0));
            let gone = self.discarded.get(&page).copied().unwrap_or(0);
            // The newest promised version, unless a newer one survives; what was discarded since may be back or not.
            let mut kept = versions.iter().rfind(|cell| cell.version <= at_least && (cell.version > gone || chance()));
            if kept.is_none() && erased > gone {
                kept = versions.first();
            }
            for newer in versions.iter().filter(|cell| cell.version > at_least) {
                kept = if chance() { Some(newer) } else { kept };
            }
            survivors.extend(kept.map(|cell| (page, cell.contents.clone())));
        }
        survivors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> PageBuf {
        PageBuf::from_slice(&[byte; 8])
    }

    fn left_of(cells: &Cells, now: Time, chance: bool) -> Option<PageBuf> {
        cells.survivors(now, || chance).first().map(|(_, contents)| contents.clone())
    }

    /// One page written three times; what each chance leaves at each time.
    #[test]
    fn promised_versions_survive_and_others_may() {
        let mut cells = Cells::default();
        for (version, end) in [(1u8, 100), (2, 200), (3, 300)] {
            cells.written(7);
            cells.placed((0, u32::from(version)), 7, page(version));
            cells.programmed((0, u32::from(version)), end);
            if version == 2 {
                cells.flushed(210);
            }
        }
        let left = |now, chance| left_of(&cells, now, chance);
        assert_eq!((left(99, true), left(100, false), left(100, true)), (None, None, Some(page(1))));
        assert_eq!((left(209, false), left(209, true)), (None, Some(page(2))));
        assert_eq!((left(210, false), left(210, true)), (Some(page(2)), Some(page(2))));
        assert_eq!((left(300, false), left(300, true)), (Some(page(2)), Some(page(3))));
        cells.fua(300, 7..8);
        assert_eq!(cells.survivors(300, || false), [(7, page(3))]);
        cells.written(7);
        cells.placed((1, 0), 7, page(4));
        cells.programmed((1, 0), 400);
        assert_eq!((left_of(&cells, 400, false), left_of(&cells, 400, true)), (Some(page(3)), Some(page(4))));
        cells.erased(0);
        assert_eq!(left_of(&cells, 400, false), Some(page(4)), "the one before it is gone");
        cells.discarded(7, false);
        assert_eq!((cells.survivors(400, || false).len(), cells.survivors(400, || true).len()), (0, 1));
        cells.discarded(7, true);
        assert!(cells.survivors(400, || true).is_empty(), "for good");
        cells.erased(1);
        assert!(cells.survivors(400, || true).is_empty());
    }
}
