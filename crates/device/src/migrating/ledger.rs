//! What a device that moves pages remembers: which addresses hold a page, and the records. No locks, no contents, no
//! chance, no time.
//!
//! All of it survives power cuts, as the papers' devices keep it by capacitors. It is a function of its steps, so that
//! the state at any moment can be had again ([`Ledger::take`]).

mod saved;

pub(crate) use saved::{Numbers, put};

use super::{MigrationGeometry, Move, Sort, UPCALL_RECORDS, Upcall};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use thiserror::Error;

/// A promise that the host has broken.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Broken {
    /// A write to the device's own area.
    #[error("a write to block {0} of the GC area, which belongs to the device")]
    GcWrite(u64),
    /// A write that is not where its zone goes on.
    #[error("a write to block {at} of a zone whose next block is {next}")]
    OutOfOrder {
        /// Where.
        at: u64,
        /// Where it goes on.
        next: u64,
    },
    /// A zone that is not empty.
    #[error("zone {zone} is written anew while it holds {live} pages")]
    ZoneInUse {
        /// Its first block.
        zone: u64,
        /// Pages that it holds.
        live: u64,
    },
    /// A zone that records name.
    #[error("zone {zone} is written anew while {ends} outstanding records have an end in it")]
    ZoneNamed {
        /// Its first block.
        zone: u64,
        /// Ends of outstanding records in it.
        ends: u64,
    },
    /// Nodes among data, or data among nodes.
    #[error("block {0} is not of the sort that its zone holds")]
    Mixed(u64),
    /// More than the capacity.
    #[error("the regular and the GC area hold {0} pages, which is all they can")]
    Full(u64),
    /// Completes what was not delivered.
    #[error("record {up_to} is completed; the last one delivered is {delivered}")]
    CompletedUnheard {
        /// Number of the record.
        up_to: u64,
        /// Number of the last one delivered.
        delivered: u64,
    },
    /// A checkpoint lacks what was completed.
    #[error("the checkpoint has served up to record {served}, but {completed} was completed")]
    CompletedEarly {
        /// What the checkpoint contains.
        served: u64,
        /// The number up to which records were completed.
        completed: u64,
    },
    /// A checkpoint contains what was not delivered.
    #[error("the checkpoint has served up to record {served}; the last one delivered is {delivered}")]
    ServedUnheard {
        /// What the checkpoint contains.
        served: u64,
        /// Number of the last one delivered.
        delivered: u64,
    },
}

/// What changes a ledger.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// The host wrote a block of the regular area.
    Write(u64, Sort),
    /// A write of a block of the regular area failed, for its place is bad.
    Refused(u64),
    /// A write of a block of the regular area failed, and nothing is wrong with its place.
    Unwritten(u64),
    /// The host discarded a block of the regular or the GC area.
    Discard(u64),
    /// A page was copied, and lives at its new address.
    Moved(Move),
    /// This many records were delivered for the first time.
    Deliver(usize),
    /// The session heard of this many of the delivered records.
    Hear(usize),
    /// The host completed all records up to this one.
    Complete(u64),
    /// The host began a session, with all records up to this one in its checkpoint.
    Resume(u64),
}

#[derive(Debug, Clone, Default)]
struct Zone {
    /// Blocks written since it was bound.
    written: u64,
    /// Pages that it holds.
    live: u64,
    /// Ends of outstanding records in it.
    ends: u64,
    /// It takes no more before it begins again: it has refused a write.
    over: bool,
    /// Blocks that may be written though it has gone on behind them.
    gaps: BTreeSet<u64>,
    /// The sort of its pages; of a zone without pages, the sort that it held.
    sort: Option<Sort>,
}

/// See the head of the module.
#[derive(Debug, Clone)]
pub struct Ledger {
    geometry: MigrationGeometry,
    /// Addresses that hold a page.
    live: BTreeSet<u64>,
    zones: BTreeMap<u64, Zone>,
    /// Not delivered yet, in their order.
    waiting: VecDeque<Move>,
    /// Delivered and not completed, in their order.
    delivered: VecDeque<Move>,
    /// Number of the last record that was completed.
    completed: u64,
    /// How many of `delivered` the present session has heard of.
    heard: usize,
    /// Where outstanding records lead.
    leads: HashMap<u64, u64>,
    /// The last record that must be completed before pages move; `None` until a session begins.
    gate: Option<u64>,
    /// The host has completed something in this session, be it nothing new.
    begun: bool,
}

impl Ledger {
    /// A device that holds nothing.
    pub fn new(geometry: MigrationGeometry) -> Self {
        Ledger {
            geometry,
            live: BTreeSet::new(),
            zones: BTreeMap::new(),
            waiting: VecDeque::new(),
            delivered: VecDeque::new(),
            completed: 0,
            heard: 0,
            leads: HashMap::new(),
            gate: None,
            begun: false,
        }
    }

    /// After a power cut: no session.
    #[must_use]
    pub fn cut(mut self) -> Self {
        (self.heard, self.gate, self.begun) = (0, None, false);
        self
    }

    /// Changes by a step.
    ///
    /// # Errors
    /// A promise that the host breaks by it.
    pub fn take(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Write(block, sort) => return self.write(block, sort),
            Step::Refused(block) => self.refused(block),
            Step::Unwritten(block) => self.unwritten(block),
            Step::Discard(block) => self.discard(block),
            Step::Moved(record) => self.moved(record),
            Step::Deliver(count) => self.deliver(count),
            Step::Hear(count) => self.heard += count,
            Step::Complete(up_to) => return self.complete(up_to),
            Step::Resume(served) => return self.resume(served),
        }
        Ok(())
    }

    /// The areas.
    pub fn geometry(&self) -> &MigrationGeometry {
        &self.geometry
    }

    /// Addresses that hold a page, ascending.
    pub fn live(&self) -> &BTreeSet<u64> {
        &self.live
    }

    /// Whether a write of this block fails because its zone has refused an earlier one.
    pub fn refuses(&self, block: u64) -> bool {
        let start = self.geometry.zone_of(block);
        block != start && self.zones.get(&start).is_some_and(|zone| zone.over)
    }

    /// Whether a write of this block has failed for no fault of its place, and may come again.
    pub fn is_gap(&self, block: u64) -> bool {
        self.zones.get(&self.geometry.zone_of(block)).is_some_and(|zone| zone.gaps.contains(&block))
    }

    /// Where the page that was written to this address is now; `None` if it is gone.
    pub fn resolve(&self, mut block: u64) -> Option<u64> {
        while let Some(&to) = self.leads.get(&block) {
            block = to;
        }
        self.live.contains(&block).then_some(block)
    }

    /// Records that are not completed.
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + self.delivered.len()
    }

    /// Records that no upcall has delivered.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a session has begun, and the device may move pages in it.
    pub fn may_move(&self) -> bool {
        self.begun && self.gate.is_some_and(|gate| self.completed >= gate)
    }

    /// Number of the last record that was completed.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Number of the last record that was delivered.
    pub fn last_delivered(&self) -> u64 {
        self.completed + self.delivered.len() as u64
    }

    /// Delivered records that the session has not heard of, as an upcall.
    pub fn unheard(&self) -> Option<Upcall> {
        self.gate?;
        let moves: Vec<Move> = self.delivered.iter().skip(self.heard).take(UPCALL_RECORDS).copied().collect();
        let first = self.completed + self.heard as u64 + 1;
        (!moves.is_empty()).then_some(Upcall { first, moves, urgent: false })
    }

    /// Whether a zone holds nothing and no outstanding record names it.
    pub fn is_free(&self, zone: u64) -> bool {
        self.zones.get(&zone).is_none_or(|zone| zone.live == 0 && zone.ends == 0)
    }

    /// What the zone of a page holds.
    pub fn sort_of(&self, page: u64) -> Sort {
        self.zones.get(&self.geometry.zone_of(page)).and_then(|zone| zone.sort).unwrap_or(Sort::Data)
    }

    /// Whether an address holds a page.
    pub fn is_live(&self, block: u64) -> bool {
        self.live.contains(&block)
    }

    /// How many pages a zone holds.
    pub fn live_in(&self, zone: u64) -> u64 {
        self.zones.get(&zone).map_or(0, |zone| zone.live)
    }

    /// Whether the host has written all of a zone.
    pub fn is_full(&self, zone: u64) -> bool {
        self.zones.get(&zone).is_some_and(|found| found.written == self.geometry.zone)
    }

    fn zone(&mut self, block: u64) -> &mut Zone {
        self.zones.entry(self.geometry.zone_of(block)).or_default()
    }

    fn refused(&mut self, block: u64) {
        if self.live.remove(&block) {
            self.zone(block).live -= 1;
        }
        self.zone(block).over = true;
    }

    fn unwritten(&mut self, block: u64) {
        if self.live.remove(&block) {
            let zone = self.zone(block);
            zone.live -= 1;
            zone.gaps.insert(block);
        }
    }

    fn write(&mut self, block: u64, sort: Sort) -> Result<(), Broken> {
        if self.geometry.gc.contains(&block) {
            return Err(Broken::GcWrite(block));
        }
        if self.live.len() as u64 >= self.geometry.capacity {
            return Err(Broken::Full(self.live.len() as u64));
        }
        let (start, size) = (self.geometry.zone_of(block), self.geometry.zone);
        let zone = self.zone(block);
        let is_gap = zone.gaps.contains(&block);
        // Of a zone that was written to its end, and holds nothing, nobody knows whether it begins again or gets the
        // first of its gaps: its blocks may come in either way.
        let may_begin = zone.written == size && zone.live == 0 && zone.ends == 0;
        if block == start && (!is_gap || may_begin) {
            match *zone {
                Zone { live, .. } if live > 0 => return Err(Broken::ZoneInUse { zone: start, live }),
                Zone { ends, .. } if ends > 0 => return Err(Broken::ZoneNamed { zone: start, ends }),
                _ => (zone.written, zone.over, zone.sort) = (0, false, Some(sort)),
            }
            zone.gaps.retain(|_| is_gap);
        }
        if block != start + zone.written && !is_gap {
            return Err(Broken::OutOfOrder { at: block, next: start + zone.written });
        }
        if zone.sort != Some(sort) {
            return Err(Broken::Mixed(block));
        }
        zone.gaps.remove(&block);
        zone.written += u64::from(block == start + zone.written);
        zone.live += 1;
        assert!(self.live.insert(block), "a block of an empty zone holds nothing");
        Ok(())
    }

    fn discard(&mut self, block: u64) {
        let Some(page) = self.resolve(block) else {
            if self.is_gap(block) {
                self.zone(block).gaps.remove(&block);
            }
            return;
        };
        self.live.remove(&page);
        self.zone(page).live -= 1;
        if let Some(at) = self.waiting.iter().position(|record| record.to == page)
            && let Some(gone) = self.waiting.remove(at)
        {
            self.forget(gone);
        }
    }

    fn moved(&mut self, Move { mut from, to }: Move) {
        assert!(self.live.remove(&from) && self.live.insert(to), "a live page moves to where nothing is");
        let sort = self.sort_of(from);
        self.zone(from).live -= 1;
        let zone = self.zone(to);
        assert!(zone.live == 0 || zone.sort == Some(sort), "a page moves to a zone of another sort");
        zone.sort = Some(sort);
        zone.live += 1;
        if let Some(at) = self.waiting.iter().position(|record| record.to == from)
            && let Some(merged) = self.waiting.remove(at)
        {
            self.forget(merged);
            from = merged.from;
        }
        self.waiting.push_back(Move { from, to });
        assert!(self.leads.insert(from, to).is_none(), "an address is left once");
        self.zone(from).ends += 1;
        self.zone(to).ends += 1;
    }

    /// A record is outstanding no more.
    fn forget(&mut self, record: Move) {
        assert_eq!(self.leads.remove(&record.from), Some(record.to), "an outstanding record leads on");
        self.zone(record.from).ends -= 1;
        self.zone(record.to).ends -= 1;
    }

    fn deliver(&mut self, count: usize) {
        assert!(count <= self.waiting.len());
        self.delivered.extend(self.waiting.drain(..count));
    }

    fn complete(&mut self, up_to: u64) -> Result<(), Broken> {
        let heard = self.completed + self.heard as u64;
        if up_to > heard {
            return Err(Broken::CompletedUnheard { up_to, delivered: heard });
        }
        while self.completed < up_to
            && let Some(record) = self.delivered.pop_front()
        {
            self.forget(record);
            self.completed += 1;
            self.heard -= 1;
        }
        self.begun = true;
        Ok(())
    }

    fn resume(&mut self, served: u64) -> Result<(), Broken> {
        let delivered = self.last_delivered();
        if served < self.completed {
            return Err(Broken::CompletedEarly { served, completed: self.completed });
        }
        if served > delivered {
            return Err(Broken::ServedUnheard { served, delivered });
        }
        self.deliver(self.waiting.len());
        // What the last session was writing goes no further.
        for zone in self.zones.values_mut() {
            zone.written = if zone.written > 0 { self.geometry.zone } else { 0 };
            zone.gaps.clear();
        }
        (self.heard, self.begun) = (0, false);
        self.gate = Some(self.last_delivered());
        Ok(())
    }
}
