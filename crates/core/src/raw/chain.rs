//! The roll-forward chain: nodes that fsync wrote after the checkpoint. Format section 12.3.
//!
//! The chain ends at the first block that was not written under the checkpoint in force. It also ends at an inode whose
//! checksum is wrong: a crash may tear the block that was being written, and nothing in it had been promised. On an
//! IPLFS volume every node has a checksum, and the chain goes from block to block up to the limit of its log. A volume
//! with a journal has blocks of batches, too (`docs/JOURNAL-FORMAT.md`). The chain also ends at a batch whose contents
//! have not arrived.

use super::Image;
use super::infinite::CHAIN;
use crate::error::Result;
use std::collections::HashSet;
use steadyfs_device::PageBuf;
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::inode::Inode;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::records::batch::{self, Assembler, BatchBlock, ContentsSum};
use steadyfs_format::records::{Record, VERSION_KEY};
use steadyfs_format::{BLOCKS_PER_SEG, Block, Features, Lba, Log};

/// A node of the chain.
#[derive(Clone, Debug)]
pub struct ChainNode {
    /// Where it is.
    pub lba: Lba,
    /// The whole block.
    pub page: PageBuf,
    /// Its footer.
    pub footer: NodeFooter,
    /// It is no node, but a block of a batch of the journal.
    pub is_batch: bool,
}

/// Blocks read at once where the chain goes on with the next one.
const AHEAD: u64 = 64;

/// Walks the chain, one node per step, in the order in which the nodes were written. Ends at the first block that does
/// not belong to it, and when it comes back to a block it has visited ([`FsyncChain::loop_at`]; some blocks of the loop
/// may come twice).
pub struct FsyncChain<'a> {
    image: &'a Image,
    next: Option<Lba>,
    steps: u64,
    /// A block visited earlier, moved up to the current one at every power of two (Brent): a loop comes back to it.
    mark: Option<Lba>,
    looped: bool,
    end: Option<Lba>,
    /// The last node's address, and blocks that were read with it: the first of them, and what they hold.
    last: Option<Lba>,
    run: (Lba, Vec<PageBuf>),
}

/// What the chain holds, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainSummary {
    /// Nodes in the chain.
    pub nodes: u64,
    /// Files that some fsync made durable by it.
    pub files: u64,
    /// Whole batches of the journal.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// A batch or a record breaks a rule: the next mount will refuse the journal.
    pub journal_damaged: bool,
}

impl ChainSummary {
    /// Whether there is nothing for the next mount to recover.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.batches == 0 && !self.journal_damaged
    }
}

impl FsyncChain<'_> {
    /// The block to which the chain came back, once it has ended so.
    pub fn loop_at(&self) -> Option<Lba> {
        self.mark.filter(|_| self.looped)
    }

    /// Reads a block. Where it follows the last one the next ones are read with it: a log fills its segment in order.
    fn fetch(&mut self, lba: Lba) -> Result<PageBuf> {
        let follows = self.last.replace(lba).is_some_and(|last| last + 1 == lba);
        let held = lba.get().checked_sub(self.run.0.get()).and_then(|at| self.run.1.get(at as usize));
        if let Some(page) = held {
            return Ok(page.clone());
        }
        let left = match self.image.log_space() {
            Some(space) => space.head(CHAIN).limit - lba,
            None => self.image.layout().seg_of(lba).map_or(1, |(_, off)| u64::from(BLOCKS_PER_SEG) - u64::from(off)),
        };
        if follows
            && let Ok(pages) = self.image.read_run(lba, left.min(AHEAD))
            && let Some(page) = pages.first().cloned()
        {
            self.run = (lba, pages);
            return Ok(page);
        }
        self.image.read_block(lba)
    }

    /// The block behind the chain's last one, once it has ended: the first that does not belong to it, in the main area
    /// or not.
    pub fn end(&self) -> Option<Lba> {
        self.end
    }
}

impl ChainSummary {
    /// Counts a block of a batch; the records of the batch that it ends.
    pub(crate) fn take_batch(&mut self, batches: &mut Assembler, node: &ChainNode) -> Vec<Record> {
        match node.page.with(|block| batches.take(block)) {
            Ok(records) if !self.journal_damaged => {
                let records = records.unwrap_or_default();
                self.records += records.len() as u64;
                self.batches = batches.whole();
                records
            }
            Ok(_) => Vec::new(),
            Err(_) => {
                self.journal_damaged = true;
                Vec::new()
            }
        }
    }
}

impl Image {
    /// The nodes that fsync wrote after the checkpoint; none on a volume with the feature `ro`.
    pub fn fsync_chain(&self) -> FsyncChain<'_> {
        let at = self.logs().contains(&Log::WarmNode).then(|| self.log_position(Log::WarmNode));
        let next = match self.log_space() {
            Some(space) => Some(space.head(CHAIN).next),
            None => at.map(|at| self.layout().lba_of(at.segment, at.next)),
        };
        FsyncChain {
            image: self,
            next,
            steps: 0,
            mark: None,
            looped: false,
            end: None,
            last: None,
            run: (Lba(0), Vec::new()),
        }
    }

    /// Whether some fsync has left a node that the next mount should recover.
    ///
    /// # Errors
    /// Read errors.
    pub fn has_fsync_chain(&self) -> Result<bool> {
        for node in self.fsync_chain() {
            let node = node?;
            let ends_batch = || node.is_batch && self.ends_batch(&node);
            if node.footer.is_fsync() || ends_batch() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ends_batch(&self, node: &ChainNode) -> bool {
        let seed = self.superblock().inode_checksum_seed();
        node.page.with(|block| BatchBlock::parse(block, seed).is_ok_and(|head| head.last.is_some()))
    }

    /// What puts the batches of this volume's chain together.
    pub fn batches(&self) -> Assembler {
        Assembler::new(self.superblock().inode_checksum_seed())
    }

    /// Blocks of contents that a block of a batch names; none if it is a node.
    pub(crate) fn named_contents(&self, node: &ChainNode) -> Vec<Lba> {
        let seed = self.superblock().inode_checksum_seed();
        let named = |block: &Block| {
            let head = BatchBlock::parse(block, seed).ok()?;
            Some(head.contents(block).map(|named| named.lba).collect())
        };
        if node.is_batch { node.page.with(named).unwrap_or_default() } else { Vec::new() }
    }

    /// How much the next mount has to recover: nothing, if no file was made durable.
    ///
    /// # Errors
    /// Read errors.
    pub fn chain_summary(&self) -> Result<ChainSummary> {
        let (mut found, mut files, mut batches) = (ChainSummary::default(), HashSet::new(), self.batches());
        for node in self.fsync_chain() {
            let node = node?;
            if node.is_batch {
                drop(found.take_batch(&mut batches, &node));
                continue;
            }
            found.nodes += 1;
            if node.footer.is_fsync() {
                files.insert(node.footer.ino());
            }
        }
        found.files = files.len() as u64;
        Ok(if found.is_empty() { ChainSummary::default() } else { found })
    }

    /// The node in this block, if it was written whole while this checkpoint was in force.
    ///
    /// # Errors
    /// Read errors.
    pub fn chain_node(&self, lba: Lba) -> Result<Option<ChainNode>> {
        self.link(lba, self.read_block(lba)?)
    }

    /// Whether a node of the chain may lie here.
    fn is_chain_address(&self, lba: Lba) -> bool {
        match self.log_space() {
            Some(space) => (space.head(CHAIN).next..space.head(CHAIN).limit).contains(&lba),
            None => self.layout().in_main(lba),
        }
    }

    fn link(&self, lba: Lba, page: PageBuf) -> Result<Option<ChainNode>> {
        let (footer, belongs, is_batch) =
            page.with(|bytes| (NodeBlock::view(bytes).footer, self.is_link(bytes, lba), self.is_batch(bytes)));
        Ok(belongs?.then_some(ChainNode { lba, page, footer, is_batch }))
    }

    /// Whether this block was written whole while this checkpoint was in force, and contents that it names with it.
    fn is_link(&self, block: &Block, lba: Lba) -> Result<bool> {
        let footer = &NodeBlock::view(block).footer;
        if !self.is_of_this_checkpoint(footer) {
            return Ok(false);
        }
        if let Some(space) = self.log_space() {
            return Ok(space.verify_node(block, lba).is_ok());
        }
        let features = self.superblock().features();
        let whole = || {
            let inode = Inode::view(block);
            // Where inodes have checksums all have; one that says it has none has lost the beginning that would say
            // otherwise.
            let has_what_it_should = inode.has_checksum(features) || !features.contains(Features::INODE_CHECKSUM);
            has_what_it_should && inode.verify_checksum(features, self.superblock().inode_checksum_seed()).is_ok()
        };
        match footer.ofs() {
            NodeOfs::INODE => Ok(whole() || steadyfs_rt::mutated("chain-ends-at-a-torn-inode")),
            NodeOfs::BATCH if self.is_batch(block) => {
                match BatchBlock::parse(block, self.superblock().inode_checksum_seed()) {
                    Ok(head) => self.has_contents(head.contents(block)),
                    Err(_) => Ok(false),
                }
            }
            _ => Ok(true),
        }
    }

    /// Whether all these blocks hold what a batch says: an fsync that found them on the device did not wait for a flush
    /// before it wrote the batch.
    fn has_contents(&self, contents: impl Iterator<Item = ContentsSum>) -> Result<bool> {
        let seed = self.superblock().inode_checksum_seed();
        let contents: Vec<ContentsSum> = contents.collect();
        if !contents.iter().all(|said| self.layout().in_main(said.lba)) {
            return Ok(false);
        }
        for run in contents.chunk_by(|a, b| a.lba + 1 == b.lba) {
            let found = self.read_run(run[0].lba, run.len() as u64)?;
            let same = |(said, page): (&ContentsSum, &PageBuf)| {
                page.with(|bytes| ContentsSum::of(said.lba, bytes, seed)) == *said
            };
            if !run.iter().zip(&found).all(same) && !steadyfs_rt::mutated("chain-ends-before-missing-contents") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_batch(&self, block: &Block) -> bool {
        self.superblock().is_journaled() && batch::is_batch(block)
    }

    /// Whether a node with this footer was written while this checkpoint was in force.
    fn is_of_this_checkpoint(&self, footer: &NodeFooter) -> bool {
        let header = self.checkpoint().header();
        let word = footer.cp_ver() ^ if self.superblock().is_journaled() { VERSION_KEY } else { 0 };
        if header.flags().contains(CpFlags::NOCRC_RECOVERY) {
            word as u32 == header.version() as u32
        } else {
            word == header.footer_version() || steadyfs_rt::mutated("chain-is-of-this-checkpoint")
        }
    }
}

impl Iterator for FsyncChain<'_> {
    type Item = Result<ChainNode>;

    fn next(&mut self) -> Option<Self::Item> {
        let lba = self.next.take()?;
        self.end = Some(lba);
        if !self.image.is_chain_address(lba) {
            return None;
        }
        if self.mark == Some(lba) {
            self.looped = true;
            return None;
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.mark = Some(lba);
        }
        let page = match self.fetch(lba) {
            Ok(page) => page,
            Err(error) => return Some(Err(error)),
        };
        let node = match self.image.link(lba, page).transpose()? {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        self.next = Some(match self.image.log_space() {
            Some(_) => lba + 1,
            None => node.footer.next(),
        });
        Some(Ok(node))
    }
}
