//! A volume as it lies on a device, for reading: superblock, checkpoint, tables and nodes, without mounting.
//!
//! [`Image::open`] finds the good superblock and the checkpoint in force and reads what belongs to it. Everything else
//! is read when asked for. Used by the mount to load a volume, by `info` and `dump`, and by the checker
//! ([`crate::fsck`]).
//!
//! What reading can do without may be damaged: such parts of the checkpoint pack are noted ([`Image::damage`]) and left
//! out, and who needs them asks [`Image::whole`].
//!
//! Kept true:
//! - It never writes, but for two things that mounts ask for: the marks of a superblock, and the second copy of a
//!   checkpoint's header.
//! - It reads only copies that the checkpoint selects.
//! - No bytes of an image make it panic, loop, or allocate more than the image's tables take.
//!
//! Relies on: [`steadyfs_format`] for every rule of the format.
//!
//! ```no_run
//! # fn main() -> steadyfs_core::Result<()> {
//! # let dev: std::sync::Arc<dyn steadyfs_device::Device> = std::sync::Arc::new(steadyfs_device::MemDevice::new(1));
//! use steadyfs_core::raw::Image;
//! let image = Image::open(dev)?;
//! println!("checkpoint {} in pack {}", image.checkpoint().header().version(), image.pack().number());
//! let root = image.nat(steadyfs_format::ROOT_INO.nid())?;
//! println!("the root inode is in block {}", root.lba);
//! # Ok(())
//! # }
//! ```

mod chain;
mod in_use;
pub(crate) mod infinite;
pub(crate) mod migrating;
mod pack;
mod packs;
mod replay;
mod superblock;
mod tables;

pub use chain::{ChainNode, ChainSummary, FsyncChain};
pub(crate) use in_use::{BlockSet, CHUNK};
pub use infinite::{LogSpace, user_blocks};
pub use pack::{PackDamage, PackPart};
pub use packs::{HeaderCopy, OtherPack, Packs};
pub use replay::AfterReplay;
pub use superblock::Superblocks;

use crate::error::Result;
use pack::Parts;
use std::ops::Range;
use std::sync::Arc;
use steadyfs_device::Device;
use steadyfs_format::checkpoint::{Checkpoint, CpFlags, LogPosition, NatBits};
use steadyfs_format::nat::NatEntry;
use steadyfs_format::orphan::decode_orphans;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::summary::SummaryBlock;
use steadyfs_format::{BLOCKS_PER_SEG, Block, Ino, Layout, Lba, Log, Nid, Pack, SegNo, SuperBlock};

/// A volume at its last checkpoint.
pub struct Image {
    dev: Arc<dyn Device>,
    superblocks: Superblocks,
    superblock: SuperBlock,
    packs: Packs,
    pack: Pack,
    checkpoint: Checkpoint,
    parts: Parts,
    log_space: Option<Box<LogSpace>>,
}

impl Image {
    /// Opens the volume on a device: superblock, checkpoint, journals, summaries of the current segments.
    ///
    /// # Errors
    /// No usable superblock or checkpoint, a device that is smaller than the volume, a damaged header of the checkpoint
    /// pack, read errors there.
    pub fn open(dev: Arc<dyn Device>) -> Result<Self> {
        let superblocks = Superblocks::read(&*dev);
        superblocks.chosen_for(&*dev)?;
        let packs = Packs::of(&*dev, &superblocks)?;
        Self::load(dev, superblocks, packs)
    }

    /// Reads the checkpoint pack that `packs` chooses. [`Image::open`] in steps, for callers that look at the steps.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn load(dev: Arc<dyn Device>, superblocks: Superblocks, packs: Packs) -> Result<Self> {
        let superblock = superblocks.chosen_for(&*dev)?.clone();
        if let Some(wide) = superblocks.chosen_infinite().cloned() {
            return infinite::load(dev, superblocks, packs, wide);
        }
        let layout = superblock.layout();
        let pack = packs.chosen()?;
        let read = |range: Range<u32>| read_blocks(&*dev, layout.pack(pack), range);
        let payload = read(1..1 + layout.cp_payload)?;
        let checkpoint = Checkpoint::parse(layout, &packs.whole(pack)?.header, &payload)?;
        let parts = Parts::read(&checkpoint, read)?;
        Ok(Image { parts, checkpoint, pack, packs, superblock, superblocks, dev, log_space: None })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.dev
    }

    /// The superblock in use.
    pub fn superblock(&self) -> &SuperBlock {
        &self.superblock
    }

    /// Both copies of the superblock.
    pub fn superblocks(&self) -> &Superblocks {
        &self.superblocks
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        self.superblock.layout()
    }

    /// Both packs.
    pub fn packs(&self) -> &Packs {
        &self.packs
    }

    /// The pack in force.
    pub fn pack(&self) -> Pack {
        self.pack
    }

    /// The checkpoint in force: header and version bitmaps.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The logs that stand in segments: all six, or two of a volume with the feature `ro`, where the positions of the
    /// others mean nothing; none of an IPLFS volume.
    pub fn logs(&self) -> &'static [Log] {
        if self.log_space.is_some() {
            return &[];
        }
        if self.layout().has_ssa() { &Log::ALL } else { &[Log::HotData, Log::HotNode] }
    }

    /// Whether a node of the checkpoint may lie here.
    pub fn is_node_address(&self, lba: Lba) -> bool {
        match self.log_space() {
            Some(space) => space.is_node_address(lba),
            None => self.layout().in_main(lba),
        }
    }

    /// Whether file data of the checkpoint may lie here.
    pub fn is_data_address(&self, lba: Lba) -> bool {
        match self.log_space() {
            Some(space) => space.is_data_address(lba),
            None => self.layout().in_main(lba),
        }
    }

    /// The log whose current segment this is.
    pub fn log_at(&self, segment: SegNo) -> Option<Log> {
        self.logs().iter().copied().find(|&log| self.log_position(log).segment == segment)
    }

    /// Where a log stands; in the main area for the logs of [`Image::logs`].
    pub fn log_position(&self, log: Log) -> LogPosition {
        self.checkpoint.header().log(log)
    }

    /// What the pack that is not in force looks like.
    pub fn other_pack(&self) -> OtherPack {
        self.packs.other(self.pack, self.checkpoint.header().flags().contains(CpFlags::UMOUNT))
    }

    /// Writes the damaged copy of the checkpoint's header again, if one is damaged. For a mount that will write the
    /// other pack.
    ///
    /// # Errors
    /// Of the device.
    pub(crate) fn mend_pack(&self) -> Result<()> {
        self.packs.mend(&*self.dev, &self.superblocks, self.pack)
    }

    /// Whether the second copy of a NAT block is in force.
    pub fn nat_version(&self, block: u32) -> bool {
        self.checkpoint.nat_copy(block)
    }

    /// Whether the second copy of a SIT block is in force.
    pub fn sit_version(&self, block: u32) -> bool {
        self.checkpoint.sit_copy(block)
    }

    /// What of the pack in force is damaged and left out.
    pub fn damage(&self) -> &[PackDamage] {
        &self.parts.damage
    }

    /// Refuses a volume of which this part of the pack in force is damaged.
    ///
    /// # Errors
    /// The damage, or the read error.
    pub fn whole(&self, part: PackPart) -> Result<()> {
        self.damage().iter().find(|damage| damage.part == part).map_or(Ok(()), |damage| Err(damage.into()))
    }

    /// The NAT journal, in order; of two entries with one id the first counts. Ids may lie outside the NAT. Empty if it
    /// is damaged.
    pub fn nat_journal(&self) -> &[(Nid, NatEntry)] {
        &self.parts.nat_journal
    }

    /// The SIT journal, in order; of two entries for one segment the last counts (to Linux, too; in the NAT journal it
    /// is the first). Segments may lie outside the main area. Empty if it is damaged.
    pub fn sit_journal(&self) -> &[(SegNo, SitEntry)] {
        &self.parts.sit_journal
    }

    /// The summary of a log's current segment as the pack has it; `None` for node logs of a pack without node
    /// summaries, and for a summary that cannot be read. Of a compact summary only the entries before the log's
    /// position are there, unless the log reuses segments.
    pub fn pack_summary(&self, log: Log) -> Option<&SummaryBlock> {
        self.parts.summaries[log.index()].as_ref()
    }

    /// The inodes that were deleted while open.
    ///
    /// # Errors
    /// A count that no orphan block has, or a damaged block on an IPLFS volume; read errors.
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        if let Some(space) = self.log_space() {
            return space.orphans.clone();
        }
        let blocks = read_blocks(&*self.dev, self.layout().pack(self.pack), self.checkpoint.pack_map().orphans)?;
        Ok(decode_orphans(&blocks)?)
    }

    /// Addresses of the orphan blocks, in order.
    pub fn orphan_blocks(&self) -> impl Iterator<Item = Lba> + use<> {
        let start = self.layout().pack(self.pack);
        let blocks = match self.log_space() {
            Some(space) => {
                let first = 1 + self.layout().cp_payload;
                first..first + space.header.orphan_blocks
            }
            None => self.checkpoint.pack_map().orphans,
        };
        blocks.map(move |block| start + u64::from(block))
    }

    /// `nat_bits`, if the checkpoint has them and they belong to it.
    ///
    /// # Errors
    /// Read errors.
    pub fn nat_bits(&self) -> Result<Option<NatBits>> {
        let header = self.checkpoint.header();
        if !header.flags().contains(CpFlags::NAT_BITS) {
            return Ok(None);
        }
        let first = BLOCKS_PER_SEG - self.layout().nat_bits_blocks();
        let blocks = read_blocks(&*self.dev, self.layout().pack(self.pack), first..BLOCKS_PER_SEG)?;
        Ok(NatBits::parse(self.layout(), header, &blocks))
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.checkpoint.header().version();
        f.debug_struct("Image").field("pack", &self.pack).field("version", &version).finish_non_exhaustive()
    }
}

/// The blocks of a pack in a range that a checked header names: at most 512.
fn read_blocks(dev: &dyn Device, start: Lba, range: Range<u32>) -> Result<Vec<Block>> {
    assert!(range.end <= BLOCKS_PER_SEG, "a pack lies in its segment");
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let pages = dev.read(start.get() + u64::from(range.start), u64::from(range.end - range.start))?;
    Ok(pages.iter().map(|page| *page.to_array()).collect())
}
