//! The superblock: what a volume is. Format section 2.
//!
//! [`SuperBlock::parse`] makes every check that Linux makes, and those that the rest of this crate relies on (tables
//! large enough for the main area, everything below 2^32 - 2), so that address arithmetic on an accepted [`Layout`]
//! cannot leave the volume. Bytes that we have no use for are kept and written back.

pub(crate) mod checks;
mod extensions;
mod raw;

pub use raw::*;

use crate::block::{Block, LOG_BLOCK_SIZE, zeroed_block};
use crate::crc::{F2FS_MAGIC, f2fs_crc};
use crate::error::{FormatError, require};
use crate::migrating::{self, Regions};
use crate::records::{JOURNAL_MAGIC, JOURNAL_MARK};
use crate::{Features, Ino, Layout};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

/// Which quota a hidden quota file keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// By user.
    User = 0,
    /// By group.
    Group = 1,
    /// By project.
    Project = 2,
}

impl QuotaKind {
    /// All, in the order in which the superblock names their files.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// The name people and programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }
}

/// One device of a volume that spans several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEntry {
    /// The path that mkfs stored, lossily decoded.
    pub path: String,
    /// Segments of the volume on it.
    pub segments: u32,
}

/// A superblock whose fields were checked.
#[derive(Clone, PartialEq, Eq)]
pub struct SuperBlock {
    raw: Box<RawSuperBlock>,
    layout: Layout,
    regions: Option<Regions>,
}

impl std::fmt::Debug for SuperBlock {
    /// What identifies and divides the volume; the 3 KiB of all fields are in [`SuperBlock::raw`].
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SuperBlock")
            .field("label", &self.label())
            .field("uuid", &format_args!("{:032x}", u128::from_be_bytes(self.uuid())))
            .field("features", &self.features())
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl SuperBlock {
    /// Reads block 0 or 1 of a volume and makes every check.
    ///
    /// # Errors
    /// The first field that breaks a rule; [`FormatError::Magic`] if the block holds something else.
    pub fn parse(block: &Block) -> Result<Self, FormatError> {
        let raw = RawSuperBlock::read(block);
        require_magic(&raw)?;
        if Features::from_bits(raw.feature.get()).contains(Features::SB_CHECKSUM) {
            let offset = raw.checksum_offset.get();
            require(offset == CHECKSUM_OFFSET as u32, "superblock", "checksum_offset", offset, "is 3068")?;
            let computed = f2fs_crc(raw.magic.get(), &raw.as_bytes()[..CHECKSUM_OFFSET]);
            if computed != raw.crc.get() {
                return Err(FormatError::Checksum { structure: "superblock", stored: raw.crc.get(), computed });
            }
        }
        Self::new(raw)
    }

    /// Makes every check but that of the checksum on fields in memory.
    pub fn new(raw: RawSuperBlock) -> Result<Self, FormatError> {
        require_magic(&raw)?;
        let layout = checks::check(&raw)?;
        let regions = Regions::read(&raw, &layout)?;
        Ok(Self { raw: Box::new(raw), layout, regions })
    }

    /// A superblock of another kind, whose fields were checked by the rules of that kind.
    pub(crate) fn of_other_kind(raw: RawSuperBlock, layout: Layout) -> Self {
        Self { raw: Box::new(raw), layout, regions: None }
    }

    /// Writes the superblock into block 0 or 1, with its checksum if the volume has one. The first 1024 bytes of the
    /// block stay.
    pub fn encode_into(&self, block: &mut Block) {
        let mut raw = self.raw.clone();
        if self.features().contains(Features::SB_CHECKSUM) {
            raw.checksum_offset = (CHECKSUM_OFFSET as u32).into();
            let crc = f2fs_crc(raw.magic.get(), &raw.as_bytes()[..CHECKSUM_OFFSET]);
            raw.crc = crc.into();
        }
        raw.write(block);
    }

    /// The superblock as a block whose first 1024 bytes are zero.
    pub fn encode(&self) -> Block {
        let mut block = zeroed_block();
        self.encode_into(&mut block);
        block
    }

    /// The fields as they lie on the disk.
    pub fn raw(&self) -> &RawSuperBlock {
        &self.raw
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The feature bits.
    pub fn features(&self) -> Features {
        Features::from_bits(self.raw.feature.get())
    }

    /// The name of the kind of volume: `f2fs`, `d2fs` or `iplfs`.
    pub fn kind(&self) -> &'static str {
        match (self.features().contains(Features::INFINITE), self.regions().is_some()) {
            (true, _) => "iplfs",
            (false, true) => "d2fs",
            (false, false) => "f2fs",
        }
    }

    /// The volume's uuid.
    pub fn uuid(&self) -> [u8; 16] {
        self.raw.uuid
    }

    /// Initial value of this volume's inode checksums.
    pub fn inode_checksum_seed(&self) -> u32 {
        f2fs_crc(u32::MAX, &self.raw.uuid)
    }

    /// Whether the volume may have a journal that was not replayed, and so a mark that keeps other programs away.
    pub fn is_journaled(&self) -> bool {
        self.raw.is_marked() || self.raw.magic.get() == JOURNAL_MAGIC
    }

    /// Gives the superblock the mark of a volume with a journal, or takes away whichever it has.
    ///
    /// # Panics
    /// If it is to give one to a D2FS volume, which has no journal.
    pub fn set_journaled(&mut self, on: bool) {
        assert!(!on || self.regions.is_none(), "a D2FS volume has no journal");
        if on || self.is_journaled() {
            self.raw.magic = F2FS_MAGIC.into();
            self.raw.log_sectorsize = if on { JOURNAL_MARK } else { self.raw.log_sector_bytes() }.into();
        }
    }

    /// How the main area is divided, on a D2FS volume.
    pub fn regions(&self) -> Option<&Regions> {
        self.regions.as_ref()
    }

    /// Makes it the superblock of an F2FS volume, for every program. Right where nothing is outstanding at the device.
    pub fn set_stock(&mut self) {
        if self.regions.take().is_some() {
            Regions::erase(&mut self.raw);
        }
    }

    /// The label; units that are not UTF-16 become U+FFFD.
    pub fn label(&self) -> String {
        self.raw.label()
    }

    /// Changes the label.
    ///
    /// # Errors
    /// [`FormatError::Length`] if it needs more than 511 UTF-16 units (the last one stays NUL).
    pub fn set_label(&mut self, label: &str) -> Result<(), FormatError> {
        self.raw.volume_name = encode_label(label)?;
        Ok(())
    }

    /// The hidden quota file of this kind, if the volume has one.
    pub fn quota_ino(&self, kind: QuotaKind) -> Option<Ino> {
        let ino = Ino(self.raw.qf_ino[kind as usize].get());
        (!ino.is_null()).then_some(ino)
    }

    /// Version string of the last kernel or tool that wrote here.
    pub fn version(&self) -> String {
        text(&self.raw.version[..252])
    }

    /// Version string of the mkfs that made the volume.
    pub fn init_version(&self) -> String {
        self.raw.init_version_text()
    }

    /// The devices, if the volume spans several; empty for a volume on one device.
    pub fn devices(&self) -> Vec<DeviceEntry> {
        let used = self.raw.devs.iter().take_while(|device| device.path[0] != 0);
        used.map(|device| DeviceEntry { path: text(&device.path), segments: device.total_segments.get() }).collect()
    }
}

impl RawSuperBlock {
    /// Whether the mark of a journal stands for the size of a sector. Only an F2FS volume can have it.
    pub fn is_marked(&self) -> bool {
        self.magic.get() == F2FS_MAGIC && self.log_sectorsize.get() == JOURNAL_MARK
    }

    /// Base-2 logarithm of the bytes of a sector: also under a mark, since together with `log_sectors_per_block` it is
    /// that of a block.
    pub(crate) fn log_sector_bytes(&self) -> u32 {
        match self.is_marked() {
            true => LOG_BLOCK_SIZE.wrapping_sub(self.log_sectors_per_block.get()),
            false => self.log_sectorsize.get(),
        }
    }

    /// As [`SuperBlock::label`].
    pub(crate) fn label(&self) -> String {
        let units = self.volume_name.iter().map(|unit| unit.get()).take_while(|&unit| unit != 0);
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    /// As [`SuperBlock::init_version`].
    pub(crate) fn init_version_text(&self) -> String {
        text(&self.init_version[..252])
    }
}

fn require_magic(raw: &RawSuperBlock) -> Result<(), FormatError> {
    let found = raw.magic.get();
    match found {
        F2FS_MAGIC | JOURNAL_MAGIC | migrating::MAGIC => Ok(()),
        crate::infinite::MAGIC => Err(FormatError::Infinite),
        _ => Err(FormatError::Magic { structure: "superblock", found }),
    }
}

/// The text before the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The label field for a label.
///
/// # Errors
/// [`FormatError::Length`] if it needs more than 511 UTF-16 units.
pub fn encode_label(label: &str) -> Result<[U16; LABEL_UNITS], FormatError> {
    let length = label.encode_utf16().count();
    if length >= LABEL_UNITS {
        return Err(FormatError::Length { what: "label in UTF-16 units", length, min: 0, max: LABEL_UNITS - 1 });
    }
    let mut field = [U16::ZERO; LABEL_UNITS];
    for (slot, unit) in field.iter_mut().zip(label.encode_utf16()) {
        *slot = unit.into();
    }
    Ok(field)
}

#[cfg(test)]
mod tests;
