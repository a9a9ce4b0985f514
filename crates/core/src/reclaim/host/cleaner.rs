//! Cleaning a section: moving every block that is still valid to another segment.
//!
//! The node rule: under the lock of the node that owns a data block, the node's slot must still hold the source
//! address, as it did before the block was read. Only then is the block moved. A writer, a truncation or another
//! collector that came first wins. A node block is moved by making the node dirty; the next checkpoint writes it to its
//! log.
//!
//! All reads of a segment are in flight together, one for each run of neighbouring blocks. Before them come reads of
//! the nodes that own these blocks and are not in memory. A collector has several victims read at the same time
//! (`PrefetchQueue`). Moves are grouped by owner and made under one node lock each (`moving`). New addresses are
//! published after their blocks are readable (see `io`). Pages that somebody works on stay where they are (`protect`).
//!
//! Kept true: what is queued is claimed, so nothing of it becomes another's while it is read; and a collector never
//! waits for room in memory that its own queue has.

use super::HostReclaim;
use super::buffer::{Buffer, Memory};
use super::collector::{Collector, Sink};
use super::crew::Crew;
use super::moving::{Fetch, Mover, fetch, move_fetched};
use super::victim::{Select, Victim};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::reclaim::Reclaim;
use crate::reclaim::activity::{Activity, Doing};
use crate::reclaim::live::Asking;
use crate::reclaim::report::{GcReport, Urgency};
use crate::volume::Volume;
use crate::volume::io::Reading;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use steadyfs_format::summary::{SummaryBlock, SummaryKind};
use steadyfs_format::{Lba, Log, SegNo, Slot};

/// A victim that a collector has claimed; given back when this goes.
struct Claim<'a> {
    vol: &'a Volume,
    select: &'a dyn Select,
    victim: Victim,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.victim.segs.iter().for_each(|&seg| self.vol.segments().table.unclaim(seg));
        self.select.done(self.victim.sec);
    }
}

/// Victims of a collector, the one that is to be moved next first. Those that are still here when this goes stay where
/// they are, and are given back.
#[derive(Default)]
pub(super) struct PrefetchQueue<'a> {
    victims: VecDeque<Queued<'a>>,
}

struct Queued<'a> {
    claim: Claim<'a>,
    report: GcReport,
    /// The summary of its first segment, while that is being read.
    summary: Option<Result<Reading>>,
    /// Its first segment, once what is valid there is being read.
    first: Option<Result<Segment>>,
}

impl Queued<'_> {
    /// Whether its first segment could be begun without waiting, beside `pages` pages of others.
    fn is_ready(&self, pages: u64, mover: &Mover<'_>) -> bool {
        let arrived = self.summary.iter().flatten().all(Reading::is_done);
        // Nothing becomes valid in what is claimed, so no more than these will need room.
        let valid = |seg: &SegNo| mover.files.vol.segments().table.valid_offsets(*seg).len() as u64;
        arrived && pages + self.claim.victim.segs.first().map_or(0, valid) <= mover.sink.buffer.limit()
    }

    /// Pages in memory for it.
    fn pages(&self) -> u64 {
        let fetched = self.first.iter().flatten().filter_map(|segment| segment.fetched.as_ref());
        fetched.map(Fetch::pages).sum()
    }
}

impl<'a> PrefetchQueue<'a> {
    fn add(&mut self, claim: Claim<'a>) {
        let victim = &claim.victim;
        let report = GcReport { victims: 1, stale_victims: u64::from(victim.stale), ..GcReport::default() };
        let summary = victim.segs.first().map(|&seg| claim.vol.segments().start_summary(seg));
        self.victims.push_back(Queued { claim, report, summary, first: None });
    }

    /// Has victims read: the first one, and in their order others whose summaries are there, as long as they fit into
    /// memory beside those before them.
    fn read(&mut self, mover: &Mover<'_>, crew: Option<&Crew>) {
        let mut pages = 0;
        for (place, victim) in self.victims.iter_mut().enumerate() {
            if victim.first.is_none() && place > 0 && !victim.is_ready(pages, mover) {
                return;
            }
            if let (Some(summary), Some(&seg)) = (victim.summary.take(), victim.claim.victim.segs.first()) {
                let begin = |summary| begin_segment(mover, seg, summary, crew, &mut victim.report);
                victim.first = Some(summary.and_then(begin));
            }
            pages += victim.pages();
        }
    }
}

impl Collector {
    /// Cleans one victim; `None` if there is nothing worth cleaning. Called without the checkpoint lock.
    pub(super) fn collect_one(
        &self,
        reclaim: &Reclaim,
        urgency: Urgency,
        asking: Asking,
        activity: &Activity,
    ) -> Result<Option<GcReport>> {
        self.collect_next(reclaim, urgency, asking, activity, &mut PrefetchQueue::default(), |_| false)
    }

    /// Cleans the first victim of the queue. Before that it queues others and has them read, as long as it may have
    /// more, they fit into memory, and `more`, told how many there are, wants another.
    pub(super) fn collect_next<'a>(
        &'a self,
        reclaim: &'a Reclaim,
        urgency: Urgency,
        asking: Asking,
        activity: &Activity,
        queue: &mut PrefetchQueue<'a>,
        more: impl Fn(usize) -> bool,
    ) -> Result<Option<GcReport>> {
        let _idle_after = activity.begin();
        let (files, crew) = (&*reclaim.files, self.crew.as_deref());
        let vol = &files.vol;
        let mover = Mover { files, memory: &reclaim.host().memory, sink: &self.sink, asking, activity };
        let most = self.most_in_hand(files);
        while queue.victims.is_empty() || queue.victims.len() < most && more(queue.victims.len()) {
            let Some(victim) = self.select.next(&vol.segments().table, vol.layout(), urgency, vol.elapsed()) else {
                break;
            };
            queue.add(Claim { vol, select: &*self.select, victim });
        }
        assert!(queue.victims.len() <= most, "a collector has {} victims queued, at most {most}", queue.victims.len());
        queue.read(&mover, crew);
        let Some(Queued { claim, report, first, .. }) = queue.victims.pop_front() else { return Ok(None) };
        let cleaned = mover.clean(&claim.victim, crew, first, report);
        let cleaned = cleaned.or_else(|error| set_aside(vol, &claim.victim, error));
        cleaned.inspect(|report| activity.note(report)).map(Some)
    }

    /// Of victims of several segments only the first is read ahead, and the others would wait for room that later
    /// victims have. What a device reads in the call that asks for it is best moved at once.
    fn most_in_hand(&self, files: &Files) -> usize {
        let alone = files.vol.layout().segs_per_sec > 1 || self.crew.is_some() || files.vol.io.is_synchronous();
        if alone { 1 } else { files.options.gc.victims as usize }
    }
}

/// What cannot be read stays where it is, and the victim is left to others: the next search would find it the cheapest
/// again, and nobody would get room.
fn set_aside(vol: &Volume, victim: &Victim, error: Error) -> Result<GcReport> {
    let Error::Io(error) = error else { return Err(error) };
    tracing::warn!(section = %victim.sec, %error, "a section cannot be collected: something in it, or its owner, cannot be read");
    for seg in &victim.segs {
        vol.segments().table.unreadable.set(seg.index());
    }
    Ok(GcReport { victims: 1, ..GcReport::default() })
}

impl Mover<'_> {
    /// Moves what is valid in a victim, of which the first segment has been begun.
    fn clean(
        &self,
        victim: &Victim,
        crew: Option<&Crew>,
        mut first: Option<Result<Segment>>,
        mut report: GcReport,
    ) -> Result<GcReport> {
        let vol = &self.files.vol;
        let mut whole = true;
        for seg in vol.layout().segs_of(victim.sec) {
            if !victim.segs.contains(&seg) {
                whole &= vol.segments().table.state(seg).count() == 0;
                continue;
            }
            let begin = || begin_segment(self, seg, vol.segments().start_summary(seg)?, crew, &mut report);
            let segment = first.take().unwrap_or_else(begin)?;
            assert_eq!(segment.seg, seg, "another segment was begun than the one whose turn it is");
            whole &= finish_segment(self, crew, segment, &mut report)?;
        }
        assert!(first.is_none(), "a segment was begun that is none of section {}", victim.sec);
        assert_eq!(report.victims, 1, "one victim is counted as several");
        report.sections_freed = u64::from(whole);
        Ok(report)
    }
}

/// A claimed segment that is about to be cleaned.
struct Segment {
    seg: SegNo,
    summary: Box<SummaryBlock>,
    kind: SummaryKind,
    /// The blocks that were valid in it.
    offsets: Vec<u32>,
    /// Data that is on its way.
    fetched: Option<Fetch>,
    /// Blocks that the report had when this was begun.
    before: u64,
}

/// Finds out what is valid in a claimed segment, and has it read, unless nodes or a crew will do that.
fn begin_segment(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: Reading,
    crew: Option<&Crew>,
    report: &mut GcReport,
) -> Result<Segment> {
    let vol = &mover.files.vol;
    // No log has it open, for it is claimed.
    let state = vol.segments().table.state(seg);
    assert!(state.is_owned() && !state.is_open(), "segment {seg} is cleaned and not claimed: {state:?}");
    let summary = Box::new(vol.segments().finish_summary(summary)?);
    let kind = summary.kind()?;
    let noted = Log::from_number(vol.segments().table.kind(seg)).map(Log::is_node);
    if noted != Some(kind == SummaryKind::Node) {
        return Err(Error::corrupt(format!("segment {seg}: its summary and the SIT disagree on what it holds")));
    }
    let (offsets, before) = (vol.segments().table.valid_offsets(seg), report.blocks_seen());
    let mut fetched = None;
    if kind == SummaryKind::Data && crew.is_none() {
        mover.activity.set(Doing::Reading, vol.layout().sec_of(seg));
        fetched = Some(fetch(mover, seg, &summary, &offsets, report)?);
    }
    Ok(Segment { seg, summary, kind, offsets, fetched, before })
}

/// Moves what is valid in a claimed segment. True if nothing will be left in it after the next checkpoint.
fn finish_segment(mover: &Mover<'_>, crew: Option<&Crew>, segment: Segment, report: &mut GcReport) -> Result<bool> {
    let vol = &mover.files.vol;
    let Segment { seg, summary, kind, offsets, fetched, before } = segment;
    let found = offsets.len() as u64;
    let left = report.skipped;
    mover.activity.set(Doing::Moving, vol.layout().sec_of(seg));
    match (crew, fetched) {
        (Some(crew), _) => {
            let alone =
                |summary: &_, offsets: &_| clean_part(mover.files, mover.memory, seg, summary, offsets, mover.asking);
            report.add(crew.clean(seg, *summary, offsets, mover.asking, alone)?);
        }
        (None, Some(fetched)) => move_fetched(mover, seg, &summary, fetched, report)?,
        (None, None) => {
            // First, so that a freeze in between, which forgets this, has nothing of it left to write later.
            vol.segments().table.awaiting.set(seg.index());
            clean_nodes(vol, seg, &summary, &offsets, report)?;
        }
    }
    let seen = report.blocks_seen() - before;
    assert_eq!(seen, found, "of {found} blocks of segment {seg} {seen} were moved or passed");
    assert!(vol.segments().table.state(seg).is_owned(), "segment {seg} was given back before it was clean");
    // Nodes are written elsewhere by the next checkpoint.
    Ok(vol.segments().table.state(seg).count() == 0 || kind == SummaryKind::Node && report.skipped == left)
}

/// Moves these blocks of a segment, of which the summary says whose they are, into the cold data log or, if they are
/// nodes, makes them dirty.
pub(super) fn clean_part(
    files: &Files,
    memory: &Arc<Memory>,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    asking: Asking,
) -> Result<GcReport> {
    let mut report = GcReport::default();
    match summary.kind()? {
        SummaryKind::Node => clean_nodes(&files.vol, seg, summary, offsets, &mut report)?,
        SummaryKind::Data => {
            let sink = &Sink::cold_log(Buffer::new(&files.options.gc, 1, memory));
            let mover = Mover { files, memory, sink, asking, activity: &Activity::default() };
            let fetched = fetch(&mover, seg, summary, offsets, &mut report)?;
            move_fetched(&mover, seg, summary, fetched, &mut report)?;
        }
    }
    Ok(report)
}

impl HostReclaim {
    /// Moves the contents of these blocks of the main area, wherever they are and whichever node owns them.
    pub(in crate::reclaim) fn move_blocks(&self, files: &Files, lbas: &[Lba]) -> Result<()> {
        let mut by_segment: BTreeMap<SegNo, Vec<u32>> = BTreeMap::new();
        for (seg, off) in lbas.iter().filter_map(|lba| self.vol.segments().table.locate(*lba)) {
            by_segment.entry(seg).or_default().push(off);
        }
        for (seg, offsets) in by_segment {
            let summary = self.vol.segments().summary_of(seg)?;
            clean_part(files, &self.memory, seg, &summary, &offsets, Asking::No)?;
        }
        Ok(())
    }
}

fn clean_nodes(vol: &Volume, seg: SegNo, summary: &SummaryBlock, offsets: &[u32], report: &mut GcReport) -> Result<()> {
    vol.read_nodes_ahead(offsets.iter().map(|&off| summary.get(off as u16).nid));
    for &off in offsets {
        let nid = summary.get(off as u16).nid;
        let source = Slot::At(vol.segments().lba_of(seg, off));
        let _change = vol.begin_change()?;
        if vol.nat.get(&vol.io, nid)?.addr != source {
            report.skipped.moved += 1;
            continue;
        }
        let node = match vol.node(nid) {
            Ok(node) => node,
            Err(Error::NotFound) => {
                report.skipped.gone += 1;
                continue;
            }
            Err(e) => return Err(e),
        };
        let mut guard = node.write(&vol.nodes);
        if guard.is_dead() || vol.nat.get(&vol.io, nid)?.addr != source {
            report.skipped.late += 1;
            continue;
        }
        guard.touch();
        report.nodes_moved += 1;
    }
    Ok(())
}
