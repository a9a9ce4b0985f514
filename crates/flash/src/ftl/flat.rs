//! [`FlatMap`]: an entry for every logical page, in the order of their numbers.

use super::map::{Map, UNMAPPED};
use crate::stats::MapStats;
use std::ops::Range;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct FlatMap {
    entries: Vec<u32>,
}

impl FlatMap {
    /// `pages` pages, none of them mapped.
    pub(crate) fn new(pages: u64) -> Self {
        assert!(pages < u64::from(UNMAPPED), "page numbers have 32 bits");
        FlatMap { entries: vec![UNMAPPED; pages as usize] }
    }
}

impl Map for FlatMap {
    type Page = u32;
    const NONE: u32 = UNMAPPED;

    fn page(number: u64) -> u32 {
        number as u32 // below the number of entries
    }

    fn number(page: u32) -> u64 {
        u64::from(page)
    }

    fn get(&self, page: u64) -> u32 {
        self.entries[page as usize]
    }

    fn set(&mut self, page: u64, at: u32) -> u32 {
        std::mem::replace(&mut self.entries[page as usize], at)
    }

    fn unset(&mut self, page: u64) -> u32 {
        self.set(page, UNMAPPED)
    }

    fn next(&self, range: Range<u64>) -> Option<u64> {
        let end = range.end.min(self.entries.len() as u64);
        let mapped = self.entries[range.start.min(end) as usize..end as usize].iter().position(|&at| at != UNMAPPED);
        mapped.map(|at| range.start + at as u64)
    }

    fn looked_at(&self, count: u64, _mapped: u64) -> u64 {
        count
    }

    fn stats(&self) -> MapStats {
        MapStats::constant(self.entries.len() as u64 * 4)
    }
}
