//! The seam [`Map`]: which page of the flash holds a logical page. Everything that collects is the same for all maps.

use crate::stats::MapStats;
use crate::units::Time;
use std::fmt::Debug;
use std::ops::Range;

/// No page in a map.
pub(crate) const UNMAPPED: u32 = u32::MAX;

/// A map of logical pages. Pages of the flash have 32 bits; logical ones as many as the reverse map keeps.
pub(crate) trait Map: Debug + Send {
    /// The number of a logical page in the reverse map.
    type Page: Copy + Debug + Eq + Send;

    /// No page in the reverse map.
    const NONE: Self::Page;

    /// A page's number for the reverse map.
    fn page(number: u64) -> Self::Page;

    /// The page's number again.
    fn number(page: Self::Page) -> u64;

    /// Where a page lies, or [`UNMAPPED`].
    fn get(&self, page: u64) -> u32;

    /// A page lies somewhere else now. Where it lay, or [`UNMAPPED`].
    fn set(&mut self, page: u64, at: u32) -> u32;

    /// A page lies nowhere now. Where it lay, or [`UNMAPPED`].
    fn unset(&mut self, page: u64) -> u32;

    /// The first page of a range that lies anywhere. Takes time in proportion to what is mapped, not to the range.
    fn next(&self, range: Range<u64>) -> Option<u64>;

    /// Entries that the firmware looks at to discard `count` pages, of which `mapped` were mapped.
    fn looked_at(&self, count: u64, mapped: u64) -> u64;

    /// What the map takes of the device's memory, and what its upkeep took.
    fn stats(&self) -> MapStats;

    /// Adds a line for every rule of its own that does not hold.
    fn check(&self, _found: &mut Vec<String>) {}

    /// Does the upkeep that is due.
    fn advance(&mut self, _now: Time) {}

    /// Until when the firmware is at that, and serves nobody.
    fn busy_until(&self) -> Time {
        0
    }

    /// Another run begins, with another clock.
    fn restart(&mut self) {}
}
