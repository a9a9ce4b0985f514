//! Making a volume. Format section 1, with the layout and the defaults of mkfs.f2fs 1.15.
//!
//! [`format()`] writes an empty volume: the root directory, what the features ask for (`lost+found`, quota files), the
//! tables, both checkpoint packs, and last the superblocks. The same options give the same bytes: what mkfs.f2fs takes
//! from a random generator follows from the uuid and the time here.
//!
//! Kept true: until the last flush the device holds no superblock, so an interrupted run leaves no volume
//! behind that could be mistaken for the old or the new one. Relies on: nobody else uses the device.

mod choices;
mod contents;
mod export;
mod infinite;
mod migrating;
mod plan;
mod signature;
mod write;
mod zoned;

pub use choices::{DEFAULT_COLD_EXTENSIONS, DEFAULT_HOT_EXTENSIONS, MAKEABLE, parse_features};
pub use export::export;
pub use infinite::{DEFAULT_LEAP, DEFAULT_LOG_SHIFT, Infinite};
pub use migrating::{DEFAULT_REGULAR_RATIO, Migrating};
pub use signature::detect_signature;

use crate::error::{Error, Result};
use steadyfs_device::Device;
use steadyfs_format::mkfs_layout::MkfsLayout;
use steadyfs_format::{Features, SuperBlock};

/// What the new volume is to be.
///
/// The default features are those of mkfs.f2fs 1.15: none.
#[derive(Clone, Debug, PartialEq)]
pub struct MkfsOptions {
    /// The volume's uuid; random, unless images are to be reproducible.
    pub uuid: [u8; 16],
    /// The time of the first inodes, in seconds since 1970.
    pub timestamp: i64,
    /// Name of the volume, at most 511 UTF-16 units.
    pub label: String,
    /// Feature bits, see [`parse_features`].
    pub features: Features,
    /// Segments in a section.
    pub segs_per_sec: u32,
    /// Sections in a zone.
    pub secs_per_zone: u32,
    /// Percentage of the main area to keep back; the best one if not given.
    pub overprovision: Option<f64>,
    /// Extensions of cold files, beside the default ones.
    pub cold_extensions: Vec<String>,
    /// Extensions of hot files, beside the default ones.
    pub hot_extensions: Vec<String>,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// Use only this many blocks of the device.
    pub blocks: Option<u64>,
    /// Where the device begins on its disk, in sectors of 512 bytes, so that zones are aligned to the disk's.
    pub start_sector: u64,
    /// Logarithm of the device's sector size, 9 to 12.
    pub log_sector_size: u32,
    /// The layout for more node ids (`mkfs.f2fs -i`).
    pub large_nat: bool,
    /// Begin the logs at both ends of the main area (`mkfs.f2fs -a 1`).
    pub heap: bool,
    /// Names that are not valid UTF-8 are refused in directories that ignore case; needs the feature `casefold`.
    pub strict_encoding: bool,
    /// The first checkpoint has the same version whatever uuid and time are (`mkfs.f2fs -r`).
    pub fixed_version: bool,
    /// Discard the whole device first, where it knows how.
    pub discard: bool,
    /// For a zoned device: sections are its zones, which are emptied first.
    pub zoned: bool,
    /// Only compute and check; write nothing.
    pub dry_run: bool,
    /// An IPLFS volume. Geometry, over-provisioning and the choices about the NAT then mean nothing.
    pub infinite: Option<Infinite>,
    /// A D2FS volume, on a device that moves pages by itself. Over-provisioning and the size then mean nothing.
    pub migrating: Option<Migrating>,
}

impl MkfsOptions {
    /// The defaults for a volume with this uuid, made at this time.
    pub fn new(uuid: [u8; 16], timestamp: i64) -> Self {
        Self {
            uuid,
            timestamp,
            label: String::new(),
            features: Features::NONE,
            segs_per_sec: 1,
            secs_per_zone: 1,
            overprovision: None,
            cold_extensions: Vec::new(),
            hot_extensions: Vec::new(),
            root_owner: (0, 0),
            blocks: None,
            start_sector: 0,
            log_sector_size: 9,
            large_nat: false,
            heap: false,
            strict_encoding: false,
            fixed_version: false,
            discard: true,
            zoned: false,
            dry_run: false,
            infinite: None,
            migrating: None,
        }
    }
}

/// The volume that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct MkfsReport {
    /// The superblock: geometry, label, uuid, features.
    pub superblock: SuperBlock,
    /// Sizes, over-provisioning and log positions.
    pub plan: MkfsLayout,
    /// Whether the device was discarded.
    pub discarded: bool,
    /// Of an IPLFS volume: what it is.
    pub infinite: Option<Infinite>,
}

/// Makes a volume. Whether the device holds something worth keeping is the caller's to ask ([`detect_signature`]).
///
/// # Errors
/// [`Error::Usage`] for options that no volume can have or that contradict each other, with the option in it;
/// [`Error::Format`] for a device of the wrong size; [`Error::ReadOnly`]; the device's errors.
pub fn format(dev: &dyn Device, options: &MkfsOptions) -> Result<MkfsReport> {
    let info = dev.info();
    let blocks = options.blocks.unwrap_or(info.blocks);
    if blocks > info.blocks {
        return Err(Error::Usage(format!("{} has {} blocks of 4096 bytes, not {blocks}", info.name, info.blocks)));
    }
    let wanted = zoned::ZonedChoices {
        zoned: options.zoned,
        is_f2fs: options.infinite.is_none() && options.migrating.is_none(),
        segs_per_sec: options.segs_per_sec,
        secs_per_zone: options.secs_per_zone,
        start_sector: options.start_sector,
    };
    let options = &MkfsOptions { segs_per_sec: zoned::segs_per_sec(dev, &wanted)?, ..options.clone() };
    if let Some(chosen) = &options.infinite {
        return infinite::format(dev, options, chosen);
    }
    migrating::check_device(dev, options)?;
    let plan = plan::plan(options, blocks)?;
    zoned::check_layout(dev, &plan.layout)?;
    let mut report =
        MkfsReport { superblock: plan.superblock.clone(), plan: plan.layout.clone(), discarded: false, infinite: None };
    if options.dry_run {
        return Ok(report);
    }
    if info.read_only {
        return Err(Error::ReadOnly(format!("{} cannot be written", info.name)));
    }
    report.discarded = write::write(dev, &plan, options, blocks)?;
    Ok(report)
}

#[cfg(test)]
mod tests;
