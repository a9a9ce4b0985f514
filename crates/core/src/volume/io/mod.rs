//! Block I/O of a volume: every read and write of the core goes through here.
//!
//! Kept true:
//! - A block that has been submitted for writing, or prepared to be ([`BlockIo::prepare`]), reads back as it was
//!   written. That holds before the device has completed the write (the in-flight map) and if the device has refused it
//!   (`failed`). So addresses may be published before their blocks are on the device.
//! - `drain` returns only after every write submitted before it has completed, and with an error while there are failed
//!   writes. So no checkpoint commits over a lost block.
//! - Two writes of one block are never under way together, for the device does them in any order. A block that may have
//!   been written before is written by `write_over`. A refused write is repeated only while it is the newest.
//! - Nobody knows what the device lost with a failed flush. So from then on every drain and every flush fails.
//!
//! Nodes have a barrier of their own, [`BlockIo::chain`]. A writer takes a [`ChainTicket`] *before* it takes the places
//! of nodes in a log, and holds it until they have completed. Waiting there means that no place taken before is still
//! empty. That makes the roll-forward chain unbroken up to one's own block (format section 12).

pub(crate) mod barrier;
pub(crate) mod depth;
pub(crate) mod failed;
pub(crate) mod flush;
pub(crate) mod gather;
pub(crate) mod order;

use crate::canary::{Canary, Planted};
use crate::error::{Error, Result};
use crate::locks;
pub(crate) use crate::volume::io::barrier::Cut;
use crate::volume::io::barrier::{Barrier, Epoch};
use crate::volume::io::failed::FailedWrites;
use crate::volume::io::flush::SharedFlush;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use steadyfs_device::{Device, Done, IoError, IoResult, Op, OpKind, PageBuf, Request, StreamHint};
use steadyfs_format::numbers::NumberMap;
use steadyfs_format::{BLOCK_SIZE, Lba};
use steadyfs_rt::{Completion, Cost, EventCount, Mutex, SharedLine, WaitCause, charge, charge_n, waiting_for};

const SHARDS: usize = 64;

/// A page on its way to the device; the sequence number tells a later write of the same block from an earlier one.
type Shard = NumberMap<Lba, (PageBuf, u64)>;

/// Traffic between a volume and its device since the mount, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoStats {
    /// Blocks read.
    pub read: u64,
    /// Blocks of file data and directories written, moved ones included.
    pub data_written: u64,
    /// Node blocks written.
    pub node_written: u64,
    /// Blocks of NAT, SIT, SSA and checkpoint packs written.
    pub meta_written: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests that were durable when they ended, and needed no flush. Checkpoints' commits are not counted.
    pub through: u64,
    /// Blocks discarded.
    pub discarded: u64,
    /// Requests that the device failed.
    pub failed: u64,
}

impl IoStats {
    /// All blocks written.
    pub fn written_blocks(&self) -> u64 {
        self.data_written + self.node_written + self.meta_written
    }
}

/// The counters behind [`IoStats`].
#[derive(Default)]
pub(crate) struct IoCounters {
    read: AtomicU64,
    data_written: AtomicU64,
    node_written: AtomicU64,
    meta_written: AtomicU64,
    flushes: AtomicU64,
    through: AtomicU64,
    discarded: AtomicU64,
    failed: AtomicU64,
}

impl IoCounters {
    pub(crate) fn read(&self) -> IoStats {
        IoStats {
            read: self.read.load(Relaxed),
            data_written: self.data_written.load(Relaxed),
            node_written: self.node_written.load(Relaxed),
            meta_written: self.meta_written.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            through: self.through.load(Relaxed),
            discarded: self.discarded.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// Somebody is writing nodes; see the head of this file.
pub(crate) struct ChainTicket {
    io: Arc<BlockIo>,
    epoch: Epoch,
}

impl Drop for ChainTicket {
    fn drop(&mut self) {
        self.io.chain.leave(self.epoch);
    }
}

/// All that has been written is durable, this number of blocks, and nobody else writes nodes: see [`BlockIo::alone`].
pub(crate) struct AllDurable(u64);

/// The function that is told how a write ended.
pub(crate) trait Written: FnOnce(std::result::Result<(), IoError>) + Send + 'static {}

impl<F: FnOnce(std::result::Result<(), IoError>) + Send + 'static> Written for F {}

/// The device of a volume with its writes in flight.
pub(crate) struct BlockIo {
    dev: Arc<dyn Device>,
    shards: Box<[Mutex<Shard>]>,
    sequence: AtomicU64,
    barrier: Arc<Barrier>,
    /// Blocks are in flight no more.
    landed: EventCount,
    /// Blocks of data and nodes that are prepared, or at the device.
    in_flight: AtomicU64,
    /// Of what each write counts when it is made, and when it has ended: each time several words, as one write.
    line: SharedLine,
    chain: Barrier,
    flushes: SharedFlush,
    /// Blocks that could not be written.
    pub(crate) failed: FailedWrites,
    /// Held while one of them is submitted again.
    rewriting: Mutex<()>,
    /// The first flush that failed.
    lost: Mutex<Option<IoError>>,
    synchronous: bool,
    prefers_fua: bool,
    /// KiB written before this mount.
    kbytes_before: u64,
    pub(crate) counters: IoCounters,
    /// Faults that tests plant.
    pub(crate) planted: Planted,
}

/// A read of a run of blocks that was started.
pub(crate) enum Reading {
    /// All pages were on their way to the device.
    Ready(Vec<PageBuf>),
    /// What the device reads, and those that were.
    Started(Completion<IoResult>, Vec<Option<PageBuf>>),
}

impl Reading {
    /// Whether nobody would have to wait for it.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Reading::Ready(_) => true,
            Reading::Started(end, _) => end.is_done(),
        }
    }
}

/// Blocks of a run that are on their way to the device.
enum Flying {
    All(Vec<PageBuf>),
    Some(Vec<Option<PageBuf>>),
}

/// What the device has of a run, with newer contents from the writes in flight.
fn overlay(mut pages: Vec<PageBuf>, flying: Vec<Option<PageBuf>>) -> Vec<PageBuf> {
    assert_eq!(pages.len(), flying.len());
    for (page, newer) in pages.iter_mut().zip(flying) {
        if let Some(newer) = newer {
            *page = newer;
        }
    }
    pages
}

impl BlockIo {
    /// Wraps a device; `kbytes_before` was written to it in earlier mounts.
    pub(crate) fn new(dev: Arc<dyn Device>, kbytes_before: u64) -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::new(&locks::INFLIGHT, Shard::default())).collect();
        let info = dev.info();
        Arc::new(BlockIo {
            synchronous: info.synchronous,
            prefers_fua: info.prefers_fua && !info.synchronous,
            dev,
            kbytes_before,
            shards,
            sequence: AtomicU64::new(0),
            barrier: Arc::new(Barrier::new()),
            landed: EventCount::new(),
            in_flight: AtomicU64::new(0),
            line: SharedLine::new(),
            chain: Barrier::new(),
            flushes: SharedFlush::new(),
            failed: FailedWrites::new(),
            rewriting: Mutex::new(&locks::REWRITE, ()),
            lost: Mutex::new(&locks::STATE, None),
            counters: IoCounters::default(),
            planted: Planted::default(),
        })
    }

    fn shard(&self, lba: Lba) -> &Mutex<Shard> {
        // Runs of 64 blocks share a shard, so that a batch takes few locks.
        &self.shards[(lba.get() >> 6) as usize % SHARDS]
    }

    /// A block that is not on the device: on its way, or refused. Looked for in this order, in which a refused one
    /// moves.
    fn pending(&self, lba: Lba) -> Option<PageBuf> {
        let flying = match self.synchronous {
            true => None,
            false => self.shard(lba).lock().get(&lba).map(|(page, _)| page.clone()),
        };
        flying.or_else(|| self.failed.get(lba))
    }

    /// Whether the device has taken the last write of each of these blocks.
    pub(crate) fn have_landed(&self, blocks: &[Lba]) -> bool {
        // Writes owed to a device that works in the call that submits are noted nowhere.
        let owes = self.synchronous && self.in_flight.load(SeqCst) > 0;
        !owes && blocks.iter().all(|lba| self.pending(*lba).is_none())
    }

    /// Reads one block, from what is not yet written or from the device.
    pub(crate) fn read_block(&self, lba: Lba) -> Result<PageBuf> {
        if let Some(page) = self.pending(lba) {
            return Ok(page);
        }
        self.counters.read.fetch_add(1, Relaxed);
        charge(Cost::BioSubmit);
        // A write may have been submitted since; the caller re-validates the address after the read where that matters.
        let _waiting = waiting_for(WaitCause::Device);
        let page = self.dev.read_one(lba.get());
        charge(Cost::BioComplete);
        page.map_err(|e| self.note(e))
    }

    /// Reads `count` consecutive blocks.
    pub(crate) fn read_blocks(&self, lba: Lba, count: u32) -> Result<Vec<PageBuf>> {
        let flying = match self.flying(lba, count) {
            Flying::All(pages) => return Ok(pages),
            Flying::Some(pages) => pages,
        };
        let _waiting = waiting_for(WaitCause::Device);
        let pages = self.dev.read(lba.get(), u64::from(count));
        charge(Cost::BioComplete);
        Ok(overlay(pages.map_err(|e| self.note(e))?, flying))
    }

    /// Reads several runs of consecutive blocks, all at the same time where the device can. One result per run, in
    /// their order.
    pub(crate) fn read_runs(&self, runs: &[(Lba, u32)]) -> Vec<Result<Vec<PageBuf>>> {
        if self.synchronous || runs.len() < 2 {
            return runs.iter().map(|(lba, count)| self.read_blocks(*lba, *count)).collect();
        }
        self.start_reads(runs).into_iter().map(|run| self.finish_read(run)).collect()
    }

    /// As [`BlockIo::read_blocks`], as many as there is memory for, into that.
    fn read_bytes(&self, lba: Lba, bytes: &mut [u8]) -> Result<()> {
        let mut targets = bytes.chunks_exact_mut(BLOCK_SIZE);
        match self.flying(lba, targets.len() as u32) {
            Flying::All(pages) => targets.zip(pages).for_each(|(target, page)| page.copy_out(0, target)),
            Flying::Some(newer) => {
                let _waiting = waiting_for(WaitCause::Device);
                let read = self.dev.read_bytes(lba.get(), bytes);
                charge(Cost::BioComplete);
                read.map_err(|e| self.note(e))?;
                targets = bytes.chunks_exact_mut(BLOCK_SIZE);
                let newer = targets.zip(newer).filter_map(|(target, page)| Some((target, page?)));
                newer.for_each(|(target, page)| page.copy_out(0, target));
            }
        }
        Ok(())
    }

    /// As [`BlockIo::read_runs`], each into memory of the caller's.
    pub(crate) fn read_runs_to(&self, runs: Vec<(Lba, &mut [u8])>) -> Vec<Result<()>> {
        if self.synchronous || runs.len() < 2 {
            return runs.into_iter().map(|(lba, bytes)| self.read_bytes(lba, bytes)).collect();
        }
        let counted: Vec<_> = runs.iter().map(|(lba, bytes)| (*lba, (bytes.len() / BLOCK_SIZE) as u32)).collect();
        let copied = self.start_reads(&counted).into_iter().zip(runs).map(|(reading, (_, bytes))| {
            let pages = self.finish_read(reading)?;
            bytes.chunks_exact_mut(BLOCK_SIZE).zip(pages).for_each(|(target, page)| page.copy_out(0, target));
            Ok(())
        });
        copied.collect()
    }

    /// As [`BlockIo::start_reads`], of one run.
    pub(crate) fn start_read(&self, lba: Lba, count: u32) -> Reading {
        let mut batch = Vec::new();
        let reading = self.prepare_read(lba, count, &mut batch);
        if !batch.is_empty() {
            // Some devices work in this very call.
            let _waiting = waiting_for(WaitCause::Device);
            self.dev.submit(batch);
        }
        reading
    }

    /// Submits reads of runs of consecutive blocks; each is to be given to [`BlockIo::finish_read`].
    pub(crate) fn start_reads(&self, runs: &[(Lba, u32)]) -> Vec<Reading> {
        let mut batch = Vec::new();
        let started = runs.iter().map(|(lba, count)| self.prepare_read(*lba, *count, &mut batch)).collect();
        if !batch.is_empty() {
            // Some devices work in this very call.
            let _waiting = waiting_for(WaitCause::Device);
            self.dev.submit(batch);
        }
        started
    }

    /// A read whose request, if it takes one, is in the batch, which the caller submits.
    fn prepare_read(&self, lba: Lba, count: u32, batch: &mut Vec<Request>) -> Reading {
        match self.flying(lba, count) {
            Flying::All(pages) => Reading::Ready(pages),
            Flying::Some(flying) => {
                let end = Completion::new();
                let waiter = end.clone();
                let op = Op::Read { block: lba.get(), count: u64::from(count) };
                let complete = move |result| {
                    charge(Cost::BioComplete);
                    end.complete(result);
                };
                batch.push(Request::new(op, complete));
                Reading::Started(waiter, flying)
            }
        }
    }

    /// Waits for what was started.
    pub(crate) fn finish_read(&self, reading: Reading) -> Result<Vec<PageBuf>> {
        match reading {
            Reading::Ready(pages) => Ok(pages),
            Reading::Started(end, flying) => {
                let _waiting = waiting_for(WaitCause::Device);
                Ok(overlay(end.wait().map_err(|e| self.note(e))?, flying))
            }
        }
    }

    /// What of a run is not on the device.
    fn flying(&self, lba: Lba, count: u32) -> Flying {
        let pages: Vec<_> = (0..u64::from(count)).map(|i| self.pending(lba + i)).collect();
        if pages.iter().all(Option::is_some) {
            return Flying::All(pages.into_iter().flatten().collect());
        }
        self.counters.read.fetch_add(u64::from(count), Relaxed);
        charge(Cost::BioSubmit);
        Flying::Some(pages)
    }

    /// Submits consecutive blocks for writing; `done` runs when the device has completed them, maybe before this
    /// returns.
    pub(crate) fn write(self: &Arc<Self>, lba: Lba, pages: Vec<PageBuf>, hint: StreamHint, done: impl Written) {
        self.submit(vec![self.prepare(lba, pages, hint, done)]);
    }

    /// Whether writes end in the call that submits them.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    /// Submits writes.
    pub(crate) fn submit(&self, requests: Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        charge_n(Cost::BioSubmit, requests.len() as u64);
        // Some devices work in this very call.
        let _waiting = waiting_for(WaitCause::Device);
        self.dev.submit(requests);
    }

    /// Does a write, and returns when it has ended: in the calling thread where the device can, which saves waking
    /// others for it and being woken.
    pub(crate) fn perform(&self, request: Request) {
        charge(Cost::BioSubmit);
        let Request { op, done } = request;
        let _waiting = waiting_for(WaitCause::Device);
        done(self.dev.run(op));
    }

    /// Submits writes whose end the calling thread is about to wait for, and does the last of them itself.
    pub(crate) fn submit_and_help(&self, mut requests: Vec<Request>) {
        let own = if self.synchronous { None } else { requests.pop() };
        self.submit(requests);
        if let Some(own) = own {
            self.perform(own);
        }
    }

    /// Whether a thread that waits for several writes had better have them done together.
    pub(crate) fn writes_together(&self) -> bool {
        self.prefers_fua
    }

    /// Does writes at the same time, and returns when all of them have ended: whether the device took them all. With
    /// [`AllDurable`] they are durable then.
    pub(crate) fn write_together(&self, requests: Vec<Request>, alone: Option<AllDurable>) -> bool {
        if requests.is_empty() {
            return true;
        }
        let count = requests.len() as u64;
        charge_n(Cost::BioSubmit, count);
        let split = requests.into_iter().map(|Request { mut op, done }| {
            if let (Op::Write { fua, .. }, Some(_)) = (&mut op, &alone) {
                *fua = true;
            }
            (op, done)
        });
        let (ops, ends): (Vec<Op>, Vec<Done>) = split.unzip();
        let blocks = ops.iter().map(|op| op.range().1).sum();
        let mut all_taken = true;
        let _waiting = waiting_for(WaitCause::Device);
        for (result, done) in self.dev.run_all(ops).into_iter().zip(ends) {
            all_taken &= result.is_ok();
            done(result);
        }
        if let Some(AllDurable(completed)) = alone {
            self.counters.through.fetch_add(count, Relaxed);
            if all_taken {
                self.flushes.note_durable(completed, blocks);
            }
        }
        all_taken
    }

    /// Whether everything that was written is durable, and nobody else writes nodes: then writes that are durable when
    /// they end do without a flush, where the device has them cheaper. The ticket is the caller's, and was taken before
    /// the places of what it writes; whatever else that relies on has been written.
    pub(crate) fn alone(&self, ticket: &ChainTicket) -> Option<AllDurable> {
        if !self.prefers_fua || self.planted.is(Canary::SkipFlush) {
            return None;
        }
        // In this order: who has left the chain has counted what it wrote.
        let only = self.chain.has_only(ticket.epoch);
        let failed = self.failed.count() > 0 && !steadyfs_rt::mutated("alone-means-nothing-failed");
        if !only || failed || self.lost().is_err() {
            return None;
        }
        self.flushes.all_durable().map(AllDurable)
    }

    /// As [`BlockIo::write`], but for the submission, which the thread that gets the request owes, and others wait for:
    /// from here on the blocks are in flight.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        lba: Lba,
        pages: Vec<PageBuf>,
        hint: StreamHint,
        done: impl Written,
    ) -> Request {
        let count = pages.len() as u64;
        assert!(count > 0);
        self.line.write();
        self.count_write(hint, count);
        let main = if Self::is_meta(hint) { 0 } else { count };
        self.in_flight.fetch_add(main, SeqCst);
        let sequence = self.sequence.fetch_add(1, Relaxed);
        // First: what flies is waited for.
        let epoch = self.barrier.enter();
        let seen = hint != StreamHint::DataCold || !self.planted.is(Canary::MoveUnseen);
        if !self.synchronous && seen {
            for (i, page) in pages.iter().enumerate() {
                let at = lba + i as u64;
                self.shard(at).lock().insert(at, (page.clone(), sequence));
            }
        }
        // Of a device that works in this very call nothing is in flight, so what it refuses is not there to be found.
        let kept = if self.synchronous { pages.clone() } else { Vec::new() };
        let io = Arc::clone(self);
        let finish = move |result: std::result::Result<Vec<PageBuf>, IoError>| {
            charge(Cost::BioComplete);
            // First: who sees that these blocks have landed, and that all that was counted is durable, does not flush.
            io.flushes.note_write(count);
            let result = match result {
                Ok(_) => {
                    // What an earlier write of these blocks left there.
                    io.failed.remove(lba, count);
                    Ok(())
                }
                Err(error) => {
                    if error.op == OpKind::Flush {
                        drop(io.lose(error.clone()));
                    }
                    Err(io.refused(lba, count, sequence, kept, hint, error))
                }
            };
            io.line.write();
            let before = io.in_flight.fetch_sub(main, SeqCst);
            assert!(before >= main, "{main} blocks have landed, and {before} were in flight");
            if !io.synchronous {
                io.forget(lba, count, sequence);
            }
            done(result);
            // A thread that has waited for this write may let go of the device, and it is closed at that moment.
            let barrier = Arc::clone(&io.barrier);
            drop(io);
            barrier.leave(epoch);
        };
        Request::new(Op::Write { block: lba.get(), pages, hint, fua: false }, finish)
    }

    /// As [`BlockIo::write`], of blocks that may have been written before, once no write of them is on its way. Nobody
    /// else but [`BlockIo::drain`] writes them meanwhile.
    pub(crate) fn write_over(self: &Arc<Self>, lba: Lba, pages: Vec<PageBuf>, hint: StreamHint, done: impl Written) {
        let count = pages.len() as u64;
        loop {
            if steadyfs_rt::mutated("rewrites-wait") {
                return self.write(lba, pages, hint, done);
            }
            self.wait_for(lba, count);
            // A block not among the failed writes when nothing flies stays so: only what is there is tried again.
            let _alone = self.failed.has_any(lba, count).then(|| self.rewriting.lock());
            if !self.flies(lba, count) {
                return self.write(lba, pages, hint, done);
            }
        }
    }

    /// Waits until no write of these blocks is on its way. Not for others: the caller may owe these to the device (see
    /// `gather`).
    fn wait_for(&self, lba: Lba, count: u64) {
        loop {
            let key = self.landed.listen();
            if !self.flies(lba, count) {
                return;
            }
            let _waiting = waiting_for(WaitCause::Device);
            self.landed.wait(key);
        }
    }

    /// Blocks of data and nodes that were prepared and have not ended.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(SeqCst)
    }

    /// Waits until something has landed, if something flies and `too_much` of it does. Owe no write.
    pub(crate) fn wait_landing(&self, too_much: impl FnOnce() -> bool) {
        let key = self.landed.listen();
        if self.in_flight() > 0 && too_much() {
            let _waiting = waiting_for(WaitCause::Device);
            self.landed.wait(key);
        }
    }

    fn flies(&self, lba: Lba, count: u64) -> bool {
        !self.synchronous && (0..count).any(|i| self.shard(lba + i).lock().contains_key(&(lba + i)))
    }

    /// Writes a refused block again, unless something newer has been written there, or is being.
    fn try_again(self: &Arc<Self>, lba: Lba) {
        let _alone = self.rewriting.lock();
        if !self.flies(lba, 1)
            && let Some((page, hint)) = self.failed.get_as_sent(lba)
        {
            self.write(lba, vec![page], hint, |_| ());
        }
    }

    /// A write has failed: keeps its pages, unless they have been written again since.
    fn refused(
        &self,
        lba: Lba,
        count: u64,
        sequence: u64,
        kept: Vec<PageBuf>,
        hint: StreamHint,
        error: IoError,
    ) -> IoError {
        let flying = |at: Lba| self.shard(at).lock().get(&at).filter(|(_, s)| *s == sequence).map(|(p, _)| p.clone());
        let pages: Vec<(Lba, PageBuf)> = match self.synchronous {
            true => (0..count).map(|i| lba + i).zip(kept).collect(),
            false => (0..count).map(|i| lba + i).filter_map(|at| Some((at, flying(at)?))).collect(),
        };
        if !steadyfs_rt::mutated("refused-writes-are-kept") {
            self.failed.add(pages, hint, &error);
        }
        tracing::error!(%error, "a write failed; its blocks are kept in memory");
        self.note_failure();
        error
    }

    fn forget(&self, lba: Lba, count: u64, sequence: u64) {
        for at in (0..count).map(|i| lba + i) {
            let mut shard = self.shard(at).lock();
            if shard.get(&at).is_some_and(|(_, s)| *s == sequence) {
                shard.remove(&at);
            }
        }
        self.landed.notify_all();
    }

    fn is_meta(hint: StreamHint) -> bool {
        matches!(hint, StreamHint::MetaHot | StreamHint::MetaWarm | StreamHint::MetaCold)
    }

    fn count_write(&self, hint: StreamHint, blocks: u64) {
        let counter = match hint {
            StreamHint::DataHot | StreamHint::DataWarm | StreamHint::DataCold => &self.counters.data_written,
            StreamHint::NodeHot | StreamHint::NodeWarm | StreamHint::NodeCold => &self.counters.node_written,
            StreamHint::MetaHot | StreamHint::MetaWarm | StreamHint::MetaCold => &self.counters.meta_written,
        };
        counter.fetch_add(blocks, Relaxed);
    }

    /// KiB written in the life of the volume (a statistic that checkpoints carry; what it began with comes from the
    /// image).
    pub(crate) fn kbytes_written(&self) -> u64 {
        self.kbytes_before.saturating_add(self.counters.read().written_blocks() * 4)
    }

    fn note_failure(&self) {
        self.counters.failed.fetch_add(1, Relaxed);
    }

    /// Counts a failure.
    fn note(&self, error: IoError) -> Error {
        self.note_failure();
        Error::Io(error)
    }

    /// Waits until every write submitted before this call has completed, and tries those that failed once more.
    ///
    /// # Errors
    /// What the device says of blocks that it does not take; a flush that has ever failed.
    pub(crate) fn drain(self: &Arc<Self>) -> Result<()> {
        if !steadyfs_rt::mutated("drain-waits") {
            self.barrier.wait();
        }
        self.write_failed(|_| self.barrier.wait())
    }

    /// Tells apart the writes submitted so far from those to come.
    pub(crate) fn cut(&self) -> Cut {
        self.barrier.cut()
    }

    /// As [`BlockIo::drain`], of the writes before the cut, for who owes a write that was placed later: others may be
    /// waiting for that one.
    ///
    /// # Errors
    /// As [`BlockIo::drain`].
    pub(crate) fn drain_to(self: &Arc<Self>, cut: Cut) -> Result<()> {
        self.barrier.wait_for(cut);
        self.write_failed(|failed| failed.iter().for_each(|lba| self.wait_for(*lba, 1)))
    }

    /// Tries once more what failed, if anything did; `wait` waits for that.
    fn write_failed(self: &Arc<Self>, wait: impl FnOnce(&[Lba])) -> Result<()> {
        self.lost()?;
        let Some(error) = self.failed.first_error() else { return Ok(()) };
        tracing::warn!(blocks = self.failed.count(), %error, "trying to write again what failed");
        let failed = self.failed.list();
        failed.iter().for_each(|lba| self.try_again(*lba));
        wait(&failed);
        self.failed.first_error().map_or(Ok(()), |e| Err(Error::Io(e)))
    }

    /// Registers with the chain barrier. Take it before the places of the nodes to write.
    pub(crate) fn enter_chain(self: &Arc<Self>) -> Arc<ChainTicket> {
        Arc::new(ChainTicket { io: Arc::clone(self), epoch: self.chain.enter() })
    }

    /// Waits until every node whose place was taken before this call has been written. Hold no ticket.
    ///
    /// # Errors
    /// As [`BlockIo::drain`].
    pub(crate) fn wait_chain(self: &Arc<Self>) -> Result<()> {
        self.chain.wait();
        self.lost()?;
        if self.failed.count() == 0 { Ok(()) } else { self.drain() }
    }

    /// Returns when all writes that others have begun, or are to submit, have ended, in whatever way.
    pub(crate) fn settle(&self) {
        self.chain.wait();
        self.barrier.wait();
    }

    /// An error if the device may have lost what it had taken.
    pub(crate) fn lost(&self) -> Result<()> {
        self.lost.lock().clone().map_or(Ok(()), |e| Err(Error::Io(e)))
    }

    fn lose(&self, error: IoError) -> Error {
        self.note_failure();
        tracing::error!(%error, "what the device has lost is not known; nothing will be made durable any more");
        self.lost.lock().get_or_insert(error.clone());
        Error::Io(error)
    }

    /// Makes everything completed so far durable, together with all threads that want that now.
    ///
    /// # Errors
    /// The device's error, and from then on always: a device that could not flush may have dropped any of the writes
    /// before. Unless the error is of another kind than a flush: then nothing is lost, and another flush may do.
    pub(crate) fn flush(&self) -> Result<()> {
        self.lost()?;
        if self.planted.is(Canary::SkipFlush) {
            return Ok(());
        }
        let _waiting = waiting_for(WaitCause::Device);
        self.flushes.flush(|| {
            self.counters.flushes.fetch_add(1, Relaxed);
            self.dev.flush().inspect_err(|error| match error.op {
                OpKind::Flush => drop(self.lose(error.clone())),
                _ => {
                    self.note_failure();
                    tracing::warn!(%error, "what was written could not be made durable yet");
                }
            })
        })
    }

    /// Writes one block after a flush and makes it durable before returning: the commit block of a checkpoint. A second
    /// time if the device refuses the first.
    ///
    /// # Errors
    /// As [`BlockIo::flush`], also if the device took the block and could not make it durable; or what the device says
    /// of the write. Whether the block is on the device is not known then, until the same has been written there.
    pub(crate) fn write_commit(&self, lba: Lba, page: &PageBuf) -> Result<()> {
        if !steadyfs_rt::mutated("commit-flushes-first") {
            self.flush()?;
        }
        self.write_durably(lba, page).or_else(|error| match self.lost() {
            Ok(()) => {
                tracing::warn!(%error, "trying to write the block that commits a checkpoint again");
                self.write_durably(lba, page)
            }
            lost => lost,
        })
    }

    fn write_durably(&self, lba: Lba, page: &PageBuf) -> Result<()> {
        self.counters.meta_written.fetch_add(1, Relaxed);
        let op = Op::Write {
            block: lba.get(),
            pages: vec![page.clone()],
            hint: StreamHint::MetaHot,
            fua: !steadyfs_rt::mutated("commit-is-durable"),
        };
        let _waiting = waiting_for(WaitCause::Device);
        self.dev.run(op).map(drop).map_err(|error| match error.op {
            OpKind::Flush => self.lose(error),
            _ => self.note(error),
        })
    }

    /// The device itself, for what is written before and after everything else.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.dev
    }

    /// Whether the device can be told that blocks hold nothing.
    pub(crate) fn takes_discards(&self) -> bool {
        self.dev.info().discard
    }

    /// Tells the device that these runs of blocks hold nothing, all at the same time, and waits for its answers: one
    /// for each run.
    pub(crate) fn discard_runs(&self, runs: &[(Lba, u64)]) -> Vec<std::result::Result<(), IoError>> {
        if runs.is_empty() {
            return Vec::new();
        }
        let ends: Vec<Completion<IoResult>> = runs.iter().map(|_| Completion::new()).collect();
        let requests = runs.iter().zip(&ends).map(|((lba, count), end)| {
            let end = end.clone();
            Request::new(Op::Discard { block: lba.get(), count: *count }, move |result| end.complete(result))
        });
        self.submit(requests.collect());
        let _waiting = waiting_for(WaitCause::Device);
        let results = ends.into_iter().zip(runs).map(|(end, (_, count))| {
            let result = end.wait().map(drop);
            self.counters.discarded.fetch_add(if result.is_ok() { *count } else { 0 }, Relaxed);
            result
        });
        results.collect()
    }

    /// Tells the device that these blocks hold nothing.
    pub(crate) fn discard(&self, lba: Lba, count: u64) -> Result<()> {
        self.dev.discard(lba.get(), count)?;
        self.counters.discarded.fetch_add(count, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
