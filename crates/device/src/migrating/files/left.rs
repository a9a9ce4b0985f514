//! Addresses that pages have left while the journal may still say that they are there.
//!
//! Kept true: an address is here from the moment at which its page moves or dies until a flush has ended that began
//! after that. Till then a kill or a power cut leads to a journal that finds the page at this address.

use std::collections::BTreeMap;

/// Addresses by the first block of their zone.
type ByZone = BTreeMap<u64, Vec<u64>>;

/// See the head of the file.
#[derive(Default)]
pub(super) struct Left {
    /// Left since the last flush began.
    since: ByZone,
    /// Left before that. The flush has not ended.
    before: ByZone,
}

impl Left {
    /// A page is no longer at a block of this zone.
    pub(super) fn add(&mut self, zone: u64, block: u64) {
        self.since.entry(zone).or_default().push(block);
    }

    /// Whether the journal may still find a page in this zone that has left it.
    pub(super) fn is_needed(&self, zone: u64) -> bool {
        let has_some = |zones: &ByZone| zones.contains_key(&zone);
        [&self.since, &self.before].into_iter().any(has_some) && !steadyfs_rt::mutated("left-zones-wait-for-a-flush")
    }

    /// A flush begins, or one that has failed begins again.
    pub(super) fn begin_flush(&mut self) {
        for (zone, blocks) in std::mem::take(&mut self.since) {
            self.before.entry(zone).or_default().extend(blocks);
        }
    }

    /// The flush has ended: takes the addresses that the journal needs no more, ascending and each once.
    pub(super) fn end_flush(&mut self) -> Vec<u64> {
        let mut over: Vec<u64> = std::mem::take(&mut self.before).into_values().flatten().collect();
        over.sort_unstable();
        over.dedup();
        over
    }
}
