//! Writing dirty nodes: each goes to the end of the log of its kind, and its NAT entry follows.
//!
//! Checkpoints write all nodes, without marks; fsync writes those of one file, with marks that tell recovery how far to
//! go. Both do so only while no checkpoint is between its freeze and its commit. So every node block carries the
//! version of the checkpoint that is in force when it is needed. The chain through the warm-node log has no gap (format
//! sections 7, 11, 12). Runs of neighbouring addresses go out as one request.

use crate::canary::Canary;
use crate::error::Result;
use crate::volume::io::depth::Depth;
use crate::volume::io::{AllDurable, ChainTicket};
use crate::volume::nodes::cache::{Node, NodeWrite};
use crate::volume::nodes::dirt::Marks;
use crate::volume::nodes::disk_size::{UNLIMITED, cut};
use crate::volume::segments::logs;
use crate::volume::{Change, Volume};
use std::sync::Arc;
use steadyfs_device::{IoResult, PageBuf, Request};
use steadyfs_format::block::BlockView;
use steadyfs_format::inode::{Extent, Inode as RawInode};
use steadyfs_format::node::{NodeBlock, NodeKind, NodeOfs};
use steadyfs_format::{Block, Features, Lba, Log};
use steadyfs_rt::{Cost, charge};

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

/// A node that has its place and only waits to be submitted. Holds the node, so that it cannot leave the cache and be
/// read back before its block is on its way.
pub(crate) struct Placed {
    log: Log,
    lba: Lba,
    page: PageBuf,
    node: Arc<Node>,
    /// Of its place in its log.
    serial: u64,
}

/// Neighbouring blocks collected into requests.
pub(crate) struct Batch<'v> {
    vol: &'v Volume,
    ticket: Arc<ChainTicket>,
    /// Per log: address of the first page and the pages.
    runs: [(Lba, Vec<PageBuf>); Log::COUNT],
    /// Requests that are complete, and owed to the device.
    due: Vec<Request>,
    held: Vec<Arc<Node>>,
}

impl<'v> Batch<'v> {
    /// Nothing yet. The ticket was taken before the places of the nodes to come.
    pub(crate) fn new(vol: &'v Volume, ticket: Arc<ChainTicket>) -> Self {
        Batch { vol, ticket, runs: std::array::from_fn(|_| (Lba(0), Vec::new())), due: Vec::new(), held: Vec::new() }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.runs.iter().all(|(_, pages)| pages.is_empty())
    }

    /// Adds a node.
    pub(crate) fn push(&mut self, placed: Placed) {
        let Placed { log, lba, page, node, .. } = placed;
        self.add(log, lba, page);
        self.held.push(node);
    }

    /// Adds a block of the chain that is no node.
    pub(crate) fn push_block(&mut self, lba: Lba, page: PageBuf) {
        self.add(Log::WarmNode, lba, page);
    }

    fn add(&mut self, log: Log, lba: Lba, page: PageBuf) {
        let (start, pages) = &self.runs[log.index()];
        if !pages.is_empty() && *start + pages.len() as u64 != lba {
            self.close(log);
        }
        let (start, pages) = &mut self.runs[log.index()];
        if pages.is_empty() {
            *start = lba;
        }
        pages.push(page);
    }

    /// Nothing more comes next to what there is of this log.
    fn close(&mut self, log: Log) {
        let (start, pages) = &mut self.runs[log.index()];
        if !pages.is_empty() {
            let ticket = Arc::clone(&self.ticket);
            // What fails is kept by the block I/O, and fails the fsync or checkpoint that waits for this if it fails
            // again.
            let write = self.vol.io.prepare(*start, std::mem::take(pages), logs::hint(log), move |_| drop(ticket));
            self.due.push(write);
        }
    }

    /// Submits everything. Until then the nodes are held: what a device that writes in the call that submits has not
    /// been given is found nowhere else.
    pub(crate) fn submit(mut self) {
        let due = self.take();
        self.vol.io.submit(due);
    }

    /// As [`Batch::submit`], for who waits for it next: the last request is done by the calling thread.
    pub(crate) fn submit_and_help(mut self) {
        let due = self.take();
        self.vol.io.submit_and_help(due);
    }

    /// Writes all of it together with what else the caller owes, and waits until all of that has ended; see
    /// [`BlockIo::write_together`](crate::volume::io::BlockIo::write_together). Where the device does not do better so,
    /// nothing is owed, and it is true if nobody asks.
    pub(crate) fn write_with(mut self, mut owed: Vec<Request>, alone: Option<AllDurable>) -> bool {
        if !self.vol.io.writes_together() {
            assert!(owed.is_empty() && alone.is_none(), "writes are owed to a device that does one at a time");
            self.write();
            return true;
        }
        owed.extend(self.take());
        self.vol.io.write_together(owed, alone)
    }

    /// As [`Batch::submit_and_help`], and waits until all of it has ended.
    fn write(mut self) {
        let flying = Arc::new(Depth::default());
        let watched = |Request { op, done }| {
            let at_device = flying.begin();
            // What failed is noted by then.
            Request::new(op, move |result: IoResult| {
                done(result);
                drop(at_device);
            })
        };
        let due = self.take().into_iter().map(watched).collect();
        self.vol.io.submit_and_help(due);
        flying.wait(1);
    }

    fn take(&mut self) -> Vec<Request> {
        Log::NODE.into_iter().for_each(|log| self.close(log));
        std::mem::take(&mut self.due)
    }
}

/// Computes the checksum of an inode, on volumes that have them.
fn seal(inode: &mut RawInode, features: Features, seed: u32) {
    if inode.has_checksum(features) {
        charge(Cost::Checksum);
        inode.update_checksum(features, seed);
    }
}

impl Volume {
    /// Submits all nodes that are dirty now, without marks. `stamp` is the version word of the checkpoint in force, for
    /// the footers.
    pub(crate) fn write_dirty_nodes(&self, change: &Change<'_>, stamp: u64) -> Result<()> {
        for node in self.nodes.dirt.behind() {
            let mut guard = node.write(&self.nodes);
            if !guard.is_dead() {
                guard.touch();
            }
        }
        for nodes in self.nodes.dirt.all().chunks(BATCH) {
            let mut batch = Batch::new(self, self.io.enter_chain());
            let placed: Result<()> = nodes.iter().try_for_each(|node| {
                let mut guard = node.write(&self.nodes);
                if !guard.is_dead() && guard.is_dirty() {
                    batch.push(self.place_node(change, node, &mut guard, stamp, Marks::default(), UNLIMITED)?);
                }
                Ok(())
            });
            batch.submit();
            placed?;
        }
        Ok(())
    }

    /// Gives a dirty node its place; it is clean from here on, and must be submitted. Of an inode's size the device is
    /// told `most` bytes at most, and never more than the node's limit.
    pub(crate) fn place_node(
        &self,
        _change: &Change<'_>,
        node: &Arc<Node>,
        guard: &mut NodeWrite<'_>,
        stamp: u64,
        marks: Marks,
        most: u64,
    ) -> Result<Placed> {
        assert!(!guard.is_dead() && guard.is_dirty(), "node {} is given a place and needs none", node.nid);
        let log = log_of(guard.bytes());
        let footer = NodeBlock::view(guard.bytes()).footer;
        let ino = footer.ino();
        // Reads the NAT block if it is not in memory: from here on nothing depends on the device.
        let _stays = self.nat.hold(&self.io, node.nid)?;
        let place = self.placement.take_node(log, node.nid)?;
        let (features, seed) = (self.sb.features(), self.sb.inode_checksum_seed());
        if log == Log::WarmNode {
            self.nodes.dirt.note_place(ino, place.serial, marks);
        }
        let mut page = guard.take_for_write(|block| {
            let footer = &mut NodeBlock::view_mut(block).footer;
            footer.set_fsync(marks.fsync && !self.io.planted.is(Canary::NoMark));
            footer.set_dentry(marks.dentry);
            footer.set_chain(stamp, self.placement.chain_link(&place));
            if footer.ofs() == NodeOfs::INODE {
                let raw = RawInode::view_mut(block);
                // Linux keeps the file's largest extent here and believes it. It is not kept up to date here, so it
                // goes.
                raw.set_extent(Extent::default());
                seal(raw, features, seed);
            }
            self.placement.seal_node(block, place.lba);
        });
        if footer.ofs() == NodeOfs::INODE {
            let end = node.disk_size.limit().min(most);
            let less = (RawInode::view(guard.bytes()).size() > end).then_some(end);
            guard.note_told_size(less);
            if let Some(end) = less {
                let block = page.make_mut();
                let image = RawInode::view_mut(block);
                cut(image, end);
                seal(image, features, seed);
                self.placement.seal_node(block, place.lba);
            }
        }
        let old = self.nat.relocate(&self.io, node.nid, place.lba)?;
        self.invalidate(old)?;
        Ok(Placed { log, lba: place.lba, page, node: Arc::clone(node), serial: place.serial })
    }

    /// The same node without marks: what it points at may not be durable, so recovery must pass over it.
    pub(crate) fn without_mark(&self, mut placed: Placed) -> Placed {
        let block = placed.page.make_mut();
        let footer = &mut NodeBlock::view_mut(block).footer;
        footer.set_fsync(false);
        footer.set_dentry(false);
        let (ino, is_inode) = (footer.ino(), footer.ofs() == NodeOfs::INODE);
        if is_inode {
            seal(RawInode::view_mut(block), self.sb.features(), self.sb.inode_checksum_seed());
        }
        self.placement.seal_node(block, placed.lba);
        self.nodes.dirt.note_unmarked(ino, placed.serial);
        placed
    }
}
