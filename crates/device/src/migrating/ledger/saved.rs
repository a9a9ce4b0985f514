//! A ledger as bytes, for devices that keep theirs in a file; and whether a step that was read from there is one.

use super::{Ledger, Step, Zone};
use crate::migrating::{MigrationGeometry, Move, Sort};
use std::collections::{HashSet, VecDeque};

/// Numbers that are read one after the other; `None` where the bytes end.
pub(crate) struct Numbers<'a>(pub(crate) &'a [u8]);

impl Numbers<'_> {
    pub(crate) fn next(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }
}

/// Appends numbers of 8 bytes.
pub(crate) fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn sort_number(sort: Option<Sort>) -> u64 {
    match sort {
        None => 0,
        Some(Sort::Data) => 1,
        Some(Sort::Node) => 2,
    }
}

fn sort_of(number: u64) -> Option<Option<Sort>> {
    Some(match number {
        0 => None,
        1 => Some(Sort::Data),
        2 => Some(Sort::Node),
        _ => return None,
    })
}

impl Ledger {
    /// All that survives a power cut: the number of the last completed record, live pages as runs, zones, waiting and
    /// delivered records, and blocks that zones have gone on behind. Counts follow from these.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &page in &self.live {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == page => *count += 1,
                _ => runs.push((page, 1)),
            }
        }
        put(out, &[self.completed, runs.len() as u64]);
        runs.iter().for_each(|(first, count)| put(out, &[*first, *count]));
        put(out, &[self.zones.len() as u64]);
        for (start, zone) in &self.zones {
            put(out, &[*start, zone.written, u64::from(zone.over), sort_number(zone.sort)]);
        }
        for records in [&self.waiting, &self.delivered] {
            put(out, &[records.len() as u64]);
            records.iter().for_each(|record| put(out, &[record.from, record.to]));
        }
        let gaps: Vec<u64> = self.zones.values().flat_map(|zone| &zone.gaps).copied().collect();
        put(out, &[gaps.len() as u64]);
        put(out, &gaps);
    }

    /// The ledger that was saved; `None` of bytes that are no ledger of these areas.
    pub(crate) fn restore(geometry: MigrationGeometry, from: &mut Numbers<'_>) -> Option<Ledger> {
        let mut ledger = Ledger::new(geometry);
        let zone_size = ledger.geometry.zone;
        ledger.completed = from.next()?;
        for _ in 0..from.next()? {
            let (first, count) = (from.next()?, from.next()?);
            let end = first.checked_add(count).filter(|end| *end <= ledger.geometry.gc.end)?;
            for page in first..end {
                let is_new = ledger.geometry.is_mapped(page) && ledger.live.insert(page);
                is_new.then(|| ledger.zone(page).live += 1)?;
            }
        }
        for _ in 0..from.next()? {
            let start = from.next()?;
            let (written, over) = (from.next()?, from.next()?);
            let sort = sort_of(from.next()?)?;
            let is_one = ledger.geometry.is_mapped(start) && ledger.geometry.zone_of(start) == start;
            (is_one && written <= zone_size && over <= 1).then_some(())?;
            let live = ledger.zones.get(&start).map_or(0, |zone| zone.live);
            ledger.zones.insert(start, Zone { written, live, over: over == 1, sort, ..Zone::default() });
        }
        let mut records = || -> Option<VecDeque<Move>> {
            (0..from.next()?).map(|_| Some(Move { from: from.next()?, to: from.next()? })).collect()
        };
        (ledger.waiting, ledger.delivered) = (records()?, records()?);
        for Move { from, to } in ledger.delivered.iter().chain(&ledger.waiting).copied().collect::<Vec<_>>() {
            let is_one = ledger.geometry.is_mapped(from) && ledger.geometry.gc.contains(&to);
            (is_one && !ledger.live.contains(&from) && ledger.leads.insert(from, to).is_none()).then_some(())?;
            ledger.zone(from).ends += 1;
            ledger.zone(to).ends += 1;
        }
        // A ledger that ends here is of a time before gaps.
        for _ in 0..from.next().unwrap_or(0) {
            let gap = from.next()?;
            (ledger.geometry.regular.contains(&gap) && !ledger.live.contains(&gap)).then_some(())?;
            ledger.zone(gap).gaps.insert(gap);
        }
        ledger.ends_somewhere().then_some(ledger)
    }

    /// No chain of records is a circle.
    fn ends_somewhere(&self) -> bool {
        let mut known = HashSet::new();
        for start in self.leads.keys() {
            let (mut at, mut path) = (*start, Vec::new());
            while let Some(to) = self.leads.get(&at)
                && !known.contains(&at)
            {
                if path.len() == self.leads.len() {
                    return false;
                }
                path.push(at);
                at = *to;
            }
            known.extend(path);
        }
        true
    }

    /// Takes a step that was read from somewhere; false if none can be that. Of sessions it keeps nothing.
    #[must_use]
    pub(crate) fn replay(&mut self, step: Step) -> bool {
        if !self.could(&step) {
            return false;
        }
        // Which records the session had heard of is not saved: the device took the step then.
        self.heard = self.delivered.len();
        self.take(step).is_ok()
    }

    /// Whether nothing is wrong with a step that the device takes by itself, or that no host is asked for.
    fn could(&self, step: &Step) -> bool {
        match *step {
            Step::Write(block, _) | Step::Refused(block) | Step::Unwritten(block) => {
                self.geometry.regular.contains(&block)
            }
            Step::Discard(block) => self.geometry.is_mapped(block),
            Step::Moved(Move { from, to }) => {
                let zone = self.zones.get(&self.geometry.zone_of(to));
                let sorts = zone.is_none_or(|zone| zone.live == 0 || zone.sort == Some(self.sort_of(from)));
                let leads = |block: u64| self.leads.contains_key(&block);
                let is_free = self.geometry.gc.contains(&to) && !self.live.contains(&to);
                sorts && is_free && self.live.contains(&from) && !leads(from) && !leads(to)
            }
            Step::Deliver(count) => count <= self.waiting.len(),
            Step::Hear(_) => false,
            Step::Complete(_) | Step::Resume(_) => true,
        }
    }

    /// Zones that hold pages, and how many.
    pub(crate) fn holding(&self) -> impl Iterator<Item = (u64, u64)> {
        self.zones.iter().filter(|(_, zone)| zone.live > 0).map(|(start, zone)| (*start, zone.live))
    }
}
