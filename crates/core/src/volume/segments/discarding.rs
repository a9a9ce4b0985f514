//! Discards of what is dead in segments; see `volume/discard`.

use crate::canary::Canary;
use crate::volume::discard::{Discards, MOST_REQUESTS};
use crate::volume::segments::Segments;
use crate::volume::segments::freeze::Frozen;
use crate::volume::segments::pinned::{self, Loose};
use crate::volume::segments::table::BLOCKS;
use std::sync::atomic::Ordering::Relaxed;
use steadyfs_format::{Lba, SecNo, SegNo};

/// Places that are being discarded: nobody takes them until this goes.
struct Places<'a> {
    segments: &'a Segments,
    runs: Vec<(Lba, u64)>,
    /// The first of the runs are free sections, which nobody opens.
    sections: Vec<SecNo>,
    /// The segments of the others, claimed.
    claimed: Vec<SegNo>,
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        let table = &self.segments.table;
        self.claimed.iter().for_each(|seg| table.unclaim(*seg));
        self.sections.iter().for_each(|section| table.show_section(*section));
    }
}

impl Segments {
    /// A checkpoint has committed without these blocks.
    pub(super) fn queue_dead(&self, loose: &Loose) {
        let Some(dead) = self.discards().and_then(|discards| discards.dead.as_ref()) else { return };
        loose.iter().for_each(|(seg, map)| dead.add(*seg, map));
    }

    /// The segment is free; its section is to be discarded if all of it is.
    pub(super) fn queue_free(&self, seg: SegNo) {
        let section = self.layout.sec_of(seg);
        if let Some(discards) = self.discards().filter(|_| self.table.is_free_section(section)) {
            discards.sections.set(section.index());
        }
    }

    /// Has the discarder look for what was queued.
    pub(super) fn wake_discarder(&self) {
        if let Some(discards) = self.discards() {
            discards.signal.wake.notify_all();
        }
    }

    fn discards(&self) -> Option<&Discards> {
        self.discards.as_ref().filter(|discards| discards.is_on())
    }

    /// Discards some of what waits, and returns when the device has answered; how many requests that took. Nothing
    /// unless `may` says so, which is asked when others can wait for this.
    pub(crate) fn discard_some(&self, may: impl Fn() -> bool) -> usize {
        let Some(discards) = self.discards() else { return 0 };
        discards.under_way.add(1);
        let sent = if may() { self.discard_batch(discards) } else { 0 };
        discards.under_way.done(1);
        sent
    }

    fn discard_batch(&self, discards: &Discards) -> usize {
        let mut places = Places { segments: self, runs: Vec::new(), sections: Vec::new(), claimed: Vec::new() };
        self.take_sections(discards, &mut places);
        self.take_runs(discards, &mut places);
        assert!(places.sections.len() <= places.runs.len(), "a hidden section is not discarded");
        let results = self.io.discard_runs(&places.runs);
        assert_eq!(results.len(), places.runs.len(), "each discard has an answer");
        for (at, result) in results.into_iter().enumerate() {
            discards.note(result, at < places.sections.len());
        }
        places.runs.len()
    }

    /// Takes free sections that wait; never most of those there are.
    fn take_sections(&self, discards: &Discards, places: &mut Places<'_>) {
        let most = (self.table.free_sections() as usize / 2).clamp(1, MOST_REQUESTS);
        for index in discards.sections.iter() {
            if places.runs.len() == most {
                return;
            }
            discards.sections.clear(index);
            let section = SecNo::new(index as u32);
            if !self.table.hide_section(section) {
                discards.note_reused(self.layout.blocks_per_sec());
                continue;
            }
            places.sections.push(section);
            let segs: Vec<SegNo> = self.layout.segs_of(section).collect();
            discards.dead.iter().for_each(|dead| segs.iter().for_each(|seg| dead.forget(*seg)));
            places.runs.push((self.lba_of(segs[0], 0), self.layout.blocks_per_sec()));
        }
    }

    /// Takes dead runs of segments in use. A segment that a log or a collector has is looked at another time.
    fn take_runs(&self, discards: &Discards, places: &mut Places<'_>) {
        let Some(dead) = &discards.dead else { return };
        let start = dead.cursor.load(Relaxed);
        let order = dead.segments.iter_from(start).chain(dead.segments.iter().take_while(|&seg| seg < start));
        for index in order {
            let room = MOST_REQUESTS.saturating_sub(places.runs.len());
            dead.cursor.store(index, Relaxed);
            if room == 0 {
                return;
            }
            let seg = SegNo::new(index as u32);
            if !self.table.claim(seg) {
                continue;
            }
            places.claimed.push(seg);
            dead.segments.clear(index);
            let taken = dead.take(seg, &self.table.pinned(seg), room);
            if taken.more {
                dead.segments.set(index);
            }
            discards.note_reused(u64::from(taken.reused));
            places.runs.extend(taken.runs.iter().map(|(first, count)| (self.lba_of(seg, *first), u64::from(*count))));
        }
    }

    /// A fault, for tests: what the next checkpoint will be without is discarded before that has committed.
    pub(super) fn discard_early(&self, frozen: &Frozen) {
        if self.discards.is_none() || !self.io.planted.is(Canary::EarlyDiscard) {
            return;
        }
        let whole = frozen.prefree.iter().map(|seg| (self.lba_of(*seg, 0), u64::from(BLOCKS)));
        let runs = frozen.loose.iter().flat_map(|(seg, map)| {
            let rest = map.map(|word| !word);
            let mut from = 0;
            std::iter::from_fn(move || {
                let (first, count) = pinned::hole(&rest, from)?;
                from = first + count;
                Some((self.lba_of(*seg, first), u64::from(count)))
            })
        });
        drop(self.io.discard_runs(&whole.chain(runs).collect::<Vec<_>>()));
    }
}
