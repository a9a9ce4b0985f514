//! The six logs: where the next block of each kind goes.
//!
//! A log owns one open segment and fills it in order (LFS allocation); with `mode=adaptive` it may also have a used
//! one, whose holes it fills (SSR allocation, see `reuse`). Its lock covers taking addresses and noting the owner of
//! each block in the summary; data is copied and submitted outside it. When a segment is full its summary goes to the
//! SSA at once and the log moves on, so a cursor never stands behind the last block (format sections 3.1, 6, 11).

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::io::Reading;
use crate::volume::placement::places::{NodePlace, Run};
use crate::volume::segments::Segments;
use std::collections::BTreeMap;
use steadyfs_device::{PageBuf, StreamHint};
use steadyfs_format::block::BlockView;
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{AllocType, Lba, Log, Nid, SegNo};
use steadyfs_rt::{Cost, Mutex, MutexGuard, charge_n};

/// Blocks of a segment.
const SEG: u32 = crate::volume::segments::table::BLOCKS;

/// A log's cursor.
pub(crate) struct Head {
    /// The open segment.
    pub(crate) seg: SegNo,
    /// Next block to take. 512 only while the volume has no segment for this log.
    pub(crate) next: u32,
    /// Whether every block from `next` on may be taken, or only those that are holes, of which `next` is one.
    pub(crate) alloc: AllocType,
    /// Owners of the blocks taken so far, and of those that were in the segment before.
    pub(crate) summary: Box<SummaryBlock>,
    /// Blocks taken since the mount: the order of the blocks of this log.
    pub(crate) serial: u64,
    /// Nobody knows how far the device has written the section: the log leaves it before it takes a block.
    pub(crate) strange: bool,
}

impl Head {
    /// At the beginning of a segment that was opened for this log.
    pub(crate) fn at(seg: SegNo, log: Log) -> Self {
        let summary = Box::new(SummaryBlock::new(kind_of(log)));
        Head { seg, next: 0, alloc: AllocType::Lfs, summary, serial: 0, strange: false }
    }

    /// Of a log that a volume has not, or of which nothing can be trusted: for volumes that are never written to.
    pub(crate) fn nowhere() -> Self {
        let summary = Box::new(SummaryBlock::new(SummaryKind::Data));
        Head { seg: SegNo::new(u32::MAX), next: SEG, alloc: AllocType::Lfs, summary, serial: 0, strange: false }
    }
}

/// The logs of a volume.
pub(crate) struct Logs {
    heads: [Mutex<Head>; Log::COUNT],
}

impl Logs {
    /// Logs at these positions, in log order.
    pub(crate) fn new(heads: [Head; Log::COUNT]) -> Self {
        Logs { heads: heads.map(|head| Mutex::new(&locks::CURSEG, head)) }
    }

    /// A log's cursor, locked.
    pub(crate) fn head(&self, log: Log) -> MutexGuard<'_, Head> {
        self.heads[log.index()].lock()
    }
}

/// The stream hint of a log.
pub(crate) fn hint(log: Log) -> StreamHint {
    match log {
        Log::HotData => StreamHint::DataHot,
        Log::WarmData => StreamHint::DataWarm,
        Log::ColdData => StreamHint::DataCold,
        Log::HotNode => StreamHint::NodeHot,
        Log::WarmNode => StreamHint::NodeWarm,
        Log::ColdNode => StreamHint::NodeCold,
    }
}

impl Segments {
    /// Takes the next blocks of a log, one per owner, and marks them valid. The caller holds the checkpoint lock
    /// shared.
    ///
    /// Returns fewer blocks than owners only if the volume ran out of free segments on the way, and `NoSpace` if it had
    /// none to begin with. Collection keeps a reserve, so both are signs of a damaged or overfull volume.
    pub(crate) fn take_blocks(&self, log: Log, owners: &[Summary]) -> Result<Vec<Run>> {
        assert!(!owners.is_empty() && !log.is_node(), "data is placed in the log {log}");
        let mut head = self.logs.head(log);
        let mut runs = Vec::with_capacity(2);
        let in_order = head.alloc == AllocType::Lfs && head.next > 0;
        if self.io.planted.is(Canary::EarlyReuse) && in_order && !self.table.is_valid(head.seg, head.next - 1) {
            head.next -= 1;
        }
        let mut rest = owners;
        self.leave_if_unfit(log, &mut head)?;
        while !rest.is_empty() {
            if head.next == SEG && !self.advance(log, &mut head) {
                break;
            }
            let run = self.fill(&mut head, rest);
            runs.push(run);
            rest = &rest[run.count as usize..];
            if head.next == SEG {
                self.advance(log, &mut head);
            }
        }
        self.reuse_eagerly(log, &mut head);
        if runs.is_empty() { Err(Error::NoSpace) } else { Ok(runs) }
    }

    /// Before a log takes a block: has it go on in a section of its own if it cannot in this one.
    fn leave_if_unfit(&self, log: Log, head: &mut Head) -> Result<()> {
        if head.strange {
            return self.leave_section(log, head);
        }
        self.leave_if_broken(log, head);
        Ok(())
    }

    /// Takes neighbouring blocks of an open segment, at least one.
    pub(crate) fn fill(&self, head: &mut Head, owners: &[Summary]) -> Run {
        let (seg, first, now) = (head.seg, head.next, self.clock.elapsed());
        let n = owners.len().min(self.room_at(head) as usize);
        assert!(n > 0, "no block is left in segment {seg}");
        for (i, owner) in owners[..n].iter().enumerate() {
            head.summary.set((first as usize + i) as u16, *owner);
            self.table.mark_valid(seg, first + i as u32, now);
        }
        charge_n(Cost::BlockAlloc, n as u64);
        self.step(head, n as u32);
        Run { lba: self.lba_of(seg, first), count: n as u32 }
    }

    /// Takes one block of a node log.
    pub(crate) fn take_node_block(&self, log: Log, nid: Nid) -> Result<NodePlace> {
        assert!(log.is_node(), "node {nid} is placed in the log {log}");
        let now = self.clock.elapsed();
        let mut head = self.logs.head(log);
        self.leave_if_unfit(log, &mut head)?;
        if head.next == SEG && !self.advance(log, &mut head) {
            return Err(Error::NoSpace);
        }
        let (seg, off) = (head.seg, head.next);
        head.summary.set(off as u16, Summary::of_node(nid));
        self.table.mark_valid(seg, off, now);
        charge_n(Cost::BlockAlloc, 1);
        self.step(&mut head, 1);
        head.serial += 1;
        if head.next == SEG {
            self.advance(log, &mut head);
        }
        // Before the block is told which is the next: the chain has no gap.
        self.reuse_eagerly(log, &mut head);
        let next = if head.next == SEG { Lba(0) } else { self.lba_of(head.seg, head.next) };
        Ok(NodePlace { lba: self.lba_of(seg, off), next, serial: head.serial })
    }

    /// Blocks that can be taken side by side from where the log is.
    fn room_at(&self, head: &Head) -> u32 {
        match head.alloc {
            AllocType::Lfs => SEG - head.next,
            AllocType::Ssr => self.table.hole(head.seg, head.next).map_or(0, |(_, n)| n),
        }
    }

    /// Goes past blocks that were taken.
    fn step(&self, head: &mut Head, n: u32) {
        head.next += n;
        if head.alloc == AllocType::Ssr {
            head.next = self.table.hole(head.seg, head.next).map_or(SEG, |(first, _)| first);
        }
    }

    /// Leaves the log's segment for another; false, with the cursor behind the last block, if there is none.
    pub(crate) fn advance(&self, log: Log, head: &mut Head) -> bool {
        // The rest of its section is a log's own only where it came to the segment in order.
        let after = (head.alloc == AllocType::Lfs).then_some(head.seg);
        let in_section = || after.and_then(|seg| self.table.open_next(seg, log.number()));
        let wanted = || if self.reuse_is_due() { self.reuse_segment(log) } else { None };
        let free = || self.table.open(None, log.number());
        // Where nothing is free any more, holes are better than nothing.
        let begin = |seg| Head::at(seg, log);
        let fresh =
            in_section().map(begin).or_else(wanted).or_else(|| free().map(begin)).or_else(|| self.reuse_segment(log));
        let Some(fresh) = fresh else {
            tracing::error!(%log, "no free segment for the log");
            return false;
        };
        self.move_log(head, fresh);
        true
    }

    /// Leaves the log's segment for one that was opened for it.
    pub(crate) fn move_log(&self, head: &mut Head, fresh: Head) {
        assert!(fresh.seg != head.seg && fresh.next < SEG, "a log leaves segment {} for {}", head.seg, fresh.seg);
        self.write_summary(head.seg, &head.summary, || ());
        self.table.close(head.seg);
        self.left(head.seg, head.next);
        *head = Head { serial: head.serial, ..fresh };
    }

    /// Writes a segment's summary to the SSA; the next checkpoint waits for it. `done` is called when the device has
    /// answered.
    pub(crate) fn write_summary(&self, seg: SegNo, summary: &SummaryBlock, done: impl FnOnce() + Send + 'static) {
        // A volume without SSA (feature `ro`) is never mounted for writing.
        let lba = self.layout.ssa_lba(seg).expect("a writable volume has an SSA");
        self.io.write_over(lba, vec![PageBuf::from_slice(&summary.to_block())], StreamHint::MetaHot, move |_| done());
    }

    /// The owners of a segment's blocks: of an open segment from its log or stream, else from the SSA.
    pub(crate) fn summary_of(&self, seg: SegNo) -> Result<SummaryBlock> {
        self.known_summary(seg).map_or_else(|| self.stored_summary(seg), Ok)
    }

    /// The same, where it is in memory.
    fn known_summary(&self, seg: SegNo) -> Option<SummaryBlock> {
        let open = if self.table.state(seg).is_open() { self.open_summary(seg) } else { None };
        open.or_else(|| self.moved_summary(seg))
    }

    /// The same of several segments, all read at the same time. Those that cannot be read are missing.
    pub(crate) fn summaries_of(&self, segments: impl Iterator<Item = SegNo>) -> BTreeMap<SegNo, SummaryBlock> {
        let (mut found, mut coming) = (BTreeMap::new(), Vec::new());
        for seg in segments {
            match self.known_summary(seg) {
                Some(summary) => drop(found.insert(seg, summary)),
                None => coming.extend(self.start_summary(seg).ok().map(|reading| (seg, reading))),
            }
        }
        for (seg, reading) in coming {
            found.extend(self.finish_summary(reading).ok().map(|summary| (seg, summary)));
        }
        found
    }

    /// What the SSA says of a segment, which is the truth of one that is not open.
    pub(crate) fn stored_summary(&self, seg: SegNo) -> Result<SummaryBlock> {
        self.finish_summary(self.start_summary(seg)?)
    }

    /// Has read what the SSA says of a segment; for [`Segments::finish_summary`].
    pub(crate) fn start_summary(&self, seg: SegNo) -> Result<Reading> {
        let lba = self.layout.ssa_lba(seg).ok_or_else(|| Error::Unsupported("the volume has no SSA".into()))?;
        Ok(self.io.start_read(lba, 1))
    }

    /// Waits for a summary.
    pub(crate) fn finish_summary(&self, reading: Reading) -> Result<SummaryBlock> {
        let pages = self.io.finish_read(reading)?;
        let page = pages.first().ok_or_else(|| Error::corrupt("a read of one block brought none"))?;
        Ok(page.with(|block| SummaryBlock::view(block).clone()))
    }
}

impl Segments {
    fn open_summary(&self, seg: SegNo) -> Option<SummaryBlock> {
        let logs = Log::ALL.into_iter().find_map(|log| {
            let head = self.logs.head(log);
            (head.seg == seg).then(|| (*head.summary).clone())
        });
        logs.or_else(|| self.streams.summary_of(seg))
    }
}

/// What a log's segments hold.
pub(crate) fn kind_of(log: Log) -> SummaryKind {
    if log.is_node() { SummaryKind::Node } else { SummaryKind::Data }
}
