//! Cleaning a section: moving every block that is still valid to another segment.
//!
//! The node rule: a data block is moved only if, under the lock of the node that owns it, the node's slot still holds the source
//! address, as it did before the block was read; a writer, a truncation or another collector that came first wins. A node block is moved by making the node dirty; the
//! next checkpoint writes it to its log. All reads of a segment are in flight together, one for each run of neighbouring blocks; moves are grouped by owner and made under one
//! node lock each. New addresses are published after their blocks are readable (see `io`).

use super::victim::{Select, Victim};
use super::{GcReport, Skipped, Urgency};
use crate::error::{Error, Result};
use crate::logs::{self, Run};
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
use steadyfs_format::{Block, Lba, Log, Nid, SegNo, Slot};
use steadyfs_rt::Pending;

/// Where a collector puts the data that it moves.
pub(super) enum Sink {
    /// The cold data log, which others write to as well.
    ColdLog,
    /// A stream of the collector's own.
    Stream {
        /// Its number.
        slot: usize,
        /// Buffers, each of a segment's size at most, whose writes may be under way while the next victim is read into another.
        buffers: [Arc<Pending>; 2],
        next: AtomicUsize,
    },
}

impl Sink {
    /// A stream with buffers of its own.
    pub(super) fn stream(slot: usize) -> Self {
        Sink::Stream { slot, buffers: Default::default(), next: AtomicUsize::new(0) }
    }

    fn take(&self, vol: &Volume, owners: &[Summary]) -> Result<Vec<Run>> {
        match self {
            Sink::ColdLog => vol.take_blocks(Log::ColdData, owners),
            Sink::Stream { slot, .. } => vol.take_stream_blocks(*slot, owners),
        }
    }

    /// A buffer for the next segment, once what it held last has been written. So a collector has no more pages in memory than its buffers hold.
    fn buffer(&self) -> Option<Arc<Pending>> {
        match self {
            Sink::ColdLog => None,
            Sink::Stream { buffers, next, .. } => {
                let buffer = &buffers[next.fetch_add(1, Relaxed) % buffers.len()];
                buffer.wait_zero();
                Some(Arc::clone(buffer))
            }
        }
    }
}

/// One that collects: a way to choose victims, and a place for what is moved.
pub(super) struct Collector {
    pub(super) select: Box<dyn Select>,
    pub(super) sink: Sink,
}

impl Collector {
    /// Cleans one victim; `None` if there is nothing worth cleaning. Called without the checkpoint lock.
    pub(super) fn collect_one(&self, vol: &Volume, urgency: Urgency, activity: &Activity) -> Result<Option<GcReport>> {
        let _idle_after = activity.begin();
        let Some(victim) = self.select.next(&vol.segs, vol.layout(), urgency, vol.elapsed()) else {
            return Ok(None);
        };
        let cleaned = self.clean(vol, &victim, activity);
        victim.segs.iter().for_each(|&seg| vol.segs.unclaim(seg));
        self.select.done(victim.sec);
        cleaned.inspect(|report| activity.note(report)).map(Some)
    }

    fn clean(&self, vol: &Volume, victim: &Victim, activity: &Activity) -> Result<GcReport> {
        let mover = Mover { sink: &self.sink, activity };
        let mut report = GcReport { victims: 1, ..GcReport::default() };
        let mut whole = true;
        for seg in vol.layout().segs_of(victim.sec) {
            whole &= match victim.segs.contains(&seg) {
                true => clean_segment(vol, seg, &mover, &mut report)?,
                false => vol.segs.state(seg).count() == 0,
            };
        }
        report.sections_freed = u64::from(whole);
        Ok(report)
    }
}

/// Where what is moved goes, and where is told how far that is.
struct Mover<'a> {
    sink: &'a Sink,
    activity: &'a Activity,
}

/// A valid block of the victim, with its contents.
struct Source {
    off: u32,
    owner: Summary,
    page: PageBuf,
}

/// Moves what is valid in a claimed segment. True if nothing will be left in it after the next checkpoint.
fn clean_segment(vol: &Volume, seg: SegNo, mover: &Mover<'_>, report: &mut GcReport) -> Result<bool> {
    let summary = vol.summary_of(seg)?;
    let kind = Log::from_number(vol.segs.kind(seg)).map(Log::is_node);
    let noted = summary.kind()? == SummaryKind::Node;
    if kind != Some(noted) {
        return Err(Error::corrupt(format!("segment {seg}: its summary and the SIT disagree on what it holds")));
    }
    let offsets = vol.segs.valid_offsets(seg);
    let skipped = report.skipped;
    let sec = vol.layout().sec_of(seg);
    if noted {
        mover.activity.set(Doing::Moving, sec);
        clean_nodes(vol, seg, &summary, &offsets, report)?;
    } else {
        mover.activity.set(Doing::Reading, sec);
        clean_data(vol, seg, mover, &summary, &offsets, report)?;
    }
    Ok(report.skipped == skipped || vol.segs.state(seg).count() == 0)
}

/// Moves what these blocks of the main area hold, wherever they are and whoever owns them.
pub(crate) fn move_blocks(vol: &Volume, lbas: &[Lba]) -> Result<()> {
    let mut by_segment: BTreeMap<SegNo, Vec<u32>> = BTreeMap::new();
    for (seg, off) in lbas.iter().filter_map(|lba| vol.segs.locate(*lba)) {
        by_segment.entry(seg).or_default().push(off);
    }
    let mut report = GcReport::default();
    for (seg, offsets) in by_segment {
        let summary = vol.summary_of(seg)?;
        match summary.kind()? {
            SummaryKind::Node => clean_nodes(vol, seg, &summary, &offsets, &mut report)?,
            SummaryKind::Data => {
                let mover = Mover { sink: &Sink::ColdLog, activity: &Activity::default() };
                clean_data(vol, seg, &mover, &summary, &offsets, &mut report)?;
            }
        }
    }
    Ok(())
}

fn clean_nodes(vol: &Volume, seg: SegNo, summary: &SummaryBlock, offsets: &[u32], report: &mut GcReport) -> Result<()> {
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

fn clean_data(
    vol: &Volume,
    seg: SegNo,
    mover: &Mover<'_>,
    summary: &SummaryBlock,
    offsets: &[u32],
    report: &mut GcReport,
) -> Result<()> {
    let mut owners: BTreeMap<Nid, Vec<(u32, Summary)>> = BTreeMap::new();
    for &off in offsets {
        let owner = summary.get(off as u16);
        owners.entry(owner.nid).or_default().push((off, owner));
    }
    // Alive first, then read: a log closes its segment when it has given out the last block, which is before that is written. Once a node holds
    // the address the block can be read; what is read before may be what lay there in an earlier life of the segment.
    let mut alive = BTreeMap::new();
    for (nid, blocks) in owners {
        alive.extend(live_blocks(vol, seg, nid, &blocks, &mut report.skipped)?);
    }
    let buffer = mover.sink.buffer();
    let mut by_owner: BTreeMap<Nid, Vec<Source>> = BTreeMap::new();
    for (off, page) in read_together(vol, seg, &alive.keys().copied().collect::<Vec<u32>>(), report)? {
        let owner = alive[&off];
        by_owner.entry(owner.nid).or_default().push(Source { off, owner, page });
    }
    mover.activity.set(Doing::Moving, vol.layout().sec_of(seg));
    for (nid, sources) in by_owner {
        let target = Target { sink: mover.sink, buffer: buffer.as_ref() };
        move_group(vol, seg, nid, sources, &target, report)?;
    }
    Ok(())
}

/// Reads blocks of a segment, all at the same time.
fn read_together(vol: &Volume, seg: SegNo, offsets: &[u32], report: &mut GcReport) -> Result<Vec<(u32, PageBuf)>> {
    let runs: Vec<&[u32]> = offsets.chunk_by(|a, b| a + 1 == *b).collect();
    let places: Vec<(Lba, u32)> = runs.iter().map(|run| (vol.lba_of(seg, run[0]), run.len() as u32)).collect();
    let began = steadyfs_rt::now();
    let read = vol.io.read_runs(&places);
    report.reading += began.elapsed();
    let mut pages = Vec::with_capacity(offsets.len());
    for (run, read) in runs.into_iter().zip(read) {
        pages.extend(run.iter().copied().zip(read?));
    }
    Ok(pages)
}

/// Those of one owner's blocks that its node refers to at this moment; the others are counted.
fn live_blocks(
    vol: &Volume,
    seg: SegNo,
    nid: Nid,
    blocks: &[(u32, Summary)],
    skipped: &mut Skipped,
) -> Result<Vec<(u32, Summary)>> {
    let _change = vol.begin_change()?;
    let node = match vol.node(nid) {
        Ok(node) => node,
        Err(Error::NotFound) => {
            skipped.gone += blocks.len() as u64;
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let guard = node.read();
    let mut live = Vec::with_capacity(blocks.len());
    for (off, owner) in blocks {
        match why_dead(vol, seg, *off, owner, guard.is_dead(), guard.bytes())? {
            None => live.push((*off, *owner)),
            Some(Why::Gone) => skipped.gone += 1,
            Some(Why::Moved) => skipped.moved += 1,
        }
    }
    Ok(live)
}

/// Why a block that its segment counts as valid is not to be moved.
enum Why {
    /// Its owner was deleted; the node id may be in use again.
    Gone,
    /// Its owner has other contents there now, or the same at another place.
    Moved,
}

/// Why the node with these bytes does not refer to the block; `None` if it does.
fn why_dead(vol: &Volume, seg: SegNo, off: u32, owner: &Summary, dead: bool, bytes: &Block) -> Result<Option<Why>> {
    if dead || owner.version != vol.nat.get(&vol.io, owner.nid)?.version {
        return Ok(Some(Why::Gone));
    }
    let refers = slots::get(bytes, vol.sb.features(), owner.ofs_in_node)? == Some(Slot::At(vol.lba_of(seg, off)));
    Ok((!refers).then_some(Why::Moved))
}

/// Has the inode written anew, without the extent that Linux may have left in it, before blocks of the file move: see `node_write`.
fn drop_extent(vol: &Volume, nid: Nid) -> Result<()> {
    let owner = vol.nat.get(&vol.io, nid)?.ino;
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
    sink: &'a Sink,
    buffer: Option<&'a Arc<Pending>>,
}

impl Target<'_> {
    /// Submits a run. From here on its blocks can be read at their new place.
    fn write(&self, vol: &Volume, run: Run, pages: Vec<PageBuf>) {
        let buffer = self.buffer.map(Arc::clone);
        if let Some(buffer) = &buffer {
            buffer.add(u64::from(run.count));
        }
        vol.io.write(run.lba, pages, logs::hint(Log::ColdData), move |_| {
            if let Some(buffer) = buffer {
                buffer.done(u64::from(run.count));
            }
        });
    }
}

/// Moves the blocks of one owner under its node lock.
fn move_group(
    vol: &Volume,
    seg: SegNo,
    nid: Nid,
    sources: Vec<Source>,
    target: &Target<'_>,
    report: &mut GcReport,
) -> Result<()> {
    let _change = vol.begin_change()?;
    drop_extent(vol, nid)?;
    let node = match vol.node(nid) {
        Ok(node) => node,
        Err(Error::NotFound) => {
            report.skipped.late += sources.len() as u64;
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let mut guard = node.write(&vol.nodes);
    let features = vol.sb.features();
    let mut live = Vec::with_capacity(sources.len());
    for s in sources {
        match why_dead(vol, seg, s.off, &s.owner, guard.is_dead(), guard.bytes())? {
            None => live.push(s),
            Some(_) => report.skipped.late += 1,
        }
    }
    let mut rest = live.as_slice();
    while !rest.is_empty() {
        let owners: Vec<Summary> = rest.iter().map(|s| s.owner).collect();
        for run in target.sink.take(vol, &owners)? {
            let (now, later) = rest.split_at(run.count as usize);
            let pages = now.iter().map(|s| s.page.clone()).collect();
            target.write(vol, run, pages);
            for (i, s) in now.iter().enumerate() {
                slots::set(guard.edit(), features, s.owner.ofs_in_node, Slot::At(run.lba + i as u64))?;
                vol.invalidate(Slot::At(vol.lba_of(seg, s.off)))?;
                report.data_moved += 1;
            }
            rest = later;
        }
    }
    Ok(())
}
