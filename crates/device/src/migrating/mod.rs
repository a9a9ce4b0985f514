//! Devices that move pages by themselves and tell the host (D2FS): what both sides promise.
//!
//! The blocks of such a device are three areas ([`MigrationGeometry`]). The *metadata* area is written in place. A zone
//! of the *regular* area is written once, in order, by the host. Zones of the *GC area* are written by the device: it
//! collects, and a live page gets an address there. A *record* says so: `from -> to`.
//!
//! A record is *waiting* until an upcall delivers it, then *delivered*, and gone when the host has *completed* it.
//! Delivered records have numbers, 1 and up, without a gap, and one numbering for the life of the device: power cuts
//! change neither records nor numbers. *Outstanding* is what is not completed.
//!
//! What the device promises:
//!
//! - **DI1**: a live page has one address.
//! - **DI2**: a copy and its record survive power cuts before the page at the old address may go.
//! - **DI3**: a read or a discard of `from` reaches the end of the chain that starts there, until the record is
//!   completed.
//! - **DI4**: no zone is bound again while an outstanding record has an end in it.
//! - **DI5**: records are delivered in their order, at least once. `A -> B` and `B -> C` become one record only while
//!   `A -> B` waits; it then is the last one.
//! - **DI6**: a discard of what holds nothing does nothing. A waiting record whose page is discarded vanishes, a
//!   delivered one stays.
//! - **DI7**: the number of outstanding records never exceeds its bound. Upcalls are urgent from half of the bound on.
//!   A device that may move nothing more still takes as many blocks as it said before ([`Migrations::room`]).
//! - **DI8**: from [`Migrations::resume`] on nothing moves until the host has completed all that this found. A call of
//!   [`Migrations::complete`] says so also where it found nothing.
//!
//! - **DI9**: pages of a GC zone are of one sort ([`Sort`]): nodes, or the rest. The hint of a write says which.
//! - **DI10**: a write that fails leaves nothing at its blocks. The regular zone takes no more writes until it begins
//!   again; those that follow fail, too. Where the error says nothing of the place ([`crate::IoError::is_passing`]),
//!   the zone goes on behind these blocks, and takes each of them later, unless the host discards it first.
//!
//! What the host promises:
//!
//! - It writes a regular zone in order, once (but see DI10), with pages of one sort. It begins again only when the zone
//!   holds nothing and no outstanding record has an end in it: once it has heard all that is
//!   [`Migrations::delivered`], it knows. It never writes to the GC area, and goes on with no zone that it wrote before
//!   the last [`Migrations::resume`].
//! - It completes a record when a checkpoint that contains its effect is durable and the discards of that checkpoint
//!   have ended. So [`Migrations::resume`] never names less than what was completed.
//! - The writes before it can complete are never more than the device's room: else the host waits for a device
//!   that waits for the host.
//! - It never discards an address from which outstanding records lead to a page that it needs. That is the `from` of
//!   each record that it applied. After a power cut it is also the `to` of a record that it does not apply: the page
//!   may have moved on, and the host may know it there already.
//!
//! [`AdversaryDevice`] keeps its side of this in the most inconvenient way, and panics when the host does not.

mod adversary;
pub(crate) mod files;
mod ledger;
#[cfg(test)]
mod tests;

pub use adversary::{Adversary, AdversaryDevice};
pub use ledger::{Broken, Ledger, Step};
pub(crate) use ledger::{Numbers, put};

use crate::StreamHint;
use std::ops::Range;

/// Most records of one upcall: 4 KiB of pairs of 8-byte addresses.
pub const UPCALL_RECORDS: usize = 256;

/// The areas of a device that moves pages, in blocks. They lie side by side: metadata, regular, GC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationGeometry {
    /// Blocks of a zone of the regular and the GC area. Both areas begin at a multiple and are whole zones.
    pub zone: u64,
    /// Written in place, anywhere.
    pub meta: Range<u64>,
    /// Written by the host.
    pub regular: Range<u64>,
    /// Written by the device.
    pub gc: Range<u64>,
    /// How many pages the regular and the GC area can hold together.
    pub capacity: u64,
}

impl MigrationGeometry {
    /// The zone of a block, named by its first block.
    pub fn zone_of(&self, block: u64) -> u64 {
        block - block % self.zone
    }

    /// Whether a block's page may be moved: it lies in the regular or the GC area.
    pub fn is_mapped(&self, block: u64) -> bool {
        self.regular.contains(&block) || self.gc.contains(&block)
    }

    /// The first thing that is wrong with it.
    pub fn fault(&self) -> Option<&'static str> {
        let areas = [&self.meta, &self.regular, &self.gc];
        let whole = |area: &Range<u64>| area.start.is_multiple_of(self.zone) && area.end.is_multiple_of(self.zone);
        if self.zone == 0 || areas.iter().any(|area| area.is_empty()) {
            return Some("an area or a zone is empty");
        }
        if self.meta.start != 0 || self.meta.end != self.regular.start || self.regular.end != self.gc.start {
            return Some("the areas do not lie side by side from block 0 on");
        }
        if !whole(&self.regular) || !whole(&self.gc) {
            return Some("an area is not made of whole zones");
        }
        (self.capacity == 0).then_some("it has no capacity")
    }
}

/// What file systems keep apart, also where the device writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// File data, and whatever else is no node.
    Data,
    /// Nodes.
    Node,
}

impl Sort {
    /// Of a write with this hint.
    pub fn of(hint: StreamHint) -> Self {
        match hint {
            StreamHint::NodeHot | StreamHint::NodeWarm | StreamHint::NodeCold => Sort::Node,
            _ => Sort::Data,
        }
    }
}

/// A page has a new address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Where it was.
    pub from: u64,
    /// Where it is.
    pub to: u64,
}

/// Records `first`, `first + 1`, and so on, at most [`UPCALL_RECORDS`] of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcall {
    /// Number of the first record.
    pub first: u64,
    /// The records, in their order; never none.
    pub moves: Vec<Move>,
    /// The device runs out of records: serve, commit and complete now.
    pub urgent: bool,
}

impl Upcall {
    /// Number of the last record.
    pub fn last(&self) -> u64 {
        self.first + self.moves.len() as u64 - 1
    }
}

/// The part of a device that moves pages by itself. See the head of the module for what both sides promise.
pub trait Migrations: Send + Sync {
    /// The areas. Do not change while the device is open.
    fn geometry(&self) -> MigrationGeometry;

    /// Waits for the next upcall. `None` once [`Migrations::close`] was called. Nothing is delivered before
    /// [`Migrations::resume`].
    fn next(&self) -> Option<Upcall>;

    /// The host has made the effect of all records up to number `up_to` durable, and their discards have ended.
    fn complete(&self, up_to: u64);

    /// Begins a session of a host whose checkpoint contains the effect of all records up to number `served`.
    /// Outstanding records are delivered, first those that were delivered before. Returns the number of the last of
    /// these records: once it is completed, the device goes on to move pages.
    fn resume(&self, served: u64) -> u64;

    /// Number of the last record that was completed.
    fn completed(&self) -> u64;

    /// Delivers what waits, without delay: the host is about to end, or needs room in the regular area. Returns the
    /// number of the last record that counts as delivered now, whether the host has heard of it or not.
    fn deliver(&self) -> u64;

    /// Number of the last record that counts as delivered, whether the host has heard of it or not. A zone that the
    /// host has emptied and discarded is named by no later one.
    fn delivered(&self) -> u64;

    /// Blocks that the device takes in any case before the host completes anything.
    fn room(&self) -> u64;

    /// Collects although there is flash left, and delivers what waits: the host needs room in the regular area.
    fn press(&self);

    /// Ends the session: [`Migrations::next`] returns `None` from here on.
    fn close(&self);
}
