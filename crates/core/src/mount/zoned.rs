//! Mounting a volume on a zoned device: sections are zones, which are written in order.

use crate::error::{Error, Result};
use crate::options::{Allocation, Discard, InPlace, MountOptions};
use crate::raw::Image;
use crate::volume::io::order::{InOrder, Limits};
use crate::volume::segments::streams::Streams;
use crate::volume::segments::zoned::Zones;
use std::sync::Arc;
use steadyfs_device::{Device, ZoneGeometry};
use steadyfs_format::{Features, Layout, Log, SecNo};

/// Whether a volume is made for zones.
fn is_zoned(image: &Image) -> bool {
    image.superblock().features().contains(Features::BLKZONED)
}

/// Refuses a device for changes whose zones are not what the volume was made for, and what its zones do not bear.
pub(super) fn check(image: &Image, options: &MountOptions) -> Result<()> {
    let name = image.device().info().name;
    let refused = |what: String| Err(Error::Unsupported(what));
    match (is_zoned(image), image.device().zones()) {
        (false, None) => Ok(()),
        (true, None) => refused(format!(
            "{name} has no zones, and the volume has the feature blkzoned; mount it on its device, or here with -o ro"
        )),
        (false, Some(_)) => {
            refused(format!("{name} is a zoned device, and the volume was not made for one; make one with mkfs -m"))
        }
        (true, Some(zones)) => check_geometry(image.layout(), &zones, &name).and_then(|()| check_options(options)),
    }
}

fn check_geometry(layout: &Layout, zones: &ZoneGeometry, name: &str) -> Result<()> {
    let section = layout.blocks_per_sec();
    let (main, conventional) = (layout.main.get(), zones.conventional * zones.size);
    if zones.size != section || !main.is_multiple_of(section) || zones.capacity != zones.size {
        let (size, capacity) = (zones.size, zones.capacity);
        return Err(Error::Unsupported(format!(
            "{name} has zones of {size} blocks that hold {capacity}, and the volume has sections of {section}"
        )));
    }
    if conventional < main {
        return Err(Error::Unsupported(format!(
            "the metadata of the volume takes {main} blocks, and only the first {conventional} of {name} are conventional"
        )));
    }
    let logs = Log::COUNT as u32;
    if zones.max_active > 0 && zones.max_active < logs {
        return Err(Error::Unsupported(format!(
            "{name} has {} zones partly written at a time, and the volume has {logs} logs",
            zones.max_active
        )));
    }
    Ok(())
}

fn check_options(options: &MountOptions) -> Result<()> {
    if options.mode == Some(Allocation::Adaptive) {
        return Err(Error::Unsupported(
            "zones are written in order, so mode=adaptive is not possible on a zoned device; mount without it".into(),
        ));
    }
    Ok(())
}

/// The options of a mount, of which some mean nothing where zones are written in order and reset.
pub(super) fn options(image: &Image, options: MountOptions) -> MountOptions {
    if !is_zoned(image) {
        return options;
    }
    MountOptions {
        mode: Some(Allocation::Lfs),
        in_place: InPlace::Never,
        discard: Discard::Off,
        eager_reuse: false,
        ..options
    }
}

/// The device as block I/O sees it, and its zones, if the volume is written there.
pub(super) fn device(image: &Image, read_only: bool, plain: Arc<dyn Device>) -> (Arc<dyn Device>, Option<Zones>) {
    let Some(zones) = image.device().zones().filter(|_| is_zoned(image) && !read_only) else { return (plain, None) };
    let layout = image.layout();
    let first = (zones.conventional * zones.size).max(layout.main.get()).min(layout.main_end().get());
    let limits = Limits { active: zones.max_active };
    let range = first..layout.main_end().get();
    let order = Arc::new(InOrder::zoned(plain, zones.size, range, limits));
    let section = u32::try_from((first - layout.main.get()) / zones.size).unwrap_or(u32::MAX);
    (Arc::clone(&order) as Arc<dyn Device>, Some(Zones::new(order, SecNo::new(section))))
}

/// Collectors and further logs for users' data, of those that are wanted, for which zones can be open beside those of
/// the six logs.
pub(super) fn bounded(image: &Image, generations: u8, (collectors, data_logs): (usize, usize)) -> (usize, usize) {
    let Some(zones) = image.device().zones().filter(|zones| is_zoned(image) && zones.max_active > 0) else {
        return (collectors, data_logs);
    };
    let room = (zones.max_active as usize).saturating_sub(Log::COUNT);
    let fits = |collectors: usize| Streams::count(collectors, generations) <= room;
    let collectors = (0..=collectors).rev().find(|collectors| fits(*collectors)).unwrap_or(0);
    (collectors, data_logs.min(room - Streams::count(collectors, generations).min(room)))
}
