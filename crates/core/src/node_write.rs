//! Writing dirty nodes: each goes to the end of the log of its kind, and its NAT entry follows.
//!
//! Only a checkpoint writes nodes, so every node block between two checkpoints carries the version of the one in force, and the
//! chain through the warm-node log has no gap (format sections 7, 11, 12). Runs of neighbouring addresses go out as one request.

use crate::error::Result;
use crate::logs;
use crate::node::Node;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Extent, Inode as RawInode};
use steadyfs_format::node::{NodeBlock, NodeKind, NodeOfs};
use steadyfs_format::{Block, Lba, Log};

/// Nodes written per round: bounds the pages held in memory for requests not yet submitted.
const BATCH: usize = 512;

/// The log that a node belongs to: by what it is, and by the cold mark that every node of a non-directory carries.
pub(crate) fn log_of(block: &Block) -> Log {
    let footer = NodeBlock::view(block).footer;
    match footer.ofs().kind() {
        NodeKind::Indirect | NodeKind::DoubleIndirect => Log::ColdNode,
        _ if footer.is_cold() => Log::WarmNode,
        _ => Log::HotNode,
    }
}

/// Neighbouring blocks collected into requests. Holds the nodes until their blocks are submitted, so that none can leave the
/// cache and be read back before its block is on its way.
struct Batch<'v> {
    vol: &'v Volume,
    /// Per log: address of the first page and the pages.
    runs: [(Lba, Vec<PageBuf>); Log::COUNT],
    held: Vec<Arc<Node>>,
}

impl<'v> Batch<'v> {
    fn new(vol: &'v Volume) -> Self {
        Batch { vol, runs: std::array::from_fn(|_| (Lba(0), Vec::new())), held: Vec::new() }
    }

    fn push(&mut self, log: Log, lba: Lba, page: PageBuf) {
        let (start, pages) = &self.runs[log.index()];
        if !pages.is_empty() && *start + pages.len() as u64 != lba {
            self.submit(log);
        }
        let (start, pages) = &mut self.runs[log.index()];
        if pages.is_empty() {
            *start = lba;
        }
        pages.push(page);
    }

    fn submit(&mut self, log: Log) {
        let (start, pages) = &mut self.runs[log.index()];
        if !pages.is_empty() {
            // A failure is latched by the block I/O and fails the checkpoint.
            self.vol.io.write(*start, std::mem::take(pages), logs::hint(log), |_| ());
        }
    }

    fn submit_all(&mut self) {
        for log in Log::NODE {
            self.submit(log);
        }
        self.held.clear();
    }
}

impl Volume {
    /// Submits all nodes that are dirty now. `stamp` is the version word of the checkpoint in force, for the footers.
    pub(crate) fn write_dirty_nodes(&self, _change: &Change<'_>, stamp: u64) -> Result<usize> {
        let mut written = 0;
        let nodes = self.nodes.take_dirty();
        let mut rest = nodes.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BATCH));
            let mut batch = Batch::new(self);
            for (i, node) in now.iter().enumerate() {
                match self.write_node(node, stamp, &mut batch) {
                    Ok(wrote) => written += usize::from(wrote),
                    Err(e) => {
                        batch.submit_all();
                        self.nodes.put_back_dirty([&now[i..], later].concat());
                        return Err(e);
                    }
                }
            }
            batch.submit_all();
            rest = later;
        }
        Ok(written)
    }

    /// Writes one node if it is still dirty and alive.
    fn write_node(&self, node: &Arc<Node>, stamp: u64, batch: &mut Batch<'_>) -> Result<bool> {
        let mut guard = node.write(&self.nodes);
        if guard.is_dead() || !guard.is_dirty() {
            return Ok(false);
        }
        let log = log_of(guard.bytes());
        let (lba, next) = self.take_node_block(log, node.nid)?;
        let (features, seed) = (self.sb.features(), self.sb.inode_checksum_seed());
        let page = guard.take_for_write(|block| {
            let footer = &mut NodeBlock::view_mut(block).footer;
            footer.set_fsync(false);
            footer.set_dentry(false);
            footer.set_chain(stamp, next);
            if footer.ofs() == NodeOfs::INODE {
                let raw = RawInode::view_mut(block);
                // Linux keeps the file's largest extent here and believes it. It is not kept up to date here, so it goes.
                raw.set_extent(Extent::default());
                raw.update_checksum(features, seed);
            }
        });
        let old = self.nat.relocate(&self.io, node.nid, lba)?;
        self.invalidate(old)?;
        batch.held.push(Arc::clone(node));
        batch.push(log, lba, page);
        Ok(true)
    }
}
