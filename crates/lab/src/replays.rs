//! Experiments from a trace: the same operations on each of some designs, on devices with each of some
//! over-provisionings.

use crate::error::{Error, Result};
use crate::spec::{Collection, DeviceSpec, Experiment, Machine, MapKind, Plot, PlotOver, Size, VolumeSpec};
use crate::workload::{Replay, Workload};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a replay is to be compared over.
#[derive(Clone, Debug)]
pub struct Replays {
    /// The file of the trace.
    pub trace: PathBuf,
    /// Mount options of each design; none is one design with the defaults.
    pub mounts: Vec<String>,
    /// Flash beyond the partition, as shares of it; none is one device with its own.
    pub over_provisioning: Vec<f64>,
    /// The device, as in experiments.
    pub device: String,
    /// Bytes of the partition; from the trace if not given.
    pub size: Option<u64>,
    /// Virtual cores.
    pub cores: usize,
    /// How full the volume is to be before, as a share of what users have of it: what the trace's own files leave is
    /// one file that nobody uses. 0 for nothing besides.
    pub fill: f64,
    /// How many times as fast programs think; 0 for not at all.
    pub speed: f64,
}

/// The smallest partition that is made of a trace's own need.
const LEAST: u64 = 128 << 20;
/// Points of the series.
const POINTS: f64 = 200.0;

impl Replays {
    /// An experiment for each design and each over-provisioning, and with them what they are made of.
    ///
    /// # Errors
    /// The trace cannot be read, or an option makes no sense.
    pub fn experiments(&self) -> Result<Vec<Experiment>> {
        let replay = Replay::new(self.trace.clone(), self.speed);
        let script = replay.script().map_err(|why| Error::spec("replay", why))?;
        // What mkfs keeps back of a small volume is much: a third more than the files, and the least that makes sense.
        let need = (script.peak_bytes() / 2 * 3 + (64 << 20)).next_multiple_of(2 << 20).max(LEAST);
        let size = self.size.unwrap_or(need);
        if !(0.0..1.0).contains(&self.fill) {
            return Err(Error::spec("replay", "how full the volume is to be is a share of it, from 0 to less than 1"));
        }
        let seconds = if self.speed > 0.0 { script.seconds() / self.speed } else { script.seconds() };
        let shares: Vec<Option<f64>> = match self.over_provisioning[..] {
            [] => vec![None],
            _ => self.over_provisioning.iter().copied().map(Some).collect(),
        };
        let default = [String::new()];
        let mounts = if self.mounts.is_empty() { &default[..] } else { &self.mounts };
        let mut out = Vec::new();
        for mount in mounts {
            for share in &shares {
                let design = if mount.is_empty() { "default options" } else { mount };
                let flash = share.map_or("its own".to_owned(), |share| share.to_string());
                let mut experiment = Experiment {
                    name: format!("replay, {design}, over-provisioning {flash}"),
                    title: format!("{} replayed on {}", self.trace.display(), self.device),
                    source: String::new(),
                    notes: String::new(),
                    scale_at_least: None,
                    seeds: vec![0],
                    sweep: None,
                    interval: (seconds / POINTS).clamp(0.001, 10.0),
                    verify: true,
                    machine: Machine { cores: self.cores, costs: BTreeMap::new() },
                    device: DeviceSpec {
                        preset: self.device.clone(),
                        size: Size::of(size),
                        over_provisioning: *share,
                        // Blocks of a large drive on a small one: as few as its collection can work with.
                        smaller_blocks: smaller_blocks(size),
                        parameters: BTreeMap::new(),
                        map: MapKind::Flat,
                        map_node_pages: None,
                        map_period: None,
                        records: None,
                    },
                    volume: VolumeSpec { mount: mount.clone(), ..VolumeSpec::default() },
                    gc: Collection::default(),
                    workload: Workload::Replay(replay.clone()),
                    neighbour: None,
                    cut: None,
                    systems: Vec::new(),
                    windows: Vec::new(),
                    claims: Vec::new(),
                    plots: plots(),
                    victims_by: None,
                };
                if self.fill > 0.0 {
                    let wanted = (experiment.user_blocks()? as f64 * self.fill) as u64 * 4096;
                    let fill = Size::of(wanted.saturating_sub(script.initial_bytes()) / 4096 * 4096);
                    experiment.workload = Workload::Replay(replay.clone().beside(fill));
                }
                experiment.check().map_err(|why| Error::spec("replay", why))?;
                out.push(experiment);
            }
        }
        Ok(out)
    }
}

/// Blocks of flash are smaller on small devices, so that there are enough of them to collect.
fn smaller_blocks(size: u64) -> u32 {
    match size >> 30 {
        0 => 16,
        1..8 => 8,
        8..64 => 2,
        _ => 1,
    }
}

fn plots() -> Vec<Plot> {
    let plot = |title: &str, series: &[&str], unit: &str| Plot {
        title: title.into(),
        over: PlotOver::Seconds,
        against: String::new(),
        series: series.iter().map(|name| (*name).to_owned()).collect(),
        unit: unit.into(),
    };
    vec![
        plot("What programs moved", &["app_write_mb_s", "app_read_mb_s"], "MB/s"),
        plot("Device bandwidth", &["device_write_mb_s", "device_read_mb_s"], "MB/s"),
        plot("Free sections", &["free_sections"], "sections"),
    ]
}
