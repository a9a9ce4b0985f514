//! [`Compactor`]: when map nodes are looked at, and how long the firmware is away with that.
//!
//! Every period a pass takes the nodes in which pages have been discarded since they were last looked at. The firmware
//! works on a pass in slices of a number of nodes, serves nobody during a slice, and the host for as long again after
//! it. A pass in one slice is the stop of the whole device that IPLFS' emulator has; slices of one node are what the
//! firmware of the paper's prototype does.

use crate::parameters::Intervals;
use crate::units::{Time, nanos};
use std::collections::BTreeSet;

/// Pages of which the parameter gives the time.
const SCAN_UNIT: u64 = 1 << 20;

/// See the head of the module.
#[derive(Debug)]
pub(super) struct Compactor {
    period: Time,
    /// Nodes of a slice; 0 for all.
    slice: usize,
    /// Nanoseconds for [`SCAN_UNIT`] pages.
    scan: u64,
    dirty: BTreeSet<u64>,
    /// The rest of the pass.
    pass: BTreeSet<u64>,
    /// When the next pass, and the next slice, begins.
    next_pass: Time,
    next_slice: Time,
    busy_until: Time,
    passes: u64,
}

impl Compactor {
    pub(super) fn new(shape: &Intervals) -> Self {
        let period = nanos(shape.compaction.period);
        Compactor {
            period,
            slice: shape.compaction.slice_nodes as usize,
            scan: nanos(shape.compaction.scan),
            dirty: BTreeSet::new(),
            pass: BTreeSet::new(),
            next_pass: period,
            next_slice: 0,
            busy_until: 0,
            passes: 0,
        }
    }

    /// Pages of a node were discarded.
    pub(super) fn touch(&mut self, node: u64) {
        if self.period > 0 {
            self.dirty.insert(node);
        }
    }

    /// A node is gone.
    pub(super) fn forget(&mut self, node: u64) {
        self.dirty.remove(&node);
        self.pass.remove(&node);
    }

    /// The nodes of a slice that is due; [`Compactor::took`] follows.
    pub(super) fn due(&mut self, now: Time) -> Option<Vec<u64>> {
        if self.period == 0 {
            return None;
        }
        if self.pass.is_empty() {
            if now < self.next_pass {
                return None;
            }
            if self.dirty.is_empty() {
                self.next_pass = (now / self.period).saturating_add(1).saturating_mul(self.period);
                return None;
            }
            self.pass = std::mem::take(&mut self.dirty);
            self.passes += 1;
            self.next_slice = self.next_pass.max(self.busy_until);
            self.next_pass = self.next_pass.saturating_add(self.period);
        }
        if now < self.next_slice {
            return None;
        }
        let nodes = if self.slice == 0 { self.pass.len() } else { self.slice };
        Some((0..nodes).map_while(|_| self.pass.pop_first()).collect())
    }

    /// The slice looked at `pages` pages. How long the firmware was away, and the passes so far.
    pub(super) fn took(&mut self, pages: u64) -> (u64, u64) {
        let stall = (u128::from(pages) * u128::from(self.scan) / u128::from(SCAN_UNIT)) as u64;
        if stall > 0 {
            self.busy_until = self.next_slice.saturating_add(stall);
        }
        self.next_slice = self.next_slice.saturating_add(2 * stall);
        if self.pass.is_empty() {
            self.next_pass = self.next_pass.max(self.next_slice);
        }
        (stall, self.passes)
    }

    /// Until when the firmware is away.
    pub(super) fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Another run begins. A pass that was under way goes on at its begin.
    pub(super) fn restart(&mut self) {
        self.dirty.append(&mut self.pass);
        (self.next_pass, self.next_slice, self.busy_until) = (self.period, 0, 0);
    }
}
