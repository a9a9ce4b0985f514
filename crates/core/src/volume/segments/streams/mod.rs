//! Private write streams: where collectors put what they move, beside the six logs (ScaleLFS section 3.1, "dedicated
//! write stream"); and further logs for what users write, over which files are spread by their numbers (MAX'
//! independent logs).
//!
//! A stream has an open segment of its own, so collectors do not meet at the cold log, nor writers of different files
//! at the warm one. It lives in memory only: for a reader of the volume its segment is one of cold or warm data with
//! holes. A collector's stream is locked by that collector, once per group of blocks, and by checkpoints, so nobody
//! waits for it in practice. With `mode=adaptive` the further logs fill holes as the six do.
//!
//! Kept true:
//! - At every commit the SSA names the owners of all blocks that the checkpoint sees in a stream's segment (format
//!   section 6).
//! - Two writes of one summary are never in flight together, for the device may reorder them.
//! - A section is taken when the first block of its first segment is. So a stream that has filled its own holds none.

mod closing;

use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::locks;
use crate::volume::placement::places::Run;
use crate::volume::segments::Segments;
use crate::volume::segments::logs::Head;
use crate::volume::segments::table::{BLOCKS, SegTable};
use std::sync::Arc;
use steadyfs_format::summary::{Summary, SummaryBlock};
use steadyfs_format::{AllocType, Ino, Log, SegNo};
use steadyfs_rt::{Mutex, MutexGuard, Pending};

/// The streams of a volume.
pub(crate) struct Streams {
    slots: Box<[Mutex<Option<Stream>>]>,
    collectors: usize,
    /// How many kinds of streams there are: see [`Streams::slot`].
    generations: usize,
    /// How many of the slots, the last ones, are logs for users' data.
    data_logs: usize,
}

/// This many collectors share a stream for what has been moved before: it comes in small groups of blocks, and each
/// open segment is one less that is free.
const SHARERS: usize = 4;

/// An open stream.
struct Stream {
    head: Head,
    /// Blocks whose owners the SSA has.
    saved: u32,
    /// The write of the summary that a checkpoint has submitted.
    saving: Arc<Pending>,
}

impl Stream {
    fn at(head: Head) -> Self {
        Stream { saved: head.next, head, saving: Arc::new(Pending::new()) }
    }

    /// Has the SSA say who owns the blocks taken so far.
    fn save(&mut self, segments: &Segments) {
        assert!(self.saved <= self.head.next, "the summary of segment {} has owners of blocks to come", self.head.seg);
        if self.saved == self.head.next {
            return;
        }
        // For this write alone; without it `write_summary` would wait for all that are under way.
        self.saving.wait_zero();
        self.saving.add(1);
        let saving = Arc::clone(&self.saving);
        segments.write_summary(self.head.seg, &self.head.summary, move || saving.done(1));
        self.saved = self.head.next;
    }
}

impl Streams {
    /// The streams of `collectors` collectors, and `data_logs` logs for users' data, none of them open.
    pub(crate) fn new(collectors: usize, generations: u8, data_logs: usize) -> Self {
        let count = Self::count(collectors, generations) + data_logs;
        let slots = (0..count).map(|_| Mutex::new(&locks::STREAM, None)).collect();
        Streams { slots, collectors, generations: usize::from(generations), data_logs }
    }

    /// Where the data of a file goes, if there are several logs for that. All of a file's goes to one: who writes it
    /// back is not who wrote it, and pages of one node would otherwise be torn apart.
    fn data_log(&self, ino: Ino) -> Option<usize> {
        (self.data_logs > 0).then(|| self.own_slots() + ino.0 as usize % self.data_logs)
    }

    /// Slots of collectors: those before the logs for users' data.
    fn own_slots(&self) -> usize {
        self.slots.len() - self.data_logs
    }

    /// What the segments of a stream hold.
    fn kind(&self, slot: usize) -> Log {
        if slot < self.own_slots() { Log::ColdData } else { Log::WarmData }
    }

    /// How many streams `collectors` collectors have.
    pub(crate) fn count(collectors: usize, generations: u8) -> usize {
        collectors + collectors.div_ceil(SHARERS) * (usize::from(generations) - 1)
    }

    /// Where a collector puts blocks that have been moved `passes` times before. Blocks that have outlived several
    /// collections of their segment will probably outlive more; beside younger ones, which are overwritten sooner, they
    /// would be moved with them each time.
    pub(crate) fn slot(&self, collector: usize, passes: u8) -> usize {
        assert!(collector < self.collectors, "collector {collector} of {} has no stream", self.collectors);
        match usize::from(passes).min(self.generations - 1) {
            0 => collector,
            older => self.collectors + self.collectors.div_ceil(SHARERS) * (older - 1) + collector / SHARERS,
        }
    }

    /// Whether data is kept apart by how long it has lasted.
    pub(crate) fn by_age(&self) -> bool {
        self.generations > 1
    }

    /// How often collectors have moved what goes to a stream, the last time included.
    fn passes(&self, slot: usize) -> u8 {
        if slot >= self.own_slots() {
            return 0;
        }
        let older =
            slot.checked_sub(self.collectors).map_or(0, |shared| shared / self.collectors.div_ceil(SHARERS) + 1);
        older as u8 + 1
    }

    /// Open segments without a valid block: a reader of the volume finds them free.
    pub(crate) fn empty_segments(&self, segs: &SegTable) -> u64 {
        let empty = |slot: &Mutex<Option<Stream>>| {
            slot.lock().as_ref().is_some_and(|stream| segs.state(stream.head.seg).count() == 0)
        };
        self.slots.iter().filter(|slot| empty(slot)).count() as u64
    }

    /// Streams of collectors that have a segment.
    pub(crate) fn open(&self) -> usize {
        self.slots[..self.own_slots()].iter().filter(|slot| slot.lock().is_some()).count()
    }

    /// Logs for users' data that have a segment.
    pub(crate) fn open_data_logs(&self) -> usize {
        self.slots[self.own_slots()..].iter().filter(|slot| slot.lock().is_some()).count()
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Option<Stream>> {
        self.slots[slot].lock()
    }

    /// The owners of a segment's blocks, if a stream has it open.
    pub(crate) fn summary_of(&self, seg: SegNo) -> Option<SummaryBlock> {
        self.slots.iter().find_map(|slot| {
            let slot = slot.lock();
            slot.as_ref().filter(|stream| stream.head.seg == seg).map(|stream| (*stream.head.summary).clone())
        })
    }
}

impl Segments {
    /// Takes the next blocks for pages of a file whose data goes to `log`: of that log, or of the file's own of
    /// several. As [`Segments::take_blocks`].
    pub(crate) fn take_data_blocks(&self, log: Log, ino: Ino, owners: &[Summary]) -> Result<Vec<Run>> {
        let Some(slot) = self.streams.data_log(ino).filter(|_| log == Log::WarmData) else {
            return self.take_blocks(log, owners);
        };
        let mut runs = self.take_stream_blocks(slot, owners).or_else(none_if_full)?;
        let taken: usize = runs.iter().map(|run| run.count as usize).sum();
        // Where no segment is left to begin, the format's own log may have room in the one that it has.
        if taken < owners.len() {
            runs.extend(self.take_blocks(log, &owners[taken..]).or_else(none_if_full)?);
        }
        if runs.is_empty() { Err(Error::NoSpace) } else { Ok(runs) }
    }

    /// Takes the next blocks of a stream, one per owner, and marks them valid. The caller holds the checkpoint lock
    /// shared. Fewer runs than wanted, and errors, as with [`Segments::take_blocks`].
    pub(crate) fn take_stream_blocks(&self, slot: usize, owners: &[Summary]) -> Result<Vec<Run>> {
        assert!(!owners.is_empty());
        let mut stream = self.streams.lock(slot);
        let mut runs = Vec::with_capacity(2);
        let mut rest = owners;
        while !rest.is_empty() {
            if stream.as_ref().is_some_and(|open| self.may_leave_broken(open.head.seg)) {
                self.close_stream(&mut stream);
            }
            if stream.is_none() {
                *stream = self.open_for_stream(slot).map(|head| self.begin_stream(slot, head));
            }
            let Some(open) = stream.as_mut() else { break };
            let run = self.fill(&mut open.head, rest);
            runs.push(run);
            rest = &rest[run.count as usize..];
            if open.head.next == BLOCKS {
                // The rest of its section is the stream's, while it has a segment there, unless it came there for the
                // holes.
                let (kind, in_order) = (self.streams.kind(slot), open.head.alloc == AllocType::Lfs);
                let next = in_order.then(|| self.table.open_next(open.head.seg, kind.number())).flatten();
                self.close_stream(&mut stream);
                *stream = next.map(|seg| self.begin_stream(slot, Head::at(seg, kind)));
            }
        }
        if runs.is_empty() { Err(Error::NoSpace) } else { Ok(runs) }
    }

    /// A segment for a stream that has none: a free one; for users' data with `mode=adaptive` a used one, where a log
    /// of the format would take one too.
    fn open_for_stream(&self, slot: usize) -> Option<Head> {
        let kind = self.streams.kind(slot);
        let free = || self.table.open(None, kind.number()).map(|seg| Head::at(seg, kind));
        let fills = kind == Log::WarmData;
        let holes = || if fills { self.reuse_segment(kind) } else { None };
        let wanted = if fills && self.reuse_is_due() { holes() } else { None };
        wanted.or_else(free).or_else(holes)
    }

    fn begin_stream(&self, slot: usize, head: Head) -> Stream {
        assert!(self.table.state(head.seg).is_open(), "a stream begins in segment {}, which is not open", head.seg);
        // Blocks that were in a used segment keep the number of their moves.
        if head.alloc == AllocType::Lfs {
            self.table.note_passes(head.seg, self.streams.passes(slot));
        }
        Stream::at(head)
    }

    fn close_stream(&self, slot: &mut Option<Stream>) {
        if let Some(mut stream) = slot.take() {
            stream.save(self);
            self.table.close(stream.head.seg);
            self.left(stream.head.seg, stream.head.next);
        }
    }

    /// Submits what the SSA lacks of the streams' summaries; a checkpoint waits for it before it commits.
    pub(crate) fn save_streams(&self) {
        for slot in self.streams.slots.iter().filter(|_| !self.io.planted.is(Canary::StreamSummary)) {
            if let Some(stream) = slot.lock().as_mut() {
                stream.save(self);
            }
        }
    }
}

fn none_if_full(error: Error) -> Result<Vec<Run>> {
    if matches!(error, Error::NoSpace) { Ok(Vec::new()) } else { Err(error) }
}

#[cfg(test)]
mod tests;
