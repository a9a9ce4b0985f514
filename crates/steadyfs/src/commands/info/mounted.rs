//! A mounted volume: what it is, how full it is, and its counters, which its root directory gives to those who ask.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use steadyfs_core::stats::VolumeStats;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_format::quote::quote;
use steadyfs_fuse::STATS_ATTRIBUTE;

use super::{fullness, label, names};
use crate::calendar::duration;
use crate::failure::Failure;
use crate::live;
use crate::size::human;
use crate::text::print_json;

pub(super) fn run(dir: &Path, json: bool) -> Result<ExitCode, Failure> {
    let stats: Value = live::read(dir, STATS_ATTRIBUTE)?;
    if json {
        print_json(&stats)?;
        return Ok(ExitCode::SUCCESS);
    }
    let known = VolumeStats::deserialize(&stats)
        .map_err(|e| Failure::new(format!("cannot show {}", dir.display()), e, "use the version that serves it"))?;
    let mut out = io::stdout().lock();
    head(&known, &mut out)
        .and_then(|()| writeln!(out))
        .and_then(|()| counters("", &stats, &mut out))
        .map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

/// Its kind and names, in the words of an image's page.
fn head(stats: &VolumeStats, out: &mut impl Write) -> io::Result<()> {
    let mut line = |name: &str, value: String| writeln!(out, "{name:<14}{}", quote(&value));
    let (volume, bytes) = (&stats.volume, |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64));
    line("kind", volume.kind.clone())?;
    line("label", label(&volume.label))?;
    line("uuid", volume.uuid.clone())?;
    line("features", names(&volume.features, 0))?;
    if stats.logs.capacity == 0 {
        line("size", human(volume.size_bytes))?;
    }
    let total = bytes(stats.space.blocks);
    line("space", fullness(total.saturating_sub(bytes(stats.space.blocks_free)), total))?;
    let takes = if stats.read_only { "read-only" } else { "takes changes" };
    line("mounted", format!("{takes}, for {}", duration(stats.mounted_us / 1_000_000)))
}

/// One line for each number, named by its way down.
fn counters(name: &str, value: &Value, out: &mut impl Write) -> io::Result<()> {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| counters(&below(key), value, out)),
        Value::Array(items) if items.iter().all(Value::is_number) => {
            let numbers: Vec<String> = items.iter().map(Value::to_string).collect();
            writeln!(out, "{name:<44} {}", numbers.join(" "))
        }
        Value::Array(items) => items.iter().enumerate().try_for_each(|(i, value)| {
            // An entry with a name of its own is called by it.
            let key = value["name"].as_str().map_or_else(|| i.to_string(), str::to_owned);
            counters(&below(&key), value, out)
        }),
        other => writeln!(out, "{name:<44} {other}"),
    }
}
