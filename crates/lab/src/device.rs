//! The devices that an experiment can name, and what each says of itself beside the file system's own figures.
//!
//! `memory` takes no time at all: what is measured on it is CPU work and waiting alone. The others are the presets of
//! the emulated SSD (`steadyfs_flash`). The size is that of the partition; a partition of a much larger drive is a
//! device with much over-provisioning.

use crate::spec::{DeviceSpec, MapKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, MemDevice, MigrationGeometry, ZoneGeometry};
use steadyfs_flash::{Coupling, EmulatedSsd, Intervals, Layer, Parameters, Preset, Stats, ZoneLimits};

/// The device without time.
const MEMORY: &str = "memory";
/// Bytes per second of the series' unit.
const PAGE: f64 = 4096.0;
/// Bytes that a record of a device takes that moves blocks: two addresses.
pub(crate) const RECORD: u64 = 16;
/// Map nodes do not become smaller with the scale than the paper's are.
const NODE_PAGES: u32 = 1 << 12;

/// What a device's counters were.
pub(crate) struct Before {
    /// When the measured phase began.
    begun: Stats,
    /// Memory of the map of the new device, in bytes.
    empty_map: u64,
}

/// A device, and how to ask it.
pub(crate) enum Target {
    Memory(Arc<MemDevice>),
    /// With its counters from before.
    Ssd(Arc<EmulatedSsd>, Box<Before>),
}

pub(crate) fn parameters(spec: &DeviceSpec, addresses: u64) -> Result<Parameters, String> {
    let preset: Preset = spec.preset.parse().map_err(|_| {
        let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        format!("device.preset: there is no '{}'; there are {MEMORY}, {}", spec.preset, known.join(", "))
    })?;
    let mut parameters = preset.parameters();
    for (name, value) in &spec.parameters {
        parameters.set(name, &value.to_string()).map_err(|e| format!("device.parameters: {e}"))?;
    }
    let mut parameters = parameters.with_smaller_blocks(spec.smaller_blocks.max(1));
    parameters.check().map_err(|e| format!("device.parameters: {e}"))?;
    if let Some(share) = spec.over_provisioning {
        parameters.policy.over_provisioning = share;
    }
    if let Some(mut shape) = intervals(spec) {
        shape.addresses = addresses;
        shape.node_pages = spec.map_node_pages.unwrap_or(shape.node_pages);
        if let Some(seconds) = spec.map_period {
            shape.compaction.period = Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("device.map_period: {seconds} is no number of seconds"))?;
        }
        parameters.layer = Layer::Interval(shape);
    }
    Ok(parameters)
}

/// The numbers of the interval map that a device has.
fn intervals(spec: &DeviceSpec) -> Option<Intervals> {
    match spec.map {
        MapKind::Flat | MapKind::Zones => None,
        MapKind::Interval => Some(Intervals::paper()),
        MapKind::IntervalArtifact => Some(Intervals::artifact()),
    }
}

/// The zones of a zoned device, all of them conventional for now.
pub(crate) fn zones(spec: &DeviceSpec) -> Result<Option<ZoneGeometry>, String> {
    if spec.map != MapKind::Zones {
        return Ok(None);
    }
    let size = u64::from(parameters(spec, 0)?.geometry.line_pages());
    let (zones, ZoneLimits { max_open, max_active, .. }) = (spec.size.bytes() / 4096 / size, ZoneLimits::default());
    Ok(Some(ZoneGeometry { size, capacity: size, zones, conventional: zones, max_open, max_active }))
}

/// A run that is shorter by a factor, on a device that is smaller by it, has as many passes over as many nodes.
pub(crate) fn shrink_map(spec: &mut DeviceSpec, factor: f64) {
    let Some(shape) = intervals(spec) else { return };
    let pages = spec.map_node_pages.unwrap_or(shape.node_pages);
    spec.map_node_pages = Some(((f64::from(pages) * factor) as u32).max(NODE_PAGES.min(pages)));
    let period = spec.map_period.unwrap_or(shape.compaction.period.as_secs_f64());
    spec.map_period = Some(period * factor);
}

/// Refuses what cannot be made; `infinite` if the volume's addresses go far beyond the size, `moves` if the device is
/// to move blocks.
pub(crate) fn check(spec: &DeviceSpec, infinite: bool, moves: bool) -> Result<(), String> {
    if moves && (spec.preset == MEMORY || spec.map != MapKind::Flat) {
        return Err("device: a D2FS volume needs an emulated SSD with map = \"flat\", which then moves blocks".into());
    }
    if !moves && spec.records.is_some() {
        return Err("device.records is about a device below a volume with kind = \"d2fs\"".into());
    }
    if spec.size.bytes() < 32 << 20 || spec.size.bytes() > 16 << 40 {
        return Err(format!("device.size: {} bytes are no size for a volume", spec.size.bytes()));
    }
    let wants = spec.map_node_pages.is_some() || spec.map_period.is_some();
    if wants && intervals(spec).is_none() {
        return Err("device.map_node_pages and map_period are about a device with map = \"interval\"".into());
    }
    if spec.preset == MEMORY && !spec.parameters.is_empty() {
        return Err("device.parameters: memory has none".into());
    }
    if spec.preset == MEMORY {
        return if spec.map == MapKind::Flat { Ok(()) } else { Err("device.map: memory has no map".into()) };
    }
    if spec.over_provisioning.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
        return Err("device.over_provisioning is a share of the capacity, from 0 to 100".into());
    }
    if infinite && intervals(spec).is_none() {
        return Err("device.map: flat has no addresses beyond the size, and an IPLFS volume needs them: say \
                    map = \"interval\" (with map_period = 0 nothing is compacted)"
            .into());
    }
    parameters(spec, 0).map(drop)
}

impl Target {
    /// Makes the device, with so many blocks of addresses; one that moves blocks where there are areas for that, and a
    /// zoned one where there are zones. Where the power is to fail, it takes notes of what is in its flash.
    pub(crate) fn new(
        spec: &DeviceSpec,
        addresses: u64,
        areas: Option<&MigrationGeometry>,
        zones: Option<&ZoneGeometry>,
        power_fails: bool,
    ) -> Result<Self, String> {
        let bytes = spec.size.bytes() / 4096 * 4096;
        check(spec, addresses > bytes / 4096, areas.is_some())?;
        if spec.preset == MEMORY {
            return Ok(Target::Memory(Arc::new(MemDevice::new(addresses))));
        }
        let (mut parameters, mut bytes) = (parameters(spec, addresses)?, bytes);
        parameters.remember_cells = power_fails;
        if let Some(areas) = areas {
            let mut shape = Coupling::new(areas);
            shape.records = spec.records.map_or(shape.records, |size| (size.bytes() / RECORD) as u32);
            parameters.layer = Layer::Migrating(shape);
            bytes = areas.capacity * 4096;
        }
        if let Some(zones) = zones {
            let conventional = u32::try_from(zones.conventional).map_err(|_| "device.size: too many zones")?;
            let ZoneGeometry { max_open, max_active, .. } = *zones;
            parameters.layer = Layer::Zoned(ZoneLimits { max_open, max_active, conventional });
            bytes = zones.size * zones.zones * 4096;
        }
        let ssd = EmulatedSsd::new(parameters, bytes).map_err(|e| format!("device: {e}"))?;
        let begun = ssd.stats();
        let empty_map = begun.map.bytes;
        Ok(Target::Ssd(ssd, Box::new(Before { begun, empty_map })))
    }

    /// The device.
    pub(crate) fn device(&self) -> Arc<dyn Device> {
        match self {
            Target::Memory(device) => Arc::clone(device) as Arc<dyn Device>,
            Target::Ssd(ssd, _) => Arc::clone(ssd) as Arc<dyn Device>,
        }
    }

    /// The emulated SSD, if it is one.
    pub(crate) fn ssd(&self) -> Option<&Arc<EmulatedSsd>> {
        match self {
            Target::Memory(_) => None,
            Target::Ssd(ssd, _) => Some(ssd),
        }
    }

    /// The measured phase begins.
    pub(crate) fn begin(&mut self) {
        if let Target::Ssd(ssd, before) = self {
            before.begun = ssd.stats();
        }
    }

    /// Pages of the flash, if it is an emulated SSD.
    pub(crate) fn flash_pages(&self) -> Option<u64> {
        self.ssd().map(|ssd| ssd.stats().space).map(|space| space.mapped + space.invalid + space.free)
    }

    /// Figures of the measured phase that only the device knows.
    pub(crate) fn metrics(&self, seconds: f64) -> BTreeMap<String, f64> {
        let Target::Ssd(ssd, before) = self else { return BTreeMap::new() };
        let (Before { begun: before, empty_map }, after) = (&**before, ssd.stats());
        let mb_s = |pages: u64| pages as f64 * PAGE / seconds.max(1e-9) / 1e6;
        let busy = |after: &[u64], before: &[u64]| {
            let sum = |busy: &[u64]| busy.iter().sum::<u64>() as f64;
            (sum(after) - sum(before)) / after.len().max(1) as f64 / 1e9 / seconds.max(1e-9)
        };
        let mut metrics: BTreeMap<String, f64> = [
            ("flash_waf", after.waf_since(before)),
            ("flash_gc_mb_s", mb_s(after.gc_programmed - before.gc_programmed)),
            ("flash_lines_erased", (after.lines_erased - before.lines_erased) as f64),
            ("flash_chips_busy", busy(&after.chips_busy_ns, &before.chips_busy_ns)),
            ("flash_channels_busy", busy(&after.channels_busy_ns, &before.channels_busy_ns)),
            ("flash_programs_suspended", (after.suspended.0 - before.suspended.0) as f64),
            ("flash_erases_suspended", (after.suspended.1 - before.suspended.1) as f64),
            ("flash_longest_write_ms", after.write_latency.max_ns as f64 / 1e6),
            ("flash_held_mib", after.space.mapped as f64 / 256.0),
            ("flash_host_mib", (after.host_programmed - before.host_programmed) as f64 / 256.0),
            ("flash_copied_mib", (after.gc_programmed - before.gc_programmed) as f64 / 256.0),
            ("flash_own_mib", (after.meta_programmed - before.meta_programmed) as f64 / 256.0),
            ("flash_padding_mib", (after.padding - before.padding) as f64 / 256.0),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        metrics.extend(of_map(ssd, *empty_map, before, &after));
        metrics.extend(of_lines(ssd, before, &after));
        metrics
    }

    /// Below a D2FS volume, after its unmount: records that are left, and the most that there were, as a share of those
    /// for which the device has memory.
    pub(crate) fn records_left(&self) -> Option<(f64, f64)> {
        let ssd = self.ssd()?;
        let Layer::Migrating(shape) = ssd.parameters().layer else { return None };
        Some((ssd.outstanding() as f64, ssd.most_records() as f64 / f64::from(shape.records)))
    }

    /// Whether the device's own books agree; what was checked, or what is wrong.
    pub(crate) fn self_check(&self) -> Result<String, String> {
        match self {
            Target::Memory(_) => Ok("memory has nothing to check".into()),
            Target::Ssd(ssd, _) => {
                let report = ssd.check();
                if report.is_clean() { Ok(report.to_string()) } else { Err(format!("device: {report}")) }
            }
        }
    }
}

/// The memory of the map, and what its upkeep took.
fn of_map(ssd: &EmulatedSsd, empty: u64, before: &Stats, after: &Stats) -> Vec<(String, f64)> {
    let (map, map_before) = (after.map, before.map);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    // A flat map has four bytes for each page of the flash.
    let flat_bytes = 4 * (after.space.mapped + after.space.invalid + after.space.free);
    let share = |bytes: u64, of: u64| bytes as f64 / of.max(1) as f64;
    let mut metrics =
        vec![("flash_map_peak_mib", mib(map.peak_bytes)), ("flash_map_over_flat", share(map.peak_bytes, flat_bytes))];
    if let Layer::Migrating(shape) = ssd.parameters().layer {
        // What is not records never changes; an entry for each page of metadata, and one for each zone.
        let metadata = 4 * shape.meta;
        metrics.extend([
            ("flash_map_metadata_mib", mib(metadata)),
            ("flash_map_zones_mib", mib(empty - metadata)),
            ("flash_map_records_peak_mib", mib(map.peak_bytes - empty)),
            ("flash_map_fixed_over_flat", share(empty, flat_bytes)),
        ]);
    }
    if matches!(ssd.parameters().layer, Layer::Interval(_)) {
        metrics.extend([
            ("flash_map_mib", mib(map.bytes)),
            ("flash_map_uncompacted_mib", mib(map.uncompacted_bytes)),
            ("flash_map_uncompacted_peak_mib", mib(map.uncompacted_peak_bytes)),
            ("flash_map_share", share(map.peak_bytes, map.uncompacted_peak_bytes)),
            ("flash_map_saved", 1.0 - map.bytes as f64 / map.uncompacted_bytes.max(1) as f64),
            ("flash_map_nodes_compacted", (map.nodes_compacted - map_before.nodes_compacted) as f64),
            ("flash_map_stall_s", (map.stall_ns - map_before.stall_ns) as f64 / 1e9),
            ("flash_map_longest_stall_ms", map.longest_stall_ns as f64 / 1e6),
        ]);
    }
    metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What collecting took of the chips for each line that was erased, as if all chips shared it evenly, and the share of
/// a line's pages that were copied.
fn of_lines(ssd: &EmulatedSsd, before: &Stats, after: &Stats) -> Vec<(String, f64)> {
    let lines = after.lines_erased - before.lines_erased;
    if lines == 0 {
        return Vec::new();
    }
    let Parameters { geometry, timing, .. } = ssd.parameters();
    let chips = (lines * u64::from(geometry.chips())) as f64;
    let us = |after: u64, before: u64| (after - before) as f64 / 1e3 / chips;
    let read = us(after.gc_busy_ns.0, before.gc_busy_ns.0);
    let write = us(after.gc_busy_ns.1, before.gc_busy_ns.1);
    let erase = timing.erase.as_secs_f64() * 1e6;
    let pages = (lines * u64::from(geometry.line_pages())) as f64;
    [
        ("flash_line_read_us", read),
        ("flash_line_write_us", write),
        ("flash_line_us", read + write + erase),
        ("flash_line_copied", (after.gc_programmed - before.gc_programmed) as f64 / pages),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
