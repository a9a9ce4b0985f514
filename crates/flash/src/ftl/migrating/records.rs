//! The records of [`Migrating`]: what the host hears, completes and asks for.

use super::{COLLECTORS, Migrating, OPEN_ZONES};
use crate::media::Media;
use crate::units::Time;
use steadyfs_device::{Broken, MigrationGeometry, Step, UPCALL_RECORDS, Upcall};

impl Migrating {
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

    pub(crate) fn complete(&mut self, media: &mut Media, now: Time, up_to: u64) -> Result<(), Broken> {
        self.ledger.take(Step::Complete(up_to))?;
        self.look_at_targets();
        self.restore_room(media, now);
        Ok(())
    }

    /// Pages that fit the lines that are free, or will be without the host: less what the collector needs to go on, and
    /// a line for each zone that these pages may begin and not fill.
    pub(crate) fn room(&self) -> u64 {
        let kept = COLLECTORS as u64 + OPEN_ZONES;
        u64::from(self.collector.coming()).saturating_sub(kept) * u64::from(self.geometry.line_pages())
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

    /// The most of them at one time.
    pub(crate) fn most_records(&self) -> usize {
        self.most_records
    }

    /// Live pages of the regular and the GC area, ascending.
    pub(crate) fn held(&self) -> Vec<u64> {
        self.ledger.live().iter().copied().collect()
    }
}
