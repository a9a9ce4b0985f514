//! Making a D2FS volume. docs/D2FS-FORMAT.md.
//!
//! What users may fill follows from what the device can hold, not from the length of the main area: there are more
//! addresses than blocks (*virtual over-provisioning*), so that the host never runs out of them before the device
//! collects.

use super::{MkfsOptions, choices};
use crate::error::{Error, Result};
use steadyfs_device::{Device, MigrationGeometry};
use steadyfs_format::migrating::Regions;
use steadyfs_format::mkfs_layout::{MkfsChoices, MkfsLayout};
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Log, SegNo};

/// Blocks of the regular area for each block that the device can hold, unless somebody chooses.
pub const DEFAULT_REGULAR_RATIO: f64 = 1.4;
/// Sections of the GC area beyond what the device can hold: one open for data and one for nodes, and two to move what
/// lies scattered there into.
const SPARE_GC_SECTIONS: u64 = 4;
/// Sections of the regular area that there are at least: one for each log, and three for each to go on in.
const FEWEST_REGULAR: u64 = 4 * Log::COUNT as u64;
/// The share of the capacity that users cannot fill, in 107ths: dead blocks that wait for a checkpoint lie there.
const KEPT_BACK: u64 = 7;
/// Sections that are kept back at least.
const FEWEST_KEPT_BACK: u64 = 4;

/// What a D2FS volume is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Migrating {
    /// Blocks that the regular and the GC area of the device can hold together.
    pub capacity: u64,
    /// Blocks of the regular area for each of those.
    pub regular_ratio: f64,
}

impl Migrating {
    /// The usual volume on a device that can hold `capacity` blocks.
    pub fn new(capacity: u64) -> Self {
        Migrating { capacity, regular_ratio: DEFAULT_REGULAR_RATIO }
    }

    /// The areas that a device has to have for such a volume with these options.
    ///
    /// # Errors
    /// A ratio or a capacity that no volume can have.
    pub fn geometry(&self, options: &MkfsOptions) -> Result<MigrationGeometry> {
        let (_, layout, regions) = self.plan(&choices::geometry(options, 0))?;
        let layout = &layout.layout;
        let (main, end) = (layout.main.get(), layout.main_end().get());
        let gc = layout.lba_of(regions.gc_start(layout), 0).get();
        Ok(MigrationGeometry {
            zone: layout.blocks_per_sec(),
            meta: 0..main,
            regular: main..gc,
            gc: gc..end,
            capacity: self.capacity,
        })
    }

    /// The choices with the size that the volume takes, its layout, and how the main area is divided.
    pub(super) fn plan(&self, choices: &MkfsChoices) -> Result<(MkfsChoices, MkfsLayout, Regions)> {
        let usage = |what: &str| Err(Error::Usage(what.to_owned()));
        if choices.heap || choices.secs_per_zone != 1 || choices.start_sector != 0 {
            return usage("a D2FS volume has zones of one section, begins with its device, and its logs at the front");
        }
        if !(1.0..=16.0).contains(&self.regular_ratio) {
            return usage("the regular area of a D2FS volume has 1 to 16 times the capacity of the device");
        }
        let section = u64::from(choices.segs_per_sec.max(1)) * u64::from(BLOCKS_PER_SEG);
        let kept = (self.capacity * KEPT_BACK / 107).max(FEWEST_KEPT_BACK * section);
        let Some(user) = self.capacity.checked_sub(kept).filter(|user| *user >= section) else {
            return usage("the device can hold too little for a D2FS volume");
        };
        let regular = ((self.capacity as f64 * self.regular_ratio) as u64).div_ceil(section).max(FEWEST_REGULAR);
        let sections = regular + self.capacity.div_ceil(section) + SPARE_GC_SECTIONS;
        let (choices, mut layout) = sized(choices, section, sections)?;
        let narrow = |number: u64| u32::try_from(number).map_err(|_| Error::Usage("too large a volume".to_owned()));
        let regions = Regions { regular_sections: narrow(regular)?, capacity: self.capacity };
        regions.check(&layout.layout)?;
        let per_sec = layout.layout.segs_per_sec;
        // By log number: hot, warm, cold data, then the nodes.
        layout.logs = [3, 4, 5, 0, 1, 2].map(|section| SegNo(section * per_sec));
        layout.user_blocks = user;
        layout.overprov_segments = layout.layout.main_segments - narrow(user / u64::from(BLOCKS_PER_SEG))?;
        layout.reserved_segments = layout.reserved_segments.min(layout.overprov_segments);
        Ok((choices, layout, regions))
    }
}

/// The smallest device whose main area has exactly `sections` sections: each more of the device is one more there, or
/// one more for tables.
fn sized(choices: &MkfsChoices, section: u64, sections: u64) -> Result<(MkfsChoices, MkfsLayout)> {
    let bytes = |sections: u64| sections * section * BLOCK_SIZE as u64;
    let mut last = Error::Usage("no device has room for such a D2FS volume".to_owned());
    for tables in 2..64 + sections / 8 {
        let choices = MkfsChoices { device_bytes: bytes(sections + tables), ..choices.clone() };
        match MkfsLayout::plan(&choices) {
            Ok(layout) if u64::from(layout.layout.sections) == sections => return Ok((choices, layout)),
            Ok(_) => {}
            Err(why) => last = why.into(),
        }
    }
    Err(last)
}

/// Refuses a device that is not what the volume asks for.
pub(super) fn check_device(dev: &dyn Device, options: &MkfsOptions) -> Result<()> {
    let name = dev.info().name;
    match (dev.migrations(), &options.migrating) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(Error::Unsupported(format!(
            "{name} moves pages by itself, and an F2FS volume would not follow them; make a D2FS volume"
        ))),
        (None, Some(_)) => Err(Error::Unsupported(format!(
            "{name} does not move pages by itself, and a D2FS volume has nobody else to collect; make an F2FS volume"
        ))),
        (Some(device), Some(chosen)) => {
            let (has, needs) = (device.geometry(), chosen.geometry(options)?);
            match has == needs {
                true => Ok(()),
                false => Err(Error::Usage(format!("{name} has the areas {has:?}, and the volume needs {needs:?}"))),
            }
        }
    }
}
