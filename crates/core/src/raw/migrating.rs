//! A D2FS volume and its device: whether both are of one make and of one time.

use crate::raw::Image;
use std::fmt;
use steadyfs_device::MigrationGeometry;

/// The areas that the volume has, if it is one of D2FS.
pub(crate) fn areas(image: &Image) -> Option<MigrationGeometry> {
    let (regions, layout) = (image.superblock().regions()?, image.layout());
    let (main, end) = (layout.main.get(), layout.main_end().get());
    let gc = layout.lba_of(regions.gc_start(layout), 0).get();
    let zone = layout.blocks_per_sec();
    Some(MigrationGeometry { zone, meta: 0..main, regular: main..gc, gc: gc..end, capacity: regions.capacity })
}

/// What of the volume contradicts its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The volume was made for another device.
    Made { what: &'static str, stored: u64, found: u64 },
    /// One of both is older than the other.
    Records { served: u64, completed: u64, delivered: u64 },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Made { what, stored, found } => {
                write!(f, "the superblock says that {what} is {stored}, and the device says {found}")?;
            }
            Mismatch::Records { served, completed, delivered } => write!(
                f,
                "the checkpoint contains {served} records of the device, which has completed {completed} and delivered {delivered}"
            )?,
        }
        f.write_str("; restore the whole directory, or read the volume with -o ro")
    }
}

/// How a D2FS volume and its device contradict each other; nothing of a volume without its device.
pub(crate) fn mismatches(image: &Image) -> Vec<Mismatch> {
    let (Some(wanted), Some(device)) = (areas(image), image.device().migrations()) else { return Vec::new() };
    let found = device.geometry();
    let numbers = [
        ("the length of a section", wanted.zone, found.zone),
        ("the end of the metadata", wanted.meta.end, found.meta.end),
        ("the end of the regular area", wanted.regular.end, found.regular.end),
        ("the end of the GC area", wanted.gc.end, found.gc.end),
        ("the capacity", wanted.capacity, found.capacity),
    ];
    let differ = numbers.into_iter().filter(|(_, stored, found)| stored != found);
    let mut mismatches: Vec<Mismatch> =
        differ.map(|(what, stored, found)| Mismatch::Made { what, stored, found }).collect();
    if let Some(served) = image.checkpoint().served() {
        let (completed, delivered) = (device.completed(), device.delivered());
        if served < completed || served > delivered {
            mismatches.push(Mismatch::Records { served, completed, delivered });
        }
    }
    mismatches
}
