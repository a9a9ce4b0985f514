//! Placement in an address space that is never used twice, as IPLFS has it (docs/INFINITE-FORMAT.md): six logs that are
//! only ever appended to, each in a stretch of its own, and a meta log for the discard logs.
//!
//! Nothing is collected. A block that dies is discarded once a checkpoint without it has committed ([`dead`]), and
//! until then the checkpoint's discard log names it.
//!
//! Kept true: no block of log space is written twice, crashes included. Nothing is written at or behind the limit that
//! the checkpoint in force has for its log. The heads of a mount begin at these limits. So an earlier mount may have
//! written, since the last checkpoint, what lies between its head and its limit. Recovery adopts the blocks that the
//! chain names, and the rest is dead.

pub(crate) mod dead;
mod freeze;
pub(crate) mod ranges;

pub(crate) use freeze::FrozenLogs;

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::discard::{DiscardStats, MOST_REQUESTS, Signal};
use crate::volume::io::BlockIo;
use crate::volume::placement::places::{NodePlace, Run};
use dead::DeadBlocks;
use ranges::Ranges;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_device::{PageBuf, errno};
use steadyfs_format::infinite::{self, Claim, Header, MIN_CAPACITY, Stretch, SuperBlock};
use steadyfs_format::summary::Summary;
use steadyfs_format::{Block, Lba, Log, Width};
use steadyfs_rt::{Cost, Mutex, Pending, charge_n};

/// Most blocks of one discard: a longer one would keep a device from everything else.
const MOST_BLOCKS: u64 = 1 << 26;

/// The log space of a mounted volume.
pub(crate) struct InfiniteLogs {
    /// As it was at the mount.
    pub(crate) sb: SuperBlock,
    /// Blocks of log space that may be held at one time.
    capacity: AtomicU64,
    /// The block that each log takes next, by stretch.
    next: [AtomicU64; Stretch::COUNT],
    /// The limits of the checkpoint in force.
    limits: [AtomicU64; Stretch::COUNT],
    /// Where the log of the chain began in this mount.
    began: u64,
    /// Of the checkpoint that was mounted.
    version: u64,
    /// Where this mount's claim goes.
    claim_place: Lba,
    dead: Mutex<DeadBlocks>,
    /// What an earlier mount may have written after its last checkpoint, until recovery is over.
    behind: Mutex<Option<Behind>>,
    io: Arc<BlockIo>,
    pub(crate) signal: Arc<Signal>,
    /// Batches of discards that are being put together, or are at the device.
    pub(crate) under_way: Pending,
    requests: AtomicU64,
    failed: AtomicU64,
}

/// Blocks between heads and limits of the checkpoint that was mounted.
struct Behind {
    gaps: [Range<Lba>; Stretch::COUNT],
    adopted: Ranges,
}

/// How much room the logs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRoom {
    /// Blocks that each log can take before the next checkpoint, of the one that has fewest.
    pub(crate) before_limit: u64,
    /// Blocks that each log can take at all, of the one that has fewest.
    pub(crate) before_end: u64,
    /// DeadBlocks blocks that the device may hold.
    pub(crate) dead: u64,
    /// Blocks that the device may hold in all.
    pub(crate) capacity: u64,
}

impl InfiniteLogs {
    /// What a checkpoint says: heads, the limits that count under it, what its discard log names. A mount that changes
    /// the volume begins at the limits, and writes nothing before it has claimed more ([`InfiniteLogs::claim`]).
    pub(crate) fn new(
        sb: &SuperBlock,
        header: &Header,
        limits: [Lba; Stretch::COUNT],
        claim_place: Lba,
        named: Ranges,
        io: &Arc<BlockIo>,
        read_only: bool,
    ) -> Self {
        let range = header.discard_log.range();
        let log = (range.start < range.end).then_some(range);
        let heads = header.heads.map(|head| head.next);
        let begin = if read_only { heads } else { limits };
        let gaps = std::array::from_fn(|index| heads[index]..limits[index]);
        let numbers = |of: [Lba; Stretch::COUNT]| of.map(|lba| AtomicU64::new(lba.get()));
        InfiniteLogs {
            sb: sb.clone(),
            capacity: AtomicU64::new(sb.capacity()),
            began: begin[Log::WarmNode.index()].get(),
            next: numbers(begin),
            limits: numbers(begin),
            version: header.version,
            claim_place,
            dead: Mutex::new(&locks::DEAD_BLOCKS, DeadBlocks::loaded(log, named)),
            behind: Mutex::new(&locks::ADOPTED, (!read_only).then(|| Behind { gaps, adopted: Ranges::default() })),
            io: Arc::clone(io),
            signal: Arc::default(),
            under_way: Pending::new(),
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn end_of(&self, stretch: Stretch) -> Lba {
        self.sb.space().range(stretch).end
    }

    /// The limit of a log whose head is here, under the next checkpoint or claim.
    fn limit_from(&self, stretch: Stretch, next: u64) -> Lba {
        Lba::new(next.saturating_add(self.sb.leap())).min(self.end_of(stretch))
    }

    /// Where a log has to stop until the next checkpoint.
    fn limit_of(&self, stretch: Stretch) -> u64 {
        let past = if self.io.planted.is(Canary::PastLimit) { 4 * self.sb.leap() } else { 0 };
        self.limits[stretch.index()].load(SeqCst).saturating_add(past).min(self.end_of(stretch).get())
    }

    /// Before the first write of a mount: claims the next piece of every log, and makes that durable.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn claim(&self) -> Result<()> {
        let limits: [Lba; Stretch::COUNT] =
            Stretch::ALL.map(|stretch| self.limit_from(stretch, self.next[stretch.index()].load(SeqCst)));
        if self.room().before_end == 0 {
            return Err(Error::ReadOnly(WORN_OUT.to_owned()));
        }
        let block = Claim { version: self.version, limits }.encode(&self.sb, self.claim_place);
        self.io.write_commit(self.claim_place, &PageBuf::from_slice(&block))?;
        for (limit, lba) in self.limits.iter().zip(limits) {
            limit.store(lba.get(), SeqCst);
        }
        Ok(())
    }

    /// Takes up to `wanted` neighbouring blocks of a log; none where its limit is reached.
    fn take(&self, stretch: Stretch, wanted: u64) -> Range<Lba> {
        let (index, limit) = (stretch.index(), self.limit_of(stretch));
        let mut taken = 0;
        let step = |next: u64| {
            taken = wanted.min(limit.saturating_sub(next));
            (taken > 0).then_some(next + taken)
        };
        match self.next[index].fetch_update(SeqCst, SeqCst, step) {
            Ok(next) => Lba::new(next)..Lba::new(next + taken),
            Err(next) => Lba::new(next)..Lba::new(next),
        }
    }

    /// Takes the next blocks of a log of data, one per owner.
    pub(crate) fn take_data(&self, log: Log, owners: &[Summary]) -> Result<Vec<Run>> {
        let mut run = self.take(Stretch::Of(log), owners.len() as u64);
        if self.io.planted.is(Canary::Reuse)
            && let Some(dead) = self.dead.lock().first_of(&self.sb.space().range(Stretch::Of(log)))
        {
            run = dead..dead + 1;
        }
        let count = run.end - run.start;
        charge_n(Cost::BlockAlloc, count);
        if count == 0 { Err(Error::NoSpace) } else { Ok(vec![Run { lba: run.start, count: count as u32 }]) }
    }

    /// Takes the next block of a log of nodes.
    pub(crate) fn take_node(&self, log: Log) -> Result<NodePlace> {
        let run = self.take(Stretch::Of(log), 1);
        charge_n(Cost::BlockAlloc, 1);
        match run.is_empty() {
            true => Err(Error::NoSpace),
            false => {
                // From 1 on: 0 stands for no place.
                let serial = run.end.get() - self.sb.space().range(Stretch::Of(log)).start.get();
                Ok(NodePlace { lba: run.start, next: run.end, serial })
            }
        }
    }

    /// Finishes a node that goes to this place: the checksum that covers it.
    pub(crate) fn seal(&self, block: &mut Block, lba: Lba) {
        infinite::seal(block, self.sb.seed(), lba);
    }

    /// Refuses a block that is not a whole node of this place.
    pub(crate) fn verify_node(&self, block: &Block, lba: Lba) -> Result<()> {
        infinite::verify("node", block, self.sb.seed(), lba)
            .map_err(|why| Error::corrupt(format!("block {lba} should be a node: {why}")))
    }

    /// Whether a slot may name this block: it lies before the head of its log.
    pub(crate) fn is_address(&self, lba: Lba) -> bool {
        let stretch = self.sb.space().stretch_of(lba).filter(|stretch| *stretch != Stretch::Meta);
        stretch.is_some_and(|stretch| lba.get() < self.next[stretch.index()].load(SeqCst))
    }

    /// Whether a block is in use; `None` for one that nobody may name.
    pub(crate) fn is_valid(&self, lba: Lba) -> Option<bool> {
        let stretch = self.sb.space().stretch_of(lba)?;
        (lba.get() < self.next[stretch.index()].load(SeqCst)).then(|| !self.dead.lock().contains(lba))
    }

    /// The block is no longer used.
    ///
    /// # Errors
    /// Damage: it was not in use.
    pub(crate) fn give_up(&self, lba: Lba) -> Result<()> {
        if !self.is_address(lba) {
            return Err(Error::corrupt(format!("block {lba} is given up and was never written")));
        }
        // An adopted block that is given up again dies with the blocks around it.
        if let Some(behind) = &mut *self.behind.lock()
            && behind.adopted.contains(lba)
        {
            behind.adopted.remove(&(lba..lba + 1));
            return Ok(());
        }
        self.dead.lock().add(lba..lba + 1)
    }

    /// Recovery: a block of data that was written after the last checkpoint is a slot's from now on.
    ///
    /// # Errors
    /// Damage: it cannot have been, or is another slot's.
    pub(crate) fn adopt(&self, lba: Lba) -> Result<()> {
        let refuse = |why: &str| Err(Error::corrupt(format!("a fsynced node names block {lba}, {why}")));
        let stretch = self.sb.space().stretch_of(lba).filter(|stretch| stretch.is_data());
        let mut behind = self.behind.lock();
        let (Some(stretch), Some(behind)) = (stretch, behind.as_mut()) else {
            return refuse("outside the logs of data");
        };
        if !behind.gaps[stretch.index()].contains(&lba) {
            return refuse("which was not written after the checkpoint");
        }
        if behind.adopted.insert(lba..lba + 1) { Ok(()) } else { refuse("which is another slot's") }
    }

    /// Recovery is over: what an earlier mount may have written and nobody adopted is dead.
    pub(crate) fn leave_behind(&self) -> Result<()> {
        let behind = self.behind.lock().take().filter(|_| !steadyfs_rt::mutated("what-nobody-adopted-is-dead"));
        let Some(Behind { gaps, adopted }) = behind else { return Ok(()) };
        let mut rest = Ranges::default();
        for gap in gaps {
            rest.insert(gap);
        }
        adopted.iter().for_each(|run| rest.remove(&run));
        let mut dead = self.dead.lock();
        rest.iter().try_for_each(|run| dead.add(run))
    }

    /// Whether a checkpoint would free something.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.dead.lock().uncommitted() > 0
    }

    /// Whether the next checkpoint should not wait for its timer: three quarters of the room before some limit are
    /// used, or a thirty-second of the capacity is dead and cannot be discarded before.
    pub(crate) fn checkpoint_is_pressing(&self) -> bool {
        self.room().before_limit < self.sb.leap() / 4
            || self.dead.lock().uncommitted() > self.capacity.load(SeqCst) / 32
    }

    /// Blocks that the log of the chain has taken since the mount.
    pub(crate) fn chain_position(&self) -> u64 {
        self.next[Log::WarmNode.index()].load(SeqCst) - self.began
    }

    /// How much room there is.
    pub(crate) fn room(&self) -> LogRoom {
        let (mut before_limit, mut before_end) = (u64::MAX, u64::MAX);
        for stretch in Stretch::ALL {
            let next = self.next[stretch.index()].load(SeqCst);
            before_limit = before_limit.min(self.limit_of(stretch).saturating_sub(next));
            before_end = before_end.min(self.end_of(stretch).get().saturating_sub(next));
        }
        let capacity = self.capacity.load(SeqCst);
        LogRoom { before_limit, before_end, dead: self.dead.lock().held(), capacity }
    }

    /// The superblock of this volume with another capacity.
    ///
    /// # Errors
    /// A number that no volume can have.
    pub(crate) fn with_capacity(&self, blocks: u64) -> Result<Block> {
        let most = self.sb.space().length();
        if !(MIN_CAPACITY..=most).contains(&blocks) {
            return Err(Error::Usage(format!("the capacity is {MIN_CAPACITY} to {most} blocks of 4096 bytes")));
        }
        let (ids, reach) = (self.sb.layout().max_nid(), reach(&self.sb));
        if blocks > reach {
            return Err(Error::Usage(format!("its {ids} node ids reach {reach} blocks at most")));
        }
        Ok(self.sb.with_capacity(blocks)?.encode())
    }

    /// The capacity has changed.
    pub(crate) fn set_capacity(&self, blocks: u64) {
        self.capacity.store(blocks, SeqCst);
    }

    /// Discards some of what may be, and returns when the device has answered; how many requests it did. Nothing unless
    /// `may` says so, which is asked when others can wait for this.
    pub(crate) fn discard_some(&self, may: impl Fn() -> bool) -> usize {
        self.under_way.add(1);
        let sent = if may() { self.discard_batch() } else { 0 };
        self.under_way.done(1);
        sent
    }

    fn discard_batch(&self) -> usize {
        let taken = self.dead.lock().send(MOST_REQUESTS, MOST_BLOCKS);
        let pieces: Vec<(Lba, u64)> = taken.iter().map(|run| (run.start, run.end - run.start)).collect();
        assert!(pieces.len() <= MOST_REQUESTS, "more discards at a time than may be");
        let results = self.io.discard_runs(&pieces);
        let mut dead = self.dead.lock();
        let mut done = 0;
        for ((start, count), result) in pieces.into_iter().zip(results) {
            dead.answered(start..start + count, result.is_ok());
            match result {
                Ok(()) => done += 1,
                Err(error) => {
                    if self.failed.fetch_add(1, Relaxed) == 0 || error.errno() == errno::EOPNOTSUPP {
                        tracing::warn!(%error, "a discard failed; what is dead stays in the discard log");
                    }
                }
            }
        }
        self.requests.fetch_add(done as u64, Relaxed);
        done
    }

    /// Whether something waits to be discarded.
    pub(crate) fn has_queued(&self) -> bool {
        self.dead.lock().queued() > 0
    }

    /// What became of discards so far.
    pub(crate) fn discard_stats(&self) -> DiscardStats {
        DiscardStats {
            requests: self.requests.load(Relaxed),
            failed: self.failed.load(Relaxed),
            waiting_blocks: self.dead.lock().queued(),
            ..DiscardStats::default()
        }
    }
}

/// Blocks that the node ids of a volume can name, if each is a node of a large file, and these nodes.
pub(crate) fn reach(sb: &SuperBlock) -> u64 {
    u64::from(sb.layout().max_nid().get()) * (1 + u64::from(Width::Eight.slots_per_node()))
}

/// The error of a volume whose logs cannot go on.
pub(crate) const WORN_OUT: &str =
    "a log has used up its stretch of the address space; the volume can only be read: copy it to a new one";
