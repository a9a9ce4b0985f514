//! Moving the data of a segment: what is valid is read together, and then moved, owner by owner.
//!
//! The two steps are apart ([`fetch`], [`move_fetched`]), so that a collector can have other segments read while it
//! moves one.

use super::buffer::{Lease, Memory, Moving, Source, cached, charge_looks, charge_merged, set_off};
use super::collector::Sink;
use crate::canary::Canary;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::pages::Landing;
use crate::gate::protect::{PageHold, Work};
use crate::options::techniques::{GcBuffer, GcProtect};
use crate::reclaim::activity::{Activity, Doing};
use crate::reclaim::live::{Asking, Live};
use crate::reclaim::owner::{Owner, publish, try_blocks, why_dead};
use crate::reclaim::report::GcReport;
use crate::volume::io::Reading;
use crate::volume::nodes::cache::NodeWrite;
use crate::volume::placement::places::Run;
use crate::volume::segments::logs;
use crate::volume::{Change, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Extent, Inode as RawInode};
use steadyfs_format::summary::{Summary, SummaryBlock};
use steadyfs_format::{Ino, Log, Nid, SegNo};
use steadyfs_rt::{Cost, charge_n};

/// How victims are cleaned.
pub(super) struct Mover<'a> {
    pub(super) files: &'a Files,
    pub(super) memory: &'a Arc<Memory>,
    /// Where what is moved goes.
    pub(super) sink: &'a Sink,
    pub(super) asking: Asking,
    /// Where is told how far that is.
    pub(super) activity: &'a Activity,
}

/// Blocks of a segment whose contents are here or on their way.
pub(super) struct Fetch {
    owners: BTreeMap<Nid, Owner>,
    here: Vec<Source>,
    coming: Vec<Coming>,
    /// Blocks whose pages others hold.
    held: Vec<u32>,
    /// For all of these.
    lease: Lease,
}

/// Neighbouring blocks whose contents are on their way.
struct Coming {
    read: Reading,
    blocks: Vec<Live>,
}

impl Fetch {
    /// Pages in memory for it.
    pub(super) fn pages(&self) -> u64 {
        self.lease.pages()
    }
}

/// Has these blocks of a segment read, of which the summary says whose they are.
pub(super) fn fetch(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    report: &mut GcReport,
) -> Result<Fetch> {
    let lease = |pages| mover.sink.buffer.lease(pages);
    fetch_into(mover, seg, summary, offsets, report, lease)
}

fn fetch_into(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: &SummaryBlock,
    offsets: &[u32],
    report: &mut GcReport,
    lease: impl FnOnce(u64) -> Lease,
) -> Result<Fetch> {
    let files = mover.files;
    let mut by_node: BTreeMap<Nid, Vec<Live>> = BTreeMap::new();
    for &off in offsets {
        let summary = summary.get(off as u16);
        by_node.entry(summary.nid).or_default().push(Live { off, summary });
    }
    files.vol.read_nodes_ahead(by_node.keys().copied());
    // Alive first, then read: a log closes its segment when it has given out the last block, which is before that is
    // written. Once a node holds the address the block can be read; what is read before may be what lay there in an
    // earlier life of the segment.
    let mut owners: BTreeMap<Nid, Owner> = BTreeMap::new();
    let mut alive: BTreeMap<u32, Live> = BTreeMap::new();
    for (nid, blocks) in by_node {
        let _change = files.vol.begin_change()?;
        let Some((owner, live)) = Owner::find(files, seg, nid, &blocks, mover.asking, &mut report.skipped)? else {
            continue;
        };
        owners.insert(nid, owner);
        alive.extend(live.into_iter().map(|block| (block.off, block)));
    }
    let lease = lease(alive.len() as u64);
    assert!(lease.pages() >= alive.len() as u64, "{} blocks come into room for {}", alive.len(), lease.pages());
    let alive: Vec<(&Owner, Live)> = alive.into_values().map(|block| (&owners[&block.summary.nid], block)).collect();
    let began = steadyfs_rt::now();
    let (here, absent) = look_in_cache(files, &alive);
    let mut held = Vec::new();
    let coming = start_reads(files, seg, &absent, &mut held);
    report.reading += began.elapsed();
    Ok(Fetch { owners, here, coming, held, lease })
}

/// Those of the blocks whose contents are cached, with these, and the others.
fn look_in_cache<'a>(files: &Files, blocks: &[(&'a Owner, Live)]) -> (Vec<Source>, Vec<(&'a Owner, Live)>) {
    if files.options.gc.buffer == GcBuffer::Dedicated {
        return (Vec::new(), blocks.to_vec());
    }
    let (mut here, mut absent) = (Vec::with_capacity(blocks.len()), Vec::with_capacity(blocks.len()));
    for (owner, block) in blocks {
        charge_looks();
        match cached(&files.budget, owner.cached_file(), owner.page(block)) {
            Some(page) => here.push(Source { block: *block, page }),
            None => absent.push((*owner, *block)),
        }
    }
    (here, absent)
}

/// Submits the reads, and gives back the locks when they are under way. With F2FS' lock for whole files that happens
/// after each run of neighbouring blocks; F2FS does so after each block. Locks of pages, which nobody else is likely to
/// want, are given back in the end.
fn start_reads(files: &Files, seg: SegNo, blocks: &[(&Owner, Live)], held: &mut Vec<u32>) -> Vec<Coming> {
    let neighbours = |a: &(&Owner, Live), b: &(&Owner, Live)| a.1.off + 1 == b.1.off;
    let batches: Vec<&[(&Owner, Live)]> = match files.options.gc.protect {
        GcProtect::File => blocks.chunk_by(neighbours).collect(),
        GcProtect::Page => vec![blocks],
    };
    let mut coming = Vec::new();
    for batch in batches {
        let (may, _held) = try_blocks(Work::Read, batch);
        let (free, others): (Vec<_>, Vec<_>) = batch.iter().zip(may).partition(|(_, may)| *may);
        let free: Vec<(&Owner, Live)> = free.into_iter().map(|(block, _)| *block).collect();
        held.extend(others.into_iter().map(|((_, block), _)| block.off));
        let runs: Vec<_> = free.chunk_by(neighbours).collect();
        if files.options.gc.buffer == GcBuffer::Cache {
            charge_merged(free.len() - runs.len());
        }
        let places: Vec<_> =
            runs.iter().map(|run| (files.vol.segments().lba_of(seg, run[0].1.off), run.len() as u32)).collect();
        let reads = files.vol.io.start_reads(&places);
        assert_eq!(reads.len(), runs.len(), "a read for each run");
        let blocks = |run: &[(&Owner, Live)]| run.iter().map(|(_, block)| *block).collect();
        coming.extend(reads.into_iter().zip(runs).map(|(read, run)| Coming { read, blocks: blocks(run) }));
    }
    coming
}

/// Moves what was read; what others work on is tried once more in the end, for they have gone on then, and one block
/// that stays keeps a whole section.
pub(super) fn move_fetched(
    mover: &Mover<'_>,
    seg: SegNo,
    summary: &SummaryBlock,
    fetched: Fetch,
    report: &mut GcReport,
) -> Result<()> {
    let (mut held, lease) = move_what_is_free(mover, seg, fetched, report)?;
    // F2FS tries a file once, and goes on.
    if !held.is_empty() && mover.files.options.gc.protect == GcProtect::Page {
        let again = fetch_into(mover, seg, summary, &held, report, |_| lease)?;
        (held, _) = move_what_is_free(mover, seg, again, report)?;
    }
    report.skipped.held += held.len() as u64;
    mover.files.budget.trim();
    Ok(())
}

/// One attempt to move these blocks; returns those whose pages others hold, and what is left of the room in memory.
fn move_what_is_free(
    mover: &Mover<'_>,
    seg: SegNo,
    fetched: Fetch,
    report: &mut GcReport,
) -> Result<(Vec<u32>, Lease)> {
    let Fetch { owners, here, coming, held, lease } = fetched;
    let mut attempt = Attempt { report, seg, owners: &owners, held, lease };
    let gc = &mover.files.options.gc;
    if gc.protect == GcProtect::File && gc.buffer == GcBuffer::Cache {
        move_as_they_come(mover, here, coming, &mut attempt)?;
    } else {
        let sources = wait_for_all(mover, here, coming, &mut attempt)?;
        mover.activity.set(Doing::Moving, mover.files.vol.layout().sec_of(seg));
        move_all(mover, sources, None, &mut attempt)?;
    }
    Ok((attempt.held, attempt.lease))
}

/// All blocks with their contents.
fn wait_for_all(
    mover: &Mover<'_>,
    here: Vec<Source>,
    coming: Vec<Coming>,
    attempt: &mut Attempt<'_>,
) -> Result<Vec<Source>> {
    let began = steadyfs_rt::now();
    // Each is waited for, whatever came of those before it.
    let wait = |Coming { read, blocks }| (mover.files.vol.io.finish_read(read), blocks);
    let arrived: Vec<(Result<Vec<PageBuf>>, Vec<Live>)> = coming.into_iter().map(wait).collect();
    attempt.report.reading += began.elapsed();
    let mut sources = here;
    for (pages, blocks) in arrived {
        sources.extend(with_contents(blocks, pages?));
    }
    Ok(sources)
}

/// Blocks of a run with what was read of it.
fn with_contents(blocks: Vec<Live>, pages: Vec<PageBuf>) -> impl Iterator<Item = Source> {
    assert_eq!(pages.len(), blocks.len(), "blocks were read and did not come");
    blocks.into_iter().zip(pages).map(|(block, page)| Source { block, page })
}

/// F2FS' way, run by run in the order of the segment: a collector takes the file of a block, waits for the contents if
/// they are not here yet, moves the block, and gives the file back. So others find a file held for as long as a read
/// takes. Blocks that are here move together.
fn move_as_they_come<'a>(
    mover: &Mover<'_>,
    here: Vec<Source>,
    coming: Vec<Coming>,
    attempt: &mut Attempt<'a>,
) -> Result<()> {
    let (mut ready, mut awaited) = (here, None);
    for Coming { read, mut blocks } in coming {
        let all = blocks.len();
        if !read.is_done() {
            // A file that was waited for before is not held beyond this wait.
            move_all(mover, std::mem::take(&mut ready), awaited.take(), attempt)?;
        }
        if !read.is_done() {
            awaited = take_first(&mut blocks, attempt);
            if awaited.is_none() {
                continue;
            }
        }
        let passed = all - blocks.len();
        let began = steadyfs_rt::now();
        let mut pages = mover.files.vol.io.finish_read(read)?;
        attempt.report.reading += began.elapsed();
        pages.drain(..passed);
        ready.extend(with_contents(blocks, pages));
    }
    move_all(mover, ready, awaited, attempt)
}

/// A file that a collector has to itself, and the node of a block in it that it has waited for.
struct Awaited<'a> {
    nid: Nid,
    held: Vec<PageHold<'a>>,
}

/// Takes the file of the first of these blocks of which it can be had; those before it stay where they are.
fn take_first<'a>(blocks: &mut Vec<Live>, attempt: &mut Attempt<'a>) -> Option<Awaited<'a>> {
    while let Some(block) = blocks.first().copied() {
        let nid = block.summary.nid;
        let (may, held) = try_blocks(Work::Move, &[(&attempt.owners[&nid], block)]);
        if may[0] {
            return Some(Awaited { nid, held });
        }
        attempt.held.push(blocks.remove(0).off);
    }
    None
}

/// Moves blocks whose contents are here, first those of a node whose file is held already.
fn move_all<'a>(
    mover: &Mover<'_>,
    sources: Vec<Source>,
    awaited: Option<Awaited<'a>>,
    attempt: &mut Attempt<'a>,
) -> Result<()> {
    let mut by_node: BTreeMap<Nid, Vec<Source>> = BTreeMap::new();
    for source in sources {
        by_node.entry(source.block.summary.nid).or_default().push(source);
    }
    let owners = attempt.owners;
    let first = awaited.map(|Awaited { nid, held }| {
        let sources = by_node.remove(&nid).unwrap_or_default();
        assert!(!sources.is_empty(), "a block of {nid} was waited for, and is not there");
        Group { owner: &owners[&nid], sources, held: Some(held) }
    });
    let others = by_node.into_iter().map(|(nid, sources)| Group { owner: &owners[&nid], sources, held: None });
    let mut groups = first.into_iter().chain(others).peekable();
    while groups.peek().is_some() {
        move_some(mover, &mut groups, attempt)?;
    }
    Ok(())
}

/// Blocks of one owner, and its file, if that is held for them already.
struct Group<'a> {
    owner: &'a Owner,
    sources: Vec<Source>,
    held: Option<Vec<PageHold<'a>>>,
}

/// Blocks that are moved under one change: their writes go to the device together. Checkpoints wait for it.
const TOGETHER: usize = 64;

/// Moves the blocks of some owners, and submits what is written for them.
fn move_some<'a>(
    mover: &Mover<'_>,
    groups: &mut impl Iterator<Item = Group<'a>>,
    attempt: &mut Attempt<'a>,
) -> Result<()> {
    let change = mover.files.vol.begin_change()?;
    mover.files.gather(&change);
    let mut blocks = 0;
    while blocks < TOGETHER
        && let Some(group) = groups.next()
    {
        blocks += group.sources.len();
        move_group(mover, &change, group, attempt)?;
    }
    Ok(())
}

/// What came of an attempt to move blocks.
struct Attempt<'a> {
    report: &'a mut GcReport,
    seg: SegNo,
    owners: &'a BTreeMap<Nid, Owner>,
    /// Blocks whose pages others hold.
    held: Vec<u32>,
    /// Room in memory for what has not been submitted.
    lease: Lease,
}

/// Has the inode written again, without the extent that Linux may have left in it, before blocks of the file move: see
/// `volume::nodes::write`.
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

/// Writes a run. From here on its blocks can be read at their new place; their room in memory is free when they have
/// arrived.
fn write(files: &Files, change: &Change<'_>, owner: &Owner, run: Run, moving: &[Moving], lease: Lease) {
    let file = owner.cached_file();
    assert_eq!(moving.len(), run.count as usize, "a run has another length than what goes there");
    assert_eq!(lease.pages(), u64::from(run.count), "a run gives back another room than it took");
    let landings: Vec<Landing> = moving.iter().filter_map(|m| m.landing(&files.budget, file)).collect();
    let pages = moving.iter().map(|m| m.page.clone()).collect();
    change.write(run.lba, pages, logs::hint(Log::ColdData), move |result| {
        landings.into_iter().for_each(|landing| landing.land(result.clone()));
        drop(lease);
    });
}

/// Moves the blocks of one owner under its node lock.
fn move_group(mover: &Mover<'_>, change: &Change<'_>, group: Group<'_>, attempt: &mut Attempt<'_>) -> Result<()> {
    let (files, vol, seg) = (mover.files, &mover.files.vol, attempt.seg);
    let Group { owner, sources, held } = group;
    assert!(sources.iter().all(|s| s.block.summary.nid == owner.node.nid), "blocks of others than {}", owner.node.nid);
    drop_extent(vol, owner.ino)?;
    let (may, _held) = match held {
        Some(held) => (vec![true; sources.len()], held),
        None => {
            // Behind the checkpoint lock, which takes longer to come by than this is worth; trying waits for nobody.
            let blocks: Vec<(&Owner, Live)> = sources.iter().map(|s| (owner, s.block)).collect();
            try_blocks(Work::Move, &blocks)
        }
    };
    charge_n(Cost::PageMove, sources.len() as u64);
    let mut guard = owner.node.write(&vol.nodes);
    let mut live = Vec::with_capacity(sources.len());
    for (s, may) in sources.into_iter().zip(may) {
        if !may {
            attempt.held.push(s.block.off);
        } else if !guard.is_dead()
            && (why_dead(vol, seg, &s.block, guard.bytes())?.is_none()
                || steadyfs_rt::mutated("movers-look-again")
                || vol.io.planted.is(Canary::BlindMove))
        {
            live.push(s);
        } else {
            attempt.report.skipped.late += 1;
        }
    }
    let moving: Vec<Moving> = {
        let set_off = |source: Source| set_off(&files.budget, owner.cached_file(), owner.page(&source.block), source);
        live.into_iter().map(set_off).collect()
    };
    let mut rest = moving.as_slice();
    let outcome = place_all(mover, change, owner, &mut rest, &mut guard, attempt);
    rest.iter().for_each(|m| m.put_back(&files.budget, owner.cached_file()));
    moving.iter().for_each(|m| m.placed(&files.budget, owner.cached_file()));
    outcome
}

/// Writes blocks whose owner is locked, and has it refer to them; what could not be submitted is left in `rest`.
fn place_all(
    mover: &Mover<'_>,
    change: &Change<'_>,
    owner: &Owner,
    rest: &mut &[Moving],
    guard: &mut NodeWrite<'_>,
    attempt: &mut Attempt<'_>,
) -> Result<()> {
    let (vol, seg) = (&mover.files.vol, attempt.seg);
    while !rest.is_empty() {
        let owners: Vec<Summary> = rest.iter().map(|m| m.block.summary).collect();
        for run in mover.sink.take(vol, seg, &owners)? {
            assert!(run.count > 0 && run.count as usize <= rest.len(), "{run:?} is taken for {} blocks", rest.len());
            let (now, later) = rest.split_at(run.count as usize);
            *rest = later;
            write(mover.files, change, owner, run, now, attempt.lease.split(u64::from(run.count)));
            publish(vol, seg, guard, run.lba, now.iter().map(|m| m.block))?;
            attempt.report.data_moved += now.len() as u64;
        }
    }
    Ok(())
}
