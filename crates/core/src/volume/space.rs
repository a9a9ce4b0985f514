//! Space accounting: how many blocks, nodes and inodes the volume holds, and what may still be reserved.
//!
//! A block is counted when it is *reserved* (a slot becomes New, a node is created), not when it is written. So "no
//! space" can only appear at the operation that asks for space, and never at write-back or at a checkpoint (format
//! section 3.1, valid_block_count). Cores have portions of what is free at hand, and count for themselves, so that
//! changes on several cores meet nowhere.
//!
//! Kept true:
//! - Valid blocks <= user blocks, and nodes are counted as blocks too.
//! - A caller who is told that there is no space could not have got any at that moment.
//! - A checkpoint finds exact counts.
//!
//! Blocks may be set aside: only work that [`Space::entitled`] runs takes these, and blocks that are given back fill
//! them first. The counters begin with what the image says, so more may be given back than was counted. That is damage,
//! and no checkpoint is made of it.

use crate::error::{Error, Result};
use crate::locks;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use steadyfs_rt::{Mutex, Portions, SplitCount, thread_number};

/// Most blocks that recovery takes to make the name of a new file: a page of entries and the three nodes above it, or,
/// where an inline directory moves to blocks, two pages.
const NAME_BLOCKS: u64 = 4;
/// Most nodes among them.
const NAME_NODES: u64 = 3;

/// Blocks, and nodes, that a core has at hand.
const PORTION: u64 = 64;
/// Most that may be set aside: this part of all.
const MOST_ASIDE: u64 = 8;
/// What a core counts for itself of what recovery needs.
const STRIDE: u32 = 64;

/// Counters that every checkpoint stores.
pub(crate) struct Space {
    /// Of the blocks that a user may fill (the main area less over-provisioning, or most of the capacity) and that are
    /// not set aside, the valid ones.
    blocks: Portions,
    set_aside: AtomicU64,
    /// Numbers of the threads that may take what is set aside: few, and looked at only where nothing else is left.
    entitled: Mutex<Vec<usize>>,
    /// Largest number of nodes: node ids that exist, less the reserved ones.
    pub(crate) max_nodes: u64,
    nodes: Portions,
    inodes: SplitCount,
    /// Blocks and nodes that the last frozen checkpoint counts.
    checkpointed: [AtomicU64; 2],
    /// Blocks and nodes that recovery would need besides: those reserved since, and room for names.
    needed_since: [SplitCount; 2],
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceCounts {
    pub(crate) blocks: u64,
    pub(crate) nodes: u64,
    pub(crate) inodes: u64,
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Space {
    /// Counters as a checkpoint left them.
    pub(crate) fn new(user_blocks: u64, max_nodes: u64, now: SpaceCounts) -> Self {
        let inodes = SplitCount::new(STRIDE);
        inodes.add(signed(now.inodes));
        Space {
            blocks: Portions::new(&locks::SPACE_ROOM, user_blocks, now.blocks, PORTION),
            set_aside: AtomicU64::new(0),
            entitled: Mutex::new(&locks::STATE, Vec::new()),
            max_nodes,
            nodes: Portions::new(&locks::SPACE_ROOM, max_nodes, now.nodes, PORTION),
            inodes,
            checkpointed: [now.blocks, now.nodes].map(AtomicU64::new),
            needed_since: std::array::from_fn(|_| SplitCount::new(STRIDE)),
        }
    }

    /// Blocks a user may fill, with those that are set aside.
    pub(crate) fn user_blocks(&self) -> u64 {
        self.blocks.limit() + self.set_aside()
    }

    /// Blocks that are set aside.
    pub(crate) fn set_aside(&self) -> u64 {
        self.set_aside.load(SeqCst)
    }

    /// Changes how many blocks a user may fill.
    ///
    /// # Errors
    /// [`Error::NoSpace`], and nothing changes, if more are in use.
    pub(crate) fn limit(&self, blocks: u64) -> Result<()> {
        self.divide(blocks, self.set_aside())
    }

    /// Sets this many blocks aside, an eighth of all at most; returns how many it is.
    pub(crate) fn set_blocks_aside(&self, blocks: u64) -> u64 {
        // Whatever is in use, a part of the blocks can be set aside.
        let _ = self.divide(self.user_blocks(), blocks);
        self.set_aside()
    }

    fn divide(&self, all: u64, set_aside: u64) -> Result<()> {
        let set_aside = set_aside.min(all / MOST_ASIDE);
        self.blocks.set_limit(all - set_aside, set_aside).then_some(()).ok_or(Error::NoSpace)?;
        self.set_aside.store(set_aside, SeqCst);
        Ok(())
    }

    /// Lets the calling thread take what is set aside while `work` runs.
    pub(crate) fn entitled<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Entitled<'a>(&'a Space, usize);
        impl Drop for Entitled<'_> {
            fn drop(&mut self) {
                let mut entitled = self.0.entitled.lock();
                if let Some(at) = entitled.iter().position(|number| *number == self.1) {
                    entitled.swap_remove(at);
                }
            }
        }
        let number = thread_number();
        self.entitled.lock().push(number);
        let _entitled = Entitled(self, number);
        work()
    }

    /// How many of the blocks that are set aside the calling thread may take.
    fn beyond(&self) -> u64 {
        match self.set_aside() {
            0 => 0,
            blocks if self.entitled.lock().contains(&thread_number()) => blocks,
            _ => 0,
        }
    }

    /// The counters now; exact, and consistent with each other, only under the exclusive checkpoint lock.
    pub(crate) fn counts(&self) -> SpaceCounts {
        SpaceCounts { blocks: self.blocks.taken(), nodes: self.nodes.taken(), inodes: self.inodes.total() }
    }

    /// Whether no more than `blocks` blocks are valid.
    pub(crate) fn holds_at_most(&self, blocks: u64) -> bool {
        // What cores have at hand matters only where little is left.
        self.blocks.taken_at_most() <= blocks || self.blocks.taken() <= blocks
    }

    /// Reserves `n` data blocks, all or none.
    pub(crate) fn reserve_blocks(&self, n: u64) -> Result<()> {
        let took_what_is_set_aside = || match self.beyond() {
            0 => false,
            beyond => self.blocks.take_beyond(n, beyond),
        };
        if !self.blocks.take(n) && !took_what_is_set_aside() {
            return Err(Error::NoSpace);
        }
        self.needed_since[0].add(signed(n));
        Ok(())
    }

    /// Whether `blocks` blocks are free, for `nodes` nodes among them.
    pub(crate) fn has_room(&self, blocks: u64, nodes: u64) -> bool {
        let SpaceCounts { blocks: held_blocks, nodes: held_nodes, .. } = self.counts();
        let room = self.blocks.limit() + self.beyond();
        blocks <= room.saturating_sub(held_blocks) && nodes <= self.max_nodes.saturating_sub(held_nodes)
    }

    /// The volume is frozen for a checkpoint with the counts of now.
    pub(crate) fn begin_epoch(&self) {
        let SpaceCounts { blocks, nodes, .. } = self.counts();
        for ((checkpointed, needed), now) in self.checkpointed.iter().zip(&self.needed_since).zip([blocks, nodes]) {
            checkpointed.store(now, SeqCst);
            needed.reset();
        }
    }

    /// Recovery may have to make or move `count` more names. It does not repeat removals, so the directory is fuller
    /// for it than it is now.
    pub(crate) fn expect_names(&self, count: u64) {
        self.needed_since[0].add(signed(count * NAME_BLOCKS));
        self.needed_since[1].add(signed(count * NAME_NODES));
    }

    /// Whether recovery would have room for all that was reserved and expected since the checkpoint: it does not repeat
    /// what was freed meanwhile.
    pub(crate) fn recovery_fits(&self) -> bool {
        let fits = |i: usize, needed: u64, room: u64| self.checkpointed[i].load(SeqCst).saturating_add(needed) <= room;
        if steadyfs_rt::mutated("recovery-has-room") {
            return true;
        }
        [self.user_blocks(), self.max_nodes].into_iter().enumerate().all(|(i, room)| {
            // What cores have not told matters only where little is left.
            let needed = &self.needed_since[i];
            fits(i, needed.at_most(), room) || fits(i, needed.total(), room)
        })
    }

    /// Gives data blocks back.
    pub(crate) fn release_blocks(&self, n: u64) {
        self.blocks.give(n);
    }

    /// Whether the counters are known to be wrong: the image counted less than it had. Exact under the exclusive
    /// checkpoint lock.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.blocks.is_overdrawn() || self.nodes.is_overdrawn() || self.inodes.sum() < 0
    }

    /// Reserves a node block, and counts an inode if it is one.
    pub(crate) fn reserve_node(&self, inode: bool) -> Result<()> {
        if !self.nodes.take(1) {
            return Err(Error::NoSpace);
        }
        if let Err(e) = self.reserve_blocks(1) {
            self.nodes.give(1);
            return Err(e);
        }
        self.needed_since[1].add(1);
        if inode {
            self.inodes.add(1);
        }
        Ok(())
    }

    /// Gives a node block back.
    pub(crate) fn release_node(&self, inode: bool) {
        self.nodes.give(1);
        if inode {
            self.inodes.add(-1);
        }
        self.release_blocks(1);
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
    fn what_is_set_aside_is_for_those_entitled() {
        let space = Space::new(80, 3, SpaceCounts { blocks: 60, nodes: 1, inodes: 0 });
        assert_eq!(space.set_blocks_aside(15), 10, "an eighth");
        assert_eq!((space.user_blocks(), space.counts().blocks), (80, 60));
        assert!(space.has_room(10, 0) && !space.has_room(11, 0));
        space.reserve_blocks(10).unwrap();
        assert!(matches!(space.reserve_blocks(1), Err(Error::NoSpace)));
        space.entitled(|| {
            assert!(space.has_room(10, 0) && !space.has_room(11, 0));
            assert!(matches!(space.reserve_blocks(11), Err(Error::NoSpace)), "more than there is");
            space.reserve_blocks(4).unwrap();
            space.reserve_node(false).unwrap();
        });
        assert!(matches!(space.reserve_blocks(1), Err(Error::NoSpace)), "entitled no more");
        assert_eq!(space.counts().blocks, 75);
        space.release_blocks(5);
        assert!(matches!(space.reserve_blocks(1), Err(Error::NoSpace)), "first what was set aside is filled");
        space.release_blocks(2);
        space.reserve_blocks(2).unwrap();
        // All can be in use before anything is set aside, and a smaller capacity sets aside less.
        space.set_blocks_aside(0);
        space.reserve_blocks(10).unwrap();
        assert_eq!(space.set_blocks_aside(10), 10);
        assert!(matches!(space.reserve_blocks(1), Err(Error::NoSpace)));
        assert!(matches!(space.limit(79), Err(Error::NoSpace)), "80 are in use");
        space.release_blocks(60);
        space.limit(40).unwrap();
        assert_eq!((space.set_aside(), space.user_blocks(), space.counts().blocks), (5, 40, 20));
        space.reserve_blocks(15).unwrap();
        assert!(matches!(space.reserve_blocks(1), Err(Error::NoSpace)));
        assert!(!space.is_overdrawn());
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
