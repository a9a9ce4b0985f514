//! The flags of D2FS volumes, and the directory that is made for one.
//!
//! No disk collects as such a volume needs it, so its device is always a directory of files that does
//! ([`MigratingDevice`]), made with the areas that the volume has.

use std::fs;
use std::path::Path;

use steadyfs_core::mkfs::{DEFAULT_REGULAR_RATIO, Migrating, MkfsOptions};
use steadyfs_device::{
    Adversary, AdversaryDevice, Device, MemDevice, MigratingDevice, MigrationGeometry, OpenError, OpenOptions,
};
use steadyfs_format::BLOCK_SIZE;

use super::cannot_make;
use crate::failure::Failure;
use crate::image::open_failure;
use crate::size::Size;

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct MigratingFlags {
    /// How many blocks of a D2FS volume the host may write for each that its device holds, 1 to 16 [default: 1.4]
    #[arg(long, value_name = "RATIO")]
    regular_ratio: Option<f64>,
}

impl MigratingFlags {
    /// Whether one was given.
    pub(super) fn is_given(&self) -> bool {
        self.regular_ratio.is_some()
    }

    /// The volume for a device that holds so much.
    pub(super) fn chosen(&self, capacity: Size) -> Migrating {
        let regular_ratio = self.regular_ratio.unwrap_or(DEFAULT_REGULAR_RATIO);
        Migrating { capacity: capacity.0 / BLOCK_SIZE as u64, regular_ratio }
    }
}

/// Makes and opens the directory; if nothing is to be written, a device in memory that has these areas.
pub(super) fn open(path: &Path, options: &MkfsOptions, force: bool) -> Result<Box<dyn Device>, Failure> {
    let chosen = options.migrating.as_ref();
    let geometry = chosen.map(|chosen| chosen.geometry(options)).transpose().map_err(|e| cannot_make(path, &e))?;
    let Some(geometry) = geometry else {
        return Err(Failure::usage("cannot make a volume", "it is no D2FS volume", "add --kind d2fs"));
    };
    let what = || format!("cannot make a D2FS volume on {}", path.display());
    if path.exists() && !path.is_dir() {
        let why = "its device has to collect by itself, and no disk or file does";
        return Err(Failure::new(what(), why, "name a directory that is not there yet, such as volume.d2fs"));
    }
    if MigratingDevice::is_at(path) && !force {
        let what = format!("will not make a volume on {}", path.display());
        return Err(Failure::new(what, "it holds something already (d2fs)", "add -f to overwrite it"));
    }
    if options.dry_run {
        return Ok(in_memory(geometry));
    }
    let opened = || {
        if MigratingDevice::is_at(path) {
            // One that is damaged goes, too; one that somebody has open does not.
            let old = MigratingDevice::open(path, OpenOptions::default());
            if let Err(in_use @ OpenError::InUse { .. }) = old {
                return Err(in_use);
            }
            MigratingDevice::remove(path)?;
        }
        MigratingDevice::create(path, &geometry)?;
        MigratingDevice::open(path, OpenOptions::default())
    };
    let device = opened().map_err(|e| open_failure(path, &e))?;
    Ok(Box::new(device))
}

fn in_memory(geometry: MigrationGeometry) -> Box<dyn Device> {
    Box::new(AdversaryDevice::new(MemDevice::new(geometry.gc.end), geometry, Adversary::new(0)))
}

/// The directory goes again: no volume came of it.
pub(super) fn abandon(path: &Path) {
    // The failure to report is the one that led here.
    let _ = MigratingDevice::remove(path).map(|()| fs::remove_dir(path));
}
