//! The seam of placement: where the blocks of a volume go, and when the place of one that was given up may be taken
//! again.
//!
//! A kind of volume is an arm of [`Placement`], and no other file tells them apart: a second kind has its own methods
//! of these names, and the compiler says which. The kinds are few and known, so this is an enum: a call costs a jump,
//! and a reader finds every implementor here.
//!
//! Kept true by each kind: a place that was taken is given to nobody else before it was given up *and* a checkpoint has
//! committed that was frozen after that; what is frozen is either committed or failed, once; between a freeze and its
//! end others may take and give up.

pub(crate) use crate::volume::segments::adopt::Adopted;
pub(crate) use crate::volume::segments::freeze::Frozen;
pub(crate) use crate::volume::segments::logs::{NodePlace, Run};

use crate::error::Result;
use crate::volume::discard::{DiscardStats, Discards};
use crate::volume::segments::Segments;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Ino, Lba, Log, Nid, SegNo, Slot};

/// Who places a volume's blocks.
pub(crate) enum Placement {
    /// Six logs that fill segments of the main area (F2FS).
    Segments(Segments),
}

/// What an address belongs to. While it is the same, and a slot has the same address, a block that was read there is
/// the slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A segment, and how often its blocks could have come to hold something else when it was looked at.
    Segment { seg: SegNo, generation: u32 },
}

/// Where a block may be overwritten: neighbouring blocks of one such place may be overwritten together.
pub(crate) type OverwritePlace = SegNo;

use Placement::Segments as InSegments;

impl Placement {
    /// Takes the next blocks for pages of a file whose data goes to `log`, one per owner, and marks them valid. The
    /// caller holds the checkpoint lock shared.
    ///
    /// # Errors
    /// `NoSpace` where there is no place at all. Fewer places than owners are no error: there was room for no more.
    pub(crate) fn take_data(&self, log: Log, ino: Ino, owners: &[Summary]) -> Result<Vec<Run>> {
        let InSegments(segments) = self;
        segments.take_data_blocks(log, ino, owners)
    }

    /// Takes the next block of a log of nodes; as [`Placement::take_data`].
    pub(crate) fn take_node(&self, log: Log, nid: Nid) -> Result<NodePlace> {
        let InSegments(segments) = self;
        segments.take_node_block(log, nid)
    }

    /// The block is no longer used.
    ///
    /// # Errors
    /// Damage: it was not in use.
    pub(crate) fn give_up(&self, lba: Lba) -> Result<()> {
        let InSegments(segments) = self;
        segments.give_up(lba)
    }

    /// Whether a slot may name this block.
    pub(crate) fn is_address(&self, lba: Lba) -> bool {
        let InSegments(segments) = self;
        segments.table.locate(lba).is_some()
    }

    /// Whether a block is in use; `None` for one that no slot may name.
    pub(crate) fn is_valid(&self, lba: Lba) -> Option<bool> {
        let InSegments(segments) = self;
        segments.is_valid(lba)
    }

    /// The home of an address; `None` for one that no slot may name.
    pub(crate) fn home(&self, lba: Lba) -> Option<Home> {
        let InSegments(segments) = self;
        segments.home(lba)
    }

    /// Whether blocks that were read there before are still those of their addresses.
    pub(crate) fn is_home(&self, home: Home) -> bool {
        let (InSegments(segments), Home::Segment { seg, generation }) = (self, home);
        segments.table.state(seg).generation() == generation
    }

    /// The log for a page that is written again, if data is kept apart by age.
    pub(crate) fn log_by_age(&self, log: Log, old: Slot) -> Log {
        let InSegments(segments) = self;
        segments.log_by_age(log, old)
    }

    /// The place of a block in use that may be overwritten where it is; `None` where it may not. The node that names it
    /// is locked.
    pub(crate) fn in_place(&self, lba: Lba) -> Option<OverwritePlace> {
        let InSegments(segments) = self;
        segments.in_place(lba)
    }

    /// Blocks there are being overwritten: their homes change.
    pub(crate) fn overwritten(&self, place: OverwritePlace) {
        let InSegments(segments) = self;
        segments.table.renew(place);
    }

    /// Takes what a checkpoint says of places. The checkpoint lock is held exclusively, and no node is dirty.
    pub(crate) fn freeze(&self) -> Result<Frozen> {
        let InSegments(segments) = self;
        segments.freeze()
    }

    /// The checkpoint has committed: what was given up before its freeze may be taken again, and discarded where the
    /// mount wants that.
    pub(crate) fn committed(&self, frozen: &Frozen) {
        let InSegments(segments) = self;
        segments.committed(frozen);
    }

    /// The checkpoint has failed: the next one takes what this one took.
    pub(crate) fn failed(&self, frozen: &Frozen) {
        let InSegments(segments) = self;
        segments.failed(frozen);
    }

    /// Every dirty node has been placed anew. The checkpoint lock is held exclusively.
    pub(crate) fn nodes_written(&self) {
        let InSegments(segments) = self;
        segments.nodes_written();
    }

    /// Whether a checkpoint would free something.
    pub(crate) fn has_uncommitted(&self) -> bool {
        let InSegments(segments) = self;
        segments.table.prefree.count() > 0
    }

    /// Whether it would free so much that it should not wait for its timer.
    pub(crate) fn checkpoint_is_pressing(&self) -> bool {
        let InSegments(segments) = self;
        segments.checkpoint_is_pressing()
    }

    /// Blocks that the log of the roll-forward chain has taken since the mount.
    pub(crate) fn chain_position(&self) -> u64 {
        let InSegments(segments) = self;
        segments.logs.head(Log::WarmNode).serial
    }

    /// Recovery: keeps a block of the chain as it is until the next checkpoint.
    pub(crate) fn pin(&self, lba: Lba) {
        let InSegments(segments) = self;
        segments.pin(lba);
    }

    /// Recovery: the slot that a block belongs to; `None` if the block is not in use.
    pub(crate) fn owner(&self, adopted: &mut Adopted, lba: Lba) -> Result<Option<Summary>> {
        let InSegments(segments) = self;
        segments.owner(adopted, lba)
    }

    /// Recovery: a block that is not in use was written after the last checkpoint, and is the given slot's from now on.
    ///
    /// # Errors
    /// Damage: no slot of data may name it.
    pub(crate) fn adopt(&self, adopted: &mut Adopted, lba: Lba, owner: Summary) -> Result<()> {
        let InSegments(segments) = self;
        segments.adopt(adopted, lba, owner)
    }

    /// Recovery: starts writing whose the adopted blocks are; the next checkpoint waits for that.
    pub(crate) fn write_adopted(&self, adopted: &Adopted) {
        let InSegments(segments) = self;
        segments.write_adopted(adopted);
    }

    /// Recovery: from here on nothing is placed where the chain, or data that it names, can lie.
    pub(crate) fn leave_chain(&self) -> Result<()> {
        let InSegments(segments) = self;
        segments.leave_chain()
    }

    /// Mounting: nothing is placed where the implementation that wrote the last checkpoint was filling holes.
    pub(crate) fn leave_holes(&self) -> Result<()> {
        let InSegments(segments) = self;
        segments.leave_holes()
    }

    /// Mounting is over, and a checkpoint has committed: holes may be filled, where the mount wants that.
    pub(crate) fn begin_reuse(&self) {
        let InSegments(segments) = self;
        segments.begin_reuse();
    }

    /// Discards some of what holds nothing any more, unless `may` says no; how many requests that took. Returns when
    /// the device has answered, so hold no lock.
    pub(crate) fn discard_some(&self, may: impl Fn() -> bool) -> usize {
        let InSegments(segments) = self;
        segments.discard_some(may)
    }

    /// The queue of discards, where there is one.
    pub(crate) fn discards(&self) -> Option<&Discards> {
        let InSegments(segments) = self;
        segments.discards.as_ref()
    }

    /// What became of discards so far.
    pub(crate) fn discard_stats(&self) -> DiscardStats {
        self.discards().map_or_else(DiscardStats::default, Discards::stats)
    }

    /// The segments; only for those who exist because a volume has them.
    pub(crate) fn segments(&self) -> &Segments {
        let InSegments(segments) = self;
        segments
    }
}
