//! Segments on a zoned device: a section is a zone, which is written in order, finished when nobody goes on to fill it,
//! and reset before it is free again.
//!
//! Kept true:
//!
//! - a block of such a section is written at its zone's write pointer, whichever log took it (`volume/io/order`);
//! - a log or stream stands in a zone only if the write pointer is where it goes on, so at a mount those leave that the
//!   last checkpoint, or a crash, left elsewhere;
//! - zones that are partly written are those of logs and streams, and those that wait for their last writes or for
//!   their finish: never more than the device allows;
//! - a section is free when its zone is empty: it was reset after a checkpoint had committed without it;
//! - a zone that has refused a write is left (`refusing`), and finished.

use crate::error::{Error, Result};
use crate::volume::io::order::InOrder;
use crate::volume::segments::Segments;
use crate::volume::segments::logs::Head;
use crate::volume::segments::refusing::InTurn;
use crate::volume::segments::table::BLOCKS;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use steadyfs_device::{IoError, Zone, ZoneState};
use steadyfs_format::{Log, SecNo, SegNo};

/// Most zones that are emptied at the device at a time.
const RESETS: usize = 64;
/// Zones that are asked for at a time.
const REPORTED: u64 = 4096;

/// The zones of a volume.
pub(crate) struct Zones {
    order: Arc<InOrder>,
    /// The first section that is a zone with a write pointer.
    first: SecNo,
    begun: AtomicBool,
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
        Zones { order, first, begun: AtomicBool::new(false), resets: count(), retired: count() }
    }

    /// The first section that is a zone with a write pointer.
    pub(crate) fn first(&self) -> SecNo {
        self.first
    }

    /// Its sections, which are written in order, of `sections` that the volume has.
    pub(crate) fn in_turn(&self, sections: u32) -> InTurn {
        InTurn::new(Arc::clone(&self.order), self.first.get()..sections)
    }

    /// What became of zones so far.
    pub(crate) fn stats(&self) -> ZoneStats {
        let (most_active, finished, refused) = self.order.counts();
        let [resets, retired] = [&self.resets, &self.retired].map(|count| count.load(SeqCst));
        ZoneStats { most_active, resets, finished, refused, retired }
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
        let zones = self.medium.zones().filter(|zones| section >= zones.first)?;
        Some((zones, self.start_of(section)))
    }

    /// A log or a stream has left a segment of which it took the first `next` blocks, and those before it in the
    /// section. Where nobody has gone on in the section its zone is finished.
    pub(super) fn left(&self, seg: SegNo, next: u32) {
        let Some((zones, start)) = self.zone_of(seg) else { return };
        if !self.layout.segs_of(self.layout.sec_of(seg)).any(|other| self.table.state(other).is_open()) {
            zones.order.finish(start, self.lba_of(seg, 0).get() - start + u64::from(next));
        }
    }

    /// Moves a log to a section of its own.
    pub(super) fn leave_section(&self, log: Log, head: &mut Head) -> Result<()> {
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
                self.leave_section(log, &mut head)?;
            }
        }
        Ok(())
    }

    /// Comes before the first write of a mount: empties zones of which nothing is needed, finishes those that nobody
    /// goes on to fill, and takes those away that are worn out.
    pub(super) fn begin_zones(&self) -> Result<()> {
        let Some(zones) = self.medium.zones().filter(|zones| !zones.begun.swap(true, SeqCst)) else { return Ok(()) };
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
            let reported = device.zone_report(self.start_of(SecNo::new(sections.start)) / size, count)?;
            for (number, zone) in sections.clone().zip(&reported) {
                let start = self.start_of(SecNo::new(number));
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
        let Some(zones) = self.medium.zones() else { return };
        for section in self.reset_zones(zones, self.table.take_emptied()) {
            self.table.put_emptied_back(section);
        }
    }

    /// Empties zones that nobody has, and frees their sections; those that may come to be tried again.
    fn reset_zones(&self, zones: &Zones, sections: Vec<SecNo>) -> Vec<SecNo> {
        let mut again = Vec::new();
        for batch in sections.chunks(RESETS) {
            let starts: Vec<u64> = batch.iter().map(|section| self.start_of(*section)).collect();
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
        let start = self.start_of(section);
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
}

const _: () = assert!(BLOCKS == 512, "a zone is a number of segments");
