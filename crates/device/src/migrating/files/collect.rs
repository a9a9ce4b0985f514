//! Which zones a [`MigratingDevice`] empties, and how.

use super::{BOUND, MigratingDevice, State};
use crate::migrating::{Move, Sort, Step};
use crate::{Op, StreamHint};

/// Lines beside those of the capacity: one for each log of the host, and two of the device, to write in.
const OPEN_LINES: u64 = 8;

/// Free zones of the GC area below which its own zones are emptied.
const SCARCE: u64 = 2;

/// Most zones to empty for a zone that the host writes.
const AT_ONCE: usize = 4;

impl MigratingDevice {
    /// Empties zones, if the host has written a zone and too many hold pages.
    pub(super) fn collect(&self) {
        let mut state = self.state.lock();
        if state.written < self.geometry.zone || !may_collect(&state) {
            return;
        }
        state.written = 0;
        for _ in 0..AT_ONCE {
            let Some(victim) = self.victim(&state) else { break };
            if !self.empty(&mut state, victim) {
                break;
            }
        }
        self.tell(&mut state);
    }

    /// Empties the zones of the regular area that hold least, as many as fit one: the host needs room there.
    pub(super) fn empty_cheapest(&self) {
        let mut state = self.state.lock();
        if !may_collect(&state) {
            return;
        }
        let regular = &self.geometry.regular;
        let of_host = |(start, _): &(u64, u64)| regular.contains(start) && state.ledger.is_full(*start);
        let mut victims: Vec<(u64, u64)> = state.ledger.holding().filter(of_host).collect();
        victims.sort_unstable_by_key(|(start, live)| (*live, *start));
        let mut room = self.geometry.zone;
        for (start, live) in victims {
            if live > room || !self.empty(&mut state, start) {
                break;
            }
            room -= live;
        }
        self.tell(&mut state);
    }

    /// Delivers what waits, if it is an upcall.
    fn tell(&self, state: &mut State) {
        if state.ledger.waiting() >= crate::UPCALL_RECORDS {
            state.due = state.ledger.waiting();
            self.changed.notify_all();
        }
    }

    /// The zone that holds least, if there are more than lines; of the GC area alone, if that runs out of zones. One
    /// that is full of pages is no victim: nothing would be gained.
    fn victim(&self, state: &State) -> Option<u64> {
        let (zone, gc) = (self.geometry.zone, &self.geometry.gc);
        let lines = self.geometry.capacity.div_ceil(zone) + OPEN_LINES;
        let scarce = self.free_zones(state).take(SCARCE as usize + 1).count() as u64 <= SCARCE;
        let many = state.ledger.holding().count() as u64 > lines;
        let may = |(start, live): &(u64, u64)| {
            let is_closed = match gc.contains(start) {
                true => !self.is_open(state, *start),
                false => many && state.ledger.is_full(*start),
            };
            *live < zone && is_closed
        };
        let victims = state.ledger.holding().filter(may).filter(|_| many || scarce);
        victims.min_by_key(|(start, live)| (*live, *start)).map(|(start, _)| start)
    }

    fn is_open(&self, state: &State, start: u64) -> bool {
        state.next.iter().flatten().any(|next| self.geometry.zone_of(*next) == start)
    }

    /// Zones to copy pages to: they hold nothing, neither in the ledger nor in a journal that a kill leads back to.
    fn free_zones(&self, state: &State) -> impl Iterator<Item = u64> {
        let zones = self.geometry.gc.clone().step_by(self.geometry.zone as usize);
        let is_free = |start: &u64| {
            (state.ledger.is_free(*start) || steadyfs_rt::mutated("zones-with-pages-are-not-free"))
                && !state.left.is_needed(*start)
        };
        zones.filter(move |start| is_free(start) && !self.is_open(state, *start))
    }

    /// Copies the pages of a zone, each of which lives at its new address from then on. False if it could not go on.
    fn empty(&self, state: &mut State, zone: u64) -> bool {
        let pages: Vec<u64> = state.ledger.live().range(zone..zone + self.geometry.zone).copied().collect();
        if state.ledger.outstanding() + pages.len() > BOUND {
            return false;
        }
        let sort = state.ledger.sort_of(zone);
        for from in pages {
            let Some(to) = state.next[sort as usize].or_else(|| self.free_zones(state).next()) else { return false };
            let read = self.blocks.perform(Op::Read { block: from, count: 1 });
            let hint = if sort == Sort::Node { StreamHint::NodeCold } else { StreamHint::DataCold };
            let copy = |pages| self.change(Op::Write { block: to, pages, hint, fua: false });
            if read.and_then(copy).is_err() || state.take(Step::Moved(Move { from, to })).is_err() {
                return false;
            }
            state.left.add(zone, from);
            state.next[sort as usize] = Some(to + 1).filter(|next| !next.is_multiple_of(self.geometry.zone));
        }
        true
    }
}

/// Whether pages may be moved now.
fn may_collect(state: &State) -> bool {
    state.ledger.may_move() && !state.closed && state.failed.is_none()
}
