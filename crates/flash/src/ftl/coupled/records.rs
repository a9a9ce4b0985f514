//! The records of [`Coupled`]: what the host hears, completes and asks for.

use super::Coupled;
use crate::media::Media;
use crate::units::Time;
use steadyfs_device::{Broken, MigrationGeometry, Step, UPCALL_RECORDS, Upcall};

impl Coupled {
    pub(crate) fn geometry(&self) -> MigrationGeometry {
        self.areas.clone()
    }

    /// Whether the device runs out of records.
    fn is_urgent(&self) -> bool {
        self.hurries || self.ledger.outstanding() * 2 >= self.shape.records as usize
    }

    /// A request is answered, and an upcall may ride on that.
    pub(crate) fn piggyback(&mut self) {
        let waiting = self.ledger.waiting();
        if waiting >= UPCALL_RECORDS || waiting > 0 && self.is_urgent() {
            self.due = waiting;
        }
    }

    /// Whether an upcall is there.
    pub(crate) fn has_upcall(&self) -> bool {
        self.ledger.unheard().is_some() || self.due > 0 && self.ledger.waiting() > 0 && self.ledger.may_move()
    }

    /// Whether a record waits to be delivered.
    pub(crate) fn has_waiting(&self) -> bool {
        self.ledger.waiting() > 0
    }

    /// Nothing has asked for what waits for a while.
    pub(crate) fn hurry(&mut self) {
        self.due = self.ledger.waiting();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// The next upcall, if there is one.
    pub(crate) fn upcall(&mut self) -> Option<Upcall> {
        if self.ledger.unheard().is_none() {
            let count = self.due.min(self.ledger.waiting()).min(UPCALL_RECORDS);
            if count == 0 || !self.ledger.may_move() {
                return None;
            }
            self.due -= count;
            self.take(Step::Deliver(count));
        }
        let mut upcall = self.ledger.unheard()?;
        upcall.urgent = self.is_urgent();
        self.take(Step::Hear(upcall.moves.len()));
        Some(upcall)
    }

    pub(crate) fn complete(&mut self, up_to: u64) -> Result<(), Broken> {
        self.ledger.take(Step::Complete(up_to))?;
        self.look_at_targets();
        Ok(())
    }

    pub(crate) fn resume(&mut self, media: &mut Media, now: Time, served: u64) -> Result<u64, Broken> {
        self.ledger.take(Step::Resume(served))?;
        self.leave_zones(media, now);
        (self.closed, self.due) = (false, 0);
        Ok(self.ledger.last_delivered())
    }

    pub(crate) fn completed(&self) -> u64 {
        self.ledger.completed()
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.ledger.last_delivered()
    }

    /// Delivers what waits.
    pub(crate) fn deliver(&mut self) -> u64 {
        let waiting = self.ledger.waiting();
        if self.ledger.may_move() && waiting > 0 {
            self.take(Step::Deliver(waiting));
        }
        self.ledger.last_delivered()
    }

    /// Collects, and delivers what waits.
    pub(crate) fn press(&mut self, media: &mut Media, now: Time) {
        self.collect_now(media, now);
        self.deliver();
    }

    /// Records that are not completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.ledger.outstanding()
    }

    /// Live pages of the regular and the GC area, ascending.
    pub(crate) fn held(&self) -> Vec<u64> {
        self.ledger.live().iter().copied().collect()
    }
}
