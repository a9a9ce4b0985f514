//! Segments on a device that moves blocks by itself (D2FS): what the host knows of the device's records, and what it
//! owes to it. docs/D2FS-FORMAT.md; the promises are in `steadyfs_device::Migrations`.
//!
//! Records are *heard* in their order, then *applied* in their order (`reclaim/device`), and *completed* when a
//! checkpoint has committed that was frozen after that, and its discards have ended.
//!
//! Kept true:
//!
//! - a record is applied within one change, so a checkpoint contains all of it or nothing, and says the number of the
//!   last one that it contains;
//! - at every commit the SSA names the owners of all valid blocks, also of those that the device has moved;
//! - nothing is discarded that a checkpoint needs: neither what is valid at its freeze, nor an address from which
//!   records lead to such a block, nor one to which they lead from it;
//! - a section is taken again only when no record names it that is not completed.

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::segments::Segments;
use crate::volume::segments::logs::kind_of;
use crate::volume::segments::table::BLOCKS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{Device, Migrations, Move, Sort, Upcall};
use steadyfs_format::migrating::Regions;
use steadyfs_format::summary::{Summary, SummaryBlock};
use steadyfs_format::{Lba, Log, SecNo, SegNo};
use steadyfs_rt::{EventCount, Mutex, MutexGuard};

/// Most discards that are at the device at a time.
const DISCARDS: usize = 64;
/// The device holds a part of its capacity in vain before a checkpoint has that discarded (D2FS' program: 1.37 GiB of
/// 239, the 175th part).
const DEAD_SHARE: u64 = 128;
/// At least this many blocks: a checkpoint costs some, too.
const FEWEST_DEAD: i64 = 512;
/// How long a checkpoint waits for records that the device has delivered and the host has not heard of.
const MOST_SILENCE: Duration = Duration::from_secs(5);
/// Summaries of the GC area that are kept in memory although the SSA has them.
const KEPT_SUMMARIES: usize = 256;

/// Records of a device, and what follows from them.
pub(crate) struct MigratingArea {
    regions: Regions,
    /// `None` where a volume is only read, or recovered in memory.
    device: Option<Arc<dyn Device>>,
    records: Mutex<Records>,
    /// Held while a segment of the GC area gets or loses a block, or becomes free: the device may go on to fill one
    /// whose blocks have all died.
    area: Mutex<()>,
    /// Something was heard, applied or committed, or the mount ends.
    pub(crate) event: EventCount,
    /// The first record whose application somebody waits for; the largest number if nobody does.
    awaited: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// Blocks that were given up, and may still be held by the device.
    dead: AtomicI64,
    counts: Counts,
}

/// What became of records since the mount.
#[derive(Default)]
struct Counts {
    moved: AtomicU64,
    again: AtomicU64,
    stale: AtomicU64,
    upcalls: AtomicU64,
    most: AtomicU64,
}

/// What became of the records of a device that moves blocks, since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationStats {
    /// Records whose block was followed.
    pub moved: u64,
    /// Records that had been applied before a power cut.
    pub again: u64,
    /// Records of blocks that were dead.
    pub stale: u64,
    /// Upcalls that brought them.
    pub upcalls: u64,
    /// Records heard and not completed, now.
    pub outstanding: u64,
    /// The most of them at one time.
    pub most_outstanding: u64,
    /// Number of the last record that was applied.
    pub applied: u64,
    /// Sections of the regular area.
    pub regular_sections: u64,
}

struct Records {
    /// Heard and not completed, in their order.
    outstanding: VecDeque<Move>,
    completed: u64,
    applied: u64,
    urgent: bool,
    /// Where records of dead blocks led, since the last freeze.
    stale: Vec<Lba>,
    /// Of the GC area: those that the SSA lacks, and some that it has.
    summaries: BTreeMap<SegNo, Kept>,
    /// Free sections that records name.
    withheld: Vec<SecNo>,
    /// After a mount nobody knows what the device holds in vain.
    trim: bool,
}

struct Kept {
    summary: Box<SummaryBlock>,
    dirty: bool,
}

/// What a checkpoint takes.
pub(crate) struct FrozenRecords {
    pub(super) served: u64,
    /// Nothing that it needs is there.
    discards: Vec<(Lba, u64)>,
    /// Of those, blocks that counted as dead.
    dead: u64,
    stale: Vec<Lba>,
    trim: bool,
}

impl MigratingArea {
    /// Of a volume whose checkpoint contains the records up to number `served`.
    pub(crate) fn new(regions: Regions, served: u64, device: Option<Arc<dyn Device>>) -> Self {
        let records = Records {
            outstanding: VecDeque::new(),
            completed: served,
            applied: served,
            urgent: false,
            stale: Vec::new(),
            summaries: BTreeMap::new(),
            withheld: Vec::new(),
            trim: true,
        };
        MigratingArea {
            regions,
            device,
            records: Mutex::new(&locks::RECORDS, records),
            area: Mutex::new(&locks::GC_AREA, ()),
            event: EventCount::new(),
            awaited: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            dead: AtomicI64::new(0),
            counts: Counts::default(),
        }
    }

    /// The device's side.
    pub(crate) fn migrations(&self) -> Option<&dyn Migrations> {
        self.device.as_ref().and_then(|device| device.migrations())
    }

    /// Blocks that the device can hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.regions.capacity
    }

    /// Blocks that the device may hold though nobody needs them.
    pub(crate) fn dead(&self) -> u64 {
        u64::try_from(self.dead.load(SeqCst)).unwrap_or(0)
    }

    fn most_dead(&self) -> i64 {
        i64::try_from(self.regions.capacity / DEAD_SHARE).map_or(i64::MAX, |most| most.max(FEWEST_DEAD))
    }

    /// Whether the device may hold, and copy, enough blocks in vain for a checkpoint to be due for them.
    pub(crate) fn is_littered(&self) -> bool {
        self.device.is_some() && self.dead.load(SeqCst) >= self.most_dead()
    }

    /// Takes an upcall. They come in their order.
    ///
    /// # Errors
    /// This one does not.
    pub(crate) fn hear(&self, upcall: &Upcall) -> Result<()> {
        let mut records = self.records.lock();
        let next = records.completed + records.outstanding.len() as u64 + 1;
        if upcall.first != next {
            let first = upcall.first;
            return Err(Error::corrupt(format!(
                "the device tells of its record {first}, and number {next} comes next"
            )));
        }
        records.outstanding.extend(upcall.moves.iter().copied());
        records.urgent |= upcall.urgent;
        let outstanding = records.outstanding.len() as u64;
        drop(records);
        self.counts.upcalls.fetch_add(1, SeqCst);
        self.counts.most.fetch_max(outstanding, SeqCst);
        self.event.notify_all();
        Ok(())
    }

    /// The next records to apply, at most `most`, and the number of the first.
    pub(crate) fn next(&self, most: usize) -> (u64, Vec<Move>) {
        let records = self.records.lock();
        assert!(records.applied >= records.completed, "record {} is completed and not applied", records.completed);
        let at = (records.applied - records.completed) as usize;
        (records.applied + 1, records.outstanding.iter().skip(at).take(most).copied().collect())
    }

    /// Whether the device asked for a commit; asks once.
    pub(crate) fn take_urgency(&self) -> bool {
        std::mem::take(&mut self.records.lock().urgent)
    }

    /// Blocks that the device takes before the next commit.
    pub(crate) fn room(&self) -> u64 {
        self.migrations().map_or(u64::MAX, Migrations::room)
    }

    /// A record was applied, within a change: where it leads if its block was dead.
    pub(crate) fn applied(&self, number: u64, stale: Option<Lba>) {
        let mut records = self.records.lock();
        assert_eq!(number, records.applied + 1, "records are applied in their order");
        records.applied = number;
        records.stale.extend(stale);
        drop(records);
        // A waiter who is woken for each record holds up the thread that applies them. One who has just begun to wait
        // has not looked yet, or looks again.
        if number >= self.awaited.load(SeqCst) {
            self.awaited.store(u64::MAX, SeqCst);
            self.event.notify_all();
        }
    }

    /// Counts a record by what it was.
    pub(crate) fn count(&self, what: &Applied) {
        let counter = match what {
            Applied::Moved => &self.counts.moved,
            Applied::Again => &self.counts.again,
            Applied::Stale => &self.counts.stale,
        };
        counter.fetch_add(1, SeqCst);
    }

    /// Waits until all records up to a number have been applied, or the mount ends; for how long at most.
    pub(crate) fn wait_applied(&self, number: u64, most: Duration) -> bool {
        let began = steadyfs_rt::now();
        loop {
            let key = self.event.listen();
            self.awaited.fetch_min(number, SeqCst);
            let done = self.records.lock().applied >= number;
            let left = most.saturating_sub(began.elapsed());
            if done || left.is_zero() || self.stop.load(SeqCst) {
                return done;
            }
            self.event.wait_timeout(key, left);
        }
    }

    /// Nothing is heard or applied any more: threads that wait for that go on.
    pub(crate) fn end(&self) {
        self.stop.store(true, SeqCst);
        self.event.notify_all();
    }

    /// Waits until the host has heard of what the device has delivered; false if it does not: a device whose journal
    /// finds no room tells of nothing until there is some.
    fn wait_heard(&self) -> bool {
        let Some(device) = self.migrations() else { return true };
        let (delivered, began) = (device.delivered(), steadyfs_rt::now());
        loop {
            let key = self.event.listen();
            let records = self.records.lock();
            let heard = records.completed + records.outstanding.len() as u64;
            drop(records);
            let left = MOST_SILENCE.saturating_sub(began.elapsed());
            if heard >= delivered || self.stop.load(SeqCst) || left.is_zero() {
                return heard >= delivered;
            }
            self.event.wait_timeout(key, left);
        }
    }

    /// Numbers of the last record that was applied, and the last one heard.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let records = self.records.lock();
        (records.applied, records.completed + records.outstanding.len() as u64)
    }

    /// Number of the last record that was completed.
    pub(crate) fn completed(&self) -> u64 {
        self.records.lock().completed
    }

    /// What became of records so far.
    pub(crate) fn stats(&self) -> MigrationStats {
        let (outstanding, applied) = {
            let records = self.records.lock();
            (records.outstanding.len() as u64, records.applied)
        };
        MigrationStats {
            moved: self.counts.moved.load(SeqCst),
            again: self.counts.again.load(SeqCst),
            stale: self.counts.stale.load(SeqCst),
            upcalls: self.counts.upcalls.load(SeqCst),
            outstanding,
            regular_sections: u64::from(self.regions.regular_sections),
            most_outstanding: self.counts.most.load(SeqCst),
            applied,
        }
    }

    /// Completes records, whose effect is durable.
    fn complete(&self, up_to: u64) {
        let Some(device) = self.migrations() else { return };
        // First, so that nobody sees fewer records here than the device has.
        device.complete(up_to);
        let mut records = self.records.lock();
        while records.completed < up_to && records.outstanding.pop_front().is_some() {
            records.completed += 1;
        }
        assert!(records.completed <= records.applied, "record {} is completed before it is applied", records.completed);
        drop(records);
        self.event.notify_all();
    }
}

impl Records {
    /// Addresses to which records lead from blocks that are valid: those that are not applied yet.
    fn reached(&self, is_valid: impl Fn(Lba) -> bool) -> HashSet<u64> {
        let mut reached = HashSet::new();
        for record in &self.outstanding {
            if is_valid(Lba(record.from)) || reached.contains(&record.from) {
                reached.insert(record.to);
            }
        }
        reached
    }

    /// Addresses from which records lead to blocks that are valid, over however many.
    fn reaching(&self, is_valid: impl Fn(Lba) -> bool) -> HashSet<u64> {
        let mut reaching = HashSet::new();
        for record in self.outstanding.iter().rev() {
            if is_valid(Lba(record.to)) || reaching.contains(&record.to) {
                reaching.insert(record.from);
            }
        }
        reaching
    }
}

/// What a record came to.
pub(crate) enum Applied {
    /// Its block was followed.
    Moved,
    /// It was applied before a power cut.
    Again,
    /// Its block was dead.
    Stale,
}

impl Segments {
    /// Whether the device writes this segment.
    fn in_gc_area(&self, seg: SegNo) -> bool {
        self.medium.migrating().is_some_and(|area| area.regions.is_gc(self.layout.sec_of(seg)))
    }

    fn is_own_free(&self, seg: SegNo) -> bool {
        !self.in_gc_area(seg) && self.table.is_free_section(self.layout.sec_of(seg))
    }

    /// Keeps the device's blocks from coming to a segment, and its own from going.
    pub(super) fn guard_gc_area(&self, seg: SegNo) -> Option<MutexGuard<'_, ()>> {
        self.medium.migrating().filter(|_| self.in_gc_area(seg)).map(|area| area.area.lock())
    }

    /// A block was given up.
    pub(super) fn note_dead(&self) {
        if let Some(area) = self.medium.migrating()
            && area.dead.fetch_add(1, SeqCst) + 1 == area.most_dead()
        {
            area.event.notify_all();
        }
    }

    /// A block has come to a place of the GC area. The caller is in the middle of a change.
    ///
    /// # Errors
    /// Damage, or a device that mixes what it promised to keep apart; the summary cannot be read.
    pub(crate) fn land(&self, to: Lba, owner: Summary, sort: Sort) -> Result<()> {
        let misled = |what: &str| Error::corrupt(format!("the device says that it moved a block to {to}, {what}"));
        let area = self.medium.migrating().ok_or_else(|| misled("and nobody asked it to"))?;
        let (seg, off) = self.table.locate(to).ok_or_else(|| misled("outside the main area"))?;
        if !self.in_gc_area(seg) {
            return Err(misled("which is not in its area"));
        }
        let log = if sort == Sort::Node { Log::ColdNode } else { Log::ColdData };
        // Read before the locks: a used segment's summary does not change but here.
        let is_known = area.records.lock().summaries.contains_key(&seg);
        // Bound again, maybe before its release.
        let is_new = || self.table.is_free(seg) || self.table.holds_nodes(seg) != log.is_node();
        let stored = if is_known || is_new() { None } else { Some(self.stored_summary(seg)?) };
        let _guard = area.area.lock();
        let fresh = is_new();
        if !self.table.land(seg, off, log, self.clock.elapsed()) {
            return Err(misled("where something else lies"));
        }
        let mut records = area.records.lock();
        if fresh {
            records.summaries.remove(&seg);
        }
        let kept = records.summaries.entry(seg).or_insert_with(|| {
            let empty = || SummaryBlock::new(kind_of(log));
            Kept { summary: Box::new(stored.unwrap_or_else(empty)), dirty: true }
        });
        kept.summary.set(off as u16, owner);
        kept.dirty = true;
        assert!(self.table.is_valid(seg, off), "a block came to {to} and is not valid there");
        Ok(())
    }

    /// The summary of a segment of the GC area, where it is in memory.
    pub(super) fn moved_summary(&self, seg: SegNo) -> Option<SummaryBlock> {
        let area = self.medium.migrating()?;
        area.records.lock().summaries.get(&seg).map(|kept| (*kept.summary).clone())
    }

    /// Recovery has changed the summary of a segment of the GC area.
    pub(super) fn keep_moved_summary(&self, seg: SegNo, summary: &SummaryBlock) -> bool {
        let Some(area) = self.medium.migrating().filter(|_| self.in_gc_area(seg)) else { return false };
        area.records.lock().summaries.insert(seg, Kept { summary: Box::new(summary.clone()), dirty: true });
        true
    }

    /// Takes what a checkpoint says of records, and submits what the SSA lacks. `loose` are blocks that the commit lets
    /// go. The checkpoint lock is held exclusively.
    pub(super) fn freeze_records(&self, loose: &super::pinned::Loose) -> Option<FrozenRecords> {
        let area = self.medium.migrating()?;
        let mut records = area.records.lock();
        let mut needed = records.reaching(|lba| self.is_valid(lba) == Some(true));
        needed.extend(records.reached(|lba| self.is_valid(lba) == Some(true)));
        let (stale, trim) = (std::mem::take(&mut records.stale), std::mem::take(&mut records.trim));
        let served = records.applied;
        assert!(served >= records.completed, "a checkpoint contains {served} records, and more are completed");
        let mut saved = Vec::new();
        if records.summaries.len() > KEPT_SUMMARIES {
            records.summaries.retain(|_, kept| kept.dirty);
        }
        for (seg, kept) in records.summaries.iter_mut().filter(|(_, kept)| kept.dirty) {
            kept.dirty = false;
            saved.push((*seg, kept.summary.clone()));
        }
        drop(records);
        if !self.io.planted.is(Canary::TrustSsa) {
            saved.iter().for_each(|(seg, summary)| self.write_summary(*seg, summary, || ()));
        }
        let careless = self.io.planted.is(Canary::StaleDiscardsNew);
        let may = |lba: &Lba| careless || self.is_valid(*lba) == Some(false) && !needed.contains(&lba.get());
        let mut blocks: Vec<Lba> = stale.iter().copied().filter(may).collect();
        let mut dead = 0;
        for (seg, map) in loose {
            let died: Vec<Lba> = offsets(map).map(|off| self.lba_of(*seg, off)).collect();
            dead += died.len() as u64;
            blocks.extend(died.into_iter().filter(may));
        }
        blocks.sort_unstable();
        blocks.dedup();
        let mut discards = runs(&blocks);
        // Free sections of the regular area were discarded before the first write. Where a log still stands that has
        // taken no block since the mount, blocks of the last one may lie.
        let stand = |log: Log| Some(self.logs.head(log)).filter(|head| head.strange).map(|head| head.seg);
        let untouched: Vec<SegNo> = if trim { Log::ALL.into_iter().filter_map(stand).collect() } else { Vec::new() };
        let is_open = |seg: &SegNo| self.table.state(*seg).is_open() && !untouched.contains(seg);
        let is_trimmed = |seg: &SegNo| !is_open(seg) && !self.is_own_free(*seg);
        for seg in self.layout.segments().filter(|seg| trim && is_trimmed(seg)) {
            discards.extend(runs(&(0..BLOCKS).map(|off| self.lba_of(seg, off)).filter(may).collect::<Vec<_>>()));
        }
        Some(FrozenRecords { served, discards, dead, stale, trim })
    }

    /// The checkpoint has committed: discards what it does not need, completes what it contains, and then gives the
    /// segments back that it found empty.
    pub(super) fn committed_records(&self, frozen: &FrozenRecords, prefree: &[SegNo]) {
        let Some(area) = self.medium.migrating() else { return };
        if self.io.planted.is(Canary::ReuseEarly) {
            prefree.iter().for_each(|seg| self.begin_section_anew(*seg));
            self.release(prefree);
        }
        if area.device.is_some() {
            for batch in frozen.discards.chunks(DISCARDS) {
                let failed = self.io.discard_runs(batch).into_iter().filter_map(std::result::Result::err).next();
                if let Some(error) = failed {
                    tracing::warn!(%error, "the device goes on to hold blocks that nobody needs");
                }
            }
        }
        area.dead.fetch_sub(i64::try_from(frozen.dead).unwrap_or(0), SeqCst);
        area.complete(frozen.served);
        if !self.io.planted.is(Canary::ReuseEarly) {
            self.release_unnamed(area, prefree);
        }
    }

    /// The checkpoint has failed: the next one takes what this one took.
    pub(super) fn failed_records(&self, frozen: &FrozenRecords) {
        let Some(area) = self.medium.migrating() else { return };
        let mut records = area.records.lock();
        records.stale.extend(frozen.stale.iter().copied());
        records.trim |= frozen.trim;
        // Whether their summaries have arrived nobody knows.
        records.summaries.values_mut().for_each(|kept| kept.dirty = true);
    }

    /// A fault, for tests: completes what the next checkpoint will contain before it has committed.
    pub(super) fn complete_early(&self, frozen: &FrozenRecords) {
        if let Some(area) = self.medium.migrating().filter(|_| self.io.planted.is(Canary::CompleteEarly)) {
            area.complete(frozen.served);
        }
    }

    /// Gives segments back, but for those in sections that records name which are not completed: a later checkpoint
    /// finds them empty again.
    fn release_unnamed(&self, area: &MigratingArea, prefree: &[SegNo]) {
        if !area.wait_heard() {
            tracing::warn!("sections stay taken that the device may still tell of");
            return;
        }
        let section = |block: u64| self.table.locate(Lba(block)).map(|(seg, _)| self.layout.sec_of(seg));
        let mut records = area.records.lock();
        let named: HashSet<SecNo> =
            records.outstanding.iter().flat_map(|record| [record.from, record.to]).filter_map(section).collect();
        let (still, free): (Vec<SecNo>, Vec<SecNo>) =
            records.withheld.drain(..).partition(|section| named.contains(section));
        records.withheld = still;
        drop(records);
        free.into_iter().for_each(|section| self.table.put_free_section_back(section));
        for seg in prefree.iter().filter(|seg| !named.contains(&self.layout.sec_of(**seg))) {
            let _guard = self.guard_gc_area(*seg);
            if self.table.state(*seg).is_prefree() {
                // First: a log may take it at once.
                self.begin_section_anew(*seg);
                self.table.release(*seg);
            }
        }
    }

    /// Comes before the first write of a mount: hears what is outstanding, and sees to it that free sections hold
    /// nothing. Those that records name are left alone for now.
    ///
    /// # Errors
    /// The device has more, or fewer, records than the volume knows of.
    pub(crate) fn begin_records(&self) -> Result<()> {
        let Some(area) = self.medium.migrating() else { return Ok(()) };
        let Some(device) = area.migrations() else { return Ok(()) };
        let (served, _) = area.progress();
        let last = device.resume(served);
        {
            // What the checkpoint contains and was not completed comes first.
            let mut records = area.records.lock();
            records.completed = device.completed();
            if records.completed > served || served > last {
                let completed = records.completed;
                return Err(Error::corrupt(format!(
                    "the checkpoint contains {served} records; the device has completed {completed} and delivered {last}"
                )));
            }
        }
        while area.progress().1 < last {
            match device.next() {
                Some(upcall) => area.hear(&upcall)?,
                None => return Err(Error::corrupt("the device has closed before it told of its records")),
            }
        }
        // Nothing moves before the first checkpoint of the mount has committed and discarded what nobody needs.
        let mut records = area.records.lock();
        let named: Vec<SecNo> = {
            let ends = records.outstanding.iter().flat_map(|record| [record.from, record.to]);
            ends.filter_map(|block| self.table.locate(Lba(block))).map(|(seg, _)| self.layout.sec_of(seg)).collect()
        };
        for section in named {
            if self.table.take_section_if_free(section) {
                records.withheld.push(section);
            }
        }
        drop(records);
        let sections = (0..area.regions.regular_sections).map(SecNo::new);
        let free: Vec<Lba> = sections
            .filter(|section| self.table.is_free_section(*section))
            .filter_map(|section| self.layout.segs_of(section).next())
            .map(|seg| self.lba_of(seg, 0))
            .collect();
        for batch in free.chunks(DISCARDS) {
            let whole: Vec<(Lba, u64)> = batch.iter().map(|lba| (*lba, self.layout.blocks_per_sec())).collect();
            self.io.discard_runs(&whole).into_iter().try_for_each(|result| result.map_err(Error::Io))?;
        }
        Ok(())
    }

    /// Moves logs to sections of their own that cannot wait with that for their first block: the checkpoint says where
    /// the chain begins, and no block is valid behind where it says that a log stands. The others take no section until
    /// they need one, so that mounts which end at once, one after the other, leave enough.
    pub(super) fn leave_chain_sections(&self) -> Result<()> {
        for log in Log::ALL {
            let mut head = self.logs.head(log);
            let waits = log != Log::WarmNode && !(head.next..BLOCKS).any(|off| self.table.is_valid(head.seg, off));
            if head.strange && (!waits || steadyfs_rt::mutated("logs-wait-for-their-first-block")) {
                self.leave_section(log, &mut head)?;
            }
        }
        Ok(())
    }
}

/// Offsets of the blocks of a map.
fn offsets(map: &super::pinned::Map) -> impl Iterator<Item = u32> + '_ {
    (0..BLOCKS).filter(|off| map[*off as usize / 64] & (1 << (63 - off % 64)) != 0)
}

/// Blocks that lie side by side, of an ascending list.
fn runs(blocks: &[Lba]) -> Vec<(Lba, u64)> {
    blocks.chunk_by(|a, b| *a + 1 == *b).map(|run| (run[0], run.len() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_rt::sim::{self, Costs, SimConfig};
    use steadyfs_rt::{Cost, now, spawn};

    /// A wake-up takes a millisecond. Whoever waits for the last of a thousand records is woken for that one.
    #[test]
    fn a_waiter_for_a_record_is_not_woken_for_those_before_it() {
        let mut costs = Costs::free();
        costs.set(Cost::WakeUp, 1_000_000);
        let config = SimConfig { cores: 4, costs, ..SimConfig::timeless() };
        let took = sim::run(config, || {
            let regions = Regions { regular_sections: 8, capacity: 4096 };
            let area = Arc::new(MigratingArea::new(regions, 0, None));
            let waiters = [300, 1000, 1000, 700].map(|number| {
                let area = Arc::clone(&area);
                spawn("waiter", move || assert!(area.wait_applied(number, Duration::from_secs(60))))
            });
            steadyfs_rt::sleep(Duration::from_millis(10));
            let began = now();
            (1..=1000).for_each(|number| area.applied(number, None));
            let took = began.elapsed();
            waiters.into_iter().for_each(|waiter| waiter.join().expect("all have been applied"));
            took
        });
        let took = took.expect("no deadlock").value;
        // Records 300, 700 and 1000 wake those who wait: at most four each.
        assert!(took <= Duration::from_millis(12), "{took:?}");
    }
}
