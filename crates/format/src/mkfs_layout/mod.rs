//! How large each part of a new volume is: the arithmetic of mkfs. Format section 1.
//!
//! The numbers are policy, not format, except that each area must be large enough; they equal those of mkfs.f2fs 1.15
//! for the same arguments, so that people who know its volumes know ours. No I/O: [`MkfsLayout::plan`] turns a device
//! size and choices into numbers.

mod areas;
mod overprovision;
mod positions;
mod room;

pub use overprovision::MAX_OVERPROVISION;

use crate::error::FormatError;
use crate::superblock::RawSuperBlock;
use crate::{Features, Layout, Log, META_INO, NODE_INO, ROOT_INO, SegNo, SuperBlock};

/// What the layout of a new volume depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct MkfsChoices {
    /// Size of the device in bytes.
    pub device_bytes: u64,
    /// Where the device begins on its disk, in sectors of 512 bytes: areas are aligned to zones of the disk. 0 for an
    /// image.
    pub start_sector: u64,
    /// Logarithm of the sector size, 9 to 12.
    pub log_sector_size: u32,
    /// Segments in a section, at least 1.
    pub segs_per_sec: u32,
    /// Sections in a zone, at least 1.
    pub secs_per_zone: u32,
    /// Percentage of the main area to keep back; the best one if not given.
    pub overprovision: Option<f64>,
    /// Feature bits.
    pub features: Features,
    /// Lay the NAT bitmap out over header and payload of the checkpoint, with room for more node ids.
    pub large_nat: bool,
    /// Begin the logs at both ends of the main area (`mkfs.f2fs -a 1`).
    pub heap: bool,
}

impl Default for MkfsChoices {
    fn default() -> Self {
        Self {
            device_bytes: 0,
            start_sector: 0,
            log_sector_size: 9,
            segs_per_sec: 1,
            secs_per_zone: 1,
            overprovision: None,
            features: Features::NONE,
            large_nat: false,
            heap: false,
        }
    }
}

/// The numbers of a new volume.
#[derive(Clone, Debug, PartialEq)]
pub struct MkfsLayout {
    /// Where everything is.
    pub layout: Layout,
    /// Percentage of the main area kept back.
    pub overprovision: f64,
    /// Segments that users cannot fill, the reserved ones included.
    pub overprov_segments: u32,
    /// Segments kept for collection.
    pub reserved_segments: u32,
    /// Free segments of the empty volume. Mkfs.f2fs 1.15 also counts what is left behind the last whole zone, and
    /// fsck.f2fs then complains.
    pub free_segments: u32,
    /// Blocks that users may fill.
    pub user_blocks: u64,
    /// First segment of each log, by log number.
    pub logs: [SegNo; Log::COUNT],
}

impl MkfsLayout {
    /// Computes the layout.
    ///
    /// # Errors
    /// [`FormatError::Refused`] with the reason: the device is too small or too large, or a choice is out of range.
    pub fn plan(choices: &MkfsChoices) -> Result<Self, FormatError> {
        Self::fit(choices).map_err(|misfit| match misfit {
            Misfit::Choice(why) => why,
            Misfit::TooSmall => refused(room::missing(choices)),
        })
    }

    fn fit(choices: &MkfsChoices) -> Result<Self, Misfit> {
        let areas = areas::plan(choices)?;
        let keep = overprovision::plan(&areas, choices)?;
        Ok(Self {
            overprovision: keep.percent,
            overprov_segments: keep.overprov,
            reserved_segments: keep.reserved,
            free_segments: areas.layout.main_segments - Log::COUNT as u32,
            user_blocks: u64::from(areas.usable - keep.overprov) * u64::from(crate::BLOCKS_PER_SEG),
            logs: positions::plan(&areas.layout, choices.heap)?,
            layout: areas.layout,
        })
    }

    /// A superblock with this layout; uuid, label, extensions, versions and quota inodes are left to the caller.
    pub fn superblock(&self, choices: &MkfsChoices) -> RawSuperBlock {
        let layout = &self.layout;
        let mut raw = RawSuperBlock::zeroed();
        raw.magic = crate::crc::F2FS_MAGIC.into();
        raw.log_sectorsize = choices.log_sector_size.into();
        raw.log_sectors_per_block = (crate::block::LOG_BLOCK_SIZE - choices.log_sector_size).into();
        raw.log_blocksize = crate::block::LOG_BLOCK_SIZE.into();
        raw.log_blocks_per_seg = crate::block::LOG_BLOCKS_PER_SEG.into();
        raw.segs_per_sec = layout.segs_per_sec.into();
        raw.secs_per_zone = layout.secs_per_zone.into();
        raw.block_count = layout.block_count.into();
        raw.section_count = layout.sections.into();
        raw.segment_count = layout.segment_count.into();
        raw.segment_count_ckpt = 2.into();
        raw.segment_count_sit = layout.sit_segments.into();
        raw.segment_count_nat = layout.nat_segments.into();
        raw.segment_count_ssa = layout.ssa_segments.into();
        raw.segment_count_main = layout.main_segments.into();
        raw.segment0_blkaddr = layout.segment0.to_disk().into();
        raw.cp_blkaddr = layout.cp.to_disk().into();
        raw.sit_blkaddr = layout.sit.to_disk().into();
        raw.nat_blkaddr = layout.nat.to_disk().into();
        raw.ssa_blkaddr = layout.ssa.to_disk().into();
        raw.main_blkaddr = layout.main.to_disk().into();
        raw.root_ino = ROOT_INO.get().into();
        raw.node_ino = NODE_INO.get().into();
        raw.meta_ino = META_INO.get().into();
        raw.cp_payload = layout.cp_payload.into();
        raw.feature = choices.features.bits().into();
        if choices.features.contains(Features::SB_CHECKSUM) {
            raw.checksum_offset = (crate::superblock::CHECKSUM_OFFSET as u32).into();
        }
        raw
    }

    /// Checks that a superblock with this layout is one that Linux accepts.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, choices: &MkfsChoices) -> Result<SuperBlock, FormatError> {
        SuperBlock::new(self.superblock(choices))
    }
}

/// Why there is no layout.
enum Misfit {
    /// A choice that no device could have.
    Choice(FormatError),
    /// The device is too small for the choices.
    TooSmall,
}

impl From<FormatError> for Misfit {
    fn from(why: FormatError) -> Self {
        Misfit::Choice(why)
    }
}

fn refused(reason: impl Into<String>) -> FormatError {
    FormatError::Refused(reason.into())
}

#[cfg(test)]
mod tests;
