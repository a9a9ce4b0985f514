//! [`Tree`]: map nodes below zone nodes below a root, for one stretch of addresses.
//!
//! The root has pointers for the zones from its first one to its last one that was ever needed (the mapping interval).
//! What lies before the first zone in use falls away when the root grows, so a log that moves on takes its root along.
//! A zone node has pointers for all its map nodes. It goes when all of them have been, and are gone.

use super::node::MapNode;
use std::collections::VecDeque;

/// Bytes of a pointer in the controller.
const POINTER: u64 = 4;
/// Bytes of a zone node beside its pointers: two counts.
const ZONE_HEADER: u64 = 8;
/// Bytes of a root beside its pointers: bias, size, and both ends of the interval and of its active part.
const ROOT_HEADER: u64 = 40;
/// Roots that are shorter double, others grow by [`STEP`].
const DOUBLING: u64 = 1024;
const STEP: u64 = 16;

/// The place of a map node.
#[derive(Debug)]
enum Child {
    Never,
    Live(Box<MapNode>),
    Gone,
}

#[derive(Debug)]
struct ZoneNode {
    children: Vec<Child>,
    /// Places that had a node at some time.
    used: u32,
    live: u32,
}

impl ZoneNode {
    fn new(places: u32) -> Self {
        ZoneNode { children: (0..places).map(|_| Child::Never).collect(), used: 0, live: 0 }
    }

    fn bytes(places: u32) -> u64 {
        ZONE_HEADER + u64::from(places) * POINTER
    }
}

/// See the head of the module. Zones and nodes have the numbers that follow from their addresses.
#[derive(Debug)]
pub(super) struct Tree {
    /// Map nodes of a zone.
    places: u32,
    /// Number of the first zone that the root points to.
    bias: u64,
    zones: VecDeque<Option<Box<ZoneNode>>>,
    /// Pointers that the root has room for.
    size: u64,
    /// Zone nodes.
    live: u64,
}

impl Tree {
    pub(super) fn new(places: u32) -> Self {
        Tree { places, bias: 0, zones: VecDeque::new(), size: 0, live: 0 }
    }

    /// Bytes of root and zone nodes.
    pub(super) fn bytes(&self) -> u64 {
        ROOT_HEADER + self.size * POINTER + self.live * ZoneNode::bytes(self.places)
    }

    /// Nothing is left of it but the root.
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn split(&self, node: u64) -> (u64, usize) {
        let places = u64::from(self.places);
        (node / places, (node % places) as usize)
    }

    /// A map node.
    pub(super) fn get(&self, node: u64) -> Option<&MapNode> {
        let (zone, place) = self.split(node);
        let zone = self.zones.get(usize::try_from(zone.checked_sub(self.bias)?).ok()?)?.as_ref()?;
        match &zone.children[place] {
            Child::Live(node) => Some(node),
            _ => None,
        }
    }

    /// A map node, to be changed.
    pub(super) fn get_mut(&mut self, node: u64) -> Option<&mut MapNode> {
        let (zone, place) = self.split(node);
        let zone = self.zones.get_mut(usize::try_from(zone.checked_sub(self.bias)?).ok()?)?.as_mut()?;
        match &mut zone.children[place] {
            Child::Live(node) => Some(node),
            _ => None,
        }
    }

    /// A map node that is not there, made.
    pub(super) fn insert(&mut self, node: u64, pages: u32) -> &mut MapNode {
        let (zone, place) = self.split(node);
        self.reach(zone);
        let (places, at) = (self.places, (zone - self.bias) as usize);
        if self.zones[at].is_none() {
            self.live += 1;
        }
        let zone = self.zones[at].get_or_insert_with(|| Box::new(ZoneNode::new(places)));
        if matches!(zone.children[place], Child::Never) {
            zone.used += 1;
        }
        zone.live += 1;
        zone.children[place] = Child::Live(Box::new(MapNode::new(pages)));
        match &mut zone.children[place] {
            Child::Live(node) => node,
            _ => unreachable!("it has just been made"),
        }
    }

    /// Makes the root reach a zone.
    fn reach(&mut self, zone: u64) {
        if self.zones.is_empty() {
            self.bias = zone;
        }
        while zone < self.bias {
            self.zones.push_front(None);
            self.bias -= 1;
        }
        if zone - self.bias < self.zones.len() as u64 && self.zones.len() as u64 <= self.size {
            return;
        }
        if zone - self.bias >= self.size {
            while self.zones.front().is_some_and(Option::is_none) {
                self.zones.pop_front();
                self.bias += 1;
            }
            if self.zones.is_empty() {
                self.bias = zone;
            }
        }
        while zone - self.bias >= self.zones.len() as u64 {
            self.zones.push_back(None);
        }
        let length = self.zones.len() as u64;
        if length > self.size {
            self.size = if length < DOUBLING { 2 * length } else { length + STEP };
        }
    }

    /// A map node without mapped pages goes, and its zone if that has had all of its.
    pub(super) fn remove(&mut self, node: u64) {
        let (number, place) = self.split(node);
        let at = (number - self.bias) as usize;
        let Some(zone) = &mut self.zones[at] else { return };
        zone.children[place] = Child::Gone;
        zone.live -= 1;
        if zone.live == 0 && zone.used == self.places {
            self.zones[at] = None;
            self.live -= 1;
        }
    }

    /// The first map node from this one on, with its number.
    pub(super) fn next(&self, node: u64) -> Option<(u64, &MapNode)> {
        let places = u64::from(self.places);
        let mut from = node.max(self.bias * places);
        while from / places - self.bias < self.zones.len() as u64 {
            let number = from / places;
            if let Some(zone) = self.zones[(number - self.bias) as usize].as_ref().filter(|zone| zone.live > 0) {
                for place in (from % places) as usize..zone.children.len() {
                    if let Child::Live(node) = &zone.children[place] {
                        return Some((number * places + place as u64, node));
                    }
                }
            }
            from = (number + 1) * places;
        }
        None
    }
}
