//! [`IntervalMap`]: the interval mapping of IPLFS (USENIX ATC 2022): a map of 2^60 pages that takes memory for those
//! that are mapped.
//!
//! Trees, each for a stretch of 2 TiB or one zone, are found by address. A tree is a root, zone nodes and map nodes
//! ([`tree`], [`node`]). Pages that were never written, or are no longer mapped, take nothing, but for those that share
//! a map node with mapped ones. So a node whose pages have all been written is compacted when part of them have been
//! discarded since. Compaction takes the firmware's time, in which nobody is served.
//!
//! It is the map that translates; memory is counted as a controller with 32-bit pointers and flash addresses would need
//! it, beside what the same nodes would take without compaction.

mod compact;
mod node;
mod tree;

use super::map::{Map, UNMAPPED};
use crate::parameters::Intervals;
use crate::stats::MapStats;
use crate::units::Time;
use compact::Compactor;
use node::MapNode;
use std::collections::BTreeMap;
use std::ops::Range;
use tree::Tree;

/// Pages of a tree, unless a zone has more: 2 TiB, as in the firmware.
const TREE_PAGES: u64 = 1 << 29;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct IntervalMap {
    shape: Intervals,
    /// Map nodes of a tree.
    tree_nodes: u64,
    trees: BTreeMap<u64, Tree>,
    compactor: Compactor,
    stats: MapStats,
}

impl IntervalMap {
    /// An empty map.
    pub(crate) fn new(shape: Intervals) -> Self {
        let zone_pages = u64::from(shape.node_pages) * u64::from(shape.zone_nodes);
        IntervalMap {
            shape,
            tree_nodes: u64::from(shape.zone_nodes) * (TREE_PAGES / zone_pages).max(1),
            trees: BTreeMap::new(),
            compactor: Compactor::new(&shape),
            stats: MapStats::default(),
        }
    }

    /// Map node, and offset in it, of a page.
    fn split(&self, page: u64) -> (u64, u32) {
        let pages = u64::from(self.shape.node_pages);
        (page / pages, (page % pages) as u32)
    }

    fn node(&self, number: u64) -> Option<&MapNode> {
        self.trees.get(&(number / self.tree_nodes))?.get(number)
    }

    /// Counts bytes that came, or went.
    fn count(&mut self, before: u64, after: u64, uncompacted: (u64, u64)) {
        let stats = &mut self.stats;
        stats.bytes = stats.bytes + after - before;
        stats.peak_bytes = stats.peak_bytes.max(stats.bytes);
        stats.uncompacted_bytes = stats.uncompacted_bytes + uncompacted.1 - uncompacted.0;
        stats.uncompacted_peak_bytes = stats.uncompacted_peak_bytes.max(stats.uncompacted_bytes);
    }

    /// A map node for a page that has none.
    fn make(&mut self, number: u64) {
        let (shape, tree) = (self.shape, number / self.tree_nodes);
        let known = self.trees.get(&tree).map_or(0, Tree::bytes);
        let tree = self.trees.entry(tree).or_insert_with(|| Tree::new(shape.zone_nodes));
        tree.insert(number, shape.node_pages);
        let (node, bytes) = (MapNode::full_bytes(shape.node_pages), tree.bytes());
        self.count(known, bytes + node, (known, bytes + node));
    }

    /// A map node without mapped pages goes.
    fn remove(&mut self, number: u64, node_bytes: u64) {
        let full = MapNode::full_bytes(self.shape.node_pages);
        let key = number / self.tree_nodes;
        let Some(tree) = self.trees.get_mut(&key) else { return };
        let before = tree.bytes();
        tree.remove(number);
        let mut after = tree.bytes();
        if tree.is_empty() {
            self.trees.remove(&key);
            after = 0;
        }
        self.compactor.forget(number);
        self.count(before + node_bytes, after, (before + full, after));
    }

    /// Compacts a map node, if that is worth it. Pages that were looked at.
    fn compact(&mut self, number: u64) -> u64 {
        let shape = self.shape;
        let Some(node) = self.trees.get_mut(&(number / self.tree_nodes)).and_then(|tree| tree.get_mut(number)) else {
            return 0;
        };
        let share = |part: u64, whole: u64, percent: u32| part * 100 <= whole * u64::from(percent);
        if node.written() < shape.node_pages
            || !share(u64::from(node.valid()), u64::from(shape.node_pages), shape.compaction.most_valid_percent)
        {
            return 0;
        }
        let (before, span) = (node.bytes(), u64::from(node.span()));
        let mut after = before;
        if let Some(plan) = node.plan(shape.smallest_hole)
            && share(plan.bytes(), before, shape.compaction.adopt_percent)
        {
            node.compact(&plan);
            after = node.bytes();
            self.stats.nodes_compacted += 1;
        }
        self.stats.nodes_scanned += 1;
        self.count(before, after, (0, 0));
        span
    }
}

impl Map for IntervalMap {
    type Page = u64;
    const NONE: u64 = u64::MAX;

    fn page(number: u64) -> u64 {
        number
    }

    fn number(page: u64) -> u64 {
        page
    }

    fn get(&self, page: u64) -> u32 {
        let (number, offset) = self.split(page);
        self.node(number).map_or(UNMAPPED, |node| node.get(offset))
    }

    fn set(&mut self, page: u64, at: u32) -> u32 {
        let (number, offset) = self.split(page);
        if self.node(number).is_none() {
            self.make(number);
        }
        let pages = self.shape.node_pages;
        let node = self.trees.get_mut(&(number / self.tree_nodes)).and_then(|tree| tree.get_mut(number));
        let node = node.unwrap_or_else(|| panic!("map node {number} has just been made"));
        let before = node.bytes();
        let old = node.set(offset, at, pages);
        let after = node.bytes();
        self.count(before, after, (0, 0));
        old
    }

    fn unset(&mut self, page: u64) -> u32 {
        let (number, offset) = self.split(page);
        let tree = self.trees.get_mut(&(number / self.tree_nodes));
        let Some(node) = tree.and_then(|tree| tree.get_mut(number)) else { return UNMAPPED };
        let old = node.unset(offset);
        let (valid, bytes) = (node.valid(), node.bytes());
        if valid == 0 {
            self.remove(number, bytes);
        } else if old != UNMAPPED {
            self.compactor.touch(number);
        }
        old
    }

    fn next(&self, range: Range<u64>) -> Option<u64> {
        let pages = u64::from(self.shape.node_pages);
        let (mut number, mut offset) = self.split(range.start);
        loop {
            let found = self.trees.range(number / self.tree_nodes..).find_map(|(_, tree)| tree.next(number));
            let (at, node) = found.filter(|&(at, _)| at * pages < range.end)?;
            if let Some(page) = node.next(if at == number { offset } else { 0 }) {
                return Some(at * pages + u64::from(page)).filter(|&page| page < range.end);
            }
            (number, offset) = (at + 1, 0);
        }
    }

    fn looked_at(&self, _count: u64, mapped: u64) -> u64 {
        mapped
    }

    fn stats(&self) -> MapStats {
        self.stats
    }

    fn advance(&mut self, now: Time) {
        while let Some(slice) = self.compactor.due(now) {
            let scanned = slice.iter().map(|&number| self.compact(number)).sum();
            let (stall, passes) = self.compactor.took(scanned);
            self.stats.stall_ns += stall;
            self.stats.longest_stall_ns = self.stats.longest_stall_ns.max(stall);
            self.stats.passes = passes;
            for &number in &slice {
                // Later writes may fill a node that is not full yet.
                let pages = self.shape.node_pages;
                if self.node(number).is_some_and(|node| node.written() < pages) {
                    self.compactor.touch(number);
                }
            }
        }
    }

    fn busy_until(&self) -> Time {
        self.compactor.busy_until()
    }

    fn restart(&mut self) {
        self.compactor.restart();
    }

    fn check(&self, found: &mut Vec<String>) {
        let full = MapNode::full_bytes(self.shape.node_pages);
        let (mut bytes, mut uncompacted) = (0, 0);
        for (key, tree) in &self.trees {
            bytes += tree.bytes();
            uncompacted += tree.bytes();
            let mut next = tree.next(key * self.tree_nodes);
            while let Some((number, node)) = next {
                node.check(number, found);
                bytes += node.bytes();
                uncompacted += full;
                if node.valid() == 0 || number / self.tree_nodes != *key {
                    found.push(format!("map node {number} with {} pages is in tree {key}", node.valid()));
                }
                next = tree.next(number + 1);
            }
        }
        if (bytes, uncompacted) != (self.stats.bytes, self.stats.uncompacted_bytes) {
            found.push(format!("the map has {bytes} bytes, {uncompacted} uncompacted, but counted {:?}", self.stats));
        }
    }
}

#[cfg(test)]
mod tests;
