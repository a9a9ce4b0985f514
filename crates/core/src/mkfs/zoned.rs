//! Making a volume on a zoned device: a section is a zone, and metadata lies in conventional zones, which come first.

use crate::error::{Error, Result};
use steadyfs_device::{Device, Op, ZoneGeometry, ZoneState};
use steadyfs_format::BLOCKS_PER_SEG;
use steadyfs_format::mkfs_layout::MkfsLayout;

/// Zones that are asked for at a time.
const REPORTED: u64 = 4096;

/// What a volume is to be, as far as zones matter to it.
pub(super) struct ZonedChoices {
    pub(super) zoned: bool,
    pub(super) is_f2fs: bool,
    pub(super) segs_per_sec: u32,
    pub(super) secs_per_zone: u32,
    pub(super) start_sector: u64,
}

/// Segments in a section: those of a zone, if the device has any. Refuses what does not go together.
pub(super) fn segs_per_sec(dev: &dyn Device, wanted: &ZonedChoices) -> Result<u32> {
    let name = dev.info().name;
    let usage = |what: String| Err(Error::Usage(what));
    let zones = match (dev.zones(), wanted.zoned) {
        (None, false) => return Ok(wanted.segs_per_sec),
        (None, true) => return usage(format!("{name} has no zones; make the volume without -m")),
        (Some(_), false) => return usage(format!("{name} is a zoned device; a volume there takes -m")),
        (Some(zones), true) => zones,
    };
    if !wanted.is_f2fs {
        return usage(format!("{name} is a zoned device, where only an F2FS volume can be made"));
    }
    if zones.capacity != zones.size || !zones.size.is_multiple_of(u64::from(BLOCKS_PER_SEG)) {
        let ZoneGeometry { size, capacity, .. } = zones;
        return Err(Error::Unsupported(format!(
            "{name} has zones of {size} blocks that hold {capacity}; only zones that hold all of their blocks, a \
             multiple of {BLOCKS_PER_SEG}, are supported"
        )));
    }
    let segments = u32::try_from(zones.size / u64::from(BLOCKS_PER_SEG)).unwrap_or(u32::MAX);
    if ![1, segments].contains(&wanted.segs_per_sec) || wanted.secs_per_zone != 1 {
        return usage(format!("a section is a zone of {name}, which has {segments} segments; leave out -s and -z"));
    }
    if wanted.start_sector != 0 {
        return usage("a volume on a zoned device begins with it".to_owned());
    }
    Ok(segments)
}

/// Refuses a device whose conventional zones do not hold the metadata.
pub(super) fn check_layout(dev: &dyn Device, made: &MkfsLayout) -> Result<()> {
    let Some(zones) = dev.zones() else { return Ok(()) };
    let needed = made.layout.main.get() / zones.size;
    if zones.conventional >= needed {
        return Ok(());
    }
    let (name, conventional) = (dev.info().name, zones.conventional);
    Err(Error::Unsupported(format!(
        "the metadata of the volume takes {needed} conventional zones, and {name} has {conventional}"
    )))
}

/// Empties zones that are written in order. Those that are worn out stay as they are.
pub(super) fn reset(dev: &dyn Device) -> Result<()> {
    let Some(zones) = dev.zones() else { return Ok(()) };
    let mut next = zones.conventional;
    while next < zones.zones {
        let count = (zones.zones - next).min(REPORTED);
        for zone in dev.zone_report(next, count)? {
            match zone.state {
                ZoneState::Empty | ZoneState::Conventional | ZoneState::ReadOnly | ZoneState::Offline => {}
                ZoneState::Open | ZoneState::Closed | ZoneState::Full => {
                    dev.run(Op::ZoneReset { block: zone.start })?;
                }
            }
        }
        next += count;
    }
    Ok(())
}

/// How many of the first blocks of a device can be written anywhere.
pub(super) fn anywhere(dev: &dyn Device, blocks: u64) -> u64 {
    dev.zones().map_or(blocks, |zones| blocks.min(zones.conventional * zones.size))
}
