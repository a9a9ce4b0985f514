//! What the collectors of a pool do, and what writers ask of them.
//!
//! Kept true: no more collectors work than are wanted, and none of them goes on once the pool is to stop.

use super::{Gate, Pool, Shared};
use crate::counters::Cause;
use crate::error::Result;
use crate::gate::admission::{Admission, Admissions};
use crate::reclaim::Reclaim;
use crate::reclaim::host::HostReclaim;
use crate::reclaim::host::cleaner::PrefetchQueue;
use crate::reclaim::host::gaps::{Gaps, Levels};
use crate::reclaim::host::room::{HOPELESS_ROUNDS, HYSTERESIS};
use crate::reclaim::live::Asking;
use crate::reclaim::report::Urgency;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use steadyfs_rt::{JoinHandle, try_spawn, try_spawn_vital};

impl Levels {
    /// Of a volume, now.
    fn of(host: &HostReclaim) -> Self {
        Levels { to_come: host.vol.sections_to_come(), emptied: host.totals().sections_freed }
    }
}

/// How the work of a collector ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Enough,
    GaveUp,
}

impl Pool {
    /// Starts the threads of a writable volume. Until then, and if the system gives none, writers collect for
    /// themselves.
    pub(in crate::reclaim::host) fn start(&self, reclaim: &Arc<Reclaim>) {
        let mut started = Vec::with_capacity(self.len());
        for number in 0..self.len() {
            let (shared, weak) = (Arc::clone(&self.shared), Arc::downgrade(reclaim));
            // Writers wait for what these threads do: one that panics must not leave them waiting.
            match try_spawn_vital(&format!("steadyfs-gc-{number}"), move || shared.run(number, &weak)) {
                Ok(handle) => started.push(handle),
                Err(error) => {
                    tracing::warn!(%error, started = number, "the system gives no more threads to collectors");
                    break;
                }
            }
        }
        self.shared.gate.lock().threads = started.len();
        started.extend(self.watch_gaps(reclaim));
        let earlier = std::mem::replace(&mut *self.threads.lock(), started);
        assert!(earlier.is_empty(), "collectors were started twice");
    }

    /// Starts who looks for gaps between requests.
    fn watch_gaps(&self, reclaim: &Arc<Reclaim>) -> Option<JoinHandle<()>> {
        self.shared.gaps.as_ref()?;
        let (shared, weak) = (Arc::clone(&self.shared), Arc::downgrade(reclaim));
        let watch = move || {
            if let Some(gaps) = &shared.gaps {
                let levels = || weak.upgrade().map(|reclaim| Levels::of(reclaim.host()));
                gaps.watch(HYSTERESIS, levels, || {
                    if let Some(reclaim) = weak.upgrade() {
                        shared.call(reclaim.host(), &mut shared.gate.lock());
                    }
                });
            }
        };
        let started = try_spawn("steadyfs-gc-gaps", watch);
        started.inspect_err(|error| tracing::warn!(%error, "no thread to look for gaps between requests")).ok()
    }

    /// For a writer that has room: has collectors begin if little is left.
    pub(in crate::reclaim::host) fn work_ahead(&self, host: &HostReclaim) {
        let shared = &self.shared;
        if host.collectors_may_rest(0) {
            if shared.resting.load(SeqCst) {
                shared.resting.store(false, SeqCst);
            }
            return;
        }
        if !shared.resting.load(SeqCst) && shared.wanted.load(SeqCst) < shared.needed(host) {
            shared.call(host, &mut shared.gate.lock());
        }
    }

    /// For a writer without room for `blocks` blocks: waits for the collectors. `None` if they could not make any.
    pub(in crate::reclaim::host) fn wait_for_room<'a>(
        &self,
        host: &HostReclaim,
        admissions: &'a Admissions,
        blocks: u64,
    ) -> Result<Option<Admission<'a>>> {
        let shared = &self.shared;
        let _awaiting = admissions.awaiting();
        let mut gate = shared.gate.lock();
        let (gave_up, mut called) = (gate.gave_up, false);
        loop {
            let admission = Admission::if_room(admissions, blocks, || host.writers_have_room());
            if admission.is_some() {
                return Ok(admission);
            }
            host.vol.check_writable()?;
            if gate.threads == 0 || gate.gave_up != gave_up {
                return Ok(None);
            }
            // Once: collectors that give up, one after the other, would never all have done so if each were called
            // again at once.
            if gate.wanted == 0 || !called {
                shared.call(host, &mut gate);
                called = true;
            }
            gate.waiting += 1;
            shared.room.wait(&mut gate);
            gate.waiting -= 1;
        }
    }
}

impl Shared {
    /// Has as many collectors work as are needed now.
    fn call(&self, host: &HostReclaim, gate: &mut Gate) {
        if gate.wanted == 0 {
            self.best.store(host.vol.sections_to_come(), SeqCst);
            self.dry.store(0, SeqCst);
            self.gained.store(0, SeqCst);
        }
        let more = self.needed(host).saturating_sub(gate.wanted);
        gate.wanted += more;
        assert!(
            gate.wanted <= self.collectors.len(),
            "{} of {} collectors are wanted",
            gate.wanted,
            self.collectors.len()
        );
        self.wanted.store(gate.wanted, SeqCst);
        (0..more).for_each(|_| self.work.notify_one());
    }

    /// How many collectors should work now: one for each section that is missing.
    fn needed(&self, host: &HostReclaim) -> usize {
        let missing = host.vol.sections_missing(self.wanted(host));
        usize::try_from(missing).unwrap_or(usize::MAX).clamp(1, self.collectors.len())
    }

    /// Free sections above what writers need that are to be made in this gap between requests, if it is one.
    fn goal(&self) -> Option<u64> {
        self.gaps.as_ref().map(Gaps::goal).filter(|goal| *goal > HYSTERESIS)
    }

    /// More than this number of sections are to be free, or free with the next checkpoint.
    fn wanted(&self, host: &HostReclaim) -> u64 {
        self.goal().map_or_else(|| host.sections_aimed_at() + HYSTERESIS, |goal| host.sections_needed() + goal)
    }

    fn run(&self, number: usize, reclaim: &Weak<Reclaim>) {
        loop {
            {
                let mut gate = self.gate.lock();
                while !gate.stop && gate.working >= gate.wanted {
                    self.work.wait(&mut gate);
                }
                if gate.stop {
                    return;
                }
                gate.working += 1;
                assert!(
                    gate.working <= gate.wanted,
                    "{} collectors work, and {} are wanted",
                    gate.working,
                    gate.wanted
                );
                gate.since.get_or_insert_with(steadyfs_rt::now);
            }
            let Some(reclaim) = reclaim.upgrade() else { return };
            let end = self.work(&reclaim, number);
            self.finish(reclaim.host(), end);
        }
    }

    fn finish(&self, host: &HostReclaim, end: End) {
        let mut gate = self.gate.lock();
        assert!(gate.working > 0 && gate.since.is_some(), "a collector ends that never began");
        gate.working -= 1;
        if gate.working == 0
            && let Some(since) = gate.since.take()
        {
            host.note_round(since.elapsed());
        }
        match end {
            End::Enough => gate.wanted = 0,
            End::GaveUp => gate.wanted = gate.wanted.min(gate.working),
        }
        assert!(gate.wanted <= self.collectors.len() && gate.working < self.collectors.len());
        self.wanted.store(gate.wanted, SeqCst);
        if end == End::GaveUp && gate.wanted == 0 {
            gate.gave_up += 1;
            self.resting.store(true, SeqCst);
        }
        if gate.waiting > 0 {
            self.room.notify_all();
        }
    }

    /// What one collector does until there is room enough, or nothing more to be gained.
    fn work(&self, reclaim: &Reclaim, number: usize) -> End {
        let host = reclaim.host();
        let mut queue = PrefetchQueue::default();
        while !self.gate.lock().stop {
            // In a gap a checkpoint disturbs nobody, and what it frees is there when the next request comes.
            let enough = match self.goal() {
                Some(goal) => host.free_sections_suffice(goal - 1),
                None => host.collectors_may_rest(HYSTERESIS),
            };
            if enough {
                return End::Enough;
            }
            let worked = match host.vol.sections_missing(self.wanted(host)) == 0 {
                true => self.checkpoint(reclaim, number, Cause::Needed),
                false => self.step(reclaim, number, &mut queue),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => return End::GaveUp,
                Err(error) => {
                    tracing::warn!(%error, "a collector stops; writers will collect for themselves");
                    return End::GaveUp;
                }
            }
        }
        End::Enough
    }

    /// One victim, and a checkpoint before it if that must not wait. False if nothing is gained any more.
    fn step<'a>(&'a self, reclaim: &'a Reclaim, number: usize, queue: &mut PrefetchQueue<'a>) -> Result<bool> {
        let host = reclaim.host();
        if host.room_is_critical() {
            self.checkpoint(reclaim, number, Cause::Critical)?;
        }
        // When as many victims as there are collectors gave nothing, who holds their pages may be waiting for room.
        let asking = if self.dry.load(SeqCst) < self.collectors.len() as u64 { Asking::Yes } else { Asking::No };
        let activity = &self.activities[number];
        // No more than are needed beside those that other collectors have queued.
        let missing =
            |queued: usize| host.vol.sections_missing(self.wanted(host)) > (queued * self.wanted.load(SeqCst)) as u64;
        let collector = &self.collectors[number];
        let cleaned = collector.collect_next(reclaim, Urgency::Foreground, asking, activity, queue, missing)?;
        let found = cleaned.is_some();
        if let Some(report) = cleaned {
            host.totals.lock().add(report);
        }
        // More is free than ever since collectors were called, or a section's worth was gained, which writers may have
        // taken at once.
        let (level, section) = (host.vol.sections_to_come(), host.vol.layout().blocks_per_sec());
        let gain = cleaned.map_or(0, |report| report.blocks_gained(section));
        let more = self.best.fetch_max(level, SeqCst) < level;
        if found && (self.gained.fetch_add(gain, SeqCst) + gain >= section || more) {
            self.gained.store(0, SeqCst);
            self.dry.store(0, SeqCst);
            return Ok(true);
        }
        let dry = self.dry.fetch_add(1, SeqCst) + 1;
        if found && dry < HOPELESS_ROUNDS as u64 * self.collectors.len() as u64 {
            return Ok(true);
        }
        // The sections emptied so far may do.
        self.checkpoint(reclaim, number, Cause::Needed)?;
        let goes_on = host.writers_have_room() && found;
        if goes_on {
            self.dry.store(0, SeqCst);
        }
        // Who found nothing must not have others, who did, begin to count again: they would ask for pages for ever
        // whose holders wait for room.
        Ok(goes_on)
    }

    /// Makes a checkpoint, or waits for the one that another collector makes. False if nothing was there to be freed.
    fn checkpoint(&self, reclaim: &Reclaim, number: usize, cause: Cause) -> Result<bool> {
        let _idle_after = self.activities[number].begin_checkpoint();
        let Some(_turn) = self.checkpoint.try_lock() else {
            drop(self.checkpoint.lock());
            return Ok(true);
        };
        let some = reclaim.vol.sections_awaiting() > 0;
        reclaim.gc_checkpoint(cause)?;
        Ok(some || !reclaim.host().checkpoint_is_due())
    }
}
