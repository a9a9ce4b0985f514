//! Cleaning a section: moving every block that is still valid to another segment.
//!
//! The node rule: a data block is moved only if, under the lock of the node that owns it, the node's slot still holds the source
//! address, as it did before the block was read; a writer, a truncation or another collector that came first wins. A node block is moved by making the node dirty; the
//! next checkpoint writes it to its log. All reads of a segment are in flight together, one for each run of neighbouring blocks, and before them those of the nodes
//! that own them and are not in memory; moves are grouped by owner and made under one node lock each. New addresses are published after their blocks are readable (see `io`). Pages that somebody works on stay where they are (`protect`).

use super::buffer::{Lease, Moving, Source, cached, charge_looks, set_off};
use super::crew::Crew;
use super::owner::{Live, Owner, try_blocks, why_dead};
use super::protect::Work;
use super::victim::{Select, Victim};
use super::{GcBuffer, GcProtect, GcReport, Urgency};
use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::io::Reading;
use crate::logs::{self, Run};
use crate::node::NodeWrite;
use crate::pages::Landing;
use crate::slots;
use crate::stats::{Activity, Doing};
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Extent, Inode as RawInode};
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{Ino, Lba, Log, Nid, SegNo, Slot};
use steadyfs_rt::Pending;

/// Where a collector puts the data that it moves.
pub(super) struct Sink {
    /// The streams of this collector; otherwise the cold data log, which others write to as well.
    collector: Option<usize>,
    /// Buffers, each of a segment's size at most, whose writes may be under way while the next victim is read into another.
    buffers: [Arc<Pending>; 2],
    next: AtomicUsize,
}

impl Sink {
    /// The streams of a collector.
    pub(super) fn streams(collector: usize) -> Self {
        Sink { collector: Some(collector), ..Sink::cold_log() }
    }

    /// The cold data log.
    pub(super) fn cold_log() -> Self {
        Sink { collector: None, buffers: Default::default(), next: AtomicUsize::new(0) }
    }

    /// Takes blocks for what lies in a segment now.
    fn take(&self, vol: &Volume, from: SegNo, owners: &[Summary]) -> Result<Vec<Run>> {
        match self.collector {
            None => vol.take_blocks(Log::ColdData, owners),
            Some(number) => vol.take_stream_blocks(vol.streams.slot(number, vol.segs.passes(from)), owners),
        }
    }

    /// A buffer for the next segment, once what it held last has been written. So a collector has no more pages in memory than its buffers hold.
    fn buffer(&self) -> &Arc<Pending> {
        let buffer = &self.buffers[self.next.fetch_add(1, Relaxed) % self.buffers.len()];
        buffer.wait_zero();
        buffer
    }
}

/// Whether a collector leaves alone what others work on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Blocks whose pages are held stay where they are.
    Yes,
    /// They move too: nothing else has gained anything.
    No,
}

/// One that collects: a way to choose victims, and a place for what is moved.
pub(super) struct Collector {
    pub(super) select: Box<dyn Select>,
    pub(super) sink: Sink,
    /// Threads that clean a segment together with whoever collects; they put what they move into the cold data log.
    pub(super) crew: Option<Arc<Crew>>,
}

impl Collector {
    /// Cleans one victim; `None` if there is nothing worth cleaning. Called without the checkpoint lock.
    pub(super) fn collect_one(
        &self,
        fs: &Fs,
        urgency: Urgency,
        asking: Asking,
        activity: &Activity,
    ) -> Result<Option<GcReport>> {
        let _idle_after = activity.begin();
        let vol = &fs.vol;
        let Some(victim) = self.select.next(&vol.segs, vol.layout(), urgency, vol.elapsed()) else {
            return Ok(None);
        };
        let mover = Mover { fs, sink: &self.sink, asking, activity };
        let cleaned = mover.clean(&victim, self.crew.as_deref()).or_else(|error| set_aside(vol, &victim, error));
        victim.segs.iter().for_each(|&seg| vol.segs.unclaim(seg));
        self.select.done(victim.sec);
        cleaned.inspect(|report| activity.note(report)).map(Some)
    }
}

/// What cannot be read stays where it is, and the victim is left to others: the next search would find it the cheapest again, and nobody would get room.
fn set_aside(vol: &Volume, victim: &Victim, error: Error) -> Result<GcReport> {
    let Error::Io(error) = error else { return Err(error) };
    tracing::warn!(section = %victim.sec, %error, "a section cannot be collected: something in it, or its owner, cannot be read");
    for seg in &victim.segs {
        vol.segs.unreadable.set(seg.index());
    }
    Ok(GcReport { victims: 1, ..GcReport::default() })
}

/// The cleaning of a victim.
struct Mover<'a> {
    fs: &'a Fs,
    /// Where what is moved goes.
    sink: &'a Sink,
    asking: Asking,
    /// Where is told how far that is.
    activity: &'a Activity,
}

impl Mover<'_> {
    fn clean(&self, victim: &Victim, crew: Option<&Crew>) -> Result<GcReport> {
        let vol = &self.fs.vol;
        let mut report = GcReport { victims: 1, stale_victims: u64::from(victim.stale), ..GcReport::default() };
        let mut whole = true;
        for seg in vol.layout().segs_of(victim.sec) {
            whole &= match victim.segs.contains(&seg) {
                true => clean_segment(self, crew, seg, &mut report)?,
                false => vol.segs.state(seg).count() == 0,
            };
        }
        report.sections_freed = u64::from(whole);
        Ok(report)
    }
}

/// Moves what is valid in a claimed segment. True if nothing will be left in it after the next checkpoint.
fn clean_segment(mover: &Mover<'_>, crew: Option<&Crew>, seg: SegNo, report: &mut GcReport) -> Result<bool> {
    let vol = &mover.fs.vol;
    let summary = vol.summary_of(seg)?;
    let kind = Log::from_number(vol.segs.kind(seg)).map(Log::is_node);
    let noted = summary.kind()? == SummaryKind::Node;
    if kind != Some(noted) {
        return Err(Error::corrupt(format!("segment {seg}: its summary and the SIT disagree on what it holds")));
    }
    let offsets = vol.segs.valid_offsets(seg);
    let left = report.skipped;
    let sec = vol.layout().sec_of(seg);
    if let Some(crew) = crew {
        mover.activity.set(Doing::Moving, sec);
        report.add(crew.clean(mover.fs, seg, summary, offsets, mover.asking)?);
    } else if noted {
        mover.activity.set(Doing::Moving, sec);
        // First, so that a freeze in between, which forgets this, has nothing of it left to write later.
        vol.segs.awaiting.set(seg.index());
        clean_nodes(vol, seg, &summary, &offsets, report)?;
    } else {
        mover.activity.set(Doing::Reading, sec);
        clean_data(mover, seg, &summary, &offsets, report)?;
    }
    // Nodes are written elsewhere by the next checkpoint.
    Ok(vol.segs.state(seg).count() == 0 || noted && report.skipped == left)
}

/// Moves these blocks of a segment, of which the summary says whose they are, into the cold data log or, if they are nodes, makes them dirty.
pub(super) fn clean_part(
    fs: &Fs,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    asking: Asking,
) -> Result<GcReport> {
    let mut report = GcReport::default();
    match summary.kind()? {
        SummaryKind::Node => clean_nodes(&fs.vol, seg, summary, offsets, &mut report)?,
        SummaryKind::Data => {
            let (sink, activity) = (&Sink::cold_log(), &Activity::default());
            clean_data(&Mover { fs, sink, asking, activity }, seg, summary, offsets, &mut report)?;
        }
    }
    Ok(report)
}

/// Moves what these blocks of the main area hold, wherever they are and whoever owns them.
pub(crate) fn move_blocks(fs: &Fs, lbas: &[Lba]) -> Result<()> {
    let vol = &fs.vol;
    let mut by_segment: BTreeMap<SegNo, Vec<u32>> = BTreeMap::new();
    for (seg, off) in lbas.iter().filter_map(|lba| vol.segs.locate(*lba)) {
        by_segment.entry(seg).or_default().push(off);
    }
    for (seg, offsets) in by_segment {
        let summary = vol.summary_of(seg)?;
        clean_part(fs, seg, &summary, &offsets, Asking::No)?;
    }
    Ok(())
}

fn clean_nodes(vol: &Volume, seg: SegNo, summary: &SummaryBlock, offsets: &[u32], report: &mut GcReport) -> Result<()> {
    vol.read_nodes_ahead(offsets.iter().map(|&off| summary.get(off as u16).nid));
    for &off in offsets {
        let nid = summary.get(off as u16).nid;
        let source = Slot::At(vol.lba_of(seg, off));
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

/// Moves data; what others work on is tried once more in the end, for they have gone on then, and one block that stays keeps a whole section.
fn clean_data(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    report: &mut GcReport,
) -> Result<()> {
    let mut held = move_what_is_free(mover, seg, summary, offsets, report)?;
    // F2FS tries a file once, and goes on.
    if !held.is_empty() && mover.fs.options.gc.protect == GcProtect::Page {
        held = move_what_is_free(mover, seg, summary, &held, report)?;
    }
    report.skipped.held += held.len() as u64;
    mover.fs.trim_cache();
    Ok(())
}

/// One attempt to move these blocks; returns those whose pages others hold.
fn move_what_is_free(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    report: &mut GcReport,
) -> Result<Vec<u32>> {
    let fs = mover.fs;
    let mut by_node: BTreeMap<Nid, Vec<Live>> = BTreeMap::new();
    for &off in offsets {
        let summary = summary.get(off as u16);
        by_node.entry(summary.nid).or_default().push(Live { off, summary });
    }
    fs.vol.read_nodes_ahead(by_node.keys().copied());
    // Alive first, then read: a log closes its segment when it has given out the last block, which is before that is written. Once a node holds
    // the address the block can be read; what is read before may be what lay there in an earlier life of the segment.
    let mut owners: BTreeMap<Nid, Owner> = BTreeMap::new();
    let mut alive: BTreeMap<u32, Live> = BTreeMap::new();
    for (nid, blocks) in by_node {
        let _change = fs.vol.begin_change()?;
        let Some((owner, live)) = Owner::find(fs, seg, nid, &blocks, mover.asking, &mut report.skipped)? else {
            continue;
        };
        owners.insert(nid, owner);
        alive.extend(live.into_iter().map(|block| (block.off, block)));
    }
    let alive: Vec<(&Owner, Live)> = alive.into_values().map(|block| (&owners[&block.summary.nid], block)).collect();
    let buffer = mover.sink.buffer();
    let mut attempt = Attempt { report, held: Vec::new() };
    let mut by_node: BTreeMap<Nid, Vec<Source>> = BTreeMap::new();
    for source in read_together(fs, seg, &alive, &mut attempt)? {
        by_node.entry(source.block.summary.nid).or_default().push(source);
    }
    mover.activity.set(Doing::Moving, fs.vol.layout().sec_of(seg));
    for (nid, sources) in by_node {
        let target = Target { fs, sink: mover.sink, buffer };
        move_group(seg, &owners[&nid], sources, &target, &mut attempt)?;
    }
    Ok(attempt.held)
}

/// What came of an attempt to move blocks.
struct Attempt<'a> {
    report: &'a mut GcReport,
    /// Blocks whose pages others hold.
    held: Vec<u32>,
}

/// Has the contents of blocks of a segment, reading those that are not cached at the same time, but for those that others work on.
fn read_together(fs: &Fs, seg: SegNo, blocks: &[(&Owner, Live)], attempt: &mut Attempt<'_>) -> Result<Vec<Source>> {
    let began = steadyfs_rt::now();
    let through_cache = fs.options.gc.buffer == GcBuffer::Cache;
    let mut sources = Vec::with_capacity(blocks.len());
    let mut absent = Vec::with_capacity(blocks.len());
    for (owner, block) in blocks {
        if through_cache {
            charge_looks();
        }
        match cached(fs, owner, block) {
            Some(page) => sources.push(Source { block: *block, page, lease: None }),
            None => absent.push((*owner, *block)),
        }
    }
    let (started, read) = start_reads(fs, seg, &absent, &mut attempt.held);
    let pages: Vec<Result<Vec<PageBuf>>> = started.into_iter().map(|reading| fs.vol.io.finish_read(reading)).collect();
    attempt.report.reading += began.elapsed();
    let mut read = read.into_iter();
    let lease = || (!through_cache).then(|| Lease::new(&fs.reclaim.memory));
    for run in pages {
        sources.extend(run?.into_iter().zip(&mut read).map(|(page, block)| Source { block, page, lease: lease() }));
    }
    Ok(sources)
}

/// Submits the reads; returns them, and the blocks that they read. What is held is given back when they are under way: with F2FS' lock for whole
/// files after each run of neighbouring blocks, as F2FS does after each block, and for pages, which nobody else is likely to want, in the end.
fn start_reads(fs: &Fs, seg: SegNo, blocks: &[(&Owner, Live)], held: &mut Vec<u32>) -> (Vec<Reading>, Vec<Live>) {
    let neighbours = |a: &(&Owner, Live), b: &(&Owner, Live)| a.1.off + 1 == b.1.off;
    let batches: Vec<&[(&Owner, Live)]> = match fs.options.gc.protect {
        GcProtect::File => blocks.chunk_by(neighbours).collect(),
        GcProtect::Page => vec![blocks],
    };
    let (mut started, mut read) = (Vec::new(), Vec::new());
    for batch in batches {
        let (may, _held) = try_blocks(Work::Read, batch);
        let (free, others): (Vec<_>, Vec<_>) = batch.iter().zip(may).partition(|(_, may)| *may);
        let free: Vec<(&Owner, Live)> = free.into_iter().map(|(block, _)| *block).collect();
        held.extend(others.into_iter().map(|((_, block), _)| block.off));
        let alone = fs.options.gc.buffer == GcBuffer::Cache;
        let runs = free
            .chunk_by(|a, b| !alone && neighbours(a, b))
            .map(|run| (fs.vol.lba_of(seg, run[0].1.off), run.len() as u32));
        started.extend(fs.vol.io.start_reads(&runs.collect::<Vec<_>>()));
        read.extend(free.into_iter().map(|(_, block)| block));
    }
    (started, read)
}

/// Has the inode written anew, without the extent that Linux may have left in it, before blocks of the file move: see `node_write`.
fn drop_extent(vol: &Volume, owner: Ino) -> Result<()> {
    let inode = match vol.node(owner.nid()) {
        Ok(inode) => inode,
        // The owner is gone, and its blocks with it.
        Err(Error::NotFound) => return Ok(()),
        Err(e) => return Err(e),
    };
    if RawInode::view(inode.read().bytes()).extent().len == 0 {
        return Ok(());
    }
    let mut guard = inode.write(&vol.nodes);
    if !guard.is_dead() {
        RawInode::view_mut(guard.edit()).set_extent(Extent::default());
    }
    Ok(())
}

/// Where blocks go, and who is to be told when they have arrived.
struct Target<'a> {
    fs: &'a Fs,
    sink: &'a Sink,
    buffer: &'a Arc<Pending>,
}

impl Target<'_> {
    /// Submits a run. From here on its blocks can be read at their new place.
    fn write(&self, owner: &Owner, run: Run, moving: &mut [Moving]) {
        let buffer = Arc::clone(self.buffer);
        buffer.add(u64::from(run.count));
        let file = owner.cached_file();
        let landings: Vec<Landing> = moving.iter().filter_map(|m| m.landing(self.fs, file)).collect();
        let leases: Vec<Lease> = moving.iter_mut().filter_map(|m| m.lease.take()).collect();
        let pages = moving.iter().map(|m| m.page.clone()).collect();
        self.fs.vol.io.write(run.lba, pages, logs::hint(Log::ColdData), move |result| {
            landings.into_iter().for_each(|landing| landing.land(result.clone()));
            drop(leases);
            buffer.done(u64::from(run.count));
        });
    }
}

/// Moves the blocks of one owner under its node lock.
fn move_group(
    seg: SegNo,
    owner: &Owner,
    sources: Vec<Source>,
    target: &Target<'_>,
    attempt: &mut Attempt<'_>,
) -> Result<()> {
    let (fs, vol) = (target.fs, &target.fs.vol);
    let _change = vol.begin_change()?;
    drop_extent(vol, owner.ino)?;
    // Behind the checkpoint lock, which takes longer to come by than this is worth; trying waits for nobody.
    let blocks: Vec<(&Owner, Live)> = sources.iter().map(|s| (owner, s.block)).collect();
    let (may, _held) = try_blocks(Work::Move, &blocks);
    let mut guard = owner.node.write(&vol.nodes);
    let mut live = Vec::with_capacity(sources.len());
    for (s, may) in sources.into_iter().zip(may) {
        if !may {
            attempt.held.push(s.block.off);
        } else if !guard.is_dead()
            && (why_dead(vol, seg, &s.block, guard.bytes())?.is_none() || vol.io.planted.is(Canary::BlindMove))
        {
            live.push(s);
        } else {
            attempt.report.skipped.late += 1;
        }
    }
    let mut moving: Vec<Moving> = live.into_iter().map(|source| set_off(fs, owner, source)).collect();
    let mut rest = moving.as_mut_slice();
    let outcome = place_all(seg, owner, &mut rest, target, &mut guard, attempt.report);
    rest.iter().for_each(|m| m.put_back(fs, owner.cached_file()));
    outcome
}

/// Writes blocks whose owner is locked, and has it refer to them; what could not be submitted is left in `rest`.
fn place_all(
    seg: SegNo,
    owner: &Owner,
    rest: &mut &mut [Moving],
    target: &Target<'_>,
    guard: &mut NodeWrite<'_>,
    report: &mut GcReport,
) -> Result<()> {
    let vol = &target.fs.vol;
    while !rest.is_empty() {
        let owners: Vec<Summary> = rest.iter().map(|m| m.block.summary).collect();
        for run in target.sink.take(vol, seg, &owners)? {
            let (now, later) = std::mem::take(rest).split_at_mut(run.count as usize);
            *rest = later;
            target.write(owner, run, now);
            publish(vol, seg, guard, run, now)?;
            report.data_moved += now.len() as u64;
        }
    }
    Ok(())
}

/// Has the owner refer to the blocks at their new places.
fn publish(vol: &Volume, seg: SegNo, guard: &mut NodeWrite<'_>, run: Run, moving: &[Moving]) -> Result<()> {
    for (i, Moving { block, .. }) in moving.iter().enumerate() {
        let (index, to) = (block.summary.ofs_in_node, Slot::At(run.lba + i as u64));
        slots::set(guard.edit(), vol.sb.features(), index, to)?;
        vol.invalidate(Slot::At(vol.lba_of(seg, block.off)))?;
    }
    Ok(())
}
