//! Space accounting: how many blocks, nodes and inodes the volume holds, and what may still be reserved.
//!
//! A block is counted when it is *reserved* (a slot becomes New, a node is created), not when it is written, so that
//! "no space" can only appear at the operation that asks for space and never at write-back or at a checkpoint (format
//! section 3.1, valid_block_count). Kept true: valid blocks <= user blocks; nodes are counted as blocks too;
//! no counter goes below zero. The counters begin with what the image says, so more may be given back than was counted:
//! that is damage, and is remembered, so that no checkpoint is made of it.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use steadyfs_rt::SharedLine;

/// Most blocks that recovery takes to make the name of a new file: a page of entries and the three nodes above it, or,
/// where an inline directory moves to blocks, two pages.
const NAME_BLOCKS: u64 = 4;
/// Most nodes among them.
const NAME_NODES: u64 = 3;

/// Counters that every checkpoint stores.
pub(crate) struct Space {
    /// Blocks a user may fill: the main area less over-provisioning, or most of the capacity.
    user_blocks: AtomicU64,
    /// Largest number of nodes: node ids that exist, less the reserved ones.
    pub(crate) max_nodes: u64,
    valid_blocks: AtomicU64,
    valid_nodes: AtomicU64,
    valid_inodes: AtomicU64,
    /// Blocks and nodes that the last frozen checkpoint counts.
    checkpointed: [AtomicU64; 2],
    /// Blocks and nodes that recovery would need besides: those reserved since, and room for names.
    needed_since: [AtomicU64; 2],
    /// More was given back than was counted.
    overdrawn: AtomicBool,
    /// Of all counters: they lie side by side, and an operation writes several of them one after the other, so it is
    /// one write.
    line: SharedLine,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceCounts {
    pub(crate) blocks: u64,
    pub(crate) nodes: u64,
    pub(crate) inodes: u64,
}

impl Space {
    /// Counters as a checkpoint left them.
    pub(crate) fn new(user_blocks: u64, max_nodes: u64, now: SpaceCounts) -> Self {
        Space {
            user_blocks: AtomicU64::new(user_blocks),
            max_nodes,
            valid_blocks: AtomicU64::new(now.blocks),
            valid_nodes: AtomicU64::new(now.nodes),
            valid_inodes: AtomicU64::new(now.inodes),
            checkpointed: [now.blocks, now.nodes].map(AtomicU64::new),
            needed_since: [const { AtomicU64::new(0) }; 2],
            overdrawn: AtomicBool::new(false),
            line: SharedLine::new(),
        }
    }

    /// Blocks a user may fill.
    pub(crate) fn user_blocks(&self) -> u64 {
        self.user_blocks.load(SeqCst)
    }

    /// Changes how many blocks a user may fill.
    ///
    /// # Errors
    /// [`Error::NoSpace`], and nothing changes, if more are in use.
    pub(crate) fn limit(&self, blocks: u64) -> Result<()> {
        let before = self.user_blocks.swap(blocks, SeqCst);
        // Whoever reserves looks at the limit again after having counted, so one of the two sees the other.
        if self.valid_blocks.load(SeqCst) <= blocks || blocks >= before {
            return Ok(());
        }
        self.user_blocks.store(before, SeqCst);
        Err(Error::NoSpace)
    }

    /// The counters now; consistent with each other only under the exclusive checkpoint lock.
    pub(crate) fn counts(&self) -> SpaceCounts {
        SpaceCounts {
            blocks: self.valid_blocks.load(SeqCst),
            nodes: self.valid_nodes.load(SeqCst),
            inodes: self.valid_inodes.load(SeqCst),
        }
    }

    /// Reserves `n` data blocks, all or none.
    pub(crate) fn reserve_blocks(&self, n: u64) -> Result<()> {
        self.line.write();
        self.reserve(n)
    }

    fn reserve(&self, n: u64) -> Result<()> {
        let room = |held: u64| held.checked_add(n).filter(|&sum| sum <= self.user_blocks());
        let before = self.valid_blocks.fetch_update(SeqCst, SeqCst, room).map_err(|_| Error::NoSpace)?;
        // The limit may have been lowered meanwhile, by somebody who did not see these blocks.
        if before.saturating_add(n) > self.user_blocks() {
            self.take_from(&self.valid_blocks, n);
            return Err(Error::NoSpace);
        }
        self.needed_since[0].fetch_add(n, SeqCst);
        Ok(())
    }

    /// Whether `blocks` blocks are free, for `nodes` nodes among them.
    pub(crate) fn has_room(&self, blocks: u64, nodes: u64) -> bool {
        let SpaceCounts { blocks: held_blocks, nodes: held_nodes, .. } = self.counts();
        blocks <= self.user_blocks().saturating_sub(held_blocks) && nodes <= self.max_nodes.saturating_sub(held_nodes)
    }

    /// The volume is frozen for a checkpoint with the counts of now.
    pub(crate) fn begin_epoch(&self) {
        let SpaceCounts { blocks, nodes, .. } = self.counts();
        for ((checkpointed, needed), now) in self.checkpointed.iter().zip(&self.needed_since).zip([blocks, nodes]) {
            checkpointed.store(now, SeqCst);
            needed.store(0, SeqCst);
        }
    }

    /// Recovery may have to make or move so many more names. It does not repeat removals, so the directory is fuller
    /// for it than it is now.
    pub(crate) fn expect_names(&self, count: u64) {
        self.line.write();
        self.needed_since[0].fetch_add(count * NAME_BLOCKS, SeqCst);
        self.needed_since[1].fetch_add(count * NAME_NODES, SeqCst);
    }

    /// Whether recovery would have room for all that was reserved and expected since the checkpoint: it does not repeat
    /// what was freed meanwhile.
    pub(crate) fn recovery_fits(&self) -> bool {
        let sum = |i: usize| self.checkpointed[i].load(SeqCst).saturating_add(self.needed_since[i].load(SeqCst));
        sum(0) <= self.user_blocks() && sum(1) <= self.max_nodes
    }

    /// Gives data blocks back.
    pub(crate) fn release_blocks(&self, n: u64) {
        self.line.write();
        self.take_from(&self.valid_blocks, n);
    }

    fn take_from(&self, counter: &AtomicU64, n: u64) {
        let taken = counter.fetch_update(SeqCst, SeqCst, |held| held.checked_sub(n));
        if taken.is_err() {
            counter.store(0, SeqCst);
            self.overdrawn.store(true, SeqCst);
        }
    }

    /// Whether the counters are known to be wrong: the image counted less than it had.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.overdrawn.load(SeqCst)
    }

    /// Reserves a node block, and counts an inode if it is one.
    pub(crate) fn reserve_node(&self, inode: bool) -> Result<()> {
        self.line.write();
        let room = |held: u64| (held < self.max_nodes).then_some(held + 1);
        self.valid_nodes.fetch_update(SeqCst, SeqCst, room).map_err(|_| Error::NoSpace)?;
        if let Err(e) = self.reserve(1) {
            self.valid_nodes.fetch_sub(1, SeqCst);
            return Err(e);
        }
        self.needed_since[1].fetch_add(1, SeqCst);
        if inode {
            self.valid_inodes.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// Gives a node block back.
    pub(crate) fn release_node(&self, inode: bool) {
        self.line.write();
        self.take_from(&self.valid_nodes, 1);
        if inode {
            self.take_from(&self.valid_inodes, 1);
        }
        self.take_from(&self.valid_blocks, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_back_more_than_was_counted_is_remembered() {
        let space = Space::new(10, 3, SpaceCounts { blocks: 2, nodes: 1, inodes: 0 });
        space.release_blocks(2);
        assert!(!space.is_overdrawn());
        space.release_blocks(1);
        assert!(space.is_overdrawn());
        assert_eq!(space.counts(), SpaceCounts { blocks: 0, nodes: 1, inodes: 0 });
        let space = Space::new(10, 3, SpaceCounts { blocks: 2, nodes: 1, inodes: 0 });
        space.release_node(true);
        assert!(space.is_overdrawn());
    }

    #[test]
    fn reservations_stop_at_the_limit_and_leave_no_trace() {
        let space = Space::new(10, 3, SpaceCounts { blocks: 4, nodes: 1, inodes: 1 });
        space.reserve_blocks(4).unwrap();
        space.reserve_node(true).unwrap();
        assert!(matches!(space.reserve_blocks(2), Err(Error::NoSpace)));
        space.reserve_blocks(1).unwrap();
        let full = space.counts();
        assert!(matches!(space.reserve_node(false), Err(Error::NoSpace)), "no block for another node");
        assert_eq!(space.counts(), full, "a failed reservation leaves no trace");
        space.release_blocks(2);
        space.reserve_node(false).unwrap();
        assert!(matches!(space.reserve_node(false), Err(Error::NoSpace)), "no node id left");
        space.release_node(true);
        assert_eq!(space.counts(), SpaceCounts { blocks: 8, nodes: 2, inodes: 1 });
    }
}
