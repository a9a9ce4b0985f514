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

use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::gate::admission::Admission;
use crate::stats::counters::Cause;
use crate::volume::infinite::{LogRoom, WORN_OUT};
use steadyfs_rt::{WaitCause, waiting_for};

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

/// Whether a change finds room for `blocks` blocks.
pub(super) fn has_room(fs: &Fs, blocks: u64) -> bool {
    short(fs, blocks).is_none()
}

fn short(fs: &Fs, blocks: u64) -> Option<Short> {
    // Every change asks: dirty nodes are added up only where an estimate does not suffice.
    short_for(fs, blocks, fs.vol.nodes.dirty_at_most())?;
    short_for(fs, blocks, fs.vol.nodes.dirty_count())
}

fn short_for(fs: &Fs, blocks: u64, dirty_nodes: usize) -> Option<Short> {
    let LogRoom { before_limit, before_end, dead, capacity } = fs.vol.placement.room()?;
    // A page of a directory takes its block, and may change the nodes above it.
    let dirty = dirty_nodes as u64 + 2 * fs.dirty_dir_pages();
    // What the device has refused may have to move.
    let refused = fs.vol.io.failed.count() as u64;
    let take = blocks + fs.admissions.blocks() + dirty + refused;
    let log = take + SPARE + dead / 128;
    let room = capacity.checked_sub(dead + take);
    match () {
        () if before_end < log => Some(Short::Log),
        () if before_limit < log => Some(Short::Limit),
        () if !room.is_some_and(|room| fs.vol.space.holds_at_most(room)) => Some(Short::Capacity),
        () => None,
    }
}

/// Waits until there is room for `blocks` blocks.
///
/// # Errors
/// `NoSpace`; that a log is used up; why a checkpoint failed.
pub(super) fn admit(fs: &Fs, blocks: u64) -> Result<Admission<'_>> {
    let mut rounds = 0;
    loop {
        if let Some(admission) = Admission::if_room(&fs.admissions, blocks, || has_room(fs, 0)) {
            return Ok(admission);
        }
        let _waiting = waiting_for(WaitCause::Room);
        fs.vol.check_writable()?;
        match short(fs, blocks) {
            None => continue,
            Some(Short::Log) if rounds > 0 => {
                tracing::error!(reason = WORN_OUT, "the volume stops taking changes");
                fs.vol.close(WORN_OUT);
                return Err(Error::ReadOnly(WORN_OUT.to_owned()));
            }
            Some(_) if rounds >= MOST_ROUNDS => return Err(Error::NoSpace),
            Some(_) => {}
        }
        rounds += 1;
        fs.checkpoint(Cause::Needed)?;
        while fs.vol.placement.has_queued_discards()
            && fs.vol.placement.discard_some(|| fs.vol.check_writable().is_ok()) > 0
        {}
        // The discarder may be at work on the rest.
        if let Some(under_way) = fs.vol.placement.discards_under_way() {
            under_way.wait_zero();
        }
        if !has_room(fs, blocks) {
            // Others may take less than they may, or be at work on discards.
            fs.admissions.wait_for_some();
        }
    }
}
