//! The device collects: threads that follow what it moves, and the gate of such volumes.
//!
//! One thread hears upcalls, another applies their records, one after the other. It reads ahead what it needs for them,
//! for a few upcalls at a time. A record names a block, and the rule for it has three cases:
//! - The block is still used where it was, so its owner comes to refer to the new place.
//! - The new place is in use already, so the record was applied before a power cut.
//! - The block is dead, and its page is to be discarded.
//!
//! A record that cannot be applied for now is tried again, and none is passed over.
//!
//! A change passes the gate if there are free sections for it and for the next checkpoint, and if the device has room.
//! That room is for the change beside three others: valid blocks, dead ones not yet discarded, and nodes that records
//! change meanwhile. The thread that applies records asks the same before each few. Where room is short a checkpoint is
//! made; it has dead blocks discarded, records completed and empty sections given back. Where that does not help, the
//! device is asked to collect.
//!
//! A device that has as many records as it may collects no more until some are completed, and takes no more than its
//! room (`Migrations::room`). So what has passed the gate, what is on its way to the device and what a checkpoint would
//! write stay below half of that room, and with the nodes that followed records change, below all of it.
//!
//! Kept true: a thread that waits here holds no lock and no change, so records can be applied meanwhile. A wait for the
//! device has a limit, and does not begin once one of the two threads has ended.

use crate::canary::Canary;
use crate::counters::Cause;
use crate::durable::Durable;
use crate::error::{Error, Result};
use crate::files::pages::Budget;
use crate::gate::Headroom;
use crate::gate::admission::Admissions;
use crate::locks;
use crate::reclaim::Reclaim;
use crate::volume::Volume;
use crate::volume::nodes::slots;
use crate::volume::segments::migrating::{Applied, MigratingArea, MigrationStats};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Weak};
use std::time::Duration;
use steadyfs_device::{Move, Sort, UPCALL_RECORDS};
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{Lba, Log, Nid, SegNo, Slot};
use steadyfs_rt::{JoinHandle, Mutex, spawn};

/// Rounds without gain before the gate stops trying.
const HOPELESS_ROUNDS: u32 = 8;
/// Rounds before the end of a mount leaves the rest to the next one.
const DRAIN_ROUNDS: u32 = 64;
/// How long the gate waits for what it has asked the device for.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long the end of a mount waits for records to be applied.
const LAST_RECORDS: Duration = Duration::from_secs(60);
/// How long a record waits that could not be applied.
const RETRY: Duration = Duration::from_secs(1);
/// Records for which a checkpoint is made that the device asks for, although more have been heard.
const BATCH: u64 = 4096;
/// Records whose owners are read at the same time, and a part of the capacity that they are not more than.
const AHEAD: u64 = 2 * UPCALL_RECORDS as u64;
const AHEAD_SHARE: u64 = 64;
/// Sections that are left in any case: the logs' next ones.
const SPARE_SECTIONS: u64 = Log::COUNT as u64 + 1;

/// Collection by the device: the threads of a mounted volume.
pub(crate) struct DeviceReclaim {
    vol: Arc<Volume>,
    /// Its dirty pages of directories are written by the next checkpoint.
    budget: Budget,
    admissions: Arc<Admissions>,
    area: Arc<MigratingArea>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// They have begun, and nobody has ended them.
    runs: Mutex<bool>,
}

impl DeviceReclaim {
    pub(super) fn new(vol: &Arc<Volume>, budget: &Budget, area: &Arc<MigratingArea>) -> Self {
        DeviceReclaim {
            vol: Arc::clone(vol),
            budget: budget.clone(),
            admissions: Arc::new(Admissions::new(None)),
            area: Arc::clone(area),
            threads: Mutex::new(&locks::STATE, Vec::new()),
            runs: Mutex::new(&locks::STATE, false),
        }
    }

    /// Changes that have passed the gate.
    pub(super) fn admissions(&self) -> &Arc<Admissions> {
        &self.admissions
    }

    /// Starts the threads of a writable volume.
    pub(super) fn start(&self, reclaim: &Arc<Reclaim>) {
        let area = &self.area;
        if area.migrations().is_none() {
            return;
        }
        assert!(self.threads.lock().is_empty(), "two threads follow the device");
        let (volume, listens) = (Arc::downgrade(reclaim), Following(Arc::clone(area)));
        let listener = spawn("steadyfs-records", move || {
            while let Some(upcall) = listens.0.migrations().and_then(|device| device.next()) {
                if let Err(damage) = listens.0.hear(&upcall) {
                    volume.upgrade().iter().for_each(|reclaim| reclaim.vol.stop(&damage));
                    return;
                }
            }
        });
        let (volume, follows) = (Arc::downgrade(reclaim), Following(Arc::clone(area)));
        let follower = spawn("steadyfs-migrator", move || follow_records(&volume, &follows.0));
        self.threads.lock().extend([listener, follower]);
        *self.runs.lock() = true;
    }

    /// Follows all that the device has moved, and completes it by checkpoints for this cause.
    pub(super) fn drain(&self, reclaim: &Reclaim, cause: Cause) -> Result<()> {
        let area = &self.area;
        let Some(device) = area.migrations() else { return Ok(()) };
        for _ in 0..DRAIN_ROUNDS {
            let completed = area.completed();
            let last = device.deliver();
            assert!(last >= completed, "record {completed} is completed, and {last} is the last there is");
            if last == completed {
                return Ok(());
            }
            if !area.wait_applied(last, LAST_RECORDS) {
                break;
            }
            // One that has nothing to write would not be made.
            drop(self.vol.begin_change()?);
            reclaim.durable.checkpoint(cause)?;
        }
        tracing::warn!("some of what the device has moved is left to the next mount");
        Ok(())
    }

    /// Ends the threads, and the session of the device.
    pub(super) fn end(&self) {
        self.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if !thread.is_current() && thread.join().is_err() {
                self.vol.stop(&Error::Defect("a thread that follows the device panicked".into()));
            }
        }
    }

    fn stop(&self) {
        let ran = std::mem::take(&mut *self.runs.lock());
        if ran {
            self.area.end();
            if let Some(device) = self.area.migrations() {
                device.close();
            }
        }
    }
}

/// A thread that hears or applies records. However it ends, a panic included, nobody waits for it any more.
struct Following(Arc<MigratingArea>);

impl Drop for Following {
    fn drop(&mut self) {
        if !steadyfs_rt::mutated("who-follows-no-more-says-so") {
            self.0.end();
        }
    }
}

/// Applies what is heard, until the mount ends or nothing can be applied any more.
fn follow_records(volume: &Weak<Reclaim>, area: &MigratingArea) {
    loop {
        let key = area.event.listen();
        if area.stop.load(SeqCst) {
            return;
        }
        let Some(reclaim) = volume.upgrade() else { return };
        let retry = match reclaim.apply_records(area) {
            Ok(()) => None,
            Err(error) if reclaim.vol.check_writable().is_err() => {
                tracing::debug!(%error, "records of the device are left to the next mount");
                return;
            }
            Err(damage @ Error::Corrupt(_)) => {
                reclaim.vol.stop(&damage);
                return;
            }
            Err(error) => {
                tracing::error!(%error, "a record of the device cannot be applied yet");
                Some(RETRY)
            }
        };
        drop(reclaim);
        match retry {
            None => area.event.wait(key),
            Some(time) => drop(area.event.wait_timeout(key, time)),
        }
    }
}

impl Drop for DeviceReclaim {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Volume {
    /// Whose these blocks are, as far as they are valid now and that can be read; their nodes come into the cache. All
    /// of it is read at the same time.
    fn owners_ahead(&self, records: &[Move]) -> Vec<Option<(Summary, Sort)>> {
        let segments = self.segments();
        let place = |record: &Move| segments.table.locate(Lba(record.from));
        let places: Vec<Option<(SegNo, u32)>> = records
            .iter()
            .map(|record| place(record).filter(|&(seg, off)| segments.table.is_valid(seg, off)))
            .collect();
        let needed: BTreeSet<SegNo> = places.iter().flatten().map(|(seg, _)| *seg).collect();
        let summaries = segments.summaries_of(needed.into_iter());
        let owner = |(seg, off): (SegNo, u32)| owner_in(summaries.get(&seg)?, off).ok();
        let owners: Vec<Option<(Summary, Sort)>> = places.into_iter().map(|place| place.and_then(owner)).collect();
        let nodes: BTreeSet<Nid> = owners.iter().flatten().map(|(summary, _)| summary.nid).collect();
        self.read_nodes_ahead(nodes.into_iter());
        owners
    }

    fn apply_record(
        &self,
        area: &MigratingArea,
        number: u64,
        record: Move,
        ahead: Option<(Summary, Sort)>,
    ) -> Result<()> {
        let (vol, segments) = (self, self.segments());
        let (from, to) = (Lba(record.from), Lba(record.to));
        assert!(number > area.completed(), "record {number} is applied again");
        let (seg, off) = segments.table.locate(from).ok_or_else(|| misled(record))?;
        if vol.io.planted.is(Canary::SkipRecord) && number.is_multiple_of(3) {
            let _change = vol.begin_change()?;
            area.applied(number, None);
            return Ok(());
        }
        // It does not change while the record is outstanding, for the segment is not taken again. Nobody could look
        // ahead where the block has come by another record just now.
        let owner = match ahead {
            _ if !segments.table.is_valid(seg, off) => None,
            Some(owner) => Some(owner),
            None => Some(owner_in(&segments.summary_of(seg)?, off)?),
        };
        let change = vol.begin_change()?;
        let followed = match owner {
            Some((summary, Sort::Data)) => follow_data(vol, from, to, summary)?,
            Some((summary, Sort::Node)) => follow_node(vol, from, to, summary)?,
            None => false,
        };
        if followed && vol.io.planted.is(Canary::HalfRecord) {
            // The rest is another change.
            drop(change);
            steadyfs_rt::sleep(Duration::from_millis(3));
            let _change = vol.begin_change()?;
            vol.invalidate(Slot::At(from))?;
            area.applied(number, None);
            return Ok(());
        }
        let what = match () {
            () if followed => Applied::Moved,
            () if vol.placement.is_valid(to) == Some(true) => Applied::Again,
            () => Applied::Stale,
        };
        if followed {
            assert_eq!(vol.placement.is_valid(to), Some(true), "a block was followed to {to}, where nothing is");
            vol.invalidate(Slot::At(from))?;
        }
        assert_ne!(vol.placement.is_valid(from), None, "record {number} names no block of the main area");
        let again = matches!(what, Applied::Again) && vol.io.planted.is(Canary::StaleDiscardsNew);
        area.count(&what);
        area.applied(number, (again || matches!(what, Applied::Stale)).then_some(to));
        Ok(())
    }
}

impl Reclaim {
    /// See `Fs::migration_stats`.
    pub(crate) fn migration_stats(&self) -> Option<MigrationStats> {
        let segments = self.vol.placement.segments()?;
        segments.medium.migrating().map(|area| area.stats())
    }

    /// Applies what was heard.
    fn apply_records(&self, area: &MigratingArea) -> Result<()> {
        let Some(device) = self.by_device() else { return Ok(()) };
        let mut unsaid = 0;
        loop {
            let (first, records) = area.next(ahead(area) as usize);
            if records.is_empty() || area.stop.load(SeqCst) {
                break;
            }
            if !device.may_follow(records.len() as u64) {
                self.durable.checkpoint(Cause::Backlog)?;
            }
            let owners = self.vol.owners_ahead(&records);
            for ((number, record), owner) in (first..).zip(&records).zip(owners) {
                if area.stop.load(SeqCst) {
                    return Ok(());
                }
                self.vol.apply_record(area, number, *record, owner)?;
            }
            unsaid += records.len() as u64;
            if area.is_littered() || unsaid >= BATCH && area.take_urgency() {
                self.durable.checkpoint(Cause::Backlog)?;
                unsaid = 0;
            }
        }
        // One checkpoint for all that was heard while the last one was made.
        if area.is_littered() || unsaid > 0 && area.take_urgency() {
            self.durable.checkpoint(Cause::Backlog)?;
        }
        Ok(())
    }
}

fn misled(record: Move) -> Error {
    Error::corrupt(format!("the device says that it moved block {} to {}", record.from, record.to))
}

/// Whose a valid block is, and what.
fn owner_in(summary: &SummaryBlock, off: u32) -> Result<(Summary, Sort)> {
    let sort = if summary.kind()? == SummaryKind::Node { Sort::Node } else { Sort::Data };
    Ok((summary.get(off as u16), sort))
}

/// Has the owner of a block of data refer to its new place; false if it does not refer to the old one.
fn follow_data(vol: &Volume, from: Lba, to: Lba, owner: Summary) -> Result<bool> {
    let node = match vol.node(owner.nid) {
        Ok(node) => node,
        Err(Error::NotFound) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut guard = node.write(&vol.nodes);
    let features = vol.sb.features();
    let refers = !guard.is_dead()
        && vol.nat.get(&vol.io, owner.nid)?.version == owner.version
        && slots::get(guard.bytes(), features, owner.ofs_in_node)? == Some(Slot::At(from));
    if refers {
        // First: a thread that finds the new address may read there.
        assert!(from != to, "a block moves to where it is");
        vol.segments().land(to, owner, Sort::Data)?;
        slots::set(guard.edit(), features, owner.ofs_in_node, Slot::At(to))?;
    }
    Ok(refers)
}

/// Has the NAT say that a node is at its new place; false if it is not at the old one. Its copy in memory stays.
fn follow_node(vol: &Volume, from: Lba, to: Lba, owner: Summary) -> Result<bool> {
    let node = match vol.node(owner.nid) {
        Ok(node) => node,
        Err(Error::NotFound) => return Ok(false),
        Err(error) => return Err(error),
    };
    let guard = node.write(&vol.nodes);
    let _stays = vol.nat.hold(&vol.io, owner.nid)?;
    if guard.is_dead() || vol.nat.get(&vol.io, owner.nid)?.addr != Slot::At(from) {
        return Ok(false);
    }
    assert!(from != to, "a node moves to where it is");
    vol.segments().land(to, owner, Sort::Node)?;
    vol.nat.relocate(&vol.io, owner.nid, to)?;
    Ok(true)
}

/// Records that are followed at a time, each of which may change a node.
fn ahead(area: &MigratingArea) -> u64 {
    AHEAD.min(area.capacity() / AHEAD_SHARE).max(1)
}

impl Headroom for DeviceReclaim {
    fn has_room(&self) -> bool {
        self.has_room_for(0)
    }
}

impl DeviceReclaim {
    /// Whether a change finds room for `blocks` blocks.
    fn has_room_for(&self, blocks: u64) -> bool {
        let segments = self.vol.segments();
        let area = &self.area;
        let take = blocks + self.admissions.blocks() + self.dirty();
        let sections = take.div_ceil(segments.layout.blocks_per_sec()) + SPARE_SECTIONS;
        // Records that are followed meanwhile change nodes, too.
        let holds = segments.table.free_sections() >= sections && self.can_hold(take + ahead(area));
        holds && Owed::of(self, blocks).fits(area)
    }

    /// Whether the device can hold `more` blocks beside valid ones, and dead ones not yet discarded.
    fn can_hold(&self, more: u64) -> bool {
        let area = &self.area;
        area.capacity().checked_sub(area.dead() + more).is_some_and(|room| self.vol.space.holds_at_most(room))
    }

    /// Blocks that a checkpoint would take now. A page of a directory takes its block, and may change the nodes above
    /// it; so does what the device has refused.
    fn dirty(&self) -> u64 {
        self.vol.nodes.dirty_count() as u64 + 2 * (self.budget.dirty_in_dirs() + self.vol.io.failed.count() as u64)
    }

    /// Whether the device takes, and can hold, what a checkpoint would write after `records` records.
    fn may_follow(&self, records: u64) -> bool {
        self.can_hold(self.dirty() + records + self.admissions.blocks())
            && Owed::of(self, 0).all() + records <= self.area.room()
    }

    /// Makes some room for `blocks` blocks.
    ///
    /// # Errors
    /// `NoSpace`; why a checkpoint failed.
    pub(super) fn more_room(&self, durable: &Durable, blocks: u64, rounds: &mut u32) -> Result<()> {
        if *rounds >= HOPELESS_ROUNDS {
            return Err(Error::NoSpace);
        }
        if self.waits_for_writes(blocks) {
            return Ok(());
        }
        let before = self.progress();
        let lacks = self.lacks_room(blocks);
        if lacks {
            self.follow();
            // One that has nothing to write would not be made.
            drop(self.vol.begin_change()?);
        }
        durable.checkpoint(Cause::Needed)?;
        if self.has_room_for(blocks) {
            return Ok(());
        }
        if !lacks {
            self.press();
        }
        // Others may take less than they may.
        self.admissions.wait_for_some();
        let now = self.progress();
        assert!(now.1 >= before.1, "fewer records are applied than before");
        let gains = now.0 > before.0 || now.1 > before.1 || now.2 > before.2;
        *rounds = if gains { 0 } else { *rounds + 1 };
        Ok(())
    }

    /// Whether the device will take `blocks` blocks when it has those on their way; waits for some of it.
    fn waits_for_writes(&self, blocks: u64) -> bool {
        let area = &self.area;
        let owed = || Owed::of(self, blocks);
        let is_too_much = || !owed().fits(area) && owed().landed().fits(area);
        let waits = is_too_much();
        if waits && !self.admissions.wait_for_some() {
            self.vol.io.wait_landing(is_too_much);
        }
        waits
    }

    /// Whether the device would not take `blocks` blocks after a checkpoint either, but for records that this
    /// completes.
    fn lacks_room(&self, blocks: u64) -> bool {
        !Owed::of(self, blocks).committed().fits(&self.area)
    }

    /// Waits for a while until all that the device tells has been applied.
    fn follow(&self) {
        let Some(device) = self.area.migrations() else { return };
        self.area.wait_applied(device.deliver(), PATIENCE);
    }

    /// What grows where there is still hope: free sections, records applied, the device's room.
    fn progress(&self) -> (u64, u64, u64) {
        let room = self.area.room();
        (self.vol.segments().table.free_sections(), self.area.progress().0, room)
    }

    /// Asks the device to collect, and waits until what it tells then has been applied.
    fn press(&self) {
        self.area.migrations().into_iter().for_each(|device| device.press());
        self.follow();
    }
}

/// Blocks that the device has to take before the next commit. It takes no more than its room while it has too many
/// records to collect, so all that cannot go back counts here: blocks that have passed the gate, and blocks on their
/// way.
#[derive(Clone, Copy)]
struct Owed {
    /// By those who want to pass now: each block, and a node that refers to it.
    wanted: u64,
    /// By those who have passed, as much.
    passed: u64,
    flying: u64,
    /// By the checkpoint.
    dirty: u64,
}

impl Owed {
    fn of(device: &DeviceReclaim, blocks: u64) -> Self {
        Owed {
            wanted: 2 * blocks,
            passed: 2 * device.admissions.blocks(),
            flying: device.vol.io.in_flight(),
            dirty: device.dirty(),
        }
    }

    fn all(self) -> u64 {
        self.wanted + self.passed + self.flying + self.dirty
    }

    /// Whether the device takes that. Changes leave half of its room to the nodes of records, which have to be followed
    /// before it gets more.
    fn fits(self, area: &MigratingArea) -> bool {
        2 * (self.all() + ahead(area)) <= area.room()
    }

    /// The blocks left when all that is on its way has arrived.
    fn landed(self) -> Self {
        Owed { passed: 0, flying: 0, ..self }
    }

    /// The blocks left after a checkpoint.
    fn committed(self) -> Self {
        Owed { dirty: 0, ..self.landed() }
    }
}
