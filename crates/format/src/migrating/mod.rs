//! D2FS volumes: F2FS on a device that moves pages by itself. docs/D2FS-FORMAT.md.
//!
//! Such a volume is one of F2FS but for three things: a magic number of its own, an extension of the superblock that
//! divides the main area ([`Regions`]), and the number of the last record that a checkpoint contains
//! ([`crate::Checkpoint::served`]). With nothing outstanding at the device, the magic number is all that keeps other
//! programs away ([`crate::SuperBlock::set_stock`]).

#[cfg(test)]
mod tests;

use crate::crc::f2fs_crc;
use crate::error::{FormatError, require};
use crate::superblock::RawSuperBlock;
use crate::{BLOCKS_PER_SEG, Layout, Log, SecNo, SegNo};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number of the superblock: the bytes `SFD2`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SFD2");
/// The version that this program reads and writes.
pub const VERSION: u16 = 1;

const SB: &str = "D2FS superblock";

/// The bytes of the extension, at the front of `reserved`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Extension {
    version: U16,
    zero: U16,
    regular_sections: U32,
    capacity: U64,
    /// Of the bytes before it, from the magic number on.
    crc: U32,
}

const EXTENSION_BYTES: usize = 20;
const _: () = assert!(size_of::<Extension>() == EXTENSION_BYTES);

/// How the main area is divided: the regular area, which logs fill, and behind it the GC area, which belongs to the
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Sections of the regular area.
    pub regular_sections: u32,
    /// Blocks that the main area can hold at one time.
    pub capacity: u64,
}

impl Regions {
    /// What a superblock says; `None` unless it is of a D2FS volume.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub(crate) fn read(raw: &RawSuperBlock, layout: &Layout) -> Result<Option<Self>, FormatError> {
        if raw.magic.get() != MAGIC {
            return Ok(None);
        }
        let Ok((found, _)) = Extension::ref_from_prefix(&raw.reserved) else {
            unreachable!("the extension is shorter than the reserved bytes")
        };
        let computed = found.checksum();
        if computed != found.crc.get() {
            return Err(FormatError::Checksum { structure: SB, stored: found.crc.get(), computed });
        }
        let version = found.version.get();
        require(version == VERSION && found.zero.get() == 0, SB, "version", version, "is 1")?;
        let regions = Regions { regular_sections: found.regular_sections.get(), capacity: found.capacity.get() };
        regions.check(layout)?;
        Ok(Some(regions))
    }

    /// Checks them against a layout.
    ///
    /// # Errors
    /// The first rule that they break.
    pub fn check(&self, layout: &Layout) -> Result<(), FormatError> {
        let regular = self.regular_sections;
        let fits = (Log::COUNT as u32..layout.sections).contains(&regular);
        require(fits, SB, "regular_sections", regular, "leaves each log a section, and the GC area one")?;
        require(layout.secs_per_zone == 1, SB, "secs_per_zone", layout.secs_per_zone, "is 1 on a D2FS volume")?;
        let room = self.gc_blocks(layout);
        require(
            (1..=room).contains(&self.capacity),
            SB,
            "capacity",
            self.capacity,
            "has an address for each block in the GC area",
        )
    }

    /// Makes a superblock that of a D2FS volume divided like this.
    pub fn store(&self, raw: &mut RawSuperBlock) {
        let mut extension = Extension {
            version: VERSION.into(),
            zero: 0.into(),
            regular_sections: self.regular_sections.into(),
            capacity: self.capacity.into(),
            crc: 0.into(),
        };
        extension.crc = extension.checksum().into();
        raw.magic = MAGIC.into();
        raw.reserved[..EXTENSION_BYTES].copy_from_slice(extension.as_bytes());
    }

    /// Makes a superblock one that knows nothing of this.
    pub(crate) fn erase(raw: &mut RawSuperBlock) {
        raw.magic = crate::crc::F2FS_MAGIC.into();
        raw.reserved[..EXTENSION_BYTES].fill(0);
    }

    /// The first segment of the GC area.
    pub fn gc_start(&self, layout: &Layout) -> SegNo {
        SegNo(self.regular_sections.saturating_mul(layout.segs_per_sec))
    }

    /// Whether a section lies in the GC area.
    pub fn is_gc(&self, section: SecNo) -> bool {
        section.get() >= self.regular_sections
    }

    /// Blocks of the GC area.
    pub fn gc_blocks(&self, layout: &Layout) -> u64 {
        let segments = layout.main_segments.saturating_sub(self.gc_start(layout).get());
        u64::from(segments) * u64::from(BLOCKS_PER_SEG)
    }
}

impl Extension {
    fn checksum(&self) -> u32 {
        f2fs_crc(MAGIC, &self.as_bytes()[..EXTENSION_BYTES - 4])
    }
}
