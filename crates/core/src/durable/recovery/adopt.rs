//! Data blocks that were written after the checkpoint and stay where they are: they become valid in the segment table, and the summary
//! of their segment names their new owner.
//!
//! Kept true: entries of blocks that are valid in the last checkpoint do not change in any summary, so both checkpoints can be read at
//! every moment (format section 6). A block has one owner: who adopts a block takes it from the slot that had it.

use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::volume::nodes::slots;
use std::collections::BTreeMap;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::node::NodeBlock;
use steadyfs_format::summary::{Summary, SummaryBlock, SummaryKind};
use steadyfs_format::{Lba, Log, SegNo, Slot};

/// The summaries of segments with adopted blocks, other than those in which logs stand.
pub(super) struct Adoption<'a> {
    fs: &'a Fs,
    summaries: BTreeMap<SegNo, Box<SummaryBlock>>,
    blocks: u64,
}

impl<'a> Adoption<'a> {
    pub(super) fn new(fs: &'a Fs) -> Self {
        Adoption { fs, summaries: BTreeMap::new(), blocks: 0 }
    }

    /// Makes a block valid, and its owner the given one. Takes it from the slot that has it now, if any.
    ///
    /// # Errors
    /// Damage: the block is outside the main area, in a segment that holds nodes, or belongs to what is no file.
    pub(super) fn adopt(&mut self, lba: Lba, owner: Summary) -> Result<()> {
        let vol = &self.fs.vol;
        let (seg, off) = vol
            .segs
            .locate(lba)
            .ok_or_else(|| Error::corrupt(format!("a fsynced node names block {lba}, outside the main area")))?;
        let fresh = vol.segs.is_free(seg);
        if vol.segs.is_valid(seg, off) {
            self.take_from_owner(seg, off, lba)?;
        }
        if !vol.segs.adopt(seg, off, vol.elapsed()) {
            return Err(Error::corrupt(format!("a fsynced node names block {lba}, which is in a segment of nodes")));
        }
        self.blocks += 1;
        self.with_summary(seg, fresh, |summary| summary.set(off as u16, owner))
    }

    /// Makes the slot that a valid block belongs to a hole.
    fn take_from_owner(&mut self, seg: SegNo, off: u32, lba: Lba) -> Result<()> {
        let vol = &self.fs.vol;
        let owner = self.with_summary(seg, false, |summary| summary.get(off as u16))?;
        let stray = || Error::corrupt(format!("block {lba} is in use, but not by node {}", owner.nid));
        let info = vol.nat.get(&vol.io, owner.nid)?;
        if info.addr == Slot::Hole || info.version != owner.version {
            return Err(stray());
        }
        let inode = self.fs.inode(info.ino)?;
        if inode.kind() != FileType::Regular {
            return Err(Error::corrupt(format!("block {lba} belongs to inode {}, which is no regular file", info.ino)));
        }
        let node = vol.node(owner.nid)?;
        {
            let features = vol.sb.features();
            let mut guard = node.write(&vol.nodes);
            let in_inode = NodeBlock::view(guard.bytes()).footer.nid() == inode.ino().nid();
            let inline = in_inode && super::inode::is_inline(guard.bytes());
            if inline || slots::get(guard.bytes(), features, owner.ofs_in_node)? != Some(Slot::At(lba)) {
                return Err(stray());
            }
            slots::set(guard.edit(), features, owner.ofs_in_node, Slot::Hole)?;
        }
        vol.invalidate(Slot::At(lba))?;
        vol.space.release_blocks(1);
        self.fs.add_blocks(&inode.inode, -1)
    }

    /// Lends the summary of a segment of data to `f`. A segment that was free until now has none worth reading.
    fn with_summary<R>(&mut self, seg: SegNo, fresh: bool, f: impl FnOnce(&mut SummaryBlock) -> R) -> Result<R> {
        let vol = &self.fs.vol;
        for log in Log::ALL {
            let mut head = vol.logs.head(log);
            if head.seg == seg {
                return Ok(f(&mut head.summary));
            }
        }
        if let Some(summary) = self.summaries.get_mut(&seg) {
            return Ok(f(summary));
        }
        let mut summary = if fresh { SummaryBlock::new(SummaryKind::Data) } else { vol.summary_of(seg)? };
        if summary.kind()? != SummaryKind::Data {
            return Err(Error::corrupt(format!("the summary of segment {seg} is one of nodes")));
        }
        let out = f(&mut summary);
        self.summaries.insert(seg, Box::new(summary));
        Ok(out)
    }

    /// Blocks that were made valid so far.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Starts writing the summaries; the next checkpoint waits for them.
    pub(super) fn write_summaries(&self) {
        for (&seg, summary) in &self.summaries {
            assert!(!self.fs.vol.segs.is_free(seg), "segment {seg} was given up");
            self.fs.vol.write_summary(seg, summary, || ());
        }
    }
}
