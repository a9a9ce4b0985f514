//! What an experiment is: the contents of its file.
//!
//! Files are TOML; those under `experiments/` are part of the program. Every key is checked: one that nobody knows is
//! an error that names it and lists those that there are. [`Experiment::set`] changes a key before a run,
//! [`Experiment::scaled`] makes everything that has a size smaller by the same factor.

mod builtin;
mod collection;
mod near;
mod size;
mod sweep;
mod volume;
mod window;

use crate::error::{Error, Result};
use crate::workload::Workload;
pub use builtin::{builtin, builtin_text, builtins};
pub(crate) use collection::Collection;
use serde::{Deserialize, Serialize};
pub use size::Scale;
pub(crate) use size::Size;
use std::collections::BTreeMap;
use std::path::Path;
use steadyfs_core::{MountOptions, Own, VictimPolicy};
use steadyfs_rt::Cost;
use steadyfs_rt::sim::{Costs, SimConfig};
pub use sweep::Sweep;
pub(crate) use volume::{VolumeKind, VolumeSpec};
pub use window::{Span, Window};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is called.
    pub name: String,
    /// What it shows, in one line.
    pub title: String,
    /// Where the claims come from.
    #[serde(default)]
    pub source: String,
    /// What a reader of the figures should know.
    #[serde(default)]
    pub notes: String,
    /// The smallest scale at which its figures were held against its source. At a smaller one nothing is judged: a
    /// small volume bears fewer collectors, and a checkpoint takes a larger part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_at_least: Option<Scale>,
    /// Seeds of the runs: each gives one run. Seed 0 breaks no ties at random.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// Seconds of virtual time between two points of a series.
    #[serde(default = "one_second")]
    pub interval: f64,
    /// Whether every page is read back in the end, and the volume checked.
    #[serde(default = "yes")]
    pub verify: bool,
    pub(crate) machine: Machine,
    pub(crate) device: DeviceSpec,
    #[serde(default)]
    pub(crate) volume: VolumeSpec,
    /// How the host collects.
    #[serde(default)]
    pub(crate) gc: Collection,
    pub(crate) workload: Workload,
    /// Somebody else's program on the same cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) neighbour: Option<Neighbour>,
    /// A power cut after the measured phase, and the next mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<Cut>,
    /// Systems that are compared: each is run, with settings of its own. None: one run, with the settings as they are.
    #[serde(default, rename = "system", skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<System>,
    /// A setting that is changed from run to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Parts of the measured phase that have figures of their own.
    #[serde(default, rename = "window", skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// What the source says.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// What to draw.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
    /// A policy of a program's own, for one run: no file has it.
    #[serde(skip)]
    pub(crate) victims_by: Option<Own<dyn VictimPolicy>>,
}

/// The computer that is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// Virtual cores.
    pub(crate) cores: usize,
    /// Prices of CPU work that differ from the default, in nanoseconds, by the names that `lab calibrate` prints.
    #[serde(default)]
    pub(crate) costs: BTreeMap<String, u32>,
}

/// The device below the volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceSpec {
    /// Which device: see `device`.
    pub(crate) preset: String,
    /// Bytes of the partition.
    pub(crate) size: Size,
    /// Flash beyond the partition, as a share of it; the preset's own if not given.
    #[serde(default)]
    pub(crate) over_provisioning: Option<f64>,
    /// Blocks of the flash are smaller by this factor, as `Parameters::with_smaller_blocks` has it; 0 or 1 for the
    /// preset's own.
    #[serde(default)]
    pub(crate) smaller_blocks: u32,
    /// Numbers of the preset that differ, by the names of `Parameters::set` of `steadyfs_flash`.
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Number>,
    /// How the device finds its pages.
    #[serde(default)]
    pub(crate) map: MapKind,
    /// Pages of a node of an interval map; the map's own if not given. Becomes smaller with the scale, down to 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) map_node_pages: Option<u32>,
    /// Seconds between two passes of compaction of an interval map, 0 for none; the map's own if not given. Becomes
    /// shorter with the scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) map_period: Option<f64>,
    /// Memory for records of a device that moves blocks, 16 bytes each; as much as it could ever need if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<Size>,
}

/// A number of a device as it stands in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Number {
    Whole(u64),
    Share(f64),
    Switch(bool),
    Word(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Share(share) => share.fmt(f),
            Number::Switch(on) => on.fmt(f),
            Number::Word(word) => word.fmt(f),
        }
    }
}

/// Maps of an emulated SSD that collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MapKind {
    /// An entry for each page.
    #[default]
    Flat,
    /// Intervals, with the numbers of IPLFS' paper.
    Interval,
    /// Intervals, with those of D2FS' artifact.
    IntervalArtifact,
    /// None: a zoned device. A zone is a line; as many of the first as metadata takes are conventional.
    Zones,
}

/// Tasks that compute on the same cores during the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Neighbour {
    /// How many.
    pub(crate) threads: u32,
    /// Microseconds of an operation.
    pub(crate) slice_us: u64,
    /// Milliseconds that they work before anybody else does, for comparison.
    #[serde(default = "hundred")]
    pub(crate) alone_ms: u64,
}

fn hundred() -> u64 {
    100
}

impl Neighbour {
    fn check(&self) -> std::result::Result<(), String> {
        if self.threads == 0 || self.threads > 4096 {
            return Err(format!("neighbour.threads: {} is not between 1 and 4096", self.threads));
        }
        if self.slice_us == 0 || self.slice_us > 1_000_000 || self.alone_ms == 0 || self.alone_ms > 10_000 {
            return Err("neighbour: say a slice_us of 1 to 1000000, and an alone_ms of 1 to 10000".into());
        }
        Ok(())
    }
}

/// One of the systems that an experiment compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// What it is called.
    pub name: String,
    /// What is different with it, as for [`Experiment::set`].
    #[serde(default)]
    pub set: Vec<String>,
}

/// What a paper says about one figure of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The figure.
    pub metric: String,
    /// The system whose figure it is, where several are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The system by whose figure it is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Instead of `over`: it is divided by the figure of one of the other systems, whichever it is ("up to so many
    /// times"); with a sweep, of those with the same value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_others: Option<Others>,
    /// What the paper says of it, in words.
    #[serde(default)]
    pub says: String,
    /// Where.
    #[serde(default)]
    pub source: String,
    /// The number.
    #[serde(default)]
    pub value: Option<f64>,
    /// How far ours may be from the number, as a share of it.
    #[serde(default)]
    pub tolerance: f64,
    /// Ours must be no less than this.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Ours must be no more than this.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// The number shrinks with the scale, as times do and rates do not.
    #[serde(default)]
    pub scales: bool,
    /// Means something at full scale only.
    #[serde(default)]
    pub full_scale: bool,
}

/// A power cut below a D2FS volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cut {
    /// The device moves pages until so many of its records are outstanding. Does not become smaller with the scale.
    pub(crate) records: u64,
}

/// One of the systems that a system is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// The one with the lowest figure.
    Lowest,
    /// The one with the highest.
    Highest,
}

/// What the horizontal axis of a plot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlotOver {
    /// Time: a line for each column of the series.
    #[default]
    Seconds,
    /// Latency, logarithmic: the share of operations of each kind that took longer.
    Latency,
    /// The value of the sweep: a line for each figure.
    Sweep,
}

/// A figure to draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// What its horizontal axis is.
    #[serde(default)]
    pub over: PlotOver,
    /// Over a sweep: a figure that each point stands at, instead of the value of the sweep.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub against: String,
    /// Columns of the series, kinds of operations, or figures: one line each, for each system.
    pub series: Vec<String>,
    /// What the vertical axis counts.
    pub unit: String,
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

fn one_second() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// An experiment by name, or from a file.
///
/// # Errors
/// There is no such experiment or file, or its text makes no sense.
pub fn open(name: &str) -> Result<Experiment> {
    if !name.contains(['.', '/']) {
        return builtin(name);
    }
    let text = std::fs::read_to_string(Path::new(name)).map_err(|source| Error::File { path: name.into(), source })?;
    Experiment::parse(name, &text)
}

impl Experiment {
    /// The smallest scale at which it says something, if that is larger than this one.
    pub fn is_too_small(&self, scale: Scale) -> Option<Scale> {
        self.scale_at_least.filter(|least| scale.factor() < least.factor())
    }

    /// An experiment from its text; `place` is for messages.
    ///
    /// # Errors
    /// Unknown keys, with those that are known; values of the wrong kind; what no run could do.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let experiment: Experiment = toml::from_str(text).map_err(|e| Error::spec(place, with_line(text, &e)))?;
        experiment.check().map_err(|why| Error::spec(place, why))?;
        Ok(experiment)
    }

    /// Changes one key, named by its path (`workload.numjobs`); the value is TOML, or else text.
    ///
    /// # Errors
    /// The key is unknown, or the value is of the wrong kind or makes no sense.
    pub fn set(&mut self, setting: &str) -> Result<()> {
        let place = format!("setting '{setting}'");
        let (path, value) = setting.split_once('=').ok_or_else(|| Error::spec(&place, "say KEY=VALUE"))?;
        let text = |value: &str| toml::Value::String(value.to_owned());
        let value = value.parse::<toml::Value>().unwrap_or_else(|_| text(value));
        let mut table = toml::Table::try_from(&*self).map_err(|e| Error::spec(&place, e))?;
        let (parents, key) = path.rsplit_once('.').map_or(("", path), |(parents, key)| (parents, key));
        let mut at = &mut table;
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            let known: Vec<String> = at.iter().filter(|(_, v)| v.is_table()).map(|(k, _)| k.clone()).collect();
            at = at.get_mut(parent).and_then(toml::Value::as_table_mut).ok_or_else(|| {
                Error::spec(&place, format!("unknown key '{parent}', expected one of {}", known.join(", ")))
            })?;
        }
        at.insert(key.to_owned(), value);
        let changed: Experiment = table.try_into().map_err(|e: toml::de::Error| Error::spec(&place, e.message()))?;
        changed.check().map_err(|why| Error::spec(&place, why))?;
        *self = changed;
        Ok(())
    }

    /// Names of the systems that are run; one without a name if none are compared.
    pub fn system_names(&self) -> Vec<String> {
        let systems = self.all_systems();
        if systems.is_empty() { vec![String::new()] } else { systems.into_iter().map(|system| system.name).collect() }
    }

    /// Leaves only these systems, and the claims that are about no other; all of them if none is named.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn keep_systems(&mut self, names: &[String]) -> Result<()> {
        if let Some(unknown) = names.iter().find(|name| !self.systems.iter().any(|system| system.name == **name)) {
            let known = self.systems.iter().map(|system| system.name.clone()).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "it compares none" } else { &known };
            return Err(Error::spec(&self.name, format!("no system '{unknown}'; its systems: {known}")));
        }
        if !names.is_empty() {
            let all = self.systems.len();
            self.systems.retain(|system| names.contains(&system.name));
            let (left, fewer) = (self.system_names(), self.systems.len() < all);
            let gone = |name: &Option<String>| name.as_ref().is_some_and(|name| !left.contains(name));
            // What holds over some of the others says nothing of what holds over all.
            let gone = |claim: &Claim| gone(&claim.system) || gone(&claim.over) || fewer && claim.over_others.is_some();
            self.claims.retain(|claim| !gone(claim));
        }
        Ok(())
    }

    /// The experiment with one system.
    pub(crate) fn with_system(&self, name: &str) -> Result<Self> {
        // Claims are judged over all systems.
        let mut one = Experiment { systems: Vec::new(), claims: Vec::new(), sweep: None, ..self.clone() };
        let settings =
            self.all_systems().into_iter().filter(|system| system.name == name).flat_map(|system| system.set);
        settings.into_iter().try_for_each(|setting| one.set(&setting))?;
        Ok(one)
    }

    /// The same experiment on a smaller volume with smaller files, caches and amounts. What mkfs keeps back is a larger
    /// share of a smaller volume, so files and amounts shrink with the space that users have: they fill the same share
    /// of it, and are written as often. Times of the workload stay; the series has as many points as before.
    ///
    /// # Errors
    /// No volume can be made at this scale.
    pub fn scaled(mut self, scale: Scale) -> Result<Self> {
        if scale.is_full() {
            return Ok(self);
        }
        let before = self.room()?;
        self.device.size = self.device.size.times(scale.factor(), 2 << 20);
        self.interval *= scale.factor();
        crate::device::shrink_map(&mut self.device, scale.factor());
        self.volume = self.volume.scaled(scale.factor());
        self.windows = self.windows.into_iter().map(|window| window.scaled(scale.factor())).collect();
        let after = self.room()?;
        self.workload = self.workload.scaled(after as f64 / before as f64);
        self.check().map_err(|why| Error::spec(format!("{} at scale {scale}", self.name), why))?;
        Ok(self)
    }

    /// Blocks that the workload may use.
    fn room(&self) -> Result<u64> {
        if self.workload.has_volume() { self.user_blocks() } else { Ok(self.device.size.bytes() / 4096) }
    }

    /// What no parser sees.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if self.machine.cores == 0 || self.machine.cores > 4096 {
            return Err(format!("machine.cores: {} is not between 1 and 4096", self.machine.cores));
        }
        if !(self.interval > 0.0 && self.interval < 1e6) {
            return Err(format!("interval: {} is no number of seconds above 0", self.interval));
        }
        if self.seeds.is_empty() {
            return Err("seeds: there is none".into());
        }
        self.costs()?;
        self.plain_mount_options().map_err(|e| format!("volume.mount: {e}"))?;
        self.volume.check()?;
        self.check_collection()?;
        window::check(&self.windows)?;
        let is = |kind| self.workload.has_volume() && self.volume.kind == kind;
        crate::device::check(&self.device, is(VolumeKind::Iplfs), is(VolumeKind::D2fs))?;
        if self.device.map == MapKind::Zones && !is(VolumeKind::F2fs) {
            return Err("device.map: zones are for a volume with kind = \"f2fs\"".into());
        }
        self.workload.check()?;
        if let Some(cut) = self.cut {
            let bound = self.device.records.map_or(u64::MAX, |size| size.bytes() / crate::device::RECORD);
            if self.volume.kind != VolumeKind::D2fs || !self.workload.has_volume() || cut.records * 2 >= bound {
                return Err("cut: that is for a D2FS volume, whose device.records hold more than twice as many".into());
            }
        }
        match &self.neighbour {
            Some(_) if !self.workload.has_volume() => return Err("neighbour: this workload has no volume".into()),
            Some(neighbour) => neighbour.check()?,
            None => {}
        }
        self.check_systems()?;
        let (files, device) = (self.workload.file_bytes(), self.device.size.bytes());
        if files > device {
            return Err(format!("workload: {files} bytes of files on a device of {device}"));
        }
        Ok(())
    }

    fn check_systems(&self) -> std::result::Result<(), String> {
        self.check_sweep()?;
        for (at, System { name, .. }) in self.systems.iter().enumerate() {
            if name.is_empty() || self.systems[..at].iter().any(|other| other.name == *name) {
                return Err(format!("system: '{name}' is empty, or the name of two"));
            }
        }
        let all = self.all_systems();
        for System { name, .. } in &all {
            self.with_system(name).map_err(|e| format!("system {name}: {e}"))?;
        }
        if let Some(claim) =
            self.claims.iter().find(|c| c.over_others.is_some() && (c.system.is_none() || c.over.is_some()))
        {
            return Err(format!("claim '{}': over_others needs a system, and stands instead of over", claim.metric));
        }
        let named = self.claims.iter().flat_map(|claim| [&claim.system, &claim.over]).flatten();
        let known = |name: &&String| all.iter().any(|system| system.name == **name);
        match named.into_iter().find(|name| !known(name)) {
            Some(name) => Err(format!("claim: there is no system '{name}'")),
            None => Ok(()),
        }
    }

    pub(crate) fn costs(&self) -> std::result::Result<Costs, String> {
        let mut costs = Costs::default();
        for (name, ns) in &self.machine.costs {
            let cost = Cost::ALL.into_iter().find(|cost| cost_name(*cost) == *name).ok_or_else(|| {
                let known: Vec<String> = Cost::ALL.into_iter().map(cost_name).collect();
                format!("machine.costs: unknown key '{name}', expected one of {}", known.join(", "))
            })?;
            costs.set(cost, *ns);
        }
        Ok(costs)
    }

    /// The simulation of a run.
    pub(crate) fn sim(&self, seed: u64) -> Result<SimConfig> {
        let costs = self.costs().map_err(|why| Error::spec(&self.name, why))?;
        Ok(SimConfig { cores: self.machine.cores, seed, costs, ..SimConfig::default() })
    }

    /// The options of the mount, for a run: a formula stays in memory for good.
    pub(crate) fn mount_options(&self) -> std::result::Result<MountOptions, steadyfs_core::Error> {
        let mut options = self.plain_mount_options()?;
        let scored = || self.gc.score.as_ref().map(|score| score.0.clone().keep());
        options.gc.victims_by = self.victims_by.or_else(scored);
        Ok(options)
    }

    /// The same without a policy for victims.
    pub(crate) fn plain_mount_options(&self) -> std::result::Result<MountOptions, steadyfs_core::Error> {
        let mut options = MountOptions::parse(&self.volume.mount)?;
        for (name, size) in [("cache", self.volume.cache), ("node_cache", self.volume.node_cache)] {
            if let Some(size) = size {
                options.set(&format!("{name}={}", size.bytes()))?;
            }
        }
        Ok(options)
    }
}

/// The name of a price in files and tables: `page_copy`.
pub(crate) fn cost_name(cost: Cost) -> String {
    let mut name = String::new();
    for c in format!("{cost:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The message of the parser in one line, with the line of the file.
fn with_line(text: &str, e: &toml::de::Error) -> String {
    let line = e.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let message = e.message().replace('\n', " ");
    line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}

#[cfg(test)]
mod tests;
