//! The seam of placement: where the blocks of a volume go, and when the place of one that was given up may be taken
//! again.
//!
//! [`places`] are places, and [`placing`] writes blocks there.
//!
//! A kind of volume is an arm of [`Placement`], and no other file tells them apart: a second kind has its own methods
//! of these names, and the compiler says which. The kinds are few and known, so this is an enum: a call costs a jump,
//! and a reader finds every implementor here.
//!
//! Kept true by each kind:
//! - A place that was taken is given to nobody else before it was given up *and* a checkpoint that froze after that has
//!   committed.
//! - A freeze either commits or fails, once.
//! - Between a freeze and its end others may take and give up places.

pub(crate) mod places;
pub(crate) mod placing;

pub(crate) use crate::volume::segments::adopt::Adopted;

use crate::error::{Error, Result};
use crate::volume::discard::{DiscardStats, Discards, Signal};
use crate::volume::infinite::{self, InfiniteLogs, LogRoom};
use crate::volume::placement::places::{Home, NodePlace, OverwritePlace, Run};
use crate::volume::segments::medium::Medium;
use crate::volume::segments::{self, Segments};
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::checkpoint::Checkpoint;
use steadyfs_format::infinite::NAT_JOURNAL_PER_BLOCK;
use steadyfs_format::journal::{Journal, MAX_NAT_JOURNAL};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::summary::Summary;
use steadyfs_format::{Block, Ino, Lba, Log, Nid, Pack, Slot};
use steadyfs_rt::Pending;

/// Who places a volume's blocks.
#[expect(clippy::large_enum_variant, reason = "a volume has one")]
pub(crate) enum Placement {
    /// Six logs that fill segments of the main area (F2FS).
    Segments(Segments),
    /// Six logs that are only appended to, in an address space without end (IPLFS).
    Infinite(Box<InfiniteLogs>),
}

/// What a checkpoint took of where things are.
pub(crate) enum FrozenPlaces {
    /// Of segments.
    Segments(segments::freeze::Frozen),
    /// Of infinite logs.
    Infinite(infinite::FrozenLogs),
}

use Placement::{Infinite as InLogs, Segments as InSegments};

impl Placement {
    /// Takes the next blocks for pages of a file whose data goes to `log`, one per owner, and marks them valid. The
    /// caller holds the checkpoint lock shared.
    ///
    /// # Errors
    /// `NoSpace` where there is no place at all. Fewer places than owners are no error: there was room for no more.
    pub(crate) fn take_data(&self, log: Log, ino: Ino, owners: &[Summary]) -> Result<Vec<Run>> {
        match self {
            InSegments(segments) => segments.take_data_blocks(log, ino, owners),
            InLogs(logs) => logs.take_data(log, owners),
        }
    }

    /// Takes the next block of a log of nodes; as [`Placement::take_data`].
    pub(crate) fn take_node(&self, log: Log, nid: Nid) -> Result<NodePlace> {
        match self {
            InSegments(segments) => segments.take_node_block(log, nid),
            InLogs(logs) => logs.take_node(log),
        }
    }

    /// Takes the next block of the log of the roll-forward chain for what nothing refers to but the chain. It is never
    /// in use, and is given to nobody else before a checkpoint has committed that was frozen after this.
    ///
    /// # Errors
    /// As [`Placement::take_node`].
    pub(crate) fn take_dead(&self) -> Result<NodePlace> {
        let place = self.take_node(Log::WarmNode, Nid(0))?;
        self.give_up(place.lba)?;
        Ok(place)
    }

    /// The block is no longer used.
    ///
    /// # Errors
    /// Damage: it was not in use.
    pub(crate) fn give_up(&self, lba: Lba) -> Result<()> {
        match self {
            InSegments(segments) => segments.give_up(lba),
            InLogs(logs) => logs.give_up(lba),
        }
    }

    /// Whether a slot may name this block.
    pub(crate) fn is_address(&self, lba: Lba) -> bool {
        match self {
            InSegments(segments) => segments.table.locate(lba).is_some(),
            InLogs(logs) => logs.is_address(lba),
        }
    }

    /// Whether a block is in use; `None` for one that no slot may name.
    pub(crate) fn is_valid(&self, lba: Lba) -> Option<bool> {
        match self {
            InSegments(segments) => segments.is_valid(lba),
            InLogs(logs) => logs.is_valid(lba),
        }
    }

    /// Whether the volume says of each block whose it is.
    pub(crate) fn knows_owners(&self) -> bool {
        match self {
            InSegments(_) => true,
            InLogs(_) => false,
        }
    }

    /// Whose a block in use is; `None` where the volume does not say that.
    ///
    /// # Errors
    /// It cannot be read; no slot may name the block.
    pub(crate) fn owner_of(&self, lba: Lba) -> Result<Option<Summary>> {
        match self {
            InSegments(segments) => segments.owner_of(lba).map(Some),
            InLogs(_) => Ok(None),
        }
    }

    /// The home of an address; `None` for one that no slot may name.
    pub(crate) fn home(&self, lba: Lba) -> Option<Home> {
        match self {
            InSegments(segments) => segments.home(lba),
            InLogs(logs) => logs.is_address(lba).then_some(Home::Fixed),
        }
    }

    /// Whether blocks that were read there before are still those of their addresses.
    pub(crate) fn is_home(&self, home: Home) -> bool {
        match (self, home) {
            (InSegments(segments), Home::Segment { seg, generation }) => {
                segments.table.state(seg).generation() == generation
            }
            (InLogs(_), Home::Fixed) => true,
            (InSegments(_), Home::Fixed) | (InLogs(_), Home::Segment { .. }) => false,
        }
    }

    /// The log for a page that is written again, if data is kept apart by age.
    pub(crate) fn log_by_age(&self, log: Log, old: Slot) -> Log {
        match self {
            InSegments(segments) => segments.log_by_age(log, old),
            InLogs(_) => log,
        }
    }

    /// The place of a block in use that may be overwritten where it is; `None` where it may not. The node that names it
    /// is locked.
    pub(crate) fn in_place(&self, lba: Lba) -> Option<OverwritePlace> {
        match self {
            InSegments(segments) => segments.in_place(lba),
            InLogs(_) => None,
        }
    }

    /// Blocks there are being overwritten: their homes change.
    pub(crate) fn overwritten(&self, place: OverwritePlace) {
        match self {
            InSegments(segments) => segments.table.renew(place),
            InLogs(_) => unreachable!("infinite logs overwrite nothing"),
        }
    }

    /// Takes what a checkpoint says of places. The checkpoint lock is held exclusively, and no node is dirty.
    pub(crate) fn freeze(&self) -> Result<FrozenPlaces> {
        match self {
            InSegments(segments) => segments.freeze().map(FrozenPlaces::Segments),
            InLogs(logs) => logs.freeze().map(FrozenPlaces::Infinite),
        }
    }

    /// The checkpoint has committed: what was given up before its freeze may be taken again, and discarded where the
    /// mount wants that.
    pub(crate) fn committed(&self, frozen: &FrozenPlaces) {
        match (self, frozen) {
            (InSegments(segments), FrozenPlaces::Segments(frozen)) => segments.committed(frozen),
            (InLogs(logs), FrozenPlaces::Infinite(frozen)) => logs.committed(frozen),
            _ => unreachable!("{OTHER_KIND}"),
        }
    }

    /// The checkpoint has failed: the next one takes what this one took.
    pub(crate) fn failed(&self, frozen: &FrozenPlaces) {
        match (self, frozen) {
            (InSegments(segments), FrozenPlaces::Segments(frozen)) => segments.failed(frozen),
            (InLogs(logs), FrozenPlaces::Infinite(_)) => logs.failed(),
            _ => unreachable!("{OTHER_KIND}"),
        }
    }

    /// How many changed entries of the NAT a checkpoint can carry itself.
    pub(crate) fn nat_journal_room(&self) -> usize {
        match self {
            InSegments(_) => MAX_NAT_JOURNAL,
            InLogs(_) => NAT_JOURNAL_PER_BLOCK,
        }
    }

    /// What the footer of a node names as the next block of the chain.
    pub(crate) fn chain_link(&self, place: &NodePlace) -> Lba {
        match self {
            InSegments(_) => place.next,
            // The next address; the field holds the node's checksum.
            InLogs(_) => Lba::new(0),
        }
    }

    /// Finishes a node that goes to this place, once nothing else of it changes.
    pub(crate) fn seal_node(&self, block: &mut Block, lba: Lba) {
        match self {
            InSegments(_) => (),
            InLogs(logs) => logs.seal(block, lba),
        }
    }

    /// Refuses a block that is not a whole node of this place, where nodes say so.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn verify_node(&self, page: &PageBuf, lba: Lba) -> Result<()> {
        match self {
            InSegments(_) => Ok(()),
            InLogs(logs) => page.with(|block| logs.verify_node(block, lba)),
        }
    }

    /// Comes before the first write of a mount.
    ///
    /// # Errors
    /// What the device says; a log that is used up.
    pub(crate) fn begin_writing(&self) -> Result<()> {
        match self {
            InSegments(segments) => segments.begin_writing(),
            InLogs(logs) => logs.claim(),
        }
    }

    /// What infinite logs can take; `None` where it is for collectors to know.
    pub(crate) fn room(&self) -> Option<LogRoom> {
        match self {
            InSegments(_) => None,
            InLogs(logs) => Some(logs.room()),
        }
    }

    /// The superblock of this volume with another capacity, where that is only a number.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it is not; a number that no volume can have.
    pub(crate) fn with_capacity(&self, blocks: u64) -> Result<Block> {
        match self {
            InSegments(_) => Err(Error::Unsupported("an F2FS volume keeps the size that it was made with".to_owned())),
            InLogs(logs) => logs.with_capacity(blocks),
        }
    }

    /// That superblock is the volume's.
    pub(crate) fn set_capacity(&self, blocks: u64) {
        match self {
            InSegments(_) => unreachable!("no superblock with another capacity was made"),
            InLogs(logs) => logs.set_capacity(blocks),
        }
    }

    /// Every dirty node has been placed again. The checkpoint lock is held exclusively.
    pub(crate) fn nodes_written(&self) {
        match self {
            InSegments(segments) => segments.nodes_written(),
            InLogs(_) => (),
        }
    }

    /// Whether a checkpoint would free something.
    pub(crate) fn has_uncommitted(&self) -> bool {
        match self {
            InSegments(segments) => segments.table.prefree.count() > 0,
            InLogs(logs) => logs.has_uncommitted(),
        }
    }

    /// Whether it would free so much that it should not wait for its timer.
    pub(crate) fn checkpoint_is_pressing(&self) -> bool {
        match self {
            InSegments(segments) => segments.checkpoint_is_pressing(),
            InLogs(logs) => logs.checkpoint_is_pressing(),
        }
    }

    /// Blocks that the log of the roll-forward chain has taken since the mount.
    pub(crate) fn chain_position(&self) -> u64 {
        match self {
            InSegments(segments) => segments.logs.head(Log::WarmNode).serial,
            InLogs(logs) => logs.chain_position(),
        }
    }

    /// Recovery: keeps a block that this log wrote behind the last checkpoint as it is until the next one.
    pub(crate) fn pin(&self, lba: Lba, log: Log) {
        match self {
            InSegments(segments) => segments.pin(lba, log),
            InLogs(_) => (),
        }
    }

    /// Recovery: the slot that a block belongs to; `None` if the block is not in use.
    pub(crate) fn owner(&self, adopted: &mut Adopted, lba: Lba) -> Result<Option<Summary>> {
        match self {
            InSegments(segments) => segments.owner(adopted, lba),
            InLogs(_) => Ok(None),
        }
    }

    /// Recovery: a block that is not in use was written after the last checkpoint, and is the given slot's from now on.
    ///
    /// # Errors
    /// Damage: no slot of data may name it.
    pub(crate) fn adopt(&self, adopted: &mut Adopted, lba: Lba, owner: Summary) -> Result<()> {
        match self {
            InSegments(segments) => segments.adopt(adopted, lba, owner),
            InLogs(logs) => logs.adopt(lba),
        }
    }

    /// Recovery: starts writing whose the adopted blocks are; the next checkpoint waits for that.
    pub(crate) fn write_adopted(&self, adopted: &Adopted) {
        match self {
            InSegments(segments) => segments.write_adopted(adopted),
            InLogs(_) => (),
        }
    }

    /// Recovery: from here on nothing is placed where the chain, or data that it names, can lie.
    pub(crate) fn leave_chain(&self) -> Result<()> {
        match self {
            InSegments(segments) => segments.leave_chain(),
            InLogs(_) => Ok(()),
        }
    }

    /// Mounting: nothing is placed where the implementation that wrote the last checkpoint was filling holes.
    pub(crate) fn leave_holes(&self) -> Result<()> {
        match self {
            InSegments(segments) => segments.leave_holes(),
            InLogs(logs) => logs.leave_behind(),
        }
    }

    /// Mounting is over, and a checkpoint has committed: holes may be filled, where the mount wants that.
    pub(crate) fn begin_reuse(&self) {
        match self {
            InSegments(segments) => segments.begin_reuse(),
            InLogs(_) => (),
        }
    }

    /// Discards some of what holds nothing any more, unless `may` says no; how many requests that took. Returns when
    /// the device has answered, so hold no lock.
    pub(crate) fn discard_some(&self, may: impl Fn() -> bool) -> usize {
        match self {
            InSegments(segments) => segments.discard_some(may),
            InLogs(logs) => logs.discard_some(may),
        }
    }

    /// Whether something waits to be discarded now.
    pub(crate) fn has_queued_discards(&self) -> bool {
        match self {
            InSegments(segments) => {
                segments.discards.as_ref().is_some_and(|discards| discards.stats().waiting_blocks > 0)
            }
            InLogs(logs) => logs.has_queued(),
        }
    }

    /// What wakes the discarder, where there is one.
    pub(crate) fn discard_signal(&self) -> Option<&Arc<Signal>> {
        match self {
            InSegments(segments) => segments.discards.as_ref().map(|discards| &discards.signal),
            InLogs(logs) => Some(&logs.signal),
        }
    }

    /// Batches of discards that are under way, where there can be any.
    pub(crate) fn discards_under_way(&self) -> Option<&Pending> {
        match self {
            InSegments(segments) => segments.discards.as_ref().map(|discards| &discards.under_way),
            InLogs(logs) => Some(&logs.under_way),
        }
    }

    /// What became of discards so far.
    pub(crate) fn discard_stats(&self) -> DiscardStats {
        match self {
            InSegments(segments) => segments.discards.as_ref().map_or_else(DiscardStats::default, Discards::stats),
            InLogs(logs) => logs.discard_stats(),
        }
    }

    /// How many places blocks are in that the device has refused: what it will refuse together is one.
    pub(crate) fn bad_places(&self, blocks: &[Lba]) -> usize {
        match self {
            InSegments(segments) => segments.bad_places(blocks),
            InLogs(_) => blocks.len(),
        }
    }

    /// Has logs go on elsewhere that stand where the device takes no more. False if that is too much to be true. The
    /// caller holds the checkpoint lock shared.
    pub(crate) fn leave_bad_places(&self) -> bool {
        match self {
            InSegments(segments) => segments.leave_broken_sections(),
            InLogs(_) => true,
        }
    }

    /// Whether a block, once written, is found under its address and as it was until a checkpoint has committed, also
    /// by who reads the volume without mounting it. Pages are written elsewhere than they were.
    pub(crate) fn keeps_contents(&self) -> bool {
        match self {
            InSegments(segments) => matches!(segments.medium, Medium::Plain),
            InLogs(_) => false,
        }
    }

    /// The segments, where a volume has them.
    pub(crate) fn segments(&self) -> Option<&Segments> {
        match self {
            InSegments(segments) => Some(segments),
            InLogs(_) => None,
        }
    }
}

/// A checkpoint is of the volume that froze it.
const OTHER_KIND: &str = "a checkpoint of another kind of volume";

impl FrozenPlaces {
    /// Writes into a checkpoint where things are placed, in the form of F2FS as far as there is one.
    pub(crate) fn describe(&self, checkpoint: &mut Checkpoint) -> Result<()> {
        match self {
            FrozenPlaces::Segments(frozen) => frozen.describe(checkpoint),
            FrozenPlaces::Infinite(_) => Ok(()),
        }
    }

    /// The blocks of the checkpoint's pack.
    pub(crate) fn encode_pack(
        &self,
        checkpoint: &mut Checkpoint,
        pack: Pack,
        orphans: &[Ino],
        nat_journal: Vec<(Nid, NatEntry)>,
        kbytes: u64,
        unmount: bool,
    ) -> Result<Vec<Block>> {
        match self {
            FrozenPlaces::Segments(frozen) => {
                frozen.encode_pack(checkpoint, orphans, Journal::from_nat(&nat_journal)?, kbytes, unmount)
            }
            FrozenPlaces::Infinite(frozen) => frozen.encode_pack(checkpoint, pack, orphans, nat_journal, kbytes),
        }
    }

    /// The blocks to write beside the pack.
    pub(crate) fn take_writes(&mut self) -> Vec<(Lba, Vec<PageBuf>)> {
        match self {
            FrozenPlaces::Segments(frozen) => frozen.take_writes(),
            FrozenPlaces::Infinite(frozen) => frozen.take_writes(),
        }
    }
}
