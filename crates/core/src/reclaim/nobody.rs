//! Nobody collects: the gate of volumes whose logs never come back to a place.
//!
//! A change passes if its log can take its blocks before the limit of the checkpoint in force, and if the device may
//! hold them. It may while valid blocks, dead ones not yet discarded, and those of changes that have passed are no more
//! than its capacity. A checkpoint moves the limits on and lets dead blocks be discarded; the gate makes one, and
//! discards, where that helps.
//!
//! Kept true: what a checkpoint writes fits before the limits, for the gate counts dirty nodes and directory pages. A
//! log that has used up its stretch is told here and nowhere else: everything is made durable, and then the volume
//! takes no more changes.

use crate::counters::Cause;
use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::files::pages::Budget;
use crate::gate::Headroom;
use crate::gate::admission::Admissions;
use crate::volume::Volume;
use crate::volume::infinite::{LogRoom, WORN_OUT};
use std::sync::Arc;

/// Blocks that are left in each log for the discard log, and for nodes that become dirty in between.
const SPARE: u64 = 64;
/// Checkpoints that one change asks for before it is told that there is no room. Others may have taken what each made.
const MOST_ROUNDS: u32 = 8;

/// The shortage in the way of a change.
enum Short {
    /// A log has no more room before the limit.
    Limit,
    /// A log has no more room at all.
    Log,
    /// The device would hold too much.
    Capacity,
}

/// Room where nobody collects: the state of a mounted volume.
pub(crate) struct NoReclaim {
    vol: Arc<Volume>,
    /// Its dirty pages of directories are written by the next checkpoint.
    budget: Budget,
    admissions: Arc<Admissions>,
}

impl Headroom for NoReclaim {
    fn has_room(&self) -> bool {
        self.short(0).is_none()
    }
}

impl NoReclaim {
    pub(super) fn new(vol: &Arc<Volume>, budget: &Budget) -> Self {
        NoReclaim { vol: Arc::clone(vol), budget: budget.clone(), admissions: Arc::new(Admissions::new(None)) }
    }

    /// Changes that have passed the gate.
    pub(super) fn admissions(&self) -> &Arc<Admissions> {
        &self.admissions
    }

    /// The shortage in the way of a change that takes `blocks` blocks.
    fn short(&self, blocks: u64) -> Option<Short> {
        // Every change asks: dirty nodes are added up only where an estimate does not suffice.
        self.short_for(blocks, self.vol.nodes.dirty_at_most())?;
        self.short_for(blocks, self.vol.nodes.dirty_count())
    }

    fn short_for(&self, blocks: u64, dirty_nodes: usize) -> Option<Short> {
        let LogRoom { before_limit, before_end, dead, capacity } = self.vol.placement.room()?;
        // A page of a directory takes its block, and may change the nodes above it.
        let dirty = dirty_nodes as u64 + 2 * self.budget.dirty_in_dirs();
        // What the device has refused may have to move.
        let refused = self.vol.io.failed.count() as u64;
        let take = blocks + self.admissions.blocks() + dirty + refused;
        let log = take + SPARE + dead / 128;
        let room = capacity.checked_sub(dead + take);
        match () {
            () if before_end < log => Some(Short::Log),
            () if before_limit < log => Some(Short::Limit),
            () if !room.is_some_and(|room| self.vol.space.holds_at_most(room)) => Some(Short::Capacity),
            () => None,
        }
    }

    /// Makes some room for `blocks` blocks.
    ///
    /// # Errors
    /// `NoSpace`; that a log is used up; why a checkpoint failed.
    pub(super) fn more_room(&self, durable: &Durable, blocks: u64, rounds: &mut u32) -> Result<()> {
        match self.short(blocks) {
            None => return Ok(()),
            Some(Short::Log) if *rounds > 0 => {
                tracing::error!(reason = WORN_OUT, "the volume stops taking changes");
                self.vol.close(WORN_OUT);
                return Err(Error::ReadOnly(WORN_OUT.to_owned()));
            }
            Some(_) if *rounds >= MOST_ROUNDS => return Err(Error::NoSpace),
            Some(_) => {}
        }
        *rounds += 1;
        assert!(*rounds <= MOST_ROUNDS, "a change asks for {rounds} checkpoints");
        durable.checkpoint(Cause::Needed)?;
        while self.vol.placement.has_queued_discards()
            && self.vol.placement.discard_some(|| self.vol.check_writable().is_ok()) > 0
        {}
        // The discarder may be at work on the rest.
        if let Some(under_way) = self.vol.placement.discards_under_way() {
            under_way.wait_zero();
        }
        if self.short(blocks).is_some() {
            // Others may take less than they may, or be at work on discards.
            self.admissions.wait_for_some();
        }
        Ok(())
    }
}
