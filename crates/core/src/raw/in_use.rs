//! Which blocks of log space the checkpoint of an IPLFS volume needs, and what a device holds beyond them.

use super::Image;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::nat::{self, NatEntry};
use steadyfs_format::node::{NodeBlock, NodeKind, WideNode};
use steadyfs_format::{Block, Features, Lba, META_INO, Nid, ROOT_INO, Slot};

/// NAT blocks read at once.
const NAT_BATCH: usize = 128;

impl Image {
    /// Hands out the address of every node and every block of data of the checkpoint.
    ///
    /// # Errors
    /// Damaged nodes; read errors.
    pub fn blocks_in_use(&self, found: &mut dyn FnMut(Lba)) -> Result<()> {
        let features = self.superblock().features();
        self.nodes_in_use(&mut |lba| {
            found(lba);
            let page = self.read_block(lba)?;
            page.with(|bytes| {
                if let Some(space) = self.log_space() {
                    space.verify_node(bytes, lba)?;
                }
                slots_of(bytes, features, found)
            })
        })
    }

    /// Hands out the address of every node of the checkpoint.
    fn nodes_in_use(&self, found: &mut dyn FnMut(Lba) -> Result<()>) -> Result<()> {
        let layout = *self.layout();
        // The first entry of an id counts.
        let journal: HashMap<Nid, NatEntry> = self.nat_journal().iter().rev().copied().collect();
        let wanted = |nid: Nid, entry: &NatEntry| nid > META_INO.nid() && !entry.is_free();
        for first in (0..layout.nat_blocks()).step_by(NAT_BATCH) {
            let blocks = first..layout.nat_blocks().min(first + NAT_BATCH as u32);
            for (block, page) in blocks.clone().zip(self.nat_blocks(blocks)?) {
                let entries: Vec<NatEntry> = match page.is_zero() {
                    true => Vec::new(),
                    false => page.with(|bytes| nat::entries(bytes, layout.width).collect()),
                };
                for (nid, entry) in layout.nids_of(block).map(Nid).zip(entries) {
                    if !journal.contains_key(&nid) && wanted(nid, &entry) {
                        found(entry.lba)?;
                    }
                }
            }
        }
        journal.iter().filter(|(nid, entry)| wanted(**nid, entry)).try_for_each(|(_, entry)| found(entry.lba))
    }

    /// Of the blocks that a device holds, those of log space that the volume does not need and does not know to be
    /// dead, and that no mount may have written since the checkpoint. `held` comes in rising order.
    ///
    /// # Errors
    /// As [`Image::blocks_in_use`]; a damaged discard log.
    pub fn leaks(&self, held: impl Iterator<Item = u64>) -> Result<Vec<Lba>> {
        let Some(space) = self.log_space() else { return Ok(Vec::new()) };
        let mut known = BlockSet::default();
        self.blocks_in_use(&mut |lba| {
            known.insert(lba);
        })?;
        let (pending, first) = (self.pending_blocks()?, space.superblock().space().first());
        let held = held.map(Lba).filter(|lba| *lba >= first);
        Ok(held.filter(|lba| !known.contains(*lba) && !is_in(&pending, *lba)).collect())
    }

    /// The same of this volume's device, as runs.
    ///
    /// # Errors
    /// As [`Image::leaks`]; a device that does not tell what it holds.
    pub fn leaked_runs(&self) -> Result<Vec<Range<Lba>>> {
        let mut known = BlockSet::default();
        self.blocks_in_use(&mut |lba| {
            known.insert(lba);
        })?;
        let mut leaked = Vec::new();
        self.strays(&|lba| known.contains(lba), &mut |run| leaked.push(run))?;
        Ok(leaked)
    }

    /// Hands out the runs of log space that the device holds, which are not in use as the caller knows, nor pending.
    ///
    /// # Errors
    /// A damaged discard log; a device that does not tell what it holds.
    pub fn strays(&self, in_use: &dyn Fn(Lba) -> bool, found: &mut dyn FnMut(Range<Lba>)) -> Result<()> {
        let Some(space) = self.log_space() else { return Ok(()) };
        let pending = self.pending_blocks()?;
        let mut next = space.superblock().space().first().get();
        while let Some(held) = self.device().held_from(next)? {
            if held.end <= next {
                return Err(Error::corrupt("the device goes back and forth in what it holds"));
            }
            next = held.end;
            let mut run: Option<Range<Lba>> = None;
            for lba in held.map(Lba) {
                let is_stray = !in_use(lba) && !is_in(&pending, lba);
                match &mut run {
                    Some(run) if is_stray => run.end = lba + 1,
                    None if is_stray => run = Some(lba..lba + 1),
                    _ => run.take().into_iter().for_each(&mut *found),
                }
            }
            run.into_iter().for_each(&mut *found);
        }
        Ok(())
    }

    /// The blocks of log space that may be held and are not in use: the discard log and those that it names, and what
    /// lies between heads and limits. In rising order, and none twice.
    ///
    /// # Errors
    /// A damaged discard log; read errors.
    fn pending_blocks(&self) -> Result<Vec<Range<Lba>>> {
        let Some(space) = self.log_space() else { return Ok(Vec::new()) };
        let mut all = vec![space.header().discard_log.range()];
        all.extend(space.header().heads.iter().zip(space.limits()).map(|(head, limit)| head.next..limit));
        self.dead_blocks(&mut |run| all.push(run))?;
        all.sort_unstable_by_key(|run| run.start);
        let mut pending: Vec<Range<Lba>> = Vec::with_capacity(all.len());
        for run in all.into_iter().filter(|run| run.start < run.end) {
            match pending.last_mut() {
                Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
                _ => pending.push(run),
            }
        }
        Ok(pending)
    }
}

/// Whether one of these runs, which are in rising order, has a block.
fn is_in(runs: &[Range<Lba>], lba: Lba) -> bool {
    let behind = runs.partition_point(|run| run.start <= lba);
    runs[..behind].last().is_some_and(|run| run.contains(&lba))
}

/// A set of blocks in an address space that is nearly empty: 64 bytes, and what a map takes, for 512 neighbours of
/// which one is there.
#[derive(Debug, Default)]
pub(crate) struct BlockSet(HashMap<u64, [u64; WORDS]>);

/// Blocks of one entry of a [`BlockSet`].
pub(crate) const CHUNK: u64 = 512;
const WORDS: usize = CHUNK as usize / 64;

impl BlockSet {
    /// Adds a block; false if it was there.
    pub(crate) fn insert(&mut self, lba: Lba) -> bool {
        let (chunk, word, mask) = place(lba);
        let word = &mut self.0.entry(chunk).or_default()[word];
        let fresh = *word & mask == 0;
        *word |= mask;
        fresh
    }

    /// The entries of a set.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, [u64; WORDS])> {
        self.0.iter().map(|(chunk, words)| (*chunk, *words))
    }

    /// The blocks of sets that have nothing in common, as runs in rising order that do not touch.
    pub(crate) fn runs_of(mut chunks: Vec<(u64, [u64; WORDS])>, found: &mut dyn FnMut(Range<Lba>)) {
        chunks.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut run: Option<Range<u64>> = None;
        for (chunk, words) in chunks {
            let is_there = |offset: &u64| words[*offset as usize / 64] & 1 << (offset % 64) != 0;
            for block in (0..CHUNK).filter(is_there).map(|offset| chunk * CHUNK + offset) {
                match &mut run {
                    Some(run) if run.end == block => run.end += 1,
                    _ => run.replace(block..block + 1).into_iter().for_each(|run| found(Lba(run.start)..Lba(run.end))),
                }
            }
        }
        run.into_iter().for_each(|run| found(Lba(run.start)..Lba(run.end)));
    }

    /// Whether a block is there.
    pub(crate) fn contains(&self, lba: Lba) -> bool {
        let (chunk, word, mask) = place(lba);
        self.0.get(&chunk).is_some_and(|words| words[word] & mask != 0)
    }
}

/// Chunk, word and bit of a block.
fn place(lba: Lba) -> (u64, usize, u64) {
    let offset = (lba.get() % CHUNK) as usize;
    (lba.get() / CHUNK, offset / 64, 1 << (offset % 64))
}

/// The blocks that a node names.
fn slots_of(block: &Block, features: Features, found: &mut dyn FnMut(Lba)) -> Result<()> {
    let mut tell = |slot: Slot| slot.lba().into_iter().for_each(&mut *found);
    match NodeBlock::view(block).footer.ofs().kind() {
        NodeKind::Direct => WideNode::view(block).slots().for_each(tell),
        NodeKind::Inode => {
            let raw = Inode::view(block);
            let is_inline = raw.has_inline(inline::DATA) || raw.has_inline(inline::DENTRY);
            let has_blocks = matches!(raw.file_type(), Some(FileType::Regular | FileType::Dir | FileType::Symlink));
            if has_blocks && !is_inline {
                raw.slots(raw.shape(features)?).for_each(&mut tell);
            }
        }
        _ => {}
    }
    Ok(())
}

const _: () = assert!(META_INO.get() + 1 == ROOT_INO.get());
