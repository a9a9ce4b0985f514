//! That a translation layer takes one file: this one, a ring of lines that are erased when nothing in them is valid.
//!
//! It has no collector, so it suits hosts that overwrite what they wrote in the order in which they wrote it. Nothing
//! else of the crate knows it: [`OwnLayer`] carries it.

use super::{Ftl, MakeLayer, Space};
use crate::media::Media;
use crate::nand::{Line, Nand, Source};
use crate::parameters::{Geometry, Layer, OwnLayer, Parameters, Preset};
use crate::stats::MapStats;
use crate::units::Time;
use crate::{EmulatedSsd, Stats};
use std::collections::VecDeque;
use steadyfs_device::{Device, PageBuf};
use steadyfs_rt::sim::{self, SimConfig};

/// Lines beside those that hold the capacity.
const SPARE: u64 = 3;

/// The layer's maker.
#[derive(Debug)]
struct MakeRing;

static RING: MakeRing = MakeRing;

impl MakeLayer for MakeRing {
    fn lines(&self, parameters: &Parameters, pages: u64) -> u64 {
        pages.div_ceil(u64::from(parameters.geometry.line_pages())) + SPARE
    }

    fn make(&self, parameters: &Parameters, pages: u64, lines: u32) -> Box<dyn Ftl> {
        let map = vec![None; pages as usize];
        let free = (1..lines).collect();
        Box::new(Ring { geometry: parameters.geometry, map, valid: vec![0; lines as usize], open: 0, written: 0, free })
    }
}

struct Ring {
    geometry: Geometry,
    /// Line and unit of each page.
    map: Vec<Option<(Line, u32)>>,
    /// Valid pages of each line.
    valid: Vec<u32>,
    open: Line,
    /// Pages of the open line that have their place, padding among them.
    written: u32,
    free: VecDeque<Line>,
}

impl Ring {
    fn forget(&mut self, page: u64) -> bool {
        let was = self.map[page as usize].take();
        was.iter().for_each(|(line, _)| self.valid[*line as usize] -= 1);
        was.is_some()
    }
}

impl Ftl for Ring {
    fn advance(&mut self, _media: &mut Media, _now: Time) {}

    fn next_due(&self) -> Option<Time> {
        None
    }

    fn make_room(&mut self, media: &mut Media, now: Time, _page: u64, _stream: usize) -> Result<(), Time> {
        if self.written < self.geometry.line_pages() {
            return Ok(());
        }
        if self.free.is_empty() {
            let is_dead = |line: &Line| *line != self.open && self.valid[*line as usize] == 0;
            let dead: Vec<Line> = (0..self.valid.len() as Line).filter(is_dead).collect();
            dead.iter().for_each(|line| media.erase(now, *line));
            self.free.extend(dead);
        }
        self.open = self.free.pop_front().ok_or(Time::MAX)?;
        self.written = 0;
        Ok(())
    }

    fn write(&mut self, media: &mut Media, now: Time, ready: Time, page: u64, _stream: usize) -> Option<Time> {
        self.forget(page);
        let (pages, at) = (self.geometry.unit_pages(), (self.open, self.written / self.geometry.unit_pages()));
        self.map[page as usize] = Some(at);
        self.valid[self.open as usize] += 1;
        self.written += 1;
        media.placed(at, page);
        self.written.is_multiple_of(pages).then(|| media.program(now, ready, at, Source::Host, pages))
    }

    fn locate(&self, page: u64) -> Option<(Line, u32)> {
        self.map[page as usize]
    }

    fn discard(&mut self, first: u64, count: u64, gone: &mut dyn FnMut(u64)) -> u64 {
        (first..first + count).filter(|page| self.forget(*page)).for_each(gone);
        count
    }

    fn next_mapped(&self, from: u64) -> Option<u64> {
        (from..self.map.len() as u64).find(|page| self.map[*page as usize].is_some())
    }

    fn flush(&mut self, media: &mut Media, now: Time, _stream: Option<usize>) -> Time {
        let pages = self.geometry.unit_pages();
        let waiting = self.written % pages;
        if waiting > 0 {
            let at = (self.open, self.written / pages);
            let _ = media.program(now, now, at, Source::Host, waiting);
            self.written += pages - waiting;
        }
        media.buffer.last_end()
    }

    fn wants_idle(&mut self) -> bool {
        false
    }

    fn idle(&mut self, _media: &mut Media, _now: Time) -> Option<Time> {
        None
    }

    fn restart(&mut self) {}

    fn space(&self, _nand: &Nand) -> Space {
        let line = u64::from(self.geometry.line_pages());
        let mapped = self.valid.iter().map(|valid| u64::from(*valid)).sum();
        let free = self.free.len() as u64 * line + line - u64::from(self.written);
        Space { mapped, invalid: self.valid.len() as u64 * line - mapped - free, free }
    }

    fn check(&self, _nand: &Nand, found: &mut Vec<String>) {
        let mapped = self.map.iter().flatten().count() as u64;
        let valid: u64 = self.valid.iter().map(|valid| u64::from(*valid)).sum();
        if mapped != valid {
            found.push(format!("{mapped} pages are mapped, lines have {valid}"));
        }
    }

    fn map(&self) -> MapStats {
        MapStats::constant(self.map.len() as u64 * 8)
    }
}

/// So many passes over the whole device in order, and what that did.
fn passes(passes: u64) -> (Stats, String) {
    let run = move || {
        let parameters = Preset::Samsung970Pro.parameters().with_smaller_blocks(64);
        let parameters = Parameters { layer: Layer::Own(OwnLayer(&RING)), ..parameters };
        let pages = 8 * u64::from(parameters.geometry.line_pages());
        let ssd = EmulatedSsd::new(parameters, pages * 4096).unwrap();
        let contents = |pass: u64, page: u64| PageBuf::from_slice(&[(pass * 7 + page % 251) as u8; 4096]);
        for pass in 0..passes {
            (0..pages).for_each(|page| ssd.write(page, vec![contents(pass, page)]).unwrap());
        }
        ssd.flush().unwrap();
        for page in 0..pages {
            assert_eq!(ssd.read_one(page).unwrap().to_array(), contents(passes - 1, page).to_array(), "page {page}");
        }
        (ssd.stats(), ssd.check().to_string())
    };
    sim::run(SimConfig::default(), run).unwrap().value
}

#[test]
fn a_translation_layer_takes_one_file() {
    let (once, _) = passes(1);
    let (often, checked) = passes(4);
    assert_eq!(once.lines_erased, 0);
    assert!(often.lines_erased >= 16, "{often:?}");
    assert_eq!((often.gc_programmed, often.space.mapped), (0, once.space.mapped), "{checked}");
    assert!(checked.contains("hold"), "{checked}");
}
