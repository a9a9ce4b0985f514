//! Segments on a zoned device: a section is a zone, which is written in order, finished when nobody goes on to fill it,
//! and reset before it is free again.
//!
//! Kept true:
//!
//! - a block of such a section is written at its zone's write pointer, whoever took it (`volume/io/order`);
//! - a log or stream stands in a zone only if the write pointer is where it goes on, so at a mount those leave that the
//!   last checkpoint, or a crash, left elsewhere;
//! - zones that are partly written are those of logs and streams, and those that wait for their last writes or for
//!   their finish: never more than the device allows;
//! - a section is free when its zone is empty: it was reset after a checkpoint had committed without it;
//! - what a zone has refused goes to another one. The first is left, and finished. Between two checkpoints a bounded
//!   number of zones is left so, for a device that fails as a whole would have them all.

use crate::error::{Error, Result};
use crate::volume::io::order::InOrder;
use crate::volume::segments::Segments;
use crate::volume::segments::logs::Head;
use crate::volume::segments::table::BLOCKS;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use steadyfs_device::{IoError, Zone, ZoneState};
use steadyfs_format::{Lba, Log, SecNo, SegNo};

/// Most zones that are emptied at the device at a time.
const RESETS: usize = 64;
/// Most zones that are left between two checkpoints because they have refused something.
const MOST_LEFT: u32 = 8;
/// Zones that are asked for at a time.
const REPORTED: u64 = 4096;

/// The zones of a volume.
pub(crate) struct Zones {
    order: Arc<InOrder>,
    /// The first section that is a zone with a write pointer.
    first: SecNo,
    begun: AtomicBool,
    /// How many more may be left.
    may_leave: AtomicU32,
    resets: AtomicU64,
    retired: AtomicU64,
}

/// What became of the zones of a volume since its mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneStats {
    /// Most zones that were partly written at one time.
    pub most_active: u32,
    /// Zones that were emptied.
    pub resets: u64,
    /// Zones that were finished before they were full.
    pub finished: u64,
    /// Zones that have refused a write.
    pub refused: u64,
    /// Zones that take no more writes for good.
    pub retired: u64,
}

impl Zones {
    /// Of a device behind `order`; sections from `first` on have write pointers.
    pub(crate) fn new(order: Arc<InOrder>, first: SecNo) -> Self {
        let count = || AtomicU64::new(0);
        let may_leave = AtomicU32::new(MOST_LEFT);
        Zones { order, first, begun: AtomicBool::new(false), may_leave, resets: count(), retired: count() }
    }

    /// The first section that is a zone with a write pointer.
    pub(crate) fn first(&self) -> SecNo {
        self.first
    }

    /// What became of zones so far.
    pub(crate) fn stats(&self) -> ZoneStats {
        let (most_active, finished, refused) = self.order.counts();
        let [resets, retired] = [&self.resets, &self.retired].map(|count| count.load(SeqCst));
        ZoneStats { most_active, resets, finished, refused, retired }
    }

    fn take_leave(&self) -> bool {
        self.may_leave.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    fn retire(&self, start: u64, state: ZoneState) {
        self.retired.fetch_add(1, SeqCst);
        tracing::warn!(block = start, ?state, "a zone takes no more writes; the volume goes on without it");
    }
}

impl Segments {
    /// The zone that a segment is in: its first block.
    fn zone_of(&self, seg: SegNo) -> Option<(&Zones, u64)> {
        let section = self.layout.sec_of(seg);
        let zones = self.zones.as_ref().filter(|zones| section >= zones.first)?;
        Some((zones, self.zone_start(section)))
    }

    fn zone_start(&self, section: SecNo) -> u64 {
        self.lba_of(SegNo::new(section.get() * self.layout.segs_per_sec), 0).get()
    }

    /// A log or a stream has left a segment of which it took the first `next` blocks, and those before it in the
    /// section. Where nobody has gone on in the section its zone is finished.
    pub(super) fn left(&self, seg: SegNo, next: u32) {
        let Some((zones, start)) = self.zone_of(seg) else { return };
        if !self.layout.segs_of(self.layout.sec_of(seg)).any(|other| self.table.state(other).is_open()) {
            zones.order.finish(start, self.lba_of(seg, 0).get() - start + u64::from(next));
        }
    }

    /// Whether the segment's zone has refused a write.
    pub(super) fn is_broken(&self, seg: SegNo) -> bool {
        self.zone_fault(seg).is_some()
    }

    /// What the segment's zone has refused a write with.
    pub(super) fn zone_fault(&self, seg: SegNo) -> Option<IoError> {
        self.zone_of(seg).and_then(|(zones, start)| zones.order.fault(start))
    }

    /// Whether it has, and what comes may go to another one.
    pub(super) fn may_leave_broken(&self, seg: SegNo) -> bool {
        self.is_broken(seg) && self.zones.as_ref().is_some_and(Zones::take_leave)
    }

    /// Has a log that stands in a zone which has refused a write go on in another one, if it may and there is one.
    pub(super) fn leave_if_broken(&self, log: Log, head: &mut Head) {
        if self.may_leave_broken(head.seg) && self.leave_zone(log, head).is_err() {
            tracing::error!(%log, "no free zone for the log");
        }
    }

    /// The same for all logs; false if one of them stays.
    pub(crate) fn leave_broken_zones(&self) -> bool {
        Log::ALL.into_iter().all(|log| {
            let mut head = self.logs.head(log);
            self.leave_if_broken(log, &mut head);
            !self.is_broken(head.seg)
        })
    }

    /// Moves a log to a section of its own.
    pub(super) fn leave_zone(&self, log: Log, head: &mut Head) -> Result<()> {
        let fresh = self.table.open(None, log.number()).ok_or(Error::NoSpace)?;
        self.move_log(head, Head::at(fresh, log));
        Ok(())
    }

    /// Moves logs away whose zones are not written up to where they go on.
    pub(super) fn leave_strange_zones(&self) -> Result<()> {
        for log in Log::ALL {
            let mut head = self.logs.head(log);
            let Some((zones, start)) = self.zone_of(head.seg) else { continue };
            if start + zones.order.written(start) != self.lba_of(head.seg, 0).get() + u64::from(head.next) {
                self.leave_zone(log, &mut head)?;
            }
        }
        Ok(())
    }

    /// Comes before the first write of a mount: empties zones of which nothing is needed, finishes those that nobody
    /// goes on to fill, and takes those away that are worn out.
    pub(super) fn begin_zones(&self) -> Result<()> {
        let Some(zones) = self.zones.as_ref().filter(|zones| !zones.begun.swap(true, SeqCst)) else { return Ok(()) };
        let positions = Log::ALL.map(|log| {
            let head = self.logs.head(log);
            self.lba_of(head.seg, 0).get() + u64::from(head.next)
        });
        let (mut dirty, mut open) = (Vec::new(), Vec::new());
        for (section, zone) in self.report_zones(zones)? {
            let is_free = self.table.is_free_section(section);
            match zone.state {
                ZoneState::Empty => {}
                ZoneState::ReadOnly | ZoneState::Offline => {
                    if is_free && self.table.take_section_if_free(section) {
                        zones.retire(zone.start, zone.state);
                    }
                    zones.order.resume(zone.start, self.layout.blocks_per_sec());
                }
                ZoneState::Conventional => {
                    let section = section.get();
                    return Err(Error::corrupt(format!(
                        "section {section} has a write pointer, and its zone has none"
                    )));
                }
                _ if is_free => {
                    if self.table.take_section_if_free(section) {
                        dirty.push(section);
                    }
                }
                ZoneState::Full => zones.order.resume(zone.start, self.layout.blocks_per_sec()),
                ZoneState::Open | ZoneState::Closed => {
                    zones.order.resume(zone.start, zone.write_pointer - zone.start);
                    if !positions.contains(&zone.write_pointer) {
                        open.push(zone);
                    }
                }
            }
        }
        open.iter().for_each(|zone| zones.order.finish(zone.start, zone.write_pointer - zone.start));
        for section in self.reset_zones(zones, dirty) {
            self.table.put_emptied_back(section);
        }
        Ok(())
    }

    /// Sections with write pointers, and what the device says of their zones.
    fn report_zones(&self, zones: &Zones) -> Result<Vec<(SecNo, Zone)>> {
        let (device, size) = (self.io.device(), self.layout.blocks_per_sec());
        let mut found = Vec::new();
        let mut sections = zones.first.get()..self.layout.sections;
        while !sections.is_empty() {
            let count = u64::from(sections.end - sections.start).min(REPORTED);
            let reported = device.zone_report(self.zone_start(SecNo::new(sections.start)) / size, count)?;
            for (number, zone) in sections.clone().zip(&reported) {
                let start = self.zone_start(SecNo::new(number));
                if zone.start != start || !(start..=start + size).contains(&zone.write_pointer) {
                    return Err(Error::corrupt(format!("the device tells of {zone:?} where a zone begins at {start}")));
                }
                found.push((SecNo::new(number), *zone));
            }
            sections.start += count as u32;
        }
        Ok(found)
    }

    /// A checkpoint has committed: sections that are empty are reset, and free then.
    pub(super) fn reset_emptied(&self) {
        let Some(zones) = &self.zones else { return };
        zones.may_leave.store(MOST_LEFT, SeqCst);
        for section in self.reset_zones(zones, self.table.take_emptied()) {
            self.table.put_emptied_back(section);
        }
    }

    /// Empties zones that nobody has, and frees their sections; those that may come to be tried again.
    fn reset_zones(&self, zones: &Zones, sections: Vec<SecNo>) -> Vec<SecNo> {
        let mut again = Vec::new();
        for batch in sections.chunks(RESETS) {
            let starts: Vec<u64> = batch.iter().map(|section| self.zone_start(*section)).collect();
            for (section, result) in batch.iter().zip(zones.order.reset(&starts)) {
                match result {
                    Ok(()) => {
                        zones.resets.fetch_add(1, SeqCst);
                        self.table.put_free_section_back(*section);
                    }
                    Err(error) if !self.is_worn_out(zones, *section, &error) => again.push(*section),
                    Err(_) => {}
                }
            }
        }
        again
    }

    fn is_worn_out(&self, zones: &Zones, section: SecNo, error: &IoError) -> bool {
        let start = self.zone_start(section);
        let reported = self.io.device().zone_report(start / self.layout.blocks_per_sec(), 1);
        let state = reported.ok().and_then(|zones| zones.first().map(|zone| zone.state));
        match state {
            Some(state @ (ZoneState::ReadOnly | ZoneState::Offline)) => {
                zones.retire(start, state);
                true
            }
            _ => {
                tracing::warn!(%error, "a zone that nobody needs stays full until the next checkpoint");
                false
            }
        }
    }

    /// Of blocks that were refused: how many places that is. All of a zone are one.
    pub(crate) fn bad_places(&self, blocks: &[Lba]) -> usize {
        let place = |lba: &Lba| match self.table.locate(*lba).and_then(|(seg, _)| self.zone_of(seg)) {
            Some((_, start)) => start,
            None => lba.get(),
        };
        let mut places: Vec<u64> = blocks.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    }
}

const _: () = assert!(BLOCKS == 512, "a zone is a number of segments");
