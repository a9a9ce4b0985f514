//! The volume of an experiment: its kind, how it is made, and how many blocks its users have.
//!
//! The size of the device is what its flash holds for the host. An F2FS volume is as large; an IPLFS volume has an
//! address space far beyond it, of which the device maps what is held, and a capacity that leaves room for the areas
//! before log space. A D2FS volume has more addresses than that, too: below it the device moves blocks by itself, and
//! its lines are the volume's sections.

use super::{Experiment, Size};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use steadyfs_core::mkfs::{self, Infinite, Migrating, MkfsOptions, parse_features};
use steadyfs_device::{Adversary, AdversaryDevice, MemDevice, MigrationGeometry, ZoneGeometry, ZonedDevice};

/// Blocks of a segment.
const SEGMENT: u64 = 512;
/// A NAT block of an IPLFS volume has so many entries, and there is one entry for each block of the capacity.
const NAT_ENTRIES: u64 = 315;

/// What a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VolumeKind {
    /// Segments, as long as the device.
    #[default]
    F2fs,
    /// Infinite logs.
    Iplfs,
    /// Segments, on a device that moves blocks.
    D2fs,
}

/// The volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeSpec {
    #[serde(default, skip_serializing_if = "is_f2fs")]
    pub(crate) kind: VolumeKind,
    /// Features, as for `steadyfs mkfs -O`.
    #[serde(default)]
    pub(crate) features: String,
    /// Segments in a section; 0 for mkfs' own choice, one.
    #[serde(default)]
    pub(crate) segs_per_sec: u32,
    /// Bytes that an IPLFS volume may hold in its logs; what the device has beside the areas, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<Size>,
    /// Bytes that a log of an IPLFS volume may run between two checkpoints; mkfs' own choice if not given. Becomes
    /// smaller with the scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leap: Option<Size>,
    /// Blocks that the host of a D2FS volume may write for each that the device can hold; mkfs' own choice if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) regular_ratio: Option<f64>,
    /// Mount options, as for `steadyfs mount -o`, without the sizes of caches.
    #[serde(default)]
    pub(crate) mount: String,
    /// Most memory for cached pages of files. Becomes smaller with the scale.
    #[serde(default)]
    pub(crate) cache: Option<Size>,
    /// Most memory for cached nodes. Becomes smaller with the scale.
    #[serde(default)]
    pub(crate) node_cache: Option<Size>,
}

fn is_f2fs(kind: &VolumeKind) -> bool {
    *kind == VolumeKind::F2fs
}

impl VolumeSpec {
    /// The same, smaller.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        let part = |size: Size| size.times(factor, 1 << 20);
        self.cache = self.cache.map(part);
        self.node_cache = self.node_cache.map(part);
        self.capacity = self.capacity.map(part);
        // The log's own leap is of no size, so it is named before it shrinks.
        let own = Size::of(mkfs::DEFAULT_LEAP * 4096);
        self.leap = (self.kind == VolumeKind::Iplfs).then(|| self.leap.unwrap_or(own).times(factor, SEGMENT * 4096));
        self
    }

    /// Refuses what makes no volume.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        if self.kind != VolumeKind::Iplfs && (self.capacity.is_some() || self.leap.is_some()) {
            return Err("volume.capacity and volume.leap are about a volume with kind = \"iplfs\"".into());
        }
        if self.kind != VolumeKind::D2fs && self.regular_ratio.is_some() {
            return Err("volume.regular_ratio is about a volume with kind = \"d2fs\"".into());
        }
        if self.kind == VolumeKind::Iplfs && self.segs_per_sec > 1 {
            return Err("volume.segs_per_sec: an IPLFS volume has no sections".into());
        }
        Ok(())
    }
}

impl Experiment {
    /// The choices for an IPLFS volume, if it is one.
    fn infinite(&self) -> Option<Infinite> {
        let blocks = self.device.size.bytes() / 4096;
        // Two copies of the NAT, two packs, and a segment before them.
        let areas = 2 * (blocks.div_ceil(NAT_ENTRIES) + SEGMENT) + 3 * SEGMENT;
        let capacity = self.volume.capacity.map_or(blocks.saturating_sub(areas), |size| size.bytes() / 4096);
        let own = Infinite::new(capacity);
        let leap = self.volume.leap.map_or(own.leap, |size| size.bytes() / 4096);
        (self.volume.kind == VolumeKind::Iplfs).then_some(Infinite { leap, ..own })
    }

    /// The choices for a D2FS volume, if it is one, and the areas of its device: metadata and capacity together are
    /// what the flash holds for the host.
    fn migrating(&self) -> Result<Option<(Migrating, MigrationGeometry)>> {
        if self.volume.kind != VolumeKind::D2fs || !self.workload.has_volume() {
            return Ok(None);
        }
        let spec = |e: steadyfs_core::Error| Error::spec("volume.kind", e);
        let blocks = self.device.size.bytes() / 4096;
        let section = SEGMENT * u64::from(self.volume.segs_per_sec.max(1));
        let options = self.plain_options()?;
        let of = |capacity: u64| {
            let own = Migrating::new(capacity / section * section);
            let chosen = Migrating { regular_ratio: self.volume.regular_ratio.unwrap_or(own.regular_ratio), ..own };
            chosen.geometry(&options).map(|areas| (chosen, areas)).map_err(spec)
        };
        let (_, larger) = of(blocks)?;
        of(blocks.saturating_sub(larger.meta.end)).map(Some)
    }

    /// The areas of a device that moves blocks, if it is one.
    pub(crate) fn areas(&self) -> Result<Option<MigrationGeometry>> {
        Ok(self.migrating()?.map(|(_, areas)| areas))
    }

    /// The zones of a zoned device, if it is one: as many conventional ones as metadata takes.
    pub(crate) fn zones(&self) -> Result<Option<ZoneGeometry>> {
        let zones = crate::device::zones(&self.device).map_err(|why| Error::spec("device.map", why))?;
        let Some(all) = zones.filter(|_| self.workload.has_volume()) else { return Ok(None) };
        let options = MkfsOptions { zoned: true, dry_run: true, ..self.plain_options()? };
        let made = mkfs::format(&ZonedDevice::new(all), &options).map_err(|e| Error::spec("device.size", e))?;
        let conventional = made.plan.layout.main.get() / all.size;
        Ok(Some(ZoneGeometry { conventional, ..all }))
    }

    /// Blocks that the device has to have addresses for.
    pub(crate) fn addresses(&self) -> u64 {
        let size = self.device.size.bytes() / 4096;
        self.infinite().filter(|_| self.workload.has_volume()).map_or(size, |chosen| chosen.device_blocks())
    }

    /// The options of mkfs: the same experiment makes the same volume.
    pub(crate) fn mkfs_options(&self) -> Result<MkfsOptions> {
        let migrating = self.migrating()?.map(|(chosen, _)| chosen);
        let zoned = self.zones()?.is_some();
        Ok(MkfsOptions { infinite: self.infinite(), migrating, zoned, ..self.plain_options()? })
    }

    /// Those that volumes of all kinds have.
    fn plain_options(&self) -> Result<MkfsOptions> {
        let features = parse_features(&self.volume.features).map_err(|e| Error::spec("volume.features", e))?;
        let mut options = MkfsOptions::new(*b"steadyfs-lab-vol", 1_704_067_200);
        options.features = features;
        options.segs_per_sec = self.volume.segs_per_sec.max(1);
        Ok(options)
    }

    /// Blocks that files and nodes may use.
    pub(crate) fn user_blocks(&self) -> Result<u64> {
        let options = MkfsOptions { dry_run: true, ..self.mkfs_options()? };
        let made = match (self.areas()?, self.zones()?) {
            (Some(areas), _) => {
                let below = MemDevice::new(areas.gc.end);
                mkfs::format(&AdversaryDevice::new(below, areas, Adversary::new(0)), &options)
            }
            (None, Some(zones)) => mkfs::format(&ZonedDevice::new(zones), &options),
            (None, None) => mkfs::format(&MemDevice::new(self.addresses()), &options),
        };
        Ok(made.map_err(|e| Error::spec("device.size", e))?.plan.user_blocks)
    }

    /// The same with files that take the share of the users' space that the workload asks for.
    pub(crate) fn filled(mut self) -> Result<Self> {
        if let Some(percent) = self.workload.fill() {
            let bytes = self.user_blocks()? * 4096 / 100 * u64::from(percent);
            self.workload.fill_with(bytes);
            self.check().map_err(|why| Error::spec(&self.name, why))?;
        }
        Ok(self)
    }
}
