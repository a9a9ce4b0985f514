//! Mounting a D2FS volume: what of a mount differs on a device that moves blocks by itself.

use crate::error::{Error, Result};
use crate::options::techniques::{DataLogs, GcCollectors, GcOptions, GcStream};
use crate::options::{Allocation, Discard, InPlace, MountOptions};
use crate::raw::Image;
use crate::raw::migrating::{areas, mismatches};
use crate::volume::io::order::InOrder;
use crate::volume::segments::migrating::MigratingArea;
use crate::volume::segments::refusing::InTurn;
use std::sync::Arc;
use steadyfs_device::Device;

/// Refuses a device for changes that is not what the volume was made for.
pub(super) fn check_device(image: &Image) -> Result<()> {
    let (wanted, device) = (areas(image), image.device().migrations());
    let name = image.device().info().name;
    match (wanted, device) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) if image.checkpoint().served().is_none() => {
            Err(Error::corrupt("the checkpoint does not say which records of the device it contains"))
        }
        (Some(_), Some(_)) => match mismatches(image).first() {
            None => Ok(()),
            Some(mismatch) => Err(Error::Unsupported(format!("cannot mount {name} for changes: {mismatch}"))),
        },
        (Some(_), None) => Err(Error::Unsupported(format!(
            "{name} does not move blocks by itself, and a D2FS volume has nobody else to collect; mount it with -o ro"
        ))),
        (None, Some(_)) => Err(Error::Unsupported(format!(
            "{name} moves blocks by itself, and an F2FS volume would not follow them; make a D2FS volume there"
        ))),
    }
}

/// The options of a mount, of which some mean nothing here: this host does not collect, fills no holes and writes
/// nothing in place, and discards follow each checkpoint in any case.
pub(super) fn options(image: &Image, options: MountOptions) -> MountOptions {
    if image.superblock().regions().is_none() {
        return options;
    }
    let gc = GcOptions {
        collectors: GcCollectors::Writers,
        stream: GcStream::Shared,
        data_logs: DataLogs::Count(1),
        idle: None,
        ..options.gc
    };
    MountOptions {
        gc,
        mode: Some(Allocation::Lfs),
        in_place: InPlace::Never,
        discard: Discard::Off,
        background_gc: false,
        eager_reuse: false,
        ..options
    }
}

/// The device as block I/O sees it, and the sections that the host writes in order.
pub(super) fn device(image: &Image) -> (Arc<dyn Device>, Option<InTurn>) {
    let device = Arc::clone(image.device());
    match (areas(image), image.superblock().regions()) {
        (Some(areas), Some(regions)) if device.migrations().is_some() => {
            let order = Arc::new(InOrder::new(device, areas.zone, areas.regular));
            (Arc::clone(&order) as Arc<dyn Device>, Some(InTurn::new(order, 0..regions.regular_sections)))
        }
        _ => (device, None),
    }
}

/// The device's records as they are known before it was asked.
pub(super) fn area(image: &Image, read_only: bool) -> Option<MigratingArea> {
    let regions = *image.superblock().regions()?;
    let device = Some(Arc::clone(image.device())).filter(|device| !read_only && device.migrations().is_some());
    Some(MigratingArea::new(regions, image.checkpoint().served().unwrap_or(0), device))
}
