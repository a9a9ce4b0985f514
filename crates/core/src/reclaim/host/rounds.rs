//! Rounds of collection in the thread of a caller: of a writer who finds no room, or of somebody who asks for it.
//!
//! Kept true: one caller collects at a time, and each looks for room again first; a round that gains nothing ends; a
//! device that refuses a round fails nobody for whom there is room without it.

use super::HostReclaim;
use super::cleaner::clean_part;
use super::pool::Pool;
use super::room::HOPELESS_ROUNDS;
use crate::canary::Canary;
use crate::counters::Cause;
use crate::error::{Error, Result};
use crate::gate::admission::{Admission, Admissions};
use crate::reclaim::Reclaim;
use crate::reclaim::live::Asking;
use crate::reclaim::report::{GcReport, Urgency};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_format::Log;
use steadyfs_rt::{WaitCause, waiting_for};

impl HostReclaim {
    /// Starts the collectors of a writable volume.
    pub(in crate::reclaim) fn start(&self, reclaim: &Arc<Reclaim>) {
        if let Some(pool) = &self.pool {
            pool.start(reclaim);
        }
        if let Some(crew) = &self.single.crew {
            let weak = Arc::downgrade(reclaim);
            crew.start(move |seg, summary, offsets, asking| match weak.upgrade() {
                Some(reclaim) => clean_part(&reclaim.files, &reclaim.host().memory, seg, summary, offsets, asking),
                None => Ok(GcReport::default()),
            });
        }
    }
}

impl Reclaim {
    /// Waits until there is room for `blocks` blocks, collecting if need be. No node lock is held.
    ///
    /// # Errors
    /// `NoSpace`, or why collection failed.
    pub(in crate::reclaim) fn collect_for<'a>(&self, admissions: &'a Admissions, blocks: u64) -> Result<Admission<'a>> {
        let _waiting = waiting_for(WaitCause::Room);
        let host = self.host();
        if let Some(pool) = &host.pool
            && let Some(admission) = pool.wait_for_room(host, admissions, blocks)?
        {
            return Ok(admission);
        }
        self.collect_alone()?;
        Ok(Admission::new(admissions, blocks))
    }

    /// Collects in the caller's thread until there is room; one caller at a time.
    fn collect_alone(&self) -> Result<()> {
        self.host().waiting.fetch_add(1, Relaxed);
        let _serial = self.host().serial.lock();
        let waited = self.host().waiting.fetch_sub(1, Relaxed);
        assert!(waited > 0, "more have stopped waiting to collect than waited");
        if self.host().writers_have_room() && !self.vol.io.planted.is(Canary::Herd) {
            return Ok(());
        }
        let began = steadyfs_rt::now();
        // Collectors could not do it: what is free in the segments that they have open is all the more needed.
        self.vol.segments().close_streams(&self.vol.begin_change()?);
        let outcome = self.collect_patiently().or_else(|error| self.go_on_without(error));
        self.host().note_round(began.elapsed());
        outcome
    }

    /// The device refused what was to make room. Where the volume goes on, the next caller tries again, and this one
    /// gets through if that leaves room for the logs and a checkpoint: it asked for room, and not to make anything
    /// durable.
    fn go_on_without(&self, error: Error) -> Result<()> {
        self.vol.check_writable()?;
        if !matches!(error, Error::Io(_)) || self.settle_for_less().is_err() {
            return Err(error);
        }
        tracing::warn!(%error, "room could not be made; a change takes of what is kept for checkpoints");
        Ok(())
    }

    /// Collects, and says that there is no room only if nobody else makes some. Collectors that others have called have
    /// queued victims, which a search does not find then. They may empty sections beside the last checkpoint of this
    /// round. Writers who have passed may take less than they may.
    pub(super) fn collect_patiently(&self) -> Result<()> {
        for _ in 0..HOPELESS_ROUNDS {
            let outcome = self.collect_until_enough();
            if !matches!(outcome, Err(Error::NoSpace)) {
                return outcome;
            }
            let others_placed = self.host().admissions.wait_for_some();
            let others_worked = self.host().pool.as_ref().is_some_and(Pool::wait_for_pause);
            if !others_placed && !others_worked && self.vol.sections_awaiting() == 0 {
                return outcome;
            }
        }
        self.collect_until_enough()
    }

    /// The foreground round: collects until the free sections suffice, or nothing more can be gained.
    fn collect_until_enough(&self) -> Result<()> {
        let (mut hopeless, mut logs_open) = (0, true);
        // So that the next writers pass without collecting.
        let ahead = self.host().hysteresis;
        while !self.host().free_sections_suffice(ahead) {
            let before = self.vol.sections_to_come();
            let enough_to_come = self.host().checkpoint_frees_enough(ahead);
            if enough_to_come || self.host().room_is_critical() {
                self.gc_checkpoint(if enough_to_come { Cause::Needed } else { Cause::Critical })?;
                if self.host().free_sections_suffice(ahead) {
                    return Ok(());
                }
            }
            // The caller may hold what would have to move.
            let asking = if hopeless == 0 { Asking::Yes } else { Asking::No };
            let single = &self.host().single;
            let round = single.collect_one(self, Urgency::Foreground, asking, &self.host().alone)?;
            let found = round.is_some();
            if let Some(report) = round {
                self.host().totals.lock().add(report);
            }
            let after = self.vol.sections_to_come();
            if after > before {
                hopeless = 0;
                continue;
            }
            hopeless += 1;
            // Space in segments that logs have open can be collected once they are closed.
            if !found
                && std::mem::take(&mut logs_open)
                && self.vol.segments().close_data_logs(&self.vol.begin_change()?) > 0
            {
                continue;
            }
            if !found || hopeless >= HOPELESS_ROUNDS {
                self.gc_checkpoint(Cause::Needed)?;
                return self.settle_for_less();
            }
        }
        Ok(())
    }

    /// Nothing more can be gained: go on if the logs and a checkpoint still fit, else say that the volume is full.
    fn settle_for_less(&self) -> Result<()> {
        let bare = self.host().sections_needed() - self.host().reserved_sections + Log::COUNT as u64;
        if self.vol.segments().table.free_sections() > bare { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// See `Fs::gc`.
    pub(crate) fn gc(&self, sections: u64, urgency: Urgency) -> Result<GcReport> {
        self.gc_each(sections, urgency, &mut |_| ())
    }

    /// See `Fs::gc_each`.
    pub(crate) fn gc_each(
        &self,
        sections: u64,
        urgency: Urgency,
        cleaned: &mut dyn FnMut(&GcReport),
    ) -> Result<GcReport> {
        self.vol.check_writable()?;
        let mut sum = GcReport::default();
        if let Some(host) = self.by_host() {
            let _serial = host.serial.lock();
            {
                let change = self.vol.begin_change()?;
                self.vol.segments().close_streams(&change);
                self.vol.segments().close_data_logs(&change);
            }
            for _ in 0..sections {
                if self.vol.segments().table.free_sections() <= self.host().sections_needed() {
                    self.gc_checkpoint(Cause::Critical)?;
                }
                let single = &self.host().single;
                let Some(report) = single.collect_one(self, urgency, Asking::Yes, &self.host().alone)? else {
                    break;
                };
                cleaned(&report);
                sum.add(report);
            }
            self.host().totals.lock().add(sum);
        }
        self.durable.checkpoint(Cause::Collected)?;
        Ok(sum)
    }

    pub(super) fn gc_checkpoint(&self, cause: Cause) -> Result<()> {
        let began = steadyfs_rt::now();
        let outcome = self.durable.checkpoint(cause);
        self.host().times.lock().checkpointing += began.elapsed();
        outcome
    }
}
