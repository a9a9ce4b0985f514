//! What a run leaves: figures, a series, and what it cost.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use steadyfs_rt::LockStat;

/// Everything about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The figures.
    pub record: Record,
    /// The series, a row for each interval of the measured phase.
    pub rows: Vec<Row>,
    /// What it cost to run.
    pub cost: Cost,
}

/// The figures of a run: the same for the same experiment and seed, on any machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the experiment.
    pub experiment: String,
    /// Which of its systems; empty if it compares none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// Its scale.
    pub scale: String,
    /// The seed.
    pub seed: u64,
    /// The experiment as it was run, with every setting.
    pub settings: serde_json::Value,
    /// Figures of the measured phase by name: times end in `_s` or `_us`, rates in `_mb_s` (10^6 bytes).
    pub metrics: BTreeMap<String, f64>,
    /// Latencies by kind of operation, `all` for all together: pairs of a share of the operations and the microseconds
    /// that none of them exceeded.
    #[serde(default)]
    pub latencies: BTreeMap<String, Vec<(f64, f64)>>,
    /// Waits for locks in the measured phase.
    pub locks: Vec<LockWaits>,
    /// What was checked, and what came of it.
    pub checks: BTreeMap<String, String>,
    /// Virtual time from the first step to the last.
    pub simulated_seconds: f64,
    /// Scheduling events.
    pub events: u64,
    /// Hash of all events.
    pub trace: String,
}

/// Waits for the locks of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockWaits {
    /// The name.
    pub lock: String,
    /// Number of waits.
    pub waits: u64,
    /// Sum of the waits of all tasks, in seconds.
    pub seconds: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
}

impl From<LockStat> for LockWaits {
    fn from(stat: LockStat) -> Self {
        LockWaits {
            lock: stat.name.to_owned(),
            waits: stat.waits,
            seconds: stat.wait_ns as f64 / 1e9,
            longest_us: stat.max_wait_ns as f64 / 1e3,
        }
    }
}

/// What a run cost on the machine that ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Name of the experiment.
    pub experiment: String,
    /// Which of its systems; empty if it compares none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// Its scale.
    pub scale: String,
    /// The seed.
    pub seed: u64,
    /// The processor, and how many there are.
    pub machine: String,
    /// The commit that the program was built from, if the build said so, and whether assertions are compiled in.
    #[serde(default)]
    pub commit: String,
    /// CPU time.
    pub cpu_seconds: f64,
    /// The most memory that the process has had until then, in bytes; other runs of the process beside it included.
    pub peak_memory_bytes: u64,
    /// Scheduling events.
    pub events: u64,
    /// Events per second of CPU time.
    pub events_per_second: f64,
}

/// One interval of a series. Rates are means over the interval, in 10^6 bytes per second; the rest is as of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Its end, in seconds from the beginning of the measured phase.
    pub seconds: f64,
    /// What the jobs wrote.
    pub app_write_mb_s: f64,
    /// What the jobs read.
    pub app_read_mb_s: f64,
    /// What the file system wrote to the device.
    pub device_write_mb_s: f64,
    /// What it read from there.
    pub device_read_mb_s: f64,
    /// Blocks written to the device for each that the jobs wrote; 0 if they wrote none.
    pub waf: f64,
    /// Sections that can be written.
    pub free_sections: f64,
    /// Sections that the next checkpoint frees.
    pub prefree_sections: f64,
    /// Sections cleaned so far.
    pub victims: f64,
    /// Pages that wait to be written.
    pub dirty_pages: f64,
    /// The share of the cores' time in which they were busy.
    pub cpu: f64,
    /// Pages that the flash programmed for each that the host had programmed; 0 if it had none.
    pub flash_waf: f64,
    /// Memory of the flash's map, in MiB.
    pub map_mib: f64,
}

impl Row {
    /// Names of the columns, in the order of [`Row::values`].
    pub const COLUMNS: [&'static str; 13] = [
        "seconds",
        "app_write_mb_s",
        "app_read_mb_s",
        "device_write_mb_s",
        "device_read_mb_s",
        "waf",
        "free_sections",
        "prefree_sections",
        "victims",
        "dirty_pages",
        "cpu",
        "flash_waf",
        "map_mib",
    ];

    /// What the columns are called for people, in the same order.
    pub const NAMES: [&'static str; 13] = [
        "seconds",
        "application writes",
        "application reads",
        "device writes",
        "device reads",
        "write amplification",
        "free sections",
        "sections that the next checkpoint frees",
        "sections cleaned so far",
        "dirty pages",
        "busy cores",
        "write amplification of the flash",
        "memory of the map",
    ];

    /// The values.
    pub fn values(&self) -> [f64; 13] {
        [
            self.seconds,
            self.app_write_mb_s,
            self.app_read_mb_s,
            self.device_write_mb_s,
            self.device_read_mb_s,
            self.waf,
            self.free_sections,
            self.prefree_sections,
            self.victims,
            self.dirty_pages,
            self.cpu,
            self.flash_waf,
            self.map_mib,
        ]
    }

    /// The same with six decimals, as files have it, so that what was read back is what was written.
    pub(crate) fn rounded(&self) -> Self {
        Row::from_values(self.values().map(|value| (value * 1e6).round() / 1e6))
    }

    /// A row from its values.
    pub fn from_values(v: [f64; 13]) -> Self {
        let [seconds, app_write_mb_s, app_read_mb_s, device_write_mb_s, device_read_mb_s, waf, ..] = v;
        let [.., free_sections, prefree_sections, victims, dirty_pages, cpu, flash_waf, map_mib] = v;
        Row {
            seconds,
            app_write_mb_s,
            app_read_mb_s,
            device_write_mb_s,
            device_read_mb_s,
            waf,
            free_sections,
            prefree_sections,
            victims,
            dirty_pages,
            cpu,
            flash_waf,
            map_mib,
        }
    }
}
